"""LLVM IR text: types, numbers, names, constants."""

import numpy as np
import pytest

from functrans.emit.llvm.text import (
    Writer,
    literal,
    memory_type,
    register_type,
    splat_literal,
    suffix,
)

F8, F4, F2, I1, U4, BOOL = map(np.dtype, ("f8", "f4", "f2", "i1", "u4", "?"))


@pytest.mark.parametrize(
    ("dtype", "register", "memory", "name"),
    [
        (F8, "double", "double", "f64"),
        (F4, "float", "float", "f32"),
        (F2, "half", "half", "f16"),
        (I1, "i8", "i8", "i8"),
        (U4, "i32", "i32", "i32"),
        (BOOL, "i1", "i8", "i1"),
    ],
)
def test_types(dtype, register, memory, name):
    assert (register_type(dtype), memory_type(dtype), suffix(dtype)) == (register, memory, name)
    assert register_type(dtype, 8) == f"<8 x {register}>"
    assert memory_type(dtype, 8) == f"<8 x {memory}>"
    assert suffix(dtype, 8) == f"v8{name}"


@pytest.mark.parametrize("value", [1.5, 0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324])
@pytest.mark.parametrize("dtype", [F8, F4])
def test_floats_are_written_by_their_bits(value, dtype):
    """LLVM writes a float of any size as the bits of a double."""
    with np.errstate(under="ignore"):
        number = dtype.type(value)
    text = literal(value, dtype)
    assert text.startswith("0x")
    assert np.uint64(int(text, 16)) == np.float64(number).view(np.uint64)


@pytest.mark.parametrize(
    ("value", "dtype", "text"), [(3, I1, "3"), (-128, I1, "-128"), (True, BOOL, "true"),
                                 (False, BOOL, "false"), (2**32 - 1, U4, str(2**32 - 1))]
)  # fmt: skip
def test_integers_and_bools(value, dtype, text):
    assert literal(value, dtype) == text


def test_vectors_of_one_number():
    assert splat_literal("3", "i8", 1) == "3"
    assert splat_literal("3", "i8", 2) == "<i8 3, i8 3>"


def test_names_are_used_once():
    writer = Writer()
    names = [writer.name("x") for _ in range(3)] + [writer.define("add i64 1, 2")]
    assert len(set(names)) == 4


def test_lines_that_are_written_later():
    writer = Writer()
    writer.start("top")
    place = writer.reserve()
    writer.jump("end")
    writer.fill(place, "%x = phi i64 [0, %entry]")
    assert writer.lines[-2:] == ["  %x = phi i64 [0, %entry]", "  br label %end"]
    assert writer.block == "top"


def test_equal_constants_and_declarations_are_there_once():
    writer = Writer()
    one = writer.constant("[2 x i64]", "[i64 1, i64 2]")
    assert writer.constant("[2 x i64]", "[i64 1, i64 2]") == one
    assert writer.constant("[2 x i64]", "[i64 1, i64 3]") != one
    for _ in range(2):
        writer.call("llvm.sqrt.f64", "double", [("double", "%x")])
    assert list(writer.declarations.values()) == ["declare double @llvm.sqrt.f64(double)"]
    assert sum("[2 x i64]" in line for line in writer.global_lines()) == 2
    # the functions of a module share them, and nothing else
    other = writer.for_function()
    assert other.constant("[2 x i64]", "[i64 1, i64 2]") == one
    assert (len(writer.lines), other.lines) == (2, [])
