"""`functrans.scipy`: its modules, and the message for an unknown one."""

import importlib

import pytest

import functrans.scipy


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
