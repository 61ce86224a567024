; Inline cache of calls: the call slot of the type of compiled functions.
;
; functrans/run/call/inline_cache.py documents and builds the tables. A call that matches none of
; them is passed on, without side effects so far, to @usual, the type's ordinary call slot.

declare ptr @usual(ptr, ptr, ptr)
declare ptr @data_of(ptr, ptr, ptr)
declare i1 @alike(ptr, ptr)
declare i1 @guarded(ptr, ptr, ptr, ptr)
declare i64 @run(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyList_New(i64)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyDict_New()
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)

; Returns whether the arguments match the nodes of the table, and stores the addresses of numbers
; and arrays in the slots. Nodes are in breadth-first order: a container appends its elements to the
; queue, so that each object is in the queue before its node is reached. %copies receives the last
; copy of an array in another memory order; each copy is the base of the next one. %held receives
; the number of objects in the queue, to which it has references: a new dictionary of attributes may
; start the garbage collector, and so any code.
define internal i1 @fits(ptr %state, ptr %table, ptr %slots, ptr %queue, ptr %scratch,
                         ptr %copies, ptr %held) {
  %count.w = getelementptr i64, ptr %table, i64 5
  %count = load i64, ptr %count.w
  %ndarray.w = getelementptr i64, ptr %state, i64 7
  %ndarray = load ptr, ptr %ndarray.w
  %position.p = alloca i64
  %key.p = alloca ptr
  %value.own.p = alloca ptr
  %overflow = alloca i32
  %nodes = getelementptr i64, ptr %table, i64 13
  %inputs.w = getelementptr i64, ptr %table, i64 12
  %inputs = load i64, ptr %inputs.w
  %roots = add i64 %inputs, 3
  br label %root
root:
  %r = phi i64 [ 0, %0 ], [ %r.next, %root.hold ]
  %root.more = icmp slt i64 %r, %roots
  br i1 %root.more, label %root.hold, label %rooted
root.hold:
  %root.w = getelementptr i64, ptr %queue, i64 %r
  %root.object = load ptr, ptr %root.w
  call void @Py_IncRef(ptr %root.object)
  %r.next = add i64 %r, 1
  br label %root
rooted:
  store i64 %roots, ptr %held
  br label %node
node:
  %i = phi i64 [ 0, %rooted ], [ %i.next, %next ]
  %at = phi ptr [ %nodes, %rooted ], [ %at.next, %next ]
  %end = phi i64 [ %roots, %rooted ], [ %end.next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %one.w = getelementptr i64, ptr %queue, i64 %i
  %one = load ptr, ptr %one.w
  %type.w = getelementptr i64, ptr %one, i64 1
  %type = load ptr, ptr %type.w
  %kind = load i64, ptr %at
  %first.w = getelementptr i64, ptr %at, i64 1
  %first = load ptr, ptr %first.w
  %second.w = getelementptr i64, ptr %at, i64 2
  %second = load i64, ptr %second.w
  switch i64 %kind, label %no [
    i64 0, label %same
    i64 1, label %tuple
    i64 2, label %list
    i64 3, label %dict
    i64 4, label %array
    i64 5, label %number
    i64 6, label %integer
    i64 7, label %truth
    i64 8, label %on.device
    i64 9, label %object
    i64 10, label %fields
  ]
same:
  %is.same = icmp eq ptr %one, %first
  br i1 %is.same, label %small, label %no
tuple:                                             ; or a named tuple
  %tuple.ok = icmp eq ptr %type, %first
  br i1 %tuple.ok, label %tuple.size, label %no
tuple.size:
  %tuple.has = call i64 @PyTuple_Size(ptr %one)
  %tuple.fits = icmp eq i64 %tuple.has, %second
  br i1 %tuple.fits, label %items, label %no
list:
  %list.ok = icmp eq ptr %type, %first
  br i1 %list.ok, label %list.size, label %no
list.size:
  %list.has = call i64 @PyList_Size(ptr %one)
  %list.fits = icmp eq i64 %list.has, %second
  br i1 %list.fits, label %items, label %no
items:
  %is.list = phi i1 [ 0, %tuple.size ], [ 1, %list.size ]
  br label %item
item:
  %j = phi i64 [ 0, %items ], [ %j.next, %item.put ]
  %item.more = icmp slt i64 %j, %second
  br i1 %item.more, label %item.take, label %small.items
item.take:
  br i1 %is.list, label %from.list, label %from.tuple
from.list:
  %of.list = call ptr @PyList_GetItem(ptr %one, i64 %j)
  br label %item.put
from.tuple:
  %of.tuple = call ptr @PyTuple_GetItem(ptr %one, i64 %j)
  br label %item.put
item.put:
  %item.object = phi ptr [ %of.list, %from.list ], [ %of.tuple, %from.tuple ]
  %item.place = add i64 %end, %j
  %item.p = getelementptr ptr, ptr %queue, i64 %item.place
  store ptr %item.object, ptr %item.p
  call void @Py_IncRef(ptr %item.object)
  %item.held = add i64 %item.place, 1
  store i64 %item.held, ptr %held
  %j.next = add i64 %j, 1
  br label %item
small.items:
  %items.end = add i64 %end, %second
  br label %small
dict:
  %dict.ok = icmp eq ptr %type, %first
  br i1 %dict.ok, label %dict.size, label %no
dict.size:
  %dict.has = call i64 @PyDict_Size(ptr %one)
  %dict.fits = icmp eq i64 %dict.has, %second
  br i1 %dict.fits, label %dict.first, label %no
dict.first:                                        ; in the order that a loop over it sees
  store i64 0, ptr %position.p
  br label %key
key:
  %k = phi i64 [ 0, %dict.first ], [ %k.next, %key.put ]
  %key.more = icmp slt i64 %k, %second
  br i1 %key.more, label %key.take, label %dict.done
key.take:
  %some = call i32 @PyDict_Next(ptr %one, ptr %position.p, ptr %key.p, ptr %value.own.p)
  %none = icmp eq i32 %some, 0
  br i1 %none, label %no, label %key.compare
key.compare:
  %key.place = add i64 %k, 3
  %name.w = getelementptr i64, ptr %at, i64 %key.place
  %name = load ptr, ptr %name.w
  %own = load ptr, ptr %key.p
  %same.key = icmp eq ptr %own, %name
  br i1 %same.key, label %key.put, label %key.equal
key.equal:
  %equal = call i32 @PyObject_RichCompareBool(ptr %own, ptr %name, i32 2)
  %is.equal = icmp eq i32 %equal, 1
  br i1 %is.equal, label %key.put, label %forget
key.put:
  %value = load ptr, ptr %value.own.p
  %value.place = add i64 %end, %k
  %value.p = getelementptr ptr, ptr %queue, i64 %value.place
  store ptr %value, ptr %value.p
  call void @Py_IncRef(ptr %value)
  %value.held = add i64 %value.place, 1
  store i64 %value.held, ptr %held
  %k.next = add i64 %k, 1
  br label %key
dict.done:
  %dict.end = add i64 %end, %second
  %dict.words = add i64 %second, 3
  %after.dict = getelementptr i64, ptr %at, i64 %dict.words
  br label %next
array:                                             ; or a NumPy scalar
  %record = getelementptr i64, ptr %at, i64 3
  %data = call ptr @data_of(ptr %one, ptr %record, ptr %ndarray)
  %array.ok = icmp ne ptr %data, null
  br i1 %array.ok, label %array.put, label %array.other
array.other:
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array.type, label %no
array.type:
  %only.order = call i1 @alike(ptr %one, ptr %record)
  br i1 %only.order, label %array.copy, label %no
array.copy:
  %new.copy.w = getelementptr i64, ptr %state, i64 10
  %new.copy = load ptr, ptr %new.copy.w
  %copy = call ptr %new.copy(ptr %one, i32 0)      ; in C order
  %copied = icmp ne ptr %copy, null
  br i1 %copied, label %array.copied, label %forget
array.copied:
  %last.copy = load ptr, ptr %copies
  store ptr %copy, ptr %copies
  %copy.data.w = getelementptr i8, ptr %copy, i64 16
  %copy.data = load ptr, ptr %copy.data.w
  %is.first = icmp eq ptr %last.copy, null
  br i1 %is.first, label %array.put, label %array.chain
array.chain:
  %set.base.w = getelementptr i64, ptr %state, i64 11
  %set.base = load ptr, ptr %set.base.w
  %based = call i32 %set.base(ptr %copy, ptr %last.copy)
  %chained = icmp eq i32 %based, 0
  br i1 %chained, label %array.put, label %forget
array.put:
  %array.data = phi ptr [ %data, %array ], [ %copy.data, %array.copied ], [ %copy.data, %array.chain ]
  %array.p = getelementptr ptr, ptr %slots, i64 %second
  store ptr %array.data, ptr %array.p
  %axes.w = getelementptr i64, ptr %record, i64 3
  %axes = load i64, ptr %axes.w
  %array.words = add i64 %axes, 7
  %after.array = getelementptr i64, ptr %at, i64 %array.words
  br label %next
number:                                            ; a Python number: its value follows the header
  %number.ok = icmp eq ptr %type, %first
  br i1 %number.ok, label %number.put, label %no
number.put:
  %inside = getelementptr i8, ptr %one, i64 16
  %number.p = getelementptr ptr, ptr %slots, i64 %second
  store ptr %inside, ptr %number.p
  br label %small
integer:
  %integer.ok = icmp eq ptr %type, %first
  br i1 %integer.ok, label %integer.take, label %no
integer.take:
  %integer.value = call i64 @PyLong_AsLongLongAndOverflow(ptr %one, ptr %overflow)
  %over = load i32, ptr %overflow
  %in.range = icmp eq i32 %over, 0
  br i1 %in.range, label %written, label %no
truth:
  %true.w = getelementptr i64, ptr %state, i64 8
  %true = load ptr, ptr %true.w
  %false.w = getelementptr i64, ptr %state, i64 9
  %false = load ptr, ptr %false.w
  %is.true = icmp eq ptr %one, %true
  %is.false = icmp eq ptr %one, %false
  %is.truth = or i1 %is.true, %is.false
  %truth.value = zext i1 %is.true to i64
  br i1 %is.truth, label %written, label %no
written:                                           ; the program reads the integer from the frame
  %content = phi i64 [ %integer.value, %integer.take ], [ %truth.value, %truth ]
  %room = getelementptr i64, ptr %scratch, i64 %i
  store i64 %content, ptr %room
  %room.p = getelementptr ptr, ptr %slots, i64 %second
  store ptr %room, ptr %room.p
  br label %small
fields:                                            ; an instance: its children, then static fields
  %fields.ok = icmp eq ptr %type, %first
  br i1 %fields.ok, label %fields.known, label %no
fields.known:
  %keyed.w = getelementptr i64, ptr %at, i64 3
  %keyed = load i64, ptr %keyed.w
  %is.keyed = icmp ne i64 %keyed, 0
  br i1 %is.keyed, label %fields.dict, label %field
fields.dict:
  %own.dict = call ptr @PyObject_GenericGetDict(ptr %one, ptr null)
  call void @Py_DecRef(ptr %own.dict)              ; the instance still holds a reference
  %has.dict = icmp ne ptr %own.dict, null
  br i1 %has.dict, label %field, label %forget
field:
  %f = phi i64 [ 0, %fields.known ], [ 0, %fields.dict ], [ %f.next, %field.next ]
  %f.end = phi i64 [ %end, %fields.known ], [ %end, %fields.dict ], [ %f.end.next, %field.next ]
  %own.content = phi ptr [ null, %fields.known ], [ %own.dict, %fields.dict ], [ %own.content, %field.next ]
  %field.words = mul i64 %f, 2
  %field.place = add i64 %field.words, 4
  %field.w = getelementptr i64, ptr %at, i64 %field.place
  %field.more = icmp slt i64 %f, %second
  br i1 %field.more, label %field.look, label %fields.done
field.look:                                        ; the offset of a slot, or the address of a name
  %where = load i64, ptr %field.w
  %wanted.w = getelementptr i64, ptr %field.w, i64 1
  %wanted = load ptr, ptr %wanted.w
  %is.slot = icmp ult i64 %where, 65536
  br i1 %is.slot, label %field.slot, label %field.entry
field.slot:
  %field.p = getelementptr i8, ptr %one, i64 %where
  %field.slotted = load ptr, ptr %field.p
  br label %field.found
field.entry:
  %field.name = inttoptr i64 %where to ptr
  %field.value = call ptr @PyDict_GetItemWithError(ptr %own.content, ptr %field.name)
  br label %field.found
field.found:
  %field.is = phi ptr [ %field.slotted, %field.slot ], [ %field.value, %field.entry ]
  %field.there = icmp ne ptr %field.is, null
  br i1 %field.there, label %field.test, label %forget
field.test:
  %is.child = icmp eq ptr %wanted, null
  br i1 %is.child, label %field.put, label %field.static
field.put:
  %child.p = getelementptr ptr, ptr %queue, i64 %f.end
  store ptr %field.is, ptr %child.p
  call void @Py_IncRef(ptr %field.is)
  %child.held = add i64 %f.end, 1
  store i64 %child.held, ptr %held
  br label %field.next
field.static:
  %static.ok = icmp eq ptr %field.is, %wanted
  br i1 %static.ok, label %field.next, label %no
field.next:
  %pushed = phi i64 [ 1, %field.put ], [ 0, %field.static ]
  %f.end.next = add i64 %f.end, %pushed
  %f.next = add i64 %f, 1
  br label %field
fields.done:
  br label %next
object:                                            ; a Python object, passed on unchanged
  %object.ok = icmp eq ptr %type, %first
  br i1 %object.ok, label %object.put, label %no
object.put:
  %object.p = getelementptr ptr, ptr %slots, i64 %second
  store ptr %one, ptr %object.p
  br label %small
on.device:                                         ; an array on a device, which the callee checks
  %there.ok = icmp eq ptr %type, %first
  br i1 %there.ok, label %there.dtype, label %no
there.dtype:
  %there.dtype.w = getelementptr i64, ptr %at, i64 3
  %there.dtype.at = load i64, ptr %there.dtype.w
  %there.dtype.p = getelementptr i8, ptr %one, i64 %there.dtype.at
  %there.dtype.is = load ptr, ptr %there.dtype.p
  %there.wanted.w = getelementptr i64, ptr %at, i64 4
  %there.wanted = load ptr, ptr %there.wanted.w
  %there.alike = icmp eq ptr %there.dtype.is, %there.wanted
  br i1 %there.alike, label %there.shape, label %no
there.shape:
  %there.shape.w = getelementptr i64, ptr %at, i64 5
  %there.shape.at = load i64, ptr %there.shape.w
  %there.shape.p = getelementptr i8, ptr %one, i64 %there.shape.at
  %there.shape.is = load ptr, ptr %there.shape.p
  %there.has.shape = icmp ne ptr %there.shape.is, null
  br i1 %there.has.shape, label %there.size, label %no
there.size:
  %there.axes.w = getelementptr i64, ptr %at, i64 6
  %there.axes = load i64, ptr %there.axes.w
  %there.has = call i64 @PyTuple_Size(ptr %there.shape.is)
  %there.fits = icmp eq i64 %there.has, %there.axes
  br i1 %there.fits, label %there.extent, label %forget
there.extent:
  %e = phi i64 [ 0, %there.size ], [ %e.next, %there.extent.ok ]
  %e.more = icmp slt i64 %e, %there.axes
  br i1 %e.more, label %there.extent.look, label %there.put
there.extent.look:
  %extent = call ptr @PyTuple_GetItem(ptr %there.shape.is, i64 %e)
  %extent.is = call i64 @PyLong_AsLongLongAndOverflow(ptr %extent, ptr %overflow)
  %extent.place = add i64 %e, 7
  %extent.w = getelementptr i64, ptr %at, i64 %extent.place
  %extent.wanted = load i64, ptr %extent.w
  %extent.alike = icmp eq i64 %extent.is, %extent.wanted
  br i1 %extent.alike, label %there.extent.ok, label %forget
there.extent.ok:
  %e.next = add i64 %e, 1
  br label %there.extent
there.put:
  %there.p = getelementptr ptr, ptr %slots, i64 %second
  store ptr %one, ptr %there.p
  %there.words = add i64 %there.axes, 7
  %after.there = getelementptr i64, ptr %at, i64 %there.words
  br label %next
small:
  %small.end = phi i64 [ %end, %same ], [ %items.end, %small.items ], [ %end, %number.put ],
                       [ %end, %written ], [ %end, %object.put ]
  %after.small = getelementptr i64, ptr %at, i64 3
  br label %next
next:
  %at.next = phi ptr [ %after.small, %small ], [ %after.dict, %dict.done ],
                     [ %after.array, %array.put ], [ %after.there, %there.put ],
                     [ %field.w, %fields.done ]
  %end.next = phi i64 [ %small.end, %small ], [ %dict.end, %dict.done ], [ %end, %array.put ],
                      [ %end, %there.put ], [ %f.end, %fields.done ]
  %i.next = add i64 %i, 1
  br label %node
forget:
  call void @PyErr_Clear()
  br label %no
yes:
  ret i1 1
no:
  ret i1 0
}

; Allocates the results and stores their addresses in the slots; returns false if memory is short.
; Results without axes use the frame, 16 bytes each.
define internal i1 @allocate(ptr %state, ptr %table, ptr %slots, ptr %made, ptr %scratch) {
  %count.w = getelementptr i64, ptr %table, i64 6
  %count = load i64, ptr %count.w
  %records.at.w = getelementptr i64, ptr %table, i64 7
  %records.at = load i64, ptr %records.at.w
  %records = getelementptr i64, ptr %table, i64 %records.at
  %ndarray.w = getelementptr i64, ptr %state, i64 7
  %ndarray = load ptr, ptr %ndarray.w
  %new.w = getelementptr i64, ptr %state, i64 4
  %new = load ptr, ptr %new.w
  %handler.w = getelementptr i64, ptr %table, i64 9
  %handler = load ptr, ptr %handler.w
  %set.w = getelementptr i64, ptr %state, i64 6
  %set = load ptr, ptr %set.w
  %is.large = icmp ne ptr %handler, null
  br i1 %is.large, label %choose, label %begin
choose:                                            ; large results may reuse cached blocks
  %before = call ptr %set(ptr %handler)
  %chosen = icmp ne ptr %before, null
  br i1 %chosen, label %begin, label %not.chosen
not.chosen:
  call void @PyErr_Clear()
  ret i1 0
begin:
  %usual.handler = phi ptr [ null, %0 ], [ %before, %choose ]
  br label %result
result:
  %i = phi i64 [ 0, %begin ], [ %i.next, %put ]
  %at = phi ptr [ %records, %begin ], [ %at.next, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %finish
make:
  %descr = load ptr, ptr %at
  %axes.w = getelementptr i64, ptr %at, i64 1
  %axes = load i64, ptr %axes.w
  %slot.w = getelementptr i64, ptr %at, i64 2
  %slot = load i64, ptr %slot.w
  %extents = getelementptr i64, ptr %at, i64 3
  %at.next = getelementptr i64, ptr %extents, i64 %axes
  %is.scalar = icmp eq i64 %axes, 0
  br i1 %is.scalar, label %scalar, label %array
scalar:
  %twice = mul i64 %i, 2
  %room = getelementptr i64, ptr %scratch, i64 %twice
  br label %put
array:
  call void @Py_IncRef(ptr %descr)
  %axes32 = trunc i64 %axes to i32
  %one = call ptr %new(ptr %ndarray, ptr %descr, i32 %axes32, ptr %extents, ptr null, ptr null,
                       i32 0, ptr null)
  %got = icmp ne ptr %one, null
  br i1 %got, label %array.data, label %lacking
array.data:
  %data.w = getelementptr i64, ptr %one, i64 2
  %data = load ptr, ptr %data.w
  br label %put
put:
  %where = phi ptr [ %room, %scalar ], [ %data, %array.data ]
  %object = phi ptr [ null, %scalar ], [ %one, %array.data ]
  %slot.p = getelementptr ptr, ptr %slots, i64 %slot
  store ptr %where, ptr %slot.p
  %made.p = getelementptr ptr, ptr %made, i64 %i
  store ptr %object, ptr %made.p
  %i.next = add i64 %i, 1
  br label %result
lacking:                                           ; the ordinary call frees memory and retries
  call void @PyErr_Clear()
  call void @drop(ptr %made, i64 %i)
  br label %finish
finish:
  %well = phi i1 [ 1, %result ], [ 0, %lacking ]
  br i1 %is.large, label %restore, label %done
restore:
  %ours = call ptr %set(ptr %usual.handler)
  call void @Py_DecRef(ptr %usual.handler)
  call void @Py_DecRef(ptr %ours)
  br label %done
done:
  ret i1 %well
}

define internal void @drop(ptr %objects, i64 %count) {
  br label %one
one:
  %i = phi i64 [ 0, %0 ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %object.w = getelementptr i64, ptr %objects, i64 %i
  %object = load ptr, ptr %object.w
  call void @Py_DecRef(ptr %object)                ; no effect on null
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %one
done:
  ret void
}

; Assembles the results by the table's program, which is for a stack machine; null on failure.
define internal ptr @assemble(ptr %state, ptr %table, ptr %made, ptr %scratch, ptr %stack) {
  %count.w = getelementptr i64, ptr %table, i64 6
  %count = load i64, ptr %count.w
  %records.at.w = getelementptr i64, ptr %table, i64 7
  %records.at = load i64, ptr %records.at.w
  %records = getelementptr i64, ptr %table, i64 %records.at
  %program.at.w = getelementptr i64, ptr %table, i64 8
  %program.at = load i64, ptr %program.at.w
  %program = getelementptr i64, ptr %table, i64 %program.at
  %as.scalar.w = getelementptr i64, ptr %state, i64 5
  %as.scalar = load ptr, ptr %as.scalar.w
  br label %result
result:                                            ; create objects for numbers first
  %i = phi i64 [ 0, %0 ], [ %i.next, %result.next ]
  %at = phi ptr [ %records, %0 ], [ %at.next, %result.next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %operation
look:
  %axes.w = getelementptr i64, ptr %at, i64 1
  %axes = load i64, ptr %axes.w
  %words = add i64 %axes, 3
  %at.next = getelementptr i64, ptr %at, i64 %words
  %is.scalar = icmp eq i64 %axes, 0
  br i1 %is.scalar, label %scalar, label %result.next
scalar:
  %descr = load ptr, ptr %at
  %twice = mul i64 %i, 2
  %room = getelementptr i64, ptr %scratch, i64 %twice
  %number = call ptr %as.scalar(ptr %room, ptr %descr, ptr null)
  %made.p = getelementptr ptr, ptr %made, i64 %i
  store ptr %number, ptr %made.p
  %got = icmp ne ptr %number, null
  br i1 %got, label %result.next, label %fail.early
result.next:
  %i.next = add i64 %i, 1
  br label %result
operation:
  %op.at = phi ptr [ %program, %result ], [ %op.next, %pushed ]
  %height = phi i64 [ 0, %result ], [ %height.next, %pushed ]
  %op = load i64, ptr %op.at
  %operand.w = getelementptr i64, ptr %op.at, i64 1
  %operand = load i64, ptr %operand.w
  %pointer.w = getelementptr i64, ptr %op.at, i64 2
  %pointer = load ptr, ptr %pointer.w
  %op.after = getelementptr i64, ptr %op.at, i64 3
  %base = sub i64 %height, %operand
  %bottom = getelementptr ptr, ptr %stack, i64 %base
  switch i64 %op, label %done [
    i64 1, label %leaf
    i64 2, label %constant
    i64 3, label %tuple
    i64 4, label %list
    i64 5, label %dict
    i64 6, label %named
    i64 7, label %instance
  ]
leaf:
  %leaf.p = getelementptr ptr, ptr %made, i64 %operand
  %leaf.object = load ptr, ptr %leaf.p
  store ptr null, ptr %leaf.p
  br label %push.up
constant:
  call void @Py_IncRef(ptr %pointer)
  br label %push.up
push.up:
  %up = phi ptr [ %leaf.object, %leaf ], [ %pointer, %constant ]
  br label %push
tuple:
  %tuple.new = call ptr @PyTuple_New(i64 %operand)
  %tuple.got = icmp ne ptr %tuple.new, null
  br i1 %tuple.got, label %tuple.item, label %fail
tuple.item:
  %t = phi i64 [ 0, %tuple ], [ %t.next, %tuple.put ]
  %t.more = icmp slt i64 %t, %operand
  br i1 %t.more, label %tuple.put, label %push.container
tuple.put:
  %t.one.w = getelementptr i64, ptr %bottom, i64 %t
  %t.one = load ptr, ptr %t.one.w
  call i32 @PyTuple_SetItem(ptr %tuple.new, i64 %t, ptr %t.one)
  %t.next = add i64 %t, 1
  br label %tuple.item
list:
  %list.new = call ptr @PyList_New(i64 %operand)
  %list.got = icmp ne ptr %list.new, null
  br i1 %list.got, label %list.item, label %fail
list.item:
  %l = phi i64 [ 0, %list ], [ %l.next, %list.put ]
  %l.more = icmp slt i64 %l, %operand
  br i1 %l.more, label %list.put, label %push.container
list.put:
  %l.one.w = getelementptr i64, ptr %bottom, i64 %l
  %l.one = load ptr, ptr %l.one.w
  call i32 @PyList_SetItem(ptr %list.new, i64 %l, ptr %l.one)
  %l.next = add i64 %l, 1
  br label %list.item
dict:
  %dict.new = call ptr @PyDict_New()
  %dict.got = icmp ne ptr %dict.new, null
  br i1 %dict.got, label %dict.item, label %fail
dict.item:
  %d = phi i64 [ 0, %dict ], [ %d.next, %dict.put ]
  %d.more = icmp slt i64 %d, %operand
  br i1 %d.more, label %dict.look, label %dict.done
dict.look:
  %d.one.w = getelementptr i64, ptr %bottom, i64 %d
  %d.one = load ptr, ptr %d.one.w
  %d.key.w = getelementptr i64, ptr %op.after, i64 %d
  %d.key = load ptr, ptr %d.key.w
  %d.failed = call i32 @PyDict_SetItem(ptr %dict.new, ptr %d.key, ptr %d.one)
  %d.well = icmp eq i32 %d.failed, 0
  br i1 %d.well, label %dict.put, label %dict.fail
dict.put:
  %d.next = add i64 %d, 1
  br label %dict.item
dict.done:                                         ; the dictionary holds its own references
  call void @drop(ptr %bottom, i64 %operand)
  br label %push.container
dict.fail:
  call void @Py_DecRef(ptr %dict.new)
  br label %fail
named:
  %given.w = getelementptr i64, ptr %stack, i64 %base
  %given = load ptr, ptr %given.w
  %named.new = call ptr @PyObject_CallObject(ptr %pointer, ptr %given)
  %named.got = icmp ne ptr %named.new, null
  br i1 %named.got, label %named.done, label %fail
named.done:
  call void @Py_DecRef(ptr %given)
  br label %push.container
instance:                                          ; of a registered dataclass
  %instance.new = call ptr @PyObject_CallObject(ptr %pointer, ptr null)
  %instance.got = icmp ne ptr %instance.new, null
  br i1 %instance.got, label %instance.item, label %fail
instance.item:
  %a = phi i64 [ 0, %instance ], [ %a.next, %instance.put ]
  %a.more = icmp slt i64 %a, %operand
  br i1 %a.more, label %instance.look, label %instance.done
instance.look:
  %a.one.w = getelementptr i64, ptr %bottom, i64 %a
  %a.one = load ptr, ptr %a.one.w
  %a.name.w = getelementptr i64, ptr %op.after, i64 %a
  %a.name = load ptr, ptr %a.name.w
  %a.failed = call i32 @PyObject_GenericSetAttr(ptr %instance.new, ptr %a.name, ptr %a.one)
  %a.well = icmp eq i32 %a.failed, 0
  br i1 %a.well, label %instance.put, label %instance.fail
instance.put:
  %a.next = add i64 %a, 1
  br label %instance.item
instance.done:
  call void @drop(ptr %bottom, i64 %operand)
  br label %push.container
instance.fail:
  call void @Py_DecRef(ptr %instance.new)
  br label %fail
push.container:
  %container = phi ptr [ %tuple.new, %tuple.item ], [ %list.new, %list.item ],
                       [ %dict.new, %dict.done ], [ %named.new, %named.done ],
                       [ %instance.new, %instance.done ]
  br label %push
push:
  %object = phi ptr [ %up, %push.up ], [ %container, %push.container ]
  %place = phi i64 [ %height, %push.up ], [ %base, %push.container ]
  %place.p = getelementptr ptr, ptr %stack, i64 %place
  store ptr %object, ptr %place.p
  %height.next = add i64 %place, 1
  br label %pushed
pushed:
  %is.dict = icmp eq i64 %op, 5
  %is.instance = icmp eq i64 %op, 7
  %has.keys = or i1 %is.dict, %is.instance
  %keys = select i1 %has.keys, i64 %operand, i64 0
  %op.next = getelementptr i64, ptr %op.after, i64 %keys
  br label %operation
fail:
  call void @drop(ptr %stack, i64 %height)
  br label %fail.early
fail.early:
  call void @drop(ptr %made, i64 %count)
  ret ptr null
done:
  %whole = load ptr, ptr %stack
  ret ptr %whole
}

; Calls a Python function with the leaves; null on failure.
define internal ptr @by_python(ptr %callable, ptr %leaves, i64 %count) {
  br label %hold
hold:                                              ; take references before any other code can run
  %h = phi i64 [ 0, %0 ], [ %h.next, %hold.one ]
  %h.more = icmp slt i64 %h, %count
  br i1 %h.more, label %hold.one, label %make
hold.one:
  %held.w = getelementptr ptr, ptr %leaves, i64 %h
  %held = load ptr, ptr %held.w
  call void @Py_IncRef(ptr %held)
  %h.next = add i64 %h, 1
  br label %hold
make:
  %given = call ptr @PyTuple_New(i64 %count)
  %got = icmp ne ptr %given, null
  br i1 %got, label %one, label %failed
one:                                               ; the tuple takes over the references
  %i = phi i64 [ 0, %make ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %put, label %go
put:
  %leaf.w = getelementptr ptr, ptr %leaves, i64 %i
  %leaf = load ptr, ptr %leaf.w
  call i32 @PyTuple_SetItem(ptr %given, i64 %i, ptr %leaf)
  %i.next = add i64 %i, 1
  br label %one
go:
  %answer = call ptr @PyObject_CallObject(ptr %callable, ptr %given)
  call void @Py_DecRef(ptr %given)
  ret ptr %answer
failed:
  call void @drop(ptr %leaves, i64 %count)
  ret ptr null
}

; Attempts a call by one table. If it does not match, returns null and sets %missed.
define internal ptr @attempt(ptr %table, ptr %args, ptr %kwargs, ptr %missed) {
  %state = load ptr, ptr %table
  %off.w = getelementptr i64, ptr %state, i64 1
  %off = load i64, ptr %off.w
  %is.on = icmp eq i64 %off, 0
  br i1 %is.on, label %outside, label %miss
outside:                                           ; within a trace, the ordinary call records
  %current.w = getelementptr i64, ptr %state, i64 2
  %current = load ptr, ptr %current.w
  %none.w = getelementptr i64, ptr %state, i64 3
  %none = load ptr, ptr %none.w
  %trace.p = alloca ptr
  store ptr %none, ptr %trace.p
  %copies.p = alloca ptr
  store ptr null, ptr %copies.p
  %held.p = alloca i64
  store i64 0, ptr %held.p
  %asked = call i32 @PyContextVar_Get(ptr %current, ptr null, ptr %trace.p)
  %trace = load ptr, ptr %trace.p
  %known = icmp eq i32 %asked, 0
  br i1 %known, label %trace.known, label %unknown
unknown:
  call void @PyErr_Clear()
  br label %miss
trace.known:
  call void @Py_DecRef(ptr %trace)
  %no.trace = icmp eq ptr %trace, %none
  br i1 %no.trace, label %begin, label %miss
begin:
  %size.w = getelementptr i64, ptr %table, i64 3
  %size = load i64, ptr %size.w
  %is.small = icmp ule i64 %size, 1024
  br i1 %is.small, label %on.stack, label %on.heap
on.stack:
  %near = alloca i64, i64 %size, align 16
  br label %collecting
on.heap:
  %bytes = shl i64 %size, 3
  %far = call ptr @PyMem_RawMalloc(i64 %bytes)
  %got = icmp ne ptr %far, null
  br i1 %got, label %collecting, label %miss
collecting:
  %scratch = phi ptr [ %near, %on.stack ], [ %far, %on.heap ]
  %program.w = getelementptr i64, ptr %table, i64 2
  %program = load ptr, ptr %program.w
  %results.w = getelementptr i64, ptr %table, i64 6
  %results = load i64, ptr %results.w
  %nodes.w = getelementptr i64, ptr %table, i64 5
  %nodes = load i64, ptr %nodes.w
  %slot.words.w = getelementptr i64, ptr %table, i64 4
  %slot.words = load i64, ptr %slot.words.w
  %result.words = mul i64 %results, 2              ; at the start, aligned to 16 bytes
  %queue = getelementptr i64, ptr %scratch, i64 %result.words
  %integers = getelementptr i64, ptr %queue, i64 %nodes
  %made = getelementptr i64, ptr %integers, i64 %nodes
  %slots = getelementptr i64, ptr %made, i64 %results
  %stack = getelementptr i64, ptr %slots, i64 %slot.words
  store ptr %args, ptr %queue
  %queue.1 = getelementptr ptr, ptr %queue, i64 1
  store ptr %kwargs, ptr %queue.1
  %queue.2 = getelementptr ptr, ptr %queue, i64 2
  %guards.w = getelementptr i64, ptr %table, i64 1
  %guards = load ptr, ptr %guards.w
  %unguarded = icmp eq ptr %guards, null
  br i1 %unguarded, label %as.guarded, label %guarding
guarding:
  %ndarray.w = getelementptr i64, ptr %state, i64 7
  %ndarray = load ptr, ptr %ndarray.w
  %true.w = getelementptr i64, ptr %state, i64 8
  %true = load ptr, ptr %true.w
  %agreed = call i1 @guarded(ptr %guards, ptr %queue.2, ptr %ndarray, ptr %true)
  br i1 %agreed, label %as.guarded, label %free.missed
as.guarded:
  %inputs.w = getelementptr i64, ptr %table, i64 12
  %inputs = load i64, ptr %inputs.w
  %captured.p = getelementptr ptr, ptr %queue.2, i64 %inputs
  %captured.w = getelementptr i64, ptr %table, i64 10
  %captured = load ptr, ptr %captured.w
  store ptr %captured, ptr %captured.p
  %fitting = call i1 @fits(ptr %state, ptr %table, ptr %slots, ptr %queue, ptr %integers,
                         ptr %copies.p, ptr %held.p)
  br i1 %fitting, label %fitted, label %free.missed
fitted:
  %is.native = icmp ne ptr %program, null
  br i1 %is.native, label %allocating, label %calling
calling:                                           ; the result None means that it declines
  %callable.w = getelementptr i64, ptr %table, i64 9
  %callable = load ptr, ptr %callable.w
  %returned = call ptr @by_python(ptr %callable, ptr %slots, i64 %slot.words)
  %declined = icmp eq ptr %returned, %none
  br i1 %declined, label %not.taken, label %taken
not.taken:
  call void @Py_DecRef(ptr %returned)
  br label %free.missed
taken:
  call void @drop(ptr %queue, i64 %nodes)
  call void @drop(ptr %copies.p, i64 1)
  store i1 0, ptr %missed
  br i1 %is.small, label %returning, label %free.returned
free.returned:
  call void @PyMem_RawFree(ptr %scratch)
  br label %returning
returning:
  ret ptr %returned
allocating:
  %allocated = call i1 @allocate(ptr %state, ptr %table, ptr %slots, ptr %made, ptr %scratch)
  br i1 %allocated, label %go, label %free.missed
go:
  %status = call i64 @run(ptr %program, ptr %slots)
  %well = icmp eq i64 %status, 0
  br i1 %well, label %assembling, label %failed
assembling:
  %whole = call ptr @assemble(ptr %state, ptr %table, ptr %made, ptr %scratch, ptr %stack)
  br label %let.go
failed:
  call void @drop(ptr %made, i64 %results)
  br label %let.go
let.go:
  %answer = phi ptr [ %whole, %assembling ], [ null, %failed ]
  call void @drop(ptr %queue, i64 %nodes)
  call void @drop(ptr %copies.p, i64 1)
  br i1 %is.small, label %end, label %free.heap
free.heap:
  call void @PyMem_RawFree(ptr %scratch)
  br label %end
end:
  %failed.so = icmp ne i64 %status, 0
  %not.raised = icmp ne i64 %status, 9             ; unless a signal handler has raised
  %again = and i1 %failed.so, %not.raised          ; the ordinary call repeats it and raises
  store i1 %again, ptr %missed
  ret ptr %answer
free.missed:
  %held = load i64, ptr %held.p
  call void @drop(ptr %queue, i64 %held)
  call void @drop(ptr %copies.p, i64 1)
  br i1 %is.small, label %miss, label %free.heap.missed
free.heap.missed:
  call void @PyMem_RawFree(ptr %scratch)
  br label %miss
miss:
  store i1 1, ptr %missed
  ret ptr null
}

define ptr @lookup(ptr %self, ptr %args, ptr %kwargs) {
  %missed = alloca i1
  %recent.p = getelementptr i8, ptr %self, i64 PLACE
  %recent = load ptr, ptr %recent.p
  %deleted = icmp eq ptr %recent, null
  br i1 %deleted, label %as.usual, label %begin
begin:
  %count = call i64 @PyTuple_Size(ptr %recent)
  %none = icmp slt i64 %count, 1
  br i1 %none, label %as.usual, label %named
named:
  %positional = icmp eq ptr %kwargs, null
  br i1 %positional, label %try, label %keywords
keywords:
  %given = call i64 @PyDict_Size(ptr %kwargs)
  %empty = icmp eq i64 %given, 0
  %real = select i1 %empty, ptr null, ptr %kwargs
  br label %try
try:
  %options = phi ptr [ null, %named ], [ %real, %keywords ]
  call void @Py_IncRef(ptr %recent)                ; another thread may replace it
  br label %one
one:
  %i = phi i64 [ 0, %try ], [ %i.next, %other ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %given.up
look:
  %entry = call ptr @PyTuple_GetItem(ptr %recent, i64 %i)
  %array = call ptr @PyTuple_GetItem(ptr %entry, i64 0)
  %table.w = getelementptr i64, ptr %array, i64 2
  %table = load ptr, ptr %table.w
  %no.keywords = icmp eq ptr %options, null
  %nothing.w = getelementptr i64, ptr %table, i64 11
  %nothing = load ptr, ptr %nothing.w
  %second = select i1 %no.keywords, ptr %nothing, ptr %options
  %answer = call ptr @attempt(ptr %table, ptr %args, ptr %second, ptr %missed)
  %again = load i1, ptr %missed
  br i1 %again, label %other, label %done
other:
  %i.next = add i64 %i, 1
  br label %one
done:
  call void @Py_DecRef(ptr %recent)
  ret ptr %answer
given.up:
  call void @Py_DecRef(ptr %recent)
  br label %as.usual
as.usual:
  %result = call ptr @usual(ptr %self, ptr %args, ptr %kwargs)
  ret ptr %result
}
