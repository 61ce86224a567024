"""Whole programs, drawn at random: NumPy, traces, compiled code, maps and derivatives agree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from functrans import checkpoint, grad, hessian, jit, jvp, value_and_grad, vjp, vmap
from tests.amount import examples


class Step(NamedTuple):
    """One operation on values that were computed before (by number, modulo their count)."""

    operation: str
    operands: tuple[int, ...]
    choice: int


def assigned(x, y, choice):
    z = x + 0.0 * np.sum(y)  # traced if what is assigned is
    if z.ndim and z.size:
        z[..., choice % z.shape[-1]] = np.sum(y)
        z[..., :1] += 1.0
    return z


def assigned_by_mask(x, y, choice):
    z = x + 0.0
    if z.ndim:
        z[z > 0.5] *= 0.5
    return z


UNARY = {
    "sin": lambda x, c: np.sin(x),
    "tanh": lambda x, c: np.tanh(x),
    "exp": lambda x, c: np.exp(-x * x),
    "sqrt": lambda x, c: np.sqrt(1.0 + x**2),
    "log1p": lambda x, c: np.log1p(x**2),
    "negative": lambda x, c: -x,
    "power": lambda x, c: x ** (1 + c % 3),
    "abs": lambda x, c: abs(x),
    "clip": lambda x, c: np.clip(x, -1.0, 1.5),
    "float32": lambda x, c: x.astype(np.float32) * np.float32(2),
    "flip": lambda x, c: x[..., ::-1] if x.ndim else x,
    "slice": lambda x, c: x[: max(1, c % 3)] if x.ndim else x,
    "take": lambda x, c: x[..., np.array([0, -1, 0])] if x.ndim and x.shape[-1] else x,
    "row": lambda x, c: x[c % len(x)] if x.ndim and len(x) else x,
    "transpose": lambda x, c: x.T,
    "ravel": lambda x, c: x.reshape(-1),
    "new axis": lambda x, c: x[..., None],
    "broadcast": lambda x, c: np.broadcast_to(x, (2, *x.shape)),
    "sum": lambda x, c: np.sum(x),
    "sum last": lambda x, c: np.sum(x, axis=-1, keepdims=bool(c % 2)) if x.ndim else x,
    "mean first": lambda x, c: x.mean(axis=0) if x.ndim and len(x) else x,
    "max": lambda x, c: np.max(x, axis=-1) if x.ndim and x.shape[-1] else x,
    "cumsum": lambda x, c: np.cumsum(x, axis=-1) if x.ndim else x,
    "gram": lambda x, c: x @ x.T if x.ndim == 2 else x,
    "branch": lambda x, c: np.where(x > 0, x, 0.5 * x),
    "safe log": lambda x, c: np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0),
}

BINARY = {
    "add": lambda x, y, c: x + y,
    "subtract": lambda x, y, c: x - y,
    "multiply": lambda x, y, c: x * y,
    "divide": lambda x, y, c: x / (1.0 + y * y),
    "maximum": lambda x, y, c: np.maximum(x, y),
    "hypot": lambda x, y, c: np.hypot(x + 3.0, y),
    "where": lambda x, y, c: np.where(x < y, x * y, y),
    "assign": assigned,
    "assign by mask": assigned_by_mask,
    "outer": lambda x, y, c: np.outer(x, y)[:3, :3],
    "concatenate": lambda x, y, c: np.concatenate([np.ravel(x), np.ravel(y)])[:4],
    "stack": lambda x, y, c: np.stack([np.sum(x), np.sum(y)]),
}

STEPS = st.one_of(
    st.builds(
        Step, st.sampled_from(sorted(UNARY)), st.tuples(st.integers(0, 9)), st.integers(0, 5)
    ),
    st.builds(
        Step,
        st.sampled_from(sorted(BINARY)),
        st.tuples(st.integers(0, 9), st.integers(0, 9)),
        st.integers(0, 5),
    ),
)
SHAPES = st.sampled_from([(), (3,), (2, 3), (1, 3), (2, 1), (0, 3), (1,), (0,)])


class Program:
    """A function of arrays, from steps; a step whose operands do not broadcast is left out."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            operands = [values[i % len(values)] for i in step.operands]
            if len(operands) == 1:
                values.append(UNARY[step.operation](*operands, step.choice))
            elif fits(step.operation, *operands):
                values.append(BINARY[step.operation](*operands, step.choice))
        return values[-1], values[len(inputs)]

    def __repr__(self):
        return f"Program({self.steps})"


def fits(operation, x, y):
    if operation in ("outer", "concatenate", "stack", "assign", "assign by mask"):
        return True
    try:
        return max(np.broadcast_shapes(x.shape, y.shape), default=0) < 20
    except ValueError:
        return False


class Case(NamedTuple):
    program: Program
    inputs: tuple[Any, ...]


@st.composite
def cases(draw, dtypes=(np.float64, np.float32)):
    first = Step(draw(st.sampled_from(sorted(UNARY))), (0,), draw(st.integers(0, 5)))
    program = Program([first, *draw(st.lists(STEPS, min_size=1, max_size=7))])
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    inputs = tuple(
        np.asarray(rng.normal(size=draw(SHAPES)), draw(st.sampled_from(dtypes)))
        for _ in range(draw(st.integers(1, 3)))
    )
    results = program(*inputs)
    assume(all(np.all(np.isfinite(x)) and np.all(np.abs(x) < 1e4) for x in results))
    return Case(program, inputs)


def single(case):
    return any(step.operation == "float32" for step in case.program.steps) or any(
        x.dtype == np.float32 for x in case.inputs
    )


def assert_same(found, expected, slack):
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, **slack)


SLACK = {False: {"rtol": 1e-9, "atol": 1e-10}, True: {"rtol": 2e-4, "atol": 2e-4}}

few = settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))


@few
@given(cases())
def test_tracing_compiling_and_checkpoints_change_nothing(case):
    expected = case.program(*case.inputs)
    before = [x.copy() for x in case.inputs]
    everywhere = tuple(range(len(case.inputs)))

    def total(*inputs):
        results = case.program(*inputs)
        return sum(np.sum(x) for x in results), results

    _, traced = grad(total, argnums=everywhere, has_aux=True)(*case.inputs)
    slack = SLACK[single(case)]
    assert_same(traced, expected, slack)
    assert_same(jit(case.program)(*case.inputs), expected, slack)
    assert_same(checkpoint(case.program)(*case.inputs), expected, slack)
    plain = grad(total, argnums=everywhere, has_aux=True)(*case.inputs)[0]
    again = grad(checkpoint(total), argnums=everywhere, has_aux=True)(*case.inputs)[0]
    compiled = jit(grad(total, argnums=everywhere, has_aux=True))(*case.inputs)[0]
    assert_same(again, plain, slack)
    assert_same(compiled, plain, slack)
    for x, copy in zip(case.inputs, before, strict=True):
        np.testing.assert_array_equal(x, copy)


@few
@given(cases(), st.integers(0, 2), st.integers(0, 10**6))
def test_a_map_is_a_loop(case, mapped, seed):
    mapped %= len(case.inputs)
    rng = np.random.default_rng(seed)
    examples = rng.normal(size=(3, *case.inputs[mapped].shape))
    examples = examples.astype(case.inputs[mapped].dtype)
    axis = int(rng.integers(examples.ndim))
    in_axes = [None] * len(case.inputs)
    in_axes[mapped] = axis

    def at(x):
        return [*case.inputs[:mapped], x, *case.inputs[mapped + 1 :]]

    def total(*inputs):
        return sum(np.sum(x) for x in case.program(*inputs))

    rows = [case.program(*at(x)) for x in examples]
    assume(all(np.all(np.isfinite(x)) for row in rows for x in row))
    expected = [np.stack(column) for column in zip(*rows, strict=True)]
    given_ = at(np.moveaxis(examples, 0, axis))
    slack = SLACK[single(case)]
    assert_same(vmap(case.program, in_axes=tuple(in_axes))(*given_), expected, slack)
    gradients = np.stack([grad(total, argnums=mapped)(*at(x)) for x in examples])
    per_sample = vmap(grad(total, argnums=mapped), in_axes=tuple(in_axes))(*given_)
    assert_same([per_sample], [gradients], slack)


@few
@given(cases(dtypes=(np.float64,)), st.integers(0, 10**6))
def test_derivatives_agree_with_each_other_and_with_differences(case, seed):
    assume(not single(case))
    rng = np.random.default_rng(seed)
    directions = tuple(np.asarray(rng.normal(size=x.shape)) for x in case.inputs)
    results, tangents = jvp(case.program, case.inputs, directions)
    weights = tuple(np.asarray(rng.normal(size=np.shape(x))) for x in results)
    _, pullback = vjp(case.program, *case.inputs)
    cotangents = pullback(weights)
    forward = sum(np.sum(w * t) for w, t in zip(weights, tangents, strict=True))
    backward = sum(np.sum(c * d) for c, d in zip(cotangents, directions, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-9)

    def along(h):
        moved = [x + h * d for x, d in zip(case.inputs, directions, strict=True)]
        return sum(np.sum(w * x) for w, x in zip(weights, case.program(*moved), strict=True))

    # a kink between the two points is no failure: the differences then depend on the step
    steps = [(along(h) - along(-h)) / (2 * h) for h in (1e-5, 5e-6)]
    if np.isclose(*steps, rtol=1e-5, atol=1e-5):
        np.testing.assert_allclose(forward, steps[1], rtol=1e-4, atol=1e-4)


@few
@given(cases(dtypes=(np.float64,)))
def test_second_derivatives(case):
    assume(not single(case) and 0 < case.inputs[0].size <= 6)

    def total(x):
        return sum(np.sum(r) for r in case.program(x, *case.inputs[1:]))

    x = case.inputs[0]
    second = hessian(total)(x)
    size = x.size
    matrix = second.reshape(size, size)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(jit(hessian(total))(x), second, rtol=1e-8, atol=1e-8)
    direction = np.ones_like(x)
    twice = jvp(lambda x: jvp(total, (x,), (direction,))[1], (x,), (direction,))[1]
    np.testing.assert_allclose(np.sum(matrix), twice, rtol=1e-8, atol=1e-8)


@few
@given(cases())
def test_results_belong_to_the_caller(case):
    everywhere = tuple(range(len(case.inputs)))

    def total(*inputs):
        results = case.program(*inputs)
        return sum(np.sum(x) for x in results), (results, inputs)

    before = [x.copy() for x in case.inputs]
    for transformed in (
        value_and_grad(total, argnums=everywhere, has_aux=True),
        jit(lambda *inputs: (case.program(*inputs), inputs)),
        lambda *inputs: vjp(lambda *xs: (case.program(*xs), xs), *inputs)[0],
        lambda *inputs: jvp(lambda *xs: (case.program(*xs), xs), inputs, inputs),
        lambda *inputs: vmap(lambda *xs: (case.program(*xs), xs))(*(x[None] for x in inputs)),
    ):
        first, second = arrays(transformed(*case.inputs)), arrays(transformed(*case.inputs))
        kept = [x.copy() for x in first]
        for i, x in enumerate(first):
            x[...] = 77  # must be writeable
            for other, copy in zip(first[i + 1 :], kept[i + 1 :], strict=True):
                np.testing.assert_array_equal(other, copy)
        for x, copy in zip(second, kept, strict=True):
            np.testing.assert_array_equal(x, copy)
        for x, copy in zip(case.inputs, before, strict=True):
            np.testing.assert_array_equal(x, copy)


def arrays(results):
    if isinstance(results, tuple):
        return [x for part in results for x in arrays(part)]
    return [results] if isinstance(results, np.ndarray) and results.ndim else []


@pytest.mark.parametrize("operation", [*UNARY, *BINARY])
def test_the_operations_themselves(operation):
    """So that a program that hypothesis leaves out is not the only one with an operation."""
    x = np.array([[0.3, -1.2, 0.7], [0.9, 0.1, -0.4]])
    operands = (0,) if operation in UNARY else (0, 1)
    case = Case(Program([Step("sin", (0,), 0), Step(operation, operands, 1)]), (x,))
    test_tracing_compiling_and_checkpoints_change_nothing.hypothesis.inner_test(case)
