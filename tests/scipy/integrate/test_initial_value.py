"""`solve_ivp` and `odeint`, against SciPy's own and against the variational equations."""

import numpy as np
import pytest
import scipy.integrate

from functrans import errors, grad, jacfwd, jacrev, jit, jvp, vmap
from functrans.scipy import integrate

RATES = np.array([1.1, 0.4, 0.1, 0.4])
START = np.array([10.0, 5.0])


def field(t, y, r):
    return [r[0] * y[0] - r[1] * y[0] * y[1], r[2] * y[0] * y[1] - r[3] * y[1]]


def solve(module, r, span, method="RK45", t_eval=None, y0=START, **options):
    return module.solve_ivp(field, span, y0, method, t_eval, args=(r,), **options)


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
@pytest.mark.parametrize("span", [(0.0, 2.0), (2.0, 0.0), (0.0, 2.5)])
def test_the_steps_are_those_of_scipy(method, span):
    times = np.linspace(0, 2, 5)[:: 1 if span[1] > span[0] else -1]
    expected = solve(scipy.integrate, RATES, span, method, times)

    def found(r):
        result = solve(integrate, r, span, method, times)
        return result.t, result.y, result.nfev, result.success, result.status

    t, y, evaluations, success, status = jit(found)(RATES)
    np.testing.assert_allclose(y, expected.y, rtol=1e-9)
    np.testing.assert_array_equal(t, times)
    assert evaluations == expected.nfev
    assert success and status == 0


@pytest.mark.parametrize(
    "options",
    [
        {"max_step": 0.1},
        {"first_step": 0.01},
        {"rtol": 1e-8, "atol": np.array([1e-8, 1e-6])},
    ],
)
def test_step_sizes(options):
    times = np.array([0.5, 1.0])
    expected = solve(scipy.integrate, RATES, (0.0, 1.0), t_eval=times, **options)
    found = jit(lambda r: solve(integrate, r, (0.0, 1.0), t_eval=times, **options).y)(RATES)
    np.testing.assert_allclose(found, expected.y, rtol=1e-10)


@pytest.mark.full
def test_without_times_the_solution_is_where_the_steps_end():
    expected = solve(scipy.integrate, RATES, (0.0, 2.0))
    seen = []

    def last(r):
        result = solve(integrate, r, (0.0, 2.0))
        seen.append((result.t.shape, result.message))
        return result.y[0, -1]

    gradient = grad(last)(RATES)
    assert seen == [(expected.t.shape, expected.message)]
    at_the_end = grad(lambda r: solve(integrate, r, (0.0, 2.0), t_eval=[2.0]).y[0, 0])(RATES)
    np.testing.assert_allclose(gradient, at_the_end, rtol=1e-9)


def final(y0, r, end=2.0, method="DOP853"):
    return solve(integrate, r, (0.0, end), method, [end], y0, rtol=1e-9, atol=1e-9).y[:, 0]


def variational(y0, r, end=2.0):
    """The derivatives by the start and by the rates."""

    def extended(t, state):
        y, by_start, by_rates = state[:2], state[2:6].reshape(2, 2), state[6:].reshape(2, 4)
        (prey, hunters), (a, b, c, d) = y, r
        along = np.array([[a - b * hunters, -b * prey], [c * hunters, c * prey - d]])
        source = np.array([[prey, -prey * hunters, 0, 0], [0, 0, prey * hunters, -hunters]])
        moving = (along @ by_start).ravel(), (along @ by_rates + source).ravel()
        return np.concatenate([field(t, y, r), *moving])

    state = np.concatenate([y0, np.eye(2).ravel(), np.zeros(8)])
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11}
    end_state = scipy.integrate.solve_ivp(extended, (0, end), state, **options).y[:, -1]
    return end_state[2:6].reshape(2, 2), end_state[6:].reshape(2, 4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "derivative", [jacfwd, jacrev, lambda f, n: jit(jacrev(f, n))], ids=["fwd", "rev", "compiled"]
)
def test_sensitivities(derivative):
    found = derivative(final, (0, 1))(START, RATES)
    for got, expected in zip(found, variational(START, RATES), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_second_derivatives():
    oscillator = lambda t, y, w: [y[1], -(w**2) * y[0]]  # noqa: E731

    def place(w):
        result = integrate.solve_ivp(
            oscillator, (0, 1), [1.0, 0.0], "DOP853", [1.0], args=(w,), rtol=1e-10, atol=1e-10
        )
        return result.y[0, 0]

    np.testing.assert_allclose(grad(place)(2.0), -np.sin(2.0), rtol=1e-8)
    np.testing.assert_allclose(grad(grad(place))(2.0), -np.cos(2.0), rtol=1e-7)


def test_by_the_ends_and_the_times():
    def at(t0, end, t):
        decay = integrate.solve_ivp(
            lambda t, y: -0.5 * y, (t0, end), [3.0], "DOP853", [t], rtol=1e-10, atol=1e-10
        )
        return decay.y[0, 0]

    by_start, by_end, by_time = grad(at, (0, 1, 2))(0.2, 2.0, 1.3)
    expected = 1.5 * np.exp(-0.5 * 1.1)
    np.testing.assert_allclose([by_start, by_end, by_time], [expected, 0, -expected], atol=1e-7)


def test_lanes_take_their_own_steps():
    rates = np.stack([RATES, 1.5 * RATES, 0.1 * RATES])
    times = [0.5, 2.0]

    def path(r):
        result = solve(integrate, r, (0.0, 2.0), t_eval=times)
        return result.y, result.nfev

    ys, evaluations = vmap(path)(rates)
    for y, n, r in zip(ys, evaluations, rates, strict=True):
        expected = solve(scipy.integrate, r, (0.0, 2.0), t_eval=times)
        np.testing.assert_allclose(y, expected.y, rtol=1e-9)
        assert n == expected.nfev


def test_complex_numbers():
    def turning(w):
        result = integrate.solve_ivp(lambda t, y: 1j * w * y, (0, 1), [1 + 0j], t_eval=[1.0])
        return result.y[0, 0]

    expected = scipy.integrate.solve_ivp(lambda t, y: 2j * y, (0, 1), [1 + 0j], t_eval=[1.0])
    np.testing.assert_allclose(jit(turning)(2.0), expected.y[0, 0], rtol=1e-12)


@pytest.mark.dear
def test_stiff_complex_numbers():
    def turned(w, method="BDF"):
        result = integrate.solve_ivp(
            lambda t, y: np.stack([1j * w * y[0] + y[1] ** 2, -w * y[1]]), (0, 1), [1, 1 - 1j],
            method, [1.0], rtol=1e-9, atol=1e-11,
        )  # fmt: skip
        return result.y[:, 0]

    expected = turned(2.0, "DOP853")
    np.testing.assert_allclose(turned(2.0), expected, rtol=1e-5)
    np.testing.assert_allclose(jit(turned)(2.0), expected, rtol=1e-7)
    slope = (turned(2.001, "DOP853") - turned(1.999, "DOP853")) / 0.002
    np.testing.assert_allclose(jvp(turned, (2.0,), (1.0,))[1], slope, rtol=1e-5)
    with pytest.raises(ValueError, match=r"^Radau does not support a complex `y0`: choose BDF"):
        jit(lambda w: turned(w, "Radau"))(2.0)


def test_where_the_steps_become_too_small():
    def blows_up(start):
        result = integrate.solve_ivp(lambda t, y: y**2, (0, 2), [start], t_eval=[0.5, 1.9])
        return result.y[0], result.success

    y, success = jit(blows_up)(1.0)
    assert not success
    np.testing.assert_allclose(y, [2.0, np.nan], rtol=1e-2)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau"])
def test_a_field_that_is_nan(method):
    def solved(rate):
        found = integrate.solve_ivp(lambda t, y: -rate * y, (0, 1), [1.0], method, [1.0])
        return found.y, found.success

    for y, success in (jit(solved)(np.nan), jit(vmap(solved))(np.full(2, np.nan))):
        assert np.isnan(y).all() and not np.any(success)


def test_a_start_that_is_not_finite():
    with pytest.raises(ValueError, match="All components of the initial state `y0` must be finite"):
        grad(lambda a: integrate.solve_ivp(lambda t, y: a * y, (0, 1), [np.inf]).y[0, 0])(1.0)


@pytest.mark.parametrize("method", ["RK23", "DOP853", "Radau"])
def test_a_state_of_nothing(method):
    found = jacrev(lambda y: integrate.solve_ivp(lambda t, y: y, (0, 1), y, method).y)(np.zeros(0))
    assert found.shape == (0, 2, 0)


@pytest.mark.dear
def test_odeint_without_times():
    found = jit(lambda y0: integrate.odeint(field, y0, [], (RATES,), tfirst=True))(START)
    assert found.shape == (0, START.size)


@pytest.mark.dear
def test_odeint():
    times = np.linspace(0, 2, 5)

    def path(r, y0):
        return integrate.odeint(lambda y, t: field(t, y, r), y0, times)

    expected = scipy.integrate.odeint(lambda y, t: field(t, y, RATES), START, times)
    np.testing.assert_allclose(jit(path)(RATES, START), expected, rtol=1e-6)
    first = integrate.odeint(field, START, times, (RATES,), tfirst=True)
    np.testing.assert_allclose(first, expected, rtol=1e-12)
    by_rates, by_start = jacrev(path, (0, 1))(RATES, START)
    expected_start, expected_rates = variational(START, RATES)
    np.testing.assert_allclose(by_rates[-1], expected_rates, atol=1e-5)
    np.testing.assert_allclose(by_start[-1], expected_start, atol=1e-5)
    np.testing.assert_array_equal(by_start[0], np.eye(2))


REFUSED = [
    (lambda r: solve(integrate, r, (0.0, 1.0), dense_output=True), "pass t_eval=times"),
    (lambda r: solve(integrate, r, (0.0, 1.0)).y,
     "solve_ivp without t_eval=, under jit or vmap, is not supported .*: the number of steps"),
    (lambda r: integrate.odeint(field, START, [0.0, 1.0], (r,), tfirst=True, full_output=True),
     r"odeint\(\.\.\., full_output=\.\.\.\) is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_what_is_refused(function, words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        jit(function)(RATES)


@pytest.mark.parametrize(
    ("times", "words"), [([0.0, 3.0], "not within"), ([1.0, 0.5], "sorted"), ([[1.0]], "1-dim")]
)
def test_times_that_are_none_of_the_solution(times, words):
    with pytest.raises(ValueError, match=words):
        jit(lambda r: solve(integrate, r, (0.0, 2.0), t_eval=times).y)(RATES)


def test_times_that_are_not_known_are_nan_where_scipy_raises():
    at = jit(lambda times: solve(integrate, RATES, (2.0, 0.0), t_eval=times).y)
    expected = solve(scipy.integrate, RATES, (2.0, 0.0), t_eval=[1.5, 0.5]).y
    found = at(np.array([2.5, 1.5, 1.5, 1.9, 0.5, -0.1]))
    np.testing.assert_allclose(found[:, [1, 2, 4]], expected[:, [0, 0, 1]], rtol=1e-9)
    assert np.all(np.isnan(found[:, [0, 3, 5]]))

    def by_odeint(times):
        return integrate.odeint(field, START, times, (RATES,), tfirst=True)

    times = np.array([0.0, 0.5, 2.0, 1.0])
    np.testing.assert_array_equal(np.isnan(jit(by_odeint)(times)[:, 0]), [False, False, True, True])
    with pytest.raises(ValueError, match="monotonically"):
        jit(lambda r: by_odeint(times) * r)(1.0)


@pytest.mark.parametrize(("options", "words"), [
    ({"max_step": -1.0}, "max_step"), ({"first_step": 0.0}, "positive"),
    ({"first_step": 3.0}, "exceeds"), ({"atol": -1.0}, "atol"), ({"atol": [1e-3]}, "shape"),
])  # fmt: skip
def test_steps_and_tolerances_out_of_range(options, words):
    with pytest.raises(ValueError, match=words):
        jit(lambda r: solve(integrate, r, (0.0, 2.0), t_eval=[1.0], **options).y)(RATES)


# -- stiff problems, events, dense output ----------------------------------------------------------


def robertson(k, method, **options):
    def reactions(t, y):
        fast = 1e4 * y[1] * y[2]
        return [-k * y[0] + fast, k * y[0] - fast - 3e7 * y[1] ** 2, 3e7 * y[1] ** 2]

    given = {"t_eval": [1.0, 10.0, 40.0], "rtol": 1e-8, "atol": 1e-10, **options}
    return scipy.integrate.solve_ivp(reactions, (0, 40.0), [1.0, 0, 0], method, **given)


@pytest.mark.full
@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_methods(method):
    expected = robertson(0.04, "Radau", rtol=1e-11, atol=1e-13).y
    found = vmap(lambda k: robertson(k, method).y)(np.array([0.04, 0.05]))
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


@pytest.mark.full
def test_derivatives_of_implicit_steps():
    slope = jacrev(lambda k: robertson(k, "Radau").y[:, -1])(0.04)
    ends = [robertson(k, "Radau", rtol=1e-11, atol=1e-13).y[:, -1] for k in (0.0401, 0.0399)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-4, rtol=1e-5)
    # they are those of the steps that were taken, and not of the exact solution
    rough = {"rtol": 1e-2, "atol": 1e-3, "first_step": 0.1, "max_step": 0.1, "t_eval": [0.5]}

    def last(k):
        return robertson(k, "Radau", **rough).y[0, 0]

    by_vmap = vmap(last)(np.array([0.04 + 1e-6, 0.04 - 1e-6]))
    np.testing.assert_allclose(grad(last)(0.04), (by_vmap[0] - by_vmap[1]) / 2e-6, rtol=1e-6)


@pytest.mark.full
def test_a_stiff_problem_where_the_steps_end():
    def oscillator(mu):
        return scipy.integrate.solve_ivp(
            lambda t, y: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]], (0, 3.0), [2.0, 0.0], "BDF",
            rtol=1e-8, atol=1e-9,
        ).y[0, -1]  # fmt: skip

    slope = (oscillator(10.001) - oscillator(9.999)) / 2e-3
    np.testing.assert_allclose(grad(oscillator)(10.0), slope, rtol=1e-4)


def ground(t, y, *args):
    return y[0]


def apex(t, y, *args):
    return y[1]


def bounce(t, y, *args):
    return y[0]


ground.terminal, ground.direction = True, -1
bounce.terminal = 2


def thrown(g, events=(ground, apex), span=(0, 100.0), **options):
    return scipy.integrate.solve_ivp(
        lambda t, y, g: [y[1], -g], span, [10.0, 5.0], events=list(events), rtol=1e-8, atol=1e-10,
        args=(g,), **options,
    )  # fmt: skip


EVENTS = {
    "time": lambda g: thrown(g).t_events[0][0],
    "time of another": lambda g: thrown(g, method="DOP853").t_events[1][0],
    "implicit": lambda g: thrown(g, method="Radau").y_events[0][0][1],
    "height": lambda g: thrown(g).y_events[1][0][0],
    "last": lambda g: thrown(g).t[-1] * thrown(g).y[1, -1],
    "at times": lambda g: np.sum(thrown(g, t_eval=np.linspace(0, 5, 21)).y),
    "dense": lambda g: thrown(g, dense_output=True).sol(np.array([0.3, 1.7]))[1, 0],
    "dense before": lambda g: thrown(g, (), (1.0, 0.0), dense_output=True).sol(0.3)[0],
    "second": lambda g: thrown(g, [bounce], (0.0, -9.0)).y[0, -1],
}


@pytest.mark.parametrize("name", EVENTS)
def test_events(name):
    function = EVENTS[name]
    expected = function(9.81)
    np.testing.assert_allclose(grad(lambda a: a * function(9.81))(1.0), expected, rtol=1e-7)
    seen = []

    def values(g):
        seen.append(function(g))
        return seen[-1]

    slope = (function(9.81 + 1e-4) - function(9.81 - 1e-4)) / 2e-4
    np.testing.assert_allclose(grad(values)(9.81), slope, rtol=1e-5, atol=1e-6)


def test_what_is_said_of_events():
    plain = thrown(9.81, t_eval=np.linspace(0, 5, 21))
    seen = []

    def function(g):
        found = thrown(g, t_eval=np.linspace(0, 5, 21))
        seen.append((found.status, found.message, found.y.shape, [len(t) for t in found.t_events]))
        nothing = thrown(g, [lambda t, y, g: y[0] + 1e9], (0.0, 1.0))
        seen.append((nothing.status, nothing.t_events[0].shape, nothing.y_events[0].shape))
        return g

    grad(function)(9.81)
    assert seen[0] == (1, plain.message, plain.y.shape, [1, 1])
    assert seen[1] == (0, (0,), (0,))


def test_a_dense_output_under_jit():
    def at(g):
        found = scipy.integrate.solve_ivp(
            lambda t, y: [y[1], -g], (0, 2.0), [10.0, 5.0], t_eval=[1.0], dense_output=True,
            rtol=1e-8,
        )  # fmt: skip
        return found.sol(np.array([1.5, 0.2]))[0]

    np.testing.assert_allclose(vmap(at)(np.array([9.81]))[0], at(9.81), rtol=1e-8)


def test_a_dense_output_of_a_traced_interval():
    places = np.array([1.1, 0.2, 2.5])
    expected = solve(scipy.integrate, RATES, (0.0, 2.0), dense_output=True).sol(places)
    found = jit(lambda end: solve(
        integrate, RATES, (0.0, end), t_eval=np.zeros(0), dense_output=True
    ).sol(places))(2.0)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_events_under_jit_are_refused():
    with pytest.raises(errors.UnsupportedNumPyError, match=r"events=.*: find the time by functra"):
        vmap(lambda g: thrown(g, t_eval=[1.0]).y)(np.ones(2))


def test_single_precision_is_converted_as_in_scipy():
    start, rates = START.astype(np.float32), RATES.astype(np.float32)
    expected = solve(scipy.integrate, rates, (0.0, 2.0), t_eval=[2.0], y0=start, rtol=1e-10).y
    found = jit(lambda y: solve(integrate, rates, (0.0, 2.0), t_eval=[2.0], y0=y, rtol=1e-10).y)
    np.testing.assert_allclose(found(start), expected, rtol=1e-9)
    by_odeint = jit(lambda y: integrate.odeint(lambda y, t: -y, y, np.array([0.0, 1.0])))(start)
    np.testing.assert_allclose(by_odeint[1], start * np.exp(-1.0), rtol=1e-7)
