"""An except clause of the user's that catches our refusal gives a result, and a warning."""

import warnings
from math import log

import numpy as np
import pytest

from functrans import custom_vjp, grad, jit, vmap
from functrans.errors import SwallowedErrorWarning


def guarded(x):
    try:
        return log(x)
    except Exception:
        return 0.0 * x


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: jit(guarded)(2.0), "jit"),
        (lambda: grad(guarded)(2.0), "grad"),
        (lambda: vmap(guarded)(np.ones(2)), "vmap"),
        (lambda: jit(lambda x: 2 * grad(guarded)(x))(2.0), "grad"),
    ],
    ids=["jit", "grad", "vmap", "grad in jit"],
)
def test_it_names_the_line_once(call, kind):
    with pytest.warns(SwallowedErrorWarning) as found:
        assert not np.any(call())
    assert [str(warning.message) for warning in found] == [
        f"an except clause caught the error that a value traced by {kind} cannot become a plain "
        "one at test_swallowed.py:15 (guarded), `return log(x)`. What the clause gives is the "
        "result for all values: catch other errors only, or compute with NumPy's functions."
    ]
    assert found[0].filename == __file__


def branching(x):
    return 1.0 if x > 0 else -1.0


def test_what_the_library_handles_itself_is_not_told():
    rule = custom_vjp(lambda x: x * branching(x))
    rule.defvjp(lambda x: (rule(x), x), lambda x, ct: (ct * branching(x),))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SwallowedErrorWarning)
        assert [grad(rule)(x) for x in (1.0, -1.0, 2.0)] == [1.0, -1.0, 1.0]
        x = np.array([1.0, -2.0])
        assert grad(lambda x: np.sum(np.vectorize(branching)(x) * x))(x).tolist() == [1.0, -1.0]
        with pytest.raises(TypeError):
            jit(lambda x: float(x))(1.0)
        assert jit(lambda x: 2 * x)(1.0) == 2.0
