; Which thread this is, and what time, by Windows.

declare i32 @GetCurrentThreadId()
declare i64 @GetTickCount64()

define internal i64 @this_thread() {
  %number = call i32 @GetCurrentThreadId()
  %wide = zext i32 %number to i64
  ret i64 %wide
}

define internal i64 @milliseconds() {
  %time = call i64 @GetTickCount64()
  ret i64 %time
}
