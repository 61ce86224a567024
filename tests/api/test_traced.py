"""Public queries of whether a value is traced."""

import numpy as np
import pytest

import functrans
from functrans import grad, is_traced, jit, jvp, vmap


@pytest.mark.parametrize(
    "transformed",
    [grad, jit, vmap, lambda f: lambda x: jvp(f, (x,), (x,))],
    ids=["grad", "jit", "vmap", "jvp"],
)
def test_values_of_transformed_functions(transformed):
    found = []

    def function(x):
        made = np.zeros(2)
        found.append(is_traced(made))
        made[0] = np.sum(x)
        found.extend(map(is_traced, (x, x * 2, np.sin(x), made, [x], np.ones(2), 1.0, None)))
        return np.sum(made)

    transformed(function)(np.ones((2, 2)))
    assert found == [False, True, True, True, True, False, False, False, False]
    assert not is_traced(np.ones(2))


def test_autoray_knows_them_by_one_line():
    autoray = pytest.importorskip("autoray")
    autoray.register_backend(functrans.extend.Tracer, "functrans.numpy")

    def function(x):
        assert autoray.infer_backend(x) == "functrans.numpy"
        y = autoray.do("tanh", x)
        return autoray.do("sum", autoray.do("reshape", y, (-1,)) ** 2)

    x = np.array([[0.5, -1.0]])
    expected = 2 * np.tanh(x) / np.cosh(x) ** 2
    np.testing.assert_allclose(grad(function)(x), expected)
    np.testing.assert_allclose(jit(grad(function))(x), expected)
