"""The exact text of errors about assigning traced values to arrays that cannot hold them."""

import numpy as np
import pytest

from functrans import grad
from functrans.errors import MutationError, TracerConversionError
from tests.errors.words import X, located, message_of


def stores_in_shared_memory(x):
    y = np.zeros(3)
    shared = y.view(np.ndarray)
    y[:] = x  # here
    return y.sum() + shared.sum()


def stores_for_the_enclosing_function(x):
    y = np.zeros(3)

    def inner(z):
        y[0] = z[0]  # here
        return z.sum()

    return grad(inner)(x).sum() + y.sum()


def changes_its_shape(x):
    y = 2 * x
    y.shape = (3, 1)  # here
    return y.sum()


def stores_in_an_array_of_another_trace(x):
    y = kept_from_another_trace()
    y[0] = x[0]  # here
    return y.sum()


def kept_from_another_trace():
    kept = []
    grad(lambda x: kept.append(np.zeros(3)) or x)(1.0)
    return kept[0]


REFUSED = [
    (
        changes_its_shape,
        X,
        MutationError,
        "x.shape = ...{here}: a traced array cannot change its shape in place.\n"
        "Write x = x.reshape(shape).",
    ),
    (
        stores_in_shared_memory,
        X,
        MutationError,
        "assignment of a traced value{here}: other arrays share its memory, and would not see the "
        "assignment.\nMake them after it, or begin with a copy: a = np.array(a).",
    ),
    (
        stores_in_an_array_of_another_trace,
        X,
        TracerConversionError,
        "assignment of a traced value{here}: the array was not made by this function, or not by "
        "one of NumPy's functions that make arrays.\nBegin with a copy: a = np.array(a).",
    ),
]


@pytest.mark.parametrize(
    ("function", "x", "kind", "message"), REFUSED, ids=[f.__name__ for f, *_ in REFUSED]
)
def test_assigned_to(function, x, kind, message):
    assert message_of(kind, lambda: grad(function)(x)) == located(message, function)


def test_an_array_of_the_enclosing_function_is_not_assigned_to():
    found = message_of(MutationError, lambda: grad(stores_for_the_enclosing_function)(X))
    assert "(stores_for_the_enclosing_function.<locals>.inner), `y[0] = z[0]" in found
    assert found.endswith(
        ": the array belongs to an enclosing function.\n"
        "Return the new value from the inner function instead."
    )
