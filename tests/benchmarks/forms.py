"""Small programs beside JAX: equivalent ways to write a computation, which should cost the same.

``python -m tests.benchmarks.forms [NAME...]`` prints the microseconds of a call with each library
(medians, measured in turns), the speedup of ours, and its geometric mean.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from math import exp, log
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.one import functrans_library, jax_library
from tests.benchmarks.workloads import Library

Form = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function to compile, and its arguments."""

RNG = np.random.default_rng(0)
ROWS, COLUMNS = np.triu_indices(9)
ORDER = np.array([3, 1, 0, 7, 6, 2, 5, 4])


def _drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape)


VECTORS = _drawn(20000, 3), _drawn(20000, 3)
POSES = _drawn(20000, 3, 3), _drawn(20000, 3, 1)
CAMERAS, POINTS = _drawn(20000, 9), _drawn(20000, 3) + np.array([0.0, 0.0, 6.0])
ITEMS, TRIANGLES, WIDE = _drawn(20000, 8), _drawn(2000, 45), _drawn(1000, 1000)
DEEP, LONG, NINES = _drawn(64, 128, 96), _drawn(100000), _drawn(20000, 9)
LEFT, RIGHT = _drawn(2000, 64), _drawn(64, 48)
PLACES, WEIGHTS = RNG.integers(0, 1000, 200000), _drawn(200000)
MANY, FEW = RNG.integers(1, 1000, 10**6), RNG.integers(1, 100, 10**6)
WAVES = _drawn(500, 600) + 1j * _drawn(500, 600)
CHOICES = RNG.integers(0, 1000, (1000, 1000))
BYTES = RNG.integers(0, 256, (1000, 100)).astype(np.uint8)


def _triangle(xp: Any, v: Any) -> Any:
    whole, index = xp.zeros((v.shape[0], 9, 9)), (slice(None), ROWS, COLUMNS)
    if hasattr(whole, "at"):
        return whole.at[index].set(v)
    whole[index] = v
    return whole


def _residual(xp: Any) -> Callable[..., Any]:
    """What a camera sees of a point: turned, moved, divided, distorted."""

    def residual(camera: Any, point: Any) -> Any:
        angle2 = xp.sum(camera[:3] * camera[:3])
        angle = xp.sqrt(xp.where(angle2 > 0, angle2, 1.0))
        axis = camera[:3] / angle
        along = axis * (xp.sum(axis * point) * (1 - xp.cos(angle)))
        turned = point * xp.cos(angle) + xp.cross(axis, point) * xp.sin(angle) + along
        moved = xp.where(angle2 > 0, turned, point + xp.cross(camera[:3], point)) + camera[3:6]
        seen = -moved[:2] / moved[2]
        r2 = xp.sum(seen * seen)
        return camera[6] * (1 + camera[7] * r2 + camera[8] * r2 * r2) * seen

    return residual


def _blocks(lib: Library) -> Callable[..., Any]:
    def blocks(camera: Any, point: Any) -> Any:
        both = lib.np.concatenate([camera, point])
        jacobian = lib.jacfwd(lambda z: _residual(lib.np)(z[:9], z[9:]))(both)
        return jacobian[:, :9], jacobian[:, 9:]

    return lib.vmap(blocks)


def _softmax(xp: Any, x: Any, axis: int) -> Any:
    powers = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return powers / xp.sum(powers, axis=axis, keepdims=True)


def _counts(xp: Any, places: Any, weights: Any) -> Any:
    length = {"minlength" if xp is np else "length": 1000}
    return xp.bincount(places, weights=weights, **length)


def _joined(xp: Any, r: Any, t: Any) -> Any:
    return xp.concatenate([r, t], axis=2)


def forms(lib: Library) -> dict[str, Form]:
    """The forms, written once for both libraries."""
    xp = lib.np

    def pieces(r: Any, t: Any) -> Any:
        parts = _joined(xp, r, t), t * 2, xp.swapaxes(r, 1, 2)
        return xp.concatenate([part.reshape(-1) for part in parts])

    def stencil(u: Any) -> Any:
        return u[1:-1, 1:-1] + (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 8

    def chosen(x: Any) -> Any:
        return xp.where(x < -1, -x, xp.where(x < 0, x * x, xp.where(x < 1, 2 * x, x + 1)))

    def flat(r: Any, t: Any) -> Any:
        return _joined(xp, r, t).reshape(-1)

    turns = lib.grad(lambda x, y: xp.sum(xp.sin(xp.cross(x, y))))
    moves = lib.grad(lambda x: xp.sum(xp.sin(x[:, ORDER])))
    reads = lib.grad(lambda x, i: xp.sum(xp.sin(x[i])))
    return {
        "cross products": (xp.cross, VECTORS),
        "cross products, gradient": (turns, VECTORS),
        "permuted columns": (lambda x: x[:, ORDER] * 2.0, (ITEMS,)),
        "permuted columns, gradient": (moves, (ITEMS,)),
        "blocks of a bundle adjustment": (_blocks(lib), (CAMERAS, POINTS)),
        "triangles": (lambda v: _triangle(xp, v), (TRIANGLES,)),
        "joined blocks, flat": (flat, POSES),
        "joined blocks, flat, squared": (lambda r, t: flat(r, t) @ flat(r, t), POSES),
        "flat pieces": (pieces, POSES),
        "interleaved": (lambda x, y: xp.stack([x * y, x - y], axis=1).reshape(-1), VECTORS),
        "sum of a product's rows": (lambda x, q: xp.sum(x @ q, axis=0), (LEFT, RIGHT)),
        "outer products of nine": (lambda x: x[:, :, None] * x[:, None, :], (NINES,)),
        "softmax, first axis": (lambda x: _softmax(xp, x, 0), (WIDE,)),
        "softmax, last axis": (lambda x: _softmax(xp, x, 1), (WIDE,)),
        "softmax, middle axis": (lambda x: _softmax(xp, x, 1), (DEEP,)),
        "axes reversed": (lambda x: xp.transpose(x, (2, 1, 0)) * 2, (DEEP,)),
        "weighted counts": (lambda i, w: _counts(xp, i, w), (PLACES, WEIGHTS)),
        "stencil": (stencil, (WIDE,)),
        "chain of choices": (chosen, (WIDE,)),
        "gathered rows, gradient": (reads, (ITEMS, PLACES)),
        "quotients of integers": (lambda x, y: x // y, (MANY, FEW)),
        "order of elements": (xp.argsort, (LONG,)),
        "rows of bytes, sorted": (lambda x: xp.sort(x, axis=1), (BYTES,)),
        "counts of bits": (lambda x: xp.bitwise_count(x) + xp.bitwise_count(~x), (BYTES,)),
        "rows reversed, every other": (lambda x: x[::-1, ::-2] + 1, (WIDE,)),
        "a third, by every third": (lambda x: xp.sum(x[:, 2::3] * x[:, :-2:3], axis=1), (WIDE,)),
        "a right angle": (xp.rot90, (WIDE,)),
        "sums of complex rows": (lambda z: xp.sum(z, axis=1), (WAVES,)),
        "complex transpose": (lambda z: xp.conj(z.T), (WAVES,)),
        "along an axis": (lambda x, i: xp.take_along_axis(x, i, axis=1), (WIDE, CHOICES)),
    }


def compare(names: list[str], turns: int = 9) -> dict[str, tuple[float, float]]:
    """The seconds of a call of each form with our library and with JAX, in turns."""
    libraries = [functrans_library(), jax_library()]
    found = {}
    for name in names:
        calls = []
        for library, compiled, flat in libraries:
            function, args = forms(library)[name]
            call = compiled(function)
            calls.append((call, args, flat(call(*args))))
        for one, other in zip(calls[0][2], calls[1][2], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
        rounds = max(1, int(0.01 / _seconds(calls[0][0], calls[0][1], 1)))
        times = [[_seconds(call, args, rounds) for call, args, _ in calls] for _ in range(turns)]
        ours, theirs = map(median, zip(*times, strict=True))
        found[name] = ours, theirs
    return found


def _seconds(call: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> float:
    start = time.perf_counter()
    for _ in range(rounds):
        call(*args)
    return (time.perf_counter() - start) / rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of names; all by default")
    wanted = parser.parse_args().names
    known = list(forms(functrans_library()[0]))
    names = [name for name in known if not wanted or any(word in name for word in wanted)]
    logarithms = []
    for name in names:
        ((ours, theirs),) = compare([name]).values()
        logarithms.append(log(theirs / ours))
        print(f"{name:32} {1e6 * ours:10.1f} us {1e6 * theirs:10.1f} us {theirs / ours:7.2f}")
    print(f"{'geometric mean':32} {exp(sum(logarithms) / len(names)):34.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
