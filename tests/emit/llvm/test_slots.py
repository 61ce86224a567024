"""Conditions that a vector loop carries are held as integers where there are no mask registers."""

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Reduce, Store, buffer, load, local, size
from tests.emit.test_statements import by_llvm

BOOL, ZERO, ROWS = np.dtype(bool), const(0, INDEX), size(0)
LANES, COLUMNS = 16, 43


def columns(op, dtype, direct=False):
    """Whether any, or each, number of a column is at least 1, or is one."""
    dtype = np.dtype(dtype)
    x = buffer("x", dtype, (ROWS, const(COLUMNS, INDEX)))
    y = buffer("y", BOOL, (const(COLUMNS, INDEX),))
    row, column, found = index("i"), index("j", COLUMNS), local(BOOL, op)
    number = load(x, (row, column))
    holds = number if direct else number >= 1
    body = (Reduce((found,), (op,), (holds,), ((row, ZERO, ROWS),)), Store(y, (column,), found))
    return Kernel((x, y), 1, (For(column, ZERO, const(COLUMNS, INDEX), body, lanes=LANES),))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("op", "numpy"), [("or", np.any), ("and", np.all), ("max", np.any), ("min", np.all)]
)
def test_they_are_as_wide_as_what_is_compared(op, numpy, dtype):
    kernel = columns(op, dtype, direct=dtype == np.bool_)
    held = f"alloca <{LANES} x i{8 * np.dtype(dtype).itemsize}>"
    assert held in emit(kernel, frozenset({"pieces"}))
    assert f"alloca <{LANES} x i1>" in emit(kernel)
    for rows in 0, 1, 2, 17:
        x = np.random.default_rng(rows).integers(0, 2 + rows // 2, (rows, COLUMNS)).astype(dtype)
        for instructions in frozenset(), frozenset({"pieces"}):
            found = np.zeros(COLUMNS, bool)
            by_llvm(kernel, [x, found], (rows,), instructions=instructions)
            np.testing.assert_array_equal(found, numpy(x >= 1, axis=0))


def test_conditions_of_conditions():
    """The widest of the numbers that are compared, however deep."""
    x, y = (buffer(name, np.dtype(np.float32), (ROWS, const(COLUMNS, INDEX))) for name in "xy")
    z = buffer("z", BOOL, (const(COLUMNS, INDEX),))
    row, column, found = index("i"), index("j", COLUMNS), local(BOOL, "any")
    both = (load(x, (row, column)) <= 0.0) & (load(y, (row, column)) <= 0.0)
    body = (Reduce((found,), ("or",), (both,), ((row, ZERO, ROWS),)), Store(z, (column,), found))
    kernel = Kernel((x, y, z), 1, (For(column, ZERO, const(COLUMNS, INDEX), body, lanes=LANES),))
    assert f"alloca <{LANES} x i32>" in emit(kernel, frozenset({"pieces"}))
    a, b = np.random.default_rng(0).normal(size=(2, 3, COLUMNS)).astype(np.float32)
    result = np.zeros(COLUMNS, bool)
    by_llvm(kernel, [a, b, result], (3,), instructions=frozenset({"pieces"}))
    np.testing.assert_array_equal(result, ((a <= 0) & (b <= 0)).any(0))
