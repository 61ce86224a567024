"""The Numba back end: the same plans, bitwise equal results, the same failures."""

import pickle
import threading

import numba
import numpy as np
import pytest

import functrans
from functrans import config, grad, jit, lax, vmap
from functrans.run.call.numba_program import NumbaProgram, OverwritingNumbaProgram
from functrans.run.call.program import NativeProgram

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=300), RNG.normal(size=300)
A, B = RNG.normal(size=(40, 30)), RNG.normal(size=(30, 50))
SQUARE = RNG.normal(size=(20, 20)) + 20 * np.eye(20)
HALVES = RNG.normal(size=100).astype(np.float16)
AT = np.array([3, 1, 3, 7])


def scattered(x, y):
    x = x.copy()
    x[AT] += y[:4]
    return x


def newton(x):
    return lax.while_loop(lambda y: abs(y * y - x) > 1e-12, lambda y: (y + x / y) / 2, x)


PROGRAMS = {
    "elementwise": (lambda x, y: np.exp(x) / np.cosh(y), X, Y),
    "a sum of many": (lambda x: (np.sum(x), np.min(x), np.prod(x), np.any(x > 3)), X),
    "sums of rows": (lambda a: (a.sum(0), a.sum(1), a.max(0)), RNG.normal(size=(33, 70))),
    "softmax": (lambda a: np.exp(a) / np.exp(a).sum(1)[:, None], A),
    "solve": (lambda a, b: np.linalg.solve(a, b), SQUARE, SQUARE[:, :3]),
    "small solves": (np.linalg.solve, np.stack([np.eye(3), 2 * np.eye(3)]), np.ones((2, 3, 1))),
    "cholesky": (lambda a: np.linalg.cholesky(a), np.eye(20) * 3 + 0.1),
    "scan": (lambda x: lax.scan(lambda c, y: (c / (1 + y * y), np.sin(c)), 1.0, x), X),
    "while": (newton, 2.0),
    "cond": (lambda x: lax.cond(x[0] > 0, np.sin, np.cos, x), X),
    "gather and scatter": (scattered, X, Y),
    "cumsum": (lambda x: (np.cumsum(x), np.maximum.accumulate(x)), X),
    "sort": (lambda x: np.sort(x * 2) * 2, X),  # NumPy is called in between
    "an empty array": (lambda x: (x * 2, x.sum()), np.zeros((0, 3))),
    "a number": (lambda x: x - 1, 3.0),
    "integers": (lambda n: (n // 3, n % 7, n << 2, n > 4), np.arange(-9, 10)),
    "half floats": (lambda x: (x + x.max(), np.exp(x), x.sum()), HALVES),
    "conversions": (lambda x: (x.astype(np.int32), x.astype(np.float16), x > 0), X * 100),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_as_machine_code(name):
    function, *args = PROGRAMS[name]
    expected = functrans.tree.leaves(jit(function, backend="native")(*args))
    found = functrans.tree.leaves(jit(function, backend="numba")(*args))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def energy(x):
    return np.sum(np.sin(x) * x**2 + x)


@pytest.mark.full
@pytest.mark.parametrize(
    ("function", "args"), [(vmap(grad(energy)), (A,)), (lambda a, b: np.tanh(a @ b), (A, B))]
)
def test_what_multiplies_and_adds_differs_by_rounding_at_most(function, args):
    one, other = (jit(function, backend=name)(*args) for name in config.BACKENDS)
    np.testing.assert_allclose(other, one, rtol=1e-14, atol=1e-14)


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, i: x[i], (X, 300)),
        (np.linalg.solve, (np.zeros((20, 20)), np.zeros(20))),
        (np.linalg.inv, (np.zeros((3, 3)),)),
        (np.linalg.cholesky, (-np.eye(20),)),
    ],
)
def test_a_failure_is_the_same_exception(function, args):
    with pytest.raises((IndexError, np.linalg.LinAlgError)) as native:
        jit(function, backend="native")(*args)
    with pytest.raises(native.type) as found:
        jit(function, backend="numba")(*args)
    assert str(found.value) == str(native.value)


@pytest.mark.full
def test_what_does_not_fit_into_memory_is_a_memory_error(monkeypatch):
    monkeypatch.setattr(config, "check_plans", False)  # it would write all elements down

    def large(x):
        return np.sum(np.cumsum(np.outer(x, x), axis=0)[::-1] * np.outer(x, x), axis=1)

    # more than there are addresses
    with pytest.raises(MemoryError, match=r"^functrans: 1.13 PB for temporaries could not be"):
        jit(large, backend="numba")(np.ones(1 << 23))


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.full
def test_arrays_of_any_layout_are_taken_and_results_are_the_callers():
    double = jit(lambda x: (x * 2, x), backend="numba")
    frozen = A.copy()
    frozen.flags.writeable = False
    for x in (A, A.T.copy().T, np.repeat(A, 2, axis=1)[:, ::2], frozen, A.astype(">f8")):
        result, same = double(x)
        np.testing.assert_array_equal(result, A * 2)
        same[:] = 0
    np.testing.assert_array_equal(x, A)


@pytest.mark.full
def test_a_donated_array_is_overwritten():
    step = jit(lambda x, y: x + y, donate_argnums=0, backend="numba")
    x, y = X.copy(), Y.copy()
    result = step(x, y)
    assert result is x
    np.testing.assert_array_equal(result, X + Y)
    # what has its memory not to itself is left as it is
    np.testing.assert_array_equal(step(y, y), 2 * Y)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.full
def test_of_many_arrays_the_steps_are_called_one_by_one():
    tripled = jit(lambda xs: [np.cumsum(x * 3)[::-1] for x in xs], backend="numba")
    xs = [np.arange(3.0) + i for i in range(40)]
    for x, result in zip(xs, tripled(xs), strict=True):
        np.testing.assert_array_equal(result, np.cumsum(x * 3)[::-1])


@pytest.mark.full
def test_several_threads_call_one_function():
    normalised = jit(lambda a: a @ a.T / np.sqrt(np.sum(a * a)), backend="numba")
    expected = jit(lambda a: a @ a.T / np.sqrt(np.sum(a * a)), backend="native")(A)
    results = [None] * 4

    def work(place):
        for _ in range(20):
            results[place] = normalised(A)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.dear
def test_blas_has_its_threads_again():
    limits = pytest.importorskip("threadpoolctl")
    before = limits.threadpool_info()
    jit(lambda a: a @ a.T, backend="numba")(A)
    assert [one["num_threads"] for one in limits.threadpool_info()][: len(before)] == [
        one["num_threads"] for one in before
    ]


# -- the choice ------------------------------------------------------------------------------------


def program_of(function, *args):
    function(*args)
    (path, _), *_ = function._entries.values()
    return path.run


def kind_of(run):
    return type(getattr(run, "whole", run) or run)


@pytest.mark.full
def test_the_option_chooses():
    assert kind_of(program_of(jit(np.sin, backend="numba"), X)) is NumbaProgram
    assert kind_of(program_of(jit(np.sin, backend="native"), X)) is NativeProgram
    donating = jit(lambda x: x + 1, donate_argnums=0, backend="numba")
    assert kind_of(program_of(donating, X.copy())) is OverwritingNumbaProgram


@pytest.mark.full
def test_the_switch_counts_when_something_is_compiled(monkeypatch):
    function, told = jit(lambda x: x * 3.25), jit(lambda x: x * 3.25, backend="native")
    monkeypatch.setattr(config, "backend", "numba")
    assert kind_of(program_of(function, X)) is NumbaProgram
    assert kind_of(program_of(told, X)) is NativeProgram
    monkeypatch.setattr(config, "backend", "native")
    assert kind_of(program_of(function, X)) is NumbaProgram
    assert kind_of(program_of(function, Y[:7])) is NumbaProgram
    again = jit(lambda x: x * 3.25)
    assert kind_of(program_of(again, X)) is NativeProgram


@pytest.mark.full
def test_an_eager_transform_of_a_jitted_function_keeps_its_back_end(monkeypatch):
    asked = []
    original = functrans.run.call.jitted._runnable

    def spy(graph, donated, backend):
        asked.append(backend)
        return original(graph, donated, backend)

    monkeypatch.setattr(functrans.run.call.jitted, "_runnable", spy)
    slope = grad(jit(lambda x: np.sum(np.sin(x)), backend="numba"))(X)
    np.testing.assert_allclose(slope, np.cos(X), rtol=1e-15)
    assert set(asked) == {"numba"}


@pytest.mark.full
def test_loops_whose_steps_are_counted_on_the_way_run_on_it(monkeypatch):
    made = []
    original = NumbaProgram.__init__

    def spy(self, *args):
        made.append(self)
        original(self, *args)

    monkeypatch.setattr(NumbaProgram, "__init__", spy)
    assert jit(grad(newton), backend="numba")(2.0) == jit(grad(newton), backend="native")(2.0)
    assert len(made) > 1


@pytest.mark.parametrize("backend", ["cuda", "Native", "", 3])
def test_another_name_is_refused(backend):
    words = f"^jit\\(backend=...\\) must be 'native' or 'numba', not {backend!r}$"
    with pytest.raises(ValueError, match=words):
        jit(np.sin, backend=backend)
    with pytest.raises(ValueError, match=words):
        jit(backend=backend)(np.sin)
    with pytest.raises(ValueError, match=words.replace("jit", "compile")):
        functrans.compile(np.sin, 1.0, backend=backend)


def cube(x):
    return x**3


jitted_cube = jit(cube, backend="numba")


@pytest.mark.full
def test_the_choice_is_pickled():
    again = pickle.loads(pickle.dumps(jitted_cube))
    assert kind_of(program_of(again, X)) is NumbaProgram


@pytest.mark.full
def test_methods_have_it_too():
    class Model:
        scale = 3.0

        @jit(backend="numba")
        def apply(self, x):
            return x * self.scale

    bound = Model().apply
    bound(X)
    assert kind_of(program_of(bound._compiled, X)) is NumbaProgram


# -- in code that Numba compiles -------------------------------------------------------------------


@pytest.mark.full
def test_its_kernels_are_called_by_users():
    lowered = jit(lambda x: np.sin(x) + 1.0).lower(X)
    ((name, kernel),) = lowered.dispatchers().items()
    assert f"def {name}(flag, " in lowered.source()

    @numba.njit
    def twice(x):
        flag, middle, result = np.zeros(1, np.int64), np.empty_like(x), np.empty_like(x)
        kernel(flag, x, middle, x.size, 0, x.size)
        kernel(flag, middle, result, x.size, 0, x.size)
        return result

    np.testing.assert_allclose(twice(X), np.sin(np.sin(X) + 1) + 1, rtol=1e-15)
