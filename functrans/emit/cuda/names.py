"""The functions that printed CUDA kernels call: a table of their typing rules and device code.

Half floats are uint16 in memory, and in expressions float32 numbers that are rounded to half
floats; bool is uint8 in memory. What each function computes is defined, for an emulator, in
`tests/emit/cuda/meanings.py`; a test compares the names there with these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans.caches import once
from functrans.emit.cuda import asynchronous, memory, numbers, teams, tensor_cores
from functrans.emit.cuda.site import Site, numba_type
from functrans.loop.fragments import SUMS

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
    literal: bool = False
    """Whether its operands must be literals."""


def _alike(*dtypes: str) -> Rule:
    """A rule for operands of one dtype out of the given ones, which is also the result's."""
    return lambda *kinds: kinds[0] if len({*kinds}) == 1 and kinds[0] in dtypes else None


def _of(result: str, *dtypes: str) -> Rule:
    return lambda kind: result if kind in dtypes else None


def _no_operands(result: str) -> Rule:
    return lambda: result


def _where(condition: str, x: str, y: str) -> str | None:
    return _alike(*NUMBERS)(x, y) if condition == "bool" else None


def _checked(position: str, extent: str, flag: str) -> str | None:
    return position if (position, extent, flag) == ("int64", "int64", "int64*") else None


def _required(condition: str, value: str, status: str, flag: str) -> str | None:
    fine = (condition, status, flag) == ("bool", "int64", "int64*")
    return value if fine and value in NUMBERS else None


def _bits_as(result: str) -> Rule:
    size = np.dtype(result).itemsize
    return lambda kind: result if kind in SIZED and np.dtype(kind).itemsize == size else None


def _read(pointer: str, position: str) -> str | None:
    return pointer[:-1] if pointer.endswith("*") and position == "int64" else None


def _fits(pointer: str, position: str, count: int) -> bool:
    if not pointer.endswith("*") or position != "int64":
        return False
    return np.dtype(pointer[:-1]).itemsize * count <= memory.WIDEST


def _load(count: int) -> Rule:
    def rule(pointer: str, position: str) -> str | None:
        return f"{pointer[:-1]} x {count}" if _fits(pointer, position, count) else None

    return rule


def _store(count: int) -> Rule:
    def rule(pointer: str, position: str, *values: str) -> str | None:
        fits = _fits(pointer, position, count)
        return "none" if fits and {*values} == {pointer[:-1]} else None

    return rule


def _copy(target: str, position: str, source: str, start: str) -> str | None:
    fine = target.endswith("*") and target == source
    return "none" if fine and (position, start) == ("int64", "int64") else None


def _copy_where(target: str, position: str, source: str, start: str, where: str) -> str | None:
    return _copy(target, position, source, start) if where == "bool" else None


def _await(behind: Any) -> str | None:
    return "none" if isinstance(behind, int) and behind >= 0 else None


def _atomic(op: str) -> Rule:
    takes = INTEGERS if op in ("and", "or", "xor") else (*INTEGERS, *FLOATS)
    lying = {"bool": "uint8"} | ({} if op in ("and", "or", "xor") else {"float32": "uint16"})

    def rule(pointer: str, position: str, value: str) -> str | None:
        if not pointer.endswith("*") or position != "int64":
            return None
        element = pointer[:-1]
        fits = (element == value and value in takes) or lying.get(value) == element
        return "none" if fits else None

    return rule


def _shuffle(value: str, count: str) -> str | None:
    return value if value in NUMBERS and count == "int64" else None


def _matrices(pointer: str, position: str) -> str | None:
    return "uint32 x 4" if (pointer, position) == ("uint16*", "int64") else None


def _mma(shape: tensor_cores.Shape) -> Name:
    """A product of fragments: a thread's accumulators, and its elements of the operands."""

    def rule(*kinds: str) -> str | None:
        return f"{shape.sums} x {SUMS}" if kinds == shape.operands else None

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


_ANY, _INTEGER, _FLOAT = _alike(*NUMBERS), _alike(*INTEGERS), _alike(*FLOATS)
_WIDTHS = (2, 4, 8, 16)
_ATOMIC = ("add", "mul", "min", "max", "and", "or", "xor")

TABLE: dict[str, Name] = {
    "where": Name("condition x y", _where, numbers.where),
    "min": _two(_ANY, numbers.extremum("<")),
    "max": _two(_ANY, numbers.extremum(">")),
    "half_min": _two(_FLOAT, numbers.extremum("<=")),
    "half_max": _two(_FLOAT, numbers.extremum(">=")),
    "checked": Name("position extent flag", _checked, numbers.checked),
    "required": Name("condition value status flag", _required, numbers.required),
    "fma": Name("x y z", _FLOAT, numbers.fma),
    "sqrt": _one(_FLOAT, numbers.llvm("sqrt")),
    "copysign": _two(_FLOAT, numbers.llvm("copysign")),
    "ratio": _two(_alike("float32"), numbers.ratio),
    "idiv": _two(_INTEGER, numbers.division),
    "irem": _two(_alike(*INTEGERS, *FLOATS), numbers.remainder),
    "shl": _two(_INTEGER, numbers.shift("shl")),
    "shr": _two(_INTEGER, numbers.shift("ashr")),
    "lshr": _two(_INTEGER, numbers.shift("lshr")),
    "rotl": _two(_INTEGER, numbers.rotation),
    "as_int64": _one(_of("int64", *FLOATS), numbers.truncated),
    "as_int32": _one(_of("int32", *FLOATS), numbers.truncated),
    "as_uint64": _one(_of("uint64", *FLOATS), numbers.as_uint64),
    "half": Name("bits", _of("float32", "uint16"), numbers.half),
    "half_bits": _one(_of("uint16", "float32"), numbers.half_bits),
    "as_half": _one(_of("float32", "float32"), numbers.rounded_to_half),
    "as_tf32": _one(_of("float32", "float32"), tensor_cores.as_tf32),
    "half_of_double": _one(_of("float32", "float64"), numbers.rounded_to_half),
    "floor": _one(_FLOAT, numbers.llvm("floor")),
    "ceil": _one(_FLOAT, numbers.llvm("ceil")),
    "trunc": _one(_FLOAT, numbers.libdevice("__nv_trunc")),
    "rint": _one(_FLOAT, numbers.libdevice("__nv_rint")),
    "fast_exp": _one(_of("float32", "float32"), numbers.fast_exp),
    **{f"bits_as_{name}": _one(_bits_as(name), numbers.bits_as) for name in SIZED},
    "read": Name("x position", _read, memory.read),
    **{f"load{n}": Name("x position", _load(n), memory.load(n)) for n in _WIDTHS},
    **{f"read{n}": Name("x position", _load(n), memory.load(n, constant=True)) for n in _WIDTHS},
    **{
        f"store{n}": Name(
            " ".join(["x", "position", *(f"value{i}" for i in range(n))]),
            _store(n),
            memory.store(n),
        )
        for n in _WIDTHS
    },
    **{f"atomic_{op}": Name("x position value", _atomic(op), memory.atomic(op)) for op in _ATOMIC},
    "copy": Name("x position y start", _copy, asynchronous.copy()),
    "copy4": Name("x position y start", _copy, asynchronous.copy(nbytes=4)),
    "copy8": Name("x position y start", _copy, asynchronous.copy(nbytes=8)),
    "copy_if": Name("x position y start condition", _copy_where, asynchronous.copy("if")),
    "copy_or_zero": Name("x position y start condition", _copy_where, asynchronous.copy("or_zero")),
    "await_copies": Name("behind", _await, asynchronous.await_copies, literal=True),
    "shared": Name("dtype count", _space, memory.shared, literal=True),
    "dynamic_shared": Name("dtype start", _dynamic, memory.dynamic_shared, literal=True),
    "local": Name("dtype count", _space, memory.local, literal=True),
    "thread": Name("", _no_operands("int64"), teams.special_register("tid.x")),
    "threads": Name("", _no_operands("int64"), teams.special_register("ntid.x")),
    "block": Name("", _no_operands("int64"), teams.special_register("ctaid.x")),
    "blocks": Name("", _no_operands("int64"), teams.special_register("nctaid.x")),
    "barrier": Name("", _no_operands("none"), teams.barrier),
    "warp_barrier": Name("", _no_operands("none"), teams.warp_barrier),
    "shuffle": Name("value lane", _shuffle, teams.shuffle(teams.INDEX)),
    "shuffle_down": Name("value count", _shuffle, teams.shuffle(teams.DOWN)),
    "shuffle_xor": Name("value count", _shuffle, teams.shuffle(teams.XOR)),
    "matrices": Name("x position", _matrices, tensor_cores.matrices(transposed=False)),
    "matrices_transposed": Name("x position", _matrices, tensor_cores.matrices(transposed=True)),
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
