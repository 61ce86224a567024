"""The line of the user's code that an equation belongs to."""

import contextlib
import functools

import numpy as np

from functrans import trace
from functrans.testing import check_grads
from functrans.trace.source import located, user_source


def here():
    return user_source()


def lines(function, *args):
    """What the source says of each equation."""
    return [str(eqn.source) for eqn in trace(function)(*args).eqns]


def test_the_innermost_function_outside_of_the_library():
    def helper(x):
        return np.sin(x)

    def function(x):
        y = helper(x)
        return y * 2

    first, second = trace(function)(np.ones(3)).eqns
    assert first.source.text == "return np.sin(x)"
    assert second.source.text == "return y * 2"
    assert second.source.line == function.__code__.co_firstlineno + 2
    assert str(first.source).startswith("test_source.py:")
    assert "helper" in str(first.source)


def test_numpys_own_functions_are_not_the_users():
    def function(x):
        return np.linalg.norm(np.apply_along_axis(np.sum, 0, np.ones((2, 2))) * x)

    assert all("test_source.py" in line for line in lines(function, np.ones(2)))


def test_what_stands_between_is_passed_over():
    @contextlib.contextmanager
    def block():
        yield

    @functools.cache
    def fixed():
        return 2.0

    def function(x):
        with block():
            return functools.reduce(np.add, [x, x, fixed()])

    assert all("function" in line for line in lines(function, 1.0))


def test_a_place_in_a_message():
    def place():
        return located(here_of())

    def here_of():
        # `user_source` leaves out the function that asks
        return here()

    assert place().endswith("`return here()`")
    assert place().startswith(" at test_source.py:")
    assert located(None) == ""


def test_long_lines_are_cut_and_unreadable_ones_left_out():
    scope = {"here": here}
    exec("def somewhere():\n    return here()", scope)
    assert located(scope["somewhere"]()) == " at <string>:2 (somewhere)"
    source = (lambda: here())()  # a line that goes on and on and on and on and on and on, for ever
    assert located(source).endswith("...`")


def test_check_grads_is_no_place_of_the_users():
    seen = []

    def function(x):
        seen.append(str(trace(np.sin)(1.0).eqns[0].source))
        return np.sin(x)

    check_grads(function, (1.0,))
    assert all("test_source.py" in line for line in seen)


def test_a_place_is_one_object_however_often_it_is_recorded():
    def function(x):
        for _ in range(5):
            x = x * 2.0
        return x + 1.0

    for eqns in (trace(function)(1.0).eqns, trace(function)(2.0).eqns):
        steps = [eqn.source for eqn in eqns if eqn.primitive.name == "multiply"]
        assert len(steps) == 5
        assert all(source is steps[0] for source in steps)
        assert eqns[-1].source.text == "return x + 1.0"
        assert steps[0].text == "x = x * 2.0"


def test_places_of_code_that_has_gone_are_not_taken_for_others():
    for number in range(200):
        source = f"def function(x):\n    return x * {number}.0\n"
        scope = {}
        exec(compile(source, f"made{number}.py", "exec"), scope)
        (eqn,) = trace(scope["function"])(1.0).eqns
        assert eqn.source.code.co_filename == f"made{number}.py"
