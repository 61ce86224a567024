"""Sparse matrices of traced values, against SciPy, finite differences and dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from functrans import grad, hessian, jit, jvp, vmap
from functrans.errors import ShapeError, UnsupportedNumPyError

r, c = np.array([0, 0, 1, 2, 2]), np.array([0, 2, 1, 0, 2])
v0, x = np.array([4.0, 1.0, 3.0, 1.0, 5.0]), np.array([1.0, 2.0, 3.0])


def made(cls, v):
    return cls((v, (r, c)), shape=(3, 3))


def symmetric(v):
    a = made(sp.csr_array, v)
    return a + a.T


def bidiagonal(v):
    return sp.diags([v[:3], v[1:4]], [0, 1])


PROGRAMS = {
    "coo_matrix@": lambda v: (sp.coo_matrix((v, (r, c)), shape=(3, 3)) @ x).sum(),
    "coo tocsr": lambda v: (sp.coo_matrix((v, (r, c)), shape=(3, 3)).tocsr() @ x).sum(),
    "coo dup": lambda v: (
        sp.coo_matrix(
            (v, (np.array([0, 0, 1, 2, 2]), np.array([0, 0, 1, 0, 2]))), shape=(3, 3)
        ).tocsr()
        @ x
    )[0],
    "csr_array": lambda v: (
        sp.csr_array((v, np.array([0, 2, 1, 0, 2]), np.array([0, 2, 3, 5])), shape=(3, 3)) @ x
    ).sum(),
    "csr_matrix": lambda v: (sp.csr_matrix((v, (r, c)), shape=(3, 3)) @ x).sum(),
    "csc_matrix": lambda v: (sp.csc_matrix((v, (r, c)), shape=(3, 3)) @ x).sum(),
    "diags": lambda v: (sp.diags(v) @ np.arange(5.0)).sum(),
    "diags list": lambda v: (sp.diags([v[:4], v, v[1:]], [-1, 0, 1]) @ np.arange(5.0)).sum(),
    "diags_array": lambda v: (sp.diags_array(v) @ np.arange(5.0)).sum(),
    "kron": lambda v: (
        sp.kron(sp.eye(2), sp.coo_matrix((v, (r, c)), shape=(3, 3))) @ np.arange(6.0)
    ).sum(),
    "block_array": lambda v: (
        sp.block_array([[sp.coo_array((v, (r, c)), shape=(3, 3)), None], [None, sp.eye_array(3)]])
        @ np.arange(6.0)
    ).sum(),
    "bmat": lambda v: (
        sp.bmat([[sp.coo_matrix((v, (r, c)), shape=(3, 3)), None], [None, sp.eye(3)]])
        @ np.arange(6.0)
    ).sum(),
    "T": lambda v: (sp.coo_matrix((v, (r, c)), shape=(3, 3)).T @ x).sum(),
    "T csr": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3)).T @ x).sum(),
    "sum": lambda v: sp.coo_matrix((v, (r, c)), shape=(3, 3)).sum(),
    "sum0": lambda v: np.sum(np.asarray(sp.csr_array((v, (r, c)), shape=(3, 3)).sum(axis=0)) ** 2),
    "dot": lambda v: sp.coo_matrix((v, (r, c)), shape=(3, 3)).dot(x).sum(),
    "scale": lambda v: ((2.0 * sp.coo_matrix((v, (r, c)), shape=(3, 3)) * 3.0) @ x).sum(),
    "add": lambda v: ((sp.csr_array((v, (r, c)), shape=(3, 3)) + sp.eye_array(3)) @ x).sum(),
    "matmul sparse": lambda v: (
        (sp.csr_array((v, (r, c)), shape=(3, 3)) @ sp.eye_array(3)) @ x
    ).sum(),
    "spsolve": lambda v: spl.spsolve(sp.csc_matrix((v, (r, c)), shape=(3, 3)), x).sum(),
    "spsolve b": lambda v: spl.spsolve(sp.csr_array((v0, (r, c)), shape=(3, 3)), v[:3]).sum(),
    "splu": lambda v: spl.splu(sp.csc_matrix((v, (r, c)), shape=(3, 3))).solve(x).sum(),
    "toarray": lambda v: sp.coo_matrix((v, (r, c)), shape=(3, 3)).toarray().sum(),
    "const@traced": lambda v: (sp.csr_array((v0, (r, c)), shape=(3, 3)) @ v[:3]).sum(),
    "const.T@traced": lambda v: (sp.csr_array((v0, (r, c)), shape=(3, 3)).T @ v[:3]).sum(),
    "multiply": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3)).multiply(x[:, None]) @ x).sum(),
    "diagonal": lambda v: sp.csr_array((v, (r, c)), shape=(3, 3)).diagonal().sum(),
    "power": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3)).power(2) @ x).sum(),
    "vstack": lambda v: (
        sp.vstack([sp.csr_array((v, (r, c)), shape=(3, 3)), sp.eye_array(3)]) @ x
    ).sum(),
    "x@A": lambda v: (x @ sp.csr_array((v, (r, c)), shape=(3, 3))).sum(),
    "csgraph lap": lambda v: sp.csr_array((v, (r, c)), shape=(3, 3)).mean(),
    "dia": lambda v: (sp.dia_array((v[None, :], [0]), shape=(5, 5)) @ np.arange(5.0)).sum(),
    "spdiags": lambda v: (sp.spdiags(v, 0, 5, 5) @ np.arange(5.0)).sum(),
    "getrow": lambda v: (sp.csr_matrix((v, (r, c)), shape=(3, 3))[0] @ x).sum(),
    "neg": lambda v: ((-sp.csr_array((v, (r, c)), shape=(3, 3))) @ x).sum(),
    "sub": lambda v: ((sp.eye_array(3) - sp.csr_array((v, (r, c)), shape=(3, 3))) @ x).sum(),
    "div": lambda v: ((sp.csr_array((v, (r, c)), shape=(3, 3)) / v.sum()) @ x).sum(),
    "cg": lambda v: spl.cg(symmetric(v), x, rtol=1e-13)[0].sum(),
    "minres": lambda v: spl.minres(symmetric(v), x, rtol=1e-13)[0].sum(),
    "s*const": lambda v: ((v[0] * sp.csr_array((v0, (r, c)), shape=(3, 3))) @ x).sum(),
    "const*s": lambda v: ((sp.csr_array((v0, (r, c)), shape=(3, 3)) * v[1]) @ x).sum(),
    "const/s": lambda v: ((sp.csr_array((v0, (r, c)), shape=(3, 3)) / v[1]) @ x).sum(),
    "const mult": lambda v: (sp.csr_array((v0, (r, c)), shape=(3, 3)).multiply(v[:3]) @ x).sum(),
    "const matrix*s": lambda v: ((v[1] * sp.csr_matrix((v0, (r, c)), shape=(3, 3))) @ x).sum(),
    "matrix*vec": lambda v: (sp.csr_matrix((v, (r, c)), shape=(3, 3)) * x).sum(),
    "matrix*matrix": lambda v: ((sp.csr_matrix((v, (r, c)), shape=(3, 3)) * sp.eye(3)) * x).sum(),
    "eye*matrix": lambda v: ((sp.eye(3) * sp.csr_matrix((v, (r, c)), shape=(3, 3))) * x).sum(),
    "matrix**2": lambda v: ((sp.csr_matrix((v, (r, c)), shape=(3, 3)) ** 2) @ x).sum(),
    "sumM1": lambda v: np.sum(
        np.asarray(sp.csr_matrix((v, (r, c)), shape=(3, 3)).sum(axis=1)).ravel() ** 2
    ),
    "A@X": lambda v: ((sp.csr_array((v, (r, c)), shape=(3, 3)) @ np.outer(x, x)) ** 2).sum(),
    "traced@traced": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3)) @ v[:3]).sum(),
    "FEM": lambda v: spl.spsolve(
        (
            sp.diags([v[:3], v[1:4]], [0, 1]) @ sp.diags([v[:3], v[1:4]], [0, 1]).T + sp.eye(3)
        ).tocsc(),
        x,
    ).sum(),
    "gmres": lambda v: spl.gmres(sp.csr_array((v, (r, c)), shape=(3, 3)), x, rtol=1e-12)[0].sum(),
    "kron2": lambda v: (
        sp.kron(sp.diags(v[:2]), sp.coo_matrix((v, (r, c)), shape=(3, 3))) @ np.arange(6.0)
    ).sum(),
    "kronsum": lambda v: (
        sp.kronsum(sp.diags(v[:2]), sp.coo_matrix((v, (r, c)), shape=(3, 3))) @ np.arange(6.0)
    ).sum(),
    "issparse": lambda v: v[0] * float(sp.issparse(sp.csr_array((v, (r, c)), shape=(3, 3)).T)),
    "slice": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3))[1:, :2] @ x[:2]).sum(),
    "elem": lambda v: sp.csr_array((v, (r, c)), shape=(3, 3))[0, 2] ** 2,
    "zero elem": lambda v: sp.csr_array((v, (r, c)), shape=(3, 3))[0, 1] + v[0],
    "tril": lambda v: (sp.tril(sp.csr_array((v, (r, c)), shape=(3, 3))) @ x).sum(),
    "identity": lambda v: ((sp.identity(3) * v[2]) @ x).sum(),
    "tanh": lambda v: (made(sp.csr_array, v / 9).tanh() @ x).sum(),
    "diags dtype": lambda v: (sp.diags([v[:2]], [1], dtype=np.float64) @ x).sum(),
    "abs": lambda v: (abs(sp.csr_array((v, (r, c)), shape=(3, 3))) @ x).sum(),
    "norm": lambda v: spl.norm(sp.csr_array((v, (r, c)), shape=(3, 3)), 1),
    "norm of a multiple": lambda v: spl.norm(2 * sp.csr_array((v, (r, c)), shape=(3, 3))),
    "norms of rows": lambda v: spl.norm(sp.csr_array((v, (r, c)), shape=(3, 3)), axis=1).sum(),
    "data": lambda v: (sp.csr_array((v, (r, c)), shape=(3, 3)).data ** 2).sum(),
    "csc data": lambda v: (
        sp.csr_array((v, (r, c)), shape=(3, 3)).tocsc().data * np.arange(5.0)
    ).sum(),
    "lil": lambda v: (sp.lil_array((3, 3)) @ v[:3]).sum(),
    "diag scale @": lambda v: (
        sp.diags(v[:3]) @ sp.csr_array((v0, (r, c)), shape=(3, 3)) @ x
    ).sum(),
}


def differences(f, v, step=1e-6):
    out = np.zeros_like(v)
    for i in range(v.size):
        d = np.zeros_like(v)
        d[i] = step
        out[i] = (f(v + d) - f(v - d)) / (2 * step)
    return out


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_values_and_gradients(name):
    f = PROGRAMS[name]
    np.testing.assert_allclose(jit(f)(v0), f(v0), rtol=1e-12)
    expected = differences(f, v0)
    np.testing.assert_allclose(grad(f)(v0), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jit(grad(f))(v0), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 300])
@pytest.mark.parametrize("kind", ["coo", "csc", "csr"])
@pytest.mark.parametrize("is_matrix", [False, True])
def test_a_product_is_that_of_the_dense_matrix(n, kind, is_matrix):
    """With coordinates that occur more than once, rows without entries, and none at all."""
    rng = np.random.default_rng(n)
    m = n + 2
    count = 3 * n
    rows, columns = rng.integers(0, n or 1, count), rng.integers(0, m, count)
    make = getattr(sp, f"{kind}_{'matrix' if is_matrix else 'array'}")
    values, y, z = rng.normal(size=count), rng.normal(size=m), rng.normal(size=(n, 2))

    def dense(values):
        a = np.zeros((n, m))
        np.add.at(a, (rows, columns), values)
        return a

    def f(values, y, z):
        a = make((values, (rows, columns)), shape=(n, m))
        return a @ y, a.T @ z, (z.T @ a), a.sum(axis=0), a.toarray()

    a = dense(values)
    sums = a.sum(0)[None] if is_matrix else a.sum(0)
    for found, expected in zip(
        jit(f)(values, y, z), (a @ y, a.T @ z, z.T @ a, sums, a), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

    def loss(values):
        return np.sum(np.sin(make((values, (rows, columns)), shape=(n, m)) @ y))

    slope = (np.cos(a @ y)[:, None] * y)[rows, columns] if n else np.zeros(0)
    np.testing.assert_allclose(jit(grad(loss))(values), slope, rtol=1e-12, atol=1e-12)


def test_lanes_and_second_derivatives():
    def f(v):
        return np.sum(np.tanh(sp.csr_array((v, (r, c)), shape=(3, 3)) @ x))

    many = np.stack([v0, v0 / 2, -v0])
    np.testing.assert_allclose(jit(vmap(f))(many), [f(v) for v in many])

    def dense(v):
        rows = [v[0] * x[0] + v[1] * x[2], v[2] * x[1], v[3] * x[0] + v[4] * x[2]]
        return sum(np.tanh(row) for row in rows)

    np.testing.assert_allclose(hessian(f)(v0 / 9), hessian(dense)(v0 / 9), rtol=1e-10)

    def solved(v):
        return spl.spsolve(sp.csc_array((v, (r, c)), shape=(3, 3)), x).sum()

    direction = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    slope = differences(lambda v: grad(solved)(v) @ direction, v0)
    np.testing.assert_allclose(hessian(solved)(v0) @ direction, slope, rtol=1e-4, atol=1e-5)


def test_a_matrix_that_is_returned_is_scipys():
    def f(v):
        a = sp.csc_matrix((v, (r, c)), shape=(3, 3))
        return {"twice": 2 * a, "transposed": a.T, "array": sp.coo_array((v, (r, c)), shape=(3, 3))}

    found = jit(f)(v0)
    expected = f(v0)
    for key, matrix in expected.items():
        assert type(found[key]) is type(matrix)
        np.testing.assert_array_equal(found[key].toarray(), matrix.toarray())


KINDS = [getattr(sp, f"{k}_{e}") for k in ("coo", "csc", "csr") for e in ("array", "matrix")]


@pytest.mark.parametrize("cls", KINDS)
def test_matrices_are_arguments(cls):
    """Pytrees of their stored values: derivatives have the same places."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 5, 12), rng.integers(0, 4, 12)
    a = cls((rng.normal(size=12), (rows, columns)), shape=(5, 4))
    dense, y = a.toarray(), rng.normal(size=4)

    def loss(a):
        return np.sum(np.sin(a @ y))

    np.testing.assert_allclose(jit(loss)(a), np.sin(dense @ y).sum())
    slope = np.cos(dense @ y)[:, None] * y * (abs(dense) > 0)
    for transform in (grad, lambda f: jit(grad(f))):
        found = transform(loss)(a)
        assert type(found) is cls
        np.testing.assert_allclose(found.toarray(), slope)
    value, moved = jvp(lambda a: a.T @ np.ones(5), (a,), (found,))
    np.testing.assert_allclose(value, dense.sum(0))
    np.testing.assert_allclose(moved, slope.sum(0))
    many = vmap(lambda a, y: a @ y, in_axes=(None, 0))(a, np.stack([y, 2 * y]))
    np.testing.assert_allclose(many, [dense @ y, dense @ y * 2])
    # other places are another program, and other values are not
    f = jit(lambda a: a.sum())
    np.testing.assert_allclose([f(a), f(2 * a)], [dense.sum(), 2 * dense.sum()])
    np.testing.assert_allclose(f(cls(a.T)), dense.sum())


def test_a_sparse_array_of_one_axis_is_no_argument():
    with pytest.raises(ShapeError, match=r"make it a row, a.reshape\(1, -1\)"):
        jit(lambda a: a.sum())(sp.coo_array(np.ones(3)))


@pytest.mark.parametrize("name", ["argmax", "max", "nonzero", "setdiag"])
@pytest.mark.parametrize("move", [lambda a: a, lambda a: a.T], ids=["made", "moved"])
def test_what_needs_the_values_is_refused(name, move):
    def f(v):
        return getattr(move(made(sp.csr_array, v)), name)()

    with pytest.raises(UnsupportedNumPyError, match=f"'{name}' is not supported for sparse"):
        grad(f)(v0)


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("move", [lambda a: a, lambda a: a.T], ids=["made", "moved"])
def test_attributes_that_scipy_computes(cls, move):
    """They were methods that refuse, and so taken for true."""

    def f(v):
        a = move(cls((v * (1 + 2j), (r, c)), shape=(3, 3)))
        return a.real.toarray(), a.imag.toarray(), round(a, 1).toarray()

    for found, expected in zip(jit(f)(v0), f(v0), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["has_canonical_format", "has_sorted_indices"])
@pytest.mark.parametrize("move", [lambda a: a, lambda a: a.T], ids=["made", "moved"])
def test_entries_are_sorted_and_without_duplicates(name, move):
    seen = []
    grad(lambda v: seen.append(getattr(move(made(sp.csr_array, v)), name)) or v[0])(v0)
    assert seen == [True]


@pytest.mark.parametrize("name", ["data", "indices", "coords"])
@pytest.mark.parametrize("move", [lambda a: a, lambda a: a.T], ids=["made", "moved"])
def test_parts_are_not_replaced(name, move):
    with pytest.raises(UnsupportedNumPyError, match=rf"'A.{name} = ...' is not supported for"):
        jit(lambda v: setattr(move(made(sp.csr_array, v)), name, v))(v0)


@pytest.mark.parametrize("move", [lambda a: a, lambda a: a.T], ids=["made", "moved"])
def test_matrices_are_not_compared(move):
    with pytest.raises(UnsupportedNumPyError, match="'__eq__' is not supported"):
        grad(lambda v: move(made(sp.csr_array, v)) == 0)(v0)


def test_an_array_that_broadcasts_is_not_made_as_large_as_the_matrix():
    n = 300_000  # 720 GB
    places = np.arange(n), np.arange(n)[::-1]

    def f(v):
        a = sp.coo_array((v, places), shape=(n, n))
        return a.multiply(np.arange(n)[:, None]).multiply(np.arange(n)).sum()

    v = np.ones(n)
    numbers = np.arange(n, dtype=float)
    np.testing.assert_allclose(jit(f)(v), (numbers * numbers[::-1]).sum())


def test_a_number_is_not_added():
    with pytest.raises(NotImplementedError, match="makes it dense"):
        grad(lambda v: (made(sp.csr_array, v) + 1.0).sum())(v0)


def test_a_system_that_is_singular():
    with pytest.raises(RuntimeError, match="singular"):
        jit(lambda v: spl.spsolve(sp.csc_array((v, (r, c)), shape=(3, 3)), x))(np.zeros(5))


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda v: sp.csr_array((v, (r[:3], c)), shape=(3, 3)), ShapeError,
         "scipy.sparse.csr_array takes a row and a column for each value"),
        (lambda v: sp.coo_array((v, (r, c)), shape=(2, 3)), ValueError,
         "a row of 2 is outside of the shape (2, 3)"),
        (lambda v: sp.csr_array((v, (r, c)), shape=(3, 3)) @ v, ShapeError,
         "a sparse matrix of shape (3, 3) cannot be multiplied by an array of shape (5,)"),
        (lambda v: sp.csr_array((v, (r, c)), shape=(3, 3)) + sp.eye_array(4), ShapeError,
         "sparse matrices of shapes (3, 3) and (4, 4) cannot be added"),
        (lambda v: sp.lil_array((v, (r, c)), shape=(3, 3)), UnsupportedNumPyError,
         "scipy.sparse.lil_array is not supported on traced values"),
        (lambda v: sp.csr_array(np.outer(v, v)), UnsupportedNumPyError,
         "csr_array((values, (rows, columns)), shape=...), where the places are constant"),
        (lambda v: (2 * sp.csr_array((v, (r, c)), shape=(3, 3))).argmax(), UnsupportedNumPyError,
         "'argmax' is not supported for sparse matrices of traced values"),
        (lambda v: spl.expm_multiply(sp.csr_array((v, (r, c)), shape=(3, 3)), v[:3]),
         UnsupportedNumPyError, "use functrans.scipy.linalg.expm(A) @ B, with A.toarray()"),
    ],
)  # fmt: skip
def test_what_cannot_be(f, error, words):
    with pytest.raises(error) as caught:
        jit(grad(lambda v: f(v).sum()))(v0)
    assert words in str(caught.value)


def test_a_diffusion_whose_conductivity_is_found():
    """An inverse problem of finite elements: assembled, solved, and fitted by its gradient."""
    n = 20
    left, right = np.arange(n), np.arange(1, n + 1)
    rows = np.concatenate([left, left, right, right])
    columns = np.concatenate([left, right, left, right])

    def temperatures(k):
        a = sp.coo_matrix((np.concatenate([k, -k, -k, k]), (rows, columns)), shape=(n + 1, n + 1))
        inner = a.tocsr()[1:-1, 1:-1]
        return spl.spsolve(inner.tocsc(), np.full(n - 1, 1.0 / n))

    true = 1 + 0.5 * np.sin(np.linspace(0, 3, n))
    measured = temperatures(true)
    loss = jit(lambda log_k: np.sum((temperatures(np.exp(log_k)) - measured) ** 2))
    start = np.zeros(n)
    np.testing.assert_allclose(grad(loss)(start), differences(loss, start), rtol=1e-5, atol=1e-9)


def test_page_rank_by_its_links():
    rng = np.random.default_rng(0)
    n, count = 12, 40
    source, target = rng.integers(0, n, count), rng.integers(0, n, count)

    def ranks(weights):
        links = sp.csr_matrix((weights, (target, source)), shape=(n, n))
        out = np.asarray(links.sum(axis=0)).ravel()
        walk = links @ sp.diags(1 / (out + 1e-9))
        p = np.full(n, 1 / n)
        for _ in range(30):
            p = 0.85 * walk.dot(p) + 0.15 / n
        return p

    weights = rng.uniform(0.5, 2, count)
    np.testing.assert_allclose(jit(ranks)(weights), ranks(weights), rtol=1e-12)
    f = lambda w: ranks(w)[3]  # noqa: E731
    np.testing.assert_allclose(grad(f)(weights), differences(f, weights), rtol=1e-5, atol=1e-8)


SMALL = {
    "sum": lambda a: a.sum(1),
    "sum of bools": lambda a: a.astype(bool).sum(0),
    "sum of both axes": lambda a: a.sum((0, 1)),
    "sum, converted": lambda a: (a * 0.303).sum(0, dtype=int),
    "mean": lambda a: a.mean(0),
    "mean, converted": lambda a: a.mean(0, dtype=int),
    "difference": lambda a: sp.csr_array(np.eye(3, dtype=np.int64)) - a,
    "dense difference": lambda a: np.eye(3) - a,
    "power": lambda a: a.power(2, dtype=np.int64),
    "bools and floats": lambda a: a.astype(bool) + sp.csr_array(np.eye(3, dtype=np.float32)),
    "Kronecker sum": lambda a: sp.kronsum(a, a),
    "blocks": lambda a: sp.block_diag([a, 2.0]),
    "no power": lambda a: sp.csr_matrix(a) ** 0,
}


@pytest.mark.parametrize("name", SMALL)
def test_small_unsigned_integers(name):
    def program(v):
        found = SMALL[name](made(sp.csr_array, v))
        return found.toarray() if sp.issparse(found) else found

    v = np.array([200, 100, 3, 250, 7], np.uint8)
    found, expected = jit(program)(v), np.asarray(program(v))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_the_power_0_of_a_sparse_array_is_refused():
    with pytest.raises(NotImplementedError, match="the power 0 of a sparse matrix is dense"):
        jit(lambda v: made(sp.csr_array, v).power(0).sum())(v0)
