"""custom_jvp and custom_vjp: which arguments a rule is given."""

import numpy as np
import pytest

from functrans import custom_jvp, custom_vjp, grad


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
