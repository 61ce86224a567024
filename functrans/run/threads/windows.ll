; Mutex, condition variable and yield on Windows: slim locks of one word each.

declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeAllConditionVariable(ptr)
declare i32 @SwitchToThread()

define internal void @prepare(ptr %mutex, ptr %condition) alwaysinline {
  store ptr null, ptr %mutex
  store ptr null, ptr %condition
  ret void
}
define internal void @lock(ptr %mutex) alwaysinline {
  call void @AcquireSRWLockExclusive(ptr %mutex)
  ret void
}
define internal void @unlock(ptr %mutex) alwaysinline {
  call void @ReleaseSRWLockExclusive(ptr %mutex)
  ret void
}
define internal void @sleep(ptr %condition, ptr %mutex) alwaysinline {
  call i32 @SleepConditionVariableSRW(ptr %condition, ptr %mutex, i32 -1, i32 0)
  ret void
}
define internal void @wake(ptr %condition) alwaysinline {
  call void @WakeAllConditionVariable(ptr %condition)
  ret void
}
define internal void @yield() alwaysinline {
  call i32 @SwitchToThread()
  ret void
}
