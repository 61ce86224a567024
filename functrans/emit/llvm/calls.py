"""Function outlining: values that are rarely needed, or in many statements, are computed by calls.

Functions of the same operands that one statement needs (`tanh` and its derivative) are one function
of several results, which share operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from functrans.caches import cached
from functrans.emit.llvm.memory import Memory
from functrans.emit.llvm.text import Part, Value, Writer, register_type
from functrans.loop.functions import Function
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, Let, Statement, Store
from functrans.loop.walk import expressions

_WORTH_A_CALL = 24
"""A function is defined for rarely needed values of at least this many operations."""


class Calls(Memory):
    """Emits calls, and loads."""

    def __init__(
        self,
        writer: Writer,
        buffers: dict[Buffer, str],
        changing: set[Buffer],
        called: set[Function],
    ) -> None:
        super().__init__(writer, buffers, changing)
        self.called = called
        self.together: dict[tuple[Scalar, ...], list[Scalar]] = {}
        """Applications of called functions in the statements at hand, by operands."""

    def lookup(self, node: Scalar, base: bool) -> Value | None:
        """The value of an expression, if it is known."""
        raise NotImplementedError

    @staticmethod
    def of_parameters(writer: Writer, lanes: int) -> Calls:
        """For expressions of a function's parameters alone."""
        raise NotImplementedError

    @contextmanager
    def at_hand(self, statements: Iterable[Statement]) -> Any:
        """The inside of a block: its functions of the same operands are called together."""
        before, self.together = self.together, {}
        if self.called:
            simple = [each for each in statements if isinstance(each, (Let, Store))]
            for node in postorder([x for each in simple for x in expressions(each)]):
                if node.op == "apply" and node.attribute in self.called:
                    self.together.setdefault(node.args, []).append(node)
        yield
        self.together = before

    def rarely(self, node: Scalar, base: bool) -> Value:
        """A rarely needed value: a function call, if computing it takes many operations.

        The function is shared by all expressions of this form in the kernel. Otherwise, a kernel
        with a hundred sines would contain their argument reduction a hundred times.
        """
        if node.op == "apply" and not node.attribute.instruction:
            return self._call_of(node.attribute.result, node.args, base, "rare")
        arguments, form = self._form(node, base)
        if form is None or self.mask is not None:
            return self.value(node, base)
        return self._call_of(form, arguments, base, "rare")

    def call(self, node: Scalar, base: bool) -> Value:
        """A function of which the kernel has many, as a call.

        Functions of the same operands are called together: they share operations.
        """
        nodes = [x for x in self.together.get(node.args, ()) if self.lookup(x, base) is None]
        nodes = nodes if node in nodes else [node]
        forms = tuple(x.attribute.result for x in nodes)
        values = dict(zip(nodes, self._calls_of(forms, node.args, base, "often"), strict=True))
        for other, value in values.items():
            self.remember(other, base, value)
        return values[node]

    def _call_of(self, form: Scalar, arguments: Sequence[Scalar], base: bool, kind: str) -> Value:
        """A call of the module's function for a form."""
        return self._calls_of((form,), arguments, base, kind)[0]

    def _calls_of(
        self, forms: tuple[Scalar, ...], arguments: Sequence[Scalar], base: bool, kind: str
    ) -> list[Value]:
        """The results of the module's function for some forms of the same parameters."""
        values = [self.value(x, base) for x in arguments]
        lanes = max((value.lanes for value in values), default=1)
        values = [
            self.operations.spread(value, x.dtype, lanes)
            for value, x in zip(values, arguments, strict=True)
        ]
        kinds = [register_type(x.dtype, lanes) for x in arguments]
        name = self.writer.functions.get((forms, lanes))
        if name is None:
            name = self._function(forms, kinds, lanes, kind)
        given = ", ".join(f"{kind} {v.ref}" for kind, v in zip(kinds, values, strict=True))
        define, result = self.writer.define, _result_type(forms, lanes)
        called = define(f"call {result} @{name}({given})")
        if len(forms) == 1:
            return [Value(called, lanes)]
        return [
            Value(define(f"extractvalue {result} {called}, {i}"), lanes) for i in range(len(forms))
        ]

    def _form(self, node: Scalar, base: bool) -> tuple[list[Scalar], Scalar | None]:
        """The known values in an expression, and its form: the expression with parameters for them.

        The form is None if the expression is short or reads memory.
        """
        arguments: dict[Scalar, Scalar] = {}
        forms: dict[Scalar, Scalar] = {}
        stack = [node]
        while stack:
            top = stack[-1]
            missing = []
            if top.op == "const":
                forms[top] = top
            elif self.lookup(top, base) is not None:
                parameter = Scalar("parameter", (), top.dtype, len(arguments))
                forms[top] = arguments.setdefault(top, parameter)
            elif not top.args:
                return [], None
            else:
                missing = [x for x in top.args if x not in forms]
            if missing:
                stack += missing
                continue
            stack.pop()
            if top not in forms:
                args = tuple(forms[x] for x in top.args)
                forms[top] = Scalar(top.op, args, top.dtype, top.attribute)
        computed = len(forms) - len(arguments)
        return list(arguments), forms[node] if computed >= _WORTH_A_CALL else None

    def _function(self, forms: tuple[Scalar, ...], kinds: list[str], lanes: int, kind: str) -> str:
        """Define the module's function that computes some forms; returns its name."""
        writer = self.writer
        name = f"{kind}{len(writer.functions)}"
        writer.functions[forms, lanes] = name
        alone = _alone(forms, lanes, writer.instructions, self.of_parameters)
        lines = (
            writer.take(alone)
            if alone
            else _lines_of(forms, lanes, writer.for_function(), self.of_parameters)
        )
        parameters = ", ".join(f"{kind} %p{i}" for i, kind in enumerate(kinds))
        hint = "cold " if kind == "rare" else ""
        result = _result_type(forms, lanes)
        head = f"define internal {result} @{name}({parameters}) noinline {hint}nounwind {{"
        writer.texts.append(f"{head}\n{lines}\n}}")
        return name


OfParameters = Callable[[Writer, int], Calls]


def _result_type(forms: tuple[Scalar, ...], lanes: int) -> str:
    """The type of the result of a function: several are the members of a structure."""
    kinds = [register_type(form.dtype, lanes) for form in forms]
    return kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}"


def _lines_of(
    forms: tuple[Scalar, ...], lanes: int, writer: Writer, of_parameters: OfParameters
) -> str:
    """The lines of a function that computes some forms of its parameters."""
    inner = of_parameters(writer, lanes)
    spread = inner.operations.spread
    values = [spread(inner.value(form), form.dtype, lanes).ref for form in forms]
    result, (last, *_) = _result_type(forms, lanes), values
    if len(forms) > 1:
        last = "poison"
        for i, (form, value) in enumerate(zip(forms, values, strict=True)):
            kind = register_type(form.dtype, lanes)
            last = writer.define(f"insertvalue {result} {last}, {kind} {value}, {i}")
    end = f"  ret {result} {last}"
    return "\n".join(["entry:", *writer.allocas, *writer.lines, end])


@cached(256)
def _alone(
    forms: tuple[Scalar, ...], lanes: int, instructions: frozenset[str], of_parameters: OfParameters
) -> Part | None:
    """A function in a module of its own; None if it calls others.

    The argument reduction of a sine is the same in each kernel, and long.
    """
    writer = Writer(instructions)
    lines = _lines_of(forms, lanes, writer, of_parameters)
    return None if writer.functions else Part(lines, writer.globals, writer.declarations)
