"""Eager operations on device arrays: each is traced once for its types, and run as a program.

NumPy functions are implemented by tracing them (`functrans.trace.protocols`), so every function
that can be traced is supported. A call is keyed by the function, the types of its operands, and all
other arguments, which are constants of the program. Numbers that are operands (``x * 0.1``) are not
constants, since each value would need a separate program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import Table, bits
from functrans.errors import (
    DeviceError,
    MutationError,
    TracerBoolError,
    TracerConversionError,
    TracerIndexError,
    UnsupportedNumPyError,
)
from functrans.ir.graph import Graph
from functrans.ir.on_device import OnDevice, callers, placers
from functrans.ir.types import Aval, aval_of, is_supported
from functrans.records import NamedTuple, dataclass
from functrans.run.cuda import scalars
from functrans.run.cuda.array import DeviceArray, fetched, put
from functrans.run.cuda.driver import Driver, driver
from functrans.run.cuda.program import DeviceProgram, placeless, program, settings
from functrans.trace.source import located, user_source
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree
from functrans.tree.compare import Structure

Function = Callable[..., Any]

_ASKS_FOR_VALUES = (TracerBoolError, TracerConversionError, TracerIndexError)
"""Errors of code that needs a value."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A host number that is an operand, not a constant."""

    value: Any


class _Traced(NamedTuple):
    """A call as a graph."""

    graph: Graph
    captures: Sequence[Any]  # the values of the inputs that follow the operands
    numbers: tuple[int, ...]  # the positions of the leaves of the call that are operands
    structure: Structure  # the structure of the result
    # the leaves of the result: the number of a graph output, in an `_Output`, or a constant
    results: tuple[Any, ...]

    def is_one_array_of(self, count: int) -> bool:
        """Whether the result is one array, computed from ``count`` operands and nothing else."""
        everything = len(self.numbers) == count and not self.captures
        return everything and self.structure == _LEAF and self.results == (_Output(0),)


class _Output(NamedTuple):
    number: int


_LEAF = tree.structure(0)


_traced: Table[Any, _Traced] = Table(4096)
_known: Table[Any, bool] = Table(1024)
"""The calls whose host arrays are constants, since Python reads them."""


_inline: Table[Any, DeviceProgram] = Table(1024)
"""Inline cache: the programs of ufuncs of device arrays and floats, by `key_of_ufunc`."""


def key_of_ufunc(of: np.ufunc, inputs: Sequence[Any]) -> Any:
    """The key of a ufunc's program, for operands that are device arrays and floats only.

    None for other operands, or several devices, which `call` handles.
    """
    here = None
    types: list[Any] = []
    for x in inputs:
        if type(x) is DeviceArray:
            here = here or x.memory.driver
            if x.memory.driver is not here:
                return None
            types.append((x.dtype, x.shape))
        elif type(x) is float:
            types.append(float)
        else:
            return None
    return (of, here, settings(here), *types) if here is not None else None


def inline(key: Any, inputs: Sequence[Any]) -> DeviceArray | None:
    """The result of a ufunc whose program is cached; None if it is not."""
    made = _inline.get(key)
    if made is None:
        return None
    results = made.attempt(inputs)
    return None if results is None else results[0]


def call(
    function: Function,  # Called with tracers in place of arrays. It must be deterministic.
    # pytrees of device arrays, host arrays, `Operand` and constants
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    key: Any = None,  # the key of the function, if not itself
    name: str = "",  # its name in messages
    inline_key: Any = None,  # the key of `key_of_ufunc`, under which the program is cached
) -> Any:
    """The result of a function of arrays, computed on the device of some of them.

    Raises `DeviceError` if the arrays are on several devices. Raises `UnsupportedNumPyError` if
    Python needs a value, and `functrans.config.cuda_fallback` does not allow computation on the
    host.
    """
    leaves, structure = tree.flatten((args, kwargs or {}))
    if any(isinstance(x, Tracer) for x in leaves):
        plain = [x.value if isinstance(x, Operand) else x for x in leaves]
        args, kwargs = tree.unflatten(structure, plain)
        return function(*args, **kwargs)
    here = driver(_device_of(leaves, name))
    what = (key or function, structure)
    for constants in (False, True):
        if not constants and what in _known:
            continue
        try:
            traced = _trace(function, leaves, structure, what, constants, name)
        except _ASKS_FOR_VALUES as error:
            asked = error
            continue
        except MutationError:
            raise refuse_to_change(
                name, "write x = x.at[i].set(v), or call what gives a new array, as np.sort(x) does"
            ) from None
        if constants:
            _known.remember(what, True)
        if inline_key is not None and traced.is_one_array_of(len(leaves)):
            _inline.remember(inline_key, program(traced.graph, here.device))
        return _run(traced, leaves, here)
    return on_host(function, leaves, structure, here, name, asked)


def _device_of(leaves: Sequence[Any], name: str) -> str:
    found = dict.fromkeys(x.device for x in leaves if isinstance(x, DeviceArray))
    if len(found) > 1:
        first, second, *_ = found
        raise DeviceError(
            f"{name or 'an operation'}{located(user_source())}: its operands are on {first} and on "
            f'{second}: put them on one device, x.to_device("{first}")'
        )
    return next(iter(found))


def _trace(
    function: Function,
    leaves: Sequence[Any],
    structure: Structure,
    what: Any,
    constants: bool,
    name: str,
) -> _Traced:
    """The graph of a call, memoised if its key is hashable."""
    numbers = tuple(
        i
        for i, x in enumerate(leaves)
        if isinstance(x, DeviceArray) or (not constants and _is_operand(x))
    )
    avals = {i: aval_of(_value(leaves[i])) for i in numbers}
    parts: list[Any] = [avals[i] if i in avals else _constant(x) for i, x in enumerate(leaves)]
    remembered = not any(part is None for part in parts)
    key = (what, tuple(parts)) if remembered else None
    found = _traced.get(key) if remembered else None
    if found is not None:
        return found
    found = _staged(function, leaves, structure, numbers, list(avals.values()), name)
    if remembered and not any(isinstance(x, Tracer) for x in found.captures):
        _traced.remember(key, found)
    return found


def _staged(
    function: Function,
    leaves: Sequence[Any],
    structure: Structure,
    numbers: tuple[int, ...],
    avals: Sequence[Aval],
    name: str,
) -> _Traced:
    made: list[Any] = []
    constants = [x.value if isinstance(x, Operand) else x for x in leaves]

    def flat(*tracers: Tracer) -> Sequence[Any]:
        given = list(constants)
        for i, tracer in zip(numbers, tracers, strict=True):
            given[i] = tracer
        args, kwargs = tree.unflatten(structure, given)
        results, of_result = tree.flatten(function(*args, **kwargs))
        outputs: list[Any] = []
        for i, x in enumerate(results):
            if isinstance(x, (Tracer, np.ndarray, np.generic, OnDevice)):
                results[i] = _Output(len(outputs))
                outputs.append(x)
        made[:] = [of_result, tuple(results)]
        return outputs

    staged = stage(flat, avals, kind=name, name=lambda i: f"an operand of {name}")
    return _Traced(placeless(staged.graph), staged.captures, numbers, *made)


def _run(traced: _Traced, leaves: Sequence[Any], here: Driver) -> Any:
    found: Sequence[Any] = ()
    if traced.graph.outputs:
        operands = [scalars.placed(_value(leaves[i]), here) for i in traced.numbers]
        found = program(traced.graph, here.device)(*operands, *traced.captures)
    results = [found[x.number] if isinstance(x, _Output) else x for x in traced.results]
    return traced.structure.unflatten(results)


def on_host(
    function: Function,
    leaves: Sequence[Any],
    structure: Structure,
    here: Driver,
    name: str,
    why: Exception | None = None,
) -> Any:
    """A call on host copies of its arrays, whose results are copied back, if the user allows it."""
    if config.cuda_fallback != "host":
        raise UnsupportedNumPyError(
            f"{name}{located(user_source())} has to look at the numbers of a device array, on "
            "which its result's shape or Python's way depends: copy it by np.asarray(x), or set "
            'functrans.config.cuda_fallback = "host" to have such arrays copied there and back'
        ) from why
    plain = list(map(_value, fetched(leaves)))
    args, kwargs = tree.unflatten(structure, plain)
    results, of_result = tree.flatten(function(*args, **kwargs))
    arrays = [i for i, x in enumerate(results) if isinstance(x, (np.ndarray, np.generic))]
    for i, x in zip(arrays, put([np.asarray(results[i]) for i in arrays], here), strict=True):
        results[i] = x
    return tree.unflatten(of_result, results)


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Operand) else x


def _is_operand(x: Any) -> bool:
    return isinstance(x, Operand) or (isinstance(x, np.ndarray) and is_supported(x.dtype))


def _constant(x: Any) -> Any:
    """The key of a constant; None if it has no unique key."""
    x = _value(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return None if x.dtype.hasobject else (type(x), x.dtype, x.shape, x.tobytes())
    if isinstance(x, slice):
        return slice, *map(_constant, (x.start, x.stop, x.step))
    if isinstance(x, (float, complex)):
        return type(x), bits(x)
    if callable(x) and not isinstance(x, (type, np.ufunc)):
        return None  # its behaviour may change
    try:
        hash(x)
    except TypeError:
        return None
    return type(x), x


def refuse_to_change(what: str, instead: str) -> MutationError:
    """The error of an operation that would change an array in place."""
    return MutationError(
        f"{what}{located(user_source())}: an array on a device is a value, and nothing changes it "
        f"in place: {instead}"
    )


def with_operands(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments, with floats as operands; integers remain constants: they may be axes."""
    return tuple(map(_float, args)), {name: _float(x) for name, x in kwargs.items()}


def _float(x: Any) -> Any:
    return Operand(x) if isinstance(x, (float, complex, np.inexact)) else x


def _called(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    return call(function, *with_operands(args, kwargs), name=name)


def _placed(values: Sequence[Any], device: str) -> list[Any]:
    return put([np.asarray(x) for x in values], driver(device)) if values else []


callers.append(_called)
placers.append(_placed)
