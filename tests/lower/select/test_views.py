"""Contiguous parts of inputs are read where they are by whatever takes whole arrays."""

from dataclasses import replace

import numpy as np
import pytest

from functrans import clear_caches, config, jit, trace
from functrans.errors import PlanError
from functrans.loop.target import CPU
from functrans.lower.pipeline import plan
from functrans.lower.plan import View
from functrans.lower.verify import verify
from functrans.optimise import optimise
from functrans.run.call.jitted import program

RNG = np.random.default_rng(0)
MATRICES = RNG.normal(size=(3, 20, 20)) + 9 * np.eye(20)
RIGHT = RNG.normal(size=(4, 20))


def solved(a, b):
    return np.linalg.solve(a[1], b[2])


def planned(function, *arrays, donated=()):
    return plan(optimise(trace(function)(*arrays)), CPU, donated)


@pytest.mark.dear
@pytest.mark.parametrize(
    ("function", "starts"),
    [
        (solved, [400, 40]),
        (lambda a, b: np.linalg.solve(a.reshape(60, 20)[40:], b.ravel()[60:]), [800, 60]),
        (lambda a, b: np.linalg.solve(a[:, 1:2].reshape(3, 20)[:, :3], b[0, :3]), [0]),
        (lambda a, b: np.linalg.solve(a[::-1][1], b[:, 5]), [400]),
        (lambda a, b: np.linalg.solve(np.exp(a[0, ::-1]), a[0, :, 1]), []),
        (lambda a, b: np.linalg.solve(a[2].T, np.sin(b[0])), [800]),
    ],
    ids=["slices", "reshapes", "strided", "reversed", "other", "transposed"],
)
def test_parts_that_are_contiguous_are_not_copied(function, starts):
    b = RNG.normal(size=(20, 20)) if starts == [400] else RIGHT
    found = planned(function, MATRICES, b)
    assert [view.start for view in found.views.values() if view.base in found.inputs] == starts
    assert verify(found) == 0
    for backend in ("native", "numba"):
        compiled = program(optimise(trace(function)(MATRICES, b)), (), backend)
        np.testing.assert_allclose(compiled(MATRICES, b)[0], function(MATRICES, b), rtol=1e-12)


def test_a_part_is_copied_before_it_is_changed():
    def changed(x, i):
        row = x[1]
        row = row * 1
        row[i] = 7.0
        return row, np.sort(x[1])

    x, i = RNG.normal(size=(3, 50)), np.array([3, 4, 3])
    before = x.copy()
    row, ordered = jit(changed)(x, i)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(ordered, np.sort(x[1]))
    before[1][i] = 7.0
    np.testing.assert_array_equal(row, before[1])


def test_results_share_no_memory_with_inputs():
    x = RNG.normal(size=(3, 50))
    part, ordered = jit(lambda x: (x[1], np.sort(x[1])))(x)
    assert not np.shares_memory(part, x)
    np.testing.assert_array_equal(np.sort(part), ordered)


def test_inputs_that_may_be_overwritten_are_not_read_in_place():
    assert not planned(solved, MATRICES, RIGHT, donated=(0, 1)).views
    assert len(planned(solved, MATRICES, RIGHT, donated=(1,)).views) == 1


def test_a_program_from_the_disk_reads_the_same_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    first = jit(solved)(MATRICES, RIGHT)
    clear_caches()
    np.testing.assert_array_equal(jit(solved)(MATRICES, RIGHT), first)


def test_views_of_other_memory_are_faults():
    found = planned(solved, MATRICES, RIGHT)
    one, (base, start) = next(iter(found.views.items()))
    for wrong in (View(base, start + 10_000), View(base, -1), View(one, 0)):
        with pytest.raises(PlanError, match="not a part of an input"):
            verify(replace(found, views={**found.views, one: wrong}))
    writer = next(step for step in found.steps if found.outputs[0] in step.buffers)
    places = [one if x is found.outputs[0] else x for x in writer.buffers if x is not one]
    if len(places) == len(writer.buffers):
        broken = replace(found, steps=(replace(writer, buffers=tuple(places)),))
        with pytest.raises(PlanError, match="part of an input"):
            verify(broken)
