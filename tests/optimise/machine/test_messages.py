"""Rewrites of communication: buckets of small reductions, and exchanges along one axis."""

from typing import NamedTuple

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph
from functrans.ir.types import Aval
from functrans.loop.target import CPU
from functrans.ops.collectives.collectives import all_gather, all_to_all, psum, psum_scatter
from functrans.optimise.machine.exchanges import bucketed
from functrans.optimise.machine.messages import Buckets, bucket_sums, send_along_first_axis
from functrans.trace.stage import rewrite

LANE = Aval((), np.int64)


class Twins(NamedTuple):
    """Two processes that have the same."""

    name: str = "i"

    def psum(self, x):
        return x * 2

    def all_gather(self, x, axis):
        return np.stack([x, x], axis)

    def psum_scatter(self, x, axis):
        return 2 * np.take(x, 1, axis)

    def all_to_all(self, x, axis):
        rows = np.moveaxis(x, axis, 0)
        return np.moveaxis(np.stack([rows[1], rows[1]]), 0, axis)


def along(name="i"):
    return {"name": name, "size": 2, "engine": Twins(name)}


def total(x, lane, name="i"):
    return psum(x, lane, **along(name))


def traced(function, *shapes, dtype=np.float64):
    return rewrite(function, [LANE, *(Aval(shape, dtype) for shape in shapes)])


def sums(graph):
    """The shapes that are added up, in order."""
    return [eqn.inputs[0].aval.shape for eqn in graph.eqns if eqn.primitive is psum]


def alike(graph, other):
    rng = np.random.default_rng(0)
    given = [np.int64(1), *(rng.normal(size=x.shape).astype(x.dtype) for x in graph.in_avals[1:])]
    for a, b in zip(evaluate(graph, given), evaluate(other, given), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def bucket(graph: Graph) -> Graph:
    made = bucket_sums(graph, CPU)
    alike(graph, made)
    return made


def test_sums_that_do_not_wait_for_each_other_are_one():
    graph = traced(lambda i, x, y, z: [total(x, i), total(y, i) * 3, total(z, i)], (2, 3), (), (4,))
    assert sums(bucket(graph)) == [(11,)]


def test_a_sum_that_waits_for_another_is_not_put_with_it():
    def f(i, x, y):
        first = total(x, i)
        return [total(first * x, i), total(y, i)]

    assert sums(bucket(traced(f, (3,), (4,)))) == [(7,), (3,)]


def test_what_is_read_between_two_sums_comes_behind_both():
    def f(i, x, y):
        a = total(x, i)
        b = a + 1
        return [b * total(y, i), b]

    graph = traced(f, (3,), (3,))
    assert sums(bucket(graph)) == [(6,)]


def test_two_buckets_that_cross_each_other():
    """Each of the second ones reads one of the first, the other way round."""

    def f(i, x, y):
        a, b = total(x, i), total(y, i)
        return [total(b * x, i), total(a * y, i)]

    assert sums(bucket(traced(f, (3,), (3,)))) == [(6,), (6,)]


def test_other_axes_and_dtypes_have_messages_of_their_own():
    def f(i, x, y):
        return [total(x, i), total(y, i, "j"), total(x.astype(np.float32), i), total(x * y, i)]

    assert sums(bucket(traced(f, (3,), (3,)))) == [(6,), (3,), (3,)]


def test_large_and_empty_arrays_stay_as_they_are():
    large = Buckets().small // 8 + 1
    graph = traced(lambda i, x, y, z: [total(x, i), total(y, i), total(z, i)], (large,), (0,), (5,))
    assert bucket_sums(graph, CPU) is graph


def test_a_sum_is_passed_when_somebody_reads_it():
    large = Buckets().small // 8 + 1

    def f(i, x):
        a = total(x, i)
        b = np.sin(x)
        c = total(b, i)
        d = np.cos(b)
        return [d, a, c * 2, d * 3]

    graph = traced(f, (large,))
    made = bucket(graph)
    assert [eqn.primitive.name for eqn in made.eqns] == [
        "sin",
        "cos",
        "psum",
        "multiply",
        "multiply",
        "psum",
    ]
    assert made.eqns[2].inputs[0] is made.eqns[0].outputs[0]
    assert bucket(made) is made


def test_a_bucket_that_is_full_is_sent():
    graph = traced(lambda i, *xs: [total(x, i) for x in xs], (4,), (4,), (4,), (4,), (4,))
    made = bucketed(graph, Buckets(largest=64))
    alike(graph, made)
    assert sums(made) == [(8,), (8,), (4,)]


def test_lanes_of_one_process_pass_no_messages():
    params = {"name": "i", "size": 1, "engine": None}
    graph = traced(lambda i, x, y: [psum(x, i, **params), psum(y, i, **params)], (3,), (3,))
    assert bucket_sums(graph, CPU) is graph


@pytest.mark.parametrize("collective", [all_gather, psum_scatter, all_to_all])
@pytest.mark.parametrize("axis", [1, 2])
def test_what_is_exchanged_lies_along_the_first_axis(collective, axis):
    graph = traced(lambda i, x: [collective(x, i, axis=axis, **along())], (2, 2, 2))
    made = send_along_first_axis(graph, CPU)
    alike(graph, made)
    (eqn,) = (eqn for eqn in made.eqns if eqn.primitive is collective)
    assert eqn.params["axis"] == 0
    assert send_along_first_axis(made, CPU) is made
