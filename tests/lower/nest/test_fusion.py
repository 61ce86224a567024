"""Loop fusion: which roots share loops, and how many, on roots written by hand."""

import numpy as np

from functrans.loop.nodes import fold
from functrans.loop.scalar import const, sqrt
from functrans.loop.statements import Call, buffer, load
from functrans.lower.nest.fusion import Loop, fuse
from functrans.lower.select.root import Emitted
from functrans.lower.select.unrolling import Loops
from tests.lower.by_hand import done_by, root

F8 = np.dtype(float)
ROWS, COLUMNS = 30, 200
X = buffer("x", F8, (ROWS, COLUMNS))
Y = buffer("y", F8, (ROWS, COLUMNS))
V = buffer("v", F8, (COLUMNS,))


class Program:
    """Roots in the order in which they are made; they agree on the indices of loops."""

    def __init__(self):
        self.loops = Loops()
        self.roots = []

    def add(self, name, shape, value, **about):
        """A root of a shape, whose elements are ``value(*indices)``; gives its buffer."""
        target = buffer(name, F8, shape)
        indices = self.loops(shape)
        self.roots.append(root(target, indices, value(*indices), **about))
        return target

    def nests(self):
        return [structure(nest) for nest in done_by(fuse, self.roots)]


def structure(child):
    """A nest as (extent, what is inside), a root by its name."""
    if not isinstance(child, Loop):
        return child.target.name
    extent = None if child.index is None else child.index.attribute[2]
    return (extent, *map(structure, child.children))


def row_sum(x, i):
    return fold("add", (COLUMNS,), lambda k: load(x, (i, k)))


def test_maps_share_a_loop():
    p = Program()
    a = p.add("a", (COLUMNS,), lambda i: load(V, (i,)) * 2.0)
    p.add("b", (COLUMNS,), lambda i: load(a, (i,)) + 1.0, output=True)
    p.add("c", (COLUMNS,), lambda i: load(V, (i,)) * load(a, (i,)), output=True)
    assert p.nests() == [(COLUMNS, "a", "b", "c")]


def test_maps_of_unrelated_tables_share_loops():
    p = Program()
    a = p.add("a", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) * 2.0)
    b = p.add("b", (ROWS, COLUMNS), lambda i, j: load(Y, (i, j)) * 2.0)
    p.add("c", (ROWS, COLUMNS), lambda i, j: load(a, (i, j)) * load(b, (i, j)), output=True)
    assert p.nests() == [(ROWS, (COLUMNS, "a", "b", "c"))]


def test_a_map_joins_no_unrelated_sums():
    p = Program()
    p.add("a", (ROWS,), lambda i: row_sum(X, i), output=True)
    p.add("b", (ROWS, COLUMNS), lambda i, j: load(Y, (i, j)) * 2.0, output=True)
    assert p.nests() == [(ROWS, "a"), (ROWS, (COLUMNS, "b"))]


def test_what_is_read_at_another_index_comes_before():
    p = Program()
    a = p.add("a", (COLUMNS,), lambda i: load(V, (i,)) * 2.0)
    p.add("b", (COLUMNS,), lambda i: load(a, (const(COLUMNS - 1, "i8") - i,)), output=True)
    assert p.nests() == [(COLUMNS, "a"), (COLUMNS, "b")]


def test_other_extents_are_other_loops():
    p = Program()
    p.add("a", (COLUMNS,), lambda i: load(V, (i,)), output=True)
    p.add("b", (COLUMNS // 2,), lambda i: load(V, (i,)), output=True)
    assert p.nests() == [(COLUMNS, "a"), (COLUMNS // 2, "b")]


def test_the_rows_of_a_softmax_share_a_loop():
    p = Program()
    most = p.add("most", (ROWS,), lambda i: fold("max", (COLUMNS,), lambda k: load(X, (i, k))))
    e = p.add("e", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) - load(most, (i,)))
    total = p.add("total", (ROWS,), lambda i: row_sum(e, i))
    p.add("y", (ROWS, COLUMNS), lambda i, j: load(e, (i, j)) / load(total, (i,)), output=True)
    assert p.nests() == [(ROWS, "most", (COLUMNS, "e"), "total", (COLUMNS, "y"))]


def test_a_sum_down_the_columns_needs_all_rows():
    p = Program()
    e = p.add("e", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) * 2.0)
    p.add("total", (COLUMNS,), lambda j: fold("add", (ROWS,), lambda k: load(e, (k, j))))
    assert p.nests() == [(ROWS, (COLUMNS, "e")), (COLUMNS, "total")]


def test_inner_loops_are_shared_too():
    p = Program()
    a = p.add("a", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) * 2.0)
    p.add("b", (ROWS, COLUMNS), lambda i, j: load(a, (i, j)) + 1.0, output=True)
    assert p.nests() == [(ROWS, (COLUMNS, "a", "b"))]


def test_the_outer_loop_alone():
    """The row is turned round: whole rows one after the other, but row by row."""
    p = Program()
    a = p.add("a", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) * 2.0)
    p.add(
        "b", (ROWS, COLUMNS), lambda i, j: load(a, (i, const(COLUMNS - 1, "i8") - j)), output=True
    )
    assert p.nests() == [(ROWS, (COLUMNS, "a"), (COLUMNS, "b"))]


def test_numbers_share_a_block():
    p = Program()
    a = p.add("a", (), lambda: load(V, (0,)) * 2.0)
    p.add("b", (), lambda: load(a, ()) + load(V, (1,)), output=True)
    assert p.nests() == [(None, "a", "b")]


def test_a_call_is_alone():
    p = Program()
    a = p.add("a", (COLUMNS,), lambda i: load(V, (i,)) * 2.0)
    called = buffer("called", F8, (COLUMNS,))
    call = Call("f", (), reads=(a,), writes=(called,))
    p.roots.append(Emitted(called, (call,), (a,), 1))
    p.add("b", (COLUMNS,), lambda i: load(a, (i,)) + load(called, (i,)), output=True)
    p.add("c", (), lambda: load(called, (0,)), output=True)
    assert p.nests() == [(COLUMNS, "a"), (None, "called"), (COLUMNS, "b"), (None, "c")]


def test_parts_of_a_join_stay_apart():
    """Each writes a piece of the same array."""
    p = Program()
    whole = buffer("whole", F8, (2 * COLUMNS,))
    indices = p.loops((COLUMNS,))
    for shift in (0, COLUMNS):
        place = (indices[0] + shift,)
        part = type(root(whole, (), const(0.0, F8)))(
            whole, indices, (0,), ((place, load(V, indices) + float(shift)),), part=True
        )
        p.roots.append(part)
    p.add("after", (2 * COLUMNS,), lambda i: load(whole, (i,)) * 2.0, output=True)
    assert p.nests() == [(COLUMNS, "whole"), (COLUMNS, "whole"), (2 * COLUMNS, "after")]


def test_no_nest_is_handed_too_many_arrays():
    p = Program()
    for n in range(400):
        p.add(f"y{n}", (COLUMNS,), lambda i: load(V, (i,)) * 2.0, output=True)
    found = p.nests()
    assert len(found) == 2
    assert sum(len(nest) - 1 for nest in found) == 400


def test_a_part_is_written_after_the_last_reader_of_what_was_there():
    p = Program()
    a = p.add("a", (COLUMNS,), lambda i: load(V, (i,)) * 2.0)
    b = p.add("b", (ROWS,), lambda i: load(V, (i,)) * 3.0)
    p.roots.append(Emitted(buffer("c", F8, (1,)), (), operands=(a,)))
    (i,) = p.loops((ROWS,))
    p.roots.append(root(a, (i,), load(b, (i,)) + 1.0, part=True))
    assert p.nests() == [(COLUMNS, "a"), (ROWS, "b"), (None, "c"), (ROWS, "a")]


def logarithms(p, source, **about):
    def value(i):
        found = load(source, (i,))
        for _ in range(9):
            found = sqrt(found + 1.0)
        return found

    return p.add("log", (ROWS,), value, **about)


def test_functions_of_the_sums_of_rows_are_computed_in_vectors_of_rows():
    p = Program()
    total = p.add("sum", (ROWS,), lambda i: row_sum(X, i))
    logarithms(p, total, output=True)
    assert p.nests() == [(ROWS, "sum"), (ROWS, "log")]


def test_they_stay_with_their_rows_if_a_loop_along_these_reads_them():
    p = Program()
    log = logarithms(p, p.add("sum", (ROWS,), lambda i: row_sum(X, i)))
    p.add("row", (ROWS, COLUMNS), lambda i, j: load(X, (i, j)) - load(log, (i,)), output=True)
    assert p.nests() == [(ROWS, "sum", "log", (COLUMNS, "row"))]
