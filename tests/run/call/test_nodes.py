"""Arguments that native code recognises: memory orders, static ones, registered dataclasses."""

import dataclasses
import sys

import numpy as np
import pytest

from functrans import jit, tree
from tests.run.call.test_inline_cache import by_python, called, python_calls, same, x


def test_arrays_in_another_memory_order_are_copied():
    wide = np.arange(48.0).reshape(4, 12)
    odd = np.frombuffer(bytes(range(49)), np.uint8)[1:].view(np.float64).reshape(2, 3)
    compiled = called(lambda a, b, c: (a + b * 2.0, c), x, x, [x])
    before = sys.getrefcount(wide)
    for a, b, c in [
        (wide[:2, ::4], wide[2:, ::4], x),
        (wide[::-2, 3:6], x, odd),
        (np.asfortranarray(x), x[::-1, ::-1], np.broadcast_to(2.0, (2, 3))),
    ]:
        assert python_calls(compiled, a, b, [c]) == []
        for _ in range(20):
            first, second = compiled(a, b, [c])
        np.testing.assert_array_equal(first, a + b * 2.0)
        np.testing.assert_array_equal(second[0], c)
    del a, b, c
    assert sys.getrefcount(wide) == before
    assert python_calls(compiled, x, np.ones((2, 3), ">f8")[:, ::-1], [x]) != []


def test_static_arguments_are_compared_by_identity():
    def total(a, n, b, **others):
        return (a * n + b) * others["m"] + sum(i * x for i, x in enumerate(others.values()))

    compiled = jit(total, static_argnums=1, static_argnames="m")
    for n in (2, 3, 3.0, True):
        for others in ({"m": 5, "p": x, "q": x}, {"q": x, "m": 5, "p": x}, {"m": n, "q": x}):
            for _ in range(3):
                same(compiled(x, n, 2.0, **others), by_python(compiled, x, n, 2.0, **others))
                np.testing.assert_allclose(
                    compiled(x, n, 2.0, **others), total(x, n, 2.0, **others)
                )
            assert python_calls(compiled, x, n, 2.0, **others) == []
    large = jit(lambda a, n: a % n, static_argnames="n")
    for _ in range(3):  # each time another object
        for n in (2**40 + 1, 2**41):
            assert large(2**42, int(str(n))) == 2**42 % n


def doubled(self, value=None):
    if value is None:
        return 2.0 * self.__dict__["w"]
    self.__dict__["w"] = value


@pytest.mark.parametrize("leaves", [False, True])
def test_fields_that_a_class_computes_are_pythons(leaves):
    """A property of this name, also of a base class, takes the place of what was read before."""

    class Base:
        unused = 0

    @tree.register_dataclass
    @dataclasses.dataclass
    class Model(Base):
        w: object
        b: object = 1.0

    def total(model):
        if leaves:
            return sum(map(np.sum, tree.leaves(model)))
        return np.sum(model.w) + np.sum(model.b)

    def rebuilt(model):
        return tree.map(lambda leaf: leaf, model)  # as in the compiled function

    model = Model(x)
    compiled = called(total, model)
    computed = property(doubled, doubled)
    for change in (
        lambda: setattr(Model, "w", computed),
        lambda: delattr(Model, "w"),
        lambda: setattr(Base, "w", computed),
        lambda: delattr(Base, "w"),
        lambda: (delattr(Base, "unused"), setattr(Base, "w", computed)),
        lambda: (delattr(Base, "w"), setattr(Base, "unused", 0)),
        lambda: delattr(model, "b"),
        lambda: setattr(Model, "b", 5.0),
        lambda: setattr(model, "b", x),
    ):
        change()
        for _ in range(3):
            assert compiled(model) == total(rebuilt(model))
