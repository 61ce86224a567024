; Work sharing: a parallel loop is divided into pieces, which threads take until none are left.
;
; The thread that opens a loop works on it, too, and at the end waits only for threads that have
; joined: on a busy machine, a thread that is slow to wake costs no more than its missing help. Each
; thread first takes the pieces of its own share, then steals from the shares of others. A thread's
; share is the same part of every loop of this length, so it finds data of the previous loop in its
; cache.
;
; The record is an array of 64-bit words, divided into cache lines of eight words to avoid false
; sharing:
;
;      0  the number of threads, including the caller
;      1  a lock: whether a loop is open (at most one at a time)
;      2  the address of @share
;      3  the address of @worker
;      8  the epoch: the number of loops opened so far
;      9  the state: 1 if threads may still join, plus 2 for each that has joined and not left
;     10  the job: kernel, data, extent, the length of a piece, number of shares
;     16  the number of sleeping threads
;     24  the mutex, and
;     40  the condition variable of sleeping threads: sixteen words each
;     56  the shares, each in a line of its own: the next piece, the end of its pieces
;
; A kernel's data begin with the address of a flag, which functrans/run/call/steps.ll describes.
;
; The parts that depend on the operating system and the CPU are linked in: posix.ll or windows.ll,
; and pause_x86.ll, pause_arm.ll or no_pause.ll.

declare void @prepare(ptr, ptr)
declare void @lock(ptr)
declare void @unlock(ptr)
declare void @sleep(ptr, ptr)
declare void @wake(ptr)
declare void @yield()
declare void @pause()

define void @init(ptr %record) noinline optnone {
  %mutex = getelementptr i64, ptr %record, i64 24
  %condition = getelementptr i64, ptr %record, i64 40
  call void @prepare(ptr %mutex, ptr %condition)
  %share.p = getelementptr i64, ptr %record, i64 2
  store ptr @share, ptr %share.p
  %worker.p = getelementptr i64, ptr %record, i64 3
  store ptr @worker, ptr %worker.p
  ret void
}

define internal void @share(ptr %record, ptr %kernel, ptr %data, i64 %extent, i64 %grain,
                            i64 %threads, i64 %longest) noinline optnone {
  %pieces.wanted = mul i64 %threads, 4             ; four pieces for each thread
  %length.up = add i64 %extent, %pieces.wanted
  %length.less = sub i64 %length.up, 1
  %length.exact = sdiv i64 %length.less, %pieces.wanted
  %is.long = icmp sgt i64 %length.exact, 64
  %is.fine = icmp slt i64 %grain, 64
  %in.lines = and i1 %is.long, %is.fine
  %unit = select i1 %in.lines, i64 64, i64 %grain  ; whole cache lines, if the loop is long
  %unit.less = sub i64 %unit, 1
  %length.more = add i64 %length.exact, %unit.less
  %unit.mask = sub i64 0, %unit
  %length.even = and i64 %length.more, %unit.mask
  %is.longer = icmp sgt i64 %length.even, %longest ; signals are checked between pieces
  %length = select i1 %is.longer, i64 %longest, i64 %length.even
  %pieces.up = add i64 %extent, %length
  %pieces.less = sub i64 %pieces.up, 1
  %pieces = sdiv i64 %pieces.less, %length
  %job = getelementptr i64, ptr %record, i64 10
  %job.data = getelementptr i64, ptr %job, i64 1
  %job.extent = getelementptr i64, ptr %job, i64 2
  %job.length = getelementptr i64, ptr %job, i64 3
  %job.shares = getelementptr i64, ptr %job, i64 4
  store ptr %kernel, ptr %job
  store ptr %data, ptr %job.data
  store i64 %extent, ptr %job.extent
  store i64 %length, ptr %job.length
  store i64 %threads, ptr %job.shares
  br label %deal
deal:
  %i = phi i64 [ 0, %0 ], [ %i.next, %deal ]
  %i.next = add i64 %i, 1
  %from.all = mul i64 %pieces, %i
  %from = sdiv i64 %from.all, %threads
  %to.all = mul i64 %pieces, %i.next
  %to = sdiv i64 %to.all, %threads
  %line = mul i64 %i, 8
  %word = add i64 %line, 56
  %next.p = getelementptr i64, ptr %record, i64 %word
  %end.p = getelementptr i64, ptr %next.p, i64 1
  store i64 %from, ptr %next.p
  store i64 %to, ptr %end.p
  %dealt = icmp eq i64 %i.next, %threads
  br i1 %dealt, label %open, label %deal
open:
  %state = getelementptr i64, ptr %record, i64 9
  store atomic i64 1, ptr %state release, align 8
  %epoch = getelementptr i64, ptr %record, i64 8
  %was = atomicrmw add ptr %epoch, i64 1 seq_cst
  %sleepers.p = getelementptr i64, ptr %record, i64 16
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %some.sleep = icmp ne i64 %sleepers, 0
  br i1 %some.sleep, label %rouse, label %begin
rouse:                                             ; a thread that holds the mutex is not asleep yet
  %mutex = getelementptr i64, ptr %record, i64 24
  %condition = getelementptr i64, ptr %record, i64 40
  call void @lock(ptr %mutex)
  call void @unlock(ptr %mutex)
  call void @wake(ptr %condition)
  br label %begin
begin:
  call void @work(ptr %record, i64 0)
  %closed = atomicrmw and ptr %state, i64 -2 acq_rel
  br label %wait
wait:
  %n = phi i64 [ 0, %begin ], [ %n.next, %again ]
  %n.next = add i64 %n, 1
  %joined = load atomic i64, ptr %state acquire, align 8
  %alone = icmp eq i64 %joined, 0
  br i1 %alone, label %done, label %longer
longer:
  call void @pause()
  %patient = icmp slt i64 %n, 2000
  br i1 %patient, label %again, label %let.others
let.others:
  call void @yield()
  br label %again
again:
  br label %wait
done:
  ret void
}

define internal void @work(ptr %record, i64 %me) noinline optnone {
  %job = getelementptr i64, ptr %record, i64 10
  %job.data = getelementptr i64, ptr %job, i64 1
  %job.extent = getelementptr i64, ptr %job, i64 2
  %job.length = getelementptr i64, ptr %job, i64 3
  %job.shares = getelementptr i64, ptr %job, i64 4
  %kernel = load ptr, ptr %job
  %data = load ptr, ptr %job.data
  %flag = load ptr, ptr %data
  %poll.p = getelementptr i64, ptr %flag, i64 1
  %poll = load ptr, ptr %poll.p
  %extent = load i64, ptr %job.extent
  %length = load i64, ptr %job.length
  %shares = load i64, ptr %job.shares
  %clock.p = getelementptr i64, ptr %flag, i64 6
  %clock = load ptr, ptr %clock.p
  %untimed = icmp eq ptr %clock, null
  br i1 %untimed, label %go, label %timed
timed:
  %start.time = call i64 %clock()
  br label %go
go:
  %began = phi i64 [ 0, %0 ], [ %start.time, %timed ]
  br label %share
share:                                             ; the thread's own share first
  %k = phi i64 [ 0, %go ], [ %k.next, %taken ]
  %k.next = add i64 %k, 1
  %turned = add i64 %me, %k
  %whose = srem i64 %turned, %shares
  %line = mul i64 %whose, 8
  %word = add i64 %line, 56
  %next.p = getelementptr i64, ptr %record, i64 %word
  %end.p = getelementptr i64, ptr %next.p, i64 1
  %end = load i64, ptr %end.p
  br label %take
take:
  %piece = atomicrmw add ptr %next.p, i64 1 monotonic
  %left = icmp slt i64 %piece, %end
  br i1 %left, label %do, label %taken
do:
  %start = mul i64 %piece, %length
  %stop.whole = add i64 %start, %length
  %is.last = icmp sgt i64 %stop.whole, %extent
  %stop = select i1 %is.last, i64 %extent, i64 %stop.whole
  call void %kernel(i64 %start, i64 %stop, ptr %data)
  call void %poll(ptr %flag)
  %status = load atomic i64, ptr %flag monotonic, align 8
  %stopped = icmp eq i64 %status, 9
  br i1 %stopped, label %done, label %take
taken:
  %more = icmp slt i64 %k.next, %shares
  br i1 %more, label %share, label %done
done:
  br i1 %untimed, label %out, label %note
note:
  %took.p = getelementptr i64, ptr %flag, i64 7
  %took = load ptr, ptr %took.p
  call void %took(ptr %flag, i64 %me, i64 %began)
  br label %out
out:
  ret void
}

define internal void @worker(ptr %record, i64 %me) noinline optnone {
  %epoch = getelementptr i64, ptr %record, i64 8
  %state = getelementptr i64, ptr %record, i64 9
  %sleepers = getelementptr i64, ptr %record, i64 16
  %mutex = getelementptr i64, ptr %record, i64 24
  %condition = getelementptr i64, ptr %record, i64 40
  %job = getelementptr i64, ptr %record, i64 10
  %job.shares = getelementptr i64, ptr %job, i64 4
  br label %next
next:
  %seen = phi i64 [ 0, %0 ], [ %now, %late ], [ %now, %leave ]
  br label %look
look:
  %n = phi i64 [ 0, %next ], [ %n.next, %look.again ]
  %n.next = add i64 %n, 1
  %at = load atomic i64, ptr %epoch acquire, align 8
  %is.new = icmp ne i64 %at, %seen
  br i1 %is.new, label %found, label %look.again
look.again:                                        ; spin first: waking takes longer than most loops
  call void @pause()
  %patient = icmp slt i64 %n, 2000
  br i1 %patient, label %look, label %tired
tired:
  call void @lock(ptr %mutex)
  %counted = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %still
still:
  %then = load atomic i64, ptr %epoch seq_cst, align 8
  %is.same = icmp eq i64 %then, %seen
  br i1 %is.same, label %rest, label %rise
rest:
  call void @sleep(ptr %condition, ptr %mutex)
  br label %still
rise:
  %uncounted = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  call void @unlock(ptr %mutex)
  br label %found
found:
  %now = load atomic i64, ptr %epoch acquire, align 8
  br label %knock
knock:
  %old = load atomic i64, ptr %state acquire, align 8
  %open = and i64 %old, 1
  %is.open = icmp ne i64 %open, 0
  br i1 %is.open, label %join, label %late
join:
  %with.me = add i64 %old, 2
  %pair = cmpxchg ptr %state, i64 %old, i64 %with.me acq_rel monotonic
  %joined = extractvalue { i64, i1 } %pair, 1
  br i1 %joined, label %inside, label %knock
inside:                                            ; the loop cannot end before this thread leaves
  %shares = load i64, ptr %job.shares
  %wanted = icmp slt i64 %me, %shares
  br i1 %wanted, label %help, label %leave
help:
  call void @work(ptr %record, i64 %me)
  br label %leave
leave:
  %left = atomicrmw sub ptr %state, i64 2 release
  br label %next
late:
  br label %next
}
