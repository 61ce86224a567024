"""Every tool on four programs: the digits example, a scan, a mapped while loop, a planted fault."""

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrans import debug, grad, jit, lax, value_and_grad, vmap
from functrans.errors import NonFiniteError

SOURCE = Path(__file__).parents[2] / "examples" / "digits.py"
RNG = np.random.default_rng(0)


class Program(NamedTuple):
    """A function with its arguments, others that make a NaN, and the lines to be named."""

    function: Any
    arguments: tuple
    faulty: tuple
    fault: str
    """The line that the NaN begins on."""
    busy: str
    """A line that takes some of the time."""
    named: tuple = ()
    """What `debug.name` has named in it."""


def digits():
    spec = importlib.util.spec_from_file_location("examples_digits", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    params = module.init(RNG)
    x, y = RNG.uniform(size=(200, 64)), np.eye(10)[RNG.integers(0, 10, 200)]
    broken = [dict(layer) for layer in params]
    broken[0]["w"] = broken[0]["w"].copy()
    broken[0]["w"][:, 3] = 1e308
    return Program(
        module.loss, (params, x, y), (broken, x, y),
        "x = np.maximum(x @ layer", "x = np.maximum(x @ layer", (),
    )  # fmt: skip


def states(x):
    def step(c, r):
        c = debug.name(np.sqrt(c * r), "state")
        return c, c

    return np.sum(lax.scan(step, x, np.linspace(1.0, 2.0, 400))[1])


def roots(a):
    def root(a):
        def closer(state):
            i, x = state
            return i + 1, 0.5 * (x + a / x)

        def goes_on(state):
            i, x = state
            return (i < 2) | (np.abs(x * x - a) > 1e-9)

        return lax.while_loop(goes_on, closer, (0, 2.0 * a))[1]

    return np.sum(np.log(vmap(root)(a)))


def planted(w, x):
    h = debug.name(np.tanh(x @ w), "hidden")
    scale = np.sqrt(np.sum(h**2, axis=1))
    return np.sum(h / scale[:, None])


PROGRAMS = {
    "digits": digits,
    "a scan": lambda: Program(
        states, (np.full(30, 2.0),), (np.r_[np.full(29, 2.0), -1.0],),
        'c = debug.name(np.sqrt(c * r), "state")', "c = debug.name(np.sqrt(c * r)", ("state",),
    ),
    "a mapped while loop": lambda: Program(
        roots, (RNG.uniform(1, 9, 500),), (np.zeros(3),),
        "return i + 1, 0.5 * (x + a / x)", "return i + 1, 0.5 * (x + a / x)",
    ),
    "a planted fault": lambda: Program(
        planted, (RNG.normal(size=(40, 30)), RNG.normal(size=(300, 40))),
        (RNG.normal(size=(40, 30)), np.vstack([RNG.normal(size=(5, 40)), np.zeros(40)])),
        "return np.sum(h / scale[:, None])", "h = debug.name(np.tanh(x @ w)", ("hidden",),
    ),
}  # fmt: skip

ALL = pytest.mark.parametrize("name", PROGRAMS)


@ALL
@pytest.mark.parametrize("transform", [lambda f: f, jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("derivative", [lambda f: vmap(f, axis_size=1, in_axes=None), grad],
                         ids=["the function", "its gradient"])  # fmt: skip
def test_nans_names_the_line(name, transform, derivative):
    program = PROGRAMS[name]()
    function = transform(derivative(program.function))
    with debug.nans(infinities=name == "digits"):  # there it is an overflow
        function(*program.arguments)
        with pytest.raises(NonFiniteError) as caught:
            function(*program.faulty)
    assert program.fault in str(caught.value)


@pytest.mark.dear
@pytest.mark.few(2)
@ALL
def test_explain_and_profile_have_the_lines(name):
    program = PROGRAMS[name]()
    function = jit(value_and_grad(program.function))
    report = debug.explain(function, repeats=2)(*program.arguments)
    texts = [line.source.text for line in report.lines if line.source is not None]
    assert any(program.busy in text for text in texts)
    with debug.profile() as seen:
        function(*program.arguments)
    assert any(program.busy in row.what for row in seen.by_line())
    shown = repr(seen)
    assert "by kernel:" in shown
    assert program.busy in report._repr_html_().replace("&quot;", '"')


@ALL
def test_trace_back_and_record(name):
    program = PROGRAMS[name]()
    back = debug.trace_back(grad(program.function))(*program.arguments)
    assert back.visits[0].cotangents.largest > 0
    assert any(program.busy in visit.source.text for visit in back.visits)
    seen = debug.record(grad(program.function))(*program.arguments)
    assert tuple(seen.values) == program.named
    assert tuple(seen.cotangents) == program.named


@ALL
def test_why_compiled(name):
    program = PROGRAMS[name]()
    function = jit(program.function)
    function(*program.arguments)
    assert [one.reasons for one in debug.why_compiled(function).compilations] == [()]
