"""Device functions called from kernels: in the emulator, and with ``pytest -m gpu`` on a GPU."""

import re

import numpy as np
import pytest

from functrans.emit.cuda.fragments import multiplied
from functrans.emit.cuda.names import FLOATS, INTEGERS, NUMBERS, TABLE
from functrans.emit.cuda.tensor_cores import SHAPES
from functrans.loop.fragments import own_columns, own_rows, own_sums, terms
from functrans.loop.nodes import ZERO
from functrans.loop.statements import Address, MatrixMultiply, Panel, buffer
from functrans.run.cuda.compile import compile_cubin, missing
from functrans.run.cuda.driver import driver
from tests.emit.cuda.emulator import emulate
from tests.emit.cuda.meanings import MEANINGS
from tests.emit.cuda.special import assert_same, needs_compiler, pairs


def compiled(source, arguments, threads, architecture):
    types = [f"{x.dtype}*" if isinstance(x, np.ndarray) else "int64" for x in arguments]
    return compile_cubin(source, tuple(types), architecture, threads)


def compile_and_emulate(source, arguments, blocks, threads):
    """Run a kernel in the emulator, and see that it could run on a GPU."""
    if not missing():
        assert compiled(source, arguments, threads, "sm_90").resources.spills == 0
    emulate(source, arguments, blocks, threads)


def launch(source, arguments, blocks, threads):
    """Run a kernel on a GPU; the arguments are as those of `emulate`."""
    there = driver()
    stream = there.stream()
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    cubin = compiled(source, arguments, threads, there.properties.architecture)
    places = {id(array): there.allocate(max(array.nbytes, 1), stream) for array in arrays}
    for array in arrays:
        there.copy_in(places[id(array)], array, stream)
    given = [places.get(id(each), each) for each in arguments]
    there.launch(there.load(cubin.code, cubin.name), blocks, threads, given, stream)
    for array in arrays:
        there.copy_out(array, places[id(array)], stream)
        there.free(places[id(array)], stream)
    there.synchronize(stream)


@pytest.fixture(
    params=[
        pytest.param(compile_and_emulate, id="emulator"),
        pytest.param(launch, id="gpu", marks=[pytest.mark.gpu, needs_compiler]),
    ]
)
def run(request):
    return lambda *arguments: request.param(*arguments)


def flag():
    return np.zeros(1, np.int64)


def in_memory(x):
    return x.astype(np.uint8) if x.dtype == np.bool_ else np.ascontiguousarray(x)


def defined(dtype):
    """The names of functions of numbers of one dtype, and how many they take."""
    for name, entry in TABLE.items():
        count = len(entry.parameters.split())
        if name in MEANINGS and 1 <= count <= 3:
            try:
                result = entry.rule(*[dtype] * count)
            except TypeError:  # of what is no number
                continue
            if result is not None:
                yield name, count, result


@pytest.mark.parametrize("dtype", NUMBERS)
def test_operations_on_special_numbers(run, dtype):
    x, y = pairs(dtype)
    if x.dtype.kind in "iu":  # what divides by zero, or overflows, is undefined
        bad = (y == 0) | ((x == np.iinfo(dtype).min) & (y.astype(object) == -1))
        x, y = x[~bad], y[~bad]
    names = list(defined(dtype))
    assert len(names) >= 2
    read = "{0}[i] != np.uint8(0)" if dtype == "bool" else "{0}[i]"
    lines = [
        f"def kernel(flag, x, y, {', '.join(f'o{n}' for n in range(len(names)))}, n):",
        "    i = block() * threads() + thread()",
        "    if i < n:",
        f"        a, b = {read.format('x')}, {read.format('y')}",
        *(
            f"        o{n}[i] = {written.format(call)}"
            for n, (name, count, result) in enumerate(names)
            for call in [f"{name}({', '.join('aba'[:count])})"]
            for written in ["np.uint8({})" if result == "bool" else "{}"]
        ),
    ]
    results = [in_memory(np.zeros(len(x), result)) for _, _, result in names]
    arguments = [flag(), in_memory(x), in_memory(y), *results, len(x)]
    run("\n".join(lines) + "\n", arguments, -(-len(x) // 256), 256)
    with np.errstate(all="ignore"):
        for (name, count, result), found in zip(names, results, strict=True):
            rows = zip(*(x, y, x)[:count], strict=True)
            expected = np.array([MEANINGS[name](*row) for row in rows], result)
            if name == "half_bits":  # of a NaN, which bits are set is not said
                found, expected = found.view(np.float16), expected.view(np.float16)
            if name == "as_tf32":  # nor what is in bits that tensor cores do not look at
                looked_at = np.uint32(2**32 - 2**13)
                found, expected = (
                    (each.view(np.uint32) & looked_at).view(np.float32)
                    for each in (found, expected)
                )
            assert_same(found, in_memory(expected), f"{name} of {dtype}")


REDUCED = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "float16", "bool"])
def test_atomic_operations_of_many_threads_on_few_elements(run, dtype):
    ops = [
        op
        for op in REDUCED
        if dtype == "bool"
        or TABLE[f"atomic_{op}"].rule(f"{dtype}*", "int64", dtype)
        or (dtype == "float16" and op in ("add", "mul", "min", "max"))
    ]
    assert len(ops) >= 4
    threads, blocks, few = 64, 4, 5
    draw = np.random.default_rng(3)
    # sums and products of these are exact in any order
    x = draw.integers(0 if dtype == "bool" else 1, 3, threads * blocks)
    x = np.where(draw.random(len(x)) < 0.95, 1, x).astype(dtype)
    read = {"float16": "half(x[i])", "bool": "x[i] != np.uint8(0)"}.get(dtype, "x[i]")
    lines = [
        f"def kernel(flag, x, {', '.join(f'o_{op}' for op in ops)}):",
        "    i = block() * threads() + thread()",
        *(f"    atomic_{op}(o_{op}, irem(i, {few}), {read})" for op in ops),
    ]
    start = np.array([1, 3, 2, 7, 0]) % (2 if dtype == "bool" else 8)
    results = [start.astype(dtype) for _ in ops]
    stored = np.uint16 if dtype == "float16" else np.uint8 if dtype == "bool" else dtype
    given = [flag(), x.view(stored), *(result.view(stored) for result in results)]
    run("\n".join(lines) + "\n", given, blocks, threads)
    for op, found in zip(ops, results, strict=True):
        for k in range(few):
            terms = np.append(start[k : k + 1].astype(dtype), x[k::few])
            expected = REDUCED[op].reduce(terms, dtype=dtype)
            assert found[k] == expected, (op, k)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_shuffles(run, dtype):
    text = """def kernel(flag, x, o, p, q):
    t = thread()
    v = x[t]
    o[t] = shuffle_down(v, 5)
    p[t] = shuffle_xor(v, 9)
    q[t] = shuffle(v, irem(t * 7, 32))
"""
    if dtype == "bool":
        text = text.replace("x[t]", "x[t] != np.uint8(0)")
        text = re.sub(r"(shuffle.*)", r"np.uint8(\1)", text)
    t = np.arange(64)
    x = in_memory((np.arange(64) * 37 % 101).astype(dtype))
    o, p, q = (np.zeros_like(x) for _ in range(3))
    run(text, [flag(), x, o, p, q], 1, 64)
    np.testing.assert_array_equal(o, x[np.where(t % 32 + 5 < 32, t + 5, t)])
    np.testing.assert_array_equal(p, x[t ^ 9])
    np.testing.assert_array_equal(q, x[t // 32 * 32 + t * 7 % 32])


@pytest.mark.parametrize(
    ("dtype", "count"), [("float32", 4), ("float64", 2), ("uint16", 8), ("uint8", 16), ("int8", 2)]
)
def test_wide_loads_and_stores(run, dtype, count):
    names = ", ".join(f"v{i}" for i in range(count))
    text = f"""def kernel(flag, x, y, o, n):
    i = {count} * (block() * threads() + thread())
    if i < n:
        {names} = load{count}(x, i)
        store{count}(o, i, {names})
        {names} = read{count}(y, i)
        store{count}(o, n + i, {names})
"""
    x = (np.arange(70 * count) * 31 % 127).astype(dtype)
    y, o = x[::-1].copy(), np.zeros(140 * count, dtype)
    run(text, [flag(), x, y, o, len(x)], 3, 32)
    np.testing.assert_array_equal(o, np.concatenate([x, y]))


def test_memory_of_blocks_and_threads(run):
    text = """def kernel(flag, x, out, n):
    tile = shared("float32", 256)
    row = local("float32", 3)
    t = thread()
    i = block() * threads() + t
    for k in range(3):
        row[k] = x[checked(irem(i + k, n), n, flag)]
    tile[t] = np.float32(0)
    if i < n:
        tile[t] = row[irem(i, 3)]
    barrier()
    half = 128
    while True:
        if not half > 0:
            break
        if t < half:
            tile[t] = tile[t] + tile[t + half]
        barrier()
        half = shr(half, 1)
    if t == 0:
        atomic_add(out, 0, tile[0])
"""
    n = 1000
    x, out, failed = (np.arange(n) % 9).astype(np.float32), np.zeros(1, np.float32), flag()
    run(text, [failed, x, out, n], 4, 256)
    i = np.arange(n)
    assert out[0] == x[(i + i % 3) % n].sum()
    assert failed[0] == 0


@pytest.mark.parametrize("name", ["matrices", "matrices_transposed"])
def test_matrices_are_dealt_to_a_warp(run, name):
    source = f"""def kernel(flag, x, out):
    tile = shared("uint16", 768)
    t = thread()
    for i in range(24):
        tile[t * 24 + i] = x[t * 24 + i]
    barrier()
    a, b, c, d = {name}(tile, t * 24 + 8)
    out[t * 4], out[t * 4 + 1], out[t * 4 + 2], out[t * 4 + 3] = a, b, c, d
"""
    x, out = np.arange(768, dtype=np.uint16), np.zeros(128, np.uint32)
    run(source, [flag(), x, out], 1, 32)
    words = out.view(np.uint16).reshape(32, 4, 2)
    rows = x.reshape(4, 8, 24)[:, :, 8:16]
    for thread in range(32):
        row, first = thread // 4, 2 * (thread % 4)
        for number in range(4):
            own = rows[number].T if name.endswith("transposed") else rows[number]
            np.testing.assert_array_equal(words[thread, number], own[row, first : first + 2])


def product_of_a_warp(dtype, near, rounded=False, function=None):
    """The text of a product of 16 rows and 16 columns, which lie along terms, or across them."""
    count, kind = terms(dtype), "uint16" if dtype.itemsize == 2 else str(dtype)
    total = "float64" if dtype == np.float64 else "float32"
    lines = (16, count) if near else (count, 16)
    pitch = lines[1] + 8
    strides = (pitch, 1) if near else (1, pitch)
    tiles = [buffer(name, dtype, (lines[0] * pitch,)) for name in ("left", "right")]
    panels = (Panel(Address(tile, (ZERO,)), 16, *strides) for tile in tiles)
    sums = Address(buffer("sums", total, (8,)), (ZERO,))
    statement = MatrixMultiply(sums, *panels, rounded)
    names = iter(f"r{i}" for i in range(100))
    sums = [f"s{i}" for i in range(statement.count)]
    function = function or f"mma_{dtype}"
    text = multiplied(
        statement, function, ("left", "right"), ("0", "0"), sums, "lane", lambda label: next(names)
    )
    place = f"idiv(i, {count}) * {strides[0]} + irem(i, {count}) * {strides[1]}"
    return "\n    ".join([
        "def kernel(flag, x, y, out):",
        f'left = shared("{kind}", {lines[0] * pitch})',
        f'right = shared("{kind}", {lines[0] * pitch})',
        "lane = thread()",
        f"for i in range(lane, {16 * count}, 32):",
        f"    left[{place}] = x[i]",
        f"    right[{place}] = y[i]",
        "barrier()",
        *(f"{name} = np.{total}(0.0)" for name in sums),
        *text,
        *(f"out[lane * 8 + {i}] = {name}" for i, name in enumerate(sums)),
    ]) + "\n"  # fmt: skip


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("kind", SHAPES)
def test_a_warp_multiplies_matrices(run, kind, near):
    name = kind.partition("_")[0]
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name)
    x, y = np.random.default_rng(0).integers(-99, 99, (2, 16, terms(dtype))).astype(dtype)
    stored = np.uint16 if dtype.itemsize == 2 else dtype
    out = np.zeros(256, SHAPES[kind].sums)
    given = [flag(), x.view(stored).reshape(-1), y.view(stored).reshape(-1), out]
    run(product_of_a_warp(dtype, near, function=f"mma_{kind}"), given, 1, 32)
    expected = x.astype(np.float32) @ y.astype(np.float32).T
    for lane in range(32):
        rows, columns = own_rows(lane // 4, 16), own_columns(lane % 4, 16)
        for found, (row, column) in zip(out[8 * lane :], own_sums(16, 16), strict=False):
            assert found == expected[rows[row], columns[column]]


@pytest.mark.parametrize("near", [True, False])
def test_a_warp_rounds_what_it_multiplies(run, near):
    dtype = np.dtype(np.float32)
    x, y = np.random.default_rng(0).integers(-4, 4, (2, 16, 8)).astype(dtype)
    # half of the last place that is looked at, and less
    given = [(each + np.sign(each) * np.float32(2.0**-11)).reshape(-1) for each in (x, y)]
    given[0][5], given[1][7] = 1 + 2.0**-11 - 2.0**-23, -1 - 2.0**-11 + 2.0**-23
    out = np.zeros(256, np.float32)
    run(product_of_a_warp(dtype, near, rounded=True), [flag(), *given, out], 1, 32)
    rounded = [np.array([MEANINGS["as_tf32"](each) for each in one]) for one in given]
    assert rounded[0][5] == 1 == -rounded[1][7]
    assert not np.array_equal(rounded[0], given[0])
    x, y = (each.reshape(16, 8).astype(np.float64) for each in rounded)
    expected = (x @ y.T).astype(np.float32)
    for lane in range(32):
        rows, columns = own_rows(lane // 4, 16), own_columns(lane % 4, 16)
        for found, (row, column) in zip(out[8 * lane :], own_sums(16, 16), strict=False):
            np.testing.assert_allclose(found, expected[rows[row], columns[column]], 1e-6)
