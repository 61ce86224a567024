"""A one-pass compiler from the source text of kernels, a subset of Python, to LLVM IR.

Kernels are statically typed: the type of an expression follows from its operands, and a variable
has the type of the value that is first assigned to it. So a single walk over the syntax tree
generates LLVM IR. Syntax that is never printed is refused. (Numba's front end, which accepts much
more of Python, makes some thirty passes over its bytecode, which took most of the compile time.)
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrans.emit.cuda.arithmetic import (
    CASTS,
    NotDefined,
    Value,
    absolute,
    binary,
    compared,
    converted,
    unary,
)
from functrans.emit.cuda.names import FLOATS, TABLE
from functrans.emit.cuda.site import GLOBAL, Site
from functrans.parsing import parsed
from functrans.records import NamedTuple

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
"""The data layout that NVVM's specification demands."""


class Slot(NamedTuple):
    """A variable with several assignments: a stack slot, which NVVM promotes to a register."""

    kind: str
    place: Any


def translated(
    source: str,  # the definition of one function
    signature: Sequence[str],  # the types of its arguments, as in `functrans.emit.cuda.site`
    version: Sequence[int],  # the version of NVVM IR
    threads: int | None = None,  # the most threads that a block will have
    # with `threads`: the number of such blocks for which a multiprocessor must have registers
    blocks: int = 1,
) -> str:
    """The LLVM IR of a kernel, as NVVM accepts it.

    Raises `TypeError` if an operation does not take operands of such types. Raises `SyntaxError` if
    the text contains syntax that is never printed.
    """
    (definition,) = parsed(source)
    assert isinstance(definition, ast.FunctionDef)
    about = {"kernel": 1}
    if threads is not None:
        about |= {"maxntidx": threads} | ({"minctasm": blocks} if blocks > 1 else {})
    return _Translation(definition, signature).module(version, about)


class _Translation:
    def __init__(self, definition: ast.FunctionDef, signature: Sequence[str]) -> None:
        from llvmlite import ir

        self.ir = ir
        self.definition = definition
        module = ir.Module(definition.name)
        module.triple, module.data_layout = TRIPLE, LAYOUT
        shape = ir.FunctionType(ir.VoidType(), [self._type(kind) for kind in signature])
        self.function = ir.Function(module, shape, definition.name)
        names = [each.arg for each in definition.args.args]
        arguments = map(Value, signature, self.function.args)
        self.scopes: list[dict[str, Value]] = [dict(zip(names, arguments, strict=True))]
        """The variables with a single assignment, by scope, innermost last."""
        stored = (
            each.id
            for each in ast.walk(definition)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )
        self.several = {name for name, count in Counter([*names, *stored]).items() if count > 1}
        self.slots: dict[str, Slot] = {}
        self.ends: list[Any] = []  # the exit blocks of the enclosing loops
        self.entry = self.function.append_basic_block("entry")
        self.build = ir.IRBuilder(self.function.append_basic_block("body"))

    def module(self, version: Sequence[int], about: Mapping[str, int]) -> str:
        for name in self.several & {*self.scopes[0]}:
            self._set(name, self.scopes[0][name])
        self.statements(self.definition.body)
        self.build.ret_void()
        self.ir.IRBuilder(self.entry).branch(self.function.basic_blocks[1])
        module, word = self.function.module, self.ir.IntType(32)
        for name, number in about.items():
            fact = [self.function, self.ir.MetaDataString(module, name), word(number)]
            module.add_named_metadata("nvvm.annotations", module.add_metadata(fact))
        numbers = module.add_metadata([word(number) for number in version])
        module.add_named_metadata("nvvmir.version", numbers)
        self._keep()
        return str(module)

    def _keep(self) -> None:
        """Mark the function as used; a linker would remove it, since nothing calls it."""
        address = self.ir.IntType(8).as_pointer()
        kept = self.ir.ArrayType(address, 1)
        used = self.ir.GlobalVariable(self.function.module, kept, "llvm.used")
        used.linkage, used.section = "appending", "llvm.metadata"
        used.initializer = self.ir.Constant(kept, [self.function.bitcast(address)])

    def _type(self, kind: str) -> Any:
        return Site(None, None, (), kind).type(kind)

    # -- statements -----------------------------------------------------------------------------

    def statements(self, statements: Sequence[ast.stmt]) -> None:
        for each in statements:
            self.statement(each)

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                self._assign(targets, [self.value(each) for each in values])
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Call(func=ast.Name(id=name), args=arguments),
            ):
                kinds, values = self._call(name, arguments)
                kind, _, _ = kinds.partition(" x ")
                self._assign(targets, [Value(kind, each) for each in values])
            case ast.Assign(targets=[target], value=value):
                self._assign([target], [self.value(value)])
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments)):
                self._call(name, arguments)
            case ast.If(test=test, body=body, orelse=otherwise):
                self._if(self.truth(test), body, otherwise)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=bounds), body=body):
                self._for(name, [self.value(each) for each in bounds], body)
            case ast.While(test=ast.Constant(value=True), body=body):
                self._while(body)
            case ast.Break():
                self.build.branch(self.ends[-1])
            case ast.Pass():
                pass
            case _:
                raise _refused(statement)

    def _assign(self, targets: Sequence[ast.expr], values: Sequence[Value]) -> None:
        for target, value in zip(targets, values, strict=True):
            match target:
                case ast.Name(id=name):
                    self._set(name, value)
                case ast.Subscript(value=base, slice=position):
                    kind, place = self._element(self.value(base), self.value(position))
                    _same(ast.unparse(target), kind, value.kind)
                    self.build.store(value.llvm, place)
                case _:
                    raise _refused(target)

    def _set(self, name: str, value: Value) -> None:
        if name not in self.several:
            self.scopes[-1][name] = value
            return
        if name not in self.slots:
            with self.build.goto_block(self.entry):
                self.slots[name] = Slot(value.kind, self.build.alloca(value.llvm.type, name=name))
        kind, place = self.slots[name]
        _same(name, kind, value.kind)
        self.build.store(value.llvm, place)

    def _if(self, condition: Any, body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> None:
        if not otherwise:
            with self.build.if_then(condition):
                self._inside(body)
            return
        with self.build.if_else(condition) as (then, orelse):
            with then:
                self._inside(body)
            with orelse:
                self._inside(otherwise)

    def _inside(self, body: Sequence[ast.stmt]) -> None:
        self.scopes.append({})
        self.statements(body)
        self.scopes.pop()

    def _for(self, name: str, bounds: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        """A counting loop with a positive step."""
        zero, one = (Value("int64", self.ir.IntType(64)(number)) for number in (0, 1))
        start, stop, step = (zero, *bounds, one) if len(bounds) == 1 else (*bounds, one)[:3]
        for each in (start, stop, step):
            _same(f"a bound of {name}", each.kind, "int64")
        build, before = self.build, self.build.block
        head = build.append_basic_block("head")
        build.branch(head)
        build.position_at_end(head)
        counter = build.phi(start.llvm.type)
        counter.add_incoming(start.llvm, before)
        with self._loop() as end:
            inside = build.append_basic_block("inside")
            build.cbranch(build.icmp_signed("<", counter, stop.llvm), inside, end)
            build.position_at_end(inside)
            self._set(name, Value("int64", counter))
            self.statements(body)
            # (the counter has not reached its end, so that incrementing it does not overflow)
            counter.add_incoming(build.add(counter, step.llvm, flags=["nsw"]), build.block)
            build.branch(head)

    def _while(self, body: Sequence[ast.stmt]) -> None:
        inside = self.build.append_basic_block("inside")
        self.build.branch(inside)
        self.build.position_at_end(inside)
        with self._loop():
            self.statements(body)
            self.build.branch(inside)

    @contextmanager
    def _loop(self) -> Iterator[Any]:
        """A loop around the code generated inside; afterwards, code goes to its exit block."""
        end = self.build.append_basic_block("end")
        self.ends.append(end)
        self.scopes.append({})
        yield end
        self.scopes.pop()
        self.ends.pop()
        self.build.position_at_end(end)

    # -- expressions ----------------------------------------------------------------------------

    def truth(self, node: ast.expr) -> Any:
        """An expression as a condition."""
        value = self.value(node)
        _same(ast.unparse(node), value.kind, "bool")
        return value.llvm

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        literal = _literal(node)
        if literal is not None:
            kind = {bool: "bool", int: "int64", float: "float64"}[type(literal)]
            return Value(kind, self._type(kind)(literal))
        try:
            return self._value(node)
        except NotDefined:
            operands = (self.value(each) for each in _operands(node))
            kinds = ", ".join(each.kind for each in operands)
            raise TypeError(f"{ast.unparse(node)} is not defined for {kinds}") from None

    def _value(self, node: ast.expr) -> Value:
        build = self.build
        match node:
            case ast.Name(id=name):
                return self._variable(name)
            case ast.Subscript(value=ast.Tuple(elts=numbers), slice=position):
                return self._looked_up([self.value(each) for each in numbers], self.value(position))
            case ast.Subscript(value=base, slice=position):
                kind, place = self._element(self.value(base), self.value(position))
                return Value(kind, build.load(place))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=kind), args=[operand]):
                return self._cast(operand, kind)
            case ast.Call(func=ast.Name(id="abs"), args=[operand]):
                return absolute(build, self.value(operand))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return Value(*self._call(name, arguments))
            case ast.BinOp(left=left, op=op, right=right):
                return binary(build, op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[order], comparators=[right]):
                return compared(build, order, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Value("bool", build.not_(self.truth(operand)))
            case ast.UnaryOp(op=sign, operand=operand):
                return unary(build, sign, self.value(operand))
            case ast.BoolOp(op=ast.Or(), values=[left, right]):
                return Value("bool", build.or_(self.truth(left), self.truth(right)))
        raise _refused(node)

    def _variable(self, name: str) -> Value:
        if name in self.slots:
            kind, place = self.slots[name]
            return Value(kind, self.build.load(place))
        for scope in self.scopes[::-1]:
            if name in scope:
                return scope[name]
        raise NameError(f"{name} is not known here")

    def _element(self, base: Value, position: Value) -> tuple[str, Any]:
        """The type and the address of an element."""
        if not base.kind.endswith("*"):
            raise TypeError(f"a number of {base.kind} has no elements")
        at = converted(self.build, position, "int64")
        return base.kind[:-1], self.build.gep(base.llvm, [at.llvm])

    def _looked_up(self, numbers: Sequence[Value], position: Value) -> Value:
        """An element of a constant table in memory."""
        kind = numbers[0].kind
        for each in numbers:
            _same("a number of a table", each.kind, kind)
        module = self.function.module
        space = self.ir.ArrayType(self._type(kind), len(numbers))
        name = module.get_unique_name("table")
        table = self.ir.GlobalVariable(module, space, name, addrspace=GLOBAL)
        table.linkage, table.global_constant = "internal", True
        table.initializer = space([each.llvm for each in numbers])
        at = converted(self.build, position, "int64").llvm
        return Value(kind, self.build.load(self.build.gep(table, [at.type(0), at])))

    def _cast(self, operand: ast.expr, kind: str) -> Value:
        literal = _literal(operand)
        if kind not in CASTS or (isinstance(literal, float) and kind not in FLOATS):
            raise NotDefined
        if isinstance(operand, ast.BinOp):
            sides = self.value(operand.left), self.value(operand.right)
            return converted(self.build, binary(self.build, operand.op, *sides, kind), kind)
        if literal is None:
            return converted(self.build, self.value(operand), kind)
        if kind in FLOATS:  # rounded once, as by NumPy
            return Value(kind, self._type(kind)(float(np.dtype(kind).type(literal))))
        return Value(kind, self._type(kind)(int(literal)))

    def _call(self, name: str, arguments: Sequence[ast.expr]) -> tuple[str, Any]:
        """A call of a device function: the type of its result, and the result."""
        entry = TABLE.get(name)
        if entry is None:
            raise NameError(f"{name} is not known here")
        values: list[Value] = []
        if entry.literal:
            operands = tuple(getattr(each, "value", None) for each in arguments)
        else:
            values = [self.value(each) for each in arguments]
            operands = tuple(each.kind for each in values)
        result = entry.rule(*operands)
        if result is None:
            raise TypeError(f"{name}({', '.join(map(str, operands))}) is not defined")
        site = Site(None, self.build, operands, result, self.entry)
        return result, entry.code(site, *(each.llvm for each in values))


def _literal(node: ast.expr) -> Any:
    """The value of a literal expression."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Attribute(value=ast.Name(id="math"), attr="inf" | "nan" as name):
            return getattr(math, name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _literal(operand)
            return None if value is None or isinstance(value, bool) else -value
    return None


def _operands(node: ast.expr) -> Sequence[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _same(what: str, kind: str, expected: str) -> None:
    if kind != expected:
        raise TypeError(f"{what} is of {kind}, and not of {expected}")


def _refused(node: ast.AST) -> SyntaxError:
    return SyntaxError(f"kernels have no such {type(node).__name__}: {ast.unparse(node)}")
