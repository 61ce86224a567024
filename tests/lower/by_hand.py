"""Helpers for tests of lowering stages: calling a stage, and running its result."""

import inspect

import numpy as np

from functrans.lazily import Lazy
from functrans.loop.statements import Kernel
from functrans.loop.target import CPU
from functrans.lower.select.root import Elements
from tests.loop.evaluate import Memory, evaluate


def done_by(stage, *args, **kwargs):
    """What a stage gives; for the CPU, if it asks for a target and is not told another one."""
    if isinstance(stage, Lazy):
        stage = stage.resolve()
    if "target" in inspect.signature(stage).parameters:
        kwargs.setdefault("target", CPU)
    return stage(*args, **kwargs)


def root(target, loops, value, **about):
    """A root whose elements are all made alike, by loops over all of its axes."""
    return Elements(
        target, tuple(loops), tuple(range(len(loops))), ((tuple(loops), value),), **about
    )


def results(body, given, made, scratch=()):
    """Run statements: ``given`` has arrays by buffer, ``made`` the buffers that are written."""
    buffers = (*given, *made)
    memory = [Memory(np.array(x), True) for x in given.values()]
    shapes = [[int(extent.attribute) for extent in one.shape] for one in made]
    memory += [Memory(np.zeros(s, one.dtype), False) for one, s in zip(made, shapes, strict=True)]
    assert evaluate(Kernel(buffers, 0, tuple(body), tuple(scratch)), memory, ()) == 0
    return [each.array for each in memory[len(given) :]]
