"""The emulator runs correct kernels, and reports errors in wrong ones."""

import sys

import numpy as np
import pytest

from functrans.run.cuda.compile import compile_cubin
from tests.emit.cuda.emulator import KernelError, emulate
from tests.emit.cuda.special import needs_compiler

TREE = """def kernel(flag, x, out, n):
    tile = shared("float32", 256)
    t = thread()
    i = block() * threads() + t
    tile[t] = np.float32(0)
    if i < n:
        tile[t] = x[i]
    barrier()
    half = 128
    while True:
        if not half > 0:
            break
        if t < half:
            tile[t] = tile[t] + tile[t + half]
        barrier()
        half = idiv(half, 2)
    if t == 0:
        atomic_add(out, 0, tile[0])
"""

WARP_SUM = """def kernel(flag, x, out, n):
    t = thread()
    v = np.float32(0)
    for i in range(t, n, threads()):
        v = v + x[i]
    for step in range(5):
        v = v + shuffle_down(v, shr(16, step))
    parts = shared("float32", 32)
    if irem(t, 32) == 0:
        parts[idiv(t, 32)] = v
    barrier()
    if t == 0:
        total = np.float32(0)
        for w in range(idiv(threads(), 32)):
            total = total + parts[w]
        out[block()] = total
"""


def flag():
    return np.zeros(1, np.int64)


def whole(count):
    return np.arange(count, dtype=np.float32) % 7


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_in_shared_memory(seed):
    x, out = whole(1000), np.zeros(1, np.float32)
    emulate(TREE, [flag(), x, out, 1000], 4, 256, seed)
    assert out[0] == x.sum()


@pytest.mark.parametrize("seed", range(3))
def test_sums_by_shuffles(seed):
    x, out = whole(1000), np.zeros(1, np.float32)
    emulate(WARP_SUM, [flag(), x, out, 1000], 1, 128, seed)
    assert out[0] == x.sum()


@needs_compiler
@pytest.mark.parametrize("text", [TREE, WARP_SUM])
def test_what_is_emulated_is_what_is_compiled(text):
    assert compile_cubin(text, ("int64*", "float32*", "float32*", "int64")).resources.spills == 0


def test_shuffles_by_flipped_bits():
    text = """def kernel(flag, out):
    out[thread()] = shuffle_xor(thread(), 5)
"""
    out = np.zeros(64, np.int64)
    emulate(text, [flag(), out], 1, 64)
    np.testing.assert_array_equal(out, np.arange(64) ^ 5)


def run(text, x=None, out=None, blocks=2, threads=64, **options):
    x = whole(256) if x is None else x
    out = np.zeros(256, np.float32) if out is None else out
    emulate(text, [flag(), x, out, len(x)], blocks, threads, **options)
    return out


def of_lines(*lines):
    return "def kernel(flag, x, out, n):\n" + "".join(f"    {line}\n" for line in lines)


I = "i = block() * threads() + thread()"  # noqa: E741

WRONG = {
    "no barrier before what others wrote": (
        TREE.replace("    barrier()\n    half", "    half"),
        "line 13, `tile[t] = tile[t] + tile[t + half]`",  # not written yet, or a race
    ),
    "no barrier between halves": (TREE.replace("        barrier()\n", ""), "race: it"),
    "a barrier that some do not come to": (
        of_lines("if thread() < 40:", "    barrier()"),
        "line 3, `barrier()`: block",
    ),
    "barriers in two places": (
        of_lines("if thread() < 40:", "    barrier()", "else:", "    barrier()"),
        "waits in line",
    ),
    "a shuffle that some do not come to": (
        of_lines("if thread() < 40:", "    v = shuffle_down(thread(), 1)"),
        "divergent shuffle_down",
    ),
    "a product that some do not come to": (
        of_lines("if thread() < 40:", f"    v = mma_float32({', '.join(['x[0]'] * 10)})"),
        "divergent mma_float32",
    ),
    "a product of other numbers": (
        of_lines(f"v = mma_float16({', '.join(['x[0]'] * 10)})"),
        "mma_float16(float32, float32",
    ),
    "matrices that do not begin at 16 bytes": (
        of_lines('t = shared("uint16", 256)', "v = matrices(t, thread() * 4)"),
        "line 3, `v = matrices(t, thread() * 4)`",
    ),
    "matrices of a thread": (
        of_lines('t = local("uint16", 8)', "v = matrices(t, 0)"),
        "is local memory, and not shared",
    ),
    "a warp that is not full": (
        of_lines("warp_barrier()"),
        "its warp has 8 threads",
    ),
    "an index past the end": (of_lines(I, "out[i + 200] = x[i]"), "is outside of it"),
    "an index before the beginning": (of_lines(I, "out[i] = x[i - 1]"), "x[-1] is outside of it"),
    "two blocks write one element": (
        of_lines("if thread() == 0:", "    out[0] = x[0]"),
        "of block",
    ),
    "a block reads what another writes": (
        of_lines(I, "out[i] = x[0]", "x[i] = out[i]"),
        "race: it",
    ),
    "atomic and plain": (
        of_lines("atomic_add(out, 0, x[0])", "x[128 + thread()] = out[0]"),
        "race: it",
    ),
    "shared memory that nobody wrote": (
        of_lines("t = shared('float32', 64)", "out[thread()] = t[63 - thread()]"),
        "is read, and was never written",
    ),
    "local memory that the thread did not write": (
        of_lines("t = local('float32', 2)", "t[0] = x[0]", "out[thread()] = t[1]"),
        "local float32[1] is read, and was never written",
    ),
    "a constant that is written": (
        of_lines(I, "out[i] = read(out, i) + x[i]"),
        "was read as a constant before",
    ),
    "a constant that was written": (
        of_lines(I, "out[i] = x[i]", "x[i] = read(out, i)"),
        "and was written before",
    ),
    "a constant in shared memory": (
        of_lines("t = shared('float32', 64)", "t[thread()] = x[0]", "out[0] = read(t, thread())"),
        "is shared memory",
    ),
    "an atomic operation on what is the thread's own": (
        of_lines("t = local('float32', 1)", "t[0] = x[0]", "atomic_add(t, 0, x[0])"),
        "takes no atomic operations",
    ),
    "a vector that is not aligned": (
        of_lines("a, b = load2(x, 2 * thread() + 1)"),
        "no multiple of 2 elements",
    ),
    "two dtypes in a sum": (
        of_lines("out[0] = x[0] + 1.5"),
        "operands of + are float32 and float64",
    ),
    "two dtypes in a comparison": (of_lines("if x[0] < 1:", "    pass"), "operands of < are"),
    "two dtypes in a call": (of_lines("out[0] = min(x[0], 1)"), "min(float32, int64)"),
    "a number that is stored in other memory": (
        of_lines("out[0] = 1.0"),
        "float64 is stored in out",
    ),
    "a condition that is a number": (of_lines("if n:", "    pass"), "a condition is int64"),
    "a float that is converted as C does it": (of_lines("i = np.int64(x[0])"), "use as_int64"),
    "division by zero": (of_lines("i = idiv(n, n - n)"), "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name):
    text, words = WRONG[name]
    with pytest.raises(KernelError) as error:
        run(text, threads=8 if "full" in name else 256 if "tile" in text else 64)
    assert words in str(error.value)
    assert str(error.value).startswith("line ")


def test_the_line_is_that_of_the_text():
    with pytest.raises(KernelError) as error:
        run(of_lines("i = thread()", "if i == 7:", "    out[i] = x[i + 1000]"), blocks=1)
    assert str(error.value) == (
        "line 4, `out[i] = x[i + 1000]`: block 0, thread 7: "
        "x[1007] is outside of it: it has 256 elements"
    )


def test_what_nobody_wrote_before_the_launch_is_not_read():
    written = np.zeros(256, bool)
    run(of_lines(I, "out[i] = x[i]"), written={2: written})
    assert written[:128].all()
    assert not written[128:].any()
    with pytest.raises(KernelError, match=r"out\[\d+\] is read, and was never written"):
        run(of_lines(I, "x[i] = out[128 + i]"), written={2: written})


def test_memory_that_two_arguments_share_is_one():
    x = whole(256)
    run(of_lines(I, "out[i] = x[i] + x[i]"), x=x, out=x)  # in its own place, each
    with pytest.raises(KernelError, match="race"):
        run(of_lines(I, "out[i] = x[127 - i]"), x=x, out=x)


def test_barriers_order_and_warps_are_in_step_after_theirs():
    text = of_lines(
        "t = shared('int64', 64)",
        "t[thread()] = thread()",
        "warp_barrier()",
        "v = t[thread() ^ 1]",
        "barrier()",
        "t[thread()] = v",
        "barrier()",
        "out[block() * 64 + thread()] = np.float32(t[63 - thread()])",
    )
    out = run(text)
    expected = (np.arange(64) ^ 1)[::-1].astype(np.float32)
    np.testing.assert_array_equal(out[:128], np.tile(expected, 2))
    with pytest.raises(KernelError, match="race"):
        run(text.replace("thread() ^ 1", "63 - thread()"))  # of another warp


def test_dynamic_shared_memory_is_of_the_size_that_the_launch_says():
    text = of_lines(
        "t = dynamic_shared('float32', 0)",
        "u = dynamic_shared('int64', 256)",
        "t[thread()] = x[thread()]",
        "u[thread()] = thread()",
        "barrier()",
        "out[block() * 64 + thread()] = t[63 - thread()] + np.float32(u[63 - thread()])",
    )
    expected = (whole(64) + np.arange(64, dtype=np.float32))[::-1]
    out = run(text, dynamic_shared=768)
    # the second array begins where the first one ends
    np.testing.assert_array_equal(out[:128], np.tile(expected, 2))
    with pytest.raises(KernelError, match=r"\[63\] is outside of it: it has 63 elements"):
        run(text, dynamic_shared=760)
    with pytest.raises(KernelError, match="race"):
        run(text.replace("256", "248"), dynamic_shared=768)


def copying(kind, *await_and_use):
    text = of_lines(
        "t = shared('float32', 256)",
        f"{kind}",
        *await_and_use,
        "barrier()",
        "out[block() * 64 + thread()] = t[4 * (63 - thread())]",
    )
    return run(text)


def test_copies_are_there_once_they_are_waited_for():
    copy = "copy(t, 4 * thread(), x, 4 * irem(thread(), 16))"
    expected = whole(64)[4 * (np.arange(64)[::-1] % 16)]
    np.testing.assert_array_equal(copying(copy, "await_copies(0)")[:64], expected)
    # two groups, of which the second, of nothing, may be late
    found = copying(copy, "await_copies(1)", "await_copies(1)")
    np.testing.assert_array_equal(found[:64], expected)
    for late in ((), ("await_copies(1)",), ("barrier()", "v = t[0]", "await_copies(0)")):
        with pytest.raises(KernelError, match="was never written"):
            copying(copy, *late)
    with pytest.raises(KernelError, match=r"race|never written"):
        copying(copy, "await_copies(0)", "v = t[4 * irem(thread() + 1, 64)]")
    with pytest.raises(KernelError, match="is no multiple of 4"):
        copying(copy.replace("x, ", "x, 2 + "), "await_copies(0)")
    with pytest.raises(KernelError, match="and not shared"):
        copying(copy.replace("t, ", "out, "), "await_copies(0)")


@pytest.mark.parametrize(("copy", "nbytes"), [("copy4", 4), ("copy8", 8)])
def test_copies_of_fewer_bytes(copy, nbytes):
    count = nbytes // 4
    text = f"{copy}(t, 4 * thread(), x, {count} * irem(thread() + 3, 16))"
    expected = whole(64)[count * ((np.arange(64)[::-1] + 3) % 16)]
    np.testing.assert_array_equal(copying(text, "await_copies(0)")[:64], expected)
    with pytest.raises(KernelError, match="was never written"):
        copying(text)


def test_copies_under_a_condition():
    where = "t, 4 * thread(), x, 4 * irem(thread(), 16), thread() < 40"
    expected = whole(64)[4 * (np.arange(64) % 16)] * (np.arange(64) < 40)
    found = copying(f"copy_or_zero({where})", "await_copies(0)")
    np.testing.assert_array_equal(found[:64], expected[::-1])
    with pytest.raises(KernelError, match="was never written"):
        copying(f"copy_if({where})", "await_copies(0)")


def test_integers_are_those_of_the_compiler():
    text = """def kernel(flag, x, out):
    out[0] = np.int8(x[0] + x[0])
    out[1] = np.int8(-x[1])
    out[2] = np.int8(shr(x[1], np.int8(1)))
    if x[0] + x[0] > 200:
        out[3] = np.int8(~x[0])
"""
    out = np.zeros(4, np.int8)
    emulate(text, [flag(), np.array([127, -128], np.int8), out], 1, 1)
    # sums are of 64 bits, and wrap where they are converted
    np.testing.assert_array_equal(out, [-2, -128, -64, -128])


def test_half_floats_and_truth_values_in_memory():
    text = """def kernel(flag, h, b):
    i = thread()
    h[i] = half_bits(as_half(half(h[i]) * np.float32(3)))
    atomic_add(h, 4, half(h[i]))
    b[i] = half(h[i]) > np.float32(6)
    atomic_and(b, 4, b[i] != np.uint8(0))
"""
    h = np.array([1, 2, 3, 0.1, 0], np.float16)
    b = np.ones(5, np.uint8)
    expected = h[:4] * np.float16(3)
    emulate(text, [flag(), h.view(np.uint16), b], 1, 4)
    np.testing.assert_array_equal(h[:4], expected)
    np.testing.assert_allclose(h[4], expected.astype(float).sum(), rtol=1e-3)
    np.testing.assert_array_equal(b, [0, 0, 1, 0, 0])


def test_failures_raise_the_flag():
    failed = flag()
    text = of_lines("out[checked(thread(), 3, flag)] = required(n < 3, x[0], 5, flag)")
    emulate(text, [failed, whole(9), np.zeros(9, np.float32), 1], 1, 3)
    assert failed[0] == 0
    with pytest.raises(KernelError, match="race"):  # all but three write the first one
        emulate(text, [failed, whole(9), np.zeros(9, np.float32), 9], 1, 5)
    assert failed[0] != 0


@pytest.mark.dear
def test_an_ensemble_is_emulated_by_few_calls():
    text = of_lines(
        I, "v = x[i]", "for k in range(15):", "    v = v * v + np.float32(0.1)", "out[i] = v"
    )
    x = np.full(2048, 0.3, np.float32)
    calls = 0

    def count(frame, event, what):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run(text, x=x, out=np.zeros(2048, np.float32), blocks=8, threads=256)
    finally:
        sys.setprofile(before)
    # a thread has some 30 operations
    assert calls < 500 * 2048


def test_both_c_types_of_64_bits_are_one_dtype():
    x, out = np.arange(4, dtype=np.longlong), np.zeros(4, np.int64)
    text = of_lines("if thread() < n:", "    out[thread()] = x[thread()] + 2")
    emulate(text, [flag(), x, out, 4], 1, 32)
    np.testing.assert_array_equal(out, [2, 3, 4, 5])
