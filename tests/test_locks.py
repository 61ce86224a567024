"""Less frequent search for cyclic garbage while a program is compiled."""

import gc

import numpy as np
import pytest

from functrans import jit
from functrans.locks import fewer_collections


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("before", "during"),
    [((700, 10, 10), 5000), ((9000, 5, 5), 9000), ((0, 10, 10), 0)],
    ids=["usual", "rarer already", "switched off"],
)
def test_it_is_searched_less_often_and_then_as_before(before, during):
    gc.set_threshold(*before)
    with pytest.raises(ZeroDivisionError), fewer_collections():
        assert gc.get_threshold() == (during, *before[1:])
        with fewer_collections():
            raise ZeroDivisionError
    assert gc.get_threshold() == before


def test_what_somebody_else_sets_meanwhile_stays():
    with fewer_collections():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_a_first_call_leaves_it_as_it_was():
    gc.set_threshold(600, 9, 8)
    assert jit(lambda x: np.sin(x) + 17.5)(1.0) == np.sin(1.0) + 17.5
    assert gc.get_threshold() == (600, 9, 8)
