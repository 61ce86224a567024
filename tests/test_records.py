"""Named tuples and data classes with few compiled methods behave as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import field, fields, replace
from functools import partial

import optree
import pytest

from functrans import records
from functrans.records import NamedTuple, dataclass


def named(base):
    """A named tuple of the standard library, or one of ours."""

    class Point(base):
        """A point."""

        x: int
        y: object = 2.0

        @property
        def sum(self):
            return self.x + self.y

    return Point


def outcome(work):
    try:
        return work()
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize(
    "used",
    [
        lambda c: c(1),
        lambda c: (*c(1, 3), c(x=1).y, c(1).sum, c(1)[0], hash(c(1)), c(1) == (1, 2.0)),
        lambda c: c(),
        lambda c: c(1, 2, 3),
        lambda c: c(1, z=3),
        lambda c: setattr(c(1), "x", 2),
        lambda c: setattr(c(1), "z", 2),
        lambda c: c(1)._replace(y=5),
        lambda c: (c(1)._asdict(), c._make([1, 2]), copy.copy(c(1)), copy.deepcopy(c(1))),
        lambda c: (c._fields, c._field_defaults, c.__match_args__, c.__bases__, c.__doc__),
        lambda c: [(x.name, x.default) for x in inspect.signature(c).parameters.values()],
        lambda c: (optree.is_namedtuple(c), optree.tree_map(str, c(1, 3))),
        lambda c: c.__new__.__qualname__[-1],
    ],
)
def test_a_named_tuple_is_as_the_standard_librarys(used):
    classes = [named(base) for base in (typing.NamedTuple, NamedTuple)]
    theirs, ours = (outcome(partial(used, each)) for each in classes)
    assert repr(ours) == repr(theirs)


class Pair(NamedTuple):
    first: int
    second: int


def test_a_named_tuple_can_be_pickled():
    assert type(pickle.loads(pickle.dumps(Pair(1, 2)))) is Pair


def test_a_constructor_is_compiled_once_for_each_number_of_fields():
    named(NamedTuple)
    before = len(records._compiled)

    class Other(NamedTuple):
        a: str
        b: str

    assert (len(records._compiled), Other("1", b="2").b) == (before, "2")


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


def test_a_module_without_strings_as_annotations_is_refused():
    """Python 3.14 has no annotations in a class's namespace then."""
    with pytest.raises(TypeError, match="of Empty needs from __future__ import annotations"):
        type(NamedTuple)("Empty", (NamedTuple,), {"__annotate_func__": lambda form: {}})
