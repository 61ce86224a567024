; An allocator for NumPy that caches freed blocks of large results, by size, for reuse. Blocks begin
; at a cache line.
;
; Its state is an array of 64-bit words:
;
;      0  a try-lock (needed only in builds of Python without the GIL); a thread that finds it taken
;         allocates or frees directly
;      8  bytes in the cache
;      9  capacity in bytes
;     10  the next slot to insert into and to evict from (round robin)
;     16  64 slots of two words each: the address of a block, and its size (0: empty)
;
; It is linked with one of advice.ll and no_advice.ll.

declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @advise(ptr, i64)

define internal ptr @take(ptr %state, i64 %size) {
  %is.large = icmp uge i64 %size, 131072           ; the smallest that is worth keeping
  br i1 %is.large, label %try, label %fresh
try:
  %pair = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %slot, label %fresh
slot:
  %i = phi i64 [ 0, %try ], [ %i.next, %other ]
  %i.next = add i64 %i, 1
  %word.twice = mul i64 %i, 2
  %word = add i64 %word.twice, 16
  %block.p = getelementptr i64, ptr %state, i64 %word
  %size.p = getelementptr i64, ptr %block.p, i64 1
  %its.size = load i64, ptr %size.p
  %fits = icmp eq i64 %its.size, %size
  br i1 %fits, label %found, label %other
other:
  %more = icmp slt i64 %i.next, 64
  br i1 %more, label %slot, label %none
found:
  %block = load ptr, ptr %block.p
  store i64 0, ptr %size.p
  %kept.p = getelementptr i64, ptr %state, i64 8
  %kept = load i64, ptr %kept.p
  %less = sub i64 %kept, %size
  store i64 %less, ptr %kept.p
  store atomic i64 0, ptr %state release, align 8
  ret ptr %block
none:
  store atomic i64 0, ptr %state release, align 8
  br label %fresh
fresh:
  %new.p = alloca ptr
  %failed = call i32 @posix_memalign(ptr %new.p, i64 64, i64 %size)
  %got = icmp eq i32 %failed, 0
  br i1 %got, label %advice, label %none.left
advice:
  %new = load ptr, ptr %new.p
  call void @advise(ptr %new, i64 %size)
  ret ptr %new
none.left:
  ret ptr null
}

define internal void @give(ptr %state, ptr %block, i64 %size) {
  %is.large = icmp uge i64 %size, 131072           ; the smallest that is worth keeping
  %limit.p = getelementptr i64, ptr %state, i64 9
  %limit = load atomic i64, ptr %limit.p monotonic, align 8
  %fits = icmp ule i64 %size, %limit
  %wanted = and i1 %is.large, %fits
  br i1 %wanted, label %try, label %release
try:
  %pair = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %turn, label %release
turn:                                              ; evict in order of insertion
  %next.p = getelementptr i64, ptr %state, i64 10
  %next = load i64, ptr %next.p
  %word.twice = mul i64 %next, 2
  %word = add i64 %word.twice, 16
  %block.p = getelementptr i64, ptr %state, i64 %word
  %size.p = getelementptr i64, ptr %block.p, i64 1
  %old = load ptr, ptr %block.p
  %old.size = load i64, ptr %size.p
  %next.one = add i64 %next, 1
  %next.new = urem i64 %next.one, 64
  store i64 %next.new, ptr %next.p
  %kept.p = getelementptr i64, ptr %state, i64 8
  %kept = load i64, ptr %kept.p
  %without = sub i64 %kept, %old.size
  %occupied = icmp ne i64 %old.size, 0
  br i1 %occupied, label %evict, label %room
evict:
  call void @free(ptr %old)
  store i64 0, ptr %size.p
  store i64 %without, ptr %kept.p
  br label %room
room:
  %with = add i64 %without, %size
  %enough = icmp ule i64 %with, %limit
  br i1 %enough, label %put, label %turn
put:
  store ptr %block, ptr %block.p
  store i64 %size, ptr %size.p
  store i64 %with, ptr %kept.p
  store atomic i64 0, ptr %state release, align 8
  ret void
release:
  call void @free(ptr %block)
  ret void
}

define internal ptr @clear(ptr %state, i64 %count, i64 %size) noinline optnone {
  %block = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %block
}

define internal ptr @resize(ptr %state, ptr %block, i64 %size) noinline optnone {
  %new = call ptr @realloc(ptr %block, i64 %size)
  ret ptr %new
}

define void @fill(ptr %functions) noinline optnone {
  store ptr @take, ptr %functions
  %second = getelementptr ptr, ptr %functions, i64 1
  store ptr @clear, ptr %second
  %third = getelementptr ptr, ptr %functions, i64 2
  store ptr @resize, ptr %third
  %fourth = getelementptr ptr, ptr %functions, i64 3
  store ptr @give, ptr %fourth
  ret void
}
