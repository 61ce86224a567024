"""Programs at odd sizes, and the transforms that are applied to each, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans import checkpoint, grad, jvp, tree, vmap
from functrans.errors import CarryError
from tests.benchmarks.layers import (
    attention,
    basic_block,
    causal_attention,
    feed_forward,
    fused_product,
    product,
)
from tests.benchmarks.models import bundle_blocks, gaussian_process, triangular_mixture
from tests.benchmarks.one import functrans_library
from tests.benchmarks.surface import SURFACE
from tests.benchmarks.workloads import WORKLOADS, Job, Library
from tests.fuzz.checks import Mismatch, _loss, _nudged, compare, nearby
from tests.gpu_hour.cases import Cannot

Made = Callable[[Library], Job]

SIZED: dict[str, tuple[Made, Made]] = {
    "causal attention": (causal_attention(3, 517, 33), causal_attention(1, 17, 5)),
    "feed-forward block": (feed_forward(101, 127, 509), feed_forward(3, 5, 7)),
    "product float32": (product((255, 783, 511), np.float32), product((9, 17, 11), np.float32)),
    "product float64": (product((1021, 65, 130), np.float64), product((9, 17, 11), np.float64)),
    "product float16": (product((257, 301, 130), np.float16), product((9, 17, 11), np.float16)),
    "product, bias, gelu, residual": (fused_product(331), fused_product(5)),
    "attention": (attention(5, 259, 65), attention(1, 17, 5)),
    "ResNet block": (basic_block(3, 7, 29), basic_block(1, 2, 3)),
    "triangular mixture": (triangular_mixture(1001, 17, 11), triangular_mixture(3, 2, 2)),
    "marginal likelihood": (gaussian_process(201), gaussian_process(5)),
    "bundle adjustment": (bundle_blocks(1001), bundle_blocks(3)),
}
"""Programs with their sizes: for a GPU, and for a stand-in."""

CUT: dict[str, dict[int, int]] = {
    "per-sample gradients": {1: 1793, 2: 1793},
    "logistic Hessian": {1: 1789, 2: 1789},
    "Rosenbrock HVP": {0: 99_991, 1: 99_991},
    "arm Jacobians": {0: 9973},
    "option Greeks": dict.fromkeys(range(5), 99_991),
    "eigenvalues of many": {0: 331},
    "normal mixture": {1: 9973},
}
"""Arguments of the benchmarks' workloads, by position, and to how many rows they are cut."""

ORDER = (
    "train step", "transformer block", "LSTM gradient", *SIZED,
    *(name for name in (*WORKLOADS, *SURFACE)
      if name not in {"train step", "transformer block", "LSTM gradient"}),
)  # fmt: skip
"""All of them: those that use most of the compiler first."""


class Program(NamedTuple):
    """A function of arrays, whose result is a list of arrays, with arguments."""

    function: Callable[..., list[Any]]
    inputs: list[np.ndarray[Any, Any]]

    @property
    def moving(self) -> tuple[int, ...]:
        """The inputs that it is differentiated by."""
        return tuple(i for i, x in enumerate(self.inputs) if x.dtype.kind == "f")

    @property
    def precision(self) -> Any:
        """The shortest dtype of its floats."""
        kinds = [np.finfo(x.dtype).dtype for x in self.inputs if x.dtype.kind in "fc"]
        return min(kinds, key=lambda one: one.itemsize, default=np.dtype(np.float64))


def made(name: str, small: bool = False) -> Program:
    """A program by its name."""
    library = functrans_library()[0]
    if name in SIZED:
        job = SIZED[name][small](library)
    else:
        job = (WORKLOADS | SURFACE)[name][0](library)
    cut = CUT.get(name, {})
    arguments = tuple(x[: cut[i]] if i in cut else x for i, x in enumerate(job.arguments))
    return flat(job.primal or job.function, arguments)


def flat(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Program:
    """A function of pytrees as one of arrays."""
    leaves, structure = tree.flatten(arguments)

    def run(*arrays: Any) -> list[Any]:
        return tree.leaves(function(*tree.unflatten(structure, arrays)))

    return Program(run, [np.asarray(x) for x in leaves])


# ---- transforms ----------------------------------------------------------------------------------


def value(one: Program, rng: Any) -> Program:
    return one


def loss_of(one: Program, rng: Any) -> Callable[..., Any]:
    """A number made of all results, with weights."""
    with np.errstate(all="ignore"):
        shapes = [np.asarray(x) for x in one.function(*one.inputs)]
    return _loss(one.function, shapes, [rng.normal(size=x.shape) for x in shapes])


def gradient(one: Program, rng: Any) -> Program:
    return one._replace(function=as_list(grad(loss_of(one, rng), argnums=one.moving)))


def recomputed(one: Program, rng: Any) -> Program:
    loss = checkpoint(loss_of(one, rng))
    return one._replace(function=as_list(grad(loss, argnums=one.moving)))


def tangent(one: Program, rng: Any) -> Program:
    return pushed(one, one.function, rng)


def second_order(one: Program, rng: Any) -> Program:
    return pushed(one, as_list(grad(loss_of(one, rng), argnums=one.moving)), rng)


def pushed(one: Program, function: Callable[..., Any], rng: Any) -> Program:
    """The tangents of a function of the program's inputs."""
    moving, count = one.moving, len(one.inputs)

    def tangents(*both: Any) -> list[Any]:
        inputs, directions = both[:count], both[count:]

        def along(*moved: Any) -> list[Any]:
            of = dict(zip(moving, moved, strict=True))
            return function(*(of.get(i, x) for i, x in enumerate(inputs)))

        return list(jvp(along, tuple(inputs[i] for i in moving), tuple(directions))[1])

    drawn = [rng.normal(size=one.inputs[i].shape).astype(one.inputs[i].dtype) for i in moving]
    return Program(tangents, [*one.inputs, *drawn])


def batch(one: Program, rng: Any) -> Program:
    return batched(one, one.function)


def gradients_of_a_batch(one: Program, rng: Any) -> Program:
    return batched(one, as_list(grad(loss_of(one, rng), argnums=one.moving)))


def batched(one: Program, function: Callable[..., Any]) -> Program:
    """Three of each float input, slightly different; all share the others."""
    axes = tuple(0 if x.dtype.kind in "fc" else None for x in one.inputs)
    if not any(axis == 0 for axis in axes):
        raise Cannot("none of its arguments has floats")
    inputs = [
        x if axis is None else np.stack([x, x * x.dtype.type(0.75), x * x.dtype.type(1.25)])
        for x, axis in zip(one.inputs, axes, strict=True)
    ]
    return Program(as_list(vmap(function, in_axes=axes)), inputs)


def as_list(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    return lambda *arrays: list(function(*arrays))


TRANSFORMS: dict[str, Callable[[Program, Any], Program]] = {
    "value": value,
    "gradient": gradient,
    "tangent": tangent,
    "batch": batch,
    "gradients of a batch": gradients_of_a_batch,
    "second order": second_order,
    "recomputed gradient": recomputed,
}


def check(one: Program, found: Any, rng: Any) -> None:
    """See that results are those of NumPy, as far as these are certain.

    How far they are is said by what becomes of inputs that are off in their last places, and of
    arithmetic in float64.
    """

    def by_numpy(*inputs: Any) -> list[Any]:
        return [np.asarray(x) for x in one.function(*inputs)]

    with np.errstate(all="ignore"):
        expected = by_numpy(*one.inputs)
        try:
            around = nearby(by_numpy, one.inputs, rng, one.precision)
        except CarryError:  # the types of a loop are float32, whatever it is given
            around = [by_numpy(*_nudged(one.inputs, rng, one.precision)) for _ in range(2)]
    try:
        compare("the program", [np.asarray(x) for x in found], expected, around, one.precision)
    except Mismatch as error:
        raise AssertionError(str(error)) from None
