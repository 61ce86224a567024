"""Array regrouping: stacks that two scans access row by row become columns of records."""

import re
from dataclasses import replace

import numpy as np
import pytest

from functrans import config, grad, jit, lax, value_and_grad
from functrans.emit.llvm import kernel as llvm
from functrans.errors import PlanError
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import Column, For, Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.kernel.array_regrouping import Regrouping, columns_of
from functrans.lower.nest.bodies import Nest
from functrans.lower.verify import verify
from tests.targets import take_host_for

RNG = np.random.default_rng(0)
F4, F8 = np.dtype("f4"), np.dtype("f8")
ALWAYS = CPU.having(Regrouping(fewest=2, least=0))


def gated(weights, state, xs):
    """Layers of gated units, each of which reads the one below."""

    def step(state, x):
        h, rows, total = x, [], 0.0
        for k in range(len(weights)):
            gate = 1 / (1 + np.exp(-h * weights[k, 0]))
            h = gate * state[k] + (1 - gate) * np.tanh(h + state[k] * weights[k, 1])
            rows.append(h)
            total = total + np.sum(h) * x[0]
        return np.stack(rows), (h, total)

    last, (hs, totals) = lax.scan(step, state, xs)
    return np.sum(hs**2) + np.sum(last) + np.sum(np.sin(totals))


def operands(steps, units, layers=3, dtype=F8):
    shapes = (layers, 2, units), (layers, units), (steps, units)
    return [(0.3 * RNG.standard_normal(shape)).astype(dtype) for shape in shapes]


def plan_of(function, arguments, machine=ALWAYS):
    return pipeline.plan(jit(function).lower(*arguments).graph(), machine)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [F4, F8])
@pytest.mark.parametrize(
    "steps, units", [(1, 3), (2, 7), (17, 1), (17, 14), (300, 5), (40, 33), (2600, 2)]
)
def test_results_are_those_of_separate_arrays(monkeypatch, dtype, steps, units):
    given = operands(steps, units, dtype=dtype)
    slopes = value_and_grad(gated, argnums=(0, 1, 2))
    found = []
    for fewest in (2, 1 << 30):
        take_host_for(monkeypatch, regrouping={"fewest": fewest, "least": 0})
        for threads in (1, 5):
            monkeypatch.setattr(config, "threads", threads)
            found.append(jit(slopes)(*given))
    expected = slopes(*given)
    for value, slope in found:
        assert value == found[0][0]
        assert all(map(np.array_equal, slope, found[0][1]))
        for one, other in zip(slope, expected[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4 if dtype == F4 else 1e-10, atol=1e-5)


def printed(plan):
    return [llvm.emit(kernel) for kernel in plan.kernels]


def test_the_columns_of_a_kernel_have_one_pointer():
    """Their places in a row are constants, and do not depend on the number of steps."""
    plan = plan_of(grad(gated), operands(300, 5))
    assert verify(plan) == 0
    kernel = max(plan.kernels, key=lambda kernel: len(kernel.buffers))
    columns = [one for one in kernel.buffers if one.column is not None]
    assert len(columns) > 8
    (body,) = re.findall(r"@body\((.*)\)", llvm.emit(kernel).split("@kernel")[0])
    assert body.count("ptr ") == 1 + len(kernel.buffers) - len(columns) + 1
    assert printed(plan) == printed(plan_of(grad(gated), operands(301, 5)))


def test_few_wide_or_small_arrays_stay_apart():
    given = operands(300, 5)
    for limits in (
        Regrouping(fewest=1000, least=0),
        Regrouping(fewest=2, least=0, widest=5 * 8 - 1),
        Regrouping(fewest=2, least=1 << 30),
    ):
        wide = plan_of(grad(gated), given, CPU.having(limits)).columns
        # rows of one number are narrow in any case
        assert all(one.extents[1:] != (5,) for one in wide)


def rows(extent, width, *names, dtype=F8):
    return [buffer(name, dtype, (extent, width)) for name in names]


def loop_over_rows(targets, sources, extent, width, parallel=False, place=lambda t: t):
    """``targets[t, i] = source[t, i]`` for all, in a loop over ``t``."""
    t, i = index(extent, "t"), index(width, "i")
    inner = tuple(
        Store(target, (place(t), i), load(source, (place(t), i)))
        for target, source in zip(targets, sources, strict=True)
    )
    inside = For(i, ZERO, const(width, INDEX), inner)
    return For(t, ZERO, const(extent, INDEX), (inside,), parallel=parallel)


def nests(*bodies):
    return [Nest((body,), ()) for body in bodies]


def test_what_the_same_loops_access_is_a_record():
    x, y, z, given = rows(9, 3, "x", "y", "z", "given")
    other = buffer("other", F4, (9, 3))
    first = loop_over_rows([x, y, z, other], [given] * 4, 9, 3)
    second = loop_over_rows([given] * 2, [x, y], 9, 3)
    found = columns_of(nests(first, second), {given}, ALWAYS)
    assert found == {x: Column(0, 0, 6), y: Column(0, 3, 6)}


@pytest.mark.parametrize(
    "reader",
    [
        {"parallel": True},
        {"place": lambda t: const(1, INDEX)},
        {"place": lambda t: t + t},
    ],
    ids=["all rows at once", "one row", "every other row"],
)
def test_arrays_that_are_read_otherwise_stay_apart(reader):
    x, y, given, result = rows(9, 3, "x", "y", "given", "result")
    first = loop_over_rows([x, y], [given] * 2, 9, 3)
    second = loop_over_rows([result] * 2, [x, y], 4, 3, **reader)
    assert columns_of(nests(first, second), {given, result}, ALWAYS) == {}
    assert set(columns_of(nests(first), {given, result}, ALWAYS)) == {x, y}


def test_a_wrong_record_is_a_broken_promise():
    plan = plan_of(grad(gated), operands(20, 5))
    assert verify(plan) == 0
    (one, column), *others = plan.columns.items()
    moved = {**plan.columns, one: column._replace(start=others[0][1].start)}
    with pytest.raises(PlanError, match="in a record is not its own"):
        verify(replace(plan, columns=moved))
    with pytest.raises(PlanError, match="in the program or in the kernel only"):
        verify(replace(plan, columns={}))
