; Type check of one input: the address of its elements if it matches a record of the table, or null.
;
; functrans/run/call/entry.py documents the records, and functrans/run/call/layouts.py the offsets
; of fields in Python's objects.

define internal ptr @data_of(ptr %array, ptr %record, ptr %ndarray) {
  %type.p = getelementptr i8, ptr %array, i64 8
  %type = load ptr, ptr %type.p
  %nd.wanted.p = getelementptr i64, ptr %record, i64 3
  %nd.wanted = load i64, ptr %nd.wanted.p
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %dtype, label %number
number:                                            ; a scalar stores its value after the header
  %has.axes = icmp ne i64 %nd.wanted, 0
  br i1 %has.axes, label %no, label %scalar
scalar:
  %numpy.p = getelementptr i64, ptr %record, i64 1
  %numpy = load ptr, ptr %numpy.p
  %python.p = getelementptr i64, ptr %record, i64 2
  %python = load ptr, ptr %python.p
  %is.numpy = icmp eq ptr %type, %numpy
  %is.python = icmp eq ptr %type, %python
  %is.number = or i1 %is.numpy, %is.python
  %inside = getelementptr i8, ptr %array, i64 16
  %found = select i1 %is.number, ptr %inside, ptr null
  ret ptr %found
dtype:
  %is.alike = call i1 @alike(ptr %array, ptr %record)
  %flags.p = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags.p
  %good = and i32 %flags, 257                   ; C-contiguous and aligned
  %flags.ok = icmp eq i32 %good, 257
  %both = and i1 %is.alike, %flags.ok
  br i1 %both, label %yes, label %no
yes:
  %data.p = getelementptr i8, ptr %array, i64 16
  %data = load ptr, ptr %data.p
  ret ptr %data
no:
  ret ptr null
}

; Returns whether an array has the dtype and the extents of a record.
define internal i1 @alike(ptr %array, ptr %record) {
  %descr.p = getelementptr i8, ptr %array, i64 56
  %descr = load ptr, ptr %descr.p
  %wanted = load ptr, ptr %record
  %descr.ok = icmp eq ptr %descr, %wanted
  %nd.wanted.p = getelementptr i64, ptr %record, i64 3
  %nd.wanted = load i64, ptr %nd.wanted.p
  %nd.p = getelementptr i8, ptr %array, i64 24
  %nd32 = load i32, ptr %nd.p
  %nd = sext i32 %nd32 to i64
  %nd.ok = icmp eq i64 %nd, %nd.wanted
  %both = and i1 %descr.ok, %nd.ok
  br i1 %both, label %axes, label %no
axes:
  %dims.p = getelementptr i8, ptr %array, i64 32
  %dims = load ptr, ptr %dims.p
  br label %axis
axis:
  %a = phi i64 [ 0, %axes ], [ %a.next, %next ]
  %done = icmp eq i64 %a, %nd
  br i1 %done, label %yes, label %compare
compare:
  %extent.p = getelementptr i64, ptr %dims, i64 %a
  %extent = load i64, ptr %extent.p
  %place = add i64 %a, 4
  %extent.wanted.p = getelementptr i64, ptr %record, i64 %place
  %extent.wanted = load i64, ptr %extent.wanted.p
  %extent.ok = icmp eq i64 %extent, %extent.wanted
  br i1 %extent.ok, label %next, label %no
next:
  %a.next = add i64 %a, 1
  br label %axis
yes:
  ret i1 1
no:
  ret i1 0
}
