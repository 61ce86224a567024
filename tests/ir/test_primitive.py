"""The record of a primitive."""

import dataclasses

import pytest

from functrans import extend
from functrans.ir.primitive import Primitive, registry

SLOTS = [field.name for field in dataclasses.fields(Primitive)]


@pytest.mark.parametrize("slot", [*SLOTS, "another"])
def test_a_primitive_stays_as_it_was_defined(slot):
    primitive = registry["add"]
    with pytest.raises(AttributeError):
        setattr(primitive, slot, None)
    with pytest.raises(AttributeError):
        delattr(primitive, slot)


def test_two_definitions_are_never_equal():
    """A graph's key holds primitives: what was defined again must not be taken for the old one."""

    def define():
        return extend.primitive("told_apart", infer=len, numpy=len)

    try:
        first = define()
        extend.unregister("told_apart")
        assert first != define()
    finally:
        extend.unregister("told_apart")
