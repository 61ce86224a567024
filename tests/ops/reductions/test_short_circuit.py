"""Any, all and positions of booleans, which are searched only as far as they are not decided."""

import numpy as np
import pytest

from functrans import config, jit, vmap
from functrans.ops.reductions.compiled.short_circuit import ShortCircuit

BLOCK = ShortCircuit().block
REDUCTIONS = {
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
}
EXTENTS = (2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK + 17, 40 * BLOCK + 1)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_decisive_element_may_be_anywhere(name, extent, threads, monkeypatch):
    monkeypatch.setattr(config, "threads", threads)
    reduction = REDUCTIONS[name]
    decisive = name in ("any", "argmax")
    of_truths = jit(lambda x: reduction(x))
    of_numbers = jit(lambda x: reduction(x > 0))
    for place in (None, 0, 1, BLOCK - 1, BLOCK, extent - BLOCK, extent - 2, extent - 1):
        x = np.full(extent, not decisive)
        if place is not None:
            x[place] = decisive
            x[min(place + 5, extent - 1)] = decisive
        expected = reduction(x)
        assert of_truths(x) == expected
        assert of_truths(x).dtype == expected.dtype
        assert of_numbers(np.where(x, 1.0, -np.inf)) == expected


@pytest.mark.parametrize("name", REDUCTIONS)
def test_lines_of_an_array_are_decided_one_by_one(name):
    reduction = REDUCTIONS[name]
    x = np.random.default_rng(0).random((5, 3 * BLOCK)) < 0.5 / BLOCK
    x = ~x if name in ("all", "argmin") else x
    expected = reduction(x, axis=1)
    np.testing.assert_array_equal(jit(lambda x: reduction(x, axis=1))(x), expected)
    np.testing.assert_array_equal(jit(vmap(reduction))(x), expected)
    np.testing.assert_array_equal(jit(lambda x: reduction(x, axis=0))(x.T), expected)


@pytest.mark.parametrize("shape", [(3 * BLOCK, 7), (5, 2 * BLOCK), (3, 40, 5, BLOCK // 50)])
def test_several_axes_are_one_line(shape):
    for flips in (0, 1):
        x = np.zeros(shape, bool)
        x.flat[x.size - 3 : x.size - 3 + flips] = True
        some, every = jit(lambda x: (np.any(x), np.all(~x)))(x)
        assert (some, every) == (bool(flips), not flips)
        along = jit(lambda x: np.any(x, axis=tuple(range(1, x.ndim))))(x)
        np.testing.assert_array_equal(along, x.reshape(len(x), -1).any(1))


def test_computed_truths_share_a_loop_with_other_results():
    x = np.random.default_rng(0).normal(size=20 * BLOCK)
    compiled = jit(lambda x: (np.sum(x), np.any(np.isnan(x))))
    assert len(compiled.lower(x).cost().nests) == 1
    x[-1] = np.nan
    assert compiled(x)[1]
