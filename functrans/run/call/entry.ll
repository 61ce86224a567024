; Entry point of a program from Python: checks the arrays, collects their addresses and runs it.
;
; functrans/run/call/entry.py documents the table, and functrans/run/call/layouts.py the offsets of
; fields in Python's objects.

declare ptr @PyLong_FromLong(i64)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i64 @run(ptr, ptr)
declare ptr @data_of(ptr, ptr, ptr)

define ptr @call(ptr %self, ptr %arrays, i64 %count) {
  %table.p = getelementptr i8, ptr %self, i64 16
  %table = load ptr, ptr %table.p
  %ndarray = load ptr, ptr %table
  %inputs.p = getelementptr i64, ptr %table, i64 1
  %inputs = load i64, ptr %inputs.p
  %total.p = getelementptr i64, ptr %table, i64 2
  %total = load i64, ptr %total.p
  %count.ok = icmp eq i64 %count, %total
  br i1 %count.ok, label %begin, label %end
begin:
  %frame.p = getelementptr i64, ptr %table, i64 10
  %frame = load i64, ptr %frame.p
  %is.small = icmp ule i64 %frame, 1024
  br i1 %is.small, label %on.stack, label %on.heap
on.stack:
  %near = alloca ptr, i64 %frame
  br label %collecting
on.heap:
  %frame.bytes = shl i64 %frame, 3
  %far = call ptr @PyMem_RawMalloc(i64 %frame.bytes)
  %got = icmp ne ptr %far, null
  br i1 %got, label %collecting, label %end
collecting:
  %slots = phi ptr [ %near, %on.stack ], [ %far, %on.heap ]
  %records = getelementptr i64, ptr %table, i64 15
  br label %array
array:                                             ; check the inputs, and collect the addresses
  %i = phi i64 [ 0, %collecting ], [ %i.next, %collect ]
  %record = phi ptr [ %records, %collecting ], [ %record.next, %collect ]
  %more = icmp slt i64 %i, %total
  br i1 %more, label %look, label %checked
look:
  %array.p = getelementptr ptr, ptr %arrays, i64 %i
  %one = load ptr, ptr %array.p
  %is.input = icmp slt i64 %i, %inputs
  br i1 %is.input, label %check, label %collect.output
check:
  %input = call ptr @data_of(ptr %one, ptr %record, ptr %ndarray)
  %ok = icmp ne ptr %input, null
  br i1 %ok, label %collect.input, label %leave
collect.input:
  %axes.p = getelementptr i64, ptr %record, i64 3
  %axes = load i64, ptr %axes.p
  %length = add i64 %axes, 4
  %record.after = getelementptr i64, ptr %record, i64 %length
  br label %collect
collect.output:
  %data.p = getelementptr i8, ptr %one, i64 16
  %output = load ptr, ptr %data.p
  br label %collect
collect:
  %address = phi ptr [ %input, %collect.input ], [ %output, %collect.output ]
  %record.next = phi ptr [ %record.after, %collect.input ], [ %record, %collect.output ]
  %slot = getelementptr ptr, ptr %slots, i64 %i
  store ptr %address, ptr %slot
  %i.next = add i64 %i, 1
  br label %array
checked:
  %ran = call i64 @run(ptr %table, ptr %slots)
  br label %leave
leave:
  %left = phi i64 [ -1, %check ], [ %ran, %checked ]
  br i1 %is.small, label %end, label %free
free:
  call void @PyMem_RawFree(ptr %slots)
  br label %end
end:
  %status = phi i64 [ -1, %0 ], [ 5, %on.heap ], [ %left, %leave ], [ %left, %free ]
  %raised = icmp eq i64 %status, 9
  br i1 %raised, label %raise, label %return
raise:                                             ; a signal handler has already set the exception
  ret ptr null
return:
  %result = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %result
}
