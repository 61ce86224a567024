"""Asynchronous copies: late stores of elements in memory, and waiting for them.

They use `cp.async` of NVIDIA's PTX ("Data Movement and Conversion Instructions: Asynchronous
copy"), for compute capability 8.0 and later: 4, 8 or 16 bytes are copied from global to shared
memory without passing through registers, while the thread continues. Late stores that cannot be
copied in this way are executed immediately, which is a valid implementation, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.emit.cuda.memory import WIDEST
from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import GLOBAL, SHARED, Site
from functrans.emit.cuda.superwords import Group, groups
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, If, Store
from functrans.records import NamedTuple


class Copy(NamedTuple):
    """A copy of adjacent elements."""

    target: Buffer
    place: Scalar  # the position of the first element in the target
    source: Buffer
    start: Scalar  # its position in the source
    condition: Scalar | None  # whether to copy
    # the function of kernels that copies; it also says what is stored if the condition fails
    name: str

    @property
    def operands(self) -> tuple[Scalar, ...]:
        """The expressions of the call, besides the buffers."""
        given = (self.place, self.start)
        return given if self.condition is None else (*given, self.condition)

    def line(self, target: str, source: str, place: str, start: str, *condition: str) -> str:
        """The line of source text."""
        return f"{self.name}({', '.join((target, place, source, start, *condition))})"


def copies(
    stores: Sequence[Store], constant: set[Buffer], simplify: Simplifier
) -> tuple[list[Copy], list[Store]]:
    """Late stores as copies, if their sources are constant; and those that are not."""
    found: list[Copy] = []
    rest: dict[Store, None] = dict.fromkeys(stores)
    late = [each for each in stores if each.late]
    for group in _groups(late, lambda each: (each.target, each.indices[0]), simplify):
        parts = [_parts(each.value) for each in group.members]
        loads = [load for load, _ in parts]
        conditions = {condition for _, condition in parts}
        if None in loads or len(conditions) > 1:
            continue
        sources = _groups(loads, lambda node: (node.attribute, node.args[0]), simplify)
        if len(sources) != 1 or list(sources[0].members) != loads:
            continue
        source = sources[0].buffer
        if source not in constant or source.dtype != group.buffer.dtype:
            continue
        (condition,) = conditions
        name = _NAMES.get((len(loads) * source.dtype.itemsize, condition is None))
        if name is None:
            continue
        found.append(Copy(group.buffer, group.first, source, sources[0].first, condition, name))
        for each in group.members:
            del rest[each]
    return found, list(rest)


_NAMES = {(16, True): "copy", (16, False): "copy_or_zero", (8, True): "copy8", (4, True): "copy4"}
"""Functions of kernels, by the number of bytes and by whether it is copied unconditionally."""


def _groups(
    members: Sequence[Any], element: Callable[[Any], tuple[Buffer, Scalar]], simplify: Simplifier
) -> list[Group]:
    """Groups of adjacent elements, and single elements."""
    found = groups(members, element, simplify)
    grouped = {each for group in found for each in group.members}
    return found + [Group(*element(each), (each,)) for each in members if each not in grouped]


def conditional(statement: If, constant: set[Buffer], simplify: Simplifier) -> list[Copy]:
    """The body of an `If` as conditional copies, without a branch; empty if that is impossible."""
    stores = [each for each in statement.body if isinstance(each, Store)]
    if statement.otherwise or len(stores) < len(statement.body):
        return []
    found, rest = copies(stores, constant, simplify)
    if rest or any(each.name != "copy" for each in found):
        return []
    return [each._replace(condition=statement.condition, name="copy_if") for each in found]


def _parts(value: Scalar) -> tuple[Any, Scalar | None]:
    """The element to copy, or None; and the condition without which the value is zero."""
    condition, value = None, _without_bitcast(value)
    if value.op == "where":
        condition, value, other = value.args
        if other.op != "const" or other.attribute != 0:
            return None, None
        value = _without_bitcast(value)
    return (value if value.op == "load" else None), condition


def _without_bitcast(value: Scalar) -> Scalar:
    while value.op == "bitcast":
        (value,) = value.args
    return value


# -- device code ---------------------------------------------------------------------------------


def copy(kind: str = "", nbytes: int = WIDEST) -> Code:
    """A copy: unconditional, if a condition holds, or of zeros if it does not hold."""
    # (the whole 128-byte line is fetched into the L2 cache, since its neighbours are read soon;
    # only copies of 16 bytes can bypass the L1 cache)
    levels = "cg" if nbytes == WIDEST else "ca"
    text = f"cp.async.{levels}.shared.global.L2::128B [$0], [$1], {nbytes}"
    if kind == "if":
        text = f"{{ .reg .pred p; setp.ne.b32 p, $2, 0; @p {text}; }}"
    else:
        text += ", $2;" if kind else ";"

    def code(
        site: Site, target: Any, position: Any, source: Any, start: Any, *condition: Any
    ) -> Any:
        build, word, long = site.builder, site.integer(32), site.integer(64)
        given = []
        for pointer, at, space, kind in (
            (target, position, SHARED, word),
            (source, start, GLOBAL, long),
        ):
            place = build.gep(pointer, [at])
            near = build.addrspacecast(place, site.pointer(place.type.pointee, space))
            given.append(build.ptrtoint(near, kind))
        for each in condition:
            given.append(build.select(each, *(site.constant(word, n) for n in (WIDEST, 0))))
        shape = site.ir.FunctionType(site.ir.VoidType(), [each.type for each in given])
        constraints = "r,l" + ",r" * len(condition) + ",~{memory}"
        build.asm(shape, text, constraints, given, True)
        return site.nothing()

    return code


def await_copies(site: Site, *_: Any) -> Any:
    """End a group of copies, and wait for all groups except the most recent ones."""
    (behind,) = site.operands
    text = f"cp.async.commit_group; cp.async.wait_group {behind};"
    shape = site.ir.FunctionType(site.ir.VoidType(), [])
    site.builder.asm(shape, text, "~{memory}", [], True)
    return site.nothing()
