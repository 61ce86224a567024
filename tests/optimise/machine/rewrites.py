"""Checks of rewrites for a machine: results and invariants are preserved."""

import numpy as np

from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from tests.ir.written import graph, is_graph
from tests.lower.by_hand import done_by

RNG = np.random.default_rng(0)


def inputs_of(made):
    """Numbers for the inputs of a graph."""
    return [
        RNG.integers(0, 5, aval.shape).astype(aval.dtype)
        if aval.dtype.kind in "iu"
        else RNG.standard_normal(aval.shape).astype(aval.dtype)
        for aval in made.in_avals
    ]


def rewritten(rewrite, made):
    """What a rewrite makes of a graph: well-typed, and with the same values."""
    after = checked(done_by(rewrite, made), rewrite.__name__)
    given = inputs_of(made)
    for found, wanted in zip(evaluate(after, given), evaluate(made, given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    return after


def becomes(rewrite, before, after, **inner):
    """Assert that a rewrite makes one graph of another, with the same values."""
    is_graph(rewritten(rewrite, graph(before, **inner)), after, **inner)


def stays(rewrite, before, **inner):
    """Assert that a rewrite leaves a graph as it is."""
    made = graph(before, **inner)
    assert done_by(rewrite, made) == made


def names(made):
    return [eqn.primitive.name for eqn in made.eqns]
