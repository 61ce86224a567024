"""Every primitive on bfloat16 numbers: float32 arithmetic whose results are rounded once."""

import numpy as np
import pytest

from functrans import jit, vmap
from functrans.ir.types import aval_of, is_complex, is_inexact
from functrans.loop.target import CPU
from functrans.lower.select.partition import compiled
from functrans.run.call.compiled import compile_graph
from functrans.transform.batch import batch_graph
from tests.primitives.harness import cases, like, pulled_back, run, tangent_graph, together

ml_dtypes = pytest.importorskip("ml_dtypes")

NARROW, SINGLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)


def by_primitive():
    """The samples that are of real numbers, some of them bfloat16 and not promoted to others."""
    groups = {}
    for case in cases(NARROW).values():
        operands, _ = (case.primitive.prepare or as_they_are)(*case.operands, **case.params)
        dtypes = [x.dtype for x in operands]
        if NARROW in dtypes and not any(map(is_complex, dtypes)):
            groups.setdefault(case.primitive.name, []).append(case)
    return groups


def as_they_are(*operands, **params):
    return operands, params


GROUPS = by_primitive()
# what is a matter of the dtype, or asks for one
OTHERWISE = ("cast", "external", "nextafter", "spacing")
COMPUTED = {name: group for name, group in GROUPS.items() if name not in OTHERWISE}
DIFFERENTIABLE = [name for name, group in COMPUTED.items() if group[0].differentiable]
MAPPABLE = [name for name, group in COMPUTED.items() if group[0].primitive.batch]


def widened(x):
    return x.astype(SINGLE) if x.dtype == NARROW else x


def rounded(x):
    x = np.asarray(x)
    return x.astype(NARROW) if x.dtype == SINGLE else x


def in_float32(case):
    """The case with the same numbers as float32."""
    operands = tuple(map(widened, case.operands))
    return case._replace(sample=case.sample._replace(operands=operands))


def expected_of(case):
    """What the primitive makes of the same numbers in float32, rounded."""
    return list(map(rounded, in_float32(case).numpy(*map(widened, case.operands))))


def assert_same(found, expected):
    """Equal dtypes, shapes and bits."""
    assert [aval_of(x) for x in found] == [aval_of(x) for x in expected]
    for x, y in zip(found, expected, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if y.dtype == NARROW:
            np.testing.assert_array_equal(x.view(np.uint16), y.view(np.uint16))
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", COMPUTED)
def test_results_are_those_of_float32_rounded_once(name):
    for case in COMPUTED[name]:
        graph = case.graph()
        found = run(graph, list(case.operands))
        assert_same(found, expected_of(case))
        assert [(np.shape(x), np.asarray(x).dtype) for x in found] == [
            (aval.shape, aval.dtype) for aval in graph.out_avals
        ]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_those_of_float32_rounded_once(name):
    rng = np.random.default_rng(0)
    for case in COMPUTED[name]:
        moving = [x for x, flag in zip(case.operands, case.moving, strict=True) if flag]
        directions = [like(rng, x) for x in moving]
        tangent = tangent_graph(case.graph(), case.moving)
        wide = tangent_graph(in_float32(case).graph(), case.moving)
        operands = list(map(widened, case.operands))
        tangents = run(tangent, [*case.operands, *directions])
        expected = run(wide, [*operands, *map(widened, directions)])
        assert_same(tangents, list(map(rounded, expected)))
        cotangents = [like(rng, x) for x in tangents]
        back = pulled_back(tangent, list(case.operands), directions, cotangents)
        wide_back = pulled_back(wide, operands, directions, list(map(widened, cotangents)))
        assert_same(back, list(map(rounded, wide_back)))


@pytest.mark.parametrize("name", MAPPABLE)
def test_vmap_is_that_of_float32_rounded_once(name):
    for case in COMPUTED[name]:
        pairs = list(zip(case.operands, case.another.operands, strict=True))
        inputs = [np.stack(pair, np.ndim(pair[0])) for pair in pairs]
        axes = tuple(x.ndim - 1 for x in inputs)
        batched, places = batch_graph(case.graph(), axes, 2)
        wide, wide_places = batch_graph(in_float32(case).graph(), axes, 2)
        assert places == wide_places
        expected = run(wide, list(map(widened, inputs)))
        assert_same(run(batched, inputs), list(map(rounded, expected)))


def test_neighbours_are_those_of_the_dtype():
    x = np.array([1.0, -2.5, 0.0, np.inf, 3e38], NARROW)
    for function in (np.spacing, lambda x: np.nextafter(x, -x)):
        with np.errstate(all="ignore"):
            assert_same([jit(function)(x), vmap(function)(x)], [function(x)] * 2)


COMPILED = {
    name: group
    for name, group in COMPUTED.items()
    if all(compiled(eqn, CPU) for case in group for eqn in case.graph().eqns)
}
# what takes bfloat16 itself, and some of each kind that takes float32 in its place
QUICK = {name for name, group in COMPILED.items() if group[0].primitive.stores} | {
    "add", "argmax", "convolution", "cumsum", "divide", "dot_general", "exp", "isnan", "maximum",
    "multiply", "negative", "reduce_max", "reduce_sum", "scatter_add", "sqrt",
}  # fmt: skip


def check(group, backend="native"):
    graph, operands = together(group)
    expected = [result for case in group for result in expected_of(case)]
    found = compile_graph(graph, backend=backend)(*operands)
    for number, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert aval_of(x) == aval_of(y)
        # float32 numbers that differ in their last bit may be rounded to neighbours
        tolerance = 2.0**-7 if is_inexact(y.dtype) else 0
        np.testing.assert_allclose(
            np.asarray(x, float), np.asarray(y, float), rtol=tolerance, atol=1e-37,
            err_msg=f"result {number}",
        )  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in COMPILED]
)
def test_machine_code_gives_the_same(name):
    check(COMPILED[name])


@pytest.mark.parametrize("name", ["add", "concatenate", "gather", "reduce_sum", "select"])
def test_numbas_code_gives_the_same(name):
    check(COMPILED[name][:1], "numba")


def test_there_are_primitives_to_look_at():
    assert len(COMPUTED) > 80
    assert len(QUICK) > 25
