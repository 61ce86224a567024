; Tells a 64-bit Arm core that it is waiting in a loop: the hint YIELD.

declare void @llvm.aarch64.hint(i32)

define internal void @pause() {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
