"""Fusion of attention: roots that depend on a later kernel are ordered after it."""

import numpy as np
import pytest

from functrans.loop.nodes import index
from functrans.loop.statements import buffer, load
from functrans.lower.grid.attention.fusion import in_order
from functrans.lower.select.root import Elements
from tests.emit.cuda.programs import interpreted, plan

i = index("i", 5)
NAMES = {name: buffer(name, np.float64, (5,)) for name in "abcd"}


def root(target, *sources):
    value = sum((load(NAMES[each], (i,)) for each in sources), load(NAMES["d"], (i,)))
    return Elements(NAMES[target], (i,), (0,), (((i,), value),))


def order(*roots):
    found = in_order(roots)
    return None if found is None else [each.target.name for each in found]


def test_roots_in_order_stay():
    assert order(root("a"), root("b", "a"), root("c", "a")) == ["a", "b", "c"]


def test_readers_wait():
    assert order(root("b", "a"), root("c", "b"), root("a")) == ["a", "b", "c"]


def test_others_do_not():
    assert order(root("b", "a"), root("c"), root("a")) == ["c", "a", "b"]


def test_parts_of_a_join_are_all_made_before():
    assert order(root("a"), root("a"), root("b", "a")) == ["a", "a", "b"]


def test_what_waits_for_itself_has_no_order():
    assert order(root("a", "b"), root("b", "a")) is None


@pytest.mark.parametrize("function", [lambda n: n // 7, lambda n: n % -7])
def test_a_function_of_integers_is_no_exponential(function):
    n = np.arange(-9, 9)
    (found,) = interpreted(plan(function, n), [n])
    np.testing.assert_array_equal(found, function(n))
