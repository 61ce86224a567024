"""Zero times infinity or NaN: NumPy's result for the user's zeros, 0 for structural zeros."""

import warnings

import numpy as np
import pytest

from functrans import grad, jacfwd, jacrev, jit

rows = np.array([[np.inf, 1.0, 2.0], [np.nan, 1.0, np.inf], [0.0, -np.inf, 2.0]])
vector = np.array([1.0, -2.0, 3.0])


def assigned(v):
    z = np.zeros((3, 3))
    z[0, 0], z[2, 1] = v[0], v[1]
    return z


def assigned_columns(v):
    z = np.zeros((3, 3))
    z[:, 1] = v
    return z


ZEROS = {
    "pad": lambda v: np.pad(v[:, None], ((0, 0), (1, 1))),
    "pad at one end": lambda v: np.pad(v[:1], (0, 2)),
    "diag": np.diag,
    "diag off": lambda v: np.diag(v[:2], 1),
    "assigned": assigned,
    "assigned columns": assigned_columns,
    "tril": lambda v: np.tril(np.outer(v, v)),
    "stack": lambda v: np.stack([v, np.zeros(3), np.eye(3)[1]]),
    "concatenate": lambda v: np.concatenate([np.zeros((2, 3)), v[None]]),
    "masks": lambda v: (np.arange(3)[:, None] >= np.arange(3)) * v,
    "where": lambda v: np.where(np.eye(3, dtype=bool), v, 0.0),
}


@pytest.mark.parametrize("zeros", ZEROS.values(), ids=ZEROS.keys())
@pytest.mark.parametrize("size", [1, 30], ids=["small", "large"])
def test_zeros_of_the_users_are_numbers(zeros, size):
    def product(v, b):
        return zeros(v) @ b

    def elementwise(v, b):
        return zeros(v)[..., :3] * b[:, :3]

    b = np.tile(rows, (1, size))
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore")
        for f in (product, elementwise):
            np.testing.assert_array_equal(jit(f)(vector, b), f(vector, b))


def test_what_has_no_derivative_is_not_multiplied():
    """A cotangent that is not there is not zero times an infinite slope."""

    def f(x):
        y = np.sqrt(x)  # its slope at 0 is infinite
        return y[1:] * 2.0

    x = np.array([0.0, 1.0, 4.0])
    expected = [[0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]
    np.testing.assert_array_equal(jit(jacfwd(f))(x), np.array(expected))
    np.testing.assert_array_equal(jit(jacrev(f))(x), np.array(expected))
    np.testing.assert_array_equal(jit(grad(lambda x: np.sum(f(x))))(x), np.array([0.0, 1.0, 0.5]))
