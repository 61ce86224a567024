"""Spectra: derivatives at degenerate eigenvalues, pruning, invariant subspaces."""

import numpy as np
import pytest

import functrans as ft
from functrans import grad, hessian, jacfwd, jit, jvp, vmap
from functrans.errors import DtypeError
from functrans.scipy import linalg
from functrans.testing import check_grads


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def orthogonal(n, seed=1):
    return np.linalg.qr(draw(n, n, seed=seed))[0]


def differences(f, a, direction, step=1e-6):
    return (f(a + step * direction) - f(a - step * direction)) / (2 * step)


def check_directions(f, a, *, symmetric=False):
    """Derivatives along three directions, forward and reverse, against differences."""
    for seed in range(3):
        direction = draw(*a.shape, seed=seed)
        if symmetric:
            direction = direction + direction.T
        expected = differences(f, a, direction)
        np.testing.assert_allclose(jvp(f, (a,), (direction,))[1], expected, atol=1e-7, rtol=1e-7)
        if np.ndim(expected) == 0:
            backwards = np.sum(grad(f)(a) * direction)
            np.testing.assert_allclose(backwards, expected, atol=1e-7, rtol=1e-7)


# -- equal eigenvalues -----------------------------------------------------------------------------

TURN = orthogonal(4)
REPEATED = {
    "identity": np.eye(4),
    "zero": np.zeros((4, 4)),
    "a pair": np.diag([2.0, 2.0, -1.0, 3.0]),
    "a pair, turned": (TURN * [2.0, 2.0, -1.0, 3.0]) @ TURN.T,
    "two pairs, turned": (TURN * [2.0, 2.0, 3.0, 3.0]) @ TURN.T,
}


@pytest.mark.parametrize("name", REPEATED)
def test_sums_over_equal_eigenvalues(name):
    for f in (np.exp, np.tanh, np.square):
        check_directions(lambda a, f=f: f(np.linalg.eigvalsh(a)).sum(), REPEATED[name])
        check_directions(lambda a, f=f: f(np.linalg.eigh(a)[0]).sum(), REPEATED[name])


@pytest.mark.parametrize("name", ["a pair", "a pair, turned"])
def test_projections_on_whole_spaces(name):
    def projection(a):
        _, v = np.linalg.eigh(a)
        return v[:, 1:3] @ v[:, 1:3].T

    check_directions(projection, REPEATED[name], symmetric=True)
    check_directions(lambda a: np.sum(projection(a) * draw(4, 4)), REPEATED[name], symmetric=True)


@pytest.mark.parametrize("name", REPEATED)
def test_nothing_is_infinite(name):
    for f in (np.linalg.eigh, np.linalg.svd):
        for output in f(REPEATED[name]):
            assert np.isfinite(output).all()
        number = len(f(np.eye(1)))
        for i in range(number):
            slopes = jacfwd(lambda a, f=f, i=i: f(a)[i])(REPEATED[name])
            assert np.isfinite(slopes).all() and np.abs(slopes).max() < 10


HIGHER = {
    "eigenvalues": lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))),
    "eigenvectors": lambda a: np.sum(np.linalg.eigh(a)[1] ** 3),
    "singular values": lambda a: np.sum(np.linalg.svd(a, compute_uv=False) ** 3),
    "singular vectors": lambda a: sum(np.sum(x**3) for x in np.linalg.svd(a)),
    "norm": lambda a: np.linalg.norm(a, 2) + np.linalg.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", ["identity", "zero", "a pair, turned"])
@pytest.mark.parametrize("f", HIGHER.values(), ids=HIGHER)
def test_higher_derivatives_are_finite(name, f):
    derivative = lambda t: f(REPEATED[name] + t * draw(4, 4))  # noqa: E731
    for _ in range(3):
        derivative = grad(derivative)
        assert np.isfinite(derivative(0.0))


WITHOUT_VECTORS = {
    "expm": linalg.expm,
    "sqrtm": linalg.sqrtm,
    "logm": linalg.logm,
    "polar": lambda a: linalg.polar(a)[0],
    "pinv": np.linalg.pinv,
    "lstsq": lambda a: np.linalg.lstsq(a, np.ones(4), rcond=None)[0],
    "nuclear norm": lambda a: np.linalg.norm(a, "nuc"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("f", WITHOUT_VECTORS.values(), ids=WITHOUT_VECTORS)
def test_second_derivatives_that_need_no_vectors(f):
    a = (TURN * [2.0, 2.0, 1.0, 3.0]) @ TURN.T
    check_grads(lambda t: f(a + t * draw(4, 4)), (0.0,), order=2)


# -- equal singular values -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["identity", "a pair, turned", "two pairs, turned"])
@pytest.mark.parametrize("shape", [(4, 4), (4, 6), (6, 4)])
def test_sums_over_equal_singular_values(name, shape):
    a = np.zeros(shape)
    a[:4, :4] = REPEATED[name]
    check_directions(lambda a: np.tanh(np.linalg.svd(a, compute_uv=False)).sum(), a)
    check_directions(lambda a: np.linalg.norm(a, "nuc"), a)
    check_grads(lambda a: np.linalg.norm(a, "nuc"), (a,), order=1)


@pytest.mark.parametrize("name", ["identity", "a pair, turned", "two pairs, turned"])
def test_the_polar_factor(name):
    def polar(a):
        u, _, vh = np.linalg.svd(a)
        return u @ vh

    check_directions(polar, REPEATED[name])


def test_norms_of_matrices_without_full_rank():
    a = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    least = np.outer([1.0, 2.0, 2.0], [3.0, 4.0]) / 15
    for order in (2, "nuc"):
        np.testing.assert_allclose(grad(np.linalg.norm)(a, order), least, atol=1e-14)
    np.testing.assert_allclose(grad(np.linalg.norm)(a, -2), 0, atol=1e-14)
    for order in (2, -2, "nuc", "fro", 1, np.inf):
        np.testing.assert_array_equal(grad(np.linalg.norm)(np.zeros((2, 3)), order), 0)


# -- vectors of which only the space is determined -------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 2), (2, 5), (3, 3)])
def test_full_matrices_span_the_right_spaces(shape):
    a, weights = draw(*shape), draw(5, 5)

    def spaces(a):
        u, _, vh = np.linalg.svd(a)
        k = min(shape)
        left, right = u[:, k:] @ u[:, k:].T, vh[k:].T @ vh[k:]
        return np.sum(left * weights[: len(left), : len(left)]) + np.sum(
            right * weights[: len(right), : len(right)]
        )

    check_grads(spaces, (a,), order=2)

    def stays_orthogonal(a):
        u, _, vh = np.linalg.svd(a)
        return u.T @ u, vh @ vh.T

    for slopes in jacfwd(stays_orthogonal)(a):
        np.testing.assert_allclose(slopes, 0, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(5, 2), (4, 3), (3, 3), (2, 4)])
def test_complete_qr(shape):
    a, weights = draw(*shape), draw(5, 5)
    k = min(shape)

    def space(a):
        q, r = np.linalg.qr(a, "complete")
        rest = q[:, k:]
        return np.sum(rest @ rest.T * weights[: len(q), : len(q)]) + np.sum(q @ r * a)

    check_grads(space, (a,), order=2)


def test_signs_and_order_of_singular_values_of_hermitian_matrices():
    a = (TURN * [-3.0, 0.5, 2.0, -1.0]) @ TURN.T
    check_directions(lambda a: np.linalg.svd(a, hermitian=True)[1], a, symmetric=True)

    def whole(a):
        u, s, vh = np.linalg.svd(a, hermitian=True)
        return (u * s) @ vh

    for seed in range(2):
        direction = draw(4, 4, seed=seed)
        direction = direction + direction.T
        np.testing.assert_allclose(jvp(whole, (a,), (direction,))[1], direction, atol=1e-12)


# -- pseudo-inverses of any rank -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_pseudo_inverses_within_a_rank(shape, rank):
    """Along factors, changes keep the rank."""
    m, n = shape
    left, right, b = draw(m, rank), draw(rank, n, seed=1), draw(m, 2, seed=2)

    def pinv(left, right):
        return np.linalg.pinv(left @ right, rcond=1e-6)

    def solution(left, right, b):
        return np.linalg.lstsq(left @ right, b, rcond=1e-6)[0]

    check_grads(pinv, (left, right), order=2, max_elements=3)
    check_grads(solution, (left, right, b), order=2, max_elements=3)


@pytest.mark.parametrize("size", [1e-300, 1e-140, 1e140, 1e300])
@pytest.mark.parametrize("turn", [1.0, 1.0 + 0.5j])
def test_compiled_eigenvalues_of_small_and_large_matrices(size, turn):
    a = np.array([[1.0, 2.0, 0.3], [-3.0, 0.4, 0.1], [0.2, 0.5, 0.6]]) * turn * size
    values, vectors = jit(np.linalg.eig)(a)
    ours, numpys = (np.sort_complex(w / size) for w in (values, np.linalg.eigvals(a)))
    np.testing.assert_allclose(ours, numpys, rtol=1e-13)
    np.testing.assert_allclose(jit(np.linalg.eigvals)(a), values, rtol=1e-13)
    np.testing.assert_allclose(a @ vectors / size, vectors * (values / size), atol=1e-14)


@pytest.mark.parametrize("function", [np.linalg.eig, np.linalg.eigvals])
@pytest.mark.parametrize("around", [jit, vmap])
def test_eigenvalues_of_half_precision_are_refused(function, around):
    with pytest.raises(DtypeError, match=r"not float16: write a.astype\(np.float32\)"):
        around(function)(np.ones((1, 2, 2), np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_determinants_where_a_product_overflows(dtype):
    huge = np.sqrt(np.finfo(dtype).max) * 10
    for a in ([[0, huge], [huge, 0]], [[1, huge], [huge, 1]], [[huge, 1], [1, huge]]):
        for sign in (1, -1):
            matrix = np.array(a, dtype) * np.array([[1], [sign]], dtype)
            assert jit(np.linalg.det)(matrix) == np.linalg.det(matrix)


def test_conditions_of_norms_that_overflow_are_infinite():
    a = np.array([[1e200, 0.0], [0.0, 2e200]])
    assert jit(lambda a: np.linalg.cond(a, "fro"))(a) == np.linalg.cond(a, "fro") == np.inf
    assert np.isnan(jit(lambda a: np.linalg.cond(a, "fro"))(a * np.nan))


@pytest.mark.parametrize("p", [None, 1, 2, "fro", np.inf])
def test_singular_matrices_have_an_infinite_condition(p):
    for a in (np.zeros((2, 2)), np.stack([np.eye(2), np.zeros((2, 2))])):
        expected = np.linalg.cond(a, p)
        np.testing.assert_allclose(jit(lambda a: np.linalg.cond(a, p))(a), expected)
        np.testing.assert_allclose(vmap(lambda a: np.linalg.cond(a, p))(a[None])[0], expected)


@pytest.mark.full
def test_results_of_lstsq():
    a, b = draw(5, 2), draw(5, 3, seed=1)
    check_grads(lambda a, b: np.linalg.lstsq(a, b)[:2], (a, b), order=2)
    check_grads(lambda a, b: np.linalg.lstsq(a, b[:, 0])[0], (a, b), order=2)
    check_grads(lambda a: np.linalg.lstsq(a, b)[3], (a,), order=2)
    mapped = vmap(lambda a, b: np.linalg.lstsq(a, b)[0])(draw(4, 5, 2), draw(4, 5))
    for i in range(4):
        expected = np.linalg.lstsq(draw(4, 5, 2)[i], draw(4, 5)[i])[0]
        np.testing.assert_allclose(mapped[i], expected)
    # one matrix, many right-hand sides
    mapped = vmap(lambda b: np.linalg.lstsq(a, b)[0], 1, 1)(b)
    np.testing.assert_allclose(mapped, np.linalg.lstsq(a, b)[0])


def test_least_squares_are_as_exact_as_lapacks():
    """The residual of an ill-conditioned fit, which a product with the inverse would miss."""
    x = np.linspace(0, 1, 40)
    vandermonde = np.vander(x, 12)
    b = vandermonde @ np.ones(12)
    found = jit(lambda a, b: np.linalg.lstsq(a, b)[0])(vandermonde, b)
    expected = np.linalg.lstsq(vandermonde, b)[0]
    bound = 10 * np.abs(vandermonde @ expected - b).max() + 1e-14
    assert np.abs(vandermonde @ found - b).max() < bound


# -- what is computed ------------------------------------------------------------------------------


def primitives_of(f, *args):
    return [eqn.primitive.name for eqn in jit(f).lower(*args).graph().eqns]


@pytest.mark.parametrize(
    ("f", "wanted", "other"),
    [
        (np.linalg.eigvalsh, "eigvalsh", "eigh"),
        (lambda a: np.linalg.svd(a)[1], "svdvals", "svd"),
        (lambda a: np.linalg.norm(a, 2), "svdvals", "svd"),
        (lambda a: np.linalg.qr(a)[1], "r_of_qr", "qr"),
    ],
)
def test_vectors_that_nobody_asks_for_are_not_computed(f, wanted, other):
    a = draw(3, 3)
    assert wanted in primitives_of(f, a) and other not in primitives_of(f, a)
    derivative = primitives_of(grad(lambda a: np.sum(f(a))), a)
    assert derivative.count(other) == 1 and wanted not in derivative


def test_one_class_of_results():
    for f in (np.linalg.slogdet, np.linalg.eigh, np.linalg.svd, np.linalg.qr):
        seen = []
        grad(lambda a, f=f, seen=seen: seen.append(f(a)) or np.sum(a))(np.eye(2))
        assert type(seen[0]) is type(f(np.eye(2)))

    def either(flag, a):
        return ft.lax.cond(flag, np.linalg.slogdet, lambda a: np.linalg.slogdet(np.eye(2)), a)

    assert either(True, 2 * np.eye(2)).logabsdet == pytest.approx(np.log(4))


def test_factors_without_derivatives_say_so():
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        # a column of zeros: of equal columns some LAPACKs leave a last bit, which is not singular
        grad(lambda a: np.sum(np.linalg.qr(a)[0]))(np.array([[1.0, 0.0]] * 3))


def test_hessians_of_separate_eigenvalues():
    a = draw(4, 4) + np.diag([0.0, 5.0, 10.0, 15.0])
    a = a + a.T
    second = hessian(lambda a: np.linalg.eigvalsh(a)[1])(a)
    for seed in range(2):
        direction = draw(4, 4, seed=seed)
        direction = direction + direction.T
        w, v = np.linalg.eigh(a)
        inner = v.T @ direction @ v
        expected = 2 * sum(inner[1, j] ** 2 / (w[1] - w[j]) for j in (0, 2, 3))
        found = np.einsum("ij,ijkl,kl", direction, second, direction)
        assert found == pytest.approx(expected)


# -- complex matrices: phases are LAPACK's choice, and no derivative depends on them ---------------


def drawn_complex(*shape, seed=0):
    return draw(*shape, seed=seed) + 1j * draw(*shape, seed=seed + 10)


def hermitian(n):
    a = drawn_complex(n, n)
    return a + a.conj().T


def of_eigenvectors(a):
    w, v = np.linalg.eigh(a)
    return np.abs(v[0]) ** 2, (v * np.tanh(w)) @ v.conj().T, np.abs(v.conj().T @ a[:, :1])


def of_singular_vectors(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.abs(u[0]), (u * np.tanh(s)) @ vh, np.abs(vh @ np.arange(a.shape[1]))


def of_full_factors(a):
    u, s, vh = np.linalg.svd(a)
    k = len(s)
    q, r = np.linalg.qr(a, "complete")
    rest, left, right = q[:, k:], u[:, k:], vh[k:]
    return left @ left.conj().T, right.conj().T @ right, rest @ rest.conj().T, q @ r


def check_complex(f, a):
    """Along complex directions, in forward mode; and reverse mode against forward mode."""
    for seed in range(2):
        direction = drawn_complex(*a.shape, seed=seed)
        found = jvp(f, (a,), (direction,))[1]
        above, below = f(a + 1e-6 * direction), f(a - 1e-6 * direction)
        for x, y, z in zip(found, above, below, strict=True):
            np.testing.assert_allclose(x, (y - z) / 2e-6, atol=1e-7, rtol=1e-6)

    def weighed(a):
        return sum(np.sum(np.real(x * (1 + np.arange(x.size)).reshape(x.shape))) for x in f(a))

    direction = drawn_complex(*a.shape, seed=5)
    forth = jvp(weighed, (a,), (direction,))[1]
    # the gradient of a real function is that along which it grows, conjugated
    back = np.sum(np.real(grad(weighed)(a) * direction))
    np.testing.assert_allclose(back, forth, rtol=1e-9)


def test_complex_eigenvectors():
    check_complex(of_eigenvectors, hermitian(4))
    check_complex(
        lambda a: (np.linalg.eigvalsh(a), np.linalg.cholesky(a @ a.conj().T)), hermitian(3)
    )


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_complex_singular_vectors(shape):
    a = drawn_complex(*shape)
    check_complex(of_singular_vectors, a)
    check_complex(of_full_factors, a)
    check_complex(lambda a: (np.linalg.norm(a, 2), np.linalg.norm(a, "nuc"), np.linalg.pinv(a)), a)


def test_complex_matrices_of_equal_singular_values():
    unitary = np.linalg.qr(drawn_complex(3, 3))[0]

    def polar(a):
        u, s, vh = np.linalg.svd(a)
        return u @ vh, np.sum(s)

    check_complex(polar, 2 * unitary)


def test_eigenvalues_of_real_matrices_are_numpys():
    turning, plain = np.array([[0.0, -2.0], [1.0, 0.5]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    for a in (turning, plain):
        seen = []
        grad(lambda a, seen=seen: seen.append(np.linalg.eig(a)) or np.sum(a))(a)
        for x, y in zip(seen[0], np.linalg.eig(a), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x._known_value, y)
        # what is not known to be real is complex
        assert jit(np.linalg.eigvals)(a).dtype == np.complex128
    assert abs(grad(lambda a: np.abs(np.linalg.eigvals(a)[0]))(turning)).sum() > 0


def test_zeros_among_coefficients():
    p = np.array([0.0, 0.0, 1.0, -3.0, 2.0, 0.0])
    gradient = grad(lambda p: np.sum(np.roots(p) ** 2))(p)
    # the sum of squares is (b / a) ** 2 - 2 * c / a
    np.testing.assert_allclose(gradient, [0, 0, -14, -6, -2, 0], atol=1e-12)
    assert grad(lambda p: np.sum(np.roots(p * 0)) + p[0])(p)[0] == 1
    np.testing.assert_allclose(jit(np.roots)(p[2:5]), np.roots(p[2:5]))


@pytest.mark.dear
def test_a_root_that_is_0_moves_with_the_last_coefficient():
    p = np.array([2.0, -3.0, 1.0, 4.0, 0.0])

    def distances(p):
        return np.sum(np.abs(np.roots(p) - 0.3) ** 2)

    np.testing.assert_array_equal(jvp(np.roots, (p,), (p,))[0], np.roots(p))
    np.testing.assert_allclose(grad(distances)(p), jit(grad(distances))(p), rtol=1e-12)
    np.testing.assert_allclose(hessian(distances)(p), jit(hessian(distances))(p), rtol=1e-9)
    assert grad(lambda p: np.roots(p)[0])(np.array([2.0, 0.0]))[1] == -0.5
