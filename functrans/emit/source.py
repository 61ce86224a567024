"""The loop IR as Python source that Numba compiles: what a user reads, and the portable back end.

It is also the second implementation that the LLVM printer is tested against, so it is written
with the plainest means: one number after another, no vectors. Sums have the partial results that
their statements say, since these fix the bits.

Numba has no arithmetic of half floats on CPUs. They are uint16 in memory, and float32 numbers, each
rounded to what a half float can be, in expressions: that is how the machine computes with them.
bfloat16 numbers are uint16 throughout: nothing is done to them but to move them.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrans.emit import names as emit_names
from functrans.ir.types import is_bfloat16
from functrans.loop.functions import expanded
from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import BOOL, Scalar, postorder
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import expressions, loaded, may_fail, stored, walk

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
}  # fmt: skip
_BOOL_INFIX = {"add": "|", "mul": "&", "min": "&", "max": "|", "sub": "^"}
_HALF = np.dtype(np.float16)
_NATURAL = (np.dtype(np.float64), INDEX, BOOL)
"""Numba's own types for float and int expressions: nothing else needs its type written."""

_TAKEN = {"flag", "start", "stop", "np", "math", "range", *emit_names.NAMES, *keyword.kwlist}
"""What no variable is called."""

LONGEST = 60
"""An expression longer than this gets a line and a name."""


def emit(kernel: Kernel, name: str = "kernel") -> str:
    """The source of a kernel as a Python function.

    Its arguments are the error flag (an array of one int64), the buffers (as arrays of their
    shapes; half floats as uint16), the sizes, and the part ``start <= index < stop`` of a parallel
    loop to do.
    """
    return _Printer(kernel).function(name)


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.rows: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Any, str] = {}
        self.scopes: list[dict[Scalar, str]] = [{}]
        self.taken = {*_TAKEN, *(f"n{slot}" for slot in range(kernel.sizes))}
        self.taken |= {call.symbol for call in walk(kernel.body) if isinstance(call, Call)}
        self.counts: dict[str, int] = {}
        self.expansions: dict[Scalar, Scalar] = {}
        self.changing_memory = loaded(kernel.body) & stored(kernel.body)
        self.changing: dict[Scalar, bool] = {
            target: not isinstance(statement, Let)
            for kinds in (Let, (Assign, Reduce))
            for statement in walk(kernel.body)
            if isinstance(statement, kinds)
            for target in statement.targets
        }
        for buffer in (*kernel.buffers, *kernel.scratch):
            self.names[buffer] = self._unique(buffer.name)

    def function(self, name: str) -> str:
        buffers = [self.names[buffer] for buffer in self.kernel.buffers]
        sizes = [f"n{slot}" for slot in range(self.kernel.sizes)]
        head = f"def {name}({', '.join(['flag', *buffers, *sizes, 'start', 'stop'])}):"
        for row in self.kernel.scratch:
            self._row(
                self.names[row], written_tuple(map(self._leaf, row.shape)), in_memory(row.dtype)
            )
        split = self.kernel.parallel
        if split is not None:
            self._for(split, "start", "stop")
        else:
            self._statements(self.kernel.body)
        return "\n".join([head, *self.rows, *(self.lines or ["    pass"])]) + "\n"

    # -- text ---------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _row(self, name: str, shape: str, dtype: np.dtype[Any]) -> None:
        """Declare memory of the function's own, at its top: in a loop it would be made anew."""
        self.rows.append(f"    {name} = np.empty({shape}, np.{dtype})")

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head)
        self.depth += 1
        self.scopes.append({})
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self._line("pass")
        self.scopes.pop()
        self.depth -= 1

    def _unique(self, label: str) -> str:
        name = label
        while name in self.taken:
            self.counts[label] = count = self.counts.get(label, 0) + 1
            name = f"{label}_{count}"
        self.taken.add(name)
        return name

    def _named(self, node: Scalar) -> str:
        """The name of an index or a local."""
        if node not in self.names:
            self.names[node] = self._unique(node.attribute[0])
        return self.names[node]

    # -- statements ---------------------------------------------------------------------------

    def _statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case Store():
                    *indices, value = self._texts(expressions(statement))
                    place = f"{self.names[statement.target]}[{', '.join(indices) or '()'}]"
                    dtype = statement.target.dtype
                    if statement.op is not None:
                        value = self._combined(statement.op, dtype, _read(place, dtype), value)
                    self._line(f"{place} = {f'half_bits({value})' if dtype == _HALF else value}")
                    self._forget()
                case Let() | Assign():
                    values = self._texts(statement.values)
                    targets = [self._named(target) for target in statement.targets]
                    self._line(f"{', '.join(targets)} = {', '.join(values)}")
                    self._forget()
                case For():
                    start, stop = self._texts((statement.start, statement.stop))
                    self._for(statement, start, stop)
                case Reduce():
                    self._reduce(statement)
                case If():
                    (condition,) = self._texts((statement.condition,))
                    with self._block(f"if {condition}:"):
                        self._statements(statement.body)
                    if statement.otherwise:
                        with self._block("else:"):
                            self._statements(statement.otherwise)
                    self._forget()
                case While():
                    self._forget()
                    with self._block("while True:"):
                        self._statements(statement.prepare)
                        (condition,) = self._texts((statement.condition,))
                        failed = " or flag[0] != 0" if may_fail((statement,)) else ""
                        self._line(f"if not {condition}{failed}:")
                        self._line("    break")
                        self._statements(statement.body)
                    self._forget()
                case Call():
                    self._call(statement)

    def _forget(self) -> None:
        """Memory or a local may have changed: what follows from those is computed again."""
        for scope in self.scopes:
            for node in [node for node in scope if self._is_changing(node)]:
                del scope[node]

    def _is_changing(self, node: Scalar) -> bool:
        """Whether an expression may be another number later, in the same iteration of its loops."""
        for each in postorder([node], known=self.changing):
            self.changing[each] = (
                each.op == "load" and each.attribute in self.changing_memory
            ) or any(self.changing[arg] for arg in each.args)
        return self.changing[node]

    def _for(self, statement: For, start: str, stop: str) -> None:
        with self._loop(self._named(statement.index), start, stop):
            self._statements(statement.body)
        self._forget()

    @contextmanager
    def _loop(self, name: str, start: str, stop: str, step: int = 1) -> Iterator[None]:
        """A counting loop; in its later iterations, what changes in it has changed."""
        self._forget()
        bounds = stop if start == "0" and step == 1 else f"{start}, {stop}"
        with self._block(f"for {name} in range({bounds}{f', {step}' if step > 1 else ''}):"):
            yield

    def _reduce(self, statement: Reduce) -> None:
        """A reduction; one with lanes has a row of partial results, which are combined by halves.

        The targets are what is combined into: the locals, or the element of the row.
        """
        targets = [self._named(target) for target in statement.targets]
        rows = [self._unique(f"{name}_parts") for name in targets if statement.lanes > 1]
        for name, op, target in zip(rows or targets, statement.ops, statement.targets, strict=True):
            if rows:
                self._row(name, str(statement.lanes), _computed(target.dtype))
                name += "[:]"
            self._line(f"{name} = {_number(identity(op, target.dtype), target.dtype)}")
        self._reduce_nest(statement, rows or targets, statement.loops)
        if rows:
            lane, half = self._unique("lane"), self._unique("width")
            halves = [str(statement.lanes >> n) for n in range(1, statement.lanes.bit_length())]
            with (
                self._block(f"for {half} in {written_tuple(halves)}:"),
                self._block(f"for {lane} in range({half}):"),
            ):
                for row, op, target in zip(rows, statement.ops, statement.targets, strict=True):
                    first, second = f"{row}[{lane}]", f"{row}[{half} + {lane}]"
                    new = self._combined(op, target.dtype, first, second)
                    self._line(f"{first} = {new}")
            for name, row in zip(targets, rows, strict=True):
                self._line(f"{name} = {row}[0]")
        self._forget()

    def _reduce_nest(
        self,
        statement: Reduce,
        targets: Sequence[str],
        loops: Sequence[tuple[Scalar, Scalar, Scalar]],
    ) -> None:
        if loops:
            (index, *bounds), *inner = loops
            start, stop = self._texts(bounds)
            name, lanes = self._named(index), statement.lanes
            if inner or lanes == 1:
                with self._loop(name, start, stop):
                    self._reduce_nest(statement, targets, inner)
                return
            first = self._unique(f"{name}_first")
            with (
                self._loop(first, start, stop, lanes),
                self._block(f"for {name} in range({first}, min({first} + {lanes}, {stop})):"),
            ):
                self._reduce_nest(statement, [f"{x}[{name} - {first}]" for x in targets], inner)
            return
        self._statements(statement.body)
        values = self._texts(statement.values)
        for name, op, target, value in zip(
            targets, statement.ops, statement.targets, values, strict=True
        ):
            self._line(f"{name} = {self._combined(op, target.dtype, name, value)}")

    def _combined(self, op: str, dtype: np.dtype[Any], x: str, y: str) -> str:
        return _typed(_binary(op, dtype, x, y), dtype)

    def _call(self, statement: Call) -> None:
        arguments = []
        for argument in statement.arguments:
            if isinstance(argument, Address):
                indices = written_tuple(self._texts(argument.indices))
                arguments.append(f"address({self.names[argument.target]}, {indices})")
            elif isinstance(argument, bytes):
                arguments.append(repr(argument.decode("ascii")))
            else:
                arguments += self._texts((argument,))
        self._line(f"{statement.symbol}({', '.join(arguments)})")
        self._forget()

    # -- expressions --------------------------------------------------------------------------

    def _texts(self, roots: Sequence[Scalar]) -> list[str]:
        """Expressions; what is long or used several times is put on lines of its own before."""
        roots = expanded(roots, self.expansions)
        uses: dict[Scalar, int] = {}
        for node in postorder(roots):
            for arg in node.args:
                uses[arg] = uses.get(arg, 0) + 1
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        return [self._visit(root, uses) for root in roots]

    def _visit(self, root: Scalar, uses: dict[Scalar, int]) -> str:
        local: dict[Scalar, str] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            if node in local:
                stack.pop()
                continue
            known = next((s[node] for s in reversed(self.scopes) if node in s), None)
            if known is not None:
                local[node] = known
                continue
            first = node.args[:1] if node.op in ("guard", "unlikely") else node.args
            missing = [arg for arg in first if arg not in local]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            local[node] = self._write(node, [local[arg] for arg in first], uses)
        return local[root]

    def _write(self, node: Scalar, args: list[str], uses: dict[Scalar, int]) -> str:
        if node.op in ("guard", "unlikely"):
            return self._choice(node, args[0], uses)
        if not node.args:
            return self._leaf(node)
        text = self._operation(node, args)
        if (uses.get(node, 0) > 1 or len(text) > LONGEST) and node.op != "index":
            name = self._unique("v")
            self._line(f"{name} = {text}")
            self.scopes[-1][node] = text = name
        return text

    def _choice(self, node: Scalar, condition: str, uses: dict[Scalar, int]) -> str:
        """One of two values, of which only that one is computed."""
        name = self._unique("v")
        with self._block(f"if {condition}:"):
            self._line(f"{name} = {self._visit(node.args[1], uses)}")
        with self._block("else:"):
            self._line(f"{name} = {self._visit(node.args[2], uses)}")
        self.scopes[-1][node] = name
        return name

    def _leaf(self, node: Scalar) -> str:
        match node.op:
            case "const":
                return _number(node.attribute, node.dtype)
            case "zero":
                return _number(0, node.dtype)
            case "size":
                return f"n{node.attribute}"
            case "load":
                return _read(f"{self.names[node.attribute]}[()]", node.dtype)
        return self._named(node)

    def _operation(self, node: Scalar, args: list[str]) -> str:
        match node.op:
            case "load":
                return _read(f"{self.names[node.attribute]}[{', '.join(args)}]", node.dtype)
            case "convert":
                return _converted(node.args[0].dtype, node.dtype, args[0])
            case "bitcast":
                if node.dtype == _HALF:
                    return f"half(np.uint16({args[0]}))"
                bits = f"half_bits({args[0]})" if node.args[0].dtype == _HALF else args[0]
                return f"bits_as_{in_memory(node.dtype)}({bits})"
            case "lookup":
                table = ", ".join(_number(x, node.dtype) for x in node.attribute)
                return f"({table})[{args[0]}]"
            case "where":
                return f"where({', '.join(args)})"
            case "checked":
                return f"checked({args[0]}, {args[1]}, flag)"
            case "required":
                return f"required({args[0]}, {args[1]}, {node.attribute}, flag)"
            case "neg":
                return _typed(f"-{args[0]}", node.dtype)
            case "abs":
                return _typed(f"abs({args[0]})", node.dtype)
            case "not":
                return (
                    f"(not {args[0]})" if node.dtype == BOOL else _typed(f"~{args[0]}", node.dtype)
                )
        if node.op == "sqrt":
            return _typed(f"math.sqrt({args[0]})", node.dtype)
        if len(args) == 2:
            return _typed(_binary(node.op, node.args[0].dtype, *args), node.dtype)
        return _typed(f"{node.op}({', '.join(args)})", node.dtype)


def _binary(op: str, dtype: np.dtype[Any], x: str, y: str) -> str:
    infix = (_INFIX | _BOOL_INFIX if dtype == BOOL else _INFIX).get(op)
    if infix is None:
        # of a zero and a negative one NumPy gives the second, but of half floats the first
        first = dtype == _HALF and op in ("min", "max")
        return f"{'half_' if first else ''}{op}({x}, {y})"
    return f"({x} {infix} {y})"


def _converted(source: np.dtype[Any], dtype: np.dtype[Any], x: str) -> str:
    if dtype == _HALF:
        return f"half_of_double({x})" if source == np.float64 else _typed(f"np.float32({x})", dtype)
    if source.kind == "f" and dtype.kind in "iu":
        # as C does it: the machine has no other instructions
        machine = np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else INDEX)
        if dtype == np.uint64:
            return f"as_uint64({x})"
        x = f"as_{machine}({x})"
        return x if dtype == machine else f"np.{dtype}({x})"
    return f"np.{dtype}({x})"


def in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the arrays that hold numbers of a dtype."""
    return np.dtype(np.uint16) if dtype == _HALF or is_bfloat16(dtype) else dtype


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype == _HALF else dtype


def _read(place: str, dtype: np.dtype[Any]) -> str:
    return f"half({place})" if dtype == _HALF else place


def _typed(text: str, dtype: np.dtype[Any]) -> str:
    if dtype == _HALF:
        return f"as_half({text})"
    return text if dtype in _NATURAL else f"np.{dtype}({text})"


def written_tuple(texts: Iterable[str]) -> str:
    elements = list(texts)
    return f"({', '.join(elements)}{',' if len(elements) == 1 else ''})"


def _number(value: Any, dtype: np.dtype[Any]) -> str:
    if dtype == BOOL:
        return str(bool(value))
    if dtype == INDEX:
        # there is no literal of the least one: it is the negative of a number that is too large
        return str(int(value)) if value > np.iinfo(INDEX).min else f"(np.int64({value + 1}) - 1)"
    if dtype.kind != "f":
        return f"np.{in_memory(dtype)}({int(value)})"
    number = float(value)
    text = repr(number) if np.isfinite(number) else f"math.{number}".replace("-", "")
    if not np.isfinite(number) and number < 0:
        text = f"-{text}"
    return text if dtype == np.float64 else f"np.{_computed(dtype)}({text})"


def namespace(routines: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The names that the source uses, for compiling it with Numba on the CPU.

    ``routines`` are the addresses of the library routines that are called.
    """
    called = {name: emit_names.routine(name, at) for name, at in (routines or {}).items()}
    return {"np": np, "math": math, **emit_names.names(), **called}
