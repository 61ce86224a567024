"""Fourier transforms by cuFFT: along the middle axis of C-contiguous arrays, not scaled.

``?fft(direction, outer, points, inner, x, y)`` transforms the complex array ``x`` of the shape
``(outer, points, inner)`` to ``y`` of that shape, in the direction ``F``, which is that of
``exp(-2i pi j k / n)``, or ``I``; both arrays may be the same memory. ``?rfft(outer, points, inner,
x, y)`` computes the first ``points // 2 + 1`` results from real numbers; ``?irfft(outer, points,
inner, x, y)`` computes ``points`` real numbers from ``points // 2 + 1`` complex ones. No result is
divided by ``n``: the division is fused with the next operation. The letters are those of LAPACK:
``c`` and ``z`` for complex numbers, ``s`` and ``d`` for real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.records import NamedTuple
from functrans.run.cuda.libraries.bindings import first_call
from functrans.run.cuda.libraries.handles import Handles, Owned, Work
from functrans.run.cuda.libraries.moves import WORD, clear_words, copy

FORWARD, INVERSE = -1, 1
"""The directions, for which cuFFT has no enumeration."""


class Lines(NamedTuple):
    """The key of a plan: lengths of lines, and their distance ``step`` in memory."""

    type: str  # ``C2C`` and the like
    points: int  # the length of the transform
    given: int  # the length of a line before the transform
    made: int  # the length of a line after it
    step: int  # the distance of neighbours on a line
    # whether the next line begins at the next number, and not after the end of this one
    along: bool
    batch: int  # the number of lines


class Run(NamedTuple):
    """A kind of transform: its type, the function that executes it, and its direction if any."""

    type: str
    execute: str
    direction: tuple[int, ...] = ()


_COMPLEX = {"c": Run("C2C", "exec_c2c"), "z": Run("Z2Z", "exec_z2z")}
_FROM_REAL = {"s": Run("R2C", "exec_r2c"), "d": Run("D2Z", "exec_d2z")}
_TO_REAL = {"s": Run("C2R", "exec_c2r"), "d": Run("Z2D", "exec_z2d")}
"""The kinds, by the letter of the routine's dtype."""


class Transform(NamedTuple):
    """A plan of cuFFT, and the size in bytes of its workspace."""

    plan: Owned
    workspace: int


class Side(NamedTuple):
    """An operand or a result: the numbers on a line, and the bytes of each."""

    address: int
    line: int
    size: int


def fft(on: Work, arguments: Sequence[Any]) -> None:
    """The transform of complex numbers to complex numbers."""
    direction, outer, points, inner, x, y = arguments
    run = _COMPLEX[on.numbers.letter]._replace(
        direction=(FORWARD if direction == b"F" else INVERSE,)
    )
    before, after = Side(x, points, on.size), Side(y, points, on.size)
    _transform(on, run, (outer, points, inner), before, after)


def rfft(on: Work, arguments: Sequence[Any]) -> None:
    """The transform of real numbers to the first half of the complex ones."""
    outer, points, inner, x, y = arguments
    before, after = Side(x, points, on.size), Side(y, points // 2 + 1, 2 * on.size)
    _transform(on, _FROM_REAL[on.numbers.letter], (outer, points, inner), before, after)


def irfft(on: Work, arguments: Sequence[Any]) -> None:
    """The inverse transform of complex numbers to real numbers.

    cuFFT overwrites its operand, which is therefore a copy. Its documentation does not say how it
    treats the imaginary parts of numbers that have no conjugate among the others; NumPy takes 0.
    """
    outer, points, inner, x, y = arguments
    if outer * inner == 0:
        return
    size, half = on.size, points // 2 + 1
    count = 2 * outer * half * inner
    copied = on.room(count)
    copy(on, count, 1, x, count, copied, count)
    for alone in {0, points // 2} if points % 2 == 0 else {0}:
        _make_real(on.handles, copied, (outer, half, inner), alone, size)
    before, after = Side(copied, half, 2 * size), Side(y, points, size)
    _transform(on, _TO_REAL[on.numbers.letter], (outer, points, inner), before, after)


def _make_real(
    handles: Handles, x: int, shape: tuple[int, int, int], position: int, size: int
) -> None:
    """Clear the imaginary parts at one position along the middle axis."""
    outer, points, inner = shape
    first = x + position * inner * 2 * size + size
    row = points * inner * 2 * size
    if outer <= inner:
        for number in range(outer):
            clear_words(handles, first + number * row, 2 * size, size // WORD, inner)
    else:
        for number in range(inner):
            clear_words(handles, first + number * 2 * size, row, size // WORD, outer)


def _transform(on: Work, run: Run, shape: tuple[int, int, int], before: Side, after: Side) -> None:
    """One call of cuFFT if the lines are evenly spaced, else one for each index of an axis.

    cuFFT also requires that real numbers are aligned like complex ones. Lines that are not are
    transformed in copies that are shifted by one number.
    """
    outer, points, inner = shape
    if outer * inner == 0:
        return
    along = inner > 1 and outer <= inner
    count, calls = (inner, outer) if along else (outer, inner)
    lines = Lines(run.type, points, before.line, after.line, inner, along, count)
    transform = _plan(on.handles, lines)
    on.handles.uses(transform)
    plan, library = transform.plan.handle, on.handles.libraries.cufft
    if transform.workspace:
        library.set_work_area(plan, on.workspace(transform.workspace))
    execute = getattr(library, run.execute)
    unit = max(before.size, after.size)
    source, target = before.address, after.address
    shifted_source = shifted_target = 0
    for number in range(calls):
        read, write = (
            number * side.size * (side.line * inner if along else 1) for side in (before, after)
        )
        if (source + read) % unit and not shifted_source:
            total = outer * before.line * inner
            shifted_source = _shifted(on, before, total, unit)
            copy(on, total, 1, source, total, shifted_source, total)
        misplaced = (target + write) % unit
        if misplaced and not shifted_target:
            shifted_target = _shifted(on, after, outer * after.line * inner, unit)
        given = (shifted_source if (source + read) % unit else source) + read
        made = (shifted_target if misplaced else target) + write
        execute(plan, given, made, *run.direction)
        if misplaced:
            # the lines of this call, without others between them
            size = (inner * after.line, 1, 1) if along else (1, outer * after.line, inner)
            rows, columns, leading = size
            copy(on, rows, columns, made, leading, target + write, leading)


def _shifted(on: Work, side: Side, total: int, unit: int) -> int:
    """Memory for a copy of an array with the other alignment: shifted by one number, or not."""
    return on.workspace(total * side.size + unit) + side.size - side.address % unit


def _plan(handles: Handles, lines: Lines) -> Transform:
    found: Transform | None = handles.transforms.get(lines)
    if found is not None:
        return found
    library = handles.libraries.cufft
    made = first_call("cuFFT", library.create)
    plan = handles.owned(made, library.destroy)
    # cuFFT works in our memory, which comes from the pool
    library.set_auto_allocation(made, 0)
    given, after = (1, 1) if lines.along else (lines.given * lines.step, lines.made * lines.step)
    size = library.make_plan_many64(
        made, 1, [lines.points], [lines.given], lines.step, given, [lines.made], lines.step, after,
        library.Type[lines.type], lines.batch,
    )  # fmt: skip
    library.set_stream(made, handles.stream)
    found = Transform(plan, int(size))
    handles.transforms.remember(lines, found)
    return found
