; For a CPU without an instruction that says that it is waiting in a loop.

define internal void @pause() {
  ret void
}
