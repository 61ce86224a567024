"""The exact text of errors about custom derivative rules."""

from __future__ import annotations

import numpy as np
import pytest

from functrans import (
    custom_jvp,
    custom_vjp,
    grad,
    jvp,
)
from functrans.errors import (
    CustomRuleError,
    DtypeError,
    NotDifferentiableError,
)
from tests.errors.words import located, message_of


def product(x, y):
    return x * y


def with_vjp(forward, backward):
    def call():
        f = custom_vjp(product)
        f.defvjp(forward, backward)
        return grad(f, argnums=(0, 1))(1.0, 2.0)

    return call


def with_jvp(rule):
    def call():
        f = custom_jvp(product)
        f.defjvp(rule)
        return grad(f)(1.0, 2.0)

    return call


def forward(x, y):
    return x * y, (x, y)


RULES = [
    (lambda: grad(custom_vjp(product))(1.0, 2.0),
     "custom_vjp(product) has no rule yet: define it by defvjp(forward, backward)"),
    (lambda: grad(custom_jvp(product))(1.0, 2.0),
     "custom_jvp(product) has no rule yet: define it by defjvp"),
    (with_vjp(forward, lambda saved, ct: (ct,)),
     "the backward rule of custom_vjp(product) must return a tuple of 2 cotangents, one for each "
     "argument, and returned 1; write (ct,) for one argument"),
    (with_vjp(forward, lambda saved, ct: ct),
     "the backward rule of custom_vjp(product) must return a tuple of 2 cotangents, one for each "
     "argument, and returned Tracer; write (ct,) for one argument"),
    (with_vjp(forward, lambda saved, ct: (np.stack([ct, ct]), None)),
     "cotangent 0 of the backward rule of custom_vjp(product) has shape (2,) at leaf 0, expected "
     "()"),
    (with_vjp(forward, lambda saved, ct: ({"a": ct}, None)),
     "cotangent 0 of the backward rule of custom_vjp(product) must have the structure of the "
     "function's: expected a leaf, found a dict with key 'a'"),
    (with_vjp(lambda x, y: x * y, lambda saved, ct: (ct, ct)),
     "the forward rule of custom_vjp(product) must return (result, residuals), and returned "
     "Tracer"),
    (with_vjp(lambda x, y: ((x, y), None), lambda saved, ct: (ct, ct)),
     "the result of custom_vjp(product)'s forward rule must have the structure of the function's: "
     "expected a leaf, found a tuple of 2"),
    (with_vjp(lambda x, y: (np.stack([x, y]), None), lambda saved, ct: (ct, ct)),
     "the result of custom_vjp(product)'s forward rule has shape (2,) at leaf 0, expected ()"),
    (with_vjp(forward, lambda ct: (ct, ct)),
     "the backward rule of custom_vjp(product) is called with residuals, cotangent: <lambda> takes "
     "(ct)"),
    (with_jvp(lambda primals, tangents: tangents[0]),
     "the rule of custom_jvp(product) must return (result, tangent), and returned Tracer"),
    (with_jvp(lambda primals, tangents: (primals[0], np.stack(tangents))),
     "the tangent of custom_jvp(product)'s rule has shape (2,) at leaf 0, expected ()"),
    (with_jvp(lambda primals, tangents: (primals[0], tangents)),
     "the tangent of custom_jvp(product)'s rule must have the structure of the function's: "
     "expected a leaf, found a tuple of 2"),
    (with_jvp(lambda primals, tangents: (np.stack(primals), tangents[0])),
     "the result of custom_jvp(product)'s rule has shape (2,) at leaf 0, expected ()"),
    (with_jvp(lambda primals: primals),
     "the rule of custom_jvp(product) is called with primals, tangents: <lambda> takes (primals)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), RULES, ids=[m[:60] for _, m in RULES])
def test_rules(call, message):
    assert message_of(CustomRuleError, call) == message


def test_a_rule_that_is_not_linear_in_the_tangents():
    def rule(primals, tangents):
        return primals[0], tangents[0] ** 2  # here

    expected = (
        "square has no transpose{here}: it has forward-mode derivatives only (jvp, jacfwd). The "
        "rule of a custom_jvp must be linear in the tangents"
    )
    assert message_of(NotDifferentiableError, with_jvp(rule)) == located(expected, rule)


def test_forward_mode_of_a_reverse_rule():
    f = custom_vjp(product)
    f.defvjp(forward, lambda saved, ct: (ct * saved[1], ct * saved[0]))
    found = message_of(NotDifferentiableError, lambda: jvp(f, (1.0, 2.0), (1.0, 0.0)))
    assert found == (
        "custom_vjp(product) defines a reverse-mode rule only: forward mode (jvp, linearize, "
        "jacfwd) needs custom_jvp; grad, jacrev, hessian and hvp do not"
    )


def test_a_method_whose_self_is_differentiated():
    class Model:
        @custom_jvp
        def f(self, x):
            return x

    model = Model()
    Model.f.defjvp(lambda primals, tangents: (primals[1], tangents[1]))
    found = message_of(DtypeError, lambda: grad(model.f)(1.0))
    assert found.startswith(
        "argument 0 ('self') of f (what is no array is to be named in nondiff_argnums) is <"
    )
