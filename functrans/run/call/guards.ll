; Guards of the inline cache: the virtual machine that checks the state outside a call's arguments.
;
; functrans/run/call/guards.py documents the instructions. Each has three words: an operation and
; two operands. Only the operation ASK (1) runs Python code.

declare void @Py_DecRef(ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @PySet_Size(ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @data_of(ptr, ptr, ptr)

; A visitor of an object's referents, whose addresses must be the expected ones. The state has the
; address of the next instruction with an expected one, and that of the instruction after the last.
; Returns 1, which ends the visits, if they differ.
define internal i32 @same_referent(ptr %object, ptr %state) {
  %expected = load ptr, ptr %state
  %end.p = getelementptr ptr, ptr %state, i64 1
  %end = load ptr, ptr %end.p
  %is.end = icmp eq ptr %expected, %end
  br i1 %is.end, label %differs, label %compare
compare:
  %address.p = getelementptr i64, ptr %expected, i64 1
  %address = load ptr, ptr %address.p
  %after = getelementptr i64, ptr %expected, i64 3
  store ptr %after, ptr %state
  %same = icmp eq ptr %address, %object
  br i1 %same, label %agrees, label %differs
agrees:
  ret i32 0
differs:
  ret i32 1
}

; Returns whether all guards hold. Objects marked as inputs are stored at %inputs.
define internal i1 @guarded(ptr %program, ptr %inputs, ptr %ndarray, ptr %true) {
  %in.hand.p = alloca ptr                          ; the current container: a dictionary or a list
  %object.p = alloca ptr                           ; the current object
  %position.p = alloca i64
  %key.p = alloca ptr
  %value.p = alloca ptr
  %visits = alloca [2 x ptr]                       ; the state of a visitor
  br label %step
step:
  %at = phi ptr [ %program, %0 ], [ %at.next, %next ], [ %after.checks, %version ],
                [ %visits.end, %visited ]
  %found = phi i64 [ 0, %0 ], [ %found.next, %next ], [ %found, %version ], [ %found, %visited ]
  %op = load i64, ptr %at
  %first.w = getelementptr i64, ptr %at, i64 1
  %first = load ptr, ptr %first.w
  %second.w = getelementptr i64, ptr %at, i64 2
  %second = load ptr, ptr %second.w
  %number = ptrtoint ptr %second to i64
  %at.next = getelementptr i64, ptr %at, i64 3
  %in.hand = load ptr, ptr %in.hand.p
  switch i64 %op, label %no [
    i64 0, label %yes
    i64 1, label %ask
    i64 2, label %cell
    i64 3, label %dictionary
    i64 4, label %attributes
    i64 5, label %size
    i64 6, label %named
    i64 7, label %entry
    i64 8, label %list
    i64 9, label %element
    i64 10, label %slot
    i64 11, label %defaults
    i64 12, label %keyword.defaults
    i64 13, label %array
    i64 14, label %object
    i64 15, label %itself
    i64 16, label %set
    i64 17, label %code
    i64 18, label %version
    i64 19, label %referents
  ]
ask:
  %answer = call ptr @PyObject_CallObject(ptr %first, ptr null)
  call void @Py_DecRef(ptr %answer)                ; no effect on null
  %failed = icmp eq ptr %answer, null
  %agreed = icmp eq ptr %answer, %true
  br i1 %failed, label %clear, label %test
cell:
  %content = call ptr @PyCell_Get(ptr %first)
  call void @Py_DecRef(ptr %content)               ; the cell still holds a reference
  br label %check
dictionary:
  store ptr %first, ptr %in.hand.p
  store i64 0, ptr %position.p
  br label %go.on
object:
  %type.p = getelementptr i8, ptr %first, i64 8
  %type = load ptr, ptr %type.p
  %same.type = icmp eq ptr %type, %second
  store ptr %first, ptr %object.p
  br label %test
attributes:
  %object.with = load ptr, ptr %object.p
  %content.dict = call ptr @PyObject_GenericGetDict(ptr %object.with, ptr null)
  call void @Py_DecRef(ptr %content.dict)
  store ptr %content.dict, ptr %in.hand.p
  store i64 0, ptr %position.p
  %none.there = icmp eq ptr %content.dict, null
  br i1 %none.there, label %clear, label %go.on
version:                                           ; the higher half of an operand is a number
  %version.at = ptrtoint ptr %first to i64
  %versioned = load ptr, ptr %object.p
  %version.p = getelementptr i8, ptr %versioned, i64 %version.at
  %version.is = load i32, ptr %version.p
  %version.known = trunc i64 %number to i32
  %is.known = icmp eq i32 %version.is, %version.known
  %checks = lshr i64 %number, 32
  %skipped = select i1 %is.known, i64 %checks, i64 0
  %skipped.words = mul i64 %skipped, 3
  %after.checks = getelementptr i64, ptr %at.next, i64 %skipped.words
  br label %step
referents:
  %visited.type.p = getelementptr i8, ptr %first, i64 8
  %visited.type = load ptr, ptr %visited.type.p
  %traverse.p = getelementptr i8, ptr %visited.type, i64 184 ; `layouts.TRAVERSE`
  %traverse = load ptr, ptr %traverse.p
  %referents.words = mul i64 %number, 3
  %visits.end = getelementptr i64, ptr %at.next, i64 %referents.words
  store ptr %at.next, ptr %visits
  %visits.end.p = getelementptr ptr, ptr %visits, i64 1
  store ptr %visits.end, ptr %visits.end.p
  %none.visits = icmp eq ptr %traverse, null       ; the object has another type now
  br i1 %none.visits, label %no, label %visit
visit:
  %ended = call i32 %traverse(ptr %first, ptr @same_referent, ptr %visits)
  %reached = load ptr, ptr %visits
  %all.visited = icmp eq ptr %reached, %visits.end
  %none.differs = icmp eq i32 %ended, 0
  %same.referents = and i1 %all.visited, %none.differs
  br i1 %same.referents, label %visited, label %no
visited:
  br label %step
size:
  %length = call i64 @PyDict_Size(ptr %in.hand)
  %same.length = icmp eq i64 %length, %number
  br label %test
named:
  %named.value = call ptr @PyDict_GetItemWithError(ptr %in.hand, ptr %first)
  %is.absent = icmp eq ptr %named.value, null
  br i1 %is.absent, label %named.absent, label %check
named.absent:                                      ; or comparing keys has raised
  call void @PyErr_Clear()
  br label %check
entry:
  %some = call i32 @PyDict_Next(ptr %in.hand, ptr %position.p, ptr %key.p, ptr %value.p)
  %is.end = icmp eq i32 %some, 0
  br i1 %is.end, label %no, label %entry.key
entry.key:
  %key = load ptr, ptr %key.p
  %entry.value = load ptr, ptr %value.p
  %same.key = icmp eq ptr %key, %first
  br i1 %same.key, label %check, label %no
list:
  store ptr %first, ptr %in.hand.p
  store i64 0, ptr %position.p
  %elements = call i64 @PyList_Size(ptr %first)
  %same.elements = icmp eq i64 %elements, %number
  br label %test
set:
  %members = call i64 @PySet_Size(ptr %first)
  %same.members = icmp eq i64 %members, %number
  br label %test
element:
  %place = load i64, ptr %position.p
  %place.next = add i64 %place, 1
  store i64 %place.next, ptr %position.p
  %element.value = call ptr @PyList_GetItem(ptr %in.hand, i64 %place)
  br label %check
slot:
  %offset = ptrtoint ptr %first to i64
  %slotted = load ptr, ptr %object.p
  %slot.p = getelementptr i8, ptr %slotted, i64 %offset
  %slot.value = load ptr, ptr %slot.p
  br label %check
defaults:
  %defaults.value = call ptr @PyFunction_GetDefaults(ptr %first)
  br label %check
keyword.defaults:
  %keyword.defaults.value = call ptr @PyFunction_GetKwDefaults(ptr %first)
  br label %check
code:
  %code.value = call ptr @PyFunction_GetCode(ptr %first)
  br label %check
itself:
  br label %check
array:                                             ; an array of constants, compared with a copy
  %copy = load ptr, ptr %second
  %words.p = getelementptr i64, ptr %second, i64 1
  %words = load i64, ptr %words.p
  %bytes.p = getelementptr i64, ptr %second, i64 2
  %bytes = load i64, ptr %bytes.p
  %record = getelementptr i64, ptr %second, i64 3
  %data = call ptr @data_of(ptr %first, ptr %record, ptr %ndarray)
  %other.type = icmp eq ptr %data, null
  br i1 %other.type, label %no, label %word
word:
  %w = phi i64 [ 0, %array ], [ %w.next, %word.look ]
  %differing = phi i64 [ 0, %array ], [ %differing.next, %word.look ]
  %words.left = icmp slt i64 %w, %words
  br i1 %words.left, label %word.look, label %byte
word.look:
  %data.w = getelementptr i64, ptr %data, i64 %w
  %copy.w = getelementptr i64, ptr %copy, i64 %w
  %data.word = load i64, ptr %data.w, align 1
  %copy.word = load i64, ptr %copy.w, align 1
  %word.bits = xor i64 %data.word, %copy.word
  %differing.next = or i64 %differing, %word.bits
  %w.next = add i64 %w, 1
  br label %word
byte:                                              ; the bytes after the last whole word
  %b = phi i64 [ 0, %word ], [ %b.next, %byte.look ]
  %odd = phi i64 [ %differing, %word ], [ %odd.next, %byte.look ]
  %bytes.left = icmp slt i64 %b, %bytes
  br i1 %bytes.left, label %byte.look, label %compared
byte.look:
  %words.bytes = shl i64 %words, 3
  %byte.place = add i64 %words.bytes, %b
  %data.b = getelementptr i8, ptr %data, i64 %byte.place
  %copy.b = getelementptr i8, ptr %copy, i64 %byte.place
  %data.byte = load i8, ptr %data.b
  %copy.byte = load i8, ptr %copy.b
  %byte.bits = xor i8 %data.byte, %copy.byte
  %byte.word = zext i8 %byte.bits to i64
  %odd.next = or i64 %odd, %byte.word
  %b.next = add i64 %b, 1
  br label %byte
compared:
  %same.bits = icmp eq i64 %odd, 0
  br label %test
go.on:
  br label %test
test:
  %holds = phi i1 [ %agreed, %ask ], [ %same.length, %size ], [ %same.elements, %list ],
                  [ %same.members, %set ],
                  [ %same.bits, %compared ], [ %same.type, %object ], [ 1, %go.on ]
  br i1 %holds, label %next, label %no
check:
  %value = phi ptr [ %content, %cell ], [ %named.value, %named ],
                   [ null, %named.absent ], [ %entry.value, %entry.key ],
                   [ %element.value, %element ], [ %slot.value, %slot ], [ %first, %itself ],
                   [ %defaults.value, %defaults ], [ %keyword.defaults.value, %keyword.defaults ],
                   [ %code.value, %code ]
  %same = icmp eq ptr %value, %second
  br i1 %same, label %next, label %marked
marked:
  switch i64 %number, label %no [
    i64 1, label %next
    i64 2, label %input
  ]
input:
  %nothing = icmp eq ptr %value, null
  br i1 %nothing, label %no, label %input.put
input.put:
  %input.p = getelementptr ptr, ptr %inputs, i64 %found
  store ptr %value, ptr %input.p
  %found.more = add i64 %found, 1
  br label %next
next:
  %found.next = phi i64 [ %found, %test ], [ %found, %check ], [ %found, %marked ],
                        [ %found.more, %input.put ]
  br label %step
clear:
  call void @PyErr_Clear()
  br label %no
yes:
  ret i1 1
no:
  ret i1 0
}
