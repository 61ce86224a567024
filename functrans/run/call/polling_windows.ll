; The identity of the current thread and the time, by the Windows API.

declare i32 @GetCurrentThreadId()
declare i64 @GetTickCount64()
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)

define internal i64 @this_thread() alwaysinline {
  %number = call i32 @GetCurrentThreadId()
  %wide = zext i32 %number to i64
  ret i64 %wide
}

define internal i64 @milliseconds() alwaysinline {
  %time = call i64 @GetTickCount64()
  ret i64 %time
}

define internal i64 @nanoseconds() alwaysinline {  ; seconds and remainder apart, to avoid overflow
  %count.p = alloca i64
  %frequency.p = alloca i64
  call i32 @QueryPerformanceCounter(ptr %count.p)
  call i32 @QueryPerformanceFrequency(ptr %frequency.p)
  %count = load i64, ptr %count.p
  %frequency = load i64, ptr %frequency.p
  %seconds = sdiv i64 %count, %frequency
  %rest = srem i64 %count, %frequency
  %whole = mul i64 %seconds, 1000000000
  %rest.long = mul i64 %rest, 1000000000
  %part = sdiv i64 %rest.long, %frequency
  %both = add i64 %whole, %part
  ret i64 %both
}
