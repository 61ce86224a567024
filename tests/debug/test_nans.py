"""debug.nans: the first NaN of a call is found, with the line, the operands and the step."""

import warnings

import numpy as np
import pytest

from functrans import (
    config,
    debug,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    lax,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)
from functrans.errors import NonFiniteError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def looking():
    with debug.nans():
        yield


def message(function, *args):
    with pytest.raises(NonFiniteError) as caught:
        function(*args)
    return str(caught.value)


def loss(w, x):
    h = np.tanh(x @ w)
    y = np.log(h)  # the fault
    return np.sum(y)


W = np.ones((3, 2))
X = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    "function",
    [jit(loss), vmap(loss, in_axes=(None, 0)), value_and_grad(loss), jit(value_and_grad(loss)),
     jit(vmap(value_and_grad(loss), in_axes=(None, 0)))],
    ids=["jit", "vmap", "value_and_grad", "jit of it", "per sample"],
)  # fmt: skip
def test_the_line_the_operands_and_the_element(function):
    first, second = message(function, W, X).splitlines()
    assert first.startswith("log gives NaN at test_nans.py:")
    assert first.endswith("(loss), `y = np.log(h)  # the fault`")
    assert second == f"  of operands {np.tanh(-3.0)}, element [2, 0] of float64[4, 2]"


def test_a_gradient_alone_may_be_finite():
    assert np.isfinite(grad(loss)(W, X)).all()
    assert np.isfinite(jit(grad(loss))(W, X)).all()


def step(c, x):
    c = c * 2.0 - x
    d = np.sqrt(c)  # in a step
    return d, d


def loop(x):
    return np.sum(lax.scan(step, x, np.arange(6.0))[1])


@pytest.mark.parametrize("function", [jit(loop), grad(loop), jit(grad(loop))])
def test_the_step_of_a_scan(function):
    c = 3.0
    for number in range(6):
        c = c * 2.0 - number
        if c < 0:
            break
        c = np.sqrt(c)
    first, second, third = message(function, 3.0).splitlines()
    assert "(step), `d = np.sqrt(c)  # in a step`" in first
    assert second == f"  of operands {c}"
    assert third.startswith(f"  in step {number} of the scan at test_nans.py:")


SECOND = ", element [1] of float64[2]"


def falling(x):
    def body(c):
        return np.log(c[0] - 0.5), c[1] + 1

    return lax.while_loop(lambda c: c[1] < 5, body, (x, 0))[0]


@pytest.mark.parametrize(
    ("function", "x", "element"),
    [(jit(falling), 2.0, ""), (vmap(falling), np.array([200.0, 2.0]), SECOND),
     (jit(vmap(falling)), np.array([200.0, 2.0]), SECOND)],
)  # fmt: skip
def test_the_step_of_a_while_loop_and_the_lane(function, x, element):
    first, second, third = message(function, x).splitlines()
    assert "(falling.<locals>.body)" in first
    assert second == f"  of operands {np.log(1.5) - 0.5}{element}"
    assert third.startswith("  in step 1 of the while_loop at ")


def test_the_steps_of_a_backward_loop_are_those_of_the_forward_one():
    def body(c, x):
        return c + np.sqrt(x), None  # whose slope is infinite at 0

    def total(xs, w):
        return lax.scan(body, 0.0, xs * w)[0]

    xs, w = np.array([1.0, 4.0, 7.0, 9.0]), np.array([1.0, 1.0, 0.0, 1.0])
    for function in (grad(total, argnums=1), jit(grad(total, argnums=1))):
        assert np.isinf(function(xs, w)[2])  # an infinite slope is none of its faults
    for function in (grad(total), jit(grad(total))):
        first, second, third = message(function, xs, w).splitlines()
        assert first.endswith("total), `return lax.scan(body, 0.0, xs * w)[0]`")
        assert second == "  of operands inf, 0.0, element [2] of float64[4]"
        assert (
            "`return c + np.sqrt(x), None  # whose slope is infinite at 0`, in step 2 of" in third
        )


def root(x):
    return np.sum(np.sqrt(x - x) * x)


@pytest.mark.parametrize("function", [grad(root), jit(grad(root)), jit(vmap(grad(root)))])
def test_a_derivative_is_named_by_its_forward_line(function):
    x = np.ones((2, 3)) if "vmap" in repr(function) else np.ones(3)
    first, _, third = message(function, x).splitlines()
    assert " gives NaN in the derivative of the line at test_nans.py:" in first
    assert first.endswith("(root), `return np.sum(np.sqrt(x - x) * x)`")
    assert third.startswith("  the infinity was made by divide in the derivative of the line at ")


def test_what_a_mask_takes_away_is_no_fault():
    def masked(x):
        return np.sum(np.where(x > 0, np.log(x), 0.0))

    x = np.array([1.0, -1.0])
    for function in (grad(masked), jit(masked), jit(grad(masked)), vmap(grad(masked))):
        given = x[None] if "vmap" in repr(function) else x
        assert np.isfinite(function(given)).all()


def test_nans_of_the_arguments_are_the_callers():
    x = np.array([np.nan, 1.0])
    assert np.isnan(jit(np.sin)(x)[0])
    assert np.isnan(grad(lambda x: np.nansum(x * x))(x)[0]) == np.isnan(0.0)


def test_infinities_count_if_that_is_asked():
    overflowing = jit(lambda x: np.exp(x) + 1.0)
    assert np.isinf(overflowing(1000.0))
    with debug.nans(infinities=True):
        assert message(overflowing, 1000.0).startswith("exp gives inf at test_nans.py:")
    assert np.isinf(overflowing(1000.0))


def roots(x):
    return np.sum(np.sqrt(x) * 2)


def logs(x):
    return np.log(x - 2.0)


AT = np.array([0.0, 1.0])


@pytest.mark.parametrize("call", [
    lambda: vjp(roots, AT)[1](1.0), lambda: vjp(jit(roots), AT)[1](1.0),
    lambda: jvp(roots, (AT,), (np.ones(2),)), lambda: linearize(roots, AT)[1](np.ones(2)),
    lambda: jit(lambda x: vjp(roots, x)[1](1.0))(AT), lambda: jacrev(roots)(AT),
    lambda: jacfwd(roots)(AT), lambda: vmap(grad(np.sqrt))(AT), lambda: hessian(roots)(AT),
    lambda: vjp(lambda x: (roots(x), x), AT, has_aux=True)[1](1.0),
])  # fmt: skip
def test_derivatives_of_every_kind(call):
    with debug.nans(infinities=True), pytest.raises(
        NonFiniteError, match=r"gives inf in the derivative of the line at test_nans.py"
    ):  # fmt: skip
        call()


@pytest.mark.parametrize("call", [
    lambda: vjp(logs, AT), lambda: linearize(logs, AT), lambda: jvp(logs, (AT,), (AT,)),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_values_of_a_point(call):
    with debug.nans(), pytest.raises(NonFiniteError, match=r"^log gives NaN at test_nans.py"):
        call()


def test_a_pullback_that_was_a_pytree_looks_at_what_it_gives():
    _, pull = jit(lambda x: vjp(lambda x: x * 3.0, x))(AT)
    with debug.nans(infinities=True):
        assert np.isinf(pull(np.array([np.inf, 0.0]))[0][0])  # the caller's own
        with pytest.raises(NonFiniteError, match="multiply gives inf in the derivative"):
            pull(np.array([1e308, 0.0]))


def test_a_branch_of_python():
    @jit
    def branching(x):
        if x[0] > 0:
            return np.log(-x)
        return x

    assert "`return np.log(-x)`" in message(branching, np.ones(2))
    assert branching(-np.ones(2))[0] == -1.0


def test_donated_arguments():
    donating = jit(lambda x: np.log(x - 2.0), donate_argnums=0)
    x = np.ones(4)
    assert "of operands -1.0" in message(donating, x)
    np.testing.assert_array_equal(x, np.ones(4))


def test_calls_that_native_code_remembers_are_looked_at():
    compiled = jit(lambda x: np.log(x))
    with warnings.catch_warnings():
        config.check_values = None
        for _ in range(3):
            compiled(1.0)
        config.check_values = "nan"
    assert "of operands -1.0" in message(compiled, -1.0)


def test_afterwards_it_is_as_before():
    config.check_values = None
    with debug.nans():
        assert config.check_values == "nan"
    assert config.check_values is None
    assert np.isnan(jit(np.log)(-1.0))


def test_a_value_that_makes_no_sense():
    with pytest.raises(ValueError, match="must be None, 'nan' or 'finite', not 'NaN'"):
        config.check_values = "NaN"


def test_a_compiled_program_looks_at_its_results_itself():
    f = jit(lambda x: (np.sqrt(x), x > 0, {"sum": np.sum(x)}))
    with debug.nans():
        root, positive, total = f(np.array([4.0, 9.0]))
        np.testing.assert_array_equal(root, [2.0, 3.0])
        assert positive.all()
        assert total == {"sum": 13.0}
        with pytest.raises(NonFiniteError, match="sqrt gives NaN"):
            f(np.array([4.0, -9.0]))
        # what the arguments have is theirs
        assert np.isnan(f(np.array([np.nan]))[0]).all()
    with debug.nans(infinities=True), pytest.raises(NonFiniteError, match="divide gives inf"):
        jit(lambda x: 1.0 / x)(np.zeros(3))
    with debug.nans():
        assert np.isinf(jit(lambda x: 1.0 / x)(np.zeros(3))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex128])
def test_flags_of_any_dtype(dtype):
    f = jit(lambda x: np.log(x) - np.log(x))
    x = np.array([1, 2, 0], dtype)
    with debug.nans():
        f(x[:2])
        with pytest.raises(NonFiniteError, match="subtract gives NaN"):
            f(x)


def test_results_that_are_no_floats_or_empty():
    with debug.nans():
        assert jit(lambda x: x > 0)(np.ones(3)).all()
        assert jit(lambda x: np.sqrt(x))(np.ones(0)).shape == (0,)
        assert jit(lambda x: (x, np.nan))(1.0)[0] == 1.0


@pytest.mark.parametrize("size", [1, 2, 17, 300, 2600, 300_000])
@pytest.mark.parametrize("infinities", [False, True])
def test_a_bad_element_anywhere_is_found(size, infinities):
    f = jit(lambda x, y: x / y)
    x, y = np.ones(size), np.full(size, 2.0)
    for place in {0, size // 3, size - 1}:
        bad_x, bad_y = x.copy(), y.copy()
        bad_y[place], bad_x[place] = 0.0, infinities
        with debug.nans(infinities=infinities):
            np.testing.assert_array_equal(f(x, y), x / y)
            with pytest.raises(NonFiniteError, match=rf"element \[{place}\] of float64\[{size}\]"):
                f(bad_x, bad_y)


def test_a_call_with_effects_makes_them_once():
    seen = []

    def f(x):
        debug.callback(lambda x: seen.append(float(x)), x)
        return np.sqrt(x) * x

    with debug.nans():
        assert np.isnan(jit(f)(np.nan))
        assert len(seen) == 1
        with pytest.raises(NonFiniteError):
            jit(f)(-1.0)


@pytest.mark.dear
def test_results_of_a_program_that_looks_are_those_of_one_that_does_not():
    f = jit(value_and_grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)))
    w, x = 0.1 * np.ones((5, 4)), np.ones((7, 5))
    with debug.nans():
        looked = f(w, x)
    for a, b in zip(looked, f(w, x), strict=True):
        np.testing.assert_array_equal(a, b)
