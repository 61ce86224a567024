; Interpreter of programs: runs the steps of a program on the addresses of its arrays.
;
; functrans/run/call/steps.py documents and builds the table. Nothing here depends on the layout of
; Python objects.
;
; Functions that are rarely called, or together with much longer ones, are not optimised (`optnone`),
; here and in the other files of the runtime: LLVM takes a fraction of the time for them.

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @this_thread()
declare i64 @milliseconds()
declare i64 @nanoseconds()
declare void @advise(ptr, i64)

define internal ptr @arena(ptr %table) alwaysinline {
  %bytes.p = getelementptr i64, ptr %table, i64 3
  %bytes = load i64, ptr %bytes.p
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %nothing, label %take
nothing:
  ret ptr null
take:                                              ; other threads may run this program
  %kept.p = getelementptr i64, ptr %table, i64 4
  %kept = atomicrmw xchg ptr %kept.p, i64 0 acquire
  %empty = icmp eq i64 %kept, 0
  br i1 %empty, label %allocate, label %reuse
reuse:
  %old = inttoptr i64 %kept to ptr
  ret ptr %old
allocate:
  %padded = add i64 %bytes, 64
  %new = call ptr @PyMem_RawMalloc(i64 %padded)
  %got = icmp ne ptr %new, null
  br i1 %got, label %advice, label %given
advice:
  call void @advise(ptr %new, i64 %padded)
  br label %given
given:
  ret ptr %new
}

define internal void @give_back(ptr %table, ptr %arena) alwaysinline {
  %word = ptrtoint ptr %arena to i64
  %kept.p = getelementptr i64, ptr %table, i64 4
  %old = atomicrmw xchg ptr %kept.p, i64 %word release
  %surplus = inttoptr i64 %old to ptr
  call void @PyMem_RawFree(ptr %surplus)
  ret void
}

; Checks for signals, between the strips of long loops. The flag is an array of words:
;
;      0  the status
;      1  the address of this function
;      2  the calling thread, or 0 if there is no Python whose signals to check
;      3  the saved Python thread state, once the GIL has been released
;      4  the time of the next check
;      5  Python's main thread, the only one that runs signal handlers
;      6  the address of @nanoseconds if a timeline is recorded, or 0; if so:
;      7  the address of @took, which records the duration of a step
;      8  the timeline (functrans/run/call/timeline.py)
;      9  the number of the program
;     10  the number of the step
;
; A program that was expected to be short releases the GIL at the first check.
define internal void @poll(ptr %flag) noinline optnone {
  %thread.p = getelementptr i64, ptr %flag, i64 2
  %thread = load i64, ptr %thread.p
  %me = call i64 @this_thread()
  %mine = icmp eq i64 %thread, %me
  br i1 %mine, label %time, label %done
time:
  %next.p = getelementptr i64, ptr %flag, i64 4
  %next = load i64, ptr %next.p
  %now = call i64 @milliseconds()
  %later = add i64 %now, 40                        ; taking the GIL may take 5 ms if it is held
  %is.first = icmp eq i64 %next, 0
  br i1 %is.first, label %begin, label %compare
begin:
  %soon = add i64 %now, 10
  store i64 %soon, ptr %next.p
  br label %done
compare:
  %due = icmp sge i64 %now, %next
  br i1 %due, label %look, label %done
look:
  %stopped = call i1 @is_stopped(ptr %flag)
  br i1 %stopped, label %done, label %ask
ask:
  %main.p = getelementptr i64, ptr %flag, i64 5
  %main = load i64, ptr %main.p
  %is.main = icmp eq i64 %main, %me
  %then = select i1 %is.main, i64 %later, i64 9223372036854775807
  store i64 %then, ptr %next.p
  %state.p = getelementptr i64, ptr %flag, i64 3
  %state = load ptr, ptr %state.p
  %let.go = icmp ne ptr %state, null
  br i1 %let.go, label %take, label %check
take:
  call void @PyEval_RestoreThread(ptr %state)
  br label %check
check:
  %raised = call i32 @PyErr_CheckSignals()
  %well = icmp eq i32 %raised, 0
  br i1 %well, label %release, label %stop
stop:
  store atomic i64 9, ptr %flag monotonic, align 8
  br label %release
release:
  %state.new = call ptr @PyEval_SaveThread()
  store ptr %state.new, ptr %state.p
  br label %done
done:
  ret void
}

; Records in the timeline that a step, or a thread's share of it, has run from a given time until
; now. Events beyond the capacity are only counted.
define internal void @took(ptr %flag, i64 %share, i64 %start) noinline optnone {
  %end = call i64 @nanoseconds()
  %log.p = getelementptr i64, ptr %flag, i64 8
  %log = load ptr, ptr %log.p
  %count.p = getelementptr i64, ptr %log, i64 1
  %at = atomicrmw add ptr %count.p, i64 1 monotonic
  %room = load atomic i64, ptr %log monotonic, align 8
  %fits = icmp slt i64 %at, %room
  br i1 %fits, label %write, label %done
write:
  %events.p = getelementptr i64, ptr %log, i64 2
  %events = load ptr, ptr %events.p
  %word = mul i64 %at, 6
  %event = getelementptr i64, ptr %events, i64 %word
  %program.p = getelementptr i64, ptr %flag, i64 9
  %program = load i64, ptr %program.p
  %step.p = getelementptr i64, ptr %flag, i64 10
  %step = load i64, ptr %step.p
  %caller.p = getelementptr i64, ptr %flag, i64 2
  %caller = load i64, ptr %caller.p
  %event.step = getelementptr i64, ptr %event, i64 1
  %event.share = getelementptr i64, ptr %event, i64 2
  %event.caller = getelementptr i64, ptr %event, i64 3
  %event.start = getelementptr i64, ptr %event, i64 4
  %event.end = getelementptr i64, ptr %event, i64 5
  store i64 %program, ptr %event
  store i64 %step, ptr %event.step
  store i64 %share, ptr %event.share
  store i64 %caller, ptr %event.caller
  store i64 %start, ptr %event.start
  store i64 %end, ptr %event.end
  br label %done
done:
  ret void
}

define internal i1 @is_stopped(ptr %flag) alwaysinline {
  %status = load atomic i64, ptr %flag monotonic, align 8
  %stopped = icmp eq i64 %status, 9
  ret i1 %stopped
}

define internal void @run_kernel(ptr %table, ptr %kernel, i64 %extent, i64 %grain, i64 %longest,
                                 ptr %data) {
  %flag = load ptr, ptr %data
  %wanted = icmp ne i64 %grain, 0
  br i1 %wanted, label %maybe, label %alone
maybe:
  %record.p = getelementptr i64, ptr %table, i64 8
  %record = load ptr, ptr %record.p
  %threads = load i64, ptr %record
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %try, label %alone
try:
  %lock = getelementptr i64, ptr %record, i64 1
  %pair = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %together, label %alone       ; if the pool is busy, run on this thread
together:
  %share.p = getelementptr i64, ptr %record, i64 2
  %share = load ptr, ptr %share.p
  call void %share(ptr %record, ptr %kernel, ptr %data, i64 %extent, i64 %grain,
                   i64 %threads, i64 %longest)
  store atomic i64 0, ptr %lock release, align 8
  ret void
alone:                                             ; in pieces, with checks for signals in between
  %from = phi i64 [ 0, %0 ], [ 0, %maybe ], [ 0, %try ], [ %to, %go.on ]
  %far = add i64 %from, %longest
  %is.last = icmp sge i64 %far, %extent
  %to = select i1 %is.last, i64 %extent, i64 %far
  call void %kernel(i64 %from, i64 %to, ptr %data)
  br i1 %is.last, label %done, label %between
between:
  call void @poll(ptr %flag)
  %stopped = call i1 @is_stopped(ptr %flag)
  br i1 %stopped, label %done, label %go.on
go.on:
  br label %alone
done:
  ret void
}

define internal void @lock(ptr %record) alwaysinline {          ; for builds of Python without the GIL
  %lock = getelementptr i64, ptr %record, i64 4
  br label %try
try:
  %pair = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %done, label %try
done:
  ret void
}

define internal void @unlock(ptr %record) alwaysinline {
  %lock = getelementptr i64, ptr %record, i64 4
  store atomic i64 0, ptr %lock release, align 8
  ret void
}

define internal void @enter_blas(ptr %record) noinline optnone {
  call void @lock(ptr %record)
  %users = load i64, ptr %record
  %more = add i64 %users, 1
  store i64 %more, ptr %record
  %first = icmp eq i64 %users, 0
  br i1 %first, label %limit, label %done
limit:
  %saved.p = getelementptr i64, ptr %record, i64 1
  %get.p = getelementptr i64, ptr %record, i64 2
  %get = load ptr, ptr %get.p
  %count = call i32 %get()
  %count64 = sext i32 %count to i64
  store i64 %count64, ptr %saved.p
  %set.p = getelementptr i64, ptr %record, i64 3
  %set = load ptr, ptr %set.p
  call void %set(i32 1)
  br label %done
done:
  call void @unlock(ptr %record)
  ret void
}

define internal void @leave_blas(ptr %record) noinline optnone {
  call void @lock(ptr %record)
  %users = load i64, ptr %record
  %fewer = sub i64 %users, 1
  store i64 %fewer, ptr %record
  %last = icmp eq i64 %fewer, 0
  br i1 %last, label %restore, label %done
restore:
  %saved.p = getelementptr i64, ptr %record, i64 1
  %saved = load i64, ptr %saved.p
  %saved32 = trunc i64 %saved to i32
  %set.p = getelementptr i64, ptr %record, i64 3
  %set = load ptr, ptr %set.p
  call void %set(i32 %saved32)
  br label %done
done:
  call void @unlock(ptr %record)
  ret void
}

define i64 @run(ptr %table, ptr %slots) {
  %flag = alloca i64, i64 11
  %turns = alloca [8 x i64]
  store [8 x i64] zeroinitializer, ptr %turns
  store i64 0, ptr %flag
  %flag.poll = getelementptr i64, ptr %flag, i64 1
  store ptr @poll, ptr %flag.poll
  %flag.thread = getelementptr i64, ptr %flag, i64 2
  %signals.p = getelementptr i64, ptr %table, i64 12
  %main.p = load ptr, ptr %signals.p
  %no.python = icmp eq ptr %main.p, null
  br i1 %no.python, label %flag.done, label %flag.who
flag.who:
  %main.asked = load i64, ptr %main.p
  %me.asked = call i64 @this_thread()
  br label %flag.done
flag.done:
  %main = phi i64 [ 0, %0 ], [ %main.asked, %flag.who ]
  %caller = phi i64 [ 0, %0 ], [ %me.asked, %flag.who ]
  store i64 %caller, ptr %flag.thread
  %flag.main = getelementptr i64, ptr %flag, i64 5
  store i64 %main, ptr %flag.main
  %flag.state = getelementptr i64, ptr %flag, i64 3
  store ptr null, ptr %flag.state
  %flag.time = getelementptr i64, ptr %flag, i64 4
  store i64 0, ptr %flag.time
  %bytes.p = getelementptr i64, ptr %table, i64 3
  %bytes = load i64, ptr %bytes.p
  %needed = icmp ne i64 %bytes, 0
  %arena = call ptr @arena(ptr %table)
  %used = icmp ne ptr %arena, null
  %absent = xor i1 %used, true
  %lacking = and i1 %needed, %absent
  br i1 %lacking, label %refuse, label %place
refuse:                                            ; out of memory, before any step has run
  ret i64 5
place:
  %arena.word = ptrtoint ptr %arena to i64
  %arena.up = add i64 %arena.word, 63
  %arena.line = and i64 %arena.up, -64
  %aligned = inttoptr i64 %arena.line to ptr
  %total.p = getelementptr i64, ptr %table, i64 2
  %total = load i64, ptr %total.p
  %temporaries.p = getelementptr i64, ptr %table, i64 5
  %temporaries = load i64, ptr %temporaries.p
  %first.slot = getelementptr ptr, ptr %slots, i64 %total
  %words = getelementptr ptr, ptr %first.slot, i64 %temporaries
  %offsets.p = getelementptr i64, ptr %table, i64 11
  %offsets.at = load i64, ptr %offsets.p
  %offsets = getelementptr i64, ptr %table, i64 %offsets.at
  br label %temporary
temporary:
  %t = phi i64 [ 0, %place ], [ %t.next, %set ]
  %t.more = icmp slt i64 %t, %temporaries
  br i1 %t.more, label %set, label %placed
set:
  %t.word = shl i64 %t, 1
  %base.p = getelementptr i64, ptr %offsets, i64 %t.word
  %base.slot = load i64, ptr %base.p
  %offset.p = getelementptr i64, ptr %base.p, i64 1
  %offset = load i64, ptr %offset.p
  %in.arena = icmp slt i64 %base.slot, 0
  %base.at = select i1 %in.arena, i64 0, i64 %base.slot
  %given.p = getelementptr ptr, ptr %slots, i64 %base.at
  %given = load ptr, ptr %given.p
  %base = select i1 %in.arena, ptr %aligned, ptr %given
  %where = getelementptr i8, ptr %base, i64 %offset
  %t.p = getelementptr ptr, ptr %first.slot, i64 %t
  store ptr %where, ptr %t.p
  %t.next = add i64 %t, 1
  br label %temporary
placed:
  %blas.p = getelementptr i64, ptr %table, i64 9
  %blas = load ptr, ptr %blas.p
  %blas.none = icmp eq ptr %blas, null
  br i1 %blas.none, label %ready, label %blas.enter
blas.enter:                                        ; limit BLAS to one thread, since ours call it
  call void @enter_blas(ptr %blas)
  br label %ready
ready:
  %timeline.p = getelementptr i64, ptr %table, i64 13
  %timeline = load ptr, ptr %timeline.p
  %flag.clock = getelementptr i64, ptr %flag, i64 6
  store ptr null, ptr %flag.clock
  %no.timeline = icmp eq ptr %timeline, null
  br i1 %no.timeline, label %untimed, label %ask.timeline
ask.timeline:
  %room = load atomic i64, ptr %timeline monotonic, align 8
  %is.off = icmp eq i64 %room, 0
  br i1 %is.off, label %untimed, label %timed
timed:
  %flag.took = getelementptr i64, ptr %flag, i64 7
  %flag.timeline = getelementptr i64, ptr %flag, i64 8
  %flag.program = getelementptr i64, ptr %flag, i64 9
  %number.p = getelementptr i64, ptr %table, i64 14
  %number = load i64, ptr %number.p
  store ptr @nanoseconds, ptr %flag.clock
  store ptr @took, ptr %flag.took
  store ptr %timeline, ptr %flag.timeline
  store i64 %number, ptr %flag.program
  br label %untimed
untimed:
  %is.timed = phi i1 [ false, %ready ], [ false, %ask.timeline ], [ true, %timed ]
  %release.p = getelementptr i64, ptr %table, i64 7
  %release = load i64, ptr %release.p
  %releases = icmp ne i64 %release, 0
  br i1 %releases, label %release.lock, label %go
release.lock:
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %flag.state
  br label %go
go:
  %place.words = shl i64 %temporaries, 1
  %program = getelementptr i64, ptr %offsets, i64 %place.words
  %steps.p = getelementptr i64, ptr %table, i64 6
  %steps = load i64, ptr %steps.p
  br label %step
step:
  %s = phi i64 [ 0, %go ], [ %s.next, %onward ], [ %s.first, %again ]
  %at = phi ptr [ %program, %go ], [ %at.next, %onward ], [ %at.first, %again ]
  %s.more = icmp slt i64 %s, %steps
  br i1 %s.more, label %prepare, label %finish
prepare:
  %kernel = load ptr, ptr %at
  %extent.p = getelementptr i64, ptr %at, i64 1
  %extent = load i64, ptr %extent.p
  %grain.p = getelementptr i64, ptr %at, i64 2
  %grain = load i64, ptr %grain.p
  %longest.p = getelementptr i64, ptr %at, i64 3
  %longest = load i64, ptr %longest.p
  %buffers.p = getelementptr i64, ptr %at, i64 4
  %buffers = load i64, ptr %buffers.p
  %names = getelementptr i64, ptr %at, i64 5
  store ptr %flag, ptr %words
  br label %buffer
buffer:
  %b = phi i64 [ 0, %prepare ], [ %b.next, %pass ]
  %b.more = icmp slt i64 %b, %buffers
  br i1 %b.more, label %pass, label %sizes
pass:
  %name.p = getelementptr i64, ptr %names, i64 %b
  %name = load i64, ptr %name.p
  %from.p = getelementptr ptr, ptr %slots, i64 %name
  %from = load ptr, ptr %from.p
  %b.next = add i64 %b, 1
  %to.p = getelementptr i64, ptr %words, i64 %b.next
  store ptr %from, ptr %to.p
  br label %buffer
sizes:
  %sizes.p = getelementptr i64, ptr %names, i64 %buffers
  %size.count = load i64, ptr %sizes.p
  %values = getelementptr i64, ptr %sizes.p, i64 1
  %first = add i64 %buffers, 1
  br label %size
size:
  %z = phi i64 [ 0, %sizes ], [ %z.next, %copy ]
  %z.more = icmp slt i64 %z, %size.count
  br i1 %z.more, label %copy, label %turns.of
copy:
  %value.p = getelementptr i64, ptr %values, i64 %z
  %value = load i64, ptr %value.p
  %z.word = add i64 %first, %z
  %z.p = getelementptr i64, ptr %words, i64 %z.word
  store i64 %value, ptr %z.p
  %z.next = add i64 %z, 1
  br label %size
turns.of:                                          ; copy the enclosing loops' iteration numbers
  %depth.p = getelementptr i64, ptr %values, i64 %size.count
  %depth = load i64, ptr %depth.p
  %first.turn = add i64 %first, %size.count
  br label %turn
turn:
  %d = phi i64 [ 0, %turns.of ], [ %d.next, %copy.turn ]
  %d.more = icmp slt i64 %d, %depth
  br i1 %d.more, label %copy.turn, label %kernel.go
copy.turn:
  %turn.p = getelementptr i64, ptr %turns, i64 %d
  %turn.now = load i64, ptr %turn.p
  %d.word = add i64 %first.turn, %d
  %d.p = getelementptr i64, ptr %words, i64 %d.word
  store i64 %turn.now, ptr %d.p
  %d.next = add i64 %d, 1
  br label %turn
kernel.go:
  br i1 %is.timed, label %kernel.timed, label %kernel.plain
kernel.timed:
  %flag.step = getelementptr i64, ptr %flag, i64 10
  store i64 %s, ptr %flag.step
  %start = call i64 @nanoseconds()
  call void @run_kernel(ptr %table, ptr %kernel, i64 %extent, i64 %grain, i64 %longest, ptr %words)
  call void @took(ptr %flag, i64 -1, i64 %start)
  br label %kernel.over
kernel.plain:
  call void @run_kernel(ptr %table, ptr %kernel, i64 %extent, i64 %grain, i64 %longest, ptr %words)
  br label %kernel.over
kernel.over:
  br i1 %releases, label %look, label %looked      ; short programs keep the GIL and do not check
look:
  call void @poll(ptr %flag)
  br label %looked
looked:
  %stopped = call i1 @is_stopped(ptr %flag)
  br i1 %stopped, label %finish, label %kernel.done
kernel.done:                                       ; does the innermost loop end early here?
  %going.p = getelementptr i64, ptr %depth.p, i64 1
  %going = load i64, ptr %going.p
  %ends.p = getelementptr i64, ptr %depth.p, i64 4
  %stays = icmp slt i64 %going, 0
  br i1 %stays, label %end.of, label %ask.going
ask.going:
  %bool.pp = getelementptr ptr, ptr %slots, i64 %going
  %bool.p = load ptr, ptr %bool.pp
  %bool = load i8, ptr %bool.p
  %goes = icmp ne i8 %bool, 0
  br i1 %goes, label %end.of, label %leave
leave:                                             ; continue as after its last iteration
  %s.last.p = getelementptr i64, ptr %depth.p, i64 2
  %s.last = load i64, ptr %s.last.p
  %end.left.p = getelementptr i64, ptr %depth.p, i64 3
  %end.left.at = load i64, ptr %end.left.p
  %end.left = getelementptr i64, ptr %table, i64 %end.left.at
  %innermost = sub i64 %depth, 1
  %left.p = getelementptr i64, ptr %turns, i64 %innermost
  br label %over
end.of:                                            ; advance the loops that end with this step
  %s.done = phi i64 [ %s, %kernel.done ], [ %s, %ask.going ], [ %s.over, %over ]
  %end.p = phi ptr [ %ends.p, %kernel.done ], [ %ends.p, %ask.going ], [ %end.next, %over ]
  %loop = load i64, ptr %end.p
  %none.ends = icmp slt i64 %loop, 0
  br i1 %none.ends, label %onward, label %count
count:
  %loop.p = getelementptr i64, ptr %turns, i64 %loop
  %loop.turn = load i64, ptr %loop.p
  %loop.next = add i64 %loop.turn, 1
  %times.p = getelementptr i64, ptr %end.p, i64 1
  %times = load i64, ptr %times.p
  %goes.on = icmp slt i64 %loop.next, %times
  br i1 %goes.on, label %again, label %over
again:
  store i64 %loop.next, ptr %loop.p
  %s.first.p = getelementptr i64, ptr %end.p, i64 2
  %s.first = load i64, ptr %s.first.p
  %at.first.p = getelementptr i64, ptr %end.p, i64 3
  %at.first.word = load i64, ptr %at.first.p
  %at.first = getelementptr i64, ptr %table, i64 %at.first.word
  br label %step
over:
  %s.over = phi i64 [ %s.done, %count ], [ %s.last, %leave ]
  %end.over = phi ptr [ %end.p, %count ], [ %end.left, %leave ]
  %over.p = phi ptr [ %loop.p, %count ], [ %left.p, %leave ]
  store i64 0, ptr %over.p
  %end.next = getelementptr i64, ptr %end.over, i64 4
  br label %end.of
onward:
  %at.next = getelementptr i64, ptr %end.p, i64 1
  %s.next = add i64 %s.done, 1
  br label %step
finish:
  br i1 %used, label %keep, label %relock
keep:
  call void @give_back(ptr %table, ptr %arena)
  br label %relock
relock:
  %thread = load ptr, ptr %flag.state
  %released = icmp ne ptr %thread, null
  br i1 %released, label %lock.again, label %end
lock.again:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %end
end:
  br i1 %blas.none, label %give, label %blas.leave
blas.leave:
  call void @leave_blas(ptr %blas)
  br label %give
give:
  %status = load i64, ptr %flag
  ret i64 %status
}
