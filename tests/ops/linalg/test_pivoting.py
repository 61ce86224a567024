"""Our own tiled LU factorisation with pivoting, by solutions and determinants, against LAPACK."""

import numpy as np
import pytest
import scipy.linalg

from functrans import config, jit
from tests.targets import machines_of, take_host_for

SIZES = [9, 16, 17, 33, 65, 130]
DTYPES = [np.float64, np.float32]

ALWAYS = {"fewest_pivoted": 1}
MACHINES = machines_of(ALWAYS, {"short strips": {"panels": 1, "height": 4}})


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    take_host_for(monkeypatch, **MACHINES[request.param])


@pytest.fixture
def ours(monkeypatch):
    take_host_for(monkeypatch, elimination=ALWAYS)


def normal(shape, dtype=np.float64):
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(dtype)


def residual(a, x, b):
    """By how many rounding errors of the solution's size a system is missed."""
    missed = np.abs(a.astype(float) @ x.astype(float) - b).max()
    return missed / np.abs(x).max() / np.finfo(a.dtype).eps


@pytest.mark.dear
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_solutions_and_determinants(n, dtype):
    a, b = normal((n, n), dtype), normal((n, 3), dtype)
    x, inverse, (sign, logarithm) = jit(
        lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), tuple(np.linalg.slogdet(a)))
    )(a, b)
    theirs = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a.T), b, trans=1)
    assert residual(a, x, b) < 4 * residual(a, theirs, b) + 20
    assert residual(a, inverse, np.eye(n)) < 20 * n
    wanted = np.linalg.slogdet(a.astype(float))
    assert sign == wanted.sign
    condition = np.linalg.cond(a.astype(float))
    np.testing.assert_allclose(
        logarithm, wanted.logabsdet, atol=4 * condition * np.finfo(dtype).eps
    )


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("n", [17, 64])
def test_singular_matrices(n):
    for place in (0, n // 2, n - 1):
        a = normal((n, n))
        a[:, place] = 0
        sign, logarithm = jit(lambda a: tuple(np.linalg.slogdet(a)))(a)
        assert (sign, logarithm) == (0, -np.inf)
        assert jit(np.linalg.det)(a) == 0
        for solve in (np.linalg.inv, lambda a: np.linalg.solve(a, a)):
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                jit(solve)(a)


@pytest.mark.dear
@pytest.mark.usefixtures("ours")
def test_pivots_of_all_sizes():
    n = 40
    a, wanted = normal((n, n)), normal((n, 2))
    for scale in (1e-300, 1e300):
        for scaled in (a * scale, a * np.where(np.arange(n) % 2, scale, 1)[:, None]):
            x = jit(np.linalg.solve)(scaled, scaled @ wanted)
            np.testing.assert_allclose(x, wanted, rtol=1e-8)
    logarithm = jit(lambda a: np.linalg.slogdet(a)[1])
    # subnormal numbers
    np.testing.assert_allclose(logarithm(a * 1e-310), logarithm(a) + n * np.log(1e-310), rtol=1e-12)
    exchange = np.eye(n)[::-1].copy()
    np.testing.assert_array_equal(jit(np.linalg.inv)(exchange), exchange)
    assert jit(np.linalg.det)(exchange) == np.linalg.det(exchange)


@pytest.mark.dear
@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite(bad):
    a, b = normal((40, 40)), normal((40, 2))
    a[20, 3] = bad
    x, theirs = jit(np.linalg.solve)(a, b), scipy.linalg.lu_factor(a.T, check_finite=False)
    theirs = scipy.linalg.lu_solve(theirs, b, trans=1, check_finite=False)
    np.testing.assert_allclose(x, theirs, rtol=1e-9)
    assert not np.isfinite(jit(lambda a: np.linalg.slogdet(a)[1])(a))


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("leading", [(3,), (2, 2), (1,), (0,)])
def test_stacks(leading):
    a, b = normal((*leading, 37, 37)), normal((*leading, 37, 2))
    np.testing.assert_allclose(jit(np.linalg.solve)(a, b), np.linalg.solve(a, b), rtol=1e-9)
    np.testing.assert_allclose(jit(np.linalg.det)(a), np.linalg.det(a), rtol=1e-10)


@pytest.mark.dear
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    a, found = normal((517, 517)), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(lambda a: np.linalg.inv(a))(a).tobytes())
    assert found[0] == found[1] == found[2]
