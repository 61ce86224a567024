"""Our own Householder QR against NumPy, and by backward errors, across all thresholds."""

import numpy as np
import pytest

from functrans import config, jit
from tests.targets import machines_of, take_host_for

SHAPES = [
    (1, 1), (2, 2), (17, 17), (40, 40), (100, 3), (8, 100), (100, 17), (17, 100), (70, 130),
    (3, 2), (2, 1), (65, 64), (2600, 17),
]  # fmt: skip
DTYPES = [np.float64, np.float32]

ALWAYS = {"fewest_rows_of_wide": 1, "least_reflected": 1}
MACHINES = machines_of(ALWAYS, {"short strips": {"panels": 1, "height": 4}})


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    take_host_for(monkeypatch, **MACHINES[request.param])


def normal(shape, dtype=np.float64):
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(dtype)


def qr(a, mode):
    return jit(lambda a: np.linalg.qr(a, mode))(a)


def check_factors(a, q, r):
    """Q is orthonormal and QR the matrix, each column to its own size; signs are LAPACK's."""
    *_, m, n = a.shape
    tolerance = 4 * (m + n) * np.finfo(a.dtype).eps
    assert not np.tril(r, -1).any()
    largest = np.abs(a).max(-2, keepdims=True).astype(float)
    largest[largest == 0] = 1
    back = q.astype(float) @ (r / largest)
    np.testing.assert_allclose(back, a / largest, atol=tolerance)
    wide, exact = q.shape[-1], q.astype(float)
    unit = np.broadcast_to(np.eye(wide), (*q.shape[:-2], wide, wide))
    np.testing.assert_allclose(exact.mT @ exact, unit, atol=tolerance)
    theirs = np.diagonal(np.linalg.qr(a, "r"), axis1=-2, axis2=-1)
    ours = np.diagonal(r, axis1=-2, axis2=-1)
    k = theirs.shape[-1]
    # behind a column that depends on those before, all is made of rounding errors
    known = np.logical_and.accumulate(np.abs(theirs) > tolerance * np.abs(a).max(-2)[..., :k], -1)
    np.testing.assert_array_equal(np.sign(ours)[known], np.sign(theirs)[known])


@pytest.mark.dear
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors(shape, dtype):
    a = normal(shape, dtype)
    q, r = qr(a, "reduced")
    check_factors(a, q, r)
    # R alone may be another program, which rounds otherwise
    rounding = 4 * sum(shape) * np.finfo(dtype).eps * np.abs(a).max()
    np.testing.assert_allclose(qr(a, "r"), r, rtol=0, atol=rounding)
    if shape[0] < 1000:
        whole, tall = qr(a, "complete")
        assert whole.shape == (shape[0], shape[0])
        assert tall.shape == shape
        check_factors(a, whole, tall)


def cases_of(dtype):
    """Matrices whose columns leave the range in which squares are numbers, or are zero."""
    a, limits = normal((40, 40), dtype), np.finfo(dtype)
    quarter = limits.maxexp * 0.25
    yield "tiny", a * limits.tiny * 100
    yield "huge", a * (limits.max / 100)
    yield "graded", a * np.logspace(-quarter, quarter, 40).astype(dtype)
    yield "graded back", a * np.logspace(quarter, -quarter, 40).astype(dtype)
    yield "graded rows", (a * np.logspace(quarter, -quarter, 40)[:, None]).astype(dtype)
    yield "triangular", np.triu(a)
    yield "identity", np.eye(40, dtype=dtype)
    yield "exchange", np.eye(40, dtype=dtype)[::-1].copy()
    yield "zero", np.zeros_like(a)
    yield "ones", np.ones_like(a)
    yield "dependent", a[:, :5] @ a[:5]
    yield "integers", np.round(2 * a)
    for name, rows, value in (("zero columns", slice(None), 0), ("tiny below", slice(1, 40), 1)):
        changed = a.copy()
        changed[rows, [3, 20]] *= dtype(value * limits.tiny * 100)
        yield name, changed
    alone = np.triu(a)
    alone[7, 3] = limits.tiny
    yield "one below", alone


@pytest.mark.dear
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_of_all_sizes(dtype):
    for name, a in cases_of(dtype):
        q, r = qr(a, "reduced")
        try:
            check_factors(a, q, r)
        except AssertionError as error:
            raise AssertionError(name) from error


def test_subnormal_columns():
    a = normal((40, 40)) * 1e-321
    q, r = qr(a, "reduced")
    np.testing.assert_allclose(q.T @ q, np.eye(40), atol=1e-14)
    np.testing.assert_allclose(q @ (r * 2.0**1000), a * 2.0**1000, atol=2e-322 * 2.0**1000)


@pytest.mark.dear
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite(bad):
    for place in ((3, 50), (60, 2)):
        a = normal((70, 70))
        a[place] = bad
        q, r = qr(a, "reduced")
        column = place[1]
        np.testing.assert_allclose(
            r[:column, :column], np.linalg.qr(a[:, :column], "r")[:column], atol=1e-12
        )
        assert not np.isfinite(r[column:, column:][np.triu_indices(70 - column)]).any()
        assert not np.isfinite(q[:, column:]).any()


@pytest.mark.dear
@pytest.mark.parametrize("shape", [(3, 50, 20), (2, 2, 20, 50), (1, 33, 33), (9, 5, 5), (0, 9, 9)])
def test_stacks(shape, monkeypatch):
    take_host_for(monkeypatch, elimination=ALWAYS)
    a = normal(shape)
    q, r = qr(a, "reduced")
    for at in np.ndindex(*shape[:-2]):
        check_factors(a[at], q[at], r[at])


@pytest.mark.dear
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    a = normal((317, 300))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append([x.tobytes() for x in qr(a, "complete")])
    assert found[0] == found[1] == found[2]
