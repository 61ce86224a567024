; Mutex, condition variable and yield, by POSIX threads.

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @prepare(ptr %mutex, ptr %condition) alwaysinline {
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}
define internal void @lock(ptr %mutex) alwaysinline {
  call i32 @pthread_mutex_lock(ptr %mutex)
  ret void
}
define internal void @unlock(ptr %mutex) alwaysinline {
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
define internal void @sleep(ptr %condition, ptr %mutex) alwaysinline {
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  ret void
}
define internal void @wake(ptr %condition) alwaysinline {
  call i32 @pthread_cond_broadcast(ptr %condition)
  ret void
}
define internal void @yield() alwaysinline {
  call i32 @sched_yield()
  ret void
}
