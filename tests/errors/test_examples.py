"""The examples in the docstrings of errors: what is said to fail fails, the fix works."""

import inspect
import math
import re
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

import functrans
from functrans import errors, extend, lax
from functrans.testing import check_grads, check_primitive
from tests.run.cuda.stub import stubs

CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "nearest"]


def code_of(cls, heading):
    text = inspect.cleandoc(cls.__doc__)
    return textwrap.dedent(re.search(rf"^{heading}::\n\n((?: {{4}}.*\n?|\n)+)", text, re.M)[1])


def names():
    """What the examples take to be there."""
    found = {name: getattr(functrans, name) for name in functrans.__all__}
    found |= {name: getattr(errors, name) for name in errors.__all__}
    found |= {
        "np": np,
        "math": math,
        "check_grads": check_grads,
        "check_primitive": check_primitive,
        "dataclass": dataclass,
    }
    found |= {name: getattr(extend, name) for name in extend.__all__} | {"lax": lax}
    found |= {"x": np.array([0.5, 1.5, 2.5]), "xs": np.array([-1.0, 2.0]), "p": True}
    return found


PREPARED = {
    "NotConvergedError": "import scipy.optimize",
    "MutationError": "",
    "StaticArgumentError": "def f(x, sizes): return x * sum(sizes)",
    "CustomRuleError": "@custom_vjp\ndef f(x, y): return x * y",
    "GradientCheckError": "f = custom_jvp(np.sin)",
    "FunctransError": "f = np.round\nx = np.ones(3)",
    "DeviceMemoryError": "batches = [np.ones(1000), np.ones(1000)]",
}
"""What the example means by its ``f``, where it does not say."""

THEN = {
    "MutationError": "grad(f)(x)",
    "PathLimitError": "for x in 2.0 ** np.arange(100.0): halve(x)",
    "CustomRuleError": "grad(f)(1.0, 2.0)",
    "GradientCheckError": "check_grads(f, (1.0,))",
}
"""What brings it about, where the example only shows the function."""


def run(cls, heading):
    prepared, then = PREPARED.get(cls.__name__, ""), THEN.get(cls.__name__, "")
    with stubs(10_000):  # a GPU with little memory
        exec(f"{prepared}\n{code_of(cls, heading)}\n{then}", names())


@pytest.fixture(autouse=True)
def registry_as_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes does not stay
    before = set(extend.registry)
    yield
    for name in set(extend.registry) - before:
        extend.unregister(name)


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_said_to_fail_fails(cls):
    with pytest.raises(cls):
        run(cls, "Fails")


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_said_to_work_works(cls):
    run(cls, "Fix")
