"""The compiler of kernel text: its LLVM IR agrees with the emulated text and with Numba."""

import numpy as np
import pytest

from functrans import config, grad, trace
from functrans.emit.cuda.translation import translated
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.run.cuda import launches
from tests.emit.cuda.on_cpu import VERSION, emulate_and_run
from tests.emit.cuda.special import assert_same, needs_compiler, pairs, values

INTEGERS = ("int8", "int32", "int64", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")


def run(text, arguments, blocks=1, threads=1):
    """Emulate a kernel and run it here: both must be the same."""
    assert emulate_and_run(text, arguments, blocks, threads)


def flag():
    return np.zeros(1, np.int64)


def run_all(lines, x, y, dtype):
    """Expressions of `a` and `b`, for all pairs of numbers."""
    stores = "".join(f"        o{n}[i] = {line}\n" for n, line in enumerate(lines))
    names = ", ".join(f"o{n}" for n in range(len(lines)))
    text = (
        f"def kernel(flag, x, y, {names}, n):\n    i = block() * threads() + thread()\n"
        f"    if i < n:\n        a, b = x[i], y[i]\n{stores}"
    )
    outputs = [np.zeros(len(x), dtype) for _ in lines]
    run(text, [flag(), x, y, *outputs, len(x)], -(-len(x) // 64), 64)
    return outputs


# ---- arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_arithmetic_of_integers_wraps(dtype):
    x, y = pairs(dtype)
    ops = ("+", "-", "*", "&", "|", "^")
    found = run_all([f"np.{dtype}(a {op} b)" for op in ops], x, y, dtype)
    with np.errstate(all="ignore"):
        for op, result in zip(ops, found, strict=True):
            np.testing.assert_array_equal(result, eval(f"x {op} y"), op)
    run_all([f"np.{dtype}({each})" for each in ("-a", "~a", "abs(a)")], x, y, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_of_floats(dtype):
    x, y = pairs(dtype)
    lines = ["a + b", "a - b", "a * b", "a / b", "-a", "abs(a)"]
    found = run_all(lines, x, y, dtype)
    with np.errstate(all="ignore"):
        for line, result in zip(lines, found, strict=True):
            assert_same(result, eval(line, {"a": x, "b": y}), line)


def test_an_ordinary_quotient_is_rounded_once():
    """Also where the approximate reciprocal is off by a unit in the last place."""
    rng = np.random.default_rng(0)
    x, y = (np.ldexp(1 + rng.random(9000), rng.integers(-30, 30, 9000)) for _ in range(2))
    x[::2] *= -1
    x, y = x.astype(np.float32), y.astype(np.float32)
    x[:500], y[500:1500] = 1, np.nextafter(np.float32(2), np.float32(0))
    x[1500:2000], y[1500:2000] = 2, np.ldexp(y[1500:2000] % 1 + 1, 125)
    (found,) = run_all(["ratio(a, b)"], x, y, np.float32)
    np.testing.assert_array_equal(found, x / y)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_comparisons(dtype):
    x, y = pairs(dtype)
    signs = ("==", "!=", "<", "<=", ">", ">=")
    found = run_all([f"np.uint8(a {sign} b)" for sign in signs], x, y, np.uint8)
    for sign, result in zip(signs, found, strict=True):
        np.testing.assert_array_equal(result, eval(f"x {sign} y"), sign)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS])
def test_numbers_of_one_type_as_another(dtype, target):
    if dtype in FLOATS and target not in FLOATS:
        return  # these are functions of their own
    x = values(dtype)
    [found] = run_all([f"np.{target}(a)"], x, x, target)
    with np.errstate(all="ignore"):
        assert_same(found, x.astype(target))


def test_literals():
    lines = [
        "np.float32(0.1)", "np.float32(16777217)", "np.float32(-math.inf)", "np.float32(math.nan)",
        "np.float32(1e-45)", "np.float32(-0.0)", "np.float32(np.uint64(9223372036854775807))",
        "np.float32(np.int8(-128))", "np.float32(True)",
    ]  # fmt: skip
    x = np.zeros(1, np.float32)
    found = np.concatenate(run_all(lines, x, x, np.float32))
    expected = [0.1, 16777217, -np.inf, np.nan, 1e-45, -0.0, 2.0**63, -128, 1]
    assert_same(found, np.array(expected, np.float32))


def test_truth_values():
    lines = [
        "np.uint8((a < b) & (b < 3))", "np.uint8((a < b) | (b < 3))", "np.uint8((a < b) ^ (b < 3))",
        "np.uint8(not a < b)", "np.uint8((a < b) == (b < 3))", "np.uint8(a < b or b < 3)",
    ]  # fmt: skip
    x, y = pairs("int64")
    run_all(lines, x, y, np.uint8)


# ---- statements ----------------------------------------------------------------------------------

LOOPS = """def kernel(flag, x, out, n):
    row = local("float32", 8)
    total = np.float32(0.0)
    for i in range(8):
        row[i] = np.float32(i)
    for i in range(thread(), n, 3):
        total = total + x[i] * row[irem(i, 8)]
        for j in range(i, i + 2):
            if j == 5:
                total = total + np.float32(100)
            else:
                total = total - np.float32(1)
    k = 0
    while True:
        if not k < n or total < np.float32(0):
            break
        k = k + 7
        while True:
            k = k + 1
            if irem(k, 2) == 0:
                break
    out[thread()] = total
    out[thread() + threads()] = np.float32(k)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_loops_and_branches(n):
    x = np.arange(17, dtype=np.float32)
    run(LOOPS, [flag(), x, np.zeros(8, np.float32), n], 1, 4)


def test_tables_are_read_from_memory():
    table = ", ".join(f"np.float32({number * number})" for number in range(40))
    text = f"def kernel(flag, out, n):\n    out[n] = ({table})[n]\n"
    for n in (0, 13, 39):
        out = np.zeros(40, np.float32)
        run(text, [flag(), out, n])
        assert out[n] == n * n
    assert translated(text, ("int64*", "float32*", "int64"), VERSION).count("load") == 1


def test_variables_are_exchanged_at_once():
    text = "def kernel(flag, out, n):\n    a, b = n, n + 1\n    a, b = b, a\n    out[0] = a - b\n"
    out = np.zeros(1, np.int64)
    run(text, [flag(), out, 5])
    assert out == [1]


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("x[0] = n", TypeError, "x[0] is of float32, and not of int64"),
        ("x[0] = x[1] + n", TypeError, "x[1] + n is not defined for float32, int64"),
        ("x[0] = np.float32(x)", TypeError, "np.float32(x) is not defined for float32*"),
        ("n = np.int64(x[0])", TypeError, "np.int64(x[0]) is not defined for float32"),
        ("n = np.int64(1.5)", TypeError, "np.int64(1.5) is not defined for float64"),
        ("x[0] = fma(x[0], n, x[1])", TypeError, "fma(float32, int64, float32) is not defined"),
        ("row = local('float32', n)", TypeError, "local(float32, None) is not defined"),
        ("n = x[0]", TypeError, "n is of int64, and not of float32"),
        ("n[0] = 1", TypeError, "a number of int64 has no elements"),
        ("if n:\n        pass", TypeError, "n is of int64, and not of bool"),
        (
            "for i in range(x[0]):\n        pass",
            TypeError,
            "a bound of i is of float32, and not of int64",
        ),
        ("x[0] = y", NameError, "y is not known here"),
        ("if n < 3:\n        y = n\n    x[0] = y", NameError, "y is not known here"),
        ("x[0] = sin(x[0])", NameError, "sin is not known here"),
        ("n += 1", SyntaxError, "kernels have no such AugAssign: n += 1"),
        ("x[0] = x[0] if n < 3 else x[1]", SyntaxError, "kernels have no such IfExp"),
        ("while n < 3:\n        pass", SyntaxError, "kernels have no such While"),
    ],
)
def test_what_is_never_printed_is_refused(line, error, words):
    text = f"def kernel(flag, x, n):\n    {line}\n"
    with pytest.raises(error) as found:
        translated(text, ("int64*", "float32*", "int64"), VERSION)
    assert words in str(found.value)


# ---- beside Numba --------------------------------------------------------------------------------


def compiled(kernel, backend, monkeypatch):
    monkeypatch.setattr(config, "backend", backend)
    return launches.compiled(kernel, CUDA.grid, "sm_90").cubin


@needs_compiler
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / np.max(x, axis=1, keepdims=True),
        grad(lambda x: np.sum(x * np.sqrt(x))),
        lambda x: x.T + 1,
    ],
    ids=["rows", "elements", "transposed"],
)
def test_numba_compiles_the_same_text_to_the_same_machine_code(function, monkeypatch):
    pytest.importorskip("numba_cuda", reason="needs numba-cuda")
    x = np.ones((300, 200), np.float32)
    plan = pipeline.plan(optimise(trace(function)(x)), CUDA)
    assert plan.kernels
    for kernel in plan.kernels:
        ours, numbas = (compiled(kernel, each, monkeypatch) for each in ("native", "numba"))
        assert ours.code == numbas.code
        assert ours is not numbas
