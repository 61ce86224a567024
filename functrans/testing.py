"""Checks for users: of derivatives, and of primitives defined by `functrans.extend`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrans.api.arguments import argument_name, as_array, aval_of_leaf, name_of
from functrans.api.compile import jit
from functrans.api.derivatives import jvp, vjp
from functrans.api.mapping import vmap
from functrans.errors import GradientCheckError, GraphTypeError
from functrans.ir.primitive import NotDifferentiable, Primitive, Sample, bind
from functrans.ir.types import aval_of, complex_dtype, describe, is_complex, is_inexact
from functrans.tracebacks import boundary
from functrans.tree import core as tree

__all__ = ["check_grads", "check_primitive"]

Flat = Callable[[list[Any]], list[Any]]
"""A function from a list of arrays to a list of arrays."""


@boundary
def check_grads(
    function: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    atol: float = 1e-6,
    rtol: float = 1e-5,
    step: float = 1e-5,
    max_elements: int = 50,
    seed: int = 0,
) -> None:
    """Compare derivatives with central finite differences in float64.

    Parameters
    ----------
    function : callable
        Takes and returns floats, complex numbers, arrays or pytrees of them, and works in float64
        (complex128). Results that are integers or truth values are left out.
    args : sequence
        Where to check; floats are converted to float64 and complex numbers, whose real and
        imaginary parts are moved in turn, to complex128. Everything else is held fixed.
    order : int, optional
        The highest derivative to check.
    modes : sequence of {"fwd", "rev"}, optional
        Forward mode (`jvp`), reverse mode (`vjp`).
    atol, rtol : float, optional
        The tolerance is ``atol + rtol * abs(d)`` for a finite difference ``d``, and ten times as
        large for each further order.
    step : float, optional
        The step of the differences, relative to ``max(1, abs(x))``.
    max_elements : int, optional
        How many elements of each argument are checked; a random choice if there are more.
    seed : int, optional
        The seed of the random choice, and of the directions in which higher orders are checked.

    Raises
    ------
    GradientCheckError
        At the first disagreement; it names the mode, order, argument, index and both numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.testing import check_grads
    >>> check_grads(lambda x: np.sum(np.sin(x) * x), (np.array([0.5, 2.0]),))
    """
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ValueError(f"modes are 'fwd' and 'rev', found {mode!r}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"check_grads takes the arguments of {name_of(function)} as a tuple, not "
            f"{describe(args)}: write (x,) for one"
        )
    rng = np.random.default_rng(seed)
    leaves, structure = tree.flatten(tuple(args))
    names = [
        argument_name(function, i) + path for i, arg in enumerate(args) for path in tree.paths(arg)
    ]
    moving = [i for i, x in enumerate(leaves) if is_inexact(np.asarray(x).dtype)]
    if not moving:
        raise ValueError(f"no argument of {name_of(function)} is a float or complex")

    def flat(values: list[Any]) -> list[Any]:
        full = list(leaves)
        for i, x in zip(moving, values, strict=True):
            full[i] = x
        results = tree.leaves(function(*structure.unflatten(full)))
        return [x for x in results if is_inexact(aval_of_leaf(x).dtype)]

    point = [_widened(np.asarray(as_array(leaves[i], names.__getitem__, i))) for i in moving]
    check = _Check([names[i] for i in moving], atol, rtol, step, max_elements, rng)
    for mode in modes:
        check.run(flat, point, order, (mode,))


def _widened(x: np.ndarray[Any, Any]) -> Any:
    """The array in float64 or complex128."""
    return x.astype(np.complex128 if is_complex(x.dtype) else np.float64)


class _Check:
    def __init__(
        self,
        names: list[str],
        atol: float,
        rtol: float,
        step: float,
        max_elements: int,
        rng: np.random.Generator,
    ) -> None:
        self.names = names
        self.atol = atol
        self.rtol = rtol
        self.step = step
        self.max_elements = max_elements
        self.rng = rng

    def run(self, function: Flat, point: list[Any], order: int, modes: tuple[str, ...]) -> None:
        """Check the first derivative, then that of the derivative in a random direction."""
        mode = modes[-1]
        if order < 1:
            return
        if mode == "fwd":
            self.forward(function, point, modes)
            direction = self._directions(point)

            def derivative(values: list[Any]) -> list[Any]:
                return list(jvp(lambda *xs: function(list(xs)), tuple(values), direction)[1])
        else:
            weights = self._directions(function(point))
            self.reverse(function, point, weights, modes)

            def derivative(values: list[Any]) -> list[Any]:
                _, pullback = vjp(lambda *xs: function(list(xs)), *values)
                return list(pullback(list(weights)))

        self.run(derivative, point, order - 1, (*modes, mode))

    def forward(self, function: Flat, point: list[Any], modes: tuple[str, ...]) -> None:
        for i, index, direction, difference in self._differences(function, point):
            tangents = [np.zeros_like(x) for x in point]
            tangents[i][index] = direction
            _, dots = jvp(lambda *xs: function(list(xs)), tuple(point), tuple(tangents))
            for dot, expected in zip(dots, difference, strict=True):
                self._compare(np.asarray(dot), expected, i, index, modes)

    def reverse(
        self, function: Flat, point: list[Any], weights: Sequence[Any], modes: tuple[str, ...]
    ) -> None:
        _, pullback = vjp(lambda *xs: function(list(xs)), *point)
        cotangents = pullback(list(weights))
        for i, index, direction, difference in self._differences(function, point):
            expected = sum(np.sum(w * d).real for w, d in zip(weights, difference, strict=True))
            found = np.asarray(cotangents[i])[index] * direction
            self._compare(found.real, np.asarray(expected), i, index, modes)

    def _directions(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(map(self._direction, values))

    def _direction(self, x: Any) -> Any:
        drawn = np.asarray(self.rng.normal(size=np.shape(x)))
        if is_complex(aval_of_leaf(x).dtype):
            return drawn + 1j * self.rng.normal(size=np.shape(x))
        return drawn

    def _differences(
        self, function: Flat, point: list[Any]
    ) -> Iterator[tuple[int, tuple[int, ...], complex, list[Any]]]:
        """For elements of the arguments, the derivatives of all results, by central differences.

        The directions are 1, and for complex numbers also 1j.
        """
        for i, x in enumerate(point):
            elements = np.arange(x.size)
            if x.size > self.max_elements:
                elements = self.rng.choice(elements, self.max_elements, replace=False)
            for element in elements:
                index = tuple(int(k) for k in np.unravel_index(element, x.shape))
                h = self.step * max(1.0, abs(x[index]))
                for direction in (1.0, 1j) if is_complex(x.dtype) else (1.0,):
                    up, down = x.copy(), x.copy()
                    up[index] += h * direction
                    down[index] -= h * direction
                    distance = float(abs(up[index] - down[index]))
                    above = function([*point[:i], up, *point[i + 1 :]])
                    below = function([*point[:i], down, *point[i + 1 :]])
                    differences = [
                        (np.asarray(a) - np.asarray(b)) / distance
                        for a, b in zip(above, below, strict=True)
                    ]
                    yield i, index, direction, differences

    def _compare(
        self, found: Any, expected: Any, i: int, index: tuple[int, ...], modes: tuple[str, ...]
    ) -> None:
        slack = 10.0 ** (len(modes) - 1)
        close = np.isclose(found, expected, rtol=slack * self.rtol, atol=slack * self.atol)
        if np.all(close):
            return
        worst = tuple(int(k) for k in np.argwhere(~close)[0]) if np.ndim(close) else ()
        place = f" at index {index}" if index else ""
        result = f", element {worst} of the result" if worst else ""
        kind = {"fwd": "forward", "rev": "reverse"}[modes[-1]]
        raise GradientCheckError(
            f"{kind} mode, order {len(modes)}: the derivative with respect to "
            f"{self.names[i]}{place}{result} is {found[worst].item()!r}, but "
            f"finite differences give {expected[worst].item()!r}"
        )


def check_primitive(primitive: Primitive, *, order: int = 2, seed: int = 0) -> None:
    """Check every part of a primitive's definition against its NumPy evaluation, on its samples.

    It checks the type rule, `vmap` over every choice of axes, derivatives in both modes against
    finite differences, and compiled code in float64 and float32.

    Parameters
    ----------
    primitive : Primitive
        The result of `functrans.extend.elementwise` or `functrans.extend.primitive`.
    order : int, optional
        The highest derivative to check.
    seed : int, optional
        The seed of random numbers.

    Raises
    ------
    GraphTypeError
        If the type rule disagrees with NumPy's result.
    GradientCheckError
        If a derivative disagrees with finite differences of NumPy's results.
    AssertionError
        If `vmap` or compiled code disagrees with NumPy, or if there are no samples.

    Examples
    --------
    >>> from functrans.extend import registry
    >>> from functrans.testing import check_primitive
    >>> check_primitive(registry["tanh"])
    """
    assert primitive.samples is not None, f"the primitive {primitive.name} has no samples"
    rngs = [np.random.default_rng([seed, i]) for i in range(2)]
    for pair in zip(*map(primitive.samples, rngs), strict=True):
        for dtype in (np.float64, np.float32):
            sample, another = (_converted(each, dtype) for each in pair)
            _check_result(primitive, sample)
            if dtype is np.float64:
                _check_vmap(primitive, sample, another)
                floats = any(is_inexact(x.dtype) for x in sample.operands)
                if floats and not isinstance(primitive.jvp, NotDifferentiable):
                    check_grads(_applied(primitive, sample), sample.operands, order, seed=seed)


def _converted(sample: Sample, dtype: type) -> Sample:
    """A sample with its floats in another dtype."""
    operands = (np.asarray(x) for x in sample.operands)
    return sample._replace(
        operands=tuple(_in_precision(x, dtype) if is_inexact(x.dtype) else x for x in operands)
    )


def _in_precision(x: np.ndarray[Any, Any], dtype: type) -> Any:
    return x.astype(complex_dtype(np.dtype(dtype)) if is_complex(x.dtype) else dtype)


def _applied(primitive: Primitive, sample: Sample) -> Callable[..., Any]:
    def apply(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return bind(primitive, operands, sample.params)

    apply.__name__ = primitive.name
    return apply


def _check_result(primitive: Primitive, sample: Sample) -> None:
    apply = _applied(primitive, sample)
    expected = tree.leaves(apply(*sample.operands))
    avals = [aval_of(x) for x in sample.operands]
    inferred = list(primitive.infer_all(avals, sample.params))
    if inferred != [aval_of(x) for x in expected]:
        fix = f": define it with result={expected[0].dtype.name!r}" if primitive.elementwise else ""
        raise GraphTypeError(
            f"the type rule of {primitive.name} gives {inferred} for {avals}, but NumPy gives "
            f"{[aval_of(x) for x in expected]}{fix}"
        )
    compiled = tree.leaves(jit(apply)(*sample.operands))
    for found, value in zip(compiled, expected, strict=True):
        tolerance = 50 * np.finfo(value.dtype).eps if is_inexact(value.dtype) else 0
        np.testing.assert_allclose(
            found, value, rtol=tolerance, atol=tolerance, err_msg=f"{primitive.name}, compiled"
        )


def _check_vmap(primitive: Primitive, sample: Sample, another: Sample) -> None:
    apply = _applied(primitive, sample)
    pairs = list(zip(sample.operands, another.operands, strict=True))
    choices = [[None, *range(x.ndim + 1)] for x in sample.operands]
    for axes in itertools.product(*choices):
        if all(axis is None for axis in axes):
            continue
        rows = [
            tree.leaves(
                apply(*(p[0 if a is None else i] for p, a in zip(pairs, axes, strict=True)))
            )
            for i in range(2)
        ]
        stacked = [
            p[0] if axis is None else np.stack(p, axis) for p, axis in zip(pairs, axes, strict=True)
        ]
        found = tree.leaves(vmap(apply, in_axes=axes)(*stacked))
        for result, *values in zip(found, *rows, strict=True):
            np.testing.assert_allclose(
                result,
                np.stack(values),
                rtol=1e-13,
                err_msg=f"{primitive.name}, vmap(in_axes={axes})",
            )


def __dir__() -> list[str]:
    return sorted(__all__)
