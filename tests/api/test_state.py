"""What is remembered of the states of a function, and the walk that finds them."""

import gc

from functrans import jit


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
