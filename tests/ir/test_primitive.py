"""The record of a primitive."""

import dataclasses

import numpy as np
import pytest

from functrans import extend, jit, vmap
from functrans.ir.primitive import Primitive, registry
from functrans.loop import scalar

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


@pytest.fixture
def with_sign():
    """|x| with the sign of a parameter, which tells 0.0 from -0.0."""
    yield extend.elementwise(
        "with_sign",
        numpy=lambda x, *, of: np.copysign(x, of[0]),
        jvp=lambda x, out, dx, *, of: dx * np.copysign(1.0, of[0]),
        scalar=lambda x, *, of: scalar.copysign(x, of[0]),
        samples=extend.reals(0.5, 2.0),
        params={"of": (1.0,)},
    )
    extend.unregister("with_sign")


def test_parameters_of_equal_numbers_are_told_apart(with_sign):
    for of in (0.0, -0.0):
        signed = vmap(lambda x, of=of: with_sign(x, of=(of,)))
        np.testing.assert_array_equal(signed(np.ones(2)), np.copysign(np.ones(2), of))


def test_equations_with_equal_numbers_are_not_merged(with_sign):
    both = jit(lambda x: [with_sign(x, of=(of,)) for of in (0.0, -0.0)])
    np.testing.assert_array_equal(both(np.ones(2)), [[1.0, 1.0], [-1.0, -1.0]])


def test_the_type_of_a_result_may_depend_on_that_of_a_parameter():
    moved = extend.primitive(
        "moved",
        infer=lambda x, *, by: x.update(dtype=np.result_type(x.dtype, by)),
        numpy=lambda x, *, by: x + by,
        pull=lambda read, index, x, *, by: (
            scalar.convert(read(0, index), np.result_type(x.dtype, by)) + by
        ),
    )
    try:
        for by in (1, 1.0, True):
            found = jit(lambda x, by=by: moved(x, by=by))(np.arange(3))
            assert found.dtype == (np.arange(3) + by).dtype
            np.testing.assert_array_equal(found, np.arange(3) + by)
    finally:
        extend.unregister("moved")
