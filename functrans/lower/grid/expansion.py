"""Scalar and array expansion: values passed between distributed loops are stored in memory.

Expects the parts of nests, in order. Leaves them as kernels, each with its private rows.

A local that several parts use becomes an element of a buffer, and a row becomes a buffer, with an
additional axis for each independent loop around. So does a row that is too large for the memory of
a team.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import prod
from operator import attrgetter

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, Let, Store, band, buffer, in_loops, load
from functrans.loop.walk import Body, assigned, buffers_of, declared, scalars, walk
from functrans.lower.grid.dealing import extent, is_independent, room_of
from functrans.lower.grid.thread_mapping import of_one_thread
from functrans.lower.kernel.definite_assignment import assigned_before_use
from functrans.records import NamedTuple, dataclass


class Arm(NamedTuple):
    """A branch: statements that are executed only if a condition holds, or only if it does not."""

    condition: Scalar
    holds: bool


Around = For | Arm


@dataclass(frozen=True, eq=False)
class Piece:
    """Statements, and the loops and branches around them, outermost first."""

    around: tuple[Around, ...]
    body: Body

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops whose iterations are independent."""
        return tuple(each for each in _loops(self.around) if is_independent(each))

    @property
    def turns(self) -> tuple[For, ...]:
        """The loops whose iterations are sequential."""
        return tuple(each for each in _loops(self.around) if not is_independent(each))


def _loops(around: Sequence[Around]) -> list[For]:
    return [each for each in around if isinstance(each, For)]


def nested(piece: Piece) -> Body:
    """The statements of a piece in its independent loops, without the sequential ones."""
    body = piece.body
    for each in reversed(piece.around):
        if isinstance(each, Arm):
            arms = (body, ()) if each.holds else ((), body)
            body = (If(each.condition, *arms),)
    return in_loops([replace(loop, parallel=True) for loop in piece.loops], body)


def expanded(
    pieces: Sequence[Piece], scratch: Sequence[Buffer], grid: Grid
) -> list[tuple[Piece, tuple[Buffer, ...]]] | None:
    """The pieces with the memory between them, and their private rows; None if there is no room."""
    users = _users(pieces)
    done = list(pieces)
    relocation = Relocation(Simplifier())
    kept: list[list[Buffer]] = [[] for _ in pieces]
    for row in scratch:
        using = [pieces[number] for number in users.get(row, ())]
        if _is_private(row, using):
            for number in users.get(row, ()):
                kept[number].append(row)
            continue
        loops = _common(using)
        if not all(_has_own(row, piece, loops) for piece in using):
            return None
        if not _expand(row, loops, relocation, grid):
            return None
    for number, piece in enumerate(pieces):
        for row in _too_large(kept[number], piece.body, grid):
            kept[number].remove(row)
            room = _expand(row, _band(piece), relocation, grid)
            if not room or _is_used_anew(row, piece.body, _band(piece)):
                # sequential iterations, all of which use the same row
                done[number] = Piece(piece.turns, of_one_thread(nested(piece)))
    if relocation.moved:
        done = [replace(each, body=relocation.statements(each.body)) for each in done]
    done = _with_locals_in_memory(done, users)
    return [(each, tuple(rows)) for each, rows in zip(done, kept, strict=True)]


def _is_used_anew(row: Buffer, body: Body, around: Sequence[For]) -> bool:
    """Whether iterations of further independent loops each use a row for values of their own."""
    for each in walk(body):
        if isinstance(each, For) and is_independent(each) and each.lanes == 1:
            if all(each.index is not loop.index for loop in around):
                stores = (x for x in walk(each.body) if isinstance(x, Store) and x.target is row)
                if any(each.index not in store.indices for store in stores):
                    return True
    return False


def _band(piece: Piece) -> tuple[For, ...]:
    return band(nested(piece))


def _is_private(row: Buffer, using: Sequence[Piece]) -> bool:
    """Whether each iteration of a piece writes a row before it reads it."""
    if len(using) <= 1 and not any(piece.turns for piece in using):
        return True
    return all(assigned_before_use(_inside(piece.body), row) for piece in using)


def _inside(body: Body) -> Body:
    """The body of the independent loops with which statements begin."""
    while len(body) == 1 and isinstance(body[0], For) and is_independent(body[0]):
        body = body[0].body
    return body


def _has_own(row: Buffer, piece: Piece, loops: Sequence[For]) -> bool:
    """Whether iterations of other loops than these write to different elements of a row."""
    own = [loop.index for loop in _band(piece) if all(loop.index is not x.index for x in loops)]
    return all(
        all(index in each.indices for index in own)
        for each in walk(piece.body)
        if isinstance(each, Store) and each.target is row
    )


def _users(pieces: Sequence[Piece]) -> dict[Buffer | Scalar, list[int]]:
    """The pieces that use each buffer and each local."""
    found: dict[Buffer | Scalar, list[int]] = {}
    for number, piece in enumerate(pieces):
        conditions = [each.condition for each in piece.around if isinstance(each, Arm)]
        own: dict[Buffer | Scalar, None] = dict.fromkeys(buffers_of(piece.body))
        own |= dict.fromkeys(_locals(piece.body, conditions))
        for one in own:
            found.setdefault(one, []).append(number)
    return found


def _locals(body: Body, conditions: Iterable[Scalar]) -> list[Scalar]:
    used = [node for node in scalars(body) if node.op == "local"]
    used += [*assigned(body), *declared(body)]
    return [*used, *(node for node in postorder(conditions) if node.op == "local")]


def _common(pieces: Sequence[Piece]) -> tuple[For, ...]:
    """The independent loops around all pieces."""
    first, *rest = (piece.around for piece in pieces)
    pairs = zip(first, *rest, strict=False)
    common = takewhile(lambda pair: all(each is pair[0] for each in pair), pairs)
    return Piece(tuple(one for one, *_ in common), ()).loops


def _expand(row: Buffer, loops: Sequence[For], relocation: Relocation, grid: Grid) -> bool:
    """Replace a row by a buffer with one row for each iteration of some loops, if there is room."""
    fits = prod(map(extent, loops)) * row.nbytes <= grid.largest_expanded
    fits = fits or row.nbytes > grid.longest_in_turns
    around = loops if fits else ()
    one = buffer(f"{row.name}s", row.dtype, (*map(extent, around), *row.shape))
    relocation.moved[row] = one, tuple(loop.index for loop in around)
    return fits


def _too_large(rows: Sequence[Buffer], body: Body, grid: Grid) -> list[Buffer]:
    """The largest of some rows, without which the others fit."""
    held, found = 0, []
    for row in sorted(rows, key=attrgetter("nbytes")):
        if held + row.nbytes <= room_of(row, body, grid):
            held += row.nbytes
        else:
            found.append(row)
    return found


def _with_locals_in_memory(
    pieces: Sequence[Piece], users: dict[Buffer | Scalar, list[int]]
) -> list[Piece]:
    """The pieces, which load and store the locals of other pieces that they use."""
    homes: Homes = {}
    changed: list[set[Scalar]] = []
    known: list[set[Scalar]] = []
    for number, piece in enumerate(pieces):
        own = declared(piece.body)
        homes |= _homes([x for x in own if users[x] != [number]], piece.loops)
        known.append(set(own))
        changed.append({*assigned(piece.body), *own})
    done = []
    for number, piece in enumerate(pieces):
        # in the order in which they were assigned to buffers
        used = [x for x in homes if number in users[x]]
        lacking = [x for x in used if x not in known[number]]
        made = [x for x in used if x in changed[number]]
        body = (
            *_behind(_loads(lacking, homes), piece.body),
            *(Store(*homes[name], name) for name in made),
        )
        around = tuple(_with_loads(each, homes) for each in piece.around)
        done.append(Piece(around, body))
    return done


Homes = dict[Scalar, tuple[Buffer, tuple[Scalar, ...]]]
"""The buffer elements that replace locals."""


def _homes(names: Sequence[Scalar], loops: Sequence[For]) -> Homes:
    """The elements that replace some locals; those of one dtype share a buffer."""
    found: Homes = {}
    for dtype in dict.fromkeys(name.dtype for name in names):
        alike = [name for name in names if name.dtype == dtype]
        one = buffer(f"{alike[0].attribute[0]}s", dtype, (*map(extent, loops), len(alike)))
        for number, name in enumerate(alike):
            found[name] = one, (*(loop.index for loop in loops), const(number, INDEX))
    return found


def _loads(names: Sequence[Scalar], homes: Homes) -> Body:
    return (Let(tuple(names), tuple(load(*homes[name]) for name in names)),) if names else ()


def _behind(declarations: Body, body: Body) -> Body:
    """Statements after declarations, which are inside the band if there is one."""
    if declarations and len(body) == 1 and isinstance(body[0], For) and is_independent(body[0]):
        return (replace(body[0], body=_behind(declarations, body[0].body)),)
    return (*declarations, *body)


def _with_loads(each: Around, homes: Homes) -> Around:
    """The loops and branches around a piece; a condition is loaded from memory."""
    if not isinstance(each, Arm):
        return each
    values = {name: load(*place) for name, place in homes.items()}
    (condition,) = Simplifier().substitute([each.condition], values)
    return Arm(condition, each.holds)
