"""The functions that printed CUDA kernels call: a table of their typing rules and device code.

Half floats are uint16 in memory, and in expressions float32 numbers that are rounded to half
floats; bool is uint8 in memory. What each function computes is defined, for an emulator, in
`tests/emit/cuda/meanings.py`; a test compares the names there with these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.emit.cuda import asynchronous, memory, numbers, teams, tensor_cores
from functrans.emit.cuda.site import Site, numba_type
from functrans.loop.fragments import SUMS
from functrans.records import NamedTuple

FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
NUMBERS = ("bool", *INTEGERS, *FLOATS)
SIZED = ("float64", "float32", "int64", "int32", "int16", "uint64", "uint32", "uint16")

Rule = Callable[..., str | None]
"""Maps the names of the operands' types to that of the result; None if it is not defined for
them."""


class Name(NamedTuple):
    """A function that kernels call."""

    parameters: str
    rule: Rule
    code: numbers.Code
    literal: bool = False  # whether its operands must be literals


def _cases(signature: str, *dtypes: str) -> dict[tuple[str, ...], str]:
    """A signature like "bool T T -> T", for each dtype T of the given ones."""
    takes, _, gives = signature.partition("->")
    return {
        tuple(kind.replace("T", dtype) for kind in takes.split()): gives.strip().replace("T", dtype)
        for dtype in dtypes or ("",)
    }


def _rule(signature: str, *dtypes: str) -> Rule:
    cases = _cases(signature, *dtypes)
    return lambda *kinds: cases.get(kinds)


def _bits_as(result: str) -> Rule:
    size = np.dtype(result).itemsize
    return _rule(f"T -> {result}", *(kind for kind in SIZED if np.dtype(kind).itemsize == size))


def _at_once(signature: str, count: int) -> Rule:
    """A rule for so many elements, if a thread accesses as many bytes at once."""
    kinds = (*INTEGERS, *FLOATS)
    fitting = (kind for kind in kinds if np.dtype(kind).itemsize * count <= memory.WIDEST)
    return _rule(signature, *fitting)


def _await(behind: Any) -> str | None:
    return "none" if isinstance(behind, int) and behind >= 0 else None


def _atomic(op: str) -> Rule:
    cases = _cases("T* int64 T -> none", *INTEGERS) | _cases("uint8* int64 bool -> none")
    if op not in ("and", "or", "xor"):
        cases |= _cases("T* int64 T -> none", *FLOATS) | _cases("uint16* int64 float32 -> none")
    return lambda *kinds: cases.get(kinds)


def _mma(shape: tensor_cores.Shape) -> Name:
    """A product of fragments: a thread's accumulators, and its elements of the operands."""
    rule = _rule(f"{' '.join(shape.operands)} -> {shape.sums} x {SUMS}")
    letters = (("c", SUMS), ("a", shape.left), ("b", shape.right))
    parameters = [f"{letter}{i}" for letter, count in letters for i in range(count)]
    return Name(" ".join(parameters), rule, tensor_cores.mma(shape))


def _space(dtype: Any, count: Any) -> str | None:
    fine = dtype in NUMBERS and dtype != "bool" and isinstance(count, int) and count > 0
    return f"{dtype}*" if fine else None


def _dynamic(dtype: Any, start: Any) -> str | None:
    fine = isinstance(start, int) and start >= 0 and _space(dtype, 1) is not None
    return f"{dtype}*" if fine and start % np.dtype(dtype).itemsize == 0 else None


def _two(rule: Rule, code: numbers.Code) -> Name:
    return Name("x y", rule, code)


def _one(rule: Rule, code: numbers.Code) -> Name:
    return Name("x", rule, code)


_ONE_FLOAT, _TWO_FLOATS = _rule("T -> T", *FLOATS), _rule("T T -> T", *FLOATS)
_ANY, _INTEGERS = _rule("T T -> T", *NUMBERS), _rule("T T -> T", *INTEGERS)
_ONE_SINGLE, _COPY = _rule("float32 -> float32"), _rule("T* int64 T* int64 -> none", *NUMBERS)
_COPY_WHERE = _rule("T* int64 T* int64 bool -> none", *NUMBERS)
_SHUFFLE, _MATRICES = _rule("T int64 -> T", *NUMBERS), _rule("uint16* int64 -> uint32 x 4")
_REGISTER, _BARRIER = _rule("-> int64"), _rule("-> none")
_WIDTHS = (2, 4, 8, 16)
_ATOMIC = ("add", "mul", "min", "max", "and", "or", "xor")

TABLE: dict[str, Name] = {
    "where": Name("condition x y", _rule("bool T T -> T", *NUMBERS), numbers.where),
    "min": _two(_ANY, numbers.extremum("<")),
    "max": _two(_ANY, numbers.extremum(">")),
    "half_min": _two(_TWO_FLOATS, numbers.extremum("<=")),
    "half_max": _two(_TWO_FLOATS, numbers.extremum(">=")),
    "checked": Name("position extent flag", _rule("int64 int64 int64* -> int64"), numbers.checked),
    "required": Name(
        "condition value status flag", _rule("bool T int64 int64* -> T", *NUMBERS), numbers.required
    ),
    "fma": Name("x y z", _rule("T T T -> T", *FLOATS), numbers.fma),
    "sqrt": _one(_ONE_FLOAT, numbers.llvm("sqrt")),
    "copysign": _two(_TWO_FLOATS, numbers.llvm("copysign")),
    "ratio": _two(_rule("float32 float32 -> float32"), numbers.ratio),
    "idiv": _two(_INTEGERS, numbers.division),
    "irem": _two(_rule("T T -> T", *INTEGERS, *FLOATS), numbers.remainder),
    "shl": _two(_INTEGERS, numbers.shift("shl")),
    "shr": _two(_INTEGERS, numbers.shift("ashr")),
    "lshr": _two(_INTEGERS, numbers.shift("lshr")),
    "rotl": _two(_INTEGERS, numbers.rotation),
    "as_int64": _one(_rule("T -> int64", *FLOATS), numbers.truncated),
    "as_int32": _one(_rule("T -> int32", *FLOATS), numbers.truncated),
    "as_uint64": _one(_rule("T -> uint64", *FLOATS), numbers.as_uint64),
    "half": Name("bits", _rule("uint16 -> float32"), numbers.half),
    "half_bits": _one(_rule("float32 -> uint16"), numbers.half_bits),
    "as_half": _one(_ONE_SINGLE, numbers.rounded_to_half),
    "as_tf32": _one(_ONE_SINGLE, tensor_cores.as_tf32),
    "half_of_double": _one(_rule("float64 -> float32"), numbers.rounded_to_half),
    "floor": _one(_ONE_FLOAT, numbers.llvm("floor")),
    "ceil": _one(_ONE_FLOAT, numbers.llvm("ceil")),
    "trunc": _one(_ONE_FLOAT, numbers.libdevice("__nv_trunc")),
    "rint": _one(_ONE_FLOAT, numbers.libdevice("__nv_rint")),
    "fast_exp": _one(_ONE_SINGLE, numbers.fast_exp),
    **{f"bits_as_{name}": _one(_bits_as(name), numbers.bits_as) for name in SIZED},
    "read": Name("x position", _rule("T* int64 -> T", *NUMBERS), memory.read),
    **{
        f"{kind}{n}": Name(
            "x position",
            _at_once(f"T* int64 -> T x {n}", n),
            memory.load(n, constant=kind == "read"),
        )
        for kind in ("load", "read")
        for n in _WIDTHS
    },
    **{
        f"store{n}": Name(
            " ".join(["x", "position", *(f"value{i}" for i in range(n))]),
            _at_once(f"T* int64 {'T ' * n} -> none", n),
            memory.store(n),
        )
        for n in _WIDTHS
    },
    **{f"atomic_{op}": Name("x position value", _atomic(op), memory.atomic(op)) for op in _ATOMIC},
    "copy": Name("x position y start", _COPY, asynchronous.copy()),
    "copy4": Name("x position y start", _COPY, asynchronous.copy(nbytes=4)),
    "copy8": Name("x position y start", _COPY, asynchronous.copy(nbytes=8)),
    "copy_if": Name("x position y start condition", _COPY_WHERE, asynchronous.copy("if")),
    "copy_or_zero": Name("x position y start condition", _COPY_WHERE, asynchronous.copy("or_zero")),
    "await_copies": Name("behind", _await, asynchronous.await_copies, literal=True),
    "shared": Name("dtype count", _space, memory.shared, literal=True),
    "dynamic_shared": Name("dtype start", _dynamic, memory.dynamic_shared, literal=True),
    "local": Name("dtype count", _space, memory.local, literal=True),
    "thread": Name("", _REGISTER, teams.special_register("tid.x")),
    "threads": Name("", _REGISTER, teams.special_register("ntid.x")),
    "block": Name("", _REGISTER, teams.special_register("ctaid.x")),
    "blocks": Name("", _REGISTER, teams.special_register("nctaid.x")),
    "barrier": Name("", _BARRIER, teams.barrier),
    "warp_barrier": Name("", _BARRIER, teams.warp_barrier),
    "shuffle": Name("value lane", _SHUFFLE, teams.shuffle(teams.INDEX)),
    "shuffle_down": Name("value count", _SHUFFLE, teams.shuffle(teams.DOWN)),
    "shuffle_xor": Name("value count", _SHUFFLE, teams.shuffle(teams.XOR)),
    "matrices": Name("x position", _MATRICES, tensor_cores.matrices(transposed=False)),
    "matrices_transposed": Name("x position", _MATRICES, tensor_cores.matrices(transposed=True)),
    **{f"mma_{kind}": _mma(shape) for kind, shape in tensor_cores.SHAPES.items()},
}

NAMES = frozenset(TABLE)
"""The names in `names`: no variable of a printed kernel has one of these."""


@once
def names() -> dict[str, Any]:
    """The functions by their names, for Numba's CUDA compiler."""
    from numba.cuda.extending import intrinsic

    return {name: intrinsic(typed(name)) for name in TABLE}


def typed(name: str) -> Any:
    """The typing function of Numba's intrinsic: operand types to signature and generator."""
    from numba.core.errors import TypingError

    entry = TABLE[name]

    def function(context: Any, *kinds: Any) -> Any:
        operands = tuple(getattr(kind, "literal_value", str(kind)) for kind in kinds)
        if entry.literal and not all(hasattr(kind, "literal_value") for kind in kinds):
            raise TypingError(f"{name}({', '.join(operands)}): the operands must be literals")
        result = entry.rule(*operands)
        if result is None:
            raise TypingError(f"{name}({', '.join(map(str, operands))}) is not defined")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return entry.code(Site(context, builder, operands, result), *args)

        return numba_type(result)(*kinds), generate

    parameters = [
        inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for each in ("context", *entry.parameters.split())
    ]
    # Numba reads the number of operands from the signature
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__name__ = name
    return function
