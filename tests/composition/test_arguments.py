"""Arguments and results of transforms: pytrees, argnums, has_aux, axes, keywords, names."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import functrans as ft
from functrans import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)

X = np.array([1.0, 2.0, 3.0])

Layer = namedtuple("Layer", ["weight", "bias"])


@ft.tree.register_dataclass
@dataclass
class Model:
    layer: Any
    scale: Any


def energy(params):
    """A number, from every leaf of a nest of containers."""
    leaves = ft.tree.leaves(params)
    return sum((i + 1.0) * np.sum(x**3) for i, x in enumerate(leaves))


TREES = {
    "tuple": (X, 2.0),
    "list": [X, [2.0, X]],
    "dict": {"b": X, "a": {"c": 2.0}},
    "ordered dict": OrderedDict(b=X, a=2.0),
    "namedtuple": Layer(X, 2.0),
    "dataclass": Model(Layer(X, 2.0), X),
    "None": {"a": None, "b": (X, None)},
    "empty": {"a": (), "b": [X, {}]},
    "number": 2.0,
    "scalars": [np.float64(2.0), np.array(3.0)],
}


@pytest.mark.parametrize("form", [lambda f: f, jit, checkpoint], ids=["eager", "jit", "checkpoint"])
@pytest.mark.parametrize("name", TREES)
def test_trees(name, form):
    params = TREES[name]
    weights = {id(x): i + 1.0 for i, x in enumerate(ft.tree.leaves(params))}
    assert len(weights) >= 1
    numbers = iter(range(1, 100))
    expected = ft.tree.map(lambda x: 3.0 * next(numbers) * np.asarray(x) ** 2, params)
    structure = ft.tree.structure(params)
    value, gradient = value_and_grad(form(energy))(params)
    assert value == pytest.approx(energy(params))
    derivatives = [
        gradient,
        grad(form(energy))(params),
        form(grad(energy))(params),
        vjp(form(energy), params)[1](1.0)[0],
        jacrev(form(energy))(params),
        jacfwd(form(energy))(params),
    ]
    for derivative in derivatives:
        assert ft.tree.structure(derivative) == structure
        for a, b in zip(ft.tree.leaves(derivative), ft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b)
            assert np.shape(a) == np.shape(b)
    ones = ft.tree.map(lambda x: np.ones(np.shape(x)), params)
    total = sum(np.sum(x) for x in ft.tree.leaves(expected))
    assert jvp(form(energy), (params,), (ones,))[1] == pytest.approx(total)
    assert linearize(form(energy), params)[1](ones) == pytest.approx(total)
    second = hvp(form(energy))(params, ones)
    numbers = iter(range(1, 100))
    for a, x in zip(ft.tree.leaves(second), ft.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a, 6.0 * next(numbers) * np.asarray(x))
    stacked = ft.tree.map(lambda x: np.stack([np.asarray(x)] * 2), params)
    for a, b in zip(
        ft.tree.leaves(vmap(grad(form(energy)))(stacked)), ft.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(a, np.stack([np.asarray(b)] * 2))


def test_hessians_of_trees():
    def f(p):
        return p["a"] ** 2 * np.sum(p["b"] ** 2)

    p = {"a": 2.0, "b": X}
    second = hessian(f)(p)
    assert second["a"]["a"] == pytest.approx(2 * 14)
    np.testing.assert_allclose(second["a"]["b"], 8 * X)
    np.testing.assert_allclose(second["b"]["a"], 8 * X)
    np.testing.assert_allclose(second["b"]["b"], 8 * np.eye(3))
    both = hessian(lambda a, b: a**2 * np.sum(b**2), argnums=(1, 0))(2.0, X)
    np.testing.assert_allclose(both[0][0], 8 * np.eye(3))
    np.testing.assert_allclose(both[0][1], 8 * X)
    assert both[1][1] == pytest.approx(2 * 14)


def test_jacobians_of_trees():
    def f(p, q):
        return {"u": p["a"] * q, "v": [p["b"] ** 2]}

    p, q = {"a": X, "b": 3.0}, 2.0
    for jacobian in (jacfwd, jacrev):
        result = jacobian(f, argnums=(0, -1))(p, q)
        np.testing.assert_allclose(result["u"][0]["a"], 2 * np.eye(3))
        assert list(result["u"][0]["b"]) == [0.0] * 3
        np.testing.assert_allclose(result["u"][1], X)
        assert result["v"][0][0]["b"] == 6.0
        assert result["v"][0][1] == 0.0


# -- argnums and keywords --------------------------------------------------------------------------


def product(x, y, z=5.0, *, power=1):
    return x * y**2 * z**power


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [
        (0, 45.0),
        (1, 60.0),
        (-1, 18.0),
        (-3, 45.0),
        ((0,), (45.0,)),
        ((2, 0), (18.0, 45.0)),
        ([1, -1], (60.0, 18.0)),
        (np.int64(1), 60.0),
        ((), ()),
    ],
)
@pytest.mark.parametrize("transform", [grad, jacfwd, jacrev])
def test_argnums(transform, argnums, expected):
    assert transform(product, argnums=argnums)(2.0, 3.0, 5.0) == expected
    assert jit(transform(product, argnums=argnums))(2.0, 3.0, 5.0) == expected


def test_keywords_and_defaults():
    assert grad(product)(2.0, 3.0) == 45.0
    assert grad(product)(2.0, y=3.0, power=2) == 225.0
    assert grad(product, argnums=1)(2.0, 3.0, power=2) == 300.0
    assert jit(product)(2.0, y=3.0) == 90.0
    assert checkpoint(product)(2.0, y=3.0, power=2) == 450.0
    assert grad(checkpoint(product))(2.0, y=3.0, power=2) == 225.0
    np.testing.assert_array_equal(vmap(product)(X, y=X), 5 * X**3)
    # an argument that is differentiated outside and a keyword inside
    assert grad(lambda y: grad(product)(1.0, y=y))(3.0) == 30.0


def test_partials_and_bound_arguments():
    bound = functools.partial(product, 2.0, power=2)
    assert grad(bound)(3.0) == 300.0
    assert jit(bound)(3.0) == 450.0
    assert grad(functools.partial(np.multiply, 3.0))(2.0) == 3.0


# -- auxiliary data --------------------------------------------------------------------------------

AUX = {"value": X, "name": "text", "none": None, "number": 3, "function": len}


def with_aux(x):
    return np.sum(x**3), {**AUX, "traced": x * 2.0, "mask": x > 1.5}


def check_aux(aux):
    assert aux["name"] == "text"
    assert aux["none"] is None
    assert aux["number"] == 3
    assert aux["function"] is len
    np.testing.assert_array_equal(aux["value"], X)
    np.testing.assert_array_equal(aux["traced"], 2 * X)
    np.testing.assert_array_equal(aux["mask"], X > 1.5)
    assert type(aux["traced"]) is np.ndarray


def test_has_aux_everywhere():
    derivative, aux = grad(with_aux, has_aux=True)(X)
    np.testing.assert_allclose(derivative, 3 * X**2)
    check_aux(aux)
    (value, aux), derivative = value_and_grad(with_aux, has_aux=True)(X)
    assert value == 36.0
    check_aux(aux)
    for transform in (jacfwd, jacrev):
        derivative, aux = transform(with_aux, has_aux=True)(X)
        np.testing.assert_allclose(derivative, 3 * X**2)
        check_aux(aux)
    second, aux = hessian(with_aux, has_aux=True)(X)
    np.testing.assert_allclose(second, np.diag(6 * X))
    check_aux(aux)
    along, aux = hvp(with_aux, has_aux=True)(X, np.ones(3))
    np.testing.assert_allclose(along, 6 * X)
    check_aux(aux)
    value, pullback, aux = vjp(with_aux, X, has_aux=True)
    np.testing.assert_allclose(pullback(1.0)[0], 3 * X**2)
    check_aux(aux)
    value, tangent, aux = jvp(with_aux, (X,), (np.ones(3),), has_aux=True)
    assert tangent == pytest.approx(42.0)
    check_aux(aux)
    value, pushforward, aux = linearize(with_aux, X, has_aux=True)
    assert pushforward(np.ones(3)) == pytest.approx(42.0)
    check_aux(aux)


def test_auxiliary_data_are_differentiated_by_an_outer_transform():
    def f(x):
        _, aux = grad(lambda y: (y**2, y**3), has_aux=True)(x)
        return aux

    assert grad(f)(2.0) == 12.0
    np.testing.assert_allclose(vmap(grad(f))(X), 3 * X**2)


# -- axes ------------------------------------------------------------------------------------------

TABLE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("out", [-3, -1, 0, 2])
def test_in_and_out_axes(axis, out):
    result = vmap(lambda x: 2.0 * x, in_axes=axis, out_axes=out)(TABLE)
    np.testing.assert_array_equal(result, np.moveaxis(2.0 * TABLE, axis, out))


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 7])
def test_axes_of_trees(chunk_size):
    def f(d, x, scale):
        return {"product": d["a"] * d["b"][0] * x, "scale": scale}

    d = {"a": np.arange(15.0).reshape(3, 5), "b": [2.0, None]}
    result = vmap(
        f,
        in_axes=({"a": -1, "b": None}, 0, None),
        out_axes={"product": 1, "scale": None},
        chunk_size=chunk_size,
    )(d, np.arange(5.0), 7.0)
    np.testing.assert_array_equal(result["product"], 2.0 * d["a"] * np.arange(5.0))
    assert result["scale"] == 7.0


def test_other_axes():
    np.testing.assert_array_equal(vmap(lambda: X, axis_size=2)(), [X, X])
    np.testing.assert_array_equal(vmap(np.sin, in_axes=None, axis_size=2)(1.0), [np.sin(1.0)] * 2)
    np.testing.assert_array_equal(vmap(lambda f, x: f(x), in_axes=(None, 0))(np.sin, X), np.sin(X))
    np.testing.assert_array_equal(vmap(np.dot, in_axes=[0, None])(np.eye(3), X), X)
    assert vmap(lambda x: x * 2.0)(np.zeros((0, 3))).shape == (0, 3)
    assert vmap(lambda x: x * 2.0, chunk_size=2)(np.zeros((0, 3))).shape == (0, 3)
    assert vmap(lambda x: (x.shape, x))(TABLE)[1].shape == TABLE.shape
    outer = vmap(vmap(np.multiply, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(outer(X, X), np.outer(X, X))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("transform", [jacfwd, jacrev, hessian])
def test_chunks_of_derivatives(transform, chunk_size):
    def f(p):
        return np.stack([np.sum(p["a"] ** 3) * p["b"], np.sum(np.sin(p["a"])), p["b"] ** 2])

    p = {"a": np.arange(6.0).reshape(2, 3), "b": 2.0}
    whole, parts = transform(f)(p), transform(f, chunk_size=chunk_size)(p)
    for a, b in zip(ft.tree.leaves(whole), ft.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(a, b)
    compiled = jit(transform(f, chunk_size=chunk_size))(p)
    for a, b in zip(ft.tree.leaves(whole), ft.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# -- decorators ------------------------------------------------------------------------------------

WITH_OPTIONS = [
    (grad, {"argnums": 1}),
    (value_and_grad, {"argnums": 1}),
    (vmap, {"in_axes": 0}),
    (jacfwd, {"argnums": 1}),
    (jacrev, {"argnums": 1}),
    (hessian, {"argnums": 1}),
    (hvp, {"argnums": 1}),
    (jit, {"static_argnames": "power"}),
    (checkpoint, {"policy": "dots"}),
    (custom_jvp, {"nondiff_argnums": 0}),
    (custom_vjp, {"nondiff_argnums": 0}),
]


@pytest.mark.parametrize(
    ("transform", "options"), WITH_OPTIONS, ids=[t.__name__ for t, _ in WITH_OPTIONS]
)
def test_decorators_keep_names_docstrings_and_signatures(transform, options):
    def plain(x, y, *, power: int = 2):
        """What it does."""
        return x * y**power

    for decorated in (transform(plain), transform(**options)(plain), transform(plain, **options)):
        assert decorated.__name__ == "plain"
        assert decorated.__qualname__ == plain.__qualname__
        assert decorated.__doc__ == "What it does."
        assert decorated.__module__ == __name__
        assert inspect.signature(decorated) == inspect.signature(plain)
        assert decorated.__wrapped__ is plain


def test_decorators_with_options_apply_them():
    @grad(argnums=1)
    def by_second(x, y):
        return x * y**2

    @vmap(in_axes=(0, None), out_axes=1)
    def mapped(x, y):
        return x * y

    @jit(static_argnames="power")
    def powered(x, power=2):
        return x**power if power > 1 else x

    assert by_second(2.0, 3.0) == 12.0
    np.testing.assert_array_equal(mapped(X, X), np.outer(X, X))
    assert powered(3.0) == 9.0 == powered(3.0, power=2)
    assert powered(3.0, 1) == 3.0


@dataclass(frozen=True)
class Options:
    sign: float


def first_of(n):
    """The number that a static value has inside."""
    n = n.sign if isinstance(n, Options) else n
    return np.real(next(iter(n)) if isinstance(n, (tuple, frozenset)) else n)


def filled(x, n):
    return x * np.ones(n).sum()


@pytest.mark.parametrize("number", [1, -1])
def test_what_is_static_by_number_may_be_given_by_name(number):
    f = jit(filled, static_argnums=number)
    assert [f(2.0, 3), f(2.0, n=4), f(x=2.0, n=5)] == [6.0, 8.0, 10.0]

    class Model:
        scale = 2.0

        @jit(static_argnums=(0, 2))
        def __call__(self, x, n):
            return x * np.ones(n).sum() * self.scale

    model = Model()
    assert [model(1.0, 3), model(1.0, n=4)] == [6.0, 8.0]
    assert pickle.loads(pickle.dumps(jit(filled, static_argnums=1)))(2.0, n=3) == 6.0


def test_static_values_that_compare_equal_are_told_apart():
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert [f(2, 3).dtype.kind, f(2, 3.0).dtype.kind, f(2, True).dtype.kind] == ["i", "f", "i"]
    for made in (float, np.float32, complex, Options, lambda x: (x,), lambda x: frozenset([x])):
        signed = jit(lambda x, n: x * np.copysign(1.0, first_of(n)), static_argnums=1)
        found = [signed(2.0, made(zero)) for zero in (0.0, -0.0, 0.0, -0.0)]
        assert found == [2.0, -2.0, 2.0, -2.0]


def test_types_of_results():
    assert type(grad(lambda x: x * x)(2.0)) is np.float64
    assert type(grad(lambda x: x * x)(np.float32(2.0))) is np.float32
    assert type(grad(np.sum)(X)) is np.ndarray
    assert grad(np.sum)(X.astype(np.float32)).dtype == np.float32
    assert hessian(np.sum)(X.astype(np.float32)).dtype == np.float32
    assert grad(np.sum)(np.zeros((0, 3))).shape == (0, 3)
    assert hessian(np.sum)(np.zeros(0)).shape == (0, 0)


def test_results_that_do_not_depend_on_the_argument():
    assert grad(lambda x: 3.0)(2.0) == 0.0
    np.testing.assert_array_equal(jacrev(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    np.testing.assert_array_equal(jacfwd(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    assert jvp(lambda x: (1.0, x), (2.0,), (1.0,)) == ((1.0, 2.0), (0.0, 1.0))
    assert vjp(lambda x: 1.0, 2.0)[1](1.0) == (0.0,)
    assert linearize(lambda x: 1.0, 2.0)[1](1.0) == 0.0
    assert grad(lambda x, y: y, argnums=(0, 1))(1.0, 2.0) == (0.0, 1.0)
    assert hessian(lambda x: np.sum(x))(X).tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize(
    "wrap, unwrap",
    [
        (lambda d: d, lambda d: d),
        (lambda d: [(d,)], lambda x: x[0][0]),
        (lambda d: Model(d, 1.0), lambda model: model.layer),
    ],
    ids=["dict", "containers", "dataclass"],
)
@pytest.mark.parametrize("transform", [lambda f: f, grad], ids=["value", "gradient"])
def test_a_dict_has_the_order_of_each_call(transform, wrap, unwrap):
    def first(tree):
        return next(iter(unwrap(tree).values())) ** 2

    plain, ruled = transform(first), custom_jvp(first)
    ruled.defjvp(lambda primals, tangents: jvp(first, primals, tangents))
    others = [jit(plain), transform(jit(first)), transform(ruled), jit(ruled)]
    for d in ({"a": 2.0, "b": 3.0}, {"b": 3.0, "a": 2.0}, {"a": 4.0, "b": 5.0}) * 2:
        assert [f(wrap(d)) for f in others] == [plain(wrap(d))] * 3 + [first(wrap(d))]


def test_keyword_arguments_have_the_order_of_each_call():
    f = jit(lambda **kwargs: next(iter(kwargs.values())) * 2.0)
    assert [f(a=1.0, b=2.0), f(b=2.0, a=1.0), f(a=1.0, b=2.0)] == [2.0, 4.0, 2.0]
