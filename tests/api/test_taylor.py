"""jet and derivatives: against mpmath, against nested jvp, through loops and branches."""

import mpmath
import numpy as np
import pytest

from functrans import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    derivatives,
    grad,
    jet,
    jit,
    jvp,
    lax,
    trace,
    vmap,
)
from functrans import numpy as fnp
from functrans.errors import NotDifferentiableError, ShapeError, TreeMismatchError
from functrans.transform.taylor import taylor_graph

ORDER = 6
RNG = np.random.default_rng(0)

FUNCTIONS = {
    "rational of exp and sin": (
        lambda x: np.exp(np.sin(x)) / (1 + x * x),
        lambda x: mpmath.exp(mpmath.sin(x)) / (1 + x * x),
    ),
    "powers": (lambda x: x**2.5 + 3.0**x + x**5, lambda x: x**2.5 + mpmath.mpf(3) ** x + x**5),
    "tanh of log": (
        lambda x: np.tanh(np.log(x) * np.sqrt(x)),
        lambda x: mpmath.tanh(mpmath.log(x) * mpmath.sqrt(x)),
    ),
    "arctan and hyperbolic": (
        lambda x: np.arctan(x) * np.cosh(x) + np.log1p(x),
        lambda x: mpmath.atan(x) * mpmath.cosh(x) + mpmath.log1p(x),
    ),
}


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_mpmath(name, around):
    ours, theirs = FUNCTIONS[name]
    with mpmath.workdps(30):
        expected = [float(mpmath.diff(theirs, mpmath.mpf("0.7"), k)) for k in range(ORDER + 1)]
    np.testing.assert_allclose(around(derivatives(ours, ORDER))(0.7), expected, rtol=1e-11)


def nested(f, x, order):
    """Derivatives of a function of one number, by jvp of jvp."""
    found = [f]
    for _ in range(order):
        before = found[-1]
        found.append(lambda t, before=before: jvp(before, (t,), (1.0,))[1])
    return [g(x) for g in found]


def looped(x):
    def step(c, k):
        return np.sin(c * x) + k * c, c * c

    last, ys = lax.scan(step, x * 0.5, np.array([0.1, -0.2, 0.3]))
    return last + (ys * np.array([1.0, 2.0, 3.0])).sum()


def backwards(x):
    return lax.scan(lambda c, k: (np.exp(-c) * k, None), x, np.arange(1.0, 4.0), reverse=True)[0]


def halved(x):
    return lax.while_loop(lambda c: c > 0.4, lambda c: np.sin(c) * 0.7 * x, x * x)


def chosen(x):
    return lax.cond(x > 0, lambda x: (np.sin(x), x), lambda x: (x, np.cos(x)), x)[0] * x


def switched(x):
    return lax.switch(1, [np.cos, lambda x: x**3, np.exp], x * x)


@custom_jvp
def softened(x):
    return np.sqrt(x * x + 1.0)


@softened.defjvp
def softened_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    y = softened(x)
    return y, x / y * dx


def solved(x):
    a = fnp.array([[2.0 + x, 1.0], [x * x, 3.0]])
    return np.linalg.solve(a, fnp.array([np.sin(x), 1.0])).sum() + np.linalg.det(a)


PROGRAMS = {
    "scan": looped,
    "scan backwards": backwards,
    "while_loop": halved,
    "cond": chosen,
    "switch": switched,
    "a jitted function": jit(looped),
    "checkpoint": checkpoint(looped),
    "custom_jvp": lambda x: softened(x) * softened(x * x),
    "linear algebra": solved,
    "a gradient": grad(looped),
    "a gradient of a while loop": grad(halved),
    "vmap": lambda x: vmap(lambda k: np.sin(k * x))(np.arange(3.0)).sum(),
    "root": lambda x: lax.custom_root(
        lambda z: z * z - x, 1.0, lambda f, z: np.sqrt(x), lambda f, y: y / f(1.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_nested_jvp(name, around):
    f = PROGRAMS[name]
    expected = nested(f, 0.9, 4)
    np.testing.assert_allclose(around(derivatives(f, 4))(0.9), expected, rtol=1e-9, atol=1e-12)


def test_a_curve_through_several_arguments():
    """``f(x(t), y(t))`` by the chain of one number."""
    x, y = RNG.normal(size=(3, 2)), {"b": RNG.normal(size=2)}
    xs = [RNG.normal(size=(3, 2)) for _ in range(4)]
    ys = [{"b": RNG.normal(size=2)} for _ in range(4)]

    def f(x, y):
        return {"out": np.tanh(x @ y["b"]), "sum": (x * y["b"]).sum()}

    def along(t):
        factors = [t, t**2 / 2, t**3 / 6, t**4 / 24]
        at_x = x + sum(a * b for a, b in zip(factors, xs, strict=True))
        at_y = y["b"] + sum(a * b["b"] for a, b in zip(factors, ys, strict=True))
        return f(at_x, {"b": at_y})

    value, found = jet(f, (x, y), (xs, ys))
    expected = derivatives(along, 4)(0.0)
    by_nesting = nested(along, 0.0, 4)
    for key in ("out", "sum"):
        np.testing.assert_allclose(value[key], f(x, y)[key])
        for k in range(4):
            np.testing.assert_allclose(found[k][key], expected[k + 1][key], rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(found[k][key], by_nesting[k + 1][key], rtol=1e-9, atol=1e-9)


def test_it_composes():
    f = lambda x: np.exp(np.sin(x))  # noqa: E731
    third = lambda x: derivatives(f, 3)(x)[3]  # noqa: E731
    np.testing.assert_allclose(grad(third)(0.3), derivatives(f, 4)(0.3)[4], rtol=1e-12)
    xs = np.linspace(0, 1, 5)
    mapped = jit(vmap(derivatives(f, 3)))(xs)
    np.testing.assert_allclose(np.transpose(mapped), [derivatives(f, 3)(x) for x in xs])
    inner = derivatives(lambda x: derivatives(f, 2)(x)[2], 2)(0.3)
    np.testing.assert_allclose(inner[2], derivatives(f, 4)(0.3)[4], rtol=1e-12)


def test_complex_numbers():
    found = derivatives(lambda z: np.exp(1j * z) / z, 5)(0.3 + 0.4j)
    with mpmath.workdps(30):
        f = lambda z: mpmath.exp(1j * z) / z  # noqa: E731
        expected = [complex(mpmath.diff(f, mpmath.mpc(0.3, 0.4), k)) for k in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_float32_stays():
    found = derivatives(np.sin, 3)(np.float32(0.5))
    assert [x.dtype for x in found] == [np.float32] * 4


def equations(f, order):
    return len(taylor_graph(trace(f)(0.3), (True,), order=order).graph.eqns)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_cost_grows_with_the_square_of_the_order(name):
    """With the cube, of real powers: those with each lower exponent are other functions."""
    f = FUNCTIONS[name][0]
    growth = equations(f, 16) / equations(f, 8), equations(f, 32) / equations(f, 16)
    assert max(growth) < (8 if name == "powers" else 4.5)


def test_a_layer_of_a_network_costs_as_many_products_as_a_series_has_orders():
    w = RNG.normal(size=(5, 5))
    graph = trace(lambda x, w: np.tanh(w @ np.tanh(w @ x)))(RNG.normal(size=5), w)
    products = [
        sum(e.primitive.name in ("matvec", "dot_general", "gemm") for e in found.graph.eqns)
        for found in (taylor_graph(graph, (True, False), order=k) for k in (4, 8))
    ]
    assert products == [10, 18]


def test_no_order_is_the_value():
    assert derivatives(np.sin, 0)(0.5) == [np.sin(0.5)]
    assert jet(np.sin, (0.5,), ((),)) == (np.sin(0.5), [])


def test_what_does_not_depend_on_the_argument_has_zeros():
    assert derivatives(lambda x: 3.0, 2)(1.0) == [3.0, 0.0, 0.0]
    assert derivatives(np.floor, 2)(1.5) == [1.0, 0.0, 0.0]


def test_results_are_the_callers_own():
    x, v = np.ones(3), np.ones(3)
    value, (first,) = jet(lambda x: x, (x,), ((v,),))
    value[0] = first[0] = 7.0
    assert x[0] == v[0] == 1.0


@pytest.mark.parametrize(
    ("primals", "series", "words"),
    [
        ((1.0,), (1.0,), "series[0] of jet must be a tuple or a list of derivatives"),
        ((1.0,), ((1.0,), (1.0,)), "a series for each argument of sin, a tuple of 1, not 2"),
        ((1.0, 2.0), ((1.0,), (1.0, 0.0)), "must be of one length, and are of lengths [1, 2]"),
    ],
)  # fmt: skip
def test_series_that_do_not_fit(primals, series, words):
    with pytest.raises(TreeMismatchError) as caught:
        jet(np.sin if len(primals) == 1 else np.add, primals, series)
    assert words in str(caught.value)


def test_a_coefficient_of_another_shape():
    with pytest.raises(ShapeError, match="the derivatives of order 2"):
        jet(np.sin, (np.ones(3),), ((np.ones(3), np.ones(2)),))


def test_an_array():
    with pytest.raises(ShapeError) as caught:
        derivatives(np.sin, 2)(np.ones(3))
    assert str(caught.value).startswith(
        "derivatives takes a function of one number, and sin was called with an array of shape "
        "(3,): write vmap(derivatives(f, order)) for each element"
    )


@pytest.mark.parametrize("order", [-1, 1.5, True])
def test_an_order_that_is_none(order):
    with pytest.raises(ValueError, match="order of derivatives must be 0 or more, not"):
        derivatives(np.sin, order)


def test_a_derivative_in_reverse_mode_only():
    @custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    with pytest.raises(NotDifferentiableError):
        derivatives(f, 2)(1.0)


@pytest.mark.parametrize("around", [lambda f: f, jit])
def test_derivatives_that_are_infinite(around):
    """The curve has no derivatives of higher orders: a 0 times infinity would be NaN."""
    with np.errstate(all="ignore"):
        assert around(derivatives(np.exp, 3))(1e3) == [np.inf] * 4
        assert around(derivatives(np.log, 3))(0.0) == [-np.inf, np.inf, -np.inf, np.inf]
