"""Evaluation of graphs with NumPy: interpreted the first time, then as a generated function."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from tests.ir.written import graph

TIMES = pytest.mark.parametrize("times", [1, 2, 3])


@TIMES
def test_equations_in_order(times):
    made = graph("""{ a:f64[3], b:f64[3] ->
        c = multiply a b
        d = subtract c 1.5
        e = negative d
        return e, c, a, 7.0 }""")
    a, b = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 5.0])
    for _ in range(times):
        e, c, same, number = evaluate(made, [a, b])
    np.testing.assert_array_equal(e, 1.5 - a * b)
    np.testing.assert_array_equal(c, a * b)
    assert same is a and number == 7.0


@TIMES
def test_an_error_names_the_operation(times):
    made = graph("""{ a:f64[2,2] ->
        b = cholesky a
        c = multiply b 2.0
        return c }""")
    good, bad = np.eye(2), -np.eye(2)
    for _ in range(times - 1):
        evaluate(made, [good])
    with pytest.raises(np.linalg.LinAlgError) as caught:
        evaluate(made, [bad])
    assert caught.value.__notes__ == ["  in cholesky"]


@TIMES
def test_several_results_of_one_equation(times):
    body = graph("{ c:f64[], x:f64[] ->\n d = add c x\n e = multiply d 2.0\n return d, e }")
    made = graph(
        """{ a:f64[], xs:f64[3] ->
        b, s = scan[body=body, length=3, reverse=False, n_consts=0, n_carry=1] a xs
        return s, b }""",
        body=body,
    )
    for _ in range(times):
        stacked, total = evaluate(made, [np.float64(1.0), np.array([1.0, 2.0, 3.0])])
    np.testing.assert_array_equal(stacked, [4.0, 8.0, 14.0])
    assert total == 7.0
