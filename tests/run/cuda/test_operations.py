"""NumPy's operations on device arrays, against NumPy on the host, in the emulator."""

import copy
import operator

import numpy as np
import pytest

import functrans
import functrans.numpy as fnp
import functrans.scipy.special
from functrans import config
from functrans.errors import DeviceError, MutationError, UnsupportedNumPyError
from functrans.run.cuda import eager, operations, program
from functrans.run.cuda.array import DeviceArray
from tests.run.cuda.stub import stubs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype(np.float32)
Y = RNG.normal(size=(4, 5)).astype(np.float32)
V = RNG.normal(size=5)
N = np.arange(5, dtype=np.uint8)


def added_in_place(x):
    x += 1
    x *= 2.0
    return x


CALLS = {
    "ufunc": lambda x, y, v, n: np.sin(x),
    "number": lambda x, y, v, n: x + 1,
    "reflected": lambda x, y, v, n: 1.5 - x,
    "float": lambda x, y, v, n: x * 0.1,
    "NumPy's number": lambda x, y, v, n: x * np.float64(0.1),
    "product": lambda x, y, v, n: x @ y.T,
    "sum": lambda x, y, v, n: x.sum(axis=0),
    "row": lambda x, y, v, n: x[2],
    "element": lambda x, y, v, n: x[-1, -2],
    "rows": lambda x, y, v, n: x[1:3],
    "no rows": lambda x, y, v, n: x[3:1],
    "reversed": lambda x, y, v, n: x[::-1, 1::2],
    "new axis": lambda x, y, v, n: x[:, None, 1:3],
    "ellipsis": lambda x, y, v, n: x[..., 0],
    "list index": lambda x, y, v, n: x[[0, 2, 0]],
    "empty index": lambda x, y, v, n: x[[]],
    "mask": lambda x, y, v, n: x[x > 0],
    "mask of rows": lambda x, y, v, n: x[np.array([True, False, True, False])],
    "mask of columns": lambda x, y, v, n: x[:, n > 2],
    "device index": lambda x, y, v, n: x[np.argmax(x, axis=0), np.arange(5)],
    "scalar device index": lambda x, y, v, n: v[n[2]],
    "T": lambda x, y, v, n: x.T,
    "norm": lambda x, y, v, n: np.linalg.norm(x),
    "norms": lambda x, y, v, n: np.linalg.norm(x, axis=1, ord=1),
    "where": lambda x, y, v, n: np.where(x > y, x, 0.5),
    "compare": lambda x, y, v, n: x == y,
    "clip": lambda x, y, v, n: np.clip(x, -0.5, 0.5),
    "stack": lambda x, y, v, n: np.stack([x, y]),
    "concatenate": lambda x, y, v, n: np.concatenate([x, y], axis=1),
    "power": lambda x, y, v, n: x**2,
    "with the host's": lambda x, y, v, n: x + np.ones(5),
    "with a list": lambda x, y, v, n: np.add(x, [1, 2, 3, 4, 5]),
    "small integers": lambda x, y, v, n: n + 1,
    "integers of two kinds": lambda x, y, v, n: n * np.int16(300),
    "beyond the type": lambda x, y, v, n: n < 300,
    "reduce": lambda x, y, v, n: np.add.reduce(x, axis=1),
    "accumulate": lambda x, y, v, n: np.add.accumulate(x, axis=1),
    "outer": lambda x, y, v, n: np.multiply.outer(v, v),
    "std": lambda x, y, v, n: np.std(x, axis=0),
    "reshape": lambda x, y, v, n: x.reshape(2, -1),
    "astype": lambda x, y, v, n: x.astype(np.float64),
    "split": lambda x, y, v, n: np.split(x, np.array([1, 3])),
    "einsum": lambda x, y, v, n: np.einsum("ij,ij->i", x, y),
    "cumsum": lambda x, y, v, n: x.cumsum(),
    "zeros_like": lambda x, y, v, n: np.zeros_like(x),
    "full_like": lambda x, y, v, n: np.full_like(x, 3.5),
    "iteration": lambda x, y, v, n: [row.sum() for row in x],
    "divmod": lambda x, y, v, n: divmod(x, 0.3),
    "round": lambda x, y, v, n: np.round(x, 1),
    "shape": lambda x, y, v, n: np.shape(x),
    "result_type": lambda x, y, v, n: np.result_type(x, v),
    "imaginary": lambda x, y, v, n: (x + 1j * y).imag,
    "interp": lambda x, y, v, n: np.interp(x, [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]),
    "var": lambda x, y, v, n: x.var(axis=-1, ddof=1, keepdims=True),
    "pad": lambda x, y, v, n: np.pad(x, 1, constant_values=0.5),
    "apply_along_axis": lambda x, y, v, n: np.apply_along_axis(lambda r: r.sum() * r, 1, x),
    "functrans.numpy": lambda x, y, v, n: fnp.exp(fnp.sin(x)),
    "contains": lambda x, y, v, n: 4 in n,
    "in place": lambda x, y, v, n: added_in_place(x),
    "erf": lambda x, y, v, n: functrans.scipy.special.erf(v),
    "logsumexp": lambda x, y, v, n: functrans.scipy.special.logsumexp(x, axis=1),
}


def same(found, expected):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert isinstance(found, DeviceArray)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)
    else:
        assert found == expected


@pytest.fixture
def there(emulated):
    return [functrans.device_put(x) for x in (X, Y, V, N)]


@pytest.mark.parametrize("name", CALLS)
def test_results_are_numpys_and_on_the_device(there, name):
    call = CALLS[name]
    same(call(*there), call(*map(copy.copy, (X, Y, V, N))))
    there.clear()


AT = {
    "add": (1, 2.0, lambda x: np.add.at(x, 1, 2.0)),
    "subtract": ([0, 0], 1.0, lambda x: np.subtract.at(x, [0, 0], 1.0)),
    "set": ((slice(None), slice(1, 3)), 0.0, lambda x: operator.setitem(x, np.s_[:, 1:3], 0.0)),
    "multiply": (np.array([1, 1]), Y[:2], lambda x: np.multiply.at(x, np.array([1, 1]), Y[:2])),
    "max": (np.s_[::2], 0.0, lambda x: np.maximum.at(x, np.s_[::2], 0.0)),
}


@pytest.mark.parametrize("name", AT)
def test_elements_are_replaced_in_a_new_array(there, name):
    index, value, on_host = AT[name]
    expected = X.copy()
    on_host(expected)
    same(getattr(there[0].at[index], name)(value), expected)
    np.testing.assert_array_equal(np.asarray(there[0]), X)
    there.clear()


def test_a_loop_over_numbers_and_pieces_is_one_program(there):
    x = there[0]
    x * 0.5, x[0:2, ::2]
    before = len(eager._traced)
    for k in range(1, 4):
        same(x * (0.25 * k), X * np.float32(0.25 * k))
        same(x[k - 1 : k + 1, ::2], X[k - 1 : k + 1, ::2])
    assert len(eager._traced) == before
    there.clear()
    del x


def test_pieces_that_lie_together_take_no_kernel(there, emulated):
    x = there[0]
    launched = len(emulated.launches)
    for index in (1, np.s_[1:3], np.s_[2, 1:4], np.s_[-1, -1], np.s_[...], np.s_[None, 3:]):
        same(x[index], X[index])
    assert len(emulated.launches) == launched
    there.clear()
    del x


@pytest.mark.parametrize(
    "index", [4, -5, (0, 5), (0, 0, 0), np.array([True]), (..., ...)], ids=repr
)
def test_indices_that_do_not_fit_are_numpys_errors(there, index):
    with pytest.raises(IndexError) as expected:
        X[index]
    with pytest.raises(IndexError) as found:
        there[0][index]
    assert str(found.value).startswith(str(expected.value))  # and says which line it was
    there.clear()
    del found


def test_an_index_on_the_device_is_found_wrong_when_one_looks(there):
    found = there[2][functrans.device_put(np.array([7]))]
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        np.asarray(found)
    there.clear()
    del found


def test_integers_that_do_not_fit_are_numpys_error(there):
    with pytest.raises(OverflowError, match="300"):
        there[3] + 300
    there.clear()


def test_several_arrays_become_one_of_the_host(there):
    np.testing.assert_array_equal(np.asarray(there[:2]), np.array([X, Y]))
    there.clear()


def test_numpy_prints_what_it_is_given(there):
    assert np.array2string(there[3]) == "[0 1 2 3 4]"
    assert f"{there[3]!r}".startswith("DeviceArray([0, 1, 2, 3, 4], dtype=uint8")
    there.clear()


def assigned(x):
    x[0] = 1.0


CHANGES = {
    "item": assigned,
    "sort": lambda x: x.sort(),
    "fill": lambda x: x.fill(1.0),
    "out": lambda x: np.sin(x, out=x),
    "sum out": lambda x: np.sum(x, axis=0, out=np.zeros(5)),
    "at": lambda x: np.add.at(x, 0, 1.0),
    "copyto": lambda x: np.copyto(x, 1.0),
    "put": lambda x: np.put(x, 0, 1.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_changed_in_place(there, name):
    with pytest.raises(MutationError, match="an array on a device is a value"):
        CHANGES[name](there[0])
    np.testing.assert_array_equal(np.asarray(there[0]), X)
    there.clear()


def test_what_python_has_to_look_at_goes_to_the_host_only_if_allowed(there, monkeypatch):
    with pytest.raises(UnsupportedNumPyError, match=r"np\.nonzero .* has to look at the numbers"):
        np.nonzero(there[0] > 0)
    with pytest.raises(UnsupportedNumPyError, match=r"np\.busday_count is not supported|dtype"):
        np.busday_count(there[3], there[3])
    monkeypatch.setattr(config, "cuda_fallback", "host")
    same(np.nonzero(there[0] > 0), np.nonzero(X > 0))
    same(np.unique(there[3]), np.unique(N))
    there.clear()


def test_a_ufunc_goes_the_way_of_the_last_one_of_its_types(there, monkeypatch):
    x, y, v, n = there
    for a, b, on_host in [(x, y, (X, Y)), (x, 0.1, (X, 0.1)), (2.5, v, (2.5, V)), (n, n, (N, N))]:
        same(np.add(a, b), np.add(*on_host))
        with monkeypatch.context() as patch:
            patch.setattr(eager, "call", None)  # it is not asked again
            patch.setattr(operations, "call", None)
            same(np.add(a, b), np.add(*on_host))
    same(x + 1e300, X + np.float32(np.inf))  # another number, no other type
    same(v + x, V + X)
    same(np.power(x, 2.0), np.power(X, 2.0))
    same(np.power(x, 3.0), np.power(X, 3.0))
    there.clear()


def test_a_ufunc_of_known_types_goes_by_the_options_of_the_moment(there, monkeypatch):
    made = []
    real = program.DeviceProgram.__init__
    monkeypatch.setattr(
        program.DeviceProgram, "__init__", lambda self, *a: made.append(a) or real(self, *a)
    )
    for deterministic in (False, True, False):
        monkeypatch.setattr(config, "deterministic", deterministic)
        same(np.hypot(there[0], there[1]), np.hypot(X, Y))
    assert [target.deterministic for _, _, _, target in made] == [False, True]
    there.clear()


def test_arrays_of_two_devices_do_not_meet():
    with stubs(1 << 20, 1 << 20):
        x, y = functrans.device_put(X, "cuda:0"), functrans.device_put(X, "cuda:1")
        with pytest.raises(DeviceError, match="operands are on cuda:0 and on cuda:1: put them on"):
            x + y
