"""`functrans.scipy.linalg`: SciPy's values, dtypes and names; derivatives; batching; refusals."""

import inspect
import re

import numpy as np
import pytest
import scipy.linalg

from functrans import grad, jit, jvp, vmap
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import linalg
from functrans.scipy.define import WITHOUT_MEANING, implementations
from functrans.scipy.from_source import FROM_SOURCE
from functrans.scipy.inside import refusals
from functrans.testing import check_grads
from tests.numpy.attempts import leaves
from tests.scipy.linalg_cases import (
    CASES,
    ONLY_THE_SPACE_IS_DETERMINED,
    SHAPE_FOLLOWS_VALUES,
    columns,
    definite,
    square,
    tall,
)


def traced_values(case, operands):
    """The results under grad, where values are known."""
    seen = []

    def run(*tracers):
        found = leaves(case.call(linalg, *tracers))
        seen.extend(np.asarray(getattr(x, "_known_value", x)) for x in found)
        return sum(np.sum(x) for x in tracers)

    grad(run, tuple(range(len(operands))))(*operands)
    return seen


def compare(found, expected, dtype):
    tolerance = 1e-9 if dtype == np.float64 else 3e-2
    assert len(found) == len(expected)
    for x, y in zip(found, map(np.asarray, expected), strict=True):
        x = np.asarray(x)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_scipys(case, dtype):
    operands = [x.astype(dtype) for x in case.operands]
    expected = leaves(case.call(scipy.linalg, *operands))
    compare(traced_values(case, operands), expected, dtype)
    compare(leaves(case.call(linalg, *operands)), expected, dtype)


SAME_IN_ANY_DTYPE = [
    case
    for case in CASES.values()
    if not case.name.startswith(("l.eig(", "l.clarkson_woodruff_transform"))
    and not case.name.startswith(SHAPE_FOLLOWS_VALUES)
]


@pytest.mark.parametrize("case", SAME_IN_ANY_DTYPE, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int32])
def test_narrow_dtypes_are_computed_in_scipys_precision(case, dtype):
    if any(np.iscomplexobj(x) for x in case.operands):
        return
    operands = [x.astype(dtype) for x in case.operands]
    try:
        with np.errstate(all="ignore"):
            expected = leaves(case.call(scipy.linalg, *operands))
    except (
        KeyError,
        TypeError,
        ValueError,
    ):  # SciPy takes no float16 here, or the matrix became singular
        return
    found = vmap(lambda *xs: leaves(case.call(linalg, *xs)))(*(x[None] for x in operands))
    assert [x.dtype for x in found] == [np.asarray(x).dtype for x in expected]


def flat(case):
    """The call as a function with a list of arrays as its result."""
    return lambda *operands: leaves(case.call(linalg, *operands))


DETERMINED = {
    name: case for name, case in CASES.items() if not name.startswith(ONLY_THE_SPACE_IS_DETERMINED)
}


@pytest.mark.parametrize("case", DETERMINED.values(), ids=DETERMINED.keys())
def test_derivatives_are_those_of_differences(case):
    """Along one direction, forward; and reverse mode against forward mode."""
    rng = np.random.default_rng(5)
    directions = tuple(rng.normal(size=x.shape) for x in case.operands)
    _, tangents = jvp(flat(case), case.operands, directions)
    sides = [
        leaves(case.call(scipy.linalg, *map(np.add, case.operands, (step * d for d in directions))))
        for step in (1e-6, -1e-6)
    ]
    total, weights = 0.0, []
    for tangent, above, below in zip(tangents, *sides, strict=True):
        weights.append(None)
        if np.asarray(above).dtype.kind in "fc":
            difference = (above - below) / 2e-6
            scale = 1 + np.max(np.abs(difference), initial=0)
            np.testing.assert_allclose(tangent, difference, rtol=1e-5, atol=1e-6 * scale)
            weights[-1] = rng.normal(size=np.shape(above))
            total += np.sum(weights[-1] * np.real(tangent))

    def weighed(*operands):
        pairs = zip(leaves(case.call(linalg, *operands)), weights, strict=True)
        return sum((np.sum(w * np.real(x)) for x, w in pairs if w is not None), 0.0)

    gradients = grad(weighed, tuple(range(len(directions))))(*case.operands)
    backwards = sum(np.sum(x * d) for x, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(backwards, total, rtol=1e-8, atol=1e-8)


def one_of_each_function():
    """Cases with static shapes; all but the first of each function are slow."""
    seen = set()
    for name, case in CASES.items():
        function = name[: name.index("(")]
        if not name.startswith(SHAPE_FOLLOWS_VALUES):
            yield pytest.param(case, id=name, marks=[pytest.mark.slow] * (function in seen))
            seen.add(function)


@pytest.mark.parametrize("case", list(one_of_each_function()))
def test_compiled_programs_give_scipys_values(case):
    expected = leaves(case.call(scipy.linalg, *case.operands))
    found = jit(lambda *xs: case.call(linalg, *xs))(*case.operands)
    compare(leaves(found), expected, np.float64)


# LAPACK chooses a phase for each vector, and SciPy has no complex form of the others
PHASES = ("l.svd(a)", "l.svd(a, full", "l.qr(a)|[5", "l.qr(a, pivoting=True)|[5", "l.rq(a)|[3, 5]",
          "l.orth", "l.null_space", "l.schur(a)", "l.rsf2csf(*l.schur(a))")  # fmt: skip
REAL = ("eigh_tri", "eigvalsh_tri", "transposed=True")
COMPLEX = {name: case for name, case in CASES.items() if not any(part in name for part in REAL)}


def is_hermitian(x):
    return x.ndim > 1 and x.shape[-1] == x.shape[-2] and np.allclose(x, x.swapaxes(-1, -2).conj())


def in_the_plane(x, rng):
    """A complex array; of a symmetric matrix, a Hermitian one."""
    imaginary = 0.3 * rng.normal(size=x.shape)
    return x + 1j * (imaginary - imaginary.swapaxes(-1, -2) if is_hermitian(x) else imaginary)


def direction_like(x, rng):
    direction = rng.normal(size=x.shape) + 1j * rng.normal(size=x.shape)
    return direction + direction.swapaxes(-1, -2).conj() if is_hermitian(x) else direction


@pytest.mark.parametrize("case", COMPLEX.values(), ids=COMPLEX.keys())
def test_complex_matrices(case):
    rng = np.random.default_rng(3)
    operands = tuple(in_the_plane(x, rng) for x in case.operands)
    directions = tuple(direction_like(x, rng) for x in operands)
    values, tangents = jvp(flat(case), operands, directions)
    compare(values, leaves(case.call(scipy.linalg, *operands)), np.float64)
    if case.name.startswith(PHASES):
        return

    def beside(step):
        moved = (x + step * d for x, d in zip(operands, directions, strict=True))
        return leaves(case.call(scipy.linalg, *moved))

    for tangent, above, below in zip(tangents, beside(1e-6), beside(-1e-6), strict=True):
        if np.asarray(above).dtype.kind in "fc":
            difference = (above - below) / 2e-6
            scale = 1 + np.max(np.abs(difference), initial=0)
            np.testing.assert_allclose(tangent, difference, rtol=1e-5, atol=1e-6 * scale)


MAPPED = {name: case for name, case in CASES.items() if not name.startswith(SHAPE_FOLLOWS_VALUES)}


@pytest.mark.parametrize("case", MAPPED.values(), ids=MAPPED.keys())
def test_mapping_is_a_loop(case):
    stacks = [np.stack([x, x * 1.25], -1) for x in case.operands]
    found = vmap(lambda *xs: leaves(case.call(linalg, *xs)), -1, 0)(*stacks)
    for i in range(2):
        expected = leaves(case.call(linalg, *(x[..., i] for x in stacks)))
        for x, y in zip(found, expected, strict=True):
            if np.ndim(x) > np.ndim(y):
                x = x[i]
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "call",
    [
        "l.expm(a)",
        "l.sqrtm(a)",
        "l.logm(a)",
        "l.polar(a)",
        "l.lu(a)",
        "l.ldl(a)",
        "l.hessenberg(a)",
        "l.schur(a)",
    ],
)
def test_second_derivatives(call):
    case = next(case for name, case in CASES.items() if name.startswith(f"{call}|"))
    check_grads(flat(case), case.operands, order=2, max_elements=4)


# -- names -----------------------------------------------------------------------------------------


def public_functions():
    return {
        name
        for name in scipy.linalg.__all__
        if inspect.isfunction(getattr(scipy.linalg, name))
        and name not in ("find_best_blas_type", "get_blas_funcs", "get_lapack_funcs")
    }


TAKE_NUMBERS = {"dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"}


def test_every_function_works_or_is_refused():
    for name in dir(linalg):
        getattr(linalg, name)
    answered = {*linalg.__all__, *FROM_SOURCE["linalg"].split()}
    prefix = "scipy.linalg."
    refused = {name.removeprefix(prefix) for name in refusals if name.startswith(prefix)}
    assert not answered & refused
    assert public_functions() == answered | refused | TAKE_NUMBERS


@pytest.mark.parametrize("name", sorted(linalg.__all__))
def test_signatures_are_scipys(name):
    model = getattr(scipy.linalg, name)
    function = getattr(linalg, name)
    assert inspect.signature(function) == inspect.signature(model)
    assert function.__doc__
    own = inspect.signature(implementations[f"scipy.linalg.{model.__name__}"]).parameters
    theirs = inspect.signature(model).parameters
    assert {name for name, x in own.items() if x.kind != x.VAR_KEYWORD} <= theirs.keys()
    left_out = theirs.keys() - own.keys() - WITHOUT_MEANING.keys()
    assert left_out <= {
        "e",
        "s",
        "balanced",
        "tol",
        "homogeneous_eigvals",
        "disp",
        "blocksize",
        "seed",
    }


@pytest.mark.parametrize("name", sorted(linalg._INSTEAD))
def test_what_is_refused_says_what_instead(name):
    function = getattr(linalg, name)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
    ]
    with pytest.raises(UnsupportedNumPyError) as caught:
        grad(lambda a: function(*(a for _ in required)))(square)
    message = str(caught.value)
    assert message.startswith(f"scipy.linalg.{name} is not supported on traced values at test_lin")
    assert message.endswith(linalg._INSTEAD[name])


def test_keywords():
    def f(a):
        return linalg.svd(a, check_finite=False, lapack_driver="gesvd", overwrite_a=True)[1].sum()

    np.testing.assert_allclose(grad(f)(square), grad(lambda a: linalg.svdvals(a).sum())(square))
    with pytest.raises(UnsupportedNumPyError, match=re.escape("solve_continuous_are(..., e=...)")):
        grad(lambda a: linalg.solve_continuous_are(a, columns, a, np.eye(2), e=a))(square)
    with pytest.raises(UnsupportedNumPyError, match="an interval"):
        grad(lambda a: linalg.eigvalsh(a, subset_by_value=(0, 1)).sum())(definite)
    with pytest.raises(UnsupportedNumPyError, match="whose rank is not known"):
        jit(linalg.orth)(tall)
    with pytest.raises(TypeError, match="Only real arrays"):
        jit(lambda d: linalg.eigh_tridiagonal(d * 1j, d[1:]))(columns[:, 0])
    with pytest.raises(AttributeError, match="no 'choleski'"):
        _ = linalg.choleski
    np.testing.assert_array_equal(linalg.hilbert(2), scipy.linalg.hilbert(2))


def test_qr_multiply_with_pivots():
    expected = scipy.linalg.qr_multiply(square, columns, "left", pivoting=True)
    found = jit(lambda c: linalg.qr_multiply(square, c, "left", pivoting=True))(columns)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_inverses_of_definite_matrices():
    found = jit(lambda a: linalg.inv(a, assume_a="pos"))(np.stack([definite, 2 * definite]))
    np.testing.assert_allclose(found @ definite, [np.eye(4), np.eye(4) / 2], atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        jit(lambda a: linalg.inv(a, assume_a="pos"))(-definite)


def test_the_matrices_of_a_generalised_problem_have_one_shape():
    with pytest.raises(ValueError, match="wrong b dimensions"):
        jvp(lambda b: linalg.eigvalsh(np.ones((2, 2)), b), (np.ones((2, 1)),), (np.ones((2, 1)),))


def test_real_functions_of_real_matrices():
    for name in ("sqrtm", "logm"):
        with pytest.raises(np.linalg.LinAlgError, match="is complex: convert it"):
            jit(getattr(linalg, name))(-np.eye(2))


# eigenvalues of 0 and of 0.1 beside others
SINGULAR = np.fft.ifft([3.0, 0.1, 0.0, 0.1]).real


@pytest.mark.parametrize("options", [{}, {"tol": 0.5}])
@pytest.mark.parametrize("c", [SINGULAR, SINGULAR * 1j, definite[0]])
def test_circulant_of_least_squares(c, options):
    def solved(b, of=linalg):
        return of.solve_circulant(c, b, singular="lstsq", **options)

    # SciPy takes one column at a time
    expected = np.stack([solved(b, scipy.linalg) for b in columns.T], axis=1)
    for found in (jit(solved)(columns), jvp(solved, (columns,), (columns,))[1]):  # it is linear
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert found.dtype == expected.dtype


def test_circulant_that_is_nearly_singular():
    nearly = SINGULAR + 1e-17
    for of in (linalg, scipy.linalg):
        with pytest.raises(np.linalg.LinAlgError, match=r"^near singular circulant matrix\."):
            grad(lambda b, of=of: np.sum(of.solve_circulant(nearly, b)))(columns[:, 0])
