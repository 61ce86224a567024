"""Functions that Python calls while a traced or compiled function runs."""

import threading
import traceback
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.optimize

import functrans.numpy as fnp
from functrans import Aval, callback, custom_jvp, custom_vjp, debug, grad, jit, lax, vmap
from functrans.errors import (
    DtypeError,
    LeakedTracerError,
    NotDifferentiableError,
    ShapeError,
    TreeMismatchError,
)
from functrans.ir.primitive import current
from functrans.trace.tracer import Tracer

X = np.array([3.0, 1.0, 2.0])
number = Aval((), float)


def ordered(x):
    assert type(x) is np.ndarray and current.get() is None
    assert not isinstance(fnp.zeros(2), Tracer)
    x.sort()  # its own
    return x


host = callback(ordered, lambda x: x)


@pytest.mark.parametrize(
    "around", [lambda f: f, jit, lambda f: jit(jit(f))], ids=["plain", "jit", "jit jit"]
)
def test_values(around):
    given = X.copy()
    np.testing.assert_array_equal(around(lambda x: host(2 * x) + x)(given), [5.0, 5.0, 8.0])
    np.testing.assert_array_equal(given, X)
    rows = np.stack([X, X[::-1], 2 * X])
    np.testing.assert_array_equal(around(vmap(host))(rows), np.sort(rows))
    np.testing.assert_array_equal(around(vmap(vmap(host)))(rows[:, None]), np.sort(rows)[:, None])


@pytest.mark.parametrize("shape", [(0,), (1,), (300,)])
def test_shapes(shape):
    x = np.linspace(1, 0, shape[0])
    np.testing.assert_array_equal(jit(host)(x), np.sort(x))


def test_pytrees_and_keywords():
    @callback(out_types={"sum": number, "both": (Aval((2,), np.float32), Aval((), int))})
    def split(pair, *, scale):
        x, n = pair
        assert type(n) is np.int64
        return {"sum": x.sum() * scale, "both": (np.full(2, x.min(), np.float32), len(x) + n)}

    for function in (split, jit(split)):
        found = function((X, 2), scale=0.5)
        assert found["sum"] == 3.0
        assert found["both"][0].dtype == np.float32
        assert found["both"][1] == 5


def test_batched_is_called_once_for_all():
    calls = []

    @callback(out_types=number, vmap="batched")
    def total(x):
        calls.append(x.shape)
        return x.sum(axis=-1)

    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(vmap(total)(rows), rows.sum(axis=1))
    np.testing.assert_array_equal(jit(vmap(total, in_axes=1))(rows), rows.sum(axis=0))
    assert calls == [(2, 3), (3, 2)]


def test_in_loops_and_branches():
    step = callback(lambda x: np.float64(x * 2.0), number)

    @jit
    def looped(x):
        y = lax.fori_loop(0, 3, lambda i, x: step(x) + i, x)
        z = lax.while_loop(lambda z: z < 100.0, step, y)
        total, each = lax.scan(lambda c, v: (c + step(v), step(c)), 0.0, X)
        return lax.cond(z > 110.0, step, lambda z: -z, z), total, each

    y = ((2 * 1.0 + 0) * 2 + 1) * 2 + 2
    while y < 100.0:
        y *= 2
    z, total, each = looped(1.0)
    assert z == (2 * y if y > 110 else -y)
    assert total == 12.0
    np.testing.assert_array_equal(each, [0.0, 12.0, 16.0])


@callback(out_types=number)
def solve(a):
    return scipy.optimize.brentq(lambda x: x**3 + x - a, -10.0, 10.0)


@custom_jvp
def root(a):
    return solve(a)


root.defjvps(lambda tangent, x, a: tangent / (3.0 * x**2 + 1.0))


@custom_vjp
def root_by_vjp(a):
    return solve(a)


root_by_vjp.defvjp(
    lambda a: (lambda x: (x, x))(root_by_vjp(a)), lambda x, ct: (ct / (3.0 * x**2 + 1.0),)
)


@pytest.mark.parametrize("function", [root, root_by_vjp], ids=["jvp", "vjp"])
@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_derivatives_by_a_rule(function, around):
    step = 1e-6
    expected = (solve(2.0 + step) - solve(2.0 - step)) / (2 * step)
    assert around(grad(function))(2.0) == pytest.approx(expected, rel=1e-6)
    many = np.array([1.0, 2.0, 10.0])
    each = [grad(function)(a) for a in many]
    np.testing.assert_allclose(around(vmap(grad(function)))(many), each)


def test_there_is_no_derivative_without_a_rule():
    with pytest.raises(NotDifferentiableError, match="of custom_jvp or custom_vjp"):
        grad(solve)(2.0)


@pytest.mark.parametrize(
    ("returned", "kind", "words"),
    [
        (np.ones(2), ShapeError, r"wrong returned an array of shape \(2,\), out_types says \(\)"),
        (1j, DtypeError, "wrong returned complex128, out_types says float64"),
        ((1.0, 2.0), TreeMismatchError, "wrong did not return what out_types says: expected a"),
        (None, TreeMismatchError, "wrong did not return what out_types says"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_what_it_returns_is_checked(returned, kind, words, around):
    def wrong(x):
        return returned

    with pytest.raises(kind, match=words):
        around(callback(wrong, number))(1.0)


@pytest.mark.parametrize("around", [lambda f: f, jit, grad], ids=["plain", "jit", "grad"])
def test_its_errors_come_out_as_they_are(around):
    def fails(x):
        raise KeyError("the user's")

    with pytest.raises(KeyError, match="the user's") as caught:
        around(lambda x: callback(fails, number)(x) * 2.0)(1.0)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "fails"
    assert current.get() is None


def test_what_it_is_given():
    with pytest.raises(ValueError, match="must be 'sequential' or 'batched', not 'all'"):
        callback(ordered, number, vmap="all")
    with pytest.raises(DtypeError, match=r"argument 0 .* is 'text' of type str"):
        host("text")
    assert repr(callback(ordered, number)) == "callback(ordered, out_types=f64[])"


def test_a_result_that_nobody_uses_is_not_computed():
    calls = []
    noted = callback(lambda x: calls.append(1) or x, number)
    assert jit(lambda x: (noted(x), x + 1.0)[1])(1.0) == 2.0
    assert calls == []


def test_threads():
    function = jit(lambda x: host(x) * 2.0)
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).normal(size=5)
        for _ in range(20):
            if not np.array_equal(function(x), np.sort(x) * 2.0):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Table:
    """Reads and writes its own state in functions that a program calls."""

    def __init__(self, size):
        self.w = np.arange(float(size))
        self.calls = 0

    def look(self, x):
        self.calls += 1
        return x + self.w[:3]

    def method(self, x):
        return callback(self.look, lambda x: x)(x) + 0 * self.w[:3]

    def closure(self, x):
        return callback(lambda x: self.look(x), lambda x: x)(x) + 0 * self.w[:3]

    def default(self, x):
        return callback(lambda x, table=self: table.look(x), lambda x: x)(x) + 0 * self.w[:3]

    def part(self, x):
        return callback(partial(Table.look, self), lambda x: x)(x) + 0 * self.w[:3]

    def part_by_keyword(self, x):
        look = partial(lambda x, table: table.look(x), table=self)
        return callback(look, lambda x: x)(x) + 0 * self.w[:3]

    def compiled(self, x):
        inner = jit(lambda x: callback(self.look, lambda x: x)(x) + 0 * self.w[:3])
        return inner(x) + 0 * self.w[:3]

    def effect(self, x):
        debug.callback(self.look, x)
        return x + self.w[:3]

    def array_of_its_own(self, x):
        w = self.w
        return callback(lambda x: self.look(x) + w[:3] - self.w[:3], lambda x: x)(x)


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize(
    "name",
    [
        "method",
        "closure",
        "default",
        "part",
        "part_by_keyword",
        "compiled",
        "effect",
        "array_of_its_own",
    ],
)
def test_its_function_is_the_users_own_and_no_copy_with_traced_arrays(name, size):
    table = Table(size)
    function = jit(getattr(table, name))
    for _ in range(3):  # an array that changes becomes an input, as large ones are
        calls = table.calls
        np.testing.assert_array_equal(function(X), X + table.w[:3])
        assert table.calls > calls
        table.w += 1.0


def test_a_traced_value_in_its_closure():
    table = np.ones(1000)

    @jit
    def f(x):
        y = x + table[0]
        return callback(lambda x: x + y, out_types=number)(x)

    with pytest.raises(LeakedTracerError):
        f(1.0)


def test_a_result_that_nobody_uses_is_warned_about():
    calls = []

    def log(x):
        calls.append(x)
        return x

    @jit
    def drops(x):
        callback(log, out_types=number)(x)  # here
        return x * 2.0

    with pytest.warns(RuntimeWarning) as caught:
        assert drops(1.0) == 2.0
    [warning] = caught
    assert str(warning.message) == (
        "nothing uses the result of callback(log), so it is never called: use what it returns, or "
        "write functrans.debug.callback for what it does"
    )
    with open(warning.filename, encoding="utf-8") as file:
        assert file.readlines()[warning.lineno - 1].endswith("# here\n")
    assert not calls
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit(lambda x: callback(log, out_types=number)(x) + x)(3.0) == 6.0
    assert calls == [3.0]
