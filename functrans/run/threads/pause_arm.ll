; Pause in a spin loop, on 64-bit Arm: the hint YIELD.

declare void @llvm.aarch64.hint(i32)

define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
