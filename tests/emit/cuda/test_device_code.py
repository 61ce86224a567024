"""Device functions run on this CPU, as the LLVM IR that NVVM is given.

Functions that call NVIDIA's library or contain inline PTX are not among these.
"""

import inspect

import numpy as np
import pytest

from functrans.emit.cuda.names import FLOATS, NUMBERS, TABLE, typed
from functrans.loop.failures import OUT_OF_BOUNDS
from tests.emit.cuda.emulated_memory import Memory
from tests.emit.cuda.meanings import MEANINGS
from tests.emit.cuda.special import assert_same, needs_compiler, pairs

pytestmark = needs_compiler

OF_NVIDIA = {
    "trunc", "rint", "half_bits", "as_half", "half_of_double", "as_tf32", "ratio",
    "fast_exp",
}  # fmt: skip
IN_MEMORY = ("read", "load", "store", "atomic")
SCALAR = sorted(
    name
    for name in MEANINGS
    if name not in OF_NVIDIA | {"checked", "required", "where", "fma"}
    and not name.startswith(IN_MEMORY)
)


def compiled(text, *names):
    from numba import njit
    from numba.extending import intrinsic

    scope = {"np": np, **{name: intrinsic(typed(name)) for name in names}}
    exec(text, scope)
    return njit(error_model="numpy")(scope["run"])


def defined(dtype):
    """The names of functions of numbers of a dtype, and how many they take."""
    for name in SCALAR:
        count = len(TABLE[name].parameters.split())
        own = (name == "irem" and dtype in FLOATS) or (name, dtype) == ("as_int32", "float64")
        if TABLE[name].rule(*[dtype] * count) is not None and not own:
            yield name, count


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "uint64", *FLOATS])
def test_operations_on_numbers(dtype):
    x, y = pairs(dtype)
    if x.dtype.kind in "iu":  # what divides by zero, or overflows, is undefined
        bad = (y == 0) | ((x == np.iinfo(dtype).min) & (y.astype(object) == -1))
        x, y = x[~bad], y[~bad]
    names = list(defined(dtype))
    assert len(names) >= 2
    calls = [f"{name}({'x[i], y[i]' if count == 2 else 'x[i]'})" for name, count in names]
    stores = "".join(f"        o{n}[i] = {call}\n" for n, call in enumerate(calls))
    outputs = ", ".join(f"o{n}" for n in range(len(names)))
    run = compiled(
        f"def run(x, y, {outputs}):\n    for i in range(len(x)):\n{stores}",
        *(name for name, _ in names),
    )
    results = [np.empty(len(x), TABLE[name].rule(*[dtype] * count)) for name, count in names]
    run(x, y, *results)
    with np.errstate(all="ignore"):
        for (name, count), result in zip(names, results, strict=True):
            operands = (x, y)[:count]
            rows = zip(*operands, strict=True)
            expected = np.array([MEANINGS[name](*row) for row in rows], result.dtype)
            assert_same(result, expected, f"{name} of {dtype}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_and_where(dtype):
    text = """def run(x, y, o, p):
    for i in range(len(x)):
        o[i] = fma(x[i], y[i], x[i])
        p[i] = where(x[i] < y[i], x[i], y[i])
"""
    x, y = pairs(dtype)
    o, p = np.empty_like(x), np.empty_like(x)
    compiled(text, "fma", "where")(x, y, o, p)
    rows = zip(x, y, x, strict=True)
    assert_same(o, np.array([MEANINGS["fma"](*row) for row in rows]))
    assert_same(p, np.where(x < y, x, y))


def in_memory(body, *names):
    """A compiled function of addresses, whose body is of typed pointers."""
    from numba import njit, types
    from numba.extending import intrinsic

    def as_pointer(dtype):
        @intrinsic
        def cast(context, address):
            target = types.CPointer(getattr(types, dtype))

            def generate(context, builder, signature, args):
                return builder.inttoptr(args[0], context.get_value_type(target))

            return target(address), generate

        return cast

    scope = {"np": np, **{name: intrinsic(typed(name)) for name in names}}
    scope |= {f"{dtype}_at": as_pointer(dtype) for dtype in NUMBERS if dtype != "bool"}
    exec(body, scope)
    return njit(error_model="numpy")(scope["run"])


@pytest.mark.parametrize("position", [-1, 0, 4, 5, 6])
def test_checks_raise_the_flag(position):
    run = in_memory(
        "def run(flag, position, extent):\n    return checked(position, extent, int64_at(flag))\n",
        "checked",
    )
    flag = np.zeros(1, np.int64)
    inside = 0 <= position < 5
    assert run(flag.ctypes.data, position, 5) == (position if inside else 0)
    assert flag[0] == (0 if inside else OUT_OF_BOUNDS)
    assert run(flag.ctypes.data, position, 0) == 0
    assert flag[0] == OUT_OF_BOUNDS


def test_what_is_required_raises_the_flag():
    run = in_memory(
        "def run(flag, fine):\n    return required(fine, 2.5, 7, int64_at(flag))\n", "required"
    )
    flag = np.zeros(1, np.int64)
    assert (run(flag.ctypes.data, True), flag[0]) == (2.5, 0)
    assert (run(flag.ctypes.data, False), flag[0]) == (2.5, 7)


@pytest.mark.parametrize(
    ("dtype", "count"), [("float32", 4), ("float64", 2), ("uint16", 8), ("uint8", 16), ("int8", 2)]
)
def test_wide_loads_and_stores_move_all_numbers(dtype, count):
    names = [f"v{i}" for i in range(count)]
    run = in_memory(
        f"def run(x, out):\n"
        f"    {', '.join(names)} = load{count}({dtype}_at(x), {count})\n"
        f"    store{count}({dtype}_at(out), 0, {', '.join(reversed(names))})\n",
        f"load{count}",
        f"store{count}",
    )
    # aligned as the memory of a device is
    space = np.zeros(128, np.uint8)
    start = -space.ctypes.data % 16
    x = space[start : start + 64].view(dtype)
    x[:] = np.arange(len(x)) + 1
    out = np.zeros(16 + 64, np.uint8)
    start = -out.ctypes.data % 16
    out = out[start : start + 64].view(dtype)
    run(x.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out[:count], x[count : 2 * count][::-1])
    assert not out[count:].any()


# (floats are added by an instruction of NVIDIA's)
ATOMIC = [
    (op, dtype)
    for op in ("add", "mul", "min", "max", "and", "or", "xor")
    for dtype in ("int8", "uint16", "int32", "uint64", "float32", "float64")
    if TABLE[f"atomic_{op}"].rule(f"{dtype}*", "int64", dtype) and (op, dtype[0]) != ("add", "f")
]


@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in ATOMIC}))
def test_atomic_operations(dtype):
    ops = [op for op, each in ATOMIC if each == dtype]
    text = "def run(x, values, count, which):\n" + "".join(
        f"    if which == {n}:\n"
        f"        for i in range(count):\n"
        f"            atomic_{op}({dtype}_at(x), i, values[i])\n"
        for n, op in enumerate(ops)
    )
    run = in_memory(text, *(f"atomic_{op}" for op in ops))
    x, y = pairs(dtype)
    x, y = (each[: len(each) // 4 * 4] for each in (x, y))
    for n, op in enumerate(ops):
        space = np.zeros(len(x) + 8, dtype)
        start = -(space.ctypes.data // space.itemsize) % (4 // min(4, space.itemsize))
        found = space[start : start + len(x)]
        found[:] = x
        run(found.ctypes.data, y, len(x), n)
        expected = Memory(x.copy(), "x")
        with np.errstate(all="ignore"):
            for i, value in enumerate(y):
                MEANINGS[f"atomic_{op}"](expected, np.int64(i), value)
        assert_same(found, expected.array, f"{op} of {dtype}")
        assert not space[start + len(x) :].any()


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "or", "xor"])
def test_atomic_operations_on_truth_values(op):
    run = in_memory(
        f"def run(x, values):\n"
        f"    for i in range(4):\n        atomic_{op}(uint8_at(x), i, values[i])\n",
        f"atomic_{op}",
    )
    x = np.array([0, 0, 1, 1], np.uint8)
    y = np.array([False, True, False, True])
    run(x.ctypes.data, y)
    reference = {"min": np.minimum, "max": np.maximum, "add": np.add, "mul": np.multiply}
    function = reference.get(op) or {"or": np.logical_or, "xor": np.logical_xor}[op]
    np.testing.assert_array_equal(x, function([False, False, True, True], y))


def test_the_code_takes_what_the_table_says():
    for name, entry in TABLE.items():
        count = len(entry.parameters.split())
        for function, extra in ((entry.rule, 0), (entry.code, 1)):
            parameters = inspect.signature(function).parameters.values()
            rest = any(each.kind is each.VAR_POSITIONAL for each in parameters)
            plain = sum(each.kind is not each.VAR_POSITIONAL for each in parameters)
            assert plain <= count + extra if rest else plain == count + extra, name
