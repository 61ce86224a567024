; Tells an x86 core that it is waiting in a loop.

declare void @llvm.x86.sse2.pause()

define internal void @pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}
