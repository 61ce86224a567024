"""A program of machine code, as a Python function of arrays.

What it consists of, without addresses, is its `Listing`, which can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrans import config
from functrans.ir.types import Aval, Shape
from functrans.loop.failures import FAILURES
from functrans.run import blas, entry, memory, threads
from functrans.run.native import Code

GIL_THRESHOLD = 20_000
"""Scalar operations of a program that are worth letting other Python threads run meanwhile."""


class StepListing(NamedTuple):
    """A call of a kernel.

    Parameters
    ----------
    key : str
        The key of its code (`functrans.run.cache`).
    symbol : str
        The name of the function in it.
    imports : tuple of str
        The routines of BLAS that it calls.
    extent : int
        The range of its parallel loop.
    lanes : int
        How many iterations this loop does at once; 0 if there is no such loop.
    work : int
        Roughly the number of scalar operations.
    buffers : tuple of int
        Which arrays it is called with: the inputs, then the outputs, then the temporaries.
    sizes : tuple of int
    """

    key: str
    symbol: str
    imports: tuple[str, ...]
    extent: int
    lanes: int
    work: int
    buffers: tuple[int, ...]
    sizes: tuple[int, ...]

    def addresses(self) -> dict[str, int]:
        """Where the routines that it calls are."""
        return {name: blas.address(name) for name in self.imports}

    @property
    def grain(self) -> int:
        """What the parts of its loop that threads get are multiples of: whole vectors.

        0 if the loop is not shared.
        """
        if self.work < config.parallel_threshold or self.extent < 2 * self.lanes:
            return 0
        return self.lanes


class Listing(NamedTuple):
    """A program: its steps, and its memory.

    Parameters
    ----------
    steps : tuple of StepListing
    offsets : tuple of int
        Where in the arena its temporaries are.
    arena : int
        The size of the arena.
    overwritten : tuple of (int, int)
        Inputs that are given up, and the outputs that live there.
    """

    steps: tuple[StepListing, ...]
    offsets: tuple[int, ...]
    arena: int
    overwritten: tuple[tuple[int, int], ...] = ()


class NativeProgram:
    """A program that has been loaded.

    Parameters
    ----------
    listing : Listing
    codes : sequence of Code
        One for each step.
    in_avals, out_avals : sequence of Aval
    """

    def __init__(
        self,
        listing: Listing,
        codes: Sequence[Code],
        in_avals: Sequence[Aval],
        out_avals: Sequence[Aval],
    ) -> None:
        self.listing = listing
        self.codes = codes
        self._in_avals = in_avals
        self._outputs = [(aval.shape, aval.dtype) for aval in out_avals]
        self._scalars = any(not shape for shape, _ in self._outputs)
        self._large = any(memory.is_large(*kind) for kind in self._outputs)
        self._entry = entry.function(self._table())

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self._run(arrays, self._fresh(self._outputs))

    def _fresh(self, kinds: Sequence[tuple[Shape, np.dtype[Any]]]) -> list[Any]:
        """New arrays of some shapes and dtypes."""
        if self._large:
            return memory.results(kinds)
        return [np.empty(shape, dtype) for shape, dtype in kinds]

    def _run(self, arrays: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        """Fill the arrays for the results."""
        status = self._entry(*arrays, *results)
        if status:
            if status < 0:
                status = self._entry(*self._converted(arrays), *results)
            if status:
                raise FAILURES[status].error()
        if self._scalars:
            return tuple([x if x.ndim else x[()] for x in results])
        return tuple(results)

    def _converted(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The inputs as C-contiguous arrays of exactly the types of the graph."""
        if len(arrays) != len(self._in_avals):
            raise TypeError(f"{len(arrays)} inputs: this program takes {len(self._in_avals)}")
        return [self._converted_one(number, value) for number, value in enumerate(arrays)]

    def _converted_one(self, number: int, value: Any) -> np.ndarray[Any, Any]:
        aval = self._in_avals[number]
        # the one object that arrays of a built-in dtype refer to, without metadata
        dtype = np.dtype(aval.dtype.type)
        given = np.asarray(value, dtype if isinstance(value, int) else None)
        if given.shape != aval.shape or not np.can_cast(given.dtype, dtype, "same_kind"):
            raise TypeError(
                f"input {number} is {given.dtype} of shape {given.shape}: this program is "
                f"compiled for {dtype} of shape {aval.shape}"
            )
        array = np.asarray(given, dtype, order="C").view(dtype)
        return array if array.flags.aligned else array.copy()

    def _table(self) -> np.ndarray[Any, Any]:
        """The program as `functrans.run.entry` reads it."""
        steps, offsets, arena, _ = self.listing
        words = [
            id(np.ndarray),
            len(self._in_avals),
            len(self._in_avals) + len(self._outputs),
            arena,
            0,
            len(offsets),
            len(steps),
            int(sum(step.work for step in steps) > GIL_THRESHOLD),
            threads.record() if any(step.grain for step in steps) else 0,
            blas.limiter() if any(step.imports for step in steps) else 0,
        ]
        for aval in self._in_avals:
            words += entry.input_record(aval.shape, aval.dtype)
        words += offsets
        for step, code in zip(steps, self.codes, strict=True):
            words += [code.address, step.extent, step.grain]
            words += [len(step.buffers), *step.buffers]
            words += [len(step.sizes), *step.sizes]
        return np.array(words, np.int64)


class OverwritingProgram(NativeProgram):
    """A program that writes results into inputs which the caller gives up.

    It is another class so that other programs are called as fast as before.
    """

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        given: list[Any] = list(arrays)
        results: list[Any] = [None] * len(self._outputs)
        # what owns its memory and is in no other place can only be shared by views
        places = list(map(id, arrays))
        views = [x for x in arrays if isinstance(x, np.ndarray) and x.base is not None]
        for number, output in self.listing.overwritten:
            x = given[number]
            alone = _is_whole(x) and places.count(id(x)) == 1
            if (
                not alone
                or not self._fits(number, x)
                or any(np.may_share_memory(x, view) for view in views)
            ):
                x = given[number] = self._converted_one(number, x).copy()
            results[output] = x
        missing = [output for output, x in enumerate(results) if x is None]
        fresh = self._fresh([self._outputs[output] for output in missing])
        for output, x in zip(missing, fresh, strict=True):
            results[output] = x
        return self._run(given, results)

    def _fits(self, number: int, x: np.ndarray[Any, Any]) -> bool:
        aval = self._in_avals[number]
        return x.shape == aval.shape and bool(x.dtype == aval.dtype)


def _is_whole(x: Any) -> bool:
    """Whether an array may be written to, lies in memory as results do, and owns this memory."""
    if type(x) is not np.ndarray:
        return False
    flags = x.flags
    return bool(flags.carray and flags.owndata)


def native_program(
    listing: Listing,
    codes: Sequence[Code],
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval],
) -> NativeProgram:
    """The program of a listing, with the call that it needs."""
    kind = OverwritingProgram if listing.overwritten else NativeProgram
    return kind(listing, codes, in_avals, out_avals)
