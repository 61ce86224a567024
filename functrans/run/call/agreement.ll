; The guards of a state as a Python function without arguments.
;
; functrans/run/call/agreement.py documents the table, whose address an array holds, which is %self.

declare i1 @guarded(ptr, ptr, ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)

define ptr @agreed(ptr %self, ptr %none.given, i64 %zero) {
  %table.p = getelementptr i8, ptr %self, i64 16
  %table = load ptr, ptr %table.p
  %program = load ptr, ptr %table
  %count.w = getelementptr i64, ptr %table, i64 1
  %count = load i64, ptr %count.w
  %ndarray.w = getelementptr i64, ptr %table, i64 2
  %ndarray = load ptr, ptr %ndarray.w
  %true.w = getelementptr i64, ptr %table, i64 3
  %true = load ptr, ptr %true.w
  %none.w = getelementptr i64, ptr %table, i64 4
  %none = load ptr, ptr %none.w
  %inputs = alloca ptr, i64 %count
  %holds = call i1 @guarded(ptr %program, ptr %inputs, ptr %ndarray, ptr %true)
  br i1 %holds, label %hold, label %changed
changed:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
hold:                                              ; before the tuple, which may collect garbage
  %h = phi i64 [ 0, %0 ], [ %h.next, %hold.one ]
  %h.more = icmp slt i64 %h, %count
  br i1 %h.more, label %hold.one, label %make
hold.one:
  %held.w = getelementptr ptr, ptr %inputs, i64 %h
  %held = load ptr, ptr %held.w
  call void @Py_IncRef(ptr %held)
  %h.next = add i64 %h, 1
  br label %hold
make:
  %made = call ptr @PyTuple_New(i64 %count)
  %got = icmp ne ptr %made, null
  br label %one
one:                                               ; the tuple takes over the references
  %i = phi i64 [ 0, %make ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %put, label %done
put:
  %input.w = getelementptr ptr, ptr %inputs, i64 %i
  %input = load ptr, ptr %input.w
  br i1 %got, label %into, label %drop
into:
  call i32 @PyTuple_SetItem(ptr %made, i64 %i, ptr %input)
  br label %next
drop:
  call void @Py_DecRef(ptr %input)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %one
done:
  ret ptr %made
}
