"""Every kind of NumPy index: reading and writing, batched, differentiated, compiled."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from functrans import grad, jacfwd, jit, value_and_grad, vmap
from functrans import numpy as traced_numpy
from functrans.errors import NotDifferentiableError, TracerIndexError
from functrans.ops.indexing.at import at
from functrans.ops.indexing.gather import gather_along
from tests.amount import examples

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
FEW = settings(max_examples=examples(120), deadline=None)


@st.composite
def indexed(draw):
    """An array and an index that fits it."""
    shape = draw(SHAPES)
    basic = hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
    index = draw(st.one_of(basic, advanced(shape)))
    return numbers(shape), index


@st.composite
def advanced(draw, shape):
    """Integers, slices, new axes, arrays of integers and masks, in any order."""
    start = draw(st.integers(0, len(shape)))
    stop = draw(st.integers(start, len(shape)))
    mask_size = draw(st.integers(0, 2))
    broadcast = draw(st.sampled_from([(mask_size,), (mask_size,), (1,), (), (3, 1), (2, 2)]))
    before = draw(entries(shape[:start], broadcast))
    return (*before, Ellipsis, *draw(entries(shape[stop:], broadcast)))[
        : None if draw(st.booleans()) else start
    ]


@st.composite
def entries(draw, shape, broadcast):
    """Entries that use up all axes of a shape; arrays broadcast to a shape."""
    found = []
    axis = 0
    while axis < len(shape):
        extent = shape[axis]
        fitting = ["slice", "slice", "newaxis"]
        if extent:
            fitting += ["int", "ints", "ints", "list"]
        mask_axes = draw(st.integers(1, min(2, len(shape) - axis)))
        places = int(np.prod(shape[axis : axis + mask_axes]))
        if len(broadcast) == 1 and broadcast[0] <= places:
            fitting += ["mask", "mask"]
        kind = draw(st.sampled_from(fitting))
        axis += {"newaxis": 0, "mask": mask_axes}.get(kind, 1)
        if kind == "newaxis":
            found.append(None)
        elif kind == "slice":
            found.append(draw(st.slices(extent)))
        elif kind == "int":
            found.append(draw(st.integers(-extent, extent - 1)))
        elif kind == "mask":
            order = draw(st.permutations(range(places)))
            mask = np.isin(np.arange(places), order[: broadcast[0]])
            found.append(mask.reshape(shape[axis - mask_axes : axis]))
        else:
            own = draw(st.sampled_from([broadcast, (1,) * len(broadcast)]))
            array = draw(hnp.arrays(np.int64, own, elements=st.integers(-extent, extent - 1)))
            found.append(array.tolist() if kind == "list" else array)
    return found


def numbers(shape):
    return np.random.default_rng(0).normal(size=shape)


def is_valid(x, index):
    try:
        x[index]
    except IndexError:
        return False
    return True


@FEW
@given(indexed())
def test_reading(case):
    x, index = case
    if not is_valid(x, index):
        with pytest.raises(IndexError):
            vmap(lambda x: x[index])(x[None])
        return
    found = vmap(lambda x: x[index], in_axes=-1)(np.stack([x, x + 1], -1))
    np.testing.assert_array_equal(found, np.stack([x[index], x[index] + 1]))


@FEW
@given(indexed())
def test_the_gradient_of_reading_adds_up_what_was_taken(case):
    x, index = case
    if not is_valid(x, index):
        return
    weights = np.random.default_rng(1).normal(size=x[index].shape)
    expected = np.zeros_like(x)
    np.add.at(expected, index, weights)
    np.testing.assert_allclose(grad(lambda x: (weights * x[index]).sum())(x), expected)
    mapped = vmap(grad(lambda x: (weights * x[index]).sum()))(x[None])[0]
    np.testing.assert_allclose(mapped, expected)


def write(x, index, value):
    y = x * 1.0
    y[index] = value
    return y


@FEW
@given(indexed(), st.booleans())
def test_writing(case, scalar):
    x, index = case
    if not is_valid(x, index):
        return
    shape = () if scalar else x[index].shape
    value = np.random.default_rng(1).normal(size=shape)
    expected = write(x, index, value)
    np.testing.assert_array_equal(vmap(lambda x: write(x, index, value))(x[None])[0], expected)
    values = np.stack([value, value + 1])
    found = vmap(lambda x, v: write(x, index, v))(np.stack([x, x]), values)
    np.testing.assert_array_equal(found, np.stack([expected, write(x, index, value + 1)]))

    weights = np.random.default_rng(2).normal(size=x.shape)
    dx, dv = grad(lambda x, v: (weights * write(x, index, v)).sum(), (0, 1))(x, value)
    np.testing.assert_array_equal(dx, write(weights, index, 0.0))
    np.testing.assert_allclose(dv, gradient_of_written(x, index, value, weights))


def gradient_of_written(x, index, value, weights):
    """By writing the numbers of the values, and seeing which are left."""
    numbered = np.arange(1.0, value.size + 1).reshape(value.shape)
    left = write(np.zeros_like(x), index, numbered).astype(int)
    result = np.zeros(value.size + 1)
    np.add.at(result, left, weights)
    return result[1:].reshape(value.shape)


@FEW
@given(indexed())
def test_at(case):
    x, index = case
    if not is_valid(x, index):
        return
    value = np.random.default_rng(1).uniform(0.5, 2, size=x[index].shape)
    for name, ufunc in {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
        "min": np.minimum, "max": np.maximum,
    }.items():  # fmt: skip
        expected = x.copy()
        ufunc.at(expected, index, value)
        found = vmap(lambda x, name=name: getattr(x.at[index], name)(value))(x[None])[0]
        np.testing.assert_allclose(found, expected, err_msg=name)


# -- one by one ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_traced_indices(compiled):
    wrap = jit if compiled else lambda f: f
    x = numbers((3, 4))
    rows, columns = np.array([0, 2, -1]), np.array([3, 3, 1])

    def f(x, i, rows):
        y = x[rows, columns] * x[i, 0]
        return y.sum() + x[i].sum() + x[1:, rows].sum() + x[rows[:, None], columns].sum()

    assert np.allclose(wrap(f)(x, 1, rows), f(x, 1, rows))
    expected = jacfwd(f)(x, 1, rows)
    assert np.allclose(wrap(grad(f))(x, 1, rows), expected)
    cases = np.array([1, 2]), np.stack([rows, rows - 1])
    separately = [f(x, 1, rows), f(x, 2, rows - 1)]
    assert np.allclose(vmap(f)(np.stack([x, x]), *cases), separately)
    value, derivative = value_and_grad(lambda x: vmap(partial(f, x))(*cases).sum())(x)
    assert np.allclose(value, sum(separately))
    assert np.allclose(derivative, expected + grad(f)(x, 2, rows - 1))


def test_of_equal_indices_the_last_one_counts():
    indices = np.array([1, 0, 1])
    _, dv = grad(lambda x, v: (write(x, indices, v) ** 2).sum(), (0, 1))(np.ones(2), np.arange(3.0))
    assert dv.tolist() == [0, 2, 4]
    mapped = vmap(lambda i, v: grad(lambda v: (write(np.ones(2) * v[0], i, v) ** 2).sum())(v))(
        indices[None], np.arange(3.0)[None]
    )
    assert mapped[0].tolist() == [0, 2, 4]


def test_multiplying_equal_indices_has_no_derivative_unless_promised():
    def f(v, indices, unique=False):
        return (np.ones(3) * v[0]).at[indices].multiply(v, unique=unique).sum()

    v = np.array([2.0, 3.0])
    with pytest.raises(NotDifferentiableError, match="unique=True"):
        grad(f)(v, np.array([1, 1]))
    assert grad(f)(v, np.array([1, 0])).tolist() == [1 + 3 + 2 + 2, 2]
    assert np.allclose(grad(lambda v: f(v, np.array([1, 0]), True))(v), [8, 2])


def test_extremes_share_the_derivative_of_a_tie():
    x, v = np.array([1.0, 5.0]), np.array([1.0, 1.0])
    dx, dv = grad(lambda x, v: x.at[np.array([0, 0])].max(v).sum(), (0, 1))(x, v)
    np.testing.assert_allclose(dx, [1 / 3, 1])
    np.testing.assert_allclose(dv, [1 / 3, 1 / 3])


def test_power_and_apply():
    x = np.array([2.0, 3.0])
    assert grad(lambda x: x.at[0].power(3).sum())(x).tolist() == [12, 1]
    assert grad(lambda x: x.at[np.array([1, 1])].apply(np.square).sum())(x).tolist() == [1, 6]
    with pytest.raises(ValueError, match="unique=True"):
        at(x)[np.array([1, 1])].power(3)


def test_a_mask_that_is_not_known():
    x = numbers((3, 2))
    rows = x[:, 0] > 0

    def f(x, mask):
        y = x * 2
        y[mask] = 7.0
        return y

    assert np.array_equal(jit(f)(x, rows), f(x, rows))
    assert np.array_equal(vmap(f)(x, x > 0), f(x, x > 0))
    assert np.array_equal(grad(lambda x: f(x, x > 0).sum())(x), np.where(x > 0, 0, 2.0))
    assert np.array_equal(grad(lambda x: x[x > 0].sum())(x), x > 0)


def computed_behind_a_mask(x):
    y = np.zeros_like(x) + x
    y[x > 0] = np.log(x[x > 0]) - 2.0 * x[x > 0]
    y[x < 0] = 1.0 - y[x < 0] ** 2
    return y


def rows_behind_a_mask(x):
    y = x * 1
    taken = y[x[:, 0] > 0]
    y[0] = 100.0
    taken += x[0]
    taken = 2.0 * taken
    y[x[:, 0] > 0] = taken
    return y


@pytest.mark.parametrize("f", [computed_behind_a_mask, rows_behind_a_mask])
def test_what_an_unknown_mask_takes_can_be_computed_with(f):
    x = numbers((4, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        np.testing.assert_allclose(jit(f)(x), f(x))
        np.testing.assert_allclose(vmap(f)(x[None])[0], f(x))
        known = grad(lambda x: f(x).sum())(x)
        np.testing.assert_allclose(jit(grad(lambda x: f(x).sum()))(x), known)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0].sum(),
        lambda x: np.sum(x[x > 0]),
        lambda x: x[x > 0] + x,
        lambda x: x[x > 0] + x[x < 0],
        lambda x: len(x[x > 0]),
        lambda x: x[x > 0][0],
        lambda x: list(x[x > 0]),
        lambda x: x[0, x[0] > 0],
        lambda x: write(x, x > 0, x[x < 0]),
        lambda x: write(x, 0, x[x < 0]),
        lambda x: np.add.reduce(x[x > 0]),
        lambda x: np.asarray(x[x > 0]),
    ],
)
def test_what_needs_the_number_of_elements_raises(f):
    words = r"np\.where\(mask, x, 0\.0\) instead of x\[mask\]"
    with pytest.raises((TracerIndexError, TypeError), match=words):
        jit(f)(numbers((3, 2)))


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), "index -5 is out of bounds for axis 1 with size 4"),
        ((None, 0, [1, 4]), "index 4 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), "too many indices for array: array is 2-dimensional, but 3 were indexed"),
        ((..., ...), "an index can only have a single ellipsis ('...')"),
        (1.5, "only integers, slices"),
        ("a", "only integers, slices"),
        ([[0], [1.0]], "only integers, slices"),
        (np.ones((3, 3), bool), "boolean index did not match indexed array along axis 1"),
        (([0, 1], [0, 1, 2]), "shape mismatch: indexing arrays could not be broadcast together"),
    ],
)
def test_wrong_indices(index, words):
    x = numbers((3, 4))
    with pytest.raises(IndexError):
        x[index]
    for transform in (vmap, grad):
        with pytest.raises(IndexError) as caught:
            transform(lambda x: x.reshape(-1, 3, 4)[0][index].sum())(
                x if transform is grad else x[None]
            )
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("extents", "words"),
    [
        ((2,), "boolean index did not match indexed array along axis 0"),
        ((3, 3), "boolean index did not match indexed array along axis 1"),
        ((3, 4, 1), "too many indices for array"),
    ],
)
def test_that_a_mask_does_not_fit_needs_no_knowledge_of_it(extents, words):
    def written(x, mask):
        y = x.copy()
        y[mask] = 7.0
        return y

    for f in (lambda x, mask: x[mask], written):
        for transform in (jit, lambda f: lambda *xs: vmap(f)(*[x[None] for x in xs])):
            with pytest.raises(IndexError, match=words):
                transform(f)(numbers((3, 4)), np.ones(extents, bool))


@pytest.mark.parametrize("extents", [(0,), (3, 0), (0, 4), (0, 0)])
@pytest.mark.parametrize("transform", [jit, vmap])
def test_an_empty_mask_fits_any_extent_and_takes_nothing(extents, transform):
    x, mask = numbers((3, 4)), np.zeros(extents, bool)

    def read_and_written(x, mask):
        y = x.copy()
        y[mask] = 7.0
        return x[mask], y

    lanes = transform is vmap
    operands = (x[None], mask[None]) if lanes else (x, mask)
    taken, written = transform(read_and_written)(*operands)
    np.testing.assert_array_equal(taken[0] if lanes else taken, x[mask])
    np.testing.assert_array_equal(written[0] if lanes else written, x)


def test_a_traced_index_out_of_bounds_names_the_axis():
    x = numbers((3, 4))
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        grad(lambda x, i: x[0, i])(x, 4)
    with pytest.raises(IndexError, match="out of bounds"):
        jit(lambda x, i: x[0, i])(x, 4)


def test_the_bounds_of_a_slice_are_known():
    with pytest.raises(TracerIndexError, match=r"x\[start : start \+ n\]"):
        jit(lambda x, i: x[i:])(np.ones(4), 1)
    assert grad(lambda x, i: x[i : i + 2].sum())(np.ones(4), 1).tolist() == [0, 1, 1, 0]
    assert jit(lambda x, i: x[i + np.arange(2)])(np.arange(4.0), 1).tolist() == [1, 2]


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(2,\)"):
        grad(lambda x: write(x, slice(0, 3), np.ones(2)).sum())(np.ones(4))
    with pytest.raises(TypeError, match="float64 into an array of dtype int64"):
        at(np.arange(3))[0].add(0.5)


def test_along_an_axis():
    x, i = numbers((3, 4)), np.array([[0, 3], [1, 1], [2, 0]])
    np.testing.assert_array_equal(gather_along(x, i, 1), np.take_along_axis(x, i, 1))
    np.testing.assert_array_equal(gather_along(x, i[:1], 1), np.take_along_axis(x, i[:1], 1))
    np.testing.assert_array_equal(gather_along(x[:1], i, 1), np.take_along_axis(x[:1], i, 1))


@pytest.mark.parametrize("value", [1, -1, 300, np.int64(-2), np.array([1, -300], np.int16)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64])
def test_integers_wrap_when_they_are_added_at_places(dtype, value):
    def f(x):
        y = x.copy()
        np.add.at(y, np.array([0, 2]), value)
        return y

    x = np.arange(4, dtype=dtype)
    np.testing.assert_array_equal(jit(f)(x), f(x))
    np.testing.assert_array_equal(vmap(f)(x[None]), f(x)[None])


def test_ranges_are_sequences_of_integers():
    def function(x):
        y = x.copy()
        y[range(3), range(3)] = 0.0
        y[range(1, 3)] *= 2.0
        return y[range(0)], y[range(2, 0, -1)], y[[range(2), range(2)]]

    x = numbers((4, 3))
    for found, expected in zip(vmap(function)(x[None]), function(x), strict=True):
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("index", [2**64 - 1, 2**63, 3])
def test_unsigned_indices_are_not_counted_from_the_end(index):
    """Compiled, as when they are evaluated: the largest become negative 64-bit integers."""
    places = np.array([0, index], np.uint64)
    of_an_argument = partial(jit(lambda places, x: x[places]), places)
    for function in (of_an_argument, jit(grad(lambda x: np.sum(x[places] ** 2)))):
        with pytest.raises(IndexError, match="out of bounds"):
            function(np.arange(3.0))


@pytest.mark.filterwarnings("error")
def test_bounds_of_slices_that_are_known_in_a_trace_are_no_swallowed_errors():
    """They were: looking for a remembered plan hashed them, which is an error of its own."""
    first = jit(lambda x: x[traced_numpy.asarray(1) : traced_numpy.asarray(4)])
    np.testing.assert_array_equal(first(np.arange(9.0)), np.arange(1.0, 4.0))
