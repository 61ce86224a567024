"""Every transform of every transform, to third order, against a closed form.

Each transform is written as an operator on functions of one number: a first or second derivative,
or the identity. A composition of them must then be the derivative whose order is the sum of the
orders.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import functrans as ft
from functrans.errors import NotDifferentiableError

Function = Callable[[float], float]

RATE = 0.3 + 1.0j


def wave(x):
    """Imaginary part of exp(RATE x): its derivatives are known to every order."""
    return np.exp(0.3 * x) * np.sin(x)


def derivative_of_wave(x, order):
    return (RATE**order * np.exp(RATE * x)).imag


class Operator(NamedTuple):
    name: str
    order: int
    apply: Callable[[Function], Function]
    forward: bool = False
    """Whether a custom_vjp inside has no derivative: forward mode is not reverse mode's own."""


def by_vjp(f):
    def derivative(x):
        _, pullback = ft.vjp(f, x)
        (ct,) = pullback(1.0)
        return ct

    return derivative


def by_jvp(f):
    return lambda x: ft.jvp(f, (x,), (1.0,))[1]


def by_linearize(f):
    def derivative(x):
        _, pushforward = ft.linearize(f, x)
        return pushforward(1.0)

    return derivative


def by_transposed_linearization(f):
    def derivative(x):
        _, pushforward = ft.linearize(f, x)
        (ct,) = ft.linear_transpose(pushforward, 1.0)(1.0)
        return ct

    return derivative


def by_hvp(f):
    second = ft.hvp(f)
    return lambda x: second(x, 1.0)


def by_vmap(f):
    return lambda x: ft.vmap(f)(np.stack([x, 2.0 * x]))[0]


def by_unmapped_vmap(f):
    return lambda x: ft.vmap(lambda x, y: f(x) + 0.0 * y, in_axes=(None, 0))(x, np.ones(2))[1]


def by_custom_jvp(f):
    g = ft.custom_jvp(f)

    @g.defjvp
    def rule(primals, tangents):
        return ft.jvp(f, primals, tangents)

    return g


def by_custom_vjp(f):
    g = ft.custom_vjp(f)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: ft.vjp(f, x)[1](ct))
    return g


def by_stop_gradient(f):
    def unchanged(x):
        return f(x) + (ft.stop_gradient(x) - ft.stop_gradient(x)) * x

    return unchanged


OPERATORS = [
    Operator("grad", 1, ft.grad),
    Operator("value_and_grad", 1, lambda f: lambda x: ft.value_and_grad(f)(x)[1]),
    Operator("vjp", 1, by_vjp),
    Operator("jvp", 1, by_jvp, forward=True),
    Operator("linearize", 1, by_linearize, forward=True),
    Operator("linear_transpose", 1, by_transposed_linearization),
    Operator("jacfwd", 1, ft.jacfwd, forward=True),
    Operator("jacrev", 1, ft.jacrev),
    Operator("hessian", 2, ft.hessian),
    Operator("hvp", 2, by_hvp),
    Operator("vmap", 0, by_vmap),
    Operator("vmap-none", 0, by_unmapped_vmap),
    Operator("jit", 0, ft.jit),
    Operator("checkpoint", 0, ft.checkpoint),
    Operator("custom_jvp", 0, by_custom_jvp),
    Operator("custom_vjp", 0, by_custom_vjp),
    Operator("stop_gradient", 0, by_stop_gradient),
]


def composed(*operators: Operator) -> Function:
    """The operators applied to the wave, the last one first."""
    function: Function = wave
    for operator in reversed(operators):
        function = operator.apply(function)
    return function


def has_forward_over_custom_vjp(operators):
    innermost = max((i for i, o in enumerate(operators) if o.name == "custom_vjp"), default=0)
    return any(operator.forward for operator in operators[:innermost])


def can_be_composed(operators):
    # beyond the fourth derivative rounding is all that is left to compare
    return not has_forward_over_custom_vjp(operators) and sum(o.order for o in operators) <= 4


def check(operators):
    order = sum(operator.order for operator in operators)
    result = composed(*operators)(0.7)
    assert np.shape(result) == ()
    np.testing.assert_allclose(
        result, derivative_of_wave(0.7, order), rtol=1e-11, err_msg=name_of(operators)
    )


def name_of(operators):
    return " of ".join(operator.name for operator in operators)


PAIRS = [pair for pair in itertools.product(OPERATORS, repeat=2) if can_be_composed(pair)]
TRIPLES = [triple for triple in itertools.product(OPERATORS, repeat=3) if can_be_composed(triple)]


@pytest.mark.few(60)
@pytest.mark.parametrize("pair", PAIRS, ids=map(name_of, PAIRS))
def test_pairs(pair):
    check(pair)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("outer", OPERATORS, ids=lambda operator: operator.name)
def test_a_fifth_of_all_triples(outer):
    chosen = random.Random(0).sample(TRIPLES, len(TRIPLES) // 5)
    for triple in chosen:
        if triple[0] is outer:
            check(triple)


@pytest.mark.slow
@pytest.mark.parametrize("outer", OPERATORS, ids=lambda operator: operator.name)
def test_all_triples(outer):
    for triple in TRIPLES:
        if triple[0] is outer:
            check(triple)


@pytest.mark.parametrize("operator", [o for o in OPERATORS if o.forward], ids=lambda o: o.name)
def test_forward_mode_of_a_reverse_rule_is_refused(operator):
    with pytest.raises(NotDifferentiableError, match="defines a reverse-mode rule only"):
        operator.apply(by_custom_vjp(wave))(0.7)
