"""The guards of a state, asked from Python."""

import numpy as np

from functrans import jit, tree
from functrans.api.holders import Class
from functrans.run.call import agreement, guards


def test_a_class_has_the_version_of_when_it_was_looked_at():
    class Scales:
        first = 1.0
        other = 1.0

    def agree(holder):
        program = guards.assembled(holder.guard(), [])
        return agreement.function(program)() == ()

    holder = Class(Scales, ["first"], [])
    assert agree(holder)
    Scales.other = 2.0  # nobody has looked at it
    assert agree(holder)
    Scales.first = 2.0
    assert not agree(holder)
    assert not holder.is_same()
    holder = Class(Scales, ["first"], [])
    del Scales.other
    Scales.third = 1.0
    assert not agree(holder)
    assert not holder.is_same()


def test_states_of_calls_that_native_code_does_not_dispatch():
    """Their inputs are found by native code, too, as objects that live on."""
    table = {"scale": 2.0, "large": np.full(1000, 3.0)}

    def product(f, x):
        return f(x) * table["scale"] * table["large"]

    compiled = jit(product)
    f = tree.Partial(lambda w, x: w * x, 5.0)
    for change in (
        lambda: None,
        lambda: table["large"].fill(4.0),
        lambda: table.update(large=np.full(1000, 6.0)),
        lambda: table.update(large=np.full(1000, 6)),
        lambda: table.update(scale=7.0),
        lambda: table.update(large=np.full((2, 1000), 6.0)),
    ):
        change()
        for _ in range(6):
            np.testing.assert_array_equal(compiled(f, 1.0), product(f, 1.0))
