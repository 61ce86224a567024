"""What is remembered of the states of a function, and the walk that finds them."""

import gc

import numpy as np
import pytest

from functrans import errors, jit


def test_states_that_differ_little_share_what_is_remembered_of_them():
    table = {"n": 0, **{f"k{i}": float(i) for i in range(50)}}
    f = jit(lambda x: x * table["n"])
    snapshots = []
    for n in range(2):
        table["n"] = n
        assert f(2.0) == 2.0 * n
        snapshots.append(f._outside.snapshot())
    first, second = snapshots
    pairs = zip(first.signature, second.signature, strict=True)
    assert [(x, y) for x, y in pairs if x is not y] == [((int, 0), (int, 1))]
    assert first.visits is second.visits


def test_no_garbage_is_collected_while_objects_are_visited():
    objects = [[i] for i in range(3000)]
    f = jit(lambda x: x * len(objects))
    seen = []
    gc.callbacks.append(lambda phase, _: seen.append(phase))
    try:
        f._outside.look()
    finally:
        gc.callbacks.pop()
    assert seen.count("start") <= 1, "the only one comes afterwards"
    assert gc.isenabled()
    gc.disable()
    try:
        f._outside.look()
        assert not gc.isenabled()
    finally:
        gc.enable()


class Recurrent:
    def __init__(self):
        self.hidden = np.zeros(2)

    def __call__(self, x):
        self.hidden = np.tanh(self.hidden + x)
        return self.hidden


class Assigning(Recurrent):
    def __call__(self, x):
        hidden = np.empty(2)
        hidden[:] = super().__call__(x)
        self.hidden = hidden
        return hidden


@pytest.mark.parametrize("layer", [Recurrent, Assigning])
def test_new_state_that_a_call_has_only_traced_raises_in_the_next_call(layer):
    step = jit(layer())
    assert np.allclose(step(np.ones(2)), np.tanh(1.0))
    with pytest.raises(errors.LeakedTracerError, match=r"self.hidden = np.tanh"):
        step(np.ones(2))


def test_what_keeps_traced_values_without_using_them_is_traced_twice():
    seen = []
    f = jit(lambda x: seen.append(x) or 2.0 * x)
    assert [f(x) for x in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert len(seen) == 2
