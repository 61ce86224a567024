"""Asynchronous copies: late stores of elements in memory, and waiting for them.

`cp.async` of NVIDIA's PTX ("Data Movement and Conversion Instructions: Asynchronous copy"), of
compute capability 8.0 and later: 16 bytes go from global to shared memory past the registers, while
the thread goes on. What cannot be copied so is stored at once, which is a late store as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functrans.emit.cuda.memory import WIDEST
from functrans.emit.cuda.numbers import Code
from functrans.emit.cuda.site import GLOBAL, SHARED, Site
from functrans.emit.cuda.superwords import groups
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, If, Store


class Copy(NamedTuple):
    """A copy of 16 bytes.

    Parameters
    ----------
    target, source : Buffer
    place, start : Scalar
        Where the first number goes, and where it is.
    condition : Scalar or None
        Whether there is anything to copy.
    name : str
        Of the function of kernels that does it: what becomes of the target if there is not.
    """

    target: Buffer
    place: Scalar
    source: Buffer
    start: Scalar
    condition: Scalar | None
    name: str

    @property
    def operands(self) -> tuple[Scalar, ...]:
        """What the line is made of, besides the buffers."""
        given = (self.place, self.start)
        return given if self.condition is None else (*given, self.condition)

    def line(self, target: str, source: str, place: str, start: str, *condition: str) -> str:
        """The line of a kernel's text."""
        return f"{self.name}({', '.join((target, place, source, start, *condition))})"


def copies(
    stores: Sequence[Store], constant: set[Buffer], simplify: Simplifier
) -> tuple[list[Copy], list[Store]]:
    """Late stores as copies, of buffers that nobody writes, and those that are none."""
    found: list[Copy] = []
    rest: dict[Store, None] = dict.fromkeys(stores)
    late = [each for each in stores if each.late]
    for group in groups(late, lambda each: (each.target, each.indices[0]), simplify):
        parts = [_parts(each.value) for each in group.members]
        loads = [load for load, _ in parts]
        conditions = {condition for _, condition in parts}
        if None in loads or len(conditions) > 1:
            continue
        if len(loads) * group.buffer.dtype.itemsize < WIDEST:
            continue
        sources = groups(loads, lambda node: (node.attribute, node.args[0]), simplify)
        if len(sources) != 1 or list(sources[0].members) != loads:
            continue
        source = sources[0].buffer
        if source not in constant or source.dtype != group.buffer.dtype:
            continue
        (condition,) = conditions
        name = "copy" if condition is None else "copy_or_zero"
        found.append(Copy(group.buffer, group.first, source, sources[0].first, condition, name))
        for each in group.members:
            del rest[each]
    return found, list(rest)


def conditional(statement: If, constant: set[Buffer], simplify: Simplifier) -> list[Copy]:
    """The copies that statements behind a condition are, if that is all: they need no branch."""
    stores = [each for each in statement.body if isinstance(each, Store)]
    if statement.otherwise or len(stores) < len(statement.body):
        return []
    found, rest = copies(stores, constant, simplify)
    if rest or any(each.condition is not None for each in found):
        return []
    return [each._replace(condition=statement.condition, name="copy_if") for each in found]


def _parts(value: Scalar) -> tuple[Any, Scalar | None]:
    """The element that a value is, or None; and under which condition it is, and else zero."""
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


def copy(kind: str = "") -> Code:
    """A copy of 16 bytes: always, if a condition holds, or of zeros if it does not."""
    # (the L2 cache gets the line of 128 bytes: what is next to it is asked for soon)
    text = f"cp.async.cg.shared.global.L2::128B [$0], [$1], {WIDEST}"
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
    """End a group of copies, and wait for all groups but the last ones."""
    (behind,) = site.operands
    text = f"cp.async.commit_group; cp.async.wait_group {behind};"
    shape = site.ir.FunctionType(site.ir.VoidType(), [])
    site.builder.asm(shape, text, "~{memory}", [], True)
    return site.nothing()
