"""Compiled programs as Python functions of arrays.

A program without addresses is a `Listing`, which can be stored on disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functrans import config
from functrans.ir.graph import Graph
from functrans.ir.types import Aval
from functrans.loop.failures import FAILURES, OUT_OF_MEMORY
from functrans.records import NamedTuple
from functrans.run import blas
from functrans.run.call import entry, memory, steps, timeline
from functrans.run.code import routines
from functrans.run.code.loading import Code
from functrans.run.threads import workers as threads

GIL_THRESHOLD = 100_000
"""A program of more work than this, that of about a microsecond, releases the GIL."""


LONGEST_WORK = 1 << 26
"""The work of about a millisecond."""


class StepListing(NamedTuple):
    """A call of a kernel."""

    key: str  # the key of its code (`functrans.run.code.cache`)
    symbol: str  # the name of the function in it
    imports: tuple[str, ...]  # the routines that it calls: of BLAS and LAPACK, and messages
    extent: int  # the range of its parallel loop
    lanes: int  # the iterations that this loop executes at once; 0 if there is no such loop
    work: int  # its operations and the bytes that it moves, roughly
    # the arrays that it is called with: inputs are numbered first, then outputs, temporaries, views
    buffers: tuple[int, ...]
    sizes: tuple[int, ...]
    # the program's loops around it: their numbers, and their numbers of iterations
    turns: tuple[tuple[int, int], ...] = ()
    # the array that holds the condition of the innermost loop, tested after the step; -1: none
    going: int = -1

    def addresses(self) -> dict[str, int]:
        """The addresses of the routines that it calls."""
        return {name: routines.address(name) for name in self.imports}

    @property
    def all_work(self) -> int:
        """The operations of all its executions."""
        return self.work * prod(turns for _, turns in self.turns)

    @property
    def grain(self) -> int:
        """The granularity of threads' shares of a loop, in whole vectors; 0 if it is not shared."""
        if self.work < config.parallel_threshold or self.extent < 2 * self.lanes:
            return 0
        return self.lanes

    @property
    def longest(self) -> int:
        """The iterations of its parallel loop between two checks for signals."""
        if not self.lanes or self.work <= LONGEST_WORK:
            return self.extent
        unit = max(self.lanes, 64)
        return max(1, self.extent * LONGEST_WORK // self.work // unit) * unit


class Listing(NamedTuple):
    """A program without addresses: its steps, and its memory layout."""

    steps: tuple[StepListing, ...]
    offsets: tuple[int, ...]  # the offsets of its temporaries in the arena
    arena: int  # the size of the arena
    # pairs of a donated input and the output that overwrites it
    overwritten: tuple[tuple[int, int], ...] = ()
    # the parts of inputs that steps read: the input's number, and the part's offset in it in bytes
    views: tuple[tuple[int, int], ...] = ()


class ArrayProgram:
    """A program as a function from arrays to a tuple of new arrays."""

    _entry: Callable[..., int]
    """Takes the inputs and the arrays for the results; returns the status, or -1 (nothing is done)
    if an input is not of the right type."""

    def __init__(
        self,
        in_avals: Sequence[Aval],
        out_avals: Sequence[Aval],
        arena: int,  # the bytes of its temporaries
    ) -> None:
        self.in_avals = in_avals
        self.out_avals = out_avals
        self._outputs = [(aval.shape, aval.dtype) for aval in out_avals]
        self._arena = arena
        self._scalars = any(not shape for shape, _ in self._outputs)
        self.is_large = any(memory.is_large(*kind) for kind in self._outputs)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        # on the path of every call, so no other Python function is called
        if self.is_large:
            results = memory.results(self._outputs)
        else:
            results = [np.empty(shape, dtype) for shape, dtype in self._outputs]
        if status := self._entry(*arrays, *results):
            self._run_again(status, arrays, results)
        if self._scalars:
            return tuple([x if x.ndim else x[()] for x in results])
        return tuple(results)

    def _run_again(self, status: int, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Complete a call that native code has declined, due to its inputs or lack of memory."""
        if status < 0:
            arrays = self._converted(arrays)
            status = self._entry(*arrays, *results)
        if status == OUT_OF_MEMORY and memory.forget():
            status = self._entry(*arrays, *results)
        if status == OUT_OF_MEMORY:
            size = memory.in_words(self._arena)
            raise MemoryError(f"functrans: {size} for temporaries could not be allocated")
        if status:
            raise FAILURES[status].error()

    def _converted(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The inputs as C-contiguous arrays of the exact types of the graph."""
        if len(arrays) != len(self.in_avals):
            raise TypeError(f"{len(arrays)} inputs: this program takes {len(self.in_avals)}")
        given = zip(arrays, self.in_avals, strict=True)
        return [converted(number, value, aval) for number, (value, aval) in enumerate(given)]


def converted(number: int, value: Any, aval: Aval) -> np.ndarray[Any, Any]:
    """Convert an input to a C-contiguous array of its exact type.

    Raises `TypeError` if it has another shape, or a dtype that NumPy's ``"same_kind"`` casting does
    not convert. The message names its number.
    """
    # the singleton of a built-in dtype, without metadata
    dtype = np.dtype(aval.dtype.type)
    given = np.asarray(value, dtype if isinstance(value, int) else None)
    if given.shape != aval.shape or not np.can_cast(given.dtype, dtype, "same_kind"):
        raise TypeError(
            f"input {number} is {given.dtype} of shape {given.shape}: this program is "
            f"compiled for {dtype} of shape {aval.shape}"
        )
    array = np.asarray(given, dtype, order="C").view(dtype)
    return array if array.flags.aligned else array.copy()


class NativeProgram(ArrayProgram):
    """A program of loaded machine code."""

    def __init__(
        self,
        listing: Listing,
        codes: Sequence[Code],  # the code of each step
        in_avals: Sequence[Aval],
        out_avals: Sequence[Aval],
        lowered: Callable[[], Graph],  # returns the graph that was planned
    ) -> None:
        super().__init__(in_avals, out_avals, listing.arena)
        self.listing = listing
        self.overwritten = listing.overwritten
        self.codes = codes
        self.lowered = lowered
        self.number = timeline.numbered(self)
        self.steps_table = self.table()
        self._entry = entry.function(self.steps_table, in_avals)
        steps.free_with(self, self.steps_table)

    def table(self, plain: bool = False) -> steps.Table:
        """The table for `functrans.run.call.steps`; a plain one uses no locks and no threads."""
        listed, offsets, arena, _, views = self.listing
        imports = {name: routines.is_message(name) for step in listed for name in step.imports}
        # release the GIL while waiting for another process
        sends, computes = True in imports.values(), False in imports.values()
        calls = [
            steps.Step(
                code.address,
                step.extent,
                0 if plain else step.grain,
                step.longest,
                step.buffers,
                step.sizes,
                step.turns,
                step.going,
            )
            for step, code in zip(listed, self.codes, strict=True)
        ]
        return steps.table(
            [entry.input_record(aval) for aval in self.in_avals],
            len(self._outputs),
            offsets,
            arena,
            calls,
            views,
            releases=not plain and (sends or sum(step.all_work for step in listed) > GIL_THRESHOLD),
            threads=threads.record() if any(call.grain for call in calls) else 0,
            signals=not plain,
            blas=blas.limiter() if not plain and computes else 0,
            number=0 if plain else self.number,
        )


class Overwriting(ArrayProgram):
    """A program that writes results into donated inputs.

    It is a separate class so that other programs do not pay for its checks.
    """

    overwritten: tuple[tuple[int, int], ...]
    """Pairs of a donated input and the output that overwrites it."""

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        given: list[Any] = list(arrays)
        results: list[Any] = [None] * len(self._outputs)
        # memory with an owner that occurs once can only be shared by views
        places = list(map(id, arrays))
        several = _repeated(places) if len(set(places)) < len(places) else ()
        views = [x for x in arrays if isinstance(x, np.ndarray) and x.base is not None]
        theirs = _Extents(views) if views else None
        for number, output in self.overwritten:
            x = given[number]
            alone = _is_whole(x) and id(x) not in several
            if not alone or not self._fits(number, x) or (theirs is not None and theirs.meet(x)):
                x = given[number] = converted(number, x, self.in_avals[number]).copy()
            # the result may be a reshape of the stored array, and complex numbers are pairs
            shape, dtype = self._outputs[output]
            x = x if x.dtype == dtype else x.reshape(-1).view(dtype)
            results[output] = x if x.shape == shape else x.reshape(shape)
        missing = [output for output, x in enumerate(results) if x is None]
        kinds = [self._outputs[output] for output in missing]
        fresh = memory.results(kinds) if self.is_large else [np.empty(*kind) for kind in kinds]
        for output, x in zip(missing, fresh, strict=True):
            results[output] = x
        if status := self._entry(*given, *results):
            self._run_again(status, given, results)
        return tuple([x if x.ndim else x[()] for x in results])

    def _fits(self, number: int, x: np.ndarray[Any, Any]) -> bool:
        aval = self.in_avals[number]
        return x.shape == aval.shape and bool(x.dtype == aval.dtype)


def _repeated(numbers: Sequence[int]) -> set[int]:
    """The numbers that occur more than once."""
    return {number for number, count in Counter(numbers).items() if count > 1}


class _Extents:
    """The address ranges of many arrays."""

    def __init__(self, arrays: Iterable[np.ndarray[Any, Any]]) -> None:
        both = sorted(byte_bounds(x) for x in arrays if x.size)
        self._starts = [start for start, _ in both]
        self._ends = list(accumulate((end for _, end in both), max))

    def meet(self, x: np.ndarray[Any, Any]) -> bool:
        """Whether the memory of an array overlaps with theirs."""
        if not self._starts or not x.size:
            return False
        start, end = byte_bounds(x)
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start


def _is_whole(x: Any) -> bool:
    """Whether an array is writable, C-contiguous and owns its memory."""
    if type(x) is not np.ndarray:
        return False
    flags = x.flags
    return bool(flags.carray and flags.owndata)


class OverwritingProgram(Overwriting, NativeProgram):
    """A native program that writes results into donated inputs."""


def native_program(
    listing: Listing,
    codes: Sequence[Code],
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval],
    lowered: Callable[[], Graph],
) -> NativeProgram:
    """The program of a listing, of the class for donated inputs if there are any."""
    kind = OverwritingProgram if listing.overwritten else NativeProgram
    return kind(listing, codes, in_avals, out_avals, lowered)
