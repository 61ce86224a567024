"""Window reductions against Python loops; ties, derivatives, batching, compiled forms."""

import itertools

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap
from functrans.errors import DtypeError, ShapeError
from functrans.testing import check_grads

rng = np.random.default_rng(0)


def by_loops(x, init, combine, taps, strides, pairs, base, dilation):
    """Each window by itself, in an array that is filled up."""
    sizes = [(n - 1) * b + 1 if n else 0 for n, b in zip(x.shape, base, strict=True)]
    filled = np.full([n + max(a, 0) + max(b, 0) for n, (a, b) in zip(sizes, pairs, strict=True)],
                     init, x.dtype)  # fmt: skip
    filled[tuple(slice(max(a, 0), max(a, 0) + n, s)
                 for n, (a, _), s in zip(sizes, pairs, base, strict=True))] = x  # fmt: skip
    filled = filled[tuple(slice(max(-a, 0), n - max(-b, 0))
                          for n, (a, b) in zip(filled.shape, pairs, strict=True))]  # fmt: skip
    reach = [(t - 1) * d + 1 for t, d in zip(taps, dilation, strict=True)]
    places = [max((n - r) // s + 1, 0)
              for n, r, s in zip(filled.shape, reach, strides, strict=True)]  # fmt: skip
    out = np.empty(places, x.dtype)
    for place in itertools.product(*map(range, places)):
        part = filled[tuple(slice(p * s, p * s + r, d) for p, s, r, d in
                            zip(place, strides, reach, dilation, strict=True))]  # fmt: skip
        out[place] = combine.reduce(part, axis=None, dtype=x.dtype)
    return out


KINDS = [(np.add, 0), (np.maximum, -np.inf), (np.minimum, np.inf), (np.multiply, 1),
         (np.logaddexp, -np.inf)]  # fmt: skip
FORMS = [
    ((5,), (2,), (1,), [(0, 0)], (1,), (1,)),
    ((6,), (2,), (2,), [(0, 0)], (1,), (1,)),
    ((7,), (3,), (2,), [(1, 2)], (1,), (2,)),
    ((4, 6), (2, 3), (2, 3), [(0, 0), (0, 0)], (1, 1), (1, 1)),
    ((4, 5), (3, 2), (1, 2), [(1, 1), (-1, 1)], (1, 2), (1, 1)),
    ((2, 5, 3), (1, 2, 2), (1, 2, 1), [(0, 0), (1, 0), (0, 1)], (1, 1, 1), (1, 1, 1)),
]


@pytest.mark.few(6)
@pytest.mark.parametrize(("combine", "init"), KINDS, ids=lambda k: getattr(k, "__name__", ""))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_values_derivatives_and_code(combine, init, form):
    shape, *params = form
    x = rng.normal(size=shape)
    expected = by_loops(x, init, combine, *params)

    def apply(x):
        return lax.reduce_window(x, init, combine, *params)

    np.testing.assert_allclose(apply(x), expected, rtol=1e-13)
    np.testing.assert_allclose(jit(apply)(x), expected, rtol=1e-13)
    check_grads(apply, (x,), order=2, max_elements=4)
    xs = rng.normal(size=(*shape[:1], 3, *shape[1:]))
    np.testing.assert_allclose(
        vmap(apply, in_axes=1)(xs), [apply(xs[:, i]) for i in range(3)], rtol=1e-13
    )
    gradient = grad(lambda x: np.sum(apply(x) ** 2))
    np.testing.assert_allclose(jit(gradient)(x), gradient(x), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (17,), (300,)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, bool])
def test_dtypes_and_sizes(dtype, shape):
    x = rng.integers(0, 9, shape).astype(dtype)
    params = (3,), (2,), [(2, 1)], (1,), (1,)
    for combine, init in ((np.maximum, 0), (np.add, 0), (np.minimum, 1 if dtype is bool else 99)):
        found = lax.reduce_window(x, init, combine, *params)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, by_loops(x, init, combine, *params))
        np.testing.assert_array_equal(
            jit(lambda x, c=combine, i=init: lax.reduce_window(x, i, c, *params))(x), found
        )


def test_a_function_of_two_arrays():
    x = rng.normal(size=(9,))
    found = lax.reduce_window(x, 0.0, lambda a, b: np.hypot(a, b), (5,), (2,), "VALID")
    expected = [np.sqrt(np.sum(x[i : i + 5] ** 2)) for i in (0, 2, 4)]
    np.testing.assert_allclose(found, expected)


def test_an_empty_window_holds_the_identity():
    found = lax.reduce_window(np.ones(3), -np.inf, np.maximum, (0,))
    np.testing.assert_array_equal(found, np.full(found.shape, -np.inf))


@pytest.mark.parametrize("padding", ["VALID", "SAME", [(3, 0)]])
@pytest.mark.parametrize(
    ("combine", "init"), [(np.add, 1.5), (np.multiply, 2.0), (np.maximum, 0.3), (np.minimum, 0.3)]
)
def test_each_window_is_combined_once_with_another_number_than_the_identity(combine, init, padding):
    x = np.array([-1.0, 2.0, 0.5, -3.0])
    neutral = {np.add: 0, np.multiply: 1, np.maximum: -np.inf, np.minimum: np.inf}[combine]
    expected = combine(lax.reduce_window(x, neutral, combine, (2,), (1,), padding), init)

    def apply(x, init):
        return lax.reduce_window(x, init, combine, (2,), (1,), padding)

    np.testing.assert_array_equal(apply(x, init), expected)
    np.testing.assert_array_equal(jit(lambda x: apply(x, init))(x), expected)
    np.testing.assert_array_equal(jit(apply)(x, init), expected)
    check_grads(apply, (x, init), order=2)


def test_the_initial_number_has_the_dtype_of_the_array():
    x = np.array([1, -2], np.float32)
    assert lax.reduce_window(x, np.float64(0.5), np.maximum, (2,)).dtype == np.float32
    complex_ones = lax.reduce_window(x + 0j, -np.inf, np.maximum, (2,), padding="SAME")
    np.testing.assert_array_equal(complex_ones, [1, -2])
    with pytest.raises(DtypeError, match="init_value of reduce_window is -inf, and the elements"):
        lax.reduce_window(x.astype(np.int8), -np.inf, np.maximum, (2,))


def test_equal_largest_elements_share_the_derivative_as_in_max():
    image = np.array([[1.0, 3.0], [3.0, 3.0]])
    pooled = grad(lambda x: lax.max_pool(x[None, :, :, None], (2, 2)).sum())(image)
    np.testing.assert_array_equal(pooled, grad(np.max)(image))
    np.testing.assert_allclose(pooled, np.array([[0, 1], [1, 1]]) / 3)


@pytest.mark.parametrize("padding", ["VALID", "SAME", [(1, 0), (1, 1)]])
def test_pooling_of_images(padding):
    x = rng.normal(size=(2, 6, 7, 3))
    named = {"VALID": [(0, 0)] * 2, "SAME": [(0, 1), (0, 1)]}
    pairs = named[padding] if isinstance(padding, str) else padding
    params = (1, 3, 2), (1, 2, 3)
    for of, combine, init in (
        (lax.max_pool, np.maximum, -np.inf), (lax.min_pool, np.minimum, np.inf),
    ):  # fmt: skip
        found = of(x, (3, 2), (2, 3), padding)
        for channel in range(3):
            expected = by_loops(
                x[..., channel], init, combine, *params, [(0, 0), *pairs], (1,) * 3, (1,) * 3
            )
            np.testing.assert_array_equal(found[..., channel], expected)
    mean = lax.avg_pool(x, (3, 2), (2, 3), padding)
    own = lax.avg_pool(x, (3, 2), (2, 3), padding, count_include_pad=False)
    ones = np.ones_like(x)
    np.testing.assert_allclose(mean / lax.avg_pool(ones, (3, 2), (2, 3), padding), own)
    total = by_loops(x[..., 1], 0, np.add, *params, [(0, 0), *pairs], (1,) * 3, (1,) * 3)
    np.testing.assert_allclose(mean[..., 1], total / 6)


def test_the_largest_of_integers_is_padded_by_the_smallest():
    x = np.full((1, 2, 1), -100, np.int8)
    np.testing.assert_array_equal(lax.max_pool(x, (2,), padding="SAME"), x)
    assert lax.avg_pool(x, (2,)).dtype == np.float64


def test_messages():
    with pytest.raises(ShapeError) as caught:
        lax.max_pool(np.ones((1, 4, 4, 1)), (2,))
    assert "window_shape must hold 2 integers for images of shape (1, 4, 4, 1)" in str(caught.value)
    with pytest.raises(ShapeError, match="window_dimensions of reduce_window must hold 1 integers"):
        lax.reduce_window(np.ones(3), 0.0, np.add, (2, 2))
    for padding in ("SAME", "VALID"):
        with pytest.raises(ShapeError, match=r"init_value of reduce_window must be one number"):
            lax.reduce_window(np.ones(3), np.ones(3), np.add, (2,), padding=padding)
    with pytest.raises(ShapeError, match=r"padding='SAME' of reduce_window says nothing where"):
        lax.reduce_window(np.ones(3), 0.0, np.add, (2,), padding="SAME", base_dilation=(2,))


def test_a_negative_zero_as_the_initial_value_keeps_its_sign():
    found = lax.reduce_window(-np.ones(2), -0.0, np.maximum, (2,), (1,), ((1, 1),))
    np.testing.assert_array_equal(np.signbit(found), [True, True, True])
