"""Tracebacks of errors have all frames of the user's program and none of the library."""

import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import functrans
from functrans import config, grad, hessian, jacrev, jit, jvp, lax, linearize, vjp, vmap
from functrans.api import derivatives

PACKAGE = str(Path(functrans.__file__).parent)


@pytest.fixture(autouse=True)
def hidden(monkeypatch):
    monkeypatch.setattr(config, "full_tracebacks", False)


def inner(x):
    return x @ np.ones(4)


def loss(x):
    return np.sum(inner(x))


def looped(x):
    return lax.scan(lambda carry, _: (inner(carry), 0.0), x, np.ones(5))[0]


def doubled():
    return vjp(lambda x: 2 * x, np.ones(3))[1]


X = np.ones(3)
FAILING = {
    "grad": (lambda: grad(loss)(X), ["loss", "inner"]),
    "jit": (lambda: jit(loss)(X), ["loss", "inner"]),
    "vmap": (lambda: vmap(loss)(np.ones((2, 3))), ["loss", "inner"]),
    "several": (lambda: jit(vmap(grad(loss)))(np.ones((2, 3))), ["loss", "inner"]),
    "jacrev": (lambda: jacrev(loss)(X), ["loss", "inner"]),
    "hessian": (lambda: hessian(loss)(X), ["loss", "inner"]),
    "vjp": (lambda: vjp(loss, X), ["loss", "inner"]),
    "jvp": (lambda: jvp(loss, (X,), (X,)), ["loss", "inner"]),
    "linearize": (lambda: linearize(loss, X), ["loss", "inner"]),
    "scan": (lambda: looped(X), ["looped", "<lambda>", "inner"]),
    "a scan in transforms": (
        lambda: jit(vmap(grad(looped)))(np.ones((2, 3))),
        ["looped", "<lambda>", "inner"],
    ),
    "a pullback": (lambda: doubled()(np.ones(4)), []),
    "the wrong number of arguments": (lambda: grad(loss)(X, X), []),
    "no function": (lambda: grad(3), []),
    "axes": (lambda: vmap(loss, in_axes=3)(X), []),
    "the user's own error": (lambda: grad(lambda x: 1 / 0)(1.0), ["<lambda>"]),
    "a name that is missing": (lambda: grad(lambda x: missing)(1.0), ["<lambda>"]),  # noqa: F821
}


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def frames(error):
    return traceback.extract_tb(error.__traceback__)


@pytest.mark.parametrize("name", FAILING)
def test_frames_are_the_programs(name):
    call, expected = FAILING[name]
    found = frames(raised(call))
    assert [frame.name for frame in found] == ["raised", "<lambda>", *expected]
    assert all(frame.filename == __file__ for frame in found)


def test_lines_are_those_that_failed():
    *_, last = frames(raised(lambda: jit(grad(loss))(X)))
    assert last.line == "return x @ np.ones(4)"


@pytest.mark.parametrize("name", FAILING)
def test_few_lines_are_printed(name):
    error = raised(FAILING[name][0])
    assert len("".join(traceback.format_exception(error)).splitlines()) <= 18


def test_all_frames_are_shown_where_they_are_asked_for(monkeypatch):
    monkeypatch.setattr(config, "full_tracebacks", True)
    found = frames(raised(FAILING["several"][0]))
    assert sum(frame.filename.startswith(PACKAGE) for frame in found) > 10


def test_errors_that_an_error_came_from_are_the_users_as_well():
    def careful(x):
        try:
            return inner(x)
        except ValueError as error:
            raise RuntimeError("no product") from error

    error = raised(lambda: grad(careful)(X))
    assert [frame.name for frame in frames(error)][2:] == ["careful"]
    assert [frame.name for frame in frames(error.__cause__)] == ["careful", "inner"]


def test_chains_may_be_circles():
    first, second = ValueError(), ValueError()
    first.__context__, second.__cause__ = second, first

    def failing(x):
        raise first

    assert raised(lambda: grad(failing)(1.0)) is first


def test_a_fault_of_the_library_keeps_its_frames(monkeypatch):
    monkeypatch.delattr(derivatives, "check_holomorphic_results")
    error = raised(lambda: grad(np.sum)(X))
    assert type(error) is NameError
    assert frames(error)[-1].filename.startswith(PACKAGE)


def test_what_is_raised_on_purpose_is_no_fault():
    error = raised(lambda: jit(lambda x: x[5])(X))
    assert type(error) is IndexError
    assert not any(frame.filename.startswith(PACKAGE) for frame in frames(error))


def test_interrupts_are_shown_at_the_users_line():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        jit(interrupted)(1.0)
    assert [frame.name for frame in frames(caught.value)][1:] == ["interrupted"]


def test_a_function_that_is_bounded_is_still_itself():
    assert grad.__name__ == "grad" and grad.__module__ == "functrans.api.derivatives"
    assert repr(grad(loss, argnums=(0,))) == "grad(loss, argnums=(0,))"
    assert sys.modules[grad.__module__].grad is grad
