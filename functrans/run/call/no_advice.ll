; For a system that takes no advice about memory.

define internal void @advise(ptr %block, i64 %size) {
  ret void
}
