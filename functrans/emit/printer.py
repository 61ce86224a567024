"""Pretty-printing of the loop language as Python source: the common base of the printers for Numba.

The printed code is simple: one element after another, no vectors. An expression that is long, or is
used several times, is assigned to a variable of its own. It is computed again once memory or locals
that it reads may have changed (common subexpression elimination, in the scope of a block).

Numba has no arithmetic of half floats. They are uint16 in memory, and in expressions float32
numbers that are rounded to half floats after each operation, which is how a CPU computes with them.
bfloat16 numbers are uint16 throughout, because they are only moved.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrans.ir.types import is_bfloat16
from functrans.loop.contraction import SHORTEST
from functrans.loop.functions import expanded
from functrans.loop.nodes import INDEX, identity
from functrans.loop.scalar import BOOL, Scalar, postorder
from functrans.loop.statements import (
    Assign,
    Await,
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Kernel,
    Let,
    MatrixMultiply,
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
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_NATURAL = (np.dtype(np.float64), INDEX, BOOL)
"""The types of Numba's float and int expressions: only other types must be written out."""

LONGEST = 60
"""An expression of at least this many characters is assigned to a variable."""


class Printer:
    """Prints the statements of a kernel."""

    root: str
    """A template of the square root of a number, defined by each printer."""
    ratio = "({} / {})"
    """A template of a quotient that is promised to be ordinary (`functrans.loop.scalar.ratio`)."""

    def __init__(
        self,
        kernel: Kernel,
        taken: Iterable[str],  # names that no variable may have, besides Python's keywords
    ) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Any, str] = {}
        self.scopes: list[dict[Scalar, str]] = [{}]
        self.taken = {*keyword.kwlist, "flag", "np", "math", "range", *taken}
        self.taken |= {f"n{slot}" for slot in range(kernel.sizes)}
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
            self.names[buffer] = self.unique(buffer.name)

    # -- defined by each printer ----------------------------------------------------------------

    def read(self, place: str, dtype: np.dtype[Any]) -> str:
        """An element of memory, as an operand of expressions."""
        return f"half({place})" if dtype == HALF else place

    def to_memory(self, value: str, dtype: np.dtype[Any]) -> str:
        """A number, converted to its representation in memory."""
        return half_bits(value) if dtype == HALF else value

    def place(self, one: Buffer, indices: Sequence[str]) -> str:
        """An element as the target of an assignment."""
        return f"{self.names[one]}[{', '.join(indices) or '()'}]"

    def place_of(self, one: Buffer, indices: Sequence[str]) -> str:
        """An element as an operand."""
        return self.place(one, indices)

    def reduction(self, statement: Reduce) -> None:
        """Print a reduction."""
        raise NotImplementedError

    def call(self, statement: Call) -> None:
        """Print the call of a library routine."""
        raise NotImplementedError

    def atomic(self, op: str, target: Buffer, indices: Sequence[str], value: str) -> None:
        """Print an atomic update of an element."""
        raise NotImplementedError

    def wait(self, statement: Await) -> None:
        """Print that a thread waits for its late stores."""
        raise NotImplementedError

    def multiply(self, statement: MatrixMultiply) -> None:
        """Print a matrix product that the threads of a warp execute together."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Print a barrier of threads."""
        raise NotImplementedError

    # -- text -----------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block below a line; names that are defined in it are known only there."""
        self.line(head)
        self.depth += 1
        self.scopes.append({})
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.scopes.pop()
        self.depth -= 1

    def unique(self, label: str) -> str:
        """A name that is not in use."""
        name = label
        while name in self.taken:
            self.counts[label] = count = self.counts.get(label, 0) + 1
            name = f"{label}_{count}"
        self.taken.add(name)
        return name

    def named(self, node: Scalar) -> str:
        """The name of an index or a local."""
        if node not in self.names:
            self.names[node] = self.unique(node.attribute[0])
        return self.names[node]

    # -- statements -----------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Store():
                self.store(statement)
            case Let() | Assign() if statement.targets:
                values = self.texts(statement.values)
                targets = [self.named(target) for target in statement.targets]
                self.line(f"{', '.join(targets)} = {', '.join(values)}")
                self.forget()
            case For():
                start, stop = self.texts((statement.start, statement.stop))
                self.loop(statement, start, stop)
            case Reduce():
                self.reduction(statement)
            case If():
                (condition,) = self.texts((statement.condition,))
                with self.block(f"if {condition}:"):
                    self.statements(statement.body)
                if statement.otherwise:
                    with self.block("else:"):
                        self.statements(statement.otherwise)
                self.forget()
            case While():
                self.forget()
                with self.block("while True:"):
                    self.statements(statement.prepare)
                    self.leave(statement)
                    self.statements(statement.body)
                self.forget()
            case Call():
                self.call(statement)
            case MatrixMultiply():
                self.multiply(statement)
                self.forget()
            case Barrier():
                self.barrier()
                self.forget()
            case Await():
                self.wait(statement)
                self.forget()

    def store(self, statement: Store) -> None:
        if statement.atomic and statement.op is not None:
            *indices, value = self.texts(expressions(statement))
            self.atomic(statement.op, statement.target, indices, value)
            return
        count = len(statement.indices)
        texts = self.texts([*statement.indices, *_factors(statement.op, statement.value)])
        place = self.place(statement.target, texts[:count])
        dtype = statement.target.dtype
        value = texts[-1]
        if statement.op is not None:
            total = self.read(place, dtype)
            value = self.accumulated(statement.op, dtype, total, texts[count:])
        self.line(f"{place} = {self.to_memory(value, dtype)}")
        self.forget()

    def leave(self, statement: While) -> None:
        """Leave a loop once its condition is false, or something has failed."""
        (condition,) = self.texts((statement.condition,))
        failed = " or flag[0] != 0" if may_fail((statement,)) else ""
        self.line(f"if not {condition}{failed}:")
        self.line("    break")

    def forget(self) -> None:
        """Forget values that depend on memory or locals that may have changed."""
        for scope in self.scopes:
            for node in [node for node in scope if self._is_changing(node)]:
                del scope[node]

    def _is_changing(self, node: Scalar) -> bool:
        """Whether an expression may change its value within an iteration of its loops."""
        for each in postorder([node], known=self.changing):
            self.changing[each] = (
                each.op == "load" and each.attribute in self.changing_memory
            ) or any(self.changing[arg] for arg in each.args)
        return self.changing[node]

    def loop(self, statement: For, start: str, stop: str) -> None:
        with self.counting(self.named(statement.index), start, stop):
            self.statements(statement.body)
        self.forget()

    @contextmanager
    def counting(self, name: str, start: str, stop: str, step: str = "1") -> Iterator[None]:
        """A counting loop; values that change in it are forgotten at its start."""
        self.forget()
        bounds = stop if start == "0" and step == "1" else f"{start}, {stop}"
        with self.block(f"for {name} in range({bounds}{f', {step}' if step != '1' else ''}):"):
            yield

    def start_of_sums(self, statement: Reduce, targets: Iterable[str]) -> None:
        """The initial values of a reduction's accumulators."""
        for name, op, target in zip(targets, statement.ops, statement.targets, strict=True):
            self.line(f"{name} = {number(identity(op, target.dtype), target.dtype)}")

    def terms(self, statement: Reduce, targets: Iterable[str]) -> None:
        """Combine one term with each of several accumulators."""
        self.statements(statement.body)
        factors = list(map(_factors, statement.ops, statement.values))
        texts = iter(self.texts([x for each in factors for x in each]))
        for name, op, target, each in zip(
            targets, statement.ops, statement.targets, factors, strict=True
        ):
            term = [next(texts) for _ in each]
            self.line(f"{name} = {self.accumulated(op, target.dtype, name, term)}")

    def accumulated(self, op: str, dtype: np.dtype[Any], total: str, term: Sequence[str]) -> str:
        """An accumulator combined with a term: if it has two factors, by a fused multiply-add."""
        if len(term) == 2:
            return _typed(f"fma({', '.join(term)}, {total})", dtype)
        return self.combined(op, dtype, total, *term)

    def combined(self, op: str, dtype: np.dtype[Any], x: str, y: str) -> str:
        return _combined(op, dtype, dtype, x, y)

    # -- expressions ----------------------------------------------------------------------------

    def texts(self, roots: Sequence[Scalar]) -> list[str]:
        """Expressions; long or repeated subexpressions are assigned to variables before."""
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
            return self.leaf(node)
        text = self._operation(node, args)
        if (uses.get(node, 0) > 1 or len(text) > LONGEST) and node.op != "index":
            name = self.unique("v")
            self.line(f"{name} = {text}")
            self.scopes[-1][node] = text = name
        return text

    def _choice(self, node: Scalar, condition: str, uses: dict[Scalar, int]) -> str:
        """A conditional expression, of which only the selected value is computed."""
        name = self.unique("v")
        with self.block(f"if {condition}:"):
            self.line(f"{name} = {self._visit(node.args[1], uses)}")
        with self.block("else:"):
            self.line(f"{name} = {self._visit(node.args[2], uses)}")
        self.scopes[-1][node] = name
        return name

    def leaf(self, node: Scalar) -> str:
        """An expression without operands."""
        match node.op:
            case "const":
                return number(node.attribute, node.dtype)
            case "zero":
                return number(0, node.dtype)
            case "size":
                return f"n{node.attribute}"
            case "load":
                return self.read(self.place_of(node.attribute, ()), node.dtype)
        return self.named(node)

    def _operation(self, node: Scalar, args: list[str]) -> str:
        match node.op:
            case "load":
                return self.read(self.place_of(node.attribute, args), node.dtype)
            case "convert":
                return _converted(node.args[0].dtype, node.dtype, args[0])
            case "bitcast":
                if node.dtype == HALF:
                    return f"half(np.uint16({args[0]}))"
                bits = half_bits(args[0]) if node.args[0].dtype == HALF else args[0]
                return f"bits_as_{in_memory(node.dtype)}({bits})"
            case "lookup":
                table = ", ".join(number(x, node.dtype) for x in node.attribute)
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
            case "sqrt":
                return _typed(self.root.format(*args), node.dtype)
            case "div" if node.attribute and node.dtype == SINGLE:
                return self.ratio.format(*args)
        if len(args) == 2:
            return _combined(node.op, node.args[0].dtype, node.dtype, *args)
        return _typed(f"{node.op}({', '.join(args)})", node.dtype)


def _factors(op: str | None, value: Scalar) -> tuple[Scalar, ...]:
    """The factors of a term that is added to an accumulator, if a fused multiply-add is allowed.

    (Elsewhere, the result of each operation is rounded: `functrans.loop.contraction`.)
    """
    is_product = op == "add" and value.op == "mul" and value.dtype.kind == "f"
    return value.args if is_product and value.dtype.itemsize >= SHORTEST else (value,)


def _combined(op: str, dtype: np.dtype[Any], result: np.dtype[Any], x: str, y: str) -> str:
    text = _binary(op, dtype, x, y)
    # Numba's arithmetic on two float32 numbers gives float32, too
    return text if result == np.float32 and op in _INFIX else _typed(text, result)


def _binary(op: str, dtype: np.dtype[Any], x: str, y: str) -> str:
    infix = (_INFIX | _BOOL_INFIX if dtype == BOOL else _INFIX).get(op)
    if infix is None:
        # of zeros with different signs, NumPy gives the second, but for half floats the first
        first = dtype == HALF and op in ("min", "max")
        return f"{'half_' if first else ''}{op}({x}, {y})"
    return f"({x} {infix} {y})"


def _converted(source: np.dtype[Any], dtype: np.dtype[Any], x: str) -> str:
    if dtype == BOOL:
        return f"({x} != {number(0, source)})"
    if dtype == HALF:
        return f"half_of_double({x})" if source == np.float64 else _typed(f"np.float32({x})", dtype)
    if source.kind == "f" and dtype.kind in "iu":
        # like C; the machine has no other instructions
        machine = np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else INDEX)
        if dtype == np.uint64:
            return f"as_uint64({x})"
        x = f"as_{machine}({x})"
        return x if dtype == machine else f"np.{dtype}({x})"
    return f"np.{dtype}({x})"


def half_bits(x: str) -> str:
    """The bits of a half float; if it was converted from bits, these."""
    found = _OF_BITS.fullmatch(x)
    return found[1] if found is not None else f"half_bits({x})"


_OF_BITS = re.compile(r"half\(((?:np\.uint16\()?[\w.]+\)?)\)")
"""A half float that is converted from a name, and may be converted back."""


def in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of arrays that hold elements of a dtype."""
    return np.dtype(np.uint16) if dtype == HALF or is_bfloat16(dtype) else dtype


def computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of variables that hold elements of a dtype."""
    return np.dtype(np.float32) if dtype == HALF else in_memory(dtype)


def _typed(text: str, dtype: np.dtype[Any]) -> str:
    if dtype == HALF:
        return f"as_half({text})"
    return text if dtype in _NATURAL else f"np.{dtype}({text})"


def written_tuple(texts: Iterable[str]) -> str:
    elements = list(texts)
    return f"({', '.join(elements)}{',' if len(elements) == 1 else ''})"


def number(value: Any, dtype: np.dtype[Any]) -> str:
    if dtype == BOOL:
        return str(bool(value))
    if dtype == INDEX:
        # the least integer has no literal: it is the negative of a number that is out of range
        return str(int(value)) if value > np.iinfo(INDEX).min else f"(np.int64({value + 1}) - 1)"
    if dtype.kind != "f":
        return f"np.{in_memory(dtype)}({int(value)})"
    value = float(value)
    text = repr(value) if np.isfinite(value) else f"math.{value}".replace("-", "")
    if not np.isfinite(value) and value < 0:
        text = f"-{text}"
    return text if dtype == np.float64 else f"np.{computed(dtype)}({text})"
