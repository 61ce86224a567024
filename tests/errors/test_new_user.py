"""First attempts of new users: each error says what to do."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from functrans import grad, hessian, jit, vjp, vmap
from functrans.errors import AxesError, DtypeError, LeakedTracerError, TracerConversionError
from functrans.testing import check_grads

X = np.array([1.0, 2.0, 3.0])


def total(x):
    return np.sum(x**2)


@dataclass
class Layer:
    weight: np.ndarray


@pytest.mark.parametrize("transform", [grad, jit, vmap])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (
            np.ma.array(X, mask=[0, 1, 0]),
            r"argument 0 \('x'\) of total is a masked array, whose mas",
        ),
        (X.view(np.matrix), r"argument 0 \('x'\) of total is a np\.matrix: pass np\.asarray"),
        (Layer(X), r"argument 0 \('x'\) of total.* functrans\.tree\.register_dataclass makes"),
    ],
)
def test_arrays_that_mean_something_else_are_refused(transform, x, words):
    with pytest.raises(DtypeError, match=words):
        transform(total)(x)


def test_a_masked_array_is_refused_where_an_array_of_its_type_was_compiled_for():
    compiled = jit(total)
    compiled(X)
    with pytest.raises(DtypeError, match="masked array"):
        compiled(np.ma.array(X, mask=[0, 1, 0]))


def test_a_list_of_numbers_is_a_pytree_and_no_array():
    with pytest.raises(TracerConversionError, match=r"np\.stack\(\[x, y\]\)"):
        grad(np.sum)([1.0, 2.0])
    np.testing.assert_array_equal(grad(lambda x: np.sum(np.stack(x)))([1.0, 2.0]), [1.0, 1.0])


def test_a_pullback_takes_one_cotangent():
    _, pullback = vjp(lambda x: (x, x), X)
    with pytest.raises(TypeError, match=r"one cotangent.*write pullback\(\(ct0, ct1\)\)"):
        pullback(X, X)


@pytest.mark.dear
def test_a_hessian_that_does_not_fit_in_memory_says_what_does():
    with pytest.raises(MemoryError) as error:
        hessian(total)(np.ones(10_000_000))
    *where, what = error.value.__notes__
    assert "hvp take one, and do without the matrix" in what
    assert not any("None" in note for note in where)


def test_one_axis_for_two_arguments():
    with pytest.raises(AxesError, match="in_axes has 1 entry, but multiply"):
        vmap(np.multiply, in_axes=(0,))(X, X)


def test_a_traced_value_in_another_thread():
    def crossing(x):
        caught = []

        def work():
            try:
                np.sin(x)
            except LeakedTracerError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise caught[0]

    with pytest.raises(LeakedTracerError, match=r"another thread .*\(.*work\), `np\.sin\(x\)`"):
        grad(crossing)(1.0)


def test_check_grads_takes_a_tuple():
    with pytest.raises(TypeError, match=r"the arguments of total as a tuple, not .* write \(x,\)"):
        check_grads(total, X)


def test_what_is_printed_of_a_compiled_function():
    assert repr(jit(total)) == "jit(total)"
