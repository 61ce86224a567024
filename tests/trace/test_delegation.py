"""Dispatch hooks in SciPy functions imported by name: ours in a trace, SciPy's otherwise."""

import inspect
import pickle
import sys
import threading
import traceback

import numpy as np
import pytest
import scipy.interpolate
from scipy import special, stats
from scipy.integrate import odeint, quad, simpson, solve_ivp
from scipy.interpolate import CubicSpline
from scipy.linalg import cholesky, solve
from scipy.ndimage import gaussian_filter
from scipy.optimize import brentq, curve_fit, minimize, nnls
from scipy.signal import convolve
from scipy.special import logsumexp
from scipy.stats import gamma, multivariate_normal, norm, skew

from functrans import config, errors, grad, jit, testing
from functrans.trace import delegation

TIMES = np.linspace(0.0, 1.0, 6)
assert quad(lambda x: x, 0.0, 2.0)[0] == 2.0  # a call from outside: all have their own code
CODES = {f: f.__code__ for f in (quad, cholesky, nnls, CubicSpline.__init__)}
SIGNATURES = {f: inspect.signature(f) for f in CODES}


@pytest.fixture(autouse=True)
def restored():
    yield
    assert quad(lambda x: x, 0.0, 2.0)[0] == 2.0
    assert all(f.__code__ is code for f, code in CODES.items())


PROGRAMS = {
    "quad": lambda a: quad(lambda x: np.exp(-a * x * x), 0, np.inf)[0],
    "odeint": lambda a: odeint(lambda y, t: -a * y, [1.0], TIMES)[-1, 0],
    "solve_ivp": lambda a: solve_ivp(lambda t, y: -a * y, (0, 1), [a], rtol=1e-9).y[0, -1],
    "simpson": lambda a: simpson(a * TIMES**2, x=TIMES),
    "brentq": lambda a: brentq(lambda x: x * x - a, 0, 5),
    "minimize": lambda a: minimize(lambda x: np.cosh(x[0] - a), [0.0], tol=1e-9).x[0],
    "curve_fit": lambda a: curve_fit(lambda x, p: p * x, TIMES, a * TIMES)[0][0],
    "cholesky": lambda a: cholesky(a * np.eye(2) + 0.1, lower=True).sum(),
    "solve": lambda a: solve(a * np.eye(2) + 0.1, np.ones(2)).sum(),
    "convolve": lambda a: convolve(a * TIMES, TIMES).sum(),
    "gaussian_filter": lambda a: gaussian_filter(a * TIMES, 1.0)[0],
    "logsumexp": lambda a: logsumexp(a * TIMES),
    "spherical harmonic": lambda a: special.sph_harm_y(2, 1, a, 0.3).real,
    "spline": lambda a: CubicSpline(TIMES, np.sin(a * TIMES))(0.5),
    "norm": lambda a: norm(a, 2.0).logpdf(1.0) + stats.norm.cdf(1.0, loc=a),
    "gamma": lambda a: gamma(a, scale=a).logpdf(1.0) + gamma.mean(a),
    "normal": lambda a: multivariate_normal(a * np.ones(2), np.eye(2)).logpdf(np.zeros(2)),
    "fixed normal": lambda a: multivariate_normal(np.zeros(2)).logpdf(a * np.ones(2)),
    "skew": lambda a: skew(a**TIMES),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_people_write_them(name):
    program = PROGRAMS[name]
    np.testing.assert_allclose(grad(lambda a: a * program(1.5))(1.0), program(1.5), rtol=1e-6)
    testing.check_grads(program, (1.5,), order=1, rtol=1e-3)


# -- who sees it -----------------------------------------------------------------------------------


def test_functions_are_what_they_were():
    seen = []

    def function(a):
        assert quad is scipy.integrate.quad
        assert pickle.loads(pickle.dumps(quad)) is quad
        assert {f: inspect.signature(f) for f in CODES} == SIGNATURES
        assert "def quad(" in inspect.getsource(quad)
        assert nnls.__code__.co_freevars == CODES[nnls].co_freevars
        seen.append(quad.__code__ is CODES[quad])
        return quad(lambda x: a * x, 0, 1)[0]

    assert grad(function)(2.0) == 0.5
    assert seen == [False]


def test_signatures_are_read_when_they_are_asked_for():
    theirs = inspect.signature(lambda a, /, b=2, *, c: None)
    asked = []

    class Function:
        @property
        def __signature__(self):
            asked.append(1)
            return theirs

        def __call__(self):
            """Only its signature is read."""

    ours = delegation._Signature.of(Function())
    assert not asked
    assert ours == theirs and str(ours) == str(theirs) and hash(ours) == hash(theirs)
    assert ours.bind(1, c=3) == theirs.bind(1, c=3)
    assert ours.replace(parameters=[]) == theirs.replace(parameters=[])
    assert pickle.loads(pickle.dumps(ours)) == theirs and not hasattr(ours.replace(), "other")


def test_other_threads_have_scipys():
    tracing, done = threading.Event(), threading.Event()
    seen = []

    def other():
        tracing.wait(10)
        seen.append(type(quad(lambda x: x, 0, 1)[1]))
        seen.append(type(scipy.interpolate.CubicSpline(TIMES, TIMES)).__module__)
        done.set()

    def function(a):
        tracing.set()
        done.wait(10)
        return a

    thread = threading.Thread(target=other)
    thread.start()
    grad(function)(1.0)
    thread.join()
    assert seen == [float, "scipy.interpolate._cubic"]


def test_what_is_not_traced_is_scipys():
    spline = CubicSpline(TIMES, TIMES)

    def function(a):
        assert type(spline(0.5)) is np.ndarray
        assert type(norm.logpdf(1.0)) is np.float64
        return a * nnls(np.eye(2), np.ones(2))[0].sum()

    assert grad(function)(1.0) == 2.0


def test_they_are_restored_after_errors():
    def function(a):
        raise KeyError(a)

    with pytest.raises(KeyError):
        jit(function)(1.0)
    assert quad(lambda x: x, 0.0, 2.0)[0] == 2.0  # the first call from outside
    assert {f: f.__code__ for f in CODES} == CODES


def test_traces_that_follow_one_another_exchange_nothing(monkeypatch):
    """There are hundreds of functions, and a gradient is two traces."""
    slope = grad(lambda a: a * 2.0)
    slope(1.0)
    assert quad.__code__ is not CODES[quad]
    with monkeypatch.context() as patched:
        patched.setattr(delegation, "_codes", None)  # which is not gone through
        assert slope(1.0) == 2.0
    assert quad(lambda x: x, 0.0, 2.0)[0] == 2.0
    assert quad.__code__ is CODES[quad]


def test_errors_of_the_users_show_scipys_place():
    with pytest.raises(TypeError) as caught:
        grad(lambda a: cholesky(a * np.eye(2), nonsense=True))(1.0)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any("scipy" in frame.filename for frame in frames)


def test_a_traceback_shows_the_line_that_defines_the_function():
    with pytest.raises(ValueError, match="do not fit") as caught:
        grad(lambda y: CubicSpline(TIMES, y)(0.5))(np.ones(2))
    lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(line.startswith("def __init__(self, x, y") for line in lines)


def test_frames_of_functions_with_closures_can_be_read():
    names = set()

    def look(frame, event, argument):
        names.update(frame.f_locals)

    sys.settrace(look)
    try:
        slope = grad(lambda a: nnls(np.eye(2), np.array([1.0, a]))[0].sum())(1.0)
    finally:
        sys.settrace(None)
    assert slope == 1.0
    assert {"args", "kwargs"} <= names


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(config, "patch_numpy", False)
    with pytest.raises(errors.TracerConversionError, match=r"call functrans\.scipy\.linalg\.chol"):
        grad(lambda a: cholesky(a * np.eye(2)).sum())(2.0)


# -- on its own ------------------------------------------------------------------------------------


def test_a_function_of_a_library():
    def theirs(x, y=2):
        return ("theirs", x, y)

    delegation.delegate(
        theirs, lambda *args: ("ours", *args), lambda frame, args, kwargs: len(args) == 2
    )
    seen = []

    def function(a):
        seen.extend([theirs(1), theirs(1, 3), delegation.own(theirs)(1, 3)])
        return a

    grad(function)(1.0)
    assert seen == [("theirs", 1, 2), ("ours", 1, 3), ("theirs", 1, 3)]
    assert theirs(1, 3) == ("theirs", 1, 3)


def test_a_generator_function_stays_one():
    """Python 3.13 warns where a function of another kind takes the place of one."""

    def theirs(x):
        yield from ("theirs", x)

    delegation.delegate(
        theirs, lambda x: iter(("ours", x)), lambda frame, args, kwargs: args == (1,)
    )
    seen = []

    def function(a):
        assert inspect.isgeneratorfunction(theirs)
        seen.extend([*theirs(1), *theirs(2)])
        return a

    grad(function)(1.0)
    assert seen == ["ours", 1, "theirs", 2]
    assert list(theirs(1)) == ["theirs", 1]
