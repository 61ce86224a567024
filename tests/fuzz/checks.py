"""Ways to run a random program, each compared with NumPy or with plain evaluation.

Ill-conditioned results may differ: a program is also evaluated for inputs perturbed in their last
digits, and only elements that these perturbations leave unchanged are compared closely.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functrans import checkpoint, config, grad, jacobian, jit, jvp, vmap
from tests.fuzz.complex_numbers import in_floats, kind_of_float
from tests.fuzz.programs import Program

TOLERANCE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 2e-3, np.dtype(np.float16): 2e-2}
AMPLIFIED = {np.dtype(np.float64): 1e5, np.dtype(np.float32): 1e3, np.dtype(np.float16): 8.0}
"""How many times as much as for inputs that are slightly off a result may be off, by the dtype in
which they are off: the shortest that a program computes in."""
FROM_EXACT = 30.0
"""How many times as much as from what more exact arithmetic gives a result may be off."""


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class Mismatch(Exception):
    """Two ways to compute the same do not agree."""


def nearby(f, inputs, rng, precision, *similar) -> list[Any]:
    """What a function gives for inputs that are slightly off, and for more exact arithmetic.

    They are off in the last places of the ``precision``, a dtype. And what functions that are
    ``similar`` give for the inputs themselves.
    """
    found = [f(*_nudged(inputs, rng, precision)), *(other(*inputs) for other in similar)]
    if any(kind_of_float(x.dtype) in (np.float16, np.float32) for x in inputs):
        found.append(f(*map(_more_exact, inputs)))
    return found


def _more_exact(x: Any) -> Any:
    return x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x


def _nudged(inputs: Any, rng, precision: Any) -> list[np.ndarray]:
    """The inputs, floats off by some units in the last place of a dtype."""
    return [
        x * (1 + 4 * np.finfo(precision).eps * rng.normal(size=x.shape)).astype(x.dtype)
        if x.dtype.kind in "fc"
        else x
        for x in inputs
    ]


def compare(
    what: str,
    found: Any,
    expected: Any,
    around: Sequence[Any],
    precision: Any = np.dtype(np.float64),  # noqa: B008
) -> None:
    """Raise unless arrays agree in shape, dtype, and numbers as far as these are certain.

    ``precision`` is the shortest dtype that a program computes in on the way.
    """
    for number, (a, b, *others) in enumerate(zip(found, expected, *around, strict=True)):
        a, b, *others = map(in_floats, (a, b, *others))
        where = f"{what}: result {number}"
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Mismatch(f"{where} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        wrong = _wrong(a, b, others, precision)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = f"{int(wrong.sum())} of {b.size}"
            raise Mismatch(f"{where}: {count} wrong, at {at} {a[at]}, not {b[at]}")


def precision(program: Program) -> Any:
    """The dtype of the shortest floats that a program computes with."""
    with np.errstate(all="ignore"):
        kinds = {kind_of_float(np.asarray(x).dtype) for x in program.values(*program.inputs)}
    kinds = {kind for kind in kinds if kind.kind == "f"}
    return min(kinds, key=lambda kind: kind.itemsize, default=np.dtype(np.float64))


def _wrong(
    a: np.ndarray, b: np.ndarray, others: Sequence[np.ndarray], precision: Any
) -> np.ndarray:
    certain = np.ones(b.shape, bool)
    with np.errstate(all="ignore"):
        if b.dtype.kind != "f":
            for c in others:
                certain &= b == c
            return (a != b) & certain
        same = [c.dtype == b.dtype for c in others]
        unit = max(TOLERANCE[b.dtype], TOLERANCE[precision])
        a, b, *others = (x.astype(np.float64) for x in (a, b, *others))
        scale = np.abs(b).max(initial=0, where=np.isfinite(b))
        # what is nothing but rounding may be any other rounding
        slack = unit * (np.abs(b) + 1e-3 * scale + 1e-4)
        for c, alike in zip(others, same, strict=True):
            certain &= np.isnan(b) == np.isnan(c)
            slack = slack + (AMPLIFIED[precision] if alike else FROM_EXACT) * np.abs(b - c)
        close = (np.abs(a - b) <= slack) | (a == b) | (np.isnan(a) & np.isnan(b))
        return ~close & certain


def same_bits(what: str, first: Any, second: Any) -> None:
    for a, b in zip(first, second, strict=True):
        if np.asarray(a).tobytes() != np.asarray(b).tobytes():
            raise Mismatch(f"{what}: two calls give different bits")


def call(program: Program, rng) -> None:
    with np.errstate(all="ignore"):
        expected = program(*program.inputs)
        around = nearby(program, program.inputs, rng, precision(program))
    compiled = jit(program)
    config.threads = 1
    alone = compiled(*program.inputs)
    compare("jit", alone, expected, around, precision(program))
    config.threads = int(rng.integers(2, 9))
    for _ in range(3):
        same_bits(f"jit with {config.threads} threads", alone, compiled(*program.inputs))


def losses_of(program: Program, rng) -> list[Any]:
    """A number made of all float results, with weights.

    Where there are numbers of half precision, another one with weights that are slightly off is
    with it. Cotangents that cancel are rounded on the way to it, however exact the results are.
    """
    with np.errstate(all="ignore"):
        shapes = [np.asarray(x) for x in program(*program.inputs)]
    weights = [rng.normal(size=x.shape) for x in shapes]
    losses = [_loss(program, shapes, weights)]
    if precision(program) == np.float16:
        losses.append(_loss(program, shapes, _nudged(weights, rng, np.float16)))
    return losses


def _loss(program: Program, shapes: Sequence[Any], weights: Sequence[Any]) -> Any:
    def loss(*inputs: Any) -> Any:
        total = 0.0
        for out, weight, shape in zip(program(*inputs), weights, shapes, strict=True):
            if shape.dtype.kind == "f":
                total = total + np.sum(out * weight)
            elif shape.dtype.kind == "c":
                total = total + np.sum(out.real * weight) - np.sum(out.imag * weight)
        return total

    return loss


def float_inputs(program: Program) -> tuple[int, ...]:
    return tuple(i for i, x in enumerate(program.inputs) if x.dtype.kind == "f")


def gradient(program: Program, rng) -> None:
    moving = float_inputs(program)
    if not moving:
        return
    loss, *others = losses_of(program, rng)
    derivative, *similar = (grad(each, argnums=moving) for each in (loss, *others))
    with np.errstate(all="ignore"):
        expected = derivative(*program.inputs)
        around = nearby(derivative, program.inputs, rng, precision(program), *similar)
    config.threads = int(rng.integers(1, 9))
    compare("jit(grad)", jit(derivative)(*program.inputs), expected, around, precision(program))
    along_a_line(program, loss, moving, expected, rng)


def along_a_line(program, loss, moving, gradients, rng) -> None:
    """The derivative in one direction, against differences where these have converged."""
    if precision(program) != np.float64:
        return  # small steps are lost in rounding
    direction = [rng.normal(size=program.inputs[i].shape) for i in moving]

    def at(t: float) -> float:
        inputs = list(program.inputs)
        for i, v in zip(moving, direction, strict=True):
            inputs[i] = inputs[i] + t * v
        with np.errstate(all="ignore"):
            return float(loss(*inputs))

    def difference(h: float) -> float:
        return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)

    found = sum(float(np.sum(g * v)) for g, v in zip(gradients, direction, strict=True))
    size = sum(float(np.sum(np.abs(g * v))) for g, v in zip(gradients, direction, strict=True))
    coarse, fine, finest = (difference(h) for h in (1e-4, 3e-5, 1e-5))
    scale = max(abs(fine), size, 1e-3)
    apart = max(abs(coarse - fine), abs(fine - finest))
    if apart > 1e-6 * scale or apart > 0.5 * max(abs(fine), 1e-3):
        return  # a kink, too steep, or chaos, in which gradients are huge and differences are noise
    if abs(found - fine) > 1e-4 * scale:
        raise Mismatch(f"grad: {found} along a line, differences give {fine}")


def batched(program: Program, rng) -> None:
    size = int(rng.choice([1, 1, 2, 3, 17]))
    axes = [
        int(rng.integers(0, x.ndim + 1)) if rng.random() < 0.7 else None for x in program.inputs
    ]
    if all(axis is None for axis in axes):
        axes[0] = 0
    inputs = []
    for x, axis in zip(program.inputs, axes, strict=True):
        if axis is None:
            inputs.append(x)
        else:
            rows = [x if x.dtype.kind != "f" else x * x.dtype.type(1 + k / 8) for k in range(size)]
            inputs.append(np.stack(rows, axis=axis))

    def by_loop(*given):
        rows = []
        for k in range(size):
            own = [
                x if a is None else np.take(x, k, axis=a) for x, a in zip(given, axes, strict=True)
            ]
            rows.append(program(*own))
        return [np.stack(columns) for columns in zip(*rows, strict=True)]

    with np.errstate(all="ignore"):
        try:
            expected, around = by_loop(*inputs), nearby(by_loop, inputs, rng, precision(program))
        except np.linalg.LinAlgError:
            return
    config.threads = int(rng.integers(1, 9))
    compare(
        "jit(vmap)",
        jit(vmap(program, in_axes=tuple(axes)))(*inputs),
        expected,
        around,
        precision(program),
    )


def batched_gradient(program: Program, rng) -> None:
    moving = float_inputs(program)
    if not moving:
        return
    losses = losses_of(program, rng)
    mapped = tuple(0 if i in moving else None for i in range(len(program.inputs)))
    inputs = [
        np.stack([x, x * x.dtype.type(0.75)]) if i in moving else x
        for i, x in enumerate(program.inputs)
    ]
    derivatives = [grad(loss, argnums=moving) for loss in losses]

    def looped(derivative):
        def by_loop(*given):
            rows = [
                derivative(*(x[k] if i in moving else x for i, x in enumerate(given)))
                for k in range(2)
            ]
            return [np.stack(columns) for columns in zip(*rows, strict=True)]

        return by_loop

    by_loop, *similar = map(looped, derivatives)
    with np.errstate(all="ignore"):
        expected = by_loop(*inputs)
        around = nearby(by_loop, inputs, rng, precision(program), *similar)
    config.threads = int(rng.integers(1, 9))
    compare(
        "jit(vmap(grad))",
        jit(vmap(derivatives[0], in_axes=mapped))(*inputs),
        expected,
        around,
        precision(program),
    )


def forward(program: Program, rng) -> None:
    moving = float_inputs(program)
    if not moving:
        return
    tangents = tuple(
        rng.normal(size=program.inputs[i].shape).astype(program.inputs[i].dtype) for i in moving
    )

    def pushed(*given: Any) -> Any:
        def inner(*own: Any) -> Any:
            inputs = list(given)
            for i, x in zip(moving, own, strict=True):
                inputs[i] = x
            return tuple(x for x in program(*inputs) if x.dtype.kind in "fc")

        own = tuple(given[i] for i in moving)
        moves = tuple(t.astype(x.dtype) for t, x in zip(tangents, own, strict=True))
        return jvp(inner, own, moves)[1]

    with np.errstate(all="ignore"):
        expected = pushed(*program.inputs)
        around = nearby(pushed, program.inputs, rng, precision(program))
    compare("jit(jvp)", jit(pushed)(*program.inputs), expected, around, precision(program))


def sparse(program: Program, rng) -> None:
    """The sparse Jacobian, times a vector: it lacks nothing that the tangent has."""
    moving = float_inputs(program)
    results = [x for x in program(*program.inputs) if x.dtype.kind == "f"]
    columns = sum(program.inputs[i].size for i in moving)
    if not columns or columns * sum(x.size for x in results) > 1_000_000:
        return
    if "float16" in str(program):
        return  # several vectors at once are rounded otherwise than one
    tangents = tuple(rng.normal(size=program.inputs[i].shape) for i in moving)

    def floats(*given: Any) -> Any:
        return tuple(x for x in program(*given) if x.dtype.kind == "f")

    def by_matrix(*given: Any) -> Any:
        rows = jacobian(floats, argnums=moving, sparse=True)(*given)
        return tuple(
            sum(block @ t.ravel() for block, t in zip(row, tangents, strict=True))
            .reshape(x.shape)
            .astype(x.dtype)
            for row, x in zip(rows, results, strict=True)
        )

    def by_tangent(*given: Any) -> Any:
        def inner(*own: Any) -> Any:
            inputs = list(given)
            for i, x in zip(moving, own, strict=True):
                inputs[i] = x
            return floats(*inputs)

        own = tuple(given[i] for i in moving)
        moves = tuple(t.astype(x.dtype) for t, x in zip(tangents, own, strict=True))
        return jvp(inner, own, moves)[1]

    with np.errstate(all="ignore"):
        expected = by_tangent(*program.inputs)
        around = nearby(by_tangent, program.inputs, rng, precision(program))
        found = by_matrix(*program.inputs)
    compare("jacobian(sparse=True)", found, expected, around, precision(program))


def second_order(program: Program, rng) -> None:
    """The Hessian in one direction, and the same with the forward pass done again."""
    moving = float_inputs(program)
    if not moving or sum(program.inputs[i].size for i in moving) > 3000:
        return
    losses = losses_of(program, rng)
    directions = [rng.normal(size=program.inputs[i].shape) for i in moving]

    def along(wrapped: Any) -> Any:
        def curvature(*given: Any) -> Any:
            def slope(*own: Any) -> Any:
                inputs = list(given)
                for i, x in zip(moving, own, strict=True):
                    inputs[i] = x
                return grad(wrapped, argnums=moving)(*inputs)

            own = tuple(given[i] for i in moving)
            moves = tuple(t.astype(x.dtype) for t, x in zip(directions, own, strict=True))
            return jvp(slope, own, moves)[1]

        return curvature

    plain, *similar = map(along, losses)
    with np.errstate(all="ignore"):
        expected = plain(*program.inputs)
        around = nearby(plain, program.inputs, rng, precision(program), *similar)
    config.threads = int(rng.integers(1, 9))
    compare("jit(jvp(grad))", jit(plain)(*program.inputs), expected, around, precision(program))
    again = along(checkpoint(losses[0]))
    compare(
        "jit(jvp(grad(checkpoint)))",
        jit(again)(*program.inputs),
        expected,
        around,
        precision(program),
    )


def batched_twice(program: Program, rng) -> None:
    """A batch of batches, mapped over its first and its last axis."""
    inputs = [np.stack([np.stack([x, x], axis=-1)] * 3) for x in program.inputs]
    twice = vmap(vmap(program, in_axes=-1), in_axes=0)

    def by_loop(*given: Any) -> Any:
        rows = [[program(*(x[i, ..., j] for x in given)) for j in range(2)] for i in range(3)]
        count = len(program.outputs)
        return [np.stack([np.stack([r[k] for r in row]) for row in rows]) for k in range(count)]

    with np.errstate(all="ignore"):
        expected, around = by_loop(*inputs), nearby(by_loop, inputs, rng, precision(program))
    config.threads = int(rng.integers(1, 9))
    compare("jit(vmap(vmap))", jit(twice)(*inputs), expected, around, precision(program))


def donated(program: Program, rng) -> None:
    with np.errstate(all="ignore"):
        expected = program(*program.inputs)
        around = nearby(program, program.inputs, rng, precision(program))
    numbers = tuple(i for i in range(len(program.inputs)) if rng.random() < 0.7)
    compiled = jit(program, donate_argnums=numbers)
    for _ in range(2):
        results = compiled(*(x.copy() for x in program.inputs))
        compare(f"donated {numbers}", results, expected, around, precision(program))


def in_a_child(program: Program, rng) -> None:
    """A forked process compiles and runs as well."""
    if not hasattr(os, "fork"):
        return
    call(program, rng)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call(program, rng)
            call(Program(program.inputs, program.steps[:-1], program.outputs[1:] or (0,)), rng)
            status = 0
        except Mismatch:
            status = 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        raise Mismatch(f"a forked process ends with status {status}")


def many_arguments(program: Program, rng) -> None:
    """Lists of thousands of arrays, as an optimiser has them."""
    count = int(rng.choice([300, 1400, 4095, 6000]))
    shape = ((), (3,), (2, 2))[int(rng.integers(3))]
    xs = [rng.normal(size=shape) for _ in range(count)]
    ys = [rng.normal(size=shape) for _ in range(count)]
    kinds = {
        "sum": (lambda xs, ys: [sum(xs)]),
        "each": (lambda xs, ys: [x + 1.0 for x in xs]),
        "pairs": (lambda xs, ys: [x - 0.1 * y for x, y in zip(xs, ys, strict=True)]),
    }
    name = list(kinds)[int(rng.integers(3))]
    expected = kinds[name](xs, ys)
    compare(f"{name} of {count} arrays {shape}", jit(kinds[name])(xs, ys), expected, [])


def out_of_memory(program: Program, rng) -> None:
    """Under a limit that is too low, a call raises MemoryError, and works again after that."""
    if not sys.platform.startswith("linux"):
        return
    size = int(rng.integers(1, 5)) * 1_000_000
    x = rng.normal(size=size)
    kinds = {
        "result": lambda x: np.sin(x) * 2,
        "temporary": lambda x: np.sort(np.sin(x))[::-1] - np.mean(x),
        "many": lambda x: [x + 1, x * 2, np.cumsum(x)],
        "gradient": grad(lambda x: np.sum(np.cumsum(np.tanh(x)) ** 2)),
    }
    name = list(kinds)[int(rng.integers(len(kinds)))]
    compiled = jit(kinds[name])
    config.threads = int(rng.integers(1, 5))
    expected = compiled(x)
    low, high = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + int(rng.integers(0, 24 * size)), high))
    try:
        found = compiled(x)
    except MemoryError:
        found = None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (low, high))
    for result in (found, compiled(x)):
        if result is not None:
            same_bits(f"{name} of {size} numbers with little memory", [expected], [result])


MODES = {
    "call": (call, 6),
    "gradient": (gradient, 5),
    "batched": (batched, 3),
    "batched gradient": (batched_gradient, 2),
    "forward": (forward, 1),
    "second order": (second_order, 1),
    "sparse": (sparse, 1),
    "batched twice": (batched_twice, 1),
    "donated": (donated, 2),
    "in a child": (in_a_child, 0.3),
    "many arguments": (many_arguments, 0.05),
    "out of memory": (out_of_memory, 0.2),
}
"""Each with how often it is drawn."""
