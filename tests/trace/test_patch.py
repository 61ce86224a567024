"""The patched module `numpy` during a trace: user code gets our functions, other code NumPy's."""

import inspect
import math
import pickle
import subprocess
import sys
import threading
import types
from dis import get_instructions
from functools import partial, reduce

import numba
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.stats
from numpy import array as by_name
from numpy.polynomial import Polynomial

from functrans import config, grad, jit, vmap
from functrans import numpy as fnp
from functrans.errors import TracerConversionError
from functrans.testing import check_grads
from functrans.trace.assignable import Assignable
from functrans.trace.bytecode import attribute_reads

X = np.array([1.0, 2.0, 3.0])
NUMPYS = {name: getattr(np, name) for name in ("array", "zeros", "sum", "asarray", "exp", "r_")}
CALL = np.vectorize.__call__


def is_restored():
    return (
        type(np) is type(np.linalg) is type(np.fft) is types.ModuleType
        and np.vectorize.__call__ is CALL
        and all(getattr(np, name) is value for name, value in NUMPYS.items())
    )


@pytest.fixture(autouse=True)
def restored():
    yield
    assert is_restored()


@pytest.mark.parametrize("module", [math, np, np.linalg])
def test_attributes_are_looked_up_though_the_interpreter_has_specialised_the_code(module):
    """Python 3.14 reads them from a module's dict where code has run before."""
    scope = {"module": module}
    name = {math: "sqrt", np: "sqrt", np.linalg: "det"}[module]
    exec(compile(f"def f(x): return module.{name}(x)", "users.py", "exec"), scope)
    x = 4.0 if module is math else np.full((1, 1), 4.0)
    for _ in range(20):
        expected = scope["f"](x)
    for _ in range(20):
        assert jit(lambda x: scope["f"](x))(x) == expected
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'sine'"):
        jit(lambda x: module.sine(x))(x)


# -- what works ------------------------------------------------------------------------------------

CALLS = {
    "array": lambda x: np.array([x[0], 1.0, x[1] ** 2]),
    "array of rows": lambda x: np.array([[x[0], 0], [1, x[1]]], dtype=np.float32),
    "array of a tracer": lambda x: np.array(x) * np.asarray(x) + np.asanyarray(x, dtype=float),
    "ndmin": lambda x: np.array(x, ndmin=3),
    "tuples": lambda x: np.asarray(((x[0], x[1]), (x[2], 2.0))),
    "contiguous": lambda x: np.ascontiguousarray([x[0]]) + np.asfortranarray(x),
    "full": lambda x: np.full((2, 2), x[0]),
    "sum": lambda x: np.sum([x[0], x[1]]) + np.prod([x[1], x[2]]) * np.mean([x[0], x[2]]),
    "max": lambda x: np.max([x[0], x[1]]) + np.minimum(x[0], [x[1], 0.5]),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "det": lambda x: np.linalg.det([[x[0], x[1]], [x[2], 1.0]]),
    "stack": lambda x: np.stack([[x[0], x[1]], [x[2], 1.0]]),
    "dot": lambda x: np.dot([x[0], x[1]], [x[1], x[2]]) + np.outer([x[0]], [x[1], 2.0]),
    "ufunc": lambda x: np.exp([x[0], 0.0]) + np.add([1, 2], [x[1], x[2]]),
    "starred": lambda x: np.array(*[[x[0], x[1]]], dtype=float),
    "r_": lambda x: np.r_[x, 1.0, x[0], 0:3, 0.0:1.0:3j, [x[1], 2.0]],
    "c_": lambda x: np.c_[x, x**2, np.ones(3)],
    "r_ by axis": lambda x: np.r_["0,2", x, np.ones(3)] + np.r_["1,2,0", x, X[:3]].sum(),
    "fromiter": lambda x: np.fromiter((value**2 for value in x), float),
    "fromfunction": lambda x: np.fromfunction(lambda i, j: i * x[0] + j, (2, 3)),
    "linspace": lambda x: np.linspace(0.0, x[0], 4),
    "dtypes": lambda x: np.float64(x) * np.int64(x + 0.5) + np.float64([x[1], 1.0])[0],
    "mapped": lambda x: sum(map(np.asarray, (x[0], x[1]))) * np.stack(list(map(np.array, [x, x]))),
    "nested calls": lambda x: np.sum(np.array([np.sum([x[0], 2.0]), *x])),
}


@pytest.mark.parametrize("function", CALLS.values(), ids=CALLS)
def test_calls_that_numpy_does_not_hand_over(function):
    expected = function(X)
    for found in (vmap(function)(X[None])[0], jit(function)(X)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if expected.dtype == float:
        check_grads(lambda x: np.sum(np.sin(function(x))), (X,), order=1)


def test_a_dtype_that_is_called_is_that_of_the_result():
    row = np.ones(2, np.float32)
    assert jit(lambda x: np.float64(x) + row)(2.5).dtype == (np.float64(2.5) + row).dtype
    np.testing.assert_array_equal(jit(lambda x: fnp.int64(x))(np.array([2.7, -2.7])), [2, -2])


@np.vectorize
def branching(x, scale):
    return x * x if x > 1.5 else scale * x


@np.vectorize(signature="(n),(n)->()", otypes=[np.float32])
def of_rows(x, y):
    return np.sum(x * y)


@partial(np.vectorize, excluded={1, "shift"})
def of_two_results(x, coefficients, shift=0.0):
    return x * coefficients[0] + shift, x**2


def test_vectorize_of_a_function_that_branches():
    def loss(x):
        made = np.vectorize(lambda a, b: a * b)
        several = of_two_results(x, [2.0, 3.0], shift=1.0)
        return np.sum(branching(x, 3.0) + made(x, x[0])) + np.sum(several[0] * several[1])

    check_grads(loss, (X,), order=1)
    np.testing.assert_array_equal(grad(lambda x: np.sum(branching(x, 3.0)))(X), [3.0, 4.0, 6.0])
    assert branching(X, 3.0).dtype == float


def test_vectorize_as_a_decorator_in_a_trace():
    """As in a module of SciPy's that is imported while a function is traced."""

    def function(x):
        @np.vectorize(otypes=[np.float32])
        def doubled(x):
            return 2 * x

        return doubled(x) + doubled(1.5)

    found = jit(function)(X)
    assert found.dtype == function(X).dtype
    np.testing.assert_array_equal(found, function(X))


def test_vectorize_of_rows():
    m = np.arange(6.0).reshape(2, 3)
    expected = of_rows(m, X)
    for found in (jit(of_rows)(m, X), vmap(of_rows)(m, np.stack([X, X]))):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected)


CLOSURES = {
    "branches": lambda a: np.sum(np.vectorize(lambda t: a * t if t > 1.5 else t)(X)),
    "rows": lambda a: np.sum(np.vectorize(lambda r: a * r.sum(), signature="(n)->()")(X)),
    "indices": lambda a: np.sum(
        np.fromfunction(np.vectorize(lambda i, j: a * i if i > j else j), (2, 3))
    ),
    "two results": lambda a: np.sum(np.vectorize(lambda t: (a * t, t))(X)[0]),
    "excluded": lambda a: np.sum(np.vectorize(lambda t, n: a * t * n, excluded=[1])(X, 3)),
    "none": lambda a: a * np.sum(np.vectorize(lambda t: 2 * t)(X)),
    "no elements": lambda a: a + np.sum(np.vectorize(lambda t: a * t, otypes=[float])(X[:0])),
}
"""Functions of plain values that may read a traced one."""


@pytest.mark.parametrize("f", CLOSURES.values(), ids=CLOSURES)
def test_vectorize_of_a_closure(f):
    np.testing.assert_allclose(jit(f)(2.0), f(2.0))
    check_grads(f, (2.0,), order=2)


def test_vectorize_calls_a_function_of_plain_values_as_often_as_numpy():
    calls = []
    f = np.vectorize(lambda t: calls.append(t) or t, otypes=[float])
    jit(lambda a: a * np.sum(f(X)))(2.0)
    assert calls == list(X)


# -- who sees it -----------------------------------------------------------------------------------


def test_a_function_that_is_not_called_at_once_is_numpys():
    reducers = {np.sum: "sum"}

    def function(x, reducer=np.sum):
        assert type(np) is not types.ModuleType
        assert reducer is np.sum
        assert np.sum is reducer
        assert reducers[np.sum] == "sum"
        assert np.array is NUMPYS["array"]
        assert np.float32 is np.dtype("float32").type is fnp.float32
        assert getattr(np, "zeros") is NUMPYS["zeros"]  # noqa: B009
        assert vars(np)["zeros"] is NUMPYS["zeros"]
        assert pickle.loads(pickle.dumps(np.zeros)) is NUMPYS["zeros"]
        assert inspect.signature(np.sum) == inspect.signature(NUMPYS["sum"])
        assert np.array.__name__ == "array"
        assert isinstance(np, types.ModuleType)
        assert [type(make(2)) for make in (np.zeros,)] == [np.ndarray]
        assert np.add.reduce(np.ones(3)) == 3.0
        return np.sum(x)

    grad(function)(X)


def test_no_class_changes():
    classes = [*np.vectorize.__mro__, *np.poly1d.__mro__, *Polynomial.__mro__]
    classes += scipy.sparse.csr_array.__mro__
    before = [dict(vars(each)) for each in classes]

    def function(x):
        # a class whose methods change is slow to use, and so are all that inherit from it
        assert [dict(vars(each)) for each in classes] == before
        return np.sum(scipy.sparse.eye_array(3) @ (np.poly1d(x)(x) * Polynomial(x)(x)))

    assert np.isfinite(grad(function)(X)).all()


def test_numba_compiles_what_it_knows():
    @numba.njit
    def compiled(n):
        a = np.zeros(n)
        a[0] = np.sum(np.array([1.0, 2.0]))
        return np.linalg.norm(a)

    assert grad(lambda x: x[0] * compiled(3))(X)[0] == 3.0


@pytest.mark.filterwarnings("ignore::functrans.errors.SwallowedErrorWarning")
def test_installed_packages_see_numpy_unchanged():
    def function(x):
        root = scipy.optimize.brentq(lambda t: float(np.array([t**2 - 2.0])[0]), 0.0, 2.0)
        with pytest.raises(TracerConversionError):
            scipy.stats.anderson([x[0], x[1]])
        assert type(np.random.default_rng(0).normal(size=3)) is np.ndarray
        return x[0] * root

    np.testing.assert_allclose(grad(function)(X)[0], np.sqrt(2.0))


def test_other_threads_see_numpy_unchanged():
    tracing, done = threading.Event(), threading.Event()
    seen = []

    def other():
        tracing.wait(10)
        seen.extend([type(np.zeros(3)), type(np.array([1.0])), np.sum([1.0, 2.0])])
        done.set()

    def function(x):
        tracing.set()
        done.wait(10)
        assert type(np.zeros(3)) is Assignable
        return np.sum(x)

    thread = threading.Thread(target=other)
    thread.start()
    grad(function)(X)
    thread.join()
    assert seen == [np.ndarray, np.ndarray, 3.0]


def test_threads_that_trace_at_once():
    failures = []
    start = threading.Barrier(6)

    def work(seed):
        def function(x):
            a = np.zeros(3)
            a[:2] = np.array([x[0] * seed, x[1]])
            if seed % 3 == 0:
                raise KeyError(seed)
            return np.sum(a)

        start.wait(10)
        for _ in range(30):
            try:
                if grad(function)(X).tolist() != [seed, 1.0, 0.0]:
                    failures.append(seed)
            except KeyError:
                if seed % 3:
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_it_ends_with_an_exception():
    def failing(x):
        grad(lambda y: np.sum(np.array([y, y])))(x[0])
        assert type(np) is not types.ModuleType
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jit(failing)(X)


def test_a_generator_that_is_resumed_later():
    def numbers():
        while True:
            yield type(np.zeros(3))

    generator = numbers()
    assert next(generator) is np.ndarray
    inside = []
    grad(lambda x: inside.append(next(generator)) or x.sum())(X)
    assert inside == [Assignable]
    assert next(generator) is np.ndarray


def test_who_replaces_a_function_meanwhile_is_heeded(monkeypatch):
    def function(x):
        monkeypatch.setattr(np, "zeros", lambda n: "replaced")
        try:
            assert np.zeros(3) == "replaced"
        finally:
            monkeypatch.undo()
        assert type(np.zeros(3)) is Assignable
        return x.sum()

    grad(function)(X)


@pytest.mark.parametrize(
    "apply",
    [
        lambda x: np.maximum.reduce([x, 2 * x]),
        lambda x: np.maximum.reduce((x, 2 * x), axis=1, keepdims=True),
        lambda x: np.logaddexp.reduce([x[0], x[1]]),
        lambda x: np.add.accumulate([x[0], 1.0, x[1]]),
        lambda x: np.multiply.outer(x, [x[0], 1.0]),
        lambda x: np.add.reduceat([x[0], x[1], x[0]], [0, 1]),
        lambda x: sum(map(np.add.reduce, [[x[0]], x, np.ones(2)])),
        lambda x: np.logical_and.reduce([x > 0, x < 2.5]) * x,
    ],
)
def test_methods_of_ufuncs_take_sequences(apply):
    np.testing.assert_allclose(jit(apply)(X), apply(X), rtol=1e-14)
    check_grads(lambda x: np.sum(apply(x)), (X,), order=1)


def test_results_of_methods_of_ufuncs_can_be_assigned_to():
    def apply(x):
        y = np.multiply.outer([1.0, 2.0], [1.0, 2.0])
        y[0] = x[:2]
        return y

    np.testing.assert_array_equal(jit(apply)(X), apply(X))


# -- what it cannot do -----------------------------------------------------------------------------


def test_a_function_that_is_not_called_by_a_name_of_the_module_is_numpys():
    with pytest.raises(TracerConversionError, match=r"write np\.array\(\[x\[0\]"):
        grad(lambda x, by_name=by_name: by_name([x[0], 1.0]).sum())(X)
    with pytest.raises(TracerConversionError):
        grad(lambda x: sum(make([x[0]]).sum() for make in (np.array,)))(X)
    assert grad(lambda x: reduce(fnp.add, map(fnp.array, [[x[0]]])).sum())(X)[0] == 1.0


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(config, "patch_numpy", False)
    seen = []

    def function(x):
        seen.append(type(np) is types.ModuleType and type(np.zeros(3)) is np.ndarray)
        return np.array([x[0], 1.0]).sum()

    with pytest.raises(TracerConversionError):
        grad(function)(X)
    assert seen == [True]


def test_without_the_columns_of_the_source(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom functrans import grad\n"
        "print(grad(lambda x: np.sum(np.array([x, np.r_[x, 1.0].sum()])))(2.0))\n"
        "print(grad(lambda x: np.maximum.reduce([x, 1]) * np.ones(1, np.float64).sum())(2.0))\n"
    )
    command = [sys.executable, "-X", "no_debug_ranges", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2.0\n1.0\n", "")


def test_what_a_traced_function_imports_meanwhile():
    """A module that is half imported has not all of its names yet."""
    code = """
import numpy as np
from functrans import jit
def f(x):
    import scipy.sparse
    return np.sum(x)
print(jit(f)(np.ones(3)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3.0\n", "")


def without_columns(code):
    """The code as with ``python -X no_debug_ranges``: entries of kind 13 have a line alone."""
    units = len(code.co_code) // 2
    entries = (min(units - i, 8) for i in range(0, units, 8))
    table = b"".join(bytes((0x80 | 13 << 3 | count - 1, 0)) for count in entries)
    return code.replace(co_linetable=table)


def test_what_is_read_to_be_called():
    def function(x):
        parts = [np.zeros(3).max(), np.add.reduce(x).T, map(np.sum, x), np.prod, np.min is x]
        parts.append(map)
        parts += [np.var, map(x, np.std), sorted(np.all, x), map(np.linalg.eigh, x)]
        return np.linalg.norm(
            parts,
        ), np.r_[x]

    for code in (function.__code__, without_columns(function.__code__)):
        reads = attribute_reads(code)
        names = {i.argval: reads[i.offset] for i in get_instructions(code) if i.offset in reads}
        called = {name for name, at_once in names.items() if at_once}
        assert called == {"zeros", "max", "add", "reduce", "norm", "append", "sum", "eigh"}
        rest = {"T", "prod", "min", "linalg", "r_", "var", "std", "all"}
        assert names.keys() - called == rest


def test_what_is_stacked_of_new_arrays_can_be_assigned_to():
    def filled(x):
        y = np.stack([np.zeros(3), np.ones(3)], axis=-1)
        z = np.concatenate([np.zeros(2), np.ones(1)])
        y[:, 0] = x
        z[1:] += x[:2]
        return np.sum(y[:, 0] * z)

    np.testing.assert_array_equal(grad(filled)(np.array([1.0, 2.0, 3.0])), [2.0, 4.0, 3.0])
