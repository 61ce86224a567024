"""Matrix product adapters against BLAS with the same arguments."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from functrans import config
from functrans.run.cuda.libraries.handles import handles_for
from functrans.run.cuda.libraries.table import adapter
from tests.run.cuda.libraries.calls import LETTERS, agree, by_library, column_major
from tests.run.cuda.libraries.stub import Machine

FLAGS = list(itertools.product((b"N", b"T"), repeat=2))
SIZES = [(1, 1, 1), (2, 17, 5), (17, 3, 2), (0, 4, 3), (4, 0, 3), (4, 3, 0), (33, 20, 40)]
SCALES = [(1.0, 0.0), (-0.5, 1.0), (2.0, 0.5), (0.0, 0.5), (0.0, 1.0), (0.0, 0.0)]


def operands(dtype, flags, m, n, k, pad=(0, 0, 0), first=0):
    rng = np.random.default_rng(m + 10 * n + 100 * k)
    shapes = [
        (m, k) if flags[0] == b"N" else (k, m),
        (k, n) if flags[1] == b"N" else (n, k),
        (m, n),
    ]
    leading = [max(1, shape[0]) + more for shape, more in zip(shapes, pad, strict=True)]
    return leading, [
        column_major(rng.normal(size=shape).astype(dtype), one, first)
        for shape, one in zip(shapes, leading, strict=True)
    ]


def arguments(flags, m, n, k, alpha, beta, leading, matrices):
    (a, b, c), (lda, ldb, ldc) = matrices, leading
    return (*flags, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@pytest.mark.few(1)
@pytest.mark.parametrize("letter", "sd")
@pytest.mark.parametrize("flags", FLAGS)
def test_gemm(letter, flags):
    for size, pad, first in itertools.product(SIZES, [(0, 0, 0), (3, 1, 2)], (0, 5)):
        made = operands(LETTERS[letter], flags, *size, pad, first)
        for scales in SCALES:
            agree(f"{letter}gemm", arguments(flags, *size, *scales, *made))


def test_what_is_not_asked_for_is_not_read():
    leading, matrices = operands(np.float64, FLAGS[0], 4, 3, 5)
    matrices[2].array[:12] = np.nan
    agree("dgemm", arguments(FLAGS[0], 4, 3, 5, 1.0, 0.0, leading, matrices))
    agree("dgemm", arguments(FLAGS[0], 4, 3, 0, 1.0, 0.0, leading, matrices))
    # What is multiplied by a zero is not asked for either. Some BLAS reads small matrices all
    # the same, so what comes out is said here.
    matrices[0].array[...] = np.inf
    matrices[2].array[...] = 1.0
    *_, found = by_library("dgemm", arguments(FLAGS[0], 4, 3, 5, 0.0, 2.0, leading, matrices))
    np.testing.assert_array_equal(found[:12], 2.0)
    np.testing.assert_array_equal(found[12:], 1.0)


@pytest.mark.parametrize(("letter", "dtype"), [("h", np.float16), ("b", ml_dtypes.bfloat16)])
def test_halves_are_summed_in_float32(letter, dtype):
    n = 300  # a float16 sum of so many ones and small numbers would stop
    for flags, scales in itertools.product(FLAGS, [(1.0, 0.0), (0.5, 2.0)]):
        leading, matrices = operands(np.float32, flags, 5, 4, n, (1, 2, 3), 2)
        for one in matrices:
            one.array = one.array.astype(dtype)
        a, b, c = (
            one.array[2 : 2 + lead * count].reshape(count, lead).T.astype(np.float64)
            for one, lead, count in zip(
                matrices, leading, (n if flags[0] == b"N" else 5, 4 if flags[1] == b"N" else n, 4),
                strict=True,
            )
        )  # fmt: skip
        a = a[:5] if flags[0] == b"N" else a[:n].T
        b = b[:n] if flags[1] == b"N" else b[:4].T
        expected = scales[0] * a @ b + scales[1] * c[:5]
        *_, found = by_library(
            f"{letter}gemm", arguments(flags, 5, 4, n, *scales, leading, matrices)
        )
        found = found[2 : 2 + leading[2] * 4].reshape(4, -1).T[:5].astype(np.float64)
        np.testing.assert_allclose(
            found, expected, rtol=float(ml_dtypes.finfo(dtype).eps), atol=1e-3
        )


NARROW = {"sh": np.float16, "sb": ml_dtypes.bfloat16}


@pytest.mark.parametrize("letter", ["s", "d", *NARROW])
def test_a_batch_of_products(letter):
    rng = np.random.default_rng(0)
    dtype = LETTERS[letter[0]]
    given = NARROW.get(letter, dtype)
    for flags, (m, n, k), shared in itertools.product(FLAGS, SIZES, (False, True)):
        shapes = [
            (k, m) if flags[0] == b"N" else (m, k),
            (n, k) if flags[1] == b"N" else (k, n),
            (n, m),
        ]
        a, b, c = (rng.normal(size=(3, *shape)).astype(dtype) for shape in shapes)
        a, b = (x.astype(given).astype(dtype) for x in (a, b))
        b = b[:1] if shared else b
        expected = (
            2.0 * np.matmul(b if flags[1] == b"N" else b.mT, a if flags[0] == b"N" else a.mT)
            + 0.5 * c
        )
        machine = Machine()
        at = [machine.memory.place(x) for x in (a.astype(given), b.astype(given), c)]
        lda, ldb, ldc = (max(1, shape[1]) for shape in shapes)
        adapter(f"{letter}gemm_batch_strided")(
            handles_for(machine.stream, machine.bindings), machine.memory.allocate,
            (*flags, m, n, k, 2.0, at[0], lda, m * k, at[1], ldb, 0 if shared else k * n, 0.5,
             at[2], ldc, m * n, 3),
        )  # fmt: skip
        found = machine.memory.array(at[2], c.size, c.dtype).reshape(c.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_library_is_asked_once_for_each_problem_and_alignment():
    machine = Machine()
    handles, memory = handles_for(machine.stream, machine.bindings), machine.memory
    ones = np.ones(64, np.float32)
    a, b, c = (memory.place(ones) for _ in range(3))

    def multiply(a, n=4):
        adapter("sgemm")(
            handles, memory.allocate, (b"N", b"N", n, n, n, 1.0, a, 4, b, 4, 0.0, c, 4)
        )
        return machine.called("cublasLt.matmul_algo_get_heuristic")

    assert [multiply(a), multiply(a), multiply(a + 4), multiply(a + 4), multiply(a, 3)] == [
        1,
        1,
        2,
        2,
        3,
    ]
    assert machine.called("cublasLt.matmul") == 5


@pytest.mark.parametrize(
    ("symbol", "precision", "compute"),
    [
        ("sgemm", "float32", "COMPUTE_32F"), ("sgemm", "tf32", "COMPUTE_32F_FAST_TF32"),
        ("sgemm_batch_strided", "tf32", "COMPUTE_32F_FAST_TF32"), ("dgemm", "tf32", "COMPUTE_64F"),
        ("hgemm", "tf32", "COMPUTE_32F"),
    ],
)  # fmt: skip
def test_the_precision_is_that_of_the_switch_when_the_program_was_made(
    symbol, precision, compute, monkeypatch
):
    monkeypatch.setattr(config, "matmul_precision", precision)
    multiply = adapter(symbol)
    monkeypatch.setattr(config, "matmul_precision", "float32")
    assert multiply.args[0].compute == compute
    machine = Machine()
    memory = np.zeros(4, {"s": np.float32, "d": np.float64, "h": np.float16}[symbol[0]])
    a, b, c = (machine.memory.place(memory) for _ in range(3))
    strided = "batch" in symbol
    stride = (0,) if strided else ()
    multiply(
        handles_for(machine.stream, machine.bindings), machine.memory.allocate,
        (b"N", b"N", 2, 2, 2, 1.0, a, 2, *stride, b, 2, *stride, 0.0, c, 2, *stride,
         *((1,) if strided else ())),
    )  # fmt: skip
    [made] = [args for name, args in machine.log if name == "cublasLt.matmul_desc_create"]
    assert made[0].name == compute
