"""custom_jvp and custom_vjp: which arguments a rule is given."""

import numpy as np
import pytest

from functrans import custom_jvp, custom_vjp, float0, grad, jit


def test_a_ufunc_has_no_arguments_but_its_operands():
    sin = custom_jvp(np.sin)
    sin.defjvps(lambda dx, result, x: dx * np.cos(x))
    assert grad(sin)(0.5) == np.cos(0.5)
    exp = custom_vjp(np.exp)
    exp.defvjp(lambda x: (np.exp(x), np.exp(x)), lambda saved, ct: (ct * saved,))
    assert grad(exp)(0.5) == np.exp(0.5)


def test_a_rule_is_given_defaults():
    @custom_jvp
    def power(x, n=2):
        return x**n

    power.defjvps(lambda dx, result, x, n: dx * n * x ** (n - 1), None)
    assert grad(power)(3.0) == 6.0
    assert grad(lambda x: power(n=3, x=x))(3.0) == 27.0


def test_arguments_by_keyword_only_keep_their_defaults():
    @custom_jvp
    def power(x, *, n=2):
        return x**n

    power.defjvps(lambda dx, result, x: dx * 2 * x)
    assert grad(power)(3.0) == 6.0
    with pytest.raises(TypeError, match=r"cannot be called with keyword-only arguments \(n\)"):
        grad(lambda x: power(x, n=3))(3.0)


def test_float0_stands_for_the_cotangent_of_an_integer():
    @custom_vjp
    def scaled(x, counts):
        return x * counts["n"].sum()

    def backward(counts, ct):
        return 5 * ct * counts["n"].sum(), {"n": np.zeros(2, float0)}

    scaled.defvjp(lambda x, counts: (scaled(x, counts), counts), backward)
    counts = {"n": np.array([1, 2])}
    assert grad(scaled)(2.0, counts) == 15.0
    assert jit(grad(scaled))(2.0, counts) == 15.0
