"""The example that solves differential equations, against SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from examples import ode
from functrans import jacfwd, jacrev, jit
from tests.lax.bodies import close


def test_the_tableau_is_consistent():
    close([sum(row) for row in ode.A], ode.C)
    close(sum(ode.ERROR), 0.0)


def test_it_takes_about_as_many_steps_as_scipy():
    final, steps = ode.solve(ode.lotka_volterra(ode.RATES), ode.START, 0.0, 10.0)
    theirs = solve_ivp(
        ode.lotka_volterra(ode.RATES), (0.0, 10.0), ode.START, "RK45", rtol=1e-8, atol=1e-8
    )
    close(final, theirs.y[:, -1], 1e-6)
    assert abs(steps - len(theirs.t)) < 0.2 * len(theirs.t)


@pytest.mark.parametrize(
    "derivative", [jacrev, jacfwd, lambda f, n: jit(jacrev(f, n))], ids=["rev", "fwd", "compiled"]
)
def test_sensitivities_are_those_of_the_variational_equations(derivative):
    final, by_start, by_rates = ode.reference(ode.START, ode.RATES, end=3.0)
    close(ode.populations(ode.START, ode.RATES, 3.0), final, 1e-6)

    def populations(start, rates):
        return ode.populations(start, rates, end=3.0)

    found = derivative(populations, (0, 1))(ode.START, ode.RATES)
    close(found, (by_start, by_rates), 1e-5)


@pytest.mark.dear
def test_several_times_are_a_scan_of_while_loops():
    times = np.array([0.0, 0.7, 1.0, 2.5])

    def path(rates):
        return ode.solve_at(ode.lotka_volterra(rates), ode.START, times)

    ys = path(ode.RATES)
    for t, y in zip(times[1:], ys[1:], strict=True):
        close(y, ode.populations(ode.START, ode.RATES, t), 1e-5)
    _, _, expected = ode.reference(ode.START, ode.RATES, end=2.5)
    close(jacrev(path)(ode.RATES)[-1], expected, 1e-5)
