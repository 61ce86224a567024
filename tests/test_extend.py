"""User-defined primitives: definition, redefinition, and checks."""

import numpy as np
import pytest
import scipy.special

from functrans import extend, grad
from functrans.errors import GradientCheckError, GraphTypeError, UnsupportedNumPyError
from functrans.testing import check_primitive
from functrans.trace import protocols


@pytest.fixture(autouse=True)
def registry_as_before():
    before = set(extend.registry)
    yield
    for name in set(extend.registry) - before:
        extend.unregister(name)


def sinus(**parts):
    given = {
        "numpy": extend.lazy("scipy.special:sindg"),
        "jvp": lambda x, out, dx: dx * (np.pi / 180.0) * np.cos(x * (np.pi / 180.0)),
        "samples": extend.reals(-90, 90),
    }
    return extend.elementwise("sinus", **{**given, **parts})


def test_a_ufunc_is_answered_for_until_its_primitive_is_taken_out():
    square = np.frompyfunc(lambda x: x * x, 1, 1)
    name = square.__name__
    extend.elementwise(
        "own square", numpy=square, jvp=lambda x, out, dx: 2.0 * x * dx, samples=extend.reals(0, 1),
        promotion=extend.floating,
    )  # fmt: skip
    assert name in protocols.ufuncs
    extend.unregister("own square")
    assert name not in protocols.ufuncs
    with pytest.raises(UnsupportedNumPyError, match="is not supported"):
        grad(square)(3.0)


def test_the_librarys_operation_of_a_ufunc_returns_with_the_end_of_a_users():
    sinus(jvp=lambda x, out, dx: 7.0 * dx)
    assert grad(scipy.special.sindg)(60.0) == 7.0
    extend.unregister("sinus")
    np.testing.assert_allclose(grad(scipy.special.sindg)(60.0), np.pi / 360.0)


def test_a_name_can_be_taken_once():
    sinus()
    with pytest.raises(ValueError, match="there is a primitive 'sinus' already"):
        sinus()
    extend.unregister("sinus")
    sinus()


def test_what_is_right_passes():
    check_primitive(sinus())


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [
        ({"jvp": lambda x, out, dx: dx * out}, GradientCheckError, "of sinus"),
        ({"result": "int64"}, GraphTypeError, r"sinus gives \[i64\[\]\].*result='float64'"),
        ({"scalar": lambda x: x + 0.0}, AssertionError, "sinus, compiled"),
    ],
)
def test_what_is_wrong_is_found(parts, error, words):
    with pytest.raises(error, match=words):
        check_primitive(sinus(**parts))


def test_a_wrong_batching_rule_is_found():
    last = extend.primitive(
        "last",
        infer=lambda x: x.update(shape=x.shape[1:]),
        numpy=lambda x: x[-1],
        jvp=extend.not_differentiable("a test"),
        batch=lambda operands, axes: (np.moveaxis(operands[0], axes[0], 0)[:, 0], 0),
        samples=extend.cases(((3,), {}), ((2, 3), {})),
    )
    with pytest.raises(AssertionError, match=r"last, vmap\(in_axes=\(0,\)\)"):
        check_primitive(last)


def test_what_is_linear_may_have_parameters():
    scaled = extend.elementwise(
        "scaled",
        numpy=lambda x, *, by: x * by,
        linear=extend.LINEAR,
        promotion=extend.floating,
        scalar=lambda x, *, by: x * by,
        samples=extend.reals(-3, 3),
        params={"by": 2.0},
    )
    check_primitive(scaled)
    assert grad(lambda x: scaled(x, by=5.0))(1.0) == 5.0
