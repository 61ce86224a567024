"""Sums over rows that come from memory: the loops, by hand, and whole programs."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const, postorder
from functrans.loop.statements import For, Reduce, Store, buffer, load, local
from functrans.lower.nest.row_sums import row_by_row
from tests.lower.by_hand import done_by, results
from tests.targets import target

F8 = np.dtype(float)
NEAR = target(reductions={"from_memory": 1})
LONG = target(reductions={"beyond_cache": 1, "fewest_lines_together": 1})
RNG = np.random.default_rng(0)


def sums(rows, columns, op="add", across=True):
    """``y[j] = sum(x[i, j] for i in range(rows))``, in vectors of eight."""
    x = buffer("x", F8, (rows, columns) if across else (columns, rows))
    y, i, j, total = buffer("y", F8, (columns,)), index("i", rows), index("j", columns), local(F8)
    value = load(x, (i, j) if across else (j, i)) * 2.0
    reduced = Reduce((total,), (op,), (value,), ((i, ZERO, const(rows, INDEX)),))
    body = (reduced, Store(y, (j,), total))
    return For(j, ZERO, const(columns, INDEX), body, lanes=8, repeatable=True), x, y


@pytest.mark.parametrize(("op", "numpy"), [("add", np.sum), ("max", np.max), ("mul", np.prod)])
def test_each_term_once(op, numpy):
    loop, x, y = sums(5, 21, op)
    zeros, rows = done_by(row_by_row, loop, target=NEAR)
    assert rows.body[0].lanes == 8 and not rows.body[0].repeatable
    a = RNG.standard_normal((5, 21))
    (found,) = results((zeros, rows), {x: a}, [y])
    np.testing.assert_allclose(found, numpy(2 * a, axis=0), rtol=1e-14)


@pytest.mark.parametrize("rows", [24, 37])
@pytest.mark.parametrize(("op", "numpy"), [("add", np.sum), ("max", np.max)])
def test_several_rows_at_once(op, numpy, rows):
    loop, x, y = sums(rows, 21, op)
    zeros, together, rest = done_by(row_by_row, loop, target=LONG)
    (added,) = together.body[0].body
    assert sum(node.op == "load" for node in postorder([added.value])) == 8
    a = RNG.standard_normal((rows, 21))
    (found,) = results((zeros, together, rest), {x: a}, [y])
    np.testing.assert_allclose(found, numpy(2 * a, axis=0), rtol=1e-13)


def test_what_stays():
    """Arrays in a cache, sums along rows, and a single vector of columns."""
    for (loop, *_), machine in (
        (sums(5, 21), target()),
        (sums(5, 21, across=False), NEAR),
        (sums(5, 8), NEAR),
    ):
        assert done_by(row_by_row, loop, target=machine) == (loop,)


def test_in_a_program():
    """Whole rows, of which no columns are left over, and all sums in one loop."""
    x = RNG.standard_normal((1100, 3001))
    x[5, 7] = np.nan
    compiled = jit(lambda x: (x.sum(0), np.nanmax(x, 0)))
    loops = compiled.lower(x).schedule().split("nest 1")[0]
    for op in ("add=", "max=", "or="):
        assert loops.count(op) == 2, loops  # of several rows, and of the remaining ones
    assert "in 0..3001 by" in loops
    total, largest = compiled(x)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(largest, np.nanmax(x, 0))


@pytest.mark.parametrize(
    ("rows", "blocks"), [(256, 8), (300, 8), (1000, 8), (1024, 8), (1025, 9), (5000, 40)]
)
def test_blocks_are_multiples_of_the_rows_that_are_added_at_once(rows, blocks):
    """At least eight, and of at most 128 rows, so that few sums are stored."""
    x = RNG.standard_normal((rows, 2600)).astype(np.float32)
    compiled = jit(lambda x: x.sum(0))
    assert f"t0_parts: float32[{blocks}, 2600, 1]" in compiled.lower(x).schedule()
    np.testing.assert_allclose(compiled(x), x.sum(0, dtype=float), rtol=1e-4, atol=1e-3)


def test_few_rows_that_are_read_again_stay_in_the_cache():
    """As for a variance, but only if they come from a cache, and not from memory."""
    x = RNG.standard_normal((400, 1000))
    assert "parts" in jit(lambda x: x.sum(0)).lower(x).schedule()
    assert "parts" not in jit(lambda x: x.var(0)).lower(x).schedule()
    assert "parts" in jit(lambda x: x.var(0)).lower(np.resize(x, (600, 1000))).schedule()
