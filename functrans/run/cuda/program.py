"""Programs on a GPU: graphs as functions of host or device arrays.

Kernels run asynchronously on the stream of the calling thread. An operation without a kernel is
refused when the program is created, unless `functrans.config.cuda_fallback` allows its execution on
the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import cached
from functrans.errors import DeviceError
from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.ir.on_device import appliers, device_of, evaluators
from functrans.ir.primitive import Primitive, bind
from functrans.ir.types import Aval, aval_of
from functrans.locks import lock
from functrans.loop.failures import FAILURES
from functrans.loop.target import Target
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Plan
from functrans.lower.select.partition import Segment, partition, without_form
from functrans.lower.verify import verify
from functrans.ops.control.layout import has_fixed_sizes
from functrans.optimise import legalised, optimise
from functrans.run.call.compiled import on_host
from functrans.run.call.failures import explained
from functrans.run.call.inline_cache import PythonProgram
from functrans.run.call.program import converted
from functrans.run.cuda.array import DeviceArray, fetched, put, to_host
from functrans.run.cuda.donation import given_up
from functrans.run.cuda.driver import Driver, Stream, driver
from functrans.run.cuda.launches import Launches, machine
from functrans.run.cuda.memory import Memory, allocate
from functrans.run.cuda.pending import Explain, Pending, brief, pending
from functrans.run.cuda.scalars import kept, kept_float
from functrans.trace.source import located, user_source
from functrans.trace.stage import rewrite


class DeviceProgram:
    """A graph on a device, called with host or device arrays; results are device arrays."""

    def __init__(
        self,
        graph: Graph,
        on: Driver,
        donated: Sequence[int] = (),  # the positions of the inputs that results may overwrite
        target: Target = CUDA,
    ) -> None:
        assert target.grid is not None
        self.graph = optimise(graph)
        self.driver = on
        apart = legalised(self.graph, target)
        self._inputs, self._outputs = apart.inputs, apart.outputs
        self.segments = partition(apart, target)
        if config.cuda_fallback != "host" and any(each.call is not None for each in self.segments):
            raise DeviceError(_no_kernel(graph, target))
        whole = [segment.graph for segment in self.segments] == [apart]
        self._donated = tuple(donated) if whole else ()
        self.plans = [
            None if segment.call is not None else _planned(segment.graph, target, self._donated)
            for segment in self.segments
        ]
        self._avals = graph.in_avals
        self._types = [(aval.shape, aval.dtype) for aval in self._avals]
        self._parts = [
            None
            if plan is None
            else _Part(Launches(plan, target.grid, on), segment.graph.out_avals, plan.overwritten)
            for segment, plan in zip(self.segments, self.plans, strict=True)
        ]
        self._whole: _Part | None = None
        if whole and self._parts[0] is not None:
            # complex numbers are stored as pairs
            self._whole = _Part(
                self._parts[0].launches, graph.out_avals, self._parts[0].overwritten
            )

    def __call__(self, *arrays: Any) -> Sequence[DeviceArray]:
        return self.run(arrays if self._fit(arrays) else self._on_device(arrays))

    def run(self, given: Sequence[DeviceArray]) -> Sequence[DeviceArray]:
        """The results for device arrays of the exact types of the graph."""
        stream = self.driver.stream()
        if self._whole is None:
            return self._in_segments(given, stream)
        return self._whole(given, stream, (), self._explain)

    def attempt(self, leaves: Sequence[Any]) -> Sequence[DeviceArray] | None:
        """The results for leaves of the types of the graph, of which device arrays need no check.

        None if one of these is on another device.
        """
        here, others = self.driver, False
        for x in leaves:
            if type(x) is not DeviceArray:
                others = True
            elif x.memory.driver is not here:
                return None
        if not others:
            return self.run(leaves)
        return self.run([
            x if type(x) is DeviceArray else self._put(number, x, self._avals[number])
            for number, x in enumerate(leaves)
        ])  # fmt: skip

    def _fit(self, arrays: Sequence[Any]) -> bool:
        """Whether these are arrays on the device, of the exact types of the graph."""
        if len(arrays) != len(self._types):
            return False
        here = self.driver
        for x, (shape, dtype) in zip(arrays, self._types, strict=True):
            if type(x) is not DeviceArray or x.memory.driver is not here:
                return False
            if x.shape != shape or (x.dtype is not dtype and x.dtype != dtype):
                return False
        return True

    def _in_segments(self, given: Sequence[DeviceArray], stream: Stream) -> Sequence[DeviceArray]:
        words = [x.pending for x in given if x.pending]
        values: dict[Atom, Any] = {
            var: _seen_as(x, var.aval) for var, x in zip(self._inputs, given, strict=True)
        }
        for segment, part in zip(self.segments, self._parts, strict=True):
            operands = [values[var] for var in segment.inputs]
            if part is None:
                made = self._on_host(segment, operands)
            else:
                made = part(operands, stream, words, lambda _: self._explain(given))
                words += [x.pending for x in made[:1]]
            values.update(zip(segment.outputs, made, strict=True))
            for var in segment.dead:
                del values[var]
        found = pending(words)
        results = [self._value(atom, values) for atom in self._outputs]
        return [
            DeviceArray(x.memory, aval.shape, np.dtype(aval.dtype), found)
            for x, aval in zip(results, self.graph.out_avals, strict=True)
        ]

    def _on_device(self, arrays: Sequence[Any]) -> list[DeviceArray]:
        """The inputs on the device, of the exact types of the graph."""
        if len(arrays) != len(self._avals):
            raise TypeError(f"{len(arrays)} inputs: this program takes {len(self._avals)}")
        return [
            self._checked_input(number, x, aval)
            if isinstance(x, DeviceArray)
            else self._put(number, x, aval)
            for number, (x, aval) in enumerate(zip(arrays, self._avals, strict=True))
        ]

    def _checked_input(self, number: int, x: DeviceArray, aval: Aval) -> DeviceArray:
        """Check an input on a device: it must be on this one, and of the right type."""
        if x.memory.driver is not self.driver:
            raise DeviceError(
                f"argument {number} is on {x.device}, and the program runs on "
                f"{self.driver.device}: put both on one, functrans.device_put(x, "
                f'"{self.driver.device}")'
            )
        if (x.shape, x.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"input {number} is {x.dtype} of shape {x.shape}: this program is compiled "
                f"for {aval.dtype} of shape {aval.shape}"
            )
        return x

    def _put(self, number: int, x: Any, aval: Aval) -> DeviceArray:
        """Copy an input from the host; repeated scalars are cached on the device."""
        is_kept = number not in self._donated
        if type(x) is float and not aval.shape and aval.dtype.kind == "f" and is_kept:
            return kept_float(x, aval.dtype, self.driver)
        value = converted(number, x, aval)
        if value.ndim or not is_kept:
            return put([value], self.driver)[0]
        return kept(value, self.driver)

    def _value(self, atom: Atom, values: Mapping[Atom, Any]) -> Any:
        if isinstance(atom, Literal):
            return put([np.asarray(atom.value, atom.aval.dtype)], self.driver)[0]
        return values[atom]

    def _explain(self, inputs: Sequence[DeviceArray]) -> Explain:
        """A function from a failure code to the exception that NumPy raises for the same inputs."""
        if self._donated:  # donated inputs are no longer available
            return brief

        def explain(code: int) -> Exception:
            return explained(FAILURES[code].error(), self.graph, to_host(inputs))

        return explain

    def _on_host(self, segment: Segment, operands: Sequence[Any]) -> list[Any]:
        """Evaluate an equation without a kernel by NumPy, on copies of its operands.

        Ragged stacks (residuals of batched loops) are Python objects, which stay on the host for
        another such equation.
        """
        found = on_host(segment, fetched(operands), config.backend)
        results = [np.asarray(x) for x in found]
        moved = iter(put([x for x in results if not x.dtype.hasobject], self.driver))
        return [x if x.dtype.hasobject else next(moved) for x in results]


def _planned(graph: Graph, target: Target, donated: Sequence[int]) -> Plan:
    plan = pipeline.plan(graph, target, donated)
    if config.check_plans:
        verify(plan)
    return plan


def _no_kernel(graph: Graph, target: Target) -> str:
    """The message about an operation without a kernel, with the user's line.

    An equation of an eager operation, which is traced once for all lines, has the call's line.
    """
    # equal graphs share memoised results of passes, with the lines of the first one
    optimise.cache_clear()
    *around, eqn = without_form(legalised(optimise(graph), target), target)
    inside = f", inside of {around[-1].primitive.name}," if around else ""
    limit = "" if has_fixed_sizes(eqn) else "give its while_loop max_steps, or "
    has_place = all(each.source is not None for each in (*around, eqn))
    return (
        f"{eqn.primitive.name}{inside} has no kernel for a GPU"
        f"{located(eqn.source if has_place else user_source())}: {limit}compute it on the host, "
        'or set functrans.config.cuda_fallback = "host" to have it copied there and back'
    )


def placeless(graph: Graph) -> Graph:
    """A graph without source lines, which calls from all lines share."""
    eqns = [Eqn(one.primitive, one.inputs, one.outputs, one.params) for one in graph.eqns]
    return Graph(graph.inputs, eqns, graph.outputs)


def _seen_as(x: DeviceArray, aval: Aval) -> DeviceArray:
    """The array in the form of kernels: complex numbers as pairs, in the same memory."""
    if x.shape == aval.shape:
        return x
    return DeviceArray(x.memory, aval.shape, np.dtype(aval.dtype), x.pending)


class _Part:
    """A compiled part of a program, with the types of its results."""

    def __init__(
        self,
        launches: Launches,
        avals: Sequence[Aval],
        # the numbers of the operands that are overwritten, and of the results
        overwritten: Mapping[int, int],
    ) -> None:
        self.launches = launches
        self.overwritten = overwritten
        self._homes = {result: operand for operand, result in overwritten.items()}
        self._results = [
            (aval.size * aval.dtype.itemsize, aval.shape, np.dtype(aval.dtype)) for aval in avals
        ]

    def __call__(
        self,
        operands: Sequence[DeviceArray],
        stream: Stream,
        waiting: Sequence[Pending],  # other status words that the results depend on
        # from the operands to the function that explains a failure of this part
        explain: Callable[[Sequence[DeviceArray]], Explain],
    ) -> list[DeviceArray]:
        """The results, which depend on the status words of operands and on the part's own."""
        launches, words = self.launches, [0]
        for x in operands:
            # (a variable for the memory would be a reference, which `given_up` counts)
            if x.memory.stream is not stream:
                x.memory.read(stream)
            words.append(x.memory.address)
            if x.pending:
                waiting = (*waiting, x.pending)
        found = pending(waiting) if waiting else ()
        taken: dict[int, Memory] = {}
        for result, number in self._homes.items():
            taken[result] = given_up(operands[number], operands, stream)
        results = []
        for number, (nbytes, shape, dtype) in enumerate(self._results):
            memory = taken.get(number) or allocate(launches.driver, nbytes, stream)
            words.append(memory.address)
            results.append(DeviceArray(memory, shape, dtype, found))
        if launches.may_fail:
            own = launches.run(words, stream, explain(operands))
            for x in results:
                x.pending = (*found, *own)
        else:
            launches.run(words, stream)
        return results


_compiling = lock()


@cached(1024)
def _program(
    graph: Graph, on: Any, donated: tuple[int, ...], fallback: str | None, target: Target
) -> DeviceProgram:
    return DeviceProgram(graph, on, donated, target)


def runnable(
    graph: Graph, device: str, donated: tuple[int, ...] = ()
) -> Callable[..., Sequence[Any]]:
    """A graph on a device, as a function whose results are where its arguments are.

    With a device array among these, results are device arrays; otherwise they are NumPy arrays.
    """
    return Placed(program(graph, device, donated))


class Placed(PythonProgram):
    """A program whose results are on the device of its arguments."""

    def __init__(self, made: DeviceProgram) -> None:
        self._made = made

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        results = self._made(*arrays)
        if DeviceArray in map(type, arrays):
            return results
        return [x if x.ndim else x[()] for x in to_host(results)]

    def attempt(self, leaves: tuple[Any, ...]) -> Sequence[Any] | None:
        """The results for arrays of this device and numbers; None for another device."""
        try:
            return self._made.attempt(leaves)
        except OverflowError:  # for an integer; the caller names the argument
            return None


def _evaluated(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    device = device_of(inputs)
    assert device is not None
    return program(graph, device)(*inputs)


@cached(1024)
def _of_one(primitive: Primitive, avals: tuple[Aval, ...], params: tuple[Any, ...]) -> Graph:
    """The graph of one operation."""

    def apply(*operands: Any) -> Sequence[Any]:
        found = bind(primitive, operands, dict(params))
        return tuple(found) if primitive.several else (found,)

    return placeless(rewrite(apply, avals))


def _applied(primitive: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    graph = _of_one(primitive, tuple(map(aval_of, operands)), primitive.keyed(params))
    results = _evaluated(graph, operands)
    return results if primitive.several else results[0]


appliers.append(_applied)
evaluators.append(_evaluated)


def program(graph: Graph, device: str, donated: tuple[int, ...] = ()) -> DeviceProgram:
    """The program of a graph on a device, which is created once for all threads."""
    on: Any = driver(device)
    with _compiling:
        return _program(graph, on, donated, *settings(on))


def settings(on: Driver) -> tuple[str | None, Target]:
    """The options of `functrans.config` that determine the program of a graph."""
    return config.cuda_fallback, machine(on.properties.architecture)
