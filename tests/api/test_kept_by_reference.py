"""Closed-over arrays: which become inputs of the program, and which are compared by value."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap

RNG = np.random.default_rng(0)
DATA, MORE, SIZES = np.ones(5000), np.ones(3000), np.full(1000, 3.0)
LABELS, MASK = RNG.integers(0, 5, 2000), RNG.random(5000) > 0.5
ORDER = RNG.permutation(5000)


def number(x):
    return np.sum(DATA[: int(SIZES[0])]) * x + np.sum(MORE)


def of_all(x):
    return np.sum(DATA) * x + float(np.max(SIZES))


def shape(x):
    return np.sum(DATA) * x + np.sum(np.zeros(int(SIZES[1])))


def branch(x):
    return (x if SIZES[0] > 2 else 2 * x) * np.sum(DATA)


def gathered(x):
    return np.sum(DATA[ORDER] * x)


def masked(x):
    return np.sum((DATA * x)[MASK])


def where(x):
    return np.sum(np.where(MASK, DATA * x, 0.0))


def counted(x):
    return np.sum(np.bincount(LABELS) * x) + np.sum(DATA * x)


def unique(x):
    return np.sum(np.unique(LABELS) * x) + np.sum(DATA * x)


def one_by_one(x):
    return sum(int(i) * x for i in LABELS[:4]) + np.sum(DATA * x)


def range_(x):
    return sum(i * x for i in range(LABELS[0] + 1)) + np.sum(DATA * x)


def one_hot(x):
    return np.sum(np.eye(5)[LABELS] * x) + np.sum(DATA * x)


CASES = [
    (number, {"DATA", "MORE"}, {"SIZES"}),
    (of_all, {"DATA"}, {"SIZES"}),
    (shape, {"DATA"}, {"SIZES"}),
    (branch, {"DATA", "SIZES"}, set()),
    (gathered, {"DATA", "ORDER"}, set()),
    (masked, {"DATA"}, {"MASK"}),
    (where, {"DATA", "MASK"}, set()),
    (counted, {"DATA"}, {"LABELS"}),
    (unique, {"DATA"}, {"LABELS"}),
    (one_by_one, {"DATA"}, {"LABELS"}),
    (range_, {"DATA"}, {"LABELS"}),
    (one_hot, {"DATA", "LABELS"}, set()),
]  # fmt: skip
TRANSFORMS = {
    "value": lambda f: f,
    "grad": grad,
    "second": lambda f: grad(grad(f)),
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, x]))[1],
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("function", "inputs", "compared"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_only_what_python_asks_for_is_compared(function, inputs, compared, transform):
    if transform == "cond" and function is branch:
        pytest.skip("no branch of Python's in a branch of the program")
    whole = TRANSFORMS[transform](function)
    compiled = jit(whole)
    for array in (SIZES, LABELS, DATA, ORDER):
        np.testing.assert_allclose(compiled(2.0), whole(2.0), rtol=1e-12)
        before = array.copy()
        array[:4] = before[:4][::-1] if array is ORDER else [2, 1, 3, 4]
        np.testing.assert_allclose(compiled(2.0), whole(2.0), rtol=1e-12)
        array[:] = before
    found = compiled.outside()
    assert found.by_reference.keys() == inputs
    assert found.compared.keys() == compared


TABLE, PLACES, COUNT = np.arange(4.0), np.array([2, 0, 1, 3]), np.array([2, 3])
TABLE[3] = 7.0


def looked_up(i, x):
    return TABLE[PLACES[i]] * np.zeros(int(COUNT[0])).size + TABLE.dot(np.stack([x] * 4))


def test_small_arrays_are_inputs_where_numpy_refuses_a_traced_value():
    compiled = jit(looked_up)
    for array, value in ((TABLE, 5.0), (PLACES, 3), (COUNT, 4), (TABLE, 8.0)):
        for i in range(3):
            np.testing.assert_allclose(compiled(i, 2.0), looked_up(i, 2.0), rtol=1e-12)
        array[0] = value
    np.testing.assert_allclose(compiled(1, 2.0), looked_up(1, 2.0), rtol=1e-12)
    found = compiled.outside()
    assert found.by_reference.keys() == {"TABLE", "PLACES"}
    assert found.compared.keys() == {"COUNT"}


def test_a_conversion_of_an_argument_leaves_small_arrays_constants():
    compiled = jit(lambda x: TABLE * float(x))
    with pytest.raises(TypeError, match=r"write np\.float64\(x\)"):
        compiled(2.0)
    assert compiled.outside().compared.keys() == {"TABLE"}
