"""Sparse Jacobians and Hessians against dense ones, and the inputs for which a pattern is valid."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

from functrans import (
    custom_jvp,
    custom_vjp,
    errors,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    lax,
    sparsity,
    vmap,
)
from functrans.api import sparse
from functrans.scipy.sparse.traced import SparseMatrix

RNG = np.random.default_rng(0)
INDEX = np.array([3, 1, 0, -1])
BAND = np.eye(7) + np.diag(np.ones(6), 1)
STORED = sp.random_array((7, 7), density=0.2, rng=RNG, format="csr")


def doubled(x):
    return lax.while_loop(lambda u: u[0] < 50, lambda u: u * 2 + 1, np.abs(x))


# name: (function, entries of the pattern at 7 elements)
FUNCTIONS = {
    "differences": (lambda x: np.diff(x) ** 2, 12),
    "gather": (lambda x: x[INDEX] * x[:4], 7),
    "scatter": (lambda x: np.zeros(9) + np.bincount([1, 1, 8], x[:3] ** 2, 9), 3),
    "a known matrix": (lambda x: BAND @ np.sin(x), 13),
    "a known sparse matrix": (lambda x: STORED @ x**2, STORED.nnz),
    "cumsum": (lambda x: np.cumsum(x**2), 28),
    "roll": (lambda x: np.roll(x, 1) * x, 14),
    "a sort may move any element": (np.sort, 49),
    "sums of parts": (lambda x: np.array([np.sum(x[:3] ** 2), np.prod(x[4:])]), 6),
    "small systems": (
        lambda x: np.linalg.solve(np.eye(2) * 3 + 1, (x[:6] ** 2).reshape(3, 2, 1)), 12,
    ),
    "where": (lambda x: np.where(np.arange(7) > 3, x, x[::-1] ** 2), 7),
    "a scan": (lambda x: lax.scan(lambda c, a: (c * a + 1, c), x[0], x[1:])[1], 21),
    "a scan backwards": (
        lambda x: lax.scan(lambda c, a: (c * a, c), x[0], x[1:], reverse=True)[1], 21,
    ),
    "a map": (lambda x: lax.map(lambda a: a**2, x), 7),
    "a loop": (lambda x: lax.fori_loop(0, 3, lambda i, u: u * np.roll(u, 1), x), 28),
    "a while loop": (doubled, 7),
    "a branch": (lambda x: lax.cond(x[0] > 0, lambda u: u * 2, lambda u: u[::-1] * u, x), 13),
    "a convolution": (lambda x: np.convolve(x, [1.0, 2.0, 1.0], mode="same"), 19),
    "an outer product": (lambda x: np.outer(x, x), 91),
    "einsum": (lambda x: np.einsum("ij,jk->ik", x[:6].reshape(2, 3), np.ones((3, 2))), 12),
    "one number for many": (lambda x: x[0] * np.arange(1.0, 4.0), 3),
    "pad and reshape": (lambda x: np.pad(x, 1).reshape(3, 3).T ** 2, 7),
    "a transform": (lambda x: np.fft.rfft(x[:6].reshape(2, 3)).imag, 12),
    "nothing": (lambda x: x * 0 + 1.0, 7),
    "a constant": (lambda x: np.ones(3), 0),
}  # fmt: skip


def dense(function, *args, **options):
    found = np.asarray(jacrev(function, **options)(*args))
    return found.reshape(-1, np.size(args[options.get("argnums", 0)]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_dense(name):
    function, entries = FUNCTIONS[name]
    x = RNG.standard_normal(7)
    expected = dense(function, x)
    for transform in (jacobian(function, sparse=True), jit(jacobian(function, sparse=True))):
        found = transform(x)
        assert type(found) is sp.csr_array
        assert found.has_canonical_format
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
        assert found.nnz == entries
    np.testing.assert_array_equal(sparsity(function)(x).toarray() | (expected != 0),
                                  sparsity(function)(x).toarray())  # fmt: skip


def chain(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


SCALARS = {
    "a chain": chain,
    "an arrow": lambda x: np.sum(x[0] * np.sin(x)),
    "a sum of powers": lambda x: np.sum(x**4),
    "blocks": lambda x: np.sum(np.prod(x[: len(x) // 3 * 3].reshape(-1, 3), axis=1)),
    "linear": np.sum,
    "a scan": lambda x: lax.scan(lambda c, a: (c, a**3 + c * a), x[0], x)[1].sum(),
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("size", [1, 2, 17, 300])
def test_hessians(name, size):
    x = RNG.standard_normal(size)
    expected = hessian(SCALARS[name])(x)
    for transform in (
        hessian(SCALARS[name], sparse=True),
        jit(hessian(SCALARS[name], sparse=True)),
    ):
        np.testing.assert_allclose(transform(x).toarray(), expected, atol=1e-9)


def test_no_elements():
    assert jacobian(np.sin, sparse=True)(np.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: x[:0], sparse=True)(np.ones(3)).shape == (0, 3)
    assert hessian(np.sum, sparse=True)(np.zeros(0)).shape == (0, 0)


@pytest.mark.parametrize("jitted", [False, True])
def test_pytrees(jitted):
    def f(p):
        return {"a": p["x"][1:] * p["y"], "b": p["x"] ** 2}

    at = {"x": np.arange(1.0, 4.0), "y": 2.0}
    found = jacobian(f, sparse=True)
    found = (jit(found) if jitted else found)(at)
    expected = jacrev(f)(at)
    for out in "ab":
        for name in "xy":
            block = expected[out][name].reshape(found[out][name].shape)
            np.testing.assert_array_equal(found[out][name].toarray(), block)


def test_float32_and_chunks_and_aux():
    x = np.arange(1.0, 6.0, dtype=np.float32)
    found, aux = jacobian(lambda x: (np.cumsum(x**2), "aux"), has_aux=True, chunk_size=2,
                          sparse=True)(x)  # fmt: skip
    assert aux == "aux"
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), jacfwd(lambda x: np.cumsum(x**2))(x))


def test_rows_where_there_are_fewer():
    """An arrow's rows: one that is full, and others that overlap in the first column only."""
    point = np.arange(1.0, 301.0)
    found = jacobian(lambda x: np.stack([np.sum(x**2), x[0] * x[-1]]), sparse=True)(point)
    np.testing.assert_array_equal(found.toarray()[1, [0, -1]], [300, 1])
    plan = sparse._planned(sparsity(lambda x: np.array([np.sum(x)]))(point), False, False)
    assert plan.is_reverse
    assert plan.colours.tolist() == [0]


def test_what_has_no_forward_mode_is_taken_by_rows():
    @custom_vjp
    def f(x):
        return x**2

    f.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))
    x = np.arange(1.0, 4.0)
    np.testing.assert_array_equal(jacobian(f, sparse=True)(x).toarray(), np.diag(2 * x))
    np.testing.assert_array_equal(
        hessian(lambda x: np.sum(f(x) ** 2), sparse=True)(x).toarray(), np.diag(12 * x**2)
    )


def test_a_hessian_of_rules_that_is_not_symmetric():
    @custom_jvp
    def f(x, y):
        return x * y

    f.defjvp(lambda primals, tangents: (
        primals[0] * primals[1], primals[0] * tangents[1] + 2 * primals[1] * tangents[0]
    ))  # fmt: skip

    def arrow(x):
        return np.sum(f(x[0], x[1:]))

    x = np.arange(1.0, 7.0)
    expected = hessian(arrow)(x)
    assert not np.array_equal(expected, expected.T)
    for transform in (hessian(arrow, sparse=True), jit(hessian(arrow, sparse=True))):
        np.testing.assert_array_equal(transform(x).toarray(), expected)


def test_positions_that_change_are_never_stale():
    positions = np.array([0, 1, 2])
    found = jacobian(lambda x: x[positions] ** 2, sparse=True)
    compiled = jit(found)
    for _ in range(3):
        for transform in (found, compiled):
            expected = np.diag(2 * np.arange(1.0, 5.0))[positions]
            np.testing.assert_array_equal(transform(np.arange(1.0, 5.0)).toarray(), expected)
        positions[:] = (positions + 1) % 4


@pytest.mark.dear
def test_large_positions_are_constants_of_a_jitted_function():
    positions = RNG.permutation(100_000)
    found = jit(jacobian(lambda x: x[positions] ** 2, sparse=True))(np.ones(100_000))
    assert found.nnz == 100_000
    np.testing.assert_array_equal(found.indices, positions)


def test_a_matrix_may_be_changed_in_place():
    compiled = jit(jacobian(np.diff, sparse=True))
    first = compiled(np.ones(4))
    first.data[:] = 0
    first.eliminate_zeros()
    np.testing.assert_array_equal(compiled(np.ones(4)).toarray(), np.diff(np.eye(4), axis=0))


def test_a_given_pattern():
    f = lambda x: x**2  # noqa: E731
    x = np.arange(1.0, 4.0)
    pattern = sparsity(f)(x)
    np.testing.assert_array_equal(jacobian(f, sparse=pattern)(x).toarray(), np.diag(2 * x))
    # zeros that are stored are part of it
    stored = sp.coo_array((np.zeros(3), (np.arange(3), np.arange(3))))
    assert jacobian(f, sparse=stored)(x).nnz == 3
    with pytest.raises(errors.ShapeError, match=r"has shape \(3, 3\), but there are 2 results"):
        jacobian(np.diff, sparse=pattern)(x)
    with pytest.raises(TypeError, match=r"a matrix of scipy.sparse .*, not ndarray"):
        jacobian(f, sparse=np.eye(3))(x)


def test_inside_of_a_traced_function():
    f = lambda x: x[1:] ** 2 * x[:-1]  # noqa: E731
    x = np.arange(1.0, 5.0)

    def product(x):
        matrix = jacobian(f, sparse=True)(x)
        assert isinstance(matrix, SparseMatrix)
        both = matrix.T @ matrix
        return matrix @ x, matrix @ np.stack([x, x], 1), matrix.toarray(), both

    expected = jacrev(f)(x)
    vector, columns, whole, both = jit(product)(x)
    np.testing.assert_allclose(both.toarray(), expected.T @ expected)
    np.testing.assert_allclose(vector, expected @ x)
    np.testing.assert_allclose(columns, np.stack([expected @ x] * 2, 1))
    np.testing.assert_allclose(whole, expected)
    of_data = grad(lambda x: np.sum(jacobian(f, sparse=True)(x).data ** 2))
    np.testing.assert_allclose(of_data(x), grad(lambda x: np.sum(jacrev(f)(x) ** 2))(x))
    many = vmap(jacobian(f, sparse=True))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(many.data[1], jacobian(f, sparse=True)(2 * x).data)


def test_results_that_depend_on_nothing_are_told_apart():
    for size in (3, 5):
        found = jacobian(lambda x, size=size: np.ones(size), sparse=True)(np.ones(2))
        assert found.shape == (size, 2)
    for order in (1, -1):
        both = lambda x, order=order: (np.ones(2), x)[::order]  # noqa: E731
        blocks = jacobian(both, sparse=True)(np.ones(2))[::order]
        assert [block.nnz for block in blocks] == [0, 2]


def test_a_while_loop_in_a_loop_keeps_stacks_of_unknown_length():
    def halved(x):
        return lax.while_loop(lambda c: c > 1, lambda c: c * c / 4, x)

    x = np.array([3.0, 0.5, 3.9])
    expected = jacrev(vmap(halved))(x)
    np.testing.assert_allclose(jacobian(vmap(halved), sparse=True)(x).toarray(), expected)
    np.testing.assert_allclose(
        jacobian(lambda x: lax.map(halved, x), sparse=True)(x).toarray(), expected
    )


def test_errors():
    with pytest.raises(errors.DtypeError, match="a sparse jacobian is of real numbers, but f"):

        def f(x):
            return x + 1j

        jacobian(f, sparse=True)(np.ones(2))
    with pytest.raises(
        errors.DensePatternError,
        match=r"would have 40,000,000,000 entries: this derivative is dense. Take products with it",
    ):
        jacobian(lambda x: x / np.sum(x), sparse=True)(np.ones(200_000))
    with pytest.raises(
        errors.TracerConversionError,
        match=r"the sparsity pattern of g depends on positions that are traced, i64\[2\].*"
        r": let g close over them, or give the pattern",
    ):

        def g(x, i):
            return x[i]

        jit(jacobian(g, sparse=True))(np.ones(4), np.array([1, 2]))
    with pytest.raises(errors.ShapeError, match=r"of shape \(3, 4\) cannot be multiplied by"):
        jit(lambda x: jacobian(np.diff, sparse=True)(x) @ x[1:])(np.ones(4))
    with pytest.raises(errors.UnsupportedNumPyError, match="'tolil' is not supported for sparse"):
        jit(lambda x: jacobian(np.diff, sparse=True)(x).tolil())(np.ones(4))


def test_one_traced_position_may_be_any():
    f = lambda x, i: x[i] ** 2  # noqa: E731
    found = jit(jacobian(f, sparse=True))
    for i in range(4):
        np.testing.assert_array_equal(
            found(np.arange(1.0, 5.0), i).toarray()[0], np.eye(4)[i] * 2 * (i + 1)
        )


def test_the_mode_of_a_dense_jacobian():
    x = np.arange(1.0, 4.0)
    for f in (np.diff, lambda x: np.outer(x, x), np.sum):
        np.testing.assert_array_equal(jacobian(f)(x), jacrev(f)(x))


BANDED = {
    "a chain": chain,
    "five diagonals": lambda x: np.sum(np.exp(-(x[2:] ** 2)) * np.sin(x[1:-1]) * x[:-2]),
    "gaps": lambda x: np.sum(np.sin(x[3:]) * x[:-3] + x[3:] ** 2),
    "a grid": lambda x: np.sum(np.diff(x.reshape(-1, 10), axis=0) ** 3) + np.sum(x**4),
}


@pytest.mark.parametrize("name", BANDED)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_bands(name, chunk_size):
    """Long enough that their entries are read as diagonals."""
    x = RNG.standard_normal(300)
    for size in (100, 300):
        x = RNG.standard_normal(size)
        expected = hessian(BANDED[name])(x)
        sparse_hessian = hessian(BANDED[name], sparse=True, chunk_size=chunk_size)
        for transform in (sparse_hessian, jit(sparse_hessian)):
            np.testing.assert_allclose(transform(x).toarray(), expected, atol=1e-9)


def test_bands_of_jacobians():
    def smoothed(x):
        return (x[2:] - 2 * x[1:-1] + x[:-2]) ** 2

    xs = RNG.standard_normal((2, 300))
    expected = jacrev(smoothed)(xs[0])
    for transform in (jacobian(smoothed, sparse=True), jit(jacobian(smoothed, sparse=True))):
        np.testing.assert_allclose(transform(xs[0]).toarray(), expected, atol=1e-12)
    batch = jit(vmap(lambda x: jacobian(smoothed, sparse=True)(x).data))(xs)
    single = np.stack([jacobian(smoothed, sparse=True)(x).data for x in xs])
    np.testing.assert_allclose(batch, single)
    rows = jit(jacobian(custom_vjp_squares, sparse=True))(xs[0])
    np.testing.assert_allclose(rows.toarray(), jacrev(custom_vjp_squares)(xs[0]), atol=1e-12)


@custom_vjp
def squares(x):
    return x**2


squares.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))


def custom_vjp_squares(x):
    return np.diff(squares(x))


def test_a_band_has_no_vectors_of_zeros_and_ones():
    """What a compiled Hessian of a band reads is the argument alone."""
    x = RNG.standard_normal(300)
    text = str(jit(hessian(chain, sparse=True)).lower(x).schedule())
    assert "in0" in text
    assert "in1" not in text


def test_indices_of_32_bits_are_the_results_own():
    found = jit(jacobian(lambda x: np.diff(x) ** 2, sparse=True))
    x = RNG.standard_normal(50)
    first = found(x)
    assert first.indices.dtype == first.indptr.dtype == np.int32
    first.indices[:] = 0
    first.indptr[:] = 0
    np.testing.assert_array_equal(found(x).toarray(), jacrev(lambda x: np.diff(x) ** 2)(x))


def test_a_system_with_a_sparse_jacobian_inside():
    def f(x):
        return np.diff(x**3, prepend=0.0) + x

    def step(x):
        return x - scipy.sparse.linalg.spsolve(jacobian(f, sparse=True)(x), f(x) - 1)

    x = RNG.random(5) + 1
    expected = x - np.linalg.solve(jacrev(f)(x), f(x) - 1)
    np.testing.assert_allclose(jit(step)(x), expected)

    def dense_step(x):
        return x - np.linalg.solve(jacrev(f)(x), f(x) - 1)

    np.testing.assert_allclose(jacrev(step)(x), jacrev(dense_step)(x), atol=1e-9)
