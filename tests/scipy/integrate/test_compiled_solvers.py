"""ODE solvers in compiled programs are native loops, and so are their backward passes."""

import numpy as np
import pytest
import scipy.integrate

from functrans import grad, jit
from functrans.testing import check_grads

TIMES = np.linspace(0.0, 5.0, 30)


def decay(t, y, rate):
    return np.stack([-rate * y[0] * y[1], rate * y[0] - y[1]])


def by_solve_ivp(rate, method="RK45"):
    solution = scipy.integrate.solve_ivp(
        decay, (0.0, 6.0), np.array([1.0, 0.5]), method=method, t_eval=TIMES, args=(rate,),
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    return np.sum(solution.y**2)


def by_odeint(rate):
    y = scipy.integrate.odeint(lambda y, t: decay(t, y, rate), np.array([1.0, 0.5]), TIMES)
    return np.sum(y**2)


SOLVERS = {
    "odeint": by_odeint,
    **{
        name: lambda rate, name=name: by_solve_ivp(rate, name)
        for name in ("RK23", "RK45", "DOP853", "Radau")
    },
}


@pytest.mark.parametrize("name", [
    "RK23",
    pytest.param("odeint", marks=pytest.mark.dear),
    *(pytest.param(name, marks=pytest.mark.full) for name in ("RK45", "DOP853", "Radau")),
])  # fmt: skip
def test_values_and_slopes_are_those_of_the_evaluated_program(name):
    solver = SOLVERS[name]
    compiled, slope = jit(solver), jit(grad(solver))(1.3)
    assert "call NumPy" not in str(compiled.lower(1.3).schedule())
    expected = by_solve_ivp(1.3, "DOP853")  # SciPy's own
    np.testing.assert_allclose(compiled(1.3), expected, rtol=1e-6)
    np.testing.assert_allclose(slope, grad(solver)(1.3), rtol=1e-7)
    difference = (compiled(1.3 + 1e-5) - compiled(1.3 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-4)


@pytest.mark.dear
def test_derivatives_of_a_compiled_solver():
    check_grads(jit(by_solve_ivp), (1.3,), order=1, rtol=1e-4)


def test_no_times_and_one_time():
    def solved(y, times):
        return scipy.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), y, t_eval=times).y

    y = np.array([1.0, 2.0])
    assert jit(lambda y: solved(y, np.zeros(0)))(y).shape == (2, 0)
    np.testing.assert_allclose(jit(lambda y: solved(y, [1.0]))(y)[:, 0], y * np.exp(-1), rtol=1e-3)
    np.testing.assert_array_equal(jit(lambda y: solved(y, [0.0]))(y)[:, 0], y)
