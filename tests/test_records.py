"""Data classes with few compiled methods behave as the standard library's."""

import dataclasses
from dataclasses import field, fields, replace

import pytest

from functrans.records import dataclass


def both(**options):
    """A class by the standard library, and one by ours."""

    def made(decorate):
        @decorate(**options)
        class Point:
            x: int
            y: object = 2.0
            z: list = field(default_factory=list)

        return Point

    return made(dataclasses.dataclass), made(dataclass)


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"frozen": True}, {"repr": False}], ids=str)
def test_it_is_as_the_standard_librarys(options):
    for theirs, ours in zip(
        *([each(1), each(1), each(1, 2), each(x=1, z=[3])] for each in both(**options)), strict=True
    ):
        assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
        assert vars(ours) == vars(theirs) and vars(replace(ours, y=5)) == vars(replace(theirs, y=5))
        if options != {"repr": False}:
            assert repr(ours) == repr(theirs)
    theirs, ours = ([each(1), each(1), each(1, 2), each(2), 1] for each in both(**options))
    assert [[x == y for y in ours] for x in ours] == [[x == y for y in theirs] for x in theirs]
    assert ours[0].__match_args__ == ("x", "y", "z")


def test_what_is_frozen_has_the_hash_of_its_values():
    @dataclass(frozen=True)
    class One:
        x: object

    @dataclass(frozen=True)
    class Two:
        x: object
        y: object

    assert len({One(1), One(1), One(2), Two(1, 2), Two(1, 2), Two(2, 1)}) == 4
    nan = float("nan")
    assert One(nan) == One(nan) and One(1) != Two(1, 1)

    @dataclass
    class Changing:
        x: int

    with pytest.raises(TypeError, match="unhashable"):
        hash(Changing(1))


def test_methods_of_the_class_stay():
    @dataclass(frozen=True)
    class Own:
        x: int

        def __hash__(self):
            return 7

        def __eq__(self, other):
            return True

        def __repr__(self):
            return "own"

    assert (hash(Own(1)), Own(1) == Own(2), repr(Own(1))) == (7, True, "own")


def test_a_subclass_has_the_fields_of_its_base():
    @dataclass(frozen=True, eq=False)
    class Base:
        x: int

    @dataclass(frozen=True, eq=False)
    class Derived(Base):
        y: int = 3

    assert vars(Derived(1)) == {"x": 1, "y": 3}
    assert Derived(1) != Derived(1)
