"""The loader of object files, on programs written by hand: relocations and symbols."""

import ctypes

import numpy as np
import pytest

from functrans.run.code import elf, native

pytestmark = pytest.mark.skipif(not elf.SUPPORTED, reason="LLVM loads code here")

INTEGER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def loaded(text, **imports):
    return elf.load(native.compile_object(text), imports)


def test_functions_by_their_names():
    code = loaded("""
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @square(i64 %x) {
  %y = mul i64 %x, %x
  ret i64 %y
}
""")
    assert INTEGER(code.symbols["twice"])(21) == 42
    assert INTEGER(code.symbols["square"])(-7) == 49
    # functions begin where the processor likes to begin
    assert all(code.symbols[name] % 16 == 0 for name in ("twice", "square"))


def test_a_function_that_calls_another_of_the_file_itself():
    code = loaded("""
define internal i64 @fib(i64 %n) noinline {
  %small = icmp slt i64 %n, 2
  br i1 %small, label %done, label %more
more:
  %a = sub i64 %n, 1
  %b = sub i64 %n, 2
  %x = call i64 @fib(i64 %a)
  %y = call i64 @fib(i64 %b)
  %z = add i64 %x, %y
  ret i64 %z
done:
  ret i64 %n
}
define i64 @entry(i64 %n) {
  %x = call i64 @fib(i64 %n)
  ret i64 %x
}
""")
    assert INTEGER(code.symbols["entry"])(20) == 6765


def test_what_is_given_goes_before_what_the_process_has():
    text = """
declare i64 @llabs(i64) nobuiltin
define i64 @entry(i64 %x) {
  %y = call i64 @llabs(i64 %x)
  ret i64 %y
}
"""
    code = loaded(text)
    assert INTEGER(code.symbols["entry"])(-5) == 5
    seen = []
    ours = INTEGER(lambda x: seen.append(x) or 77)
    code = loaded(text, llabs=ctypes.cast(ours, ctypes.c_void_p).value)
    assert INTEGER(code.symbols["entry"])(-5) == 77
    assert seen == [-5]


def test_constants_lie_where_vectors_can_load_them():
    code = loaded("""
@small = private unnamed_addr constant [3 x i8] [i8 1, i8 2, i8 3], align 1
@table = private unnamed_addr constant [8 x i64] [i64 3, i64 1, i64 4, i64 1, i64 5, i64 9, i64 2,
  i64 6], align 64
define i64 @entry(i64 %i) {
  %p = getelementptr [8 x i64], ptr @table, i64 0, i64 %i
  %q = getelementptr [3 x i8], ptr @small, i64 0, i64 1
  %x = load i64, ptr %p
  %b = load i8, ptr %q
  %c = zext i8 %b to i64
  %y = mul i64 %x, %c
  ret i64 %y
}
define i64 @place(i64 %i) {
  %p = ptrtoint ptr @table to i64
  ret i64 %p
}
""")
    entry = INTEGER(code.symbols["entry"])
    assert [entry(i) for i in range(8)] == [6, 2, 8, 2, 10, 18, 4, 12]
    assert INTEGER(code.symbols["place"])(0) % 64 == 0


def test_a_table_of_addresses_is_left_to_llvm():
    with pytest.raises(elf.NotUnderstood, match="variables"):
        loaded("""
define internal i64 @up(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
define internal i64 @down(i64 %x) {
  %y = sub i64 %x, 1
  ret i64 %y
}
@ways = internal unnamed_addr constant [2 x ptr] [ptr @up, ptr @down], align 8
define i64 @entry(i64 %which) {
  %p = getelementptr [2 x ptr], ptr @ways, i64 0, i64 %which
  %f = load ptr, ptr %p
  %y = call i64 %f(i64 10)
  ret i64 %y
}
""")


def test_the_memory_cannot_be_written_to_any_more():
    code = loaded("define i64 @entry(i64 %x) {\n  ret i64 %x\n}\n")
    lines = [line.split() for line in open("/proc/self/maps", encoding="utf-8")]
    for bounds, rights, *_ in lines:
        start, stop = (int(each, 16) for each in bounds.split("-"))
        if start <= code.symbols["entry"] < stop:
            assert rights.startswith("r-x")
            break
    else:
        raise AssertionError("the code is nowhere")


def test_files_for_other_machines():
    image = bytearray(native.compile_object("define void @f() {\n  ret void\n}\n"))
    assert np.frombuffer(bytes(image[18:20]), "<u2") == 62
    image[18:20] = (183).to_bytes(2, "little")  # aarch64
    with pytest.raises(elf.NotUnderstood, match="AMD64"):
        elf.load(bytes(image), {})
