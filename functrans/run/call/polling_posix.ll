; The identity of the current thread and the time, by POSIX. CLOCK stands for the clock's number.

declare i64 @PyThread_get_thread_ident()
declare i32 @clock_gettime(i32, ptr)

define internal i64 @this_thread() alwaysinline {
  %number = call i64 @PyThread_get_thread_ident()
  ret i64 %number
}

define internal i64 @nanoseconds() alwaysinline {
  %time = alloca i64, i64 2                        ; seconds, nanoseconds
  call i32 @clock_gettime(i32 CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %part.p = getelementptr i64, ptr %time, i64 1
  %part = load i64, ptr %part.p
  %whole = mul i64 %seconds, 1000000000
  %both = add i64 %whole, %part
  ret i64 %both
}

define internal i64 @milliseconds() alwaysinline {
  %time = call i64 @nanoseconds()
  %short = sdiv i64 %time, 1000000
  ret i64 %short
}
