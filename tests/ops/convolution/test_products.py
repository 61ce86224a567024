"""Convolutions whose windows do not overlap are contractions, and none calls BLAS."""

import numpy as np
import pytest

from functrans import config, grad, jit, lax, linear_transpose, vjp, vmap
from tests.ops.convolution import by_loops
from tests.targets import take_host_for

rng = np.random.default_rng(0)

FIRST, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")


def kinds(function, *arguments):
    """The primitives of a traced function, of products and convolutions."""
    graph = jit(function).lower(*arguments).graph(optimised=False)
    return {eqn.primitive.name for eqn in graph.eqns} & {"dot_general", "convolution"}


def moved(x, spec, order):
    return np.transpose(x, [spec.index(label) for label in order])


def agrees(x, k, spec, **options):
    """Hold values and derivatives, compiled and not, against loops over all products."""
    count = x.ndim - 2
    full = {"window_strides": (1,) * count, "padding": ((0, 0),) * count,
            "lhs_dilation": (1,) * count, "rhs_dilation": (1,) * count} | options  # fmt: skip
    groups = {n: full.pop(n, 1) for n in ("feature_group_count", "batch_group_count")}

    def apply(x, k):
        return lax.conv_general_dilated(x, k, **full, **groups, dimension_numbers=spec)

    def expected(x, k):
        ours = moved(x, spec[0], "NC" + spec[0].replace("N", "").replace("C", ""))
        theirs = moved(k, spec[1], "OI" + spec[1].replace("O", "").replace("I", ""))
        found = by_loops.conv(ours, theirs, *full.values(), *groups.values())
        return moved(found, "NC" + spec[2].replace("N", "").replace("C", ""), spec[2])

    wanted = expected(x, k)
    given, dx, dk = (rng.normal(size=s) for s in (wanted.shape, x.shape, k.shape))
    # derivatives of a bilinear function, from its values
    products = np.sum(given * expected(dx, k)), np.sum(given * expected(x, dk))

    def pulled(x, k):
        return vjp(apply, x, k)[1](given)

    for one, both in ((apply, pulled), (jit(apply), jit(pulled))):
        np.testing.assert_allclose(one(x, k), wanted, atol=1e-12)
        for gradient, step, product in zip(both(x, k), (dx, dk), products, strict=True):
            np.testing.assert_allclose(np.sum(gradient * step), product, atol=1e-10)
    return kinds(apply, x, k)


@pytest.mark.parametrize("spec", [FIRST, LAST, ("HWNC", "OHWI", "NHWC")])
@pytest.mark.parametrize(
    ("size", "taps", "strides", "padding", "dilation"),
    [
        ((5, 4), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
        ((5, 4), (1, 1), (2, 3), ((0, -1), (-1, 0)), (2, 1)),
        ((6, 4), (3, 2), (3, 2), ((0, 0), (0, 0)), (1, 1)),
        ((8, 5), (3, 2), (3, 2), ((-1, 0), (0, 0)), (1, 1)),
        ((4, 3), (4, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
        ((7, 6), (3, 2), (5, 2), ((0, 0), (0, 0)), (2, 4)),
    ],
)
def test_windows_that_do_not_overlap(spec, size, taps, strides, padding, dilation):
    sizes = dict(zip("NCOIHW", (2, 3, 4, 3, *size), strict=True))
    x = rng.normal(size=[sizes[label] for label in spec[0]])
    sizes |= dict(zip("HW", taps, strict=True))
    k = rng.normal(size=[sizes[label] for label in spec[1]])
    found = agrees(x, k, spec, window_strides=strides, padding=padding, rhs_dilation=dilation)
    assert found == {"dot_general"}


@pytest.mark.parametrize("groups", ["feature_group_count", "batch_group_count"])
@pytest.mark.parametrize(("taps", "strides"), [(1, 1), (1, 2), (2, 2), (6, 1)])
def test_groups(groups, taps, strides):
    x, k = rng.normal(size=(4, 4 if groups[0] == "f" else 2, 6)), rng.normal(size=(6, 2, taps))
    options = {"window_strides": (strides,), groups: 2}
    assert agrees(x, k, ("NCW", "OIW", "NCW"), **options) == {"dot_general"}


@pytest.mark.parametrize("padding", [(2, 2), (0, 0), (3, 5), (-1, 2), (1, -1)])
def test_elements_that_lie_apart_by_the_taps(padding):
    """Each result is one product: the result of a transposed convolution of patches."""
    x, k = rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 3, 3))
    options = {"padding": (padding,), "lhs_dilation": (3,)}
    assert agrees(x, k, ("NCW", "OIW", "NCW"), **options) == {"dot_general"}


def test_padding_is_not_multiplied_by_infinity():
    x, k = np.ones((1, 1, 4)), np.array([np.inf, 1.0]).reshape(1, 1, 2)
    found = jit(lambda x, k: lax.conv_general_dilated(x, k, (2,), [(1, 1)]))(x, k)
    np.testing.assert_array_equal(found.ravel(), [1.0, np.inf, np.inf])


def test_integers_and_bools():
    x, k = rng.integers(-9, 9, (2, 3, 4)), rng.integers(-9, 9, (2, 3, 2))
    for dtype in (np.int64, np.int8, np.bool_):
        ours, theirs = x.astype(dtype), k.astype(dtype)
        found = jit(lambda x, k: lax.conv(x, k, (2,), "VALID"))(ours, theirs)
        expected = by_loops.conv(ours.astype(int), theirs.astype(int), (2,), ((0, 0),), (1,), (1,))
        np.testing.assert_array_equal(found, expected.astype(dtype))


def test_large_patches_remain_convolutions():
    """Of these, only the derivative with respect to the images is a product."""
    x, k = np.broadcast_to(np.float32(0), (16, 64, 56, 56)), np.ones((8, 64, 2, 2), np.float32)

    def apply(x, k):
        return lax.conv(x, k, (2, 2), "VALID")

    assert kinds(apply, x, k) == {"convolution"}
    given = np.ones((16, 8, 28, 28), np.float32)
    assert kinds(lambda y: linear_transpose(lambda x: apply(x, k), x)(y), given) == {"dot_general"}


@pytest.mark.parametrize("order", [FIRST, LAST])
def test_a_reshaped_result_is_not_copied(order, monkeypatch):
    """The positions of a product are one axis, and two in the result."""
    take_host_for(monkeypatch, vector_bytes=64, registers=32)
    sizes = dict(zip("NCHWOI", (4, 32, 14, 14, 64, 32), strict=True))
    x = rng.normal(size=[sizes[label] for label in order[0]])
    k = rng.normal(size=[sizes[label] if label in "OI" else 1 for label in order[1]])

    def apply(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=order)

    (nest,) = jit(apply).lower(x, k).cost().nests
    assert "times" in nest.form
    np.testing.assert_allclose(jit(apply)(x, k), apply(x, k), atol=1e-10)


@pytest.mark.dear
@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_value_and_its_reshapes_as_results(backend, donated, monkeypatch):
    """One is where the value is stored, which may be a donated argument; the others are copies."""
    monkeypatch.setattr(config, "backend", backend)

    def apply(x):
        y = np.cumsum(x, 0)
        return np.reshape(y, (5, 24)), y, np.reshape(y, (2, 3, 4, 5))

    x = rng.normal(size=(24, 5))
    for few in (apply, lambda x: apply(x)[:1]):
        results = jit(few, donate_argnums=donated)(x.copy())
        for found, expected in zip(results, few(x), strict=True):
            np.testing.assert_allclose(found, expected, strict=True)
        assert not any(np.shares_memory(results[0], other) for other in results[1:])


@pytest.mark.dear
@pytest.mark.parametrize(
    ("features", "channels", "size", "taps", "strides", "order"),
    [
        (3, 16, 14, 3, 1, LAST),  # three features, of which lines are vectors
        (3, 16, 7, 4, 2, FIRST),  # few positions
        (40, 3, 20, 5, 2, LAST),  # three channels
        (3, 24, 12, 3, 2, FIRST),
    ],
)
def test_three_features_are_computed_in_registers(features, channels, size, taps, strides, order):
    sizes = {"N": 2, "C": channels, "O": features, "I": channels, "H": size, "W": size}
    x = rng.normal(size=[sizes[label] for label in order[0]])
    sizes |= {"H": taps, "W": taps}
    k = rng.normal(size=[sizes[label] for label in order[1]])

    def apply(x, k):
        both = (strides, strides)
        return lax.conv_general_dilated(x, k, both, "SAME", dimension_numbers=order)

    given = rng.normal(size=apply(x, k).shape)
    pulled = grad(lambda x, k: np.sum(apply(x, k) * given), argnums=(0, 1))
    for one in (lambda x, k: [apply(x, k)], pulled):
        assert "gemm" not in jit(one).lower(x, k).schedule()
        for found, expected in zip(jit(one)(x, k), one(x, k), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_jacobians_with_respect_to_kernels_are_computed_in_registers():
    """Cotangents are mapped over: their axis is beside that of the features."""
    x, k = rng.normal(size=(2, 8, 9, 9)), rng.normal(size=(8, 8, 3, 3))
    given = rng.normal(size=(5, 2, 8, 9, 9))

    def pulled(x, given):
        return linear_transpose(lambda k: lax.conv(x, k, (1, 1), "SAME"), k)(given)

    for axes in ((None, 0), (0, None), (0, 0)):
        own = x if axes[0] is None else np.stack([x, 2 * x, -x, x + 1, x**2])
        theirs = given[0] if axes[1] is None else given
        mapped = vmap(pulled, in_axes=axes)
        assert "gemm" not in jit(mapped).lower(own, theirs).schedule()
        (found,), (expected,) = (np.atleast_1d([f(own, theirs)]) for f in (jit(mapped), mapped))
        np.testing.assert_allclose(found, expected, atol=1e-9)
