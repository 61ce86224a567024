"""Proxies for the ufuncs of `scipy.special` behave like these, and import SciPy lazily."""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.special

from functrans import eval_shape, grad, is_traced, jit
from functrans.api.dependencies import dependencies
from functrans.errors import DtypeError
from functrans.ops import import_all
from functrans.ops.arrays.promotion import scipy_promotion, ufunc_promotion
from functrans.run.code import definitions
from functrans.scipy import special
from functrans.scipy.ufuncs import UFUNCS, StandIn
from functrans.trace import protocols
from tests.scipy.comparison import leaves


def test_each_ufunc_with_a_traced_form_has_a_stand_in():
    import_all()
    of_scipy = {name: getattr(scipy.special, name) for name in dir(scipy.special)}
    of_scipy = {name: one for name, one in of_scipy.items() if isinstance(one, np.ufunc)}
    traced = {n: one.__name__ for n, one in of_scipy.items() if one.__name__ in protocols.ufuncs}
    assert traced == UFUNCS
    assert all(isinstance(getattr(special, name), StandIn) for name in traced)
    assert special.digamma is special.psi
    assert special.sinc is scipy.special.sinc


@pytest.mark.parametrize("name", ["expit", "gammaln", "erf", "log1p"])
def test_on_plain_arrays_scipy_computes(name):
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    for given in (x, x.astype(float), 0.5, 1, [0.5, 0.25], np.float32(0.5), np.ma.array(x)):
        found, expected = ours(given), theirs(given)
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    out = np.zeros(5, np.float32)
    assert ours(x, out=out, where=x > 0.5) is out
    np.testing.assert_array_equal(out, theirs(x, out=np.zeros_like(x), where=x > 0.5))
    assert (ours.nin, ours.nout, ours.types) == (theirs.nin, theirs.nout, theirs.types)


def test_methods_and_several_results():
    np.testing.assert_array_equal(
        special.xlogy.outer([1.0, 2.0], [3.0]), scipy.special.xlogy.outer([1.0, 2.0], [3.0])
    )
    for ours, theirs in zip(special.sici(1.0), scipy.special.sici(1.0), strict=True):
        assert ours == theirs
    both = jit(lambda x: special.sici(x))(1.0)
    np.testing.assert_allclose(both, scipy.special.sici(1.0), rtol=1e-14)


def test_traced_values_are_recorded():
    def f(x):
        found = special.expit(x) + special.gammainc(2.0, x) + special.betainc(x, 1, x)
        assert is_traced(found)
        return found

    def g(x):
        return (
            scipy.special.expit(x) + scipy.special.gammainc(2.0, x) + scipy.special.betainc(x, 1, x)
        )

    assert grad(f)(0.5) == grad(g)(0.5)
    assert jit(f)(0.5) == jit(g)(0.5)
    assert grad(special.expit)(0.0) == 0.25


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.expit(),
        lambda m, x: m.expit(x, x, x),
        lambda m, x: m.xlogy(x),
        lambda m, x: m.expit(x, dtype=int),
        lambda m, x: m.expit(x, nothing=1),
        lambda m, x: m.expit(x, np.ma.array([1.0])),
        lambda m, x: m.xlogy(x, "text"),
        lambda m, x: m.expit.reduce(x),
        lambda m, x: m.gammainc(1j, x),
    ],
)
def test_errors_are_those_of_scipys(call):
    def message(module):
        with pytest.raises(Exception) as caught:
            grad(lambda x: np.sum(call(module, x)))(np.array([0.5]))
        return type(caught.value), str(caught.value).replace("scipy.special", "special")

    assert message(special) == message(scipy.special)


def test_it_is_known_by_its_name():
    for again in (pickle.loads(pickle.dumps(special.expit)), copy.deepcopy(special.expit)):
        assert again is special.expit
    assert repr(special.expit) == "<functrans.scipy.special.expit>"
    assert special.expit.__name__ == "expit"
    assert "help(scipy.special.expit)" in special.expit.__doc__
    assert "reduce" in dir(special.expit)
    with pytest.raises(AttributeError, match="nothing"):
        _ = special.expit.nothing


def test_to_look_what_it_is_imports_nothing():
    script = """
import copy, inspect, sys
import numpy as np
from functrans import grad, jit
from functrans.scipy.special import expit, gammaln
for one in (expit, gammaln):
    assert callable(one) and not hasattr(one, "__wrapped__") and not hasattr(one, "_x")
    inspect.signature(one), repr(one), hash(one), copy.copy(one), jit(grad(one))
    jit(grad(one)).lower(1.5)
print(*[name for name in sys.modules if name.partition(".")[0] == "scipy"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_what_names_one_is_pure_and_has_a_fingerprint():
    expit = special.expit
    assert dependencies([lambda x: expit(x) * x]) is not None

    def fingerprint(value):
        walk = definitions._Walk()
        walk.write(value)
        return walk.digest.hexdigest()

    assert fingerprint(expit) == fingerprint(special.expit) != fingerprint(special.erf)


@pytest.mark.parametrize("name", sorted({*UFUNCS.values()}))
def test_dtypes_are_those_that_scipy_takes(name):
    ufunc = getattr(scipy.special, name)

    def found(promotion, keys):
        try:
            return promotion(keys)
        except DtypeError as error:
            return str(error)

    quick, asked = scipy_promotion(name, lambda: ufunc), ufunc_promotion(lambda: ufunc)
    of_floats = [float, np.dtype(np.float32), np.dtype(np.float64)]
    for keys in [
        *itertools.product(of_floats, repeat=ufunc.nin),
        *itertools.product([int, float, np.dtype(np.float64)], repeat=ufunc.nin),
    ]:
        assert found(quick, keys) == found(asked, keys), keys


@pytest.mark.parametrize(("name", "keys"), [("xlogy", (int, float)), ("expn", (float,))])
def test_scipy_is_not_asked_about_numbers_that_meet_float64(name, keys):
    promotion = scipy_promotion(name, lambda: pytest.fail("it is asked"))
    for key in keys:
        assert promotion((key, np.dtype(np.float64))) == (np.float64, np.float64)


@pytest.mark.parametrize("name", ["cbrt", "exp2", "expm1", "log1p", "exp10"])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4"])
def test_narrow_dtypes_are_computed_in_the_dtype_that_scipy_has(name, dtype):
    x = np.array([0, 1, 1], dtype)
    expected = getattr(scipy.special, name)(x)
    for function in (getattr(special, name), getattr(scipy.special, name)):
        found = jit(lambda x, function=function: function(x))(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


INT, HALF, SINGLE = (np.ones(1, dtype) for dtype in ("i1", "f2", "f4"))


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        *itertools.product(
            ["eval_chebyt", "eval_legendre", "expn", "kn"], [(2, SINGLE), (2, HALF)]
        ),
        *itertools.product(["eval_laguerre", "jve", "hankel1", "yn"], [(INT, INT), (HALF, HALF)]),
        *itertools.product(
            ["airy", "fresnel", "itairy", "kelvin", "modfresnelp"], [(INT,), (HALF,)]
        ),
        *itertools.product(["ellipj", "mathieu_a"], [(INT, SINGLE), (HALF, SINGLE), (2, HALF)]),
        *itertools.product(["zeta"], [(INT,), (INT, INT), (INT, 1.5), (HALF, 2), (INT, SINGLE)]),
        ("eval_hermite", (2, SINGLE)),
        ("nrdtrimn", (INT, INT, INT)),
    ],
)
def test_functions_of_several_loops_have_the_dtypes_of_scipys(name, operands):
    found = eval_shape(lambda *x: getattr(scipy.special, name)(*x), *operands)
    expected = getattr(scipy.special, name)(*operands)
    assert [x.dtype for x in leaves(found)] == [x.dtype for x in leaves(expected)]


def test_an_order_that_must_be_an_integer_is_refused_as_by_scipy():
    with pytest.raises(DtypeError, match=r"^eval_hermite is not defined for float64, float64 at "):
        grad(lambda x: scipy.special.eval_hermite(2.0, x))(0.5)
    assert grad(lambda x: scipy.special.eval_hermite(2, x))(0.5) == pytest.approx(4.0)


def test_no_normal_distribution_has_such_a_quantile():
    p, std = np.array([0.0, 0.3, 1.0, 0.3, 0.3]), np.array([1.0, 1.0, 1.0, -1.0, 0.0])
    for name in ("nrdtrimn", "nrdtrisd"):
        function = getattr(scipy.special, name)
        operands = (p, std, 1.0) if name == "nrdtrimn" else (std, p, 1.0)
        np.testing.assert_allclose(
            jit(lambda *x, f=function: f(*x))(*operands), function(*operands)
        )
