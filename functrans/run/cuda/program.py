"""Programs on a GPU: a graph as a function of arrays, wherever these are.

What has a kernel runs on the stream of the calling thread, and Python goes on. What has none is
refused when the program is made, unless `functrans.config.cuda_fallback` says that it may be done
on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import cached
from functrans.errors import DeviceError
from functrans.ir.evaluate import place_of
from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.ir.on_device import appliers, device_of, evaluators, is_any_on_device
from functrans.ir.primitive import Primitive, bind
from functrans.ir.types import Aval, aval_of
from functrans.locks import lock
from functrans.loop.failures import FAILURES
from functrans.loop.target import CUDA, Target
from functrans.lower import pipeline
from functrans.lower.plan import Plan
from functrans.lower.select.partition import Segment, partition
from functrans.lower.verify import verify
from functrans.optimise import optimise
from functrans.optimise.machine.complex_parts import without_complex
from functrans.run.call.compiled import compiled_part
from functrans.run.call.failures import explained
from functrans.run.cuda.array import DeviceArray, put, to_host
from functrans.run.cuda.driver import Driver, Stream, driver
from functrans.run.cuda.launches import Launches
from functrans.run.cuda.memory import allocate
from functrans.run.cuda.pending import Pending, Status, pending
from functrans.trace.source import located
from functrans.trace.stage import rewrite

_WORD = 8
"""Bytes of a status word."""


class DeviceProgram:
    """A graph on a device: call it with arrays of the host or of the device.

    Results are device arrays.

    Parameters
    ----------
    graph : Graph
    on : Driver
    target : Target
    """

    def __init__(self, graph: Graph, on: Driver, target: Target = CUDA) -> None:
        assert target.grid is not None
        self.graph = graph
        self.driver = on
        apart = without_complex(graph)
        self._inputs, self._outputs = apart.inputs, apart.outputs
        self.segments = partition(apart, target)
        for segment in self.segments:
            if segment.call is not None and config.cuda_fallback != "host":
                raise DeviceError(_no_kernel(segment.call))
        self.plans = [
            None if segment.call is not None else _planned(segment.graph, target)
            for segment in self.segments
        ]
        self._whole = [segment.graph for segment in self.segments] == [apart]
        self._parts = [
            None if plan is None else Launches(plan, target.grid, on) for plan in self.plans
        ]

    def __call__(self, *arrays: Any) -> tuple[DeviceArray, ...]:
        stream = self.driver.stream()
        given = self._on_device(arrays)
        words: list[Pending] = [x.pending for x in given]
        values: dict[Atom, DeviceArray] = {
            var: _seen_as(x, var.aval) for var, x in zip(self._inputs, given, strict=True)
        }
        made: Sequence[DeviceArray] = ()
        for segment, part in zip(self.segments, self._parts, strict=True):
            operands = [values[var] for var in segment.inputs]
            if part is not None:
                made, word = _run(part, segment, operands, stream)
                if word is not None:
                    words.append((Status(word, self._explain(given)),))
            else:
                made = self._on_host(segment, operands)
            values.update(zip(segment.outputs, made, strict=not self._whole))
            for var in segment.dead:
                del values[var]
        found = pending(words)
        results = made if self._whole else [self._value(atom, values) for atom in self._outputs]
        return tuple(
            DeviceArray(x.memory, aval.shape, np.dtype(aval.dtype), found)
            for x, aval in zip(results, self.graph.out_avals, strict=True)
        )

    def _on_device(self, arrays: Sequence[Any]) -> list[DeviceArray]:
        """The inputs on the device, of exactly the types of the graph."""
        if len(arrays) != len(self.graph.in_avals):
            raise TypeError(f"{len(arrays)} inputs: this program takes {len(self.graph.in_avals)}")
        found: list[Any] = list(arrays)
        from_host = [i for i, x in enumerate(arrays) if not isinstance(x, DeviceArray)]
        if from_host:
            avals = self.graph.in_avals
            values = [np.asarray(arrays[i], avals[i].dtype) for i in from_host]
            for i, x in zip(from_host, put(values, self.driver), strict=True):
                found[i] = x
        for number, (x, aval) in enumerate(zip(found, self.graph.in_avals, strict=True)):
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
        return found

    def _value(self, atom: Atom, values: Mapping[Atom, DeviceArray]) -> DeviceArray:
        if isinstance(atom, Literal):
            return put([np.asarray(atom.value, atom.aval.dtype)], self.driver)[0]
        return values[atom]

    def _explain(self, inputs: Sequence[DeviceArray]) -> Any:
        """From a failure's number to the exception that NumPy raises for the same inputs."""

        def explain(code: int) -> Exception:
            return explained(FAILURES[code].error(), self.graph, to_host(inputs))

        return explain

    def _on_host(self, segment: Segment, operands: Sequence[DeviceArray]) -> list[DeviceArray]:
        """An equation without a kernel, by NumPy on copies of its operands."""
        eqn = segment.call
        assert eqn is not None
        given: dict[Atom, Any] = dict(zip(segment.inputs, to_host(operands), strict=True))
        values = [
            x.aval.dtype.type(x.value) if isinstance(x, Literal) else given[x] for x in eqn.inputs
        ]
        try:
            results = None
            if eqn.primitive.host is not None:
                inner = partial(compiled_part, backend=config.backend)
                results = eqn.primitive.host(eqn, values, inner)
            if results is None:
                results = eqn.primitive.numpy(*values, **eqn.params)
                results = results if eqn.primitive.several else (results,)
        except Exception as error:
            error.add_note(place_of(eqn))
            raise
        return put([np.asarray(x) for x in results], self.driver)


def _planned(graph: Graph, target: Target) -> Plan:
    plan = pipeline.plan(graph, target)
    if config.check_plans:
        verify(plan)
    return plan


def _no_kernel(eqn: Eqn) -> str:
    name, where = eqn.primitive.name, "" if eqn.source is None else located(eqn.source)
    return (
        f"{name} has no kernel for a GPU{where}: compute it on the host, or set "
        'functrans.config.cuda_fallback = "host" to have it copied there and back'
    )


def _seen_as(x: DeviceArray, aval: Aval) -> DeviceArray:
    """The array as kernels see it: complex numbers are pairs, in the same memory."""
    if x.shape == aval.shape:
        return x
    return DeviceArray(x.memory, aval.shape, np.dtype(aval.dtype), x.pending)


def _run(
    part: Launches, segment: Segment, operands: Sequence[DeviceArray], stream: Stream
) -> tuple[list[DeviceArray], Any]:
    """The results of a compiled segment, and the word that says whether it failed, if it can."""
    here = part.driver
    for x in operands:
        x.memory.read(stream)
    made = [
        DeviceArray(
            allocate(here, aval.size * aval.dtype.itemsize, stream),
            aval.shape,
            np.dtype(aval.dtype),
        )
        for aval in segment.graph.out_avals
    ]
    word = None
    if part.may_fail:
        word = allocate(here, _WORD, stream)
        here.fill(word.address, 0, _WORD, stream)
    addresses = [x.memory.address for x in (*operands, *made)]
    part.run(addresses, word.address if word is not None else 0, stream)
    return made, word


_compiling = lock()


@cached(1024)
def _program(graph: Graph, on: Driver, fallback: str | None) -> DeviceProgram:
    return DeviceProgram(optimise(graph), on)


def runnable(graph: Graph, device: str) -> Callable[..., Sequence[Any]]:
    """A graph on a device, as a function whose results are where its arguments are.

    With a device array among these, results are device arrays; else they are NumPy's.
    """
    made = program(graph, device)

    def call(*arrays: Any) -> Sequence[Any]:
        results = made(*arrays)
        if is_any_on_device(arrays):
            return results
        return [x if x.ndim else x[()] for x in to_host(results)]

    return call


def _evaluated(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    device = device_of(inputs)
    assert device is not None
    return program(graph, device)(*inputs)


@cached(1024)
def _of_one(primitive: Primitive, avals: tuple[Aval, ...], params: tuple[Any, ...]) -> Graph:
    """A graph of one operation."""

    def apply(*operands: Any) -> Sequence[Any]:
        found = bind(primitive, operands, dict(params))
        return tuple(found) if primitive.several else (found,)

    return rewrite(apply, avals)


def _applied(primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    graph = _of_one(primitive, tuple(map(aval_of, operands)), tuple(params.items()))
    results = _evaluated(graph, operands)
    return results if primitive.several else results[0]


appliers.append(_applied)
evaluators.append(_evaluated)


def program(graph: Graph, device: str) -> DeviceProgram:
    """The program of a graph on a device; it is made once, whichever threads ask."""
    on = driver(device)
    with _compiling:
        return _program(graph, on, config.cuda_fallback)
