; Maximum and minimum as MPI reduction operations that propagate NaN, as NumPy's do. (The MPI
; standard leaves the result of its own operations for NaN undefined.)

declare double @llvm.maximum.f64(double, double)
declare double @llvm.minimum.f64(double, double)
declare float @llvm.maximum.f32(float, float)
declare float @llvm.minimum.f32(float, float)

define void @OPERATION_NUMBER(ptr %in, ptr %inout, ptr %length, ptr %type) {
  %length32 = load i32, ptr %length
  %n = sext i32 %length32 to i64
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %x.p = getelementptr NUMBER, ptr %in, i64 %i
  %y.p = getelementptr NUMBER, ptr %inout, i64 %i
  %x = load NUMBER, ptr %x.p
  %y = load NUMBER, ptr %y.p
  %z = call NUMBER @llvm.OPERATIONimum.BITS(NUMBER %x, NUMBER %y)
  store NUMBER %z, ptr %y.p
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}
