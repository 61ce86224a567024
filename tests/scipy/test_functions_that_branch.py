"""Solvers of SciPy's whose functions branch on values, by Python's `if`, within transforms."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize

from functrans import grad, implicit, jacfwd, jit, trace, value_and_grad, vmap
from functrans.errors import TracerBoolError, UnsupportedNumPyError

TIMES = np.linspace(0.0, 1.0, 5)
GUESS = np.array([0.9])


def central_difference(f, a, step=1e-4):
    return (f(a + step) - f(a - step)) / (2 * step)


def kinked(x, a):
    """An increasing function with a kink at x = 0.5, where its value is 0.125 - a."""
    if x > 0.5:
        return x**3 - a
    return x - 0.375 - a


def falls(y, a):
    return -kinked(y[0], a) * np.ones(1)


def valley(p, a):
    return (p[0] - a if p[0] > 0.3 else 2 * (p[0] - a)) ** 2 + (p[1] - 1.0) ** 2


def bracketed(name):
    return lambda a: getattr(optimize, name)(kinked, 0.0, 2.0, args=(a,))


PROGRAMS = {
    **{name: bracketed(name) for name in ("bisect", "brentq", "brenth", "ridder", "toms748")},
    "newton": lambda a: optimize.newton(kinked, 0.9, args=(a,), tol=1e-12),
    "fixed_point": lambda a: optimize.fixed_point(
        lambda x: np.cos(x) * a if x > 0.3 else 0.5 * a + 0.2, 0.5
    ),
    "root_scalar": lambda a: optimize.root_scalar(kinked, (a,), bracket=(0.0, 2.0)).root,
    "root": lambda a: optimize.root(lambda x: kinked(x[0], a) * np.ones(1), GUESS).x[0],
    "fsolve": lambda a: optimize.fsolve(lambda x: [kinked(x[0], a)], GUESS)[0],
    "minimize": lambda a: optimize.minimize(lambda x: kinked(x[0], a) ** 2, GUESS, tol=1e-9).x[0],
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda x: kinked(x, a) ** 2).x,
    "minimize, bounds": lambda a: optimize.minimize(
        valley, [0.0, 0.0], (a,), bounds=[(-1, 1), (-1, 0.5)], tol=1e-12
    ).x[0],
    "minimize, constraints": lambda a: optimize.minimize(
        valley, [0.0, 0.0], (a,), tol=1e-12,
        constraints={"type": "eq", "fun": lambda p: p[0] - p[1]},
    ).x[0],
    "differential_evolution": lambda a: optimize.differential_evolution(
        valley, [(-1, 1), (-1, 2)], (a,), rng=0, maxiter=30, popsize=5
    ).x[0],
    "least_squares": lambda a: optimize.least_squares(
        lambda x: np.array([kinked(x[0], a), x[0] - 1]), GUESS, xtol=1e-12, ftol=1e-12, gtol=1e-12
    ).x[0],
    "least_squares, bounds": lambda a: optimize.least_squares(
        lambda x: np.array([kinked(x[0], a), x[0] - 1]), GUESS, bounds=(0, 2), xtol=1e-12,
        ftol=1e-12, gtol=1e-12,
    ).x[0],
    "curve_fit": lambda a: optimize.curve_fit(
        lambda x, p: p * x * a if p > 0 else p * x, np.arange(5.0), np.arange(5.0) * 2
    )[0][0],
    "quad": lambda a: integrate.quad(lambda x: a * kinked(x, a), 0.0, 2.0, points=[0.5])[0],
    "dblquad": lambda a: integrate.dblquad(
        lambda y, x: x * y * a**2 if x < 2 else a, 0.0, 1.0, 0.0, 1.0
    )[0],
    "quad_vec": lambda a: integrate.quad_vec(
        lambda x: np.array([x * a**2 if x < 2 else x, x]), 0.0, 1.0
    )[0].sum(),
    "odeint": lambda a: integrate.odeint(
        lambda y, t: falls(y, a), GUESS, TIMES, rtol=1e-8, atol=1e-8
    )[-1, 0],
    "fsolve, falling": lambda a: optimize.fsolve(
        lambda x: [-kinked(x[0], a), 1.0 - x[0] * x[1]], [2.0, 0.2]
    )[1],
    "RK45": lambda a: integrate.solve_ivp(
        lambda t, y: falls(y, a), (0, 1), GUESS, t_eval=TIMES, rtol=1e-8, atol=1e-8
    ).y[0, -1],
    "Radau": lambda a: integrate.solve_ivp(
        lambda t, y: falls(y, a), (0, 1), GUESS, "Radau", rtol=1e-6, atol=1e-6
    ).y[0, -1],
    "events": lambda a: integrate.solve_ivp(
        lambda t, y: falls(y, a), (0, 1), GUESS, rtol=1e-6, atol=1e-6,
        events=lambda t, y: y[0] - 0.87 if t > 0 else -1.0,
    ).t_events[0][0],
}  # fmt: skip

STEPS = ("Radau", "events", "minimize_scalar")
"""What takes other steps than SciPy, or ends at another distance from the minimum."""


@pytest.mark.parametrize(
    ("name", "a"), [*((name, 0.6) for name in PROGRAMS), ("brentq", 0.05), ("minimize", 0.05)]
)
def test_derivatives(name, a):
    f = PROGRAMS[name]
    value, slope = value_and_grad(f)(a)
    assert np.isclose(value, f(a), rtol=1e-5 if name in STEPS else 1e-7)
    assert np.isclose(slope, central_difference(f, a), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["brentq", "root", "minimize", "minimize, bounds", "quad", "RK45"])
def test_second_derivatives(name):
    slope = grad(PROGRAMS[name])
    bend = central_difference(slope, 0.6)
    assert np.isclose(jacfwd(slope)(0.6), bend, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"newton"}))
def test_a_compiled_program_has_no_values(name):  # of `newton`, SciPy's own loop is compiled
    with pytest.raises((TracerBoolError, UnsupportedNumPyError)):
        jit(PROGRAMS[name]).lower(0.6)


def test_the_equation_of_implicit():
    def solver(start, a):
        return optimize.brentq(kinked, 0.0, 2.0, args=(a,)) * np.ones(1)

    solution = implicit(solver, equation=lambda x, a: kinked(x[0], a))
    assert np.isclose(grad(lambda a: solution(GUESS, a)[0])(0.6), 0.6 ** (-2 / 3) / 3)


def test_examples_that_take_different_paths():
    with pytest.raises(TracerBoolError, match=r"if x > 0\.5"):
        vmap(PROGRAMS["brentq"])(np.array([0.6, 0.05]))


def test_functions_of_math_where_nothing_is_differentiated():
    def f(a):
        return a * optimize.brentq(lambda x: math.sin(x) - 0.5 if x > 0 else -1.0, 0.0, 1.0)

    assert np.isclose(grad(f)(2.0), np.pi / 6)


def test_it_ends_with_the_call():
    def f(a):
        x = PROGRAMS["brentq"](a)
        return x + optimize.newton(lambda x: x * x - a, 1.0)

    assert np.isclose(grad(f)(0.6), 0.6 ** (-2 / 3) / 3 + 0.5 / np.sqrt(0.6))
    root = trace(lambda a: optimize.brentq(lambda x: x * x - a, 0.0, 2.0))(0.6)
    assert "while" in str(root)
