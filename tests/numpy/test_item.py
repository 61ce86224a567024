"""``x.item()`` returns a traced scalar with the type rules of a Python number."""

import numpy as np
import pytest

from functrans import grad, jit, vjp, vmap

X = np.array([1.0, 2.0, 3.0])
FORMS = [(2,), (-1,), ((1,),)]
OF_MATRICES = [(), (0,), (0, 0), ((0, 0),)]


@pytest.mark.parametrize("place", FORMS)
def test_an_element(place):
    def function(x):
        return x.item(*place) ** 2 + (x @ x)[None, None].item(0, -1)

    np.testing.assert_allclose(jit(function)(X), function(X))
    np.testing.assert_allclose(vmap(function)(X[None]), function(X))
    slope = 2 * X + 2 * X * (np.arange(3) == np.arange(3)[place[0]])
    np.testing.assert_allclose(jit(grad(function))(X), slope)


@pytest.mark.parametrize("place", OF_MATRICES)
def test_of_one_element(place):
    assert jit(lambda x: x.item(*place))(np.array([[2.5]])) == 2.5


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "?", "c8"])
@pytest.mark.parametrize("other", ["f4", "f8", "i1", "c8"])
def test_its_dtype_yields_as_that_of_python_numbers_does(dtype, other):
    def function(x):
        return x.item() * np.ones(2, other), np.multiply(x.item(), 2)

    x = np.array([1], dtype)
    for found, expected in zip(jit(function)(x), function(x), strict=True):
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_so_it_does_where_the_value_is_known(dtype):
    value, pullback = vjp(lambda x: x.item() * np.ones(2, "f4"), np.ones(1, dtype))
    assert value.dtype == np.float32
    np.testing.assert_array_equal(pullback(value)[0], [2])


def test_what_numpy_refuses():
    for wrong in ((), (0, 0), (5,)):
        with pytest.raises((ValueError, IndexError)) as numpys:
            X.item(*wrong)
        with pytest.raises(numpys.type):
            jit(lambda x, wrong=wrong: x.item(*wrong))(X)
