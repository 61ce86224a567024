"""Pretty-printer of kernels, for error messages and readers.

Expressions that are long, or used several times, are assigned to names on lines of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import (
    Address,
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
from functrans.loop.walk import expressions

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "idiv": "//", "irem": "%", "and": "&",
    "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
}  # fmt: skip

_LONGEST = 70


def text(kernel: Kernel) -> str:
    """A kernel, statement by statement."""
    printer = Printer()

    def typed(one: Buffer) -> str:
        return f"{one}: {one.dtype}[{', '.join(map(printer.expression, one.shape))}]"

    lines = [f"kernel({', '.join(map(typed, kernel.buffers))}; {kernel.sizes} sizes)"]
    lines[0] += "  # narrow" if kernel.narrow else ""
    kinds = dict.fromkeys(kernel.private, "private") | dict.fromkeys(kernel.dealt, "dealt")
    kinds |= dict.fromkeys(kernel.long, "long")
    lines += [f"  {kinds.get(row, 'scratch')} {typed(row)}" for row in kernel.scratch]
    lines += printer.statements(kernel.body, 1)
    return "\n".join(lines)


class Printer:
    """Prints statements; the first node with a label gets no number."""

    def __init__(self) -> None:
        self.named = 0
        self._names: dict[Scalar, str] = {}
        self._labels: Counter[str] = Counter()

    def leaf(self, node: Scalar) -> str:
        """A node without operands."""
        match node.op:
            case "const":
                return repr(node.attribute)
            case "zero":
                return "zero"
            case "size":
                return f"n{node.attribute}"
            case "index" | "local":
                return self._name(node)
        return node.op if node.attribute is None else f"{node.op}:{node.attribute}"

    def _name(self, node: Scalar) -> str:
        if node not in self._names:
            label = node.attribute[0]
            self._names[node] = f"{label}{self._labels[label] or ''}"
            self._labels[label] += 1
        return self._names[node]

    def statements(self, body: Sequence[Statement], depth: int) -> Iterator[str]:
        for statement in body:
            before, words = self._written(expressions(statement))
            for line in before:
                yield "  " * depth + line
            yield from self._statement(statement, words, depth)

    def _statement(self, statement: Statement, words: list[str], depth: int) -> Iterator[str]:
        indent = "  " * depth
        match statement:
            case Store():
                *position, value = words
                sign = "=" if statement.op is None else f"{statement.op}="
                note = "".join(f"  # {x}" for x in ("atomic", "late") if getattr(statement, x))
                yield f"{indent}{statement.target}[{', '.join(position)}] {sign} {value}{note}"
            case Let() | Assign():
                word = "let" if isinstance(statement, Let) else "set"
                targets = ", ".join(map(self.leaf, statement.targets))
                yield f"{indent}{word} {targets} = {', '.join(words)}"
            case For():
                kinds = ("parallel", "repeatable", "whole")
                marks = [kind for kind in kinds if getattr(statement, kind)]
                marks += _dealing(statement)
                note = f"  # {', '.join(marks)}" if marks else ""
                yield f"{indent}for {self.leaf(statement.index)} in {words[0]}:{words[1]}{note}"
                yield from self.statements(statement.body, depth + 1)
            case Reduce():
                yield from self._reduce(statement, words, depth)
            case If():
                yield f"{indent}if {words[0]}"
                yield from self.statements(statement.body, depth + 1)
                yield f"{indent}else"
                yield from self.statements(statement.otherwise, depth + 1)
            case While():
                yield f"{indent}repeat"
                yield from self.statements(statement.prepare, depth + 1)
                yield f"{indent}while {words[0]}"
                yield from self.statements(statement.body, depth + 1)
            case Call():
                yield f"{indent}call {statement.symbol}({', '.join(_arguments(statement, words))})"
            case MatrixMultiply():
                sums, left, right = _corners(statement, words)
                yield f"{indent}{sums} += {left} @ {right}  # by a warp"
            case Barrier():
                yield f"{indent}barrier"
            case Await():
                yield f"{indent}await all but {statement.behind}"

    def _reduce(self, statement: Reduce, words: list[str], depth: int) -> Iterator[str]:
        bounds, values = words[: 2 * len(statement.loops)], words[2 * len(statement.loops) :]
        loops = [
            f"{self.leaf(index)} in {bounds[2 * i]}:{bounds[2 * i + 1]}"
            for i, (index, *_) in enumerate(statement.loops)
        ]
        marks = ["repeatable"] * statement.repeatable + _dealing(statement)
        note = f"  # {', '.join(marks)}" if marks else ""
        yield f"{'  ' * depth}fold {', '.join(loops)}{note}"
        yield from self.statements(statement.body, depth + 1)
        for target, op, value in zip(statement.targets, statement.ops, values, strict=True):
            yield f"{'  ' * (depth + 1)}{self.leaf(target)} {op}= {value}"

    def expression(self, root: Scalar) -> str:
        """An expression on one line."""
        words: dict[Scalar, str] = {}
        for node in postorder([root]):
            words[node] = self._operation(node, [words[arg] for arg in node.args])
        return words[root]

    def _written(self, roots: Sequence[Scalar]) -> tuple[list[str], list[str]]:
        """Lines that name subexpressions, and the expressions."""
        nodes = postorder(roots)
        uses = Counter(arg for node in nodes for arg in node.args)
        uses.update(roots)
        lines: list[str] = []
        words: dict[Scalar, str] = {}
        for node in nodes:
            word = self._operation(node, [words[arg] for arg in node.args])
            if node.args and (uses[node] > 1 or len(word) > _LONGEST):
                self.named += 1
                lines.append(f"v{self.named} = {word}")
                word = f"v{self.named}"
            words[node] = word
        return lines, [words[root] for root in roots]

    def _operation(self, node: Scalar, args: list[str]) -> str:
        if node.op == "load":
            return f"{node.attribute}[{', '.join(args)}]"
        if node.op == "fold":
            op, indices = node.attribute
            over = [f"{self.leaf(i)} in {n}" for i, n in zip(indices, args[1:], strict=True)]
            return f"{op} of {args[0]} over {', '.join(over)}"
        if node.op == "apply":
            return f"{node.attribute.name}({', '.join(args)})"
        if not args:
            return self.leaf(node)
        if node.op in _INFIX:
            return f"({f' {_INFIX[node.op]} '.join(args)})"
        name = str(node.dtype) if node.op == "convert" else node.op
        return f"{name}({', '.join(args)})"


def _dealing(statement: For | Reduce) -> list[str]:
    marks = [f"{statement.lanes} lanes"] if statement.lanes > 1 else []
    marks += [f"{statement.rounds} rounds"] * (statement.rounds > 0)
    return marks + [f"fetches {statement.ahead} ahead"] * (statement.ahead > 0)


def _corners(statement: MatrixMultiply, words: list[str]) -> Iterator[str]:
    """The operands of a product: first elements, numbers of rows, and row distances."""
    rest = iter(words)

    def at(one: Address) -> str:
        return f"{one.target}[{', '.join(next(rest) for _ in one.indices)}]"

    yield f"&{at(statement.sums)}"
    for panel, sign in ((statement.left, ""), (statement.right, ".T")):
        strides = f"{panel.apart}, {panel.terms_apart}"
        yield f"(&{at(panel.corner)}: {panel.rows} rows by {strides}){sign}"


def _arguments(call: Call, words: list[str]) -> Iterator[str]:
    rest = iter(words)
    for argument in call.arguments:
        if isinstance(argument, Address):
            position = ", ".join(next(rest) for _ in argument.indices)
            yield f"&{argument.target}[{position}]"
        else:
            yield argument.decode("ascii") if isinstance(argument, bytes) else next(rest)
