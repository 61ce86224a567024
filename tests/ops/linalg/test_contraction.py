"""Products: NumPy's results, shapes and errors; batched, differentiated, compiled."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, jit, jvp, vjp, vmap
from functrans.errors import ShapeError
from functrans.ir.types import Aval
from functrans.ops.linalg import einsum as einsums
from functrans.ops.linalg import products
from functrans.ops.linalg.contraction import dot_general
from functrans.trace.stage import rewrite
from tests.amount import examples

LEFT = [(3,), (2, 3), (4, 2, 3), (1, 2, 3), (5, 1, 2, 3), (5, 4, 2, 3), (3, 3), (0, 3), ()]
RIGHT = [(3,), (3, 2), (4, 3, 2), (1, 3, 2), (5, 1, 3, 2), (5, 4, 3, 1), (3, 3), (2,), (3, 0), ()]
PAIRS = [(a, b) for a in LEFT for b in RIGHT]
FUNCTIONS = {
    products.matmul: np.matmul, products.dot: np.dot, products.inner: np.inner,
    products.outer: np.outer, products.kron: np.kron, products.vecdot: np.vecdot,
    products.vdot: np.vdot,
}  # fmt: skip


def numbers(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize(("ours", "numpy"), FUNCTIONS.items(), ids=lambda f: f.__name__)
def test_ranks_and_errors_are_numpys(ours, numpy):
    for x, y in (numbers(*pair) for pair in PAIRS):
        try:
            expected = numpy(x, y)
        except ValueError as error:
            with pytest.raises(ShapeError) as caught:
                ours(x, y)
            assert str(caught.value).startswith(str(error))
            continue
        result = ours(x, y)
        assert np.shape(result) == np.shape(expected)
        np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
def test_dtypes(dtype):
    x, y = np.array([[1, 0], [1, 1]], dtype), np.array([[1, 1], [0, 1]], dtype)
    for ours, numpy in FUNCTIONS.items():
        result, expected = ours(x, y), numpy(x, y)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    assert products.matmul(x, y.astype(np.float64)).dtype == np.float64


def check_derivatives(f, *args):
    """Forward against differences, and reverse against forward."""
    directions = numbers(*(x.shape for x in args), seed=1)
    out, tangent = jvp(f, args, tuple(directions))
    step = 1e-6
    above, below = (
        f(*(x + s * d for x, d in zip(args, directions, strict=True))) for s in (step, -step)
    )
    np.testing.assert_allclose(tangent, (above - below) / (2 * step), rtol=1e-6, atol=1e-7)
    (weights,) = numbers(np.shape(out), seed=2)
    _, pull = vjp(f, *args)
    back = pull(weights if np.ndim(out) else np.float64(weights))
    total = sum((ct * d).sum() for ct, d in zip(back, directions, strict=True))
    np.testing.assert_allclose(total, (weights * tangent).sum(), atol=1e-10)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((0, 3), (3, 2)),
    ],
)  # fmt: skip
def test_matmul_mapped_and_differentiated(shapes):
    x, y = numbers(*shapes)
    check_derivatives(lambda x, y: x @ y, x, y)
    expected = np.stack([x @ y, (x + 1) @ (y - 1)])
    xs, ys = np.stack([x, x + 1], -1), np.stack([y, y - 1])
    np.testing.assert_allclose(vmap(lambda x, y: x @ y, (-1, 0))(xs, ys), expected)
    np.testing.assert_allclose(vmap(lambda x: x @ y, -1)(xs)[1], (x + 1) @ y)
    np.testing.assert_allclose(vmap(lambda y: x @ y)(ys)[1], x @ (y - 1))
    np.testing.assert_allclose(jit(lambda x, y: x @ y)(x, y), x @ y)


def test_the_gradient_of_a_layer_has_no_superfluous_equations():
    # x @ w, and its cotangents: three products, and not one transpose beside them
    x, w, ct = (Aval(shape, float) for shape in [(8, 3), (3, 4), (8, 4)])

    def pull_back(x_value, w_value, cotangent):
        params = {"contract": ((1,), (0,)), "batch": ((), ())}
        (dx, _) = dot_general.transpose(cotangent, x, w_value, **params)
        (_, dw) = dot_general.transpose(cotangent, x_value, w, **params)
        return [dx, dw]

    graph = rewrite(pull_back, [x, w, ct])
    assert [eqn.primitive.name for eqn in graph.eqns] == ["dot_general", "dot_general"]


# -- tensordot and einsum --------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [0, 2, ((1, 2), (0, 1)), ((2, 0), (1, 2)), (1, 0), (-1, -2)])
def test_tensordot(axes):
    x, y = numbers((4, 2, 3), (2, 3, 4))
    np.testing.assert_allclose(products.tensordot(x, y, axes), np.tensordot(x, y, axes))
    check_derivatives(lambda x, y: products.tensordot(x, y, axes), x, y)


def test_tensordot_of_axes_that_do_not_fit():
    x, y = numbers((2, 3), (2, 3))
    with pytest.raises(ShapeError, match=r"axes \(1,\) of an array of shape \(2, 3\)"):
        products.tensordot(x, y, 1)


EINSUMS = [
    ("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)), ("ij->", (2, 3)), ("ba", (2, 3)), ("i,j->ij", (3,), (2,)),
    ("...ij,...jk->...ik", (2, 4, 3), (1, 3, 5)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 3)), ("i,i,i", (3,), (3,), (3,)),
    ("ijk,k->ji", (2, 3, 4), (4,)), ("ab,cd->", (2, 3), (4, 5)), ("i...,i->...", (3, 2, 2), (3,)),
    ("iji->j", (3, 2, 3)), ("ab,ab,c->c", (2, 3), (2, 3), (2,)), ("i,i->i", (1,), (3,)),
    ("ii,i->i", (3, 3), (3,)), (",i", (), (3,)), ("i->i", (3,)), ("iii->i", (3, 3, 3)),
    ("i,i", (3,), (1,)), ("ij,kj->ik", (2, 3), (5, 1)), ("ij,jk,kl->il", (2, 3), (1, 4), (4, 2)),
    ("a,b,c,d->dcba", (2,), (3,), (4,), (5,)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), [(t, s) for t, *s in EINSUMS], ids=str)
def test_einsum(text, shapes):
    arrays = numbers(*shapes)
    expected = np.einsum(text, *arrays)
    np.testing.assert_allclose(einsums.einsum(text, *arrays), expected)
    assert np.shape(einsums.einsum(text, *arrays)) == expected.shape
    check_derivatives(lambda *arrays: einsums.einsum(text, *arrays), *arrays)
    mapped = vmap(lambda *arrays: einsums.einsum(text, *arrays))(*(x[None] for x in arrays))
    np.testing.assert_allclose(mapped[0], expected)


@st.composite
def subscripts(draw):
    """Up to four operands over few letters, so that they meet in every way; some are broadcast."""
    sizes = {"a": 2, "b": 3, "c": 1, "d": 4}
    terms = draw(st.lists(st.text("abcd", min_size=0, max_size=4), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    output = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    own = [{c: draw(st.sampled_from([n, n, n, 1])) for c, n in sizes.items()} for _ in terms]
    shapes = [[extents[c] for c in t] for t, extents in zip(terms, own, strict=True)]
    return ",".join(terms) + "->" + "".join(output), shapes


@settings(max_examples=examples(150), deadline=None)
@given(subscripts())
def test_random_einsums(case):
    text, shapes = case
    arrays = numbers(*shapes)
    np.testing.assert_allclose(einsums.einsum(text, *arrays), np.einsum(text, *arrays), atol=1e-12)


def test_einsum_with_lists_of_axes():
    x, y = numbers((2, 3), (3, 4))
    np.testing.assert_allclose(einsums.einsum(x, [0, 1], y, [1, 2], [0, 2]), x @ y)
    np.testing.assert_allclose(einsums.einsum(x, [0, 1], y, [1, 2]), x @ y)
    np.testing.assert_allclose(einsums.einsum(x, [..., 0], y, [0, 2], [..., 2]), x @ y)


@pytest.mark.parametrize(
    ("text", "shapes", "words"),
    [
        ("ij,jk", ((2, 3), (2, 3)), "Size of label 'j' for operand 1"),
        ("ijk", ((2, 3),), "does not contain the correct number of indices"),
        ("ij->ik", ((2, 3),), "Output character 'k' did not appear in the input"),
        ("...j,j->j", ((2, 3), (3,)), "the output lacks '...', which stands for axes in '...j'"),
    ],
)
def test_einsum_errors(text, shapes, words):
    with pytest.raises(ShapeError, match=words) as caught:
        grad(lambda x: einsums.einsum(text, x, *numbers(*shapes[1:])))(*numbers(shapes[0]))
    assert "test_contraction.py" in str(caught.value)
