"""`functrans.scipy`: its modules, and the message for an unknown one."""

import importlib
import inspect
from operator import attrgetter

import pytest
import scipy

import functrans.scipy
from functrans.scipy.define import implementations


@pytest.mark.parametrize("name", functrans.scipy.__all__)
def test_modules_are_there(name):
    module = getattr(functrans.scipy, name)
    assert module is importlib.import_module(f"functrans.scipy.{name}")
    assert all(hasattr(module, public) for public in module.__all__)


def test_a_module_that_is_not_there():
    with pytest.raises(
        AttributeError, match=r"functrans\.scipy has no 'special_'; it has .*special"
    ):
        _ = functrans.scipy.special_


def test_dir_shows_the_modules():
    assert dir(functrans.scipy) == functrans.scipy.__all__


def positional(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def test_implementations_take_scipys_parameters_in_scipys_order():
    # a parameter that SciPy has further on would get the argument of another one
    for name in functrans.scipy.__all__:
        getattr(functrans.scipy, name)
    for name, implementation in implementations.items():
        model = attrgetter(name.removeprefix("scipy."))(scipy)
        if type(model).__name__ == "MultiUFunc":  # it takes whatever its ufuncs take
            continue
        own = positional(implementation)
        assert own == positional(model)[: len(own)], name


def test_the_signatures_of_bracketing_methods_are_scipys():
    for name in ("bisect", "brentq", "brenth", "ridder", "toms748"):
        ours = attrgetter(name)(functrans.scipy.optimize)
        assert positional(ours) == positional(attrgetter(name)(scipy.optimize)), name
