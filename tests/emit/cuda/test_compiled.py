"""Device functions compiled: the GPU instructions that they become."""

import re

import pytest

from functrans.emit.cuda.names import FLOATS, INTEGERS, TABLE
from functrans.run.cuda.compile import compile_cubin
from tests.emit.cuda.meanings import MEANINGS
from tests.emit.cuda.special import needs_compiler

pytestmark = needs_compiler


def ptx(body, *pointers, architecture="sm_90"):
    """The instructions of a kernel of pointers `a`, `b`, `o` and an index `n`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    signature = ("int64*", *(f"{pointer}*" for pointer in pointers), "int64")
    names = ", ".join("abo" if len(pointers) == 3 else "ao")
    source = f"def kernel(flag, {names}, n):\n{lines}"
    cubin = compile_cubin(source, signature, architecture)
    assert cubin.resources.spills == 0
    return cubin.ptx


def lines_of(calls):
    return "\n".join(f"o[n + {i}] = {call}" for i, call in enumerate(calls))


# What a call with operands `x` and `y` of a dtype becomes.
INSTRUCTIONS = [
    ("min(x, y)", "float32", r"setp\.lt\.f32.*setp\.nan\.f32.*selp\.f32"),
    ("max(x, y)", "int64", r"max\.s64"),
    ("half_min(x, y)", "float32", r"setp\.le\.f32"),
    ("fma(x, y, x)", "float32", r"fma\.rn\.f32"),
    ("fma(x, y, x)", "float64", r"fma\.rn\.f64"),
    ("sqrt(x)", "float32", r"sqrt\.rn\.f32"),
    ("sqrt(x)", "float64", r"sqrt\.rn\.f64"),
    ("x / y", "float32", r"div\.rn\.f32"),
    ("x / y", "float64", r"div\.rn\.f64"),
    ("floor(x)", "float32", r"cvt\.rmi\.f32\.f32"),
    ("ceil(x)", "float32", r"cvt\.rpi\.f32\.f32"),
    ("trunc(x)", "float32", r"cvt\.rzi\.f32\.f32"),
    ("rint(x)", "float32", r"cvt\.rni\.f32\.f32"),
    ("copysign(x, y)", "float32", r"copysign\.f32"),
    ("as_half(x)", "float32", r"cvt\.rn\.f16\.f32.*cvt\.f32\.f16"),
    ("float32_of(half_of_double(x))", "float64", r"cvt\.rn\.f16\.f64"),
    ("idiv(x, y)", "int64", r"div\.s64"),
    ("irem(x, y)", "uint32", r"rem\.u32"),
    ("shl(x, y)", "int32", r"shl\.b32"),
    ("shr(x, y)", "int32", r"shr\.s32"),
    ("lshr(x, y)", "int64", r"shr\.u64"),
    ("rotl(x, np.uint32(13))", "uint32", r"shf\.l\.wrap\.b32.* 13;"),
]


@pytest.mark.parametrize(("call", "dtype", "pattern"), INSTRUCTIONS)
def test_instructions(call, dtype, pattern):
    call = call.replace("float32_of", "np.float64")
    text = ptx(f"x, y = a[n], b[n]\no[n] = {call}", dtype, dtype, dtype)
    assert re.search(pattern, text, re.DOTALL)
    assert not re.search(r"\.approx|\.ftz", text)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_of_single_precision_compute_in_it(architecture):
    calls = []
    for name, entry in TABLE.items():
        count = len(entry.parameters.split())
        # NVIDIA's exact remainder and our quotient start from an approximation, and one function is
        # one
        if name in MEANINGS and 0 < count <= 3 and name not in ("irem", "fast_exp", "ratio"):
            if entry.rule(*["float32"] * count) == "float32":
                calls.append(f"{name}({', '.join('xyx'[:count])})")
    assert len(calls) > 8
    calls += ["x + y", "x - y", "x * y", "x / y", "-x", "abs(x)"]
    calls += ["where(x < y, x, y)", "x * np.float32(0.1)", "np.float32(as_int64(x))"]
    body = "x, y = read(a, n), read(b, n)\n" + lines_of(calls)
    text = ptx(body, "float32", "float32", "float32", architecture=architecture)
    assert not re.search(r"\.f64|\.approx|\.ftz", text)


def test_an_ordinary_quotient_has_no_test_of_its_operands():
    text = ptx("o[n] = ratio(a[n], b[n])", "float32", "float32", "float32")
    assert re.search(r"rcp\.approx\.ftz\.f32", text)
    assert not re.search(r"div\.|setp|call", text)


def test_a_rounded_product_is_not_contracted_with_a_sum():
    text = ptx(
        "o[n] = half_bits(as_half(as_half(half(a[n]) * half(b[n])) + half(a[n + 1])))",
        "uint16", "uint16", "uint16",
    )  # fmt: skip
    assert not re.search(r"(fma|mul|add)\.(rn\.)?f16", text)


@pytest.mark.parametrize(
    ("dtype", "count", "suffix"),
    [
        ("float32", 4, "v4.f32"),
        ("int32", 4, "v4.u32"),
        ("float64", 2, "v2.f64"),
        ("int64", 2, "v2.u64"),
        ("uint16", 8, "v4.u32"),
        ("uint8", 16, "v4.u32"),
        ("float32", 2, "v2.f32"),
    ],
)
def test_wide_loads_and_stores_are_one_instruction(dtype, count, suffix):
    names = ", ".join(f"v{i}" for i in range(count))
    text = ptx(
        f"{names} = load{count}(a, {count} * n)\nstore{count}(o, {count} * n, {names})",
        dtype,
        dtype,
    )
    assert re.findall(r"(?:ld|st)\.global[\w.]*", text) == [
        f"ld.global.{suffix}",
        f"st.global.{suffix}",
    ]
    text = ptx(
        f"{names} = read{count}(a, {count} * n)\nstore{count}(o, {count} * n, {names})",
        dtype,
        dtype,
    )
    assert re.findall(r"ld\.global[\w.]*", text) == [f"ld.global.nc.{suffix}"]


def test_what_is_read_as_a_constant_takes_the_cache_for_those():
    text = ptx("o[n] = read(a, n) + a[n + 1]", "float32", "float32")
    assert re.findall(r"ld\.global[\w.]*", text) == ["ld.global.nc.f32", "ld.global.f32"]


OPERATIONS = ("add", "mul", "min", "max", "and", "or", "xor")
# What the hardware has, of numbers of 32 and 64 bits; the rest exchanges words in a loop.
NATIVE = {
    "float": {"add"},
    "int": {"add", "min", "max", "and", "or", "xor"},
    "uint": {"add", "min", "max", "and", "or", "xor"},
}


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_atomic_operations_are_the_hardwares_or_exchanges(dtype):
    kind, bits = dtype.rstrip("0123456789"), int(dtype.lstrip("fluoatin"))
    for op in OPERATIONS:
        if TABLE[f"atomic_{op}"].rule(f"{dtype}*", "int64", dtype) is None:
            assert kind == "float"
            continue
        text = ptx(f"atomic_{op}(o, n, a[n])", dtype, dtype)
        native = bits >= 32 and op in NATIVE[kind]
        pattern = rf"{op}\.\w{bits}" if native else rf"cas\.b{max(bits, 32)}"
        [found] = re.findall(r"atom\.(?:relaxed\.)?global\.([\w.]*)", text)
        assert re.fullmatch(pattern, found), op


def test_atomic_operations_on_half_floats_and_truth_values():
    text = ptx("atomic_add(o, n, half(a[n]))", "uint16", "uint16")
    assert re.search(r"atom\.\S*cas\.b32", text)
    text = ptx("atomic_max(o, n, a[n] != 0)", "uint8", "uint8")
    assert re.search(r"atom\.\S*cas\.b32", text)


@pytest.mark.parametrize(("dtype", "count"), [("float32", 1), ("int64", 2), ("uint8", 1)])
def test_shuffles_go_in_pieces_of_32_bits(dtype, count):
    for name, instruction in (("down", "down"), ("xor", "bfly")):
        text = ptx(f"o[n] = shuffle_{name}(a[n], 16)", dtype, dtype)
        assert text.count(f"shfl.sync.{instruction}.b32") == count


def test_threads_barriers_and_the_memory_of_a_block():
    text = ptx(
        "tile = shared('float32', 256)\n"
        "row = local('float32', 4)\n"
        "tile[thread()] = a[block() * threads() + thread()]\n"
        "row[0] = a[n]\n"
        "warp_barrier()\n"
        "barrier()\n"
        "o[blocks()] = tile[255 - thread()] + row[0]",
        "float32", "float32",
    )  # fmt: skip
    for instruction in (
        "%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "bar.sync", "bar.warp.sync",
        "st.shared.f32", "ld.shared.f32",
    ):  # fmt: skip
        assert instruction in text
    assert re.search(r"\.shared \.align 16 \.b8 \w+\[1024\]", text)
    assert ".local" not in text  # what is indexed by constants is in registers


def test_dynamic_shared_memory_is_one_array():
    text = ptx(
        "s, t = dynamic_shared('float32', 0), dynamic_shared('float32', 1024)\n"
        "s[thread()], t[thread()] = a[n], a[n + 1]\n"
        "barrier()\n"
        "o[n] = s[3] + t[4]",
        "float32", "float32",
    )  # fmt: skip
    [name] = re.findall(r"\.extern \.shared \.align 16 \.b8 (\w+)\[", text)
    assert f"[{name}+12]" in text
    assert f"[{name}+1040]" in text


def test_failures_raise_the_flag():
    text = ptx("o[checked(n, 7, flag)] = required(n < 3, a[n], 5, flag)", "float32", "float32")
    assert re.search(r"st\.global\.u64", text)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("min(a[n], n)", "min(float32, int64)"),
        ("where(n, a[n], b[n])", "where(int64, float32, float32)"),
        ("load4(flag, n)[0]", "load4(int64*, int64)"),
        ("shared('float32', n)[0]", "shared("),
        ("half(a[n])", "half(float32)"),
    ],
)
def test_what_operations_do_not_take(call, words):
    with pytest.raises(TypeError) as error:
        ptx(f"o[n] = {call}", "float32", "float32", "float32")
    assert words in str(error.value)
