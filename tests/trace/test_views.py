"""Views: assignments to a traced array are visible in its views, and vice versa."""

import numpy as np
import pytest

from functrans.errors import MutationError
from functrans.ir.evaluate import evaluate
from functrans.ir.types import Aval
from functrans.trace.stage import stage
from functrans.trace.views import UNCERTAIN, assign, make_view

X = np.array([1.0, 2.0, 3.0])


def run(function):
    """The results of a traced function of an array that it may assign to."""
    made = stage(lambda x: function(x + 0.0), [Aval((3,), float)], kind="a test")
    return evaluate(made.graph, [X])


def negated(base, write=lambda base, view: -view):
    """A view that has the other sign."""
    return make_view(-base, base, lambda base: -base, write, "negation")


def test_a_write_to_the_array_is_seen_in_the_view():
    def function(x):
        view = negated(x)
        assign(x, x * 10, "a write")
        return [view * 1]

    np.testing.assert_array_equal(run(function), [-10 * X])


def test_a_write_to_the_view_is_seen_in_the_array():
    def function(x):
        view = negated(x)
        assign(view, view * 10, "a write")
        return [x * 1]

    np.testing.assert_array_equal(run(function), [10 * X])


def test_views_of_views():
    def function(x):
        view = negated(x)
        again = negated(view)
        assign(again, again + 1, "a write")
        first = x * 1
        assign(x, x * 2, "a write")
        return [first, view * 1, again * 1]

    np.testing.assert_array_equal(run(function), [X + 1, -2 * (X + 1), 2 * (X + 1)])


def test_what_nobody_writes_to_is_read_once():
    reads = []

    def function(x):
        view = make_view(x * 1, x, lambda base: reads.append(base) or base * 1, None, "a copy")
        return [view + 1, view + 2]

    run(function)
    assert reads == []


def test_a_view_that_may_be_a_copy_is_not_read_after_a_write():
    def write_to_the_array(x):
        view = negated(x, UNCERTAIN)
        assign(x, x * 10, "a write")
        return [view * 1]

    def write_to_the_view(x):
        view = negated(x, UNCERTAIN)
        assign(view, view * 10, "a write")
        return [x * 1]

    with pytest.raises(MutationError, match="after negation of it was taken"):
        run(write_to_the_array)
    with pytest.raises(MutationError, match="after negation of it was assigned to"):
        run(write_to_the_view)


def test_what_is_written_to_goes_on():
    def function(x):
        view = negated(x, UNCERTAIN)
        assign(view, view * 10, "a write")
        return [view * 1]

    np.testing.assert_array_equal(run(function), [-10 * X])


def test_what_numpy_forbids():
    def function(x):
        view = negated(x, None)
        assign(view, view * 10, "a write")

    with pytest.raises(MutationError, match="made by negation, whose result"):
        run(function)


def test_arguments_and_arrays_from_outside_are_not_written_to():
    def argument(x):
        assign(x, x * 2, "a write")

    with pytest.raises(MutationError, match="which the caller still holds"):
        stage(argument, [Aval((3,), float)], kind="a test", name=lambda i: f"argument {i}")

    def enclosing(x):
        stage(lambda: assign(x, x * 2, "a write"), [], kind="a test")

    with pytest.raises(MutationError, match="belongs to an enclosing function"):
        run(enclosing)


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (lambda x: x[:2], ValueError, "cannot hold the result"),
        (lambda x: x > 0, None, None),
    ],
)
def test_what_fits(result, error, words):
    def function(x):
        assign(x, result(x), "a write")
        return [x]

    if error is None:
        (found,) = run(function)
        assert found.dtype == np.float64
    else:
        with pytest.raises(error, match=words):
            run(function)


def test_floats_are_not_written_to_integers():
    def function(x):
        whole = x.astype(int)
        assign(whole, x, "a write")

    with pytest.raises(TypeError, match="NumPy does not cast"):
        run(function)


def test_a_view_that_an_inner_function_is_the_first_to_read_after_a_write():
    def function(x):
        view = negated(x)
        assign(x, x * 10, "a write")
        inner = stage(lambda: [-view], [], kind="a test")
        (captured,) = inner.captures  # the value of the view
        return [captured, view * 1]

    for found in run(function):
        np.testing.assert_array_equal(found, -10 * X)
