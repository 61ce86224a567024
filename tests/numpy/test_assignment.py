"""In-place assignment by NumPy's functions, into their results, and through views."""

import importlib.util
import operator
from pathlib import Path

import numpy as np
import pytest

import functrans as ft
import functrans.numpy as fnp
from functrans import grad, jit, jvp, vmap
from functrans.errors import MutationError, TracerConversionError, UnsupportedNumPyError
from tests.numpy.attempts import is_known

spec = importlib.util.spec_from_file_location("numpy_cases", Path(__file__).with_name("cases.py"))
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

x = np.array([0.5, -1.5, 2.0])


def value_of(function, *operands):
    """What a function gives when it is traced with values."""
    return jvp(function, operands, operands)[0]


# -- what is made within a trace -------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: fnp.zeros(3),
        lambda x: fnp.ones(3),
        lambda x: fnp.empty(3),
        lambda x: fnp.full(3, 2.5),
        lambda x: fnp.full(3, 7, dtype=float),
        lambda x: fnp.full(3, x[0]),
        lambda x: fnp.arange(3.0),
        lambda x: fnp.linspace(0.0, 1.0, 3),
        lambda x: fnp.array([1.0, 2.0, 3.0]),
        lambda x: fnp.array([x[0], 2.0, 3.0]),
        lambda x: fnp.array(x),
        lambda x: fnp.copy(x),
        lambda x: fnp.eye(3)[0],
        lambda x: np.zeros_like(x),
        lambda x: np.ones_like(x),
        lambda x: np.full_like(x, 2.0),
        lambda x: np.zeros(3, like=x),
        lambda x: np.copy(x),
        lambda x: x.copy(),
        lambda x: x.astype(np.float64),
        lambda x: np.concatenate([x]),
        lambda x: np.asarray([1.0, 2.0, 3.0], like=x),
    ],
)
@pytest.mark.parametrize("transform", ["grad", "vmap"])
def test_new_arrays_can_be_assigned_to(make, transform):
    def function(x):
        y = make(x)
        y[1] = x[0] * 3
        return (y * y)[1]

    if transform == "grad":
        np.testing.assert_allclose(grad(function)(x), [18 * x[0], 0, 0])
    else:
        np.testing.assert_allclose(vmap(function)(np.stack([x, x + 1])), [(3 * x[0]) ** 2, 20.25])


def test_within_a_trace_creation_gives_traced_values_and_outside_arrays():
    seen = []
    grad(lambda x: seen.append(type(fnp.zeros(2)).__name__) or x)(1.0)
    assert seen == ["Tracer"]
    assert type(fnp.zeros(2)) is np.ndarray
    assert type(fnp.array([1, 2])) is np.ndarray
    assert fnp.asarray(x) is x


def test_python_may_look_at_constants_where_the_arguments_have_no_values():
    def function(x):
        n = fnp.full(2, 2)
        return x * sum(int(i) for i in n) if n[0] == 2 else x

    np.testing.assert_array_equal(vmap(function)(x), 4 * x)


def test_asarray_of_a_plain_array_takes_traced_indices_but_no_assignment():
    table = np.arange(10.0)
    np.testing.assert_array_equal(vmap(lambda i: fnp.asarray(table)[i])(np.array([3, 5])), [3, 5])

    def write(x):
        y = fnp.asarray(table)
        y[0] = x
        return y.sum()

    with pytest.raises(MutationError):
        grad(write)(1.0)
    assert table[0] == 0


# -- copies are copies and views are views ---------------------------------------------------------

ONE_ARRAY = [
    case
    for case in filter(is_known, cases.CASES)
    if len(case.operands) == 1 and case.operands[0].dtype == np.float64 and not case.needs_values
]


@pytest.mark.parametrize("case", ONE_ARRAY, ids=[case.name for case in ONE_ARRAY])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_writing_to_a_result_changes_the_array_as_in_numpy_or_raises(case):
    plain = case.operands[0].copy()
    with np.errstate(all="ignore"):
        result = case.call(plain)
    first = result[0] if isinstance(result, (tuple, list)) and len(result) else result
    if not isinstance(first, np.ndarray) or first.ndim == 0 or not first.flags.writeable:
        return
    shared = np.shares_memory(first, plain)
    first[...] = 3

    def function(operand):
        a = operand.copy()
        out = case.call(a)
        out = out[0] if isinstance(out, (tuple, list)) else out
        if type(out) is np.ndarray:
            return a  # positions and the like, which are plain
        try:
            out[...] = 3
            return a + 0
        except MutationError as error:
            uncertain = "depends on the layout" in str(error)
            assert shared or uncertain, "NumPy gives a copy, which can be assigned to"
            return fnp.array(plain)

    np.testing.assert_array_equal(value_of(function, case.operands[0]), plain)


# -- out= and where= -------------------------------------------------------------------------------


def into(call):
    def function(x):
        out = fnp.zeros(3)
        returned = call(x, out)
        assert returned is out
        return out * 2

    return function


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: np.exp(x, out=out),
        lambda x, out: np.exp(x, out),
        lambda x, out: np.add(x, 1.0, out=out),
        lambda x, out: np.cumsum(x, out=out),
        lambda x, out: x.cumsum(out=out),
        lambda x, out: np.clip(x, 0, 1, out=out),
        lambda x, out: np.clip(x, 0, 1, out),
        lambda x, out: x.clip(0, 1, out=out),
        lambda x, out: np.add.accumulate(x, out=out),
        lambda x, out: np.add.reduce(np.stack([x, x]), out=out),
        lambda x, out: np.sum(np.stack([x, x]), axis=0, out=out),
        lambda x, out: np.stack([x, x]).mean(0, None, out),
        lambda x, out: np.dot(np.eye(3), x, out=out),
        lambda x, out: np.einsum("ij,j", np.eye(3), x, out=out),
        lambda x, out: np.sum(np.stack([x, x]), 0, None, out, False),
        lambda x, out: np.take(x, [2, 0, 1], None, out),
        lambda x, out: np.matmul(np.eye(3), x, out=out),
        lambda x, out: np.concatenate([x[:1], x[1:]], out=out),
        lambda x, out: np.sqrt(np.abs(x), out=out, where=x > 0),
        lambda x, out: np.negative(x[0], out=out),
    ],
)
def test_out_is_assigned_to(call):
    expected = np.zeros(3)
    call(x, expected)
    np.testing.assert_allclose(value_of(into(call), x), expected * 2)
    ft.testing.check_grads(into(call), (x,), order=1)


def test_two_results_are_stored_in_two_arrays():
    def function(x):
        part, whole = fnp.zeros(3), fnp.zeros(3)
        np.modf(x, out=(part, whole))
        return part * 10 + whole

    np.testing.assert_allclose(value_of(function, x), np.modf(x)[0] * 10 + np.modf(x)[1])


@pytest.mark.parametrize(
    "store",
    [
        lambda a, x: np.add(a, x, out=a),
        lambda a, x: operator.iadd(a, x),
        lambda a, x: np.cumsum(x, out=a),
        lambda a, x: x.sum(out=a[0]),
        lambda a, x: np.add.at(a, [0], x),
    ],
)
def test_an_array_from_outside_takes_no_traced_result(store):
    outside = np.zeros(3)
    with pytest.raises(TracerConversionError, match=r"functrans\.numpy\.array\(a\)"):
        grad(lambda x: store(outside, x).sum())(x)


def test_the_words_for_an_ndarray_that_a_traced_value_is_added_to():
    a = np.zeros(3)

    def function(x):
        b = a
        b += x
        return b.sum()

    with pytest.raises(TracerConversionError) as caught:
        grad(function)(x)
    assert str(caught.value) == (
        f"np.add is to store a traced result in an ndarray at {Path(__file__).name}:"
        f"{function.__code__.co_firstlineno + 2} ({function.__qualname__}), `b += x`, "
        "which would lose its derivative.\n"
        "Write `a = a + x` instead of `a += x` or out=a, or make the array traced before: "
        "a = functrans.numpy.array(a)."
    )


def test_where_without_out_is_refused():
    with pytest.raises(UnsupportedNumPyError, match=r"where=\.\.\.\) without out="):
        grad(lambda x: np.exp(x, where=x > 0).sum())(x)


@pytest.mark.parametrize("where", [True, np.array([True, False, True])])
def test_out_takes_the_dtypes_that_numpy_casts(where):
    def function(x):
        return np.multiply(x, 1.5, out=(x * 2).astype(int), where=where)

    for call in (function, jit(function)):
        with pytest.raises(TypeError, match=r"cast.*int64"):
            call(np.ones(3))


OF_PLAIN_OPERANDS = {
    "ufunc": lambda out: np.sin(np.ones(3), out=out),
    "ufunc where": lambda out: np.sin(np.ones(3), out=out, where=np.array([True, False, True])),
    "number": lambda out: np.add(1.0, 2.0, out=out),
    "function": lambda out: np.clip(np.arange(3.0), 0, 1, out=out),
    "reduction": lambda out: np.nanmedian(np.ones((2, 3)), axis=0, out=out),
    "reduce": lambda out: np.add.reduce(np.ones((2, 3)), out=out),
    "quantile": lambda out: np.nanquantile(np.eye(3), 0.6, axis=0, out=out),
}


@pytest.mark.parametrize("call", OF_PLAIN_OPERANDS.values(), ids=OF_PLAIN_OPERANDS)
def test_plain_results_are_stored_in_traced_arrays(call):
    def function(x):
        out = x * 2
        assert call(out) is out
        return out

    np.testing.assert_allclose(value_of(function, x), function(x))
    ft.testing.check_grads(function, (x,), order=1)


def test_out_of_an_argument_is_a_mutation():
    with pytest.raises(MutationError):
        grad(lambda x: np.exp(x, out=x).sum())(x)


# -- methods and functions that work in place ------------------------------------------------------

IN_PLACE = {
    "fill": lambda a: a.fill(2.0),
    "sort": lambda a: a.sort(),
    "sort axis": lambda a: a.sort(axis=0),
    "put": lambda a: a.put([0, 4], [7.0, 8.0]),
    "put one": lambda a: a.put([0, 4], a[0, 0]),
    "put_along_axis": lambda a: np.put_along_axis(a, np.argmax(a, 1, keepdims=True), 9.0, axis=1),
    "put_along_axis of all": lambda a: np.put_along_axis(a, np.array([1, 4]), -a[0, 0], axis=None),
    "fill_diagonal": lambda a: np.fill_diagonal(a, 5.0),
    "fill_diagonal wrapped": lambda a: np.fill_diagonal(np.ones((7, 2)), a[0, :3], wrap=True),
    "copyto": lambda a: np.copyto(a, 2.0, where=a > 0),
    "copyto all": lambda a: np.copyto(a, a[0]),
    "putmask": lambda a: np.putmask(a, a > 0, -a),
    "np.put": lambda a: np.put(a, [1, 2], 3.0),
    "np.put wrapped": lambda a: np.put(a, [1, -9, 70], [a[1, 1], 3.0, 4.0], mode="wrap"),
    "np.put clipped": lambda a: np.put(a, [1, -90, 70], 3.0, mode="clip"),
    "partition": lambda a: a.partition(tuple(range(a.shape[1]))),
    "np.place": lambda a: np.place(a, a > -9, [1.0, 2.0]),
    "add.at": lambda a: np.add.at(a, (0, [1, 1, 2]), [1.0, 2.0, a[0, 0]]),
    "subtract.at": lambda a: np.subtract.at(a, [0, 0], a[1]),
    "multiply.at": lambda a: np.multiply.at(a, (0, [1, 2]), 2.0),
    "divide.at": lambda a: np.divide.at(a, (0, [1, 1, 2]), np.array([2, 4, 3])),
    "maximum.at": lambda a: np.maximum.at(a, [1, 1], 0.25),
    "negative.at": lambda a: np.negative.at(a, [0]),
    "slices": lambda a: operator.setitem(a, slice(1, None), a[:-1] * 2),
    "through T": lambda a: operator.setitem(a.T, (0, 1), a[1, 1] ** 2),
    "through a row": lambda a: operator.iadd(a[0], a[1]),
    "through swapaxes": lambda a: operator.imul(np.swapaxes(a, 0, 1)[1], 3.0),
    "through expand_dims": lambda a: operator.setitem(np.expand_dims(a, 0), (0, 0), a[1] * 2),
    "through split": lambda a: operator.imul(np.split(a, 2, axis=1)[1], 2.0),
    "through flip": lambda a: operator.setitem(np.flip(a, 1), (slice(None), 0), 0.0),
    "through atleast_3d": lambda a: operator.iadd(np.atleast_3d(a), 1.0),
    "through rot90": lambda a: operator.iadd(np.rot90(a)[0], 1.0),
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place(change):
    def function(a):
        a = a.copy()
        change(a)
        return a * 2

    np.testing.assert_allclose(value_of(function, cases.m), function(cases.m))
    ft.testing.check_grads(function, (cases.m,), order=1, max_elements=6)


def test_at_combines_with_every_value():
    def function(x):
        a = fnp.zeros(2)
        np.add.at(a, [0, 1, 0], x)
        return a

    np.testing.assert_allclose(value_of(function, x), [x[0] + x[2], x[1]])


def test_resize_in_place_is_refused():
    with pytest.raises(MutationError, match=r"np\.resize"):
        grad(lambda x: x.copy().resize(4))(x)


# -- where NumPy gives a view or a copy depending on the layout ------------------------------------

REST_IS_UNUSED = {
    "reshape of a temporary": lambda x: fnp.zeros(6).reshape(2, 3),
    "ravel": lambda x: np.ravel(np.ones_like(np.stack([x, x]))),
    "order F": lambda x: (np.stack([x, x]) * 1).reshape(3, 2, order="F"),
    "of a transpose": lambda x: np.stack([x, x]).T.reshape(-1),
    "a view of it": lambda x: fnp.ones(6).reshape(2, 3).T,
}


@pytest.mark.parametrize("make", REST_IS_UNUSED.values(), ids=REST_IS_UNUSED)
def test_a_reshaped_array_is_assigned_to_if_the_original_is_not_used_again(make):
    def function(x):
        y = make(x)
        y[1] = x[0] * 2
        return y * 3

    np.testing.assert_allclose(value_of(function, x), function(x))
    ft.testing.check_grads(function, (x,), order=1)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("which", ["original", "sibling", "view", "what it is a view of"])
def test_what_a_reshaped_array_may_share_memory_with_cannot_be_read_after_an_assignment(
    order, which
):
    def function(x):
        whole = np.stack([x, x, x, x])
        y = whole[:2]
        sibling, view = y.reshape(-1), y[0]
        y.reshape(3, 2, order=order)[0] = 1.0
        used = {"original": y, "sibling": sibling, "view": view}
        return used.get(which, whole).sum()

    with pytest.raises(MutationError, match="after reshape of it was assigned to at"):
        grad(function)(x)


BASES = {
    "whole": lambda x: np.stack([x, x, x]),
    "transposed": lambda x: np.stack([x, x, x]).T,
    "column": lambda x: np.stack([x, x, x])[:, 0],
    "column as a matrix": lambda x: np.stack([x, x, x])[:, :1],
    "row": lambda x: np.stack([x, x, x])[0],
    "backwards": lambda x: np.stack([x, x, x])[0, ::-1],
}
SAME_OR_COPY = {
    "ravel": np.ravel,
    "ravel order F": lambda y: y.ravel("F"),
    "ascontiguousarray": lambda y: np.ascontiguousarray(y),
    "asfortranarray": lambda y: np.asfortranarray(y),
    "asarray": lambda y: np.asarray(y, order="F"),
    "require": lambda y: np.require(y, requirements="C"),
    "meshgrid": lambda y: np.meshgrid(y, copy=False)[0],
    "einsum": lambda y: np.einsum("i...->...i", y),
}


@pytest.mark.parametrize("write", ["to the array", "to the result"])
@pytest.mark.parametrize("again", SAME_OR_COPY.values(), ids=SAME_OR_COPY)
@pytest.mark.parametrize("make", BASES.values(), ids=BASES)
def test_what_is_the_array_itself_or_a_copy_is_as_in_numpy_or_raises(make, again, write):
    def function(x):
        y = make(x)
        z = again(y)
        (y if write == "to the array" else z)[...] = 7.0 * x[0]
        return y + 0.0, z + 0.0

    try:
        result = value_of(function, x)
    except MutationError as error:
        assert "depends on the layout" in str(error)
    else:
        for got, expected in zip(result, function(x), strict=True):
            np.testing.assert_allclose(got, expected)


def vector_of_its_own(x):
    y = x * 1
    y.ravel()[0] = 5.0
    np.ascontiguousarray(y)[1] = 6.0
    return y


def diagonal_by_einsum(x):
    y = np.outer(x, x)
    np.einsum("ii->i", y)[...] = x
    np.einsum("ij->ji", y)[0] += x
    return y


def without_zeros(x):
    y = np.stack([0.0 * x[0], x[0], 0.0 * x[0]])
    np.trim_zeros(y)[...] = 3.0 * x[1]
    return y


def asarray_of_constants(x):
    y = np.zeros_like(x)
    np.asarray(y)[0] = x[0]
    z = np.asarray(y[1:])
    y[1:] = 2.0
    return np.stack([z[0], y[0]])


def one_number_in_place(x):
    y = np.zeros(3)
    y[..., 0] += x[1]
    return y


@pytest.mark.parametrize(
    "function",
    [
        asarray_of_constants, vector_of_its_own, diagonal_by_einsum, without_zeros,
        one_number_in_place,
    ],
)  # fmt: skip
def test_what_is_a_view_in_any_layout(function):
    np.testing.assert_allclose(value_of(function, x), function(x))
    ft.testing.check_grads(function, (x,), order=1)


PLAIN_VIEWS = {
    "broadcast_to": lambda y: np.broadcast_to(y, (2, 3, 3)),
    "broadcast_arrays": lambda y: np.broadcast_arrays(y, np.ones((2, 1, 1)))[0][0],
    "squeeze": lambda y: np.squeeze(y[None]),
    "einsum": lambda y: np.einsum("ii->i", y),
    "windows": lambda y: np.lib.stride_tricks.sliding_window_view(y, 2, axis=0)[0],
    "array": lambda y: np.array(y, copy=None, ndmin=3),
    "conj": lambda y: y.conj(),
}


@pytest.mark.parametrize("make", PLAIN_VIEWS.values(), ids=PLAIN_VIEWS)
def test_views_that_numpy_makes_plain_become_traced(make):
    def function(x):
        y = np.ones((3, 3)).T
        z = make(y)
        y[0] = x
        return y, z + 0.0

    for got, expected in zip(value_of(function, x), function(x), strict=True):
        np.testing.assert_allclose(got, expected)


def test_a_reshaped_argument_is_still_the_callers():
    def function(x):
        x.reshape(3, 1, 1)[0] = 1.0
        x.reshape(-1, order="F")[0] = 1.0
        return x.sum()

    with pytest.raises(MutationError, match="which the caller still holds"):
        grad(function)(x)


def test_what_numpy_does_not_let_be_written_to():
    with pytest.raises(MutationError, match="broadcast_to, whose result NumPy does not let"):
        grad(lambda x: operator.setitem(np.broadcast_to(x * 1, (2, 3)), 0, 1.0))(x)
