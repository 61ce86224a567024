"""Serialisation of graphs as plain data: dicts, lists, numbers and strings.

Reading a graph executes no code from the data. Operations are looked up in the registry by name,
and parameters must be of the few kinds below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from functrans.errors import SavedProgramError
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.primitive import Primitive, registry
from functrans.ir.types import Aval

Data = Any
Record = TypeVar("Record", bound=tuple[Any, ...])
Encode = Callable[[Any], Data]
Decode = Callable[[Data], Any]


_records: dict[str, type[tuple[Any, ...]]] = {}


def record(cls: type[Record]) -> type[Record]:
    """Decorator: make a NamedTuple of plain values a serialisable parameter."""
    _records[cls.__name__] = cls
    return cls


class UndefinedOperation(LookupError):
    """The data name an operation that is not in the registry."""


def _refuse(value: Any) -> Data:
    raise TypeError(f"no kind of data for {value!r} of type {type(value).__name__}")


def _unknown(data: Data) -> Any:
    raise ValueError(f"unknown kind of data {data!r}")


def graph_to_data(graph: Graph, other: Encode = _refuse) -> Data:
    """A graph as plain data.

    Parameters
    ----------
    graph : Graph
    other : callable, optional
        Converts a parameter of another kind to data, a dict with one key.

    Raises
    ------
    TypeError
        If a parameter is of an unsupported kind.
    """
    numbers: dict[Atom, int] = {}

    def defined(var: Var) -> Data:
        numbers[var] = len(numbers)
        return aval_to_data(var.aval)

    def used(atom: Atom) -> Data:
        if isinstance(atom, Literal):
            return [*aval_to_data(atom.aval), _bits(atom.value, atom.aval.dtype)]
        return numbers[atom]

    return {
        "inputs": [defined(var) for var in graph.inputs],
        "equations": [
            {
                "operation": eqn.primitive.name,
                "operands": [used(x) for x in eqn.inputs],
                "parameters": {k: _to_data(v, other) for k, v in eqn.params.items()},
                "results": [defined(var) for var in eqn.outputs],
            }
            for eqn in graph.eqns
        ],
        "outputs": [used(x) for x in graph.outputs],
    }


def graph_from_data(data: Data, other: Decode = _unknown) -> Graph:
    """The inverse of `graph_to_data`.

    Raises `UndefinedOperation` if the data name an operation that is not defined. Raises
    `LookupError`, `ValueError` or `TypeError` if the data are not a graph.
    """
    variables: list[Var] = []

    def defined(aval: Data) -> Var:
        variables.append(Var(aval_from_data(aval)))
        return variables[-1]

    def used(atom: Data) -> Atom:
        if isinstance(atom, int):
            if atom < 0:
                raise ValueError(f"no variable has the number {atom}")
            return variables[atom]
        *aval, bits = atom
        found = aval_from_data(aval)
        return Literal(_number(bits, found.dtype), found)

    inputs = [defined(aval) for aval in data["inputs"]]
    eqns = [
        Eqn(
            _operation(eqn["operation"]),
            [used(x) for x in eqn["operands"]],
            [defined(aval) for aval in eqn["results"]],
            {k: _from_data(v, other) for k, v in eqn["parameters"].items()},
        )
        for eqn in data["equations"]
    ]
    return Graph(inputs, eqns, [used(x) for x in data["outputs"]])


def _operation(name: str) -> Primitive:
    if name not in registry:
        raise UndefinedOperation(name)
    return registry[name]


def aval_to_data(aval: Aval) -> Data:
    """An aval as data: shape, dtype, and whether it is weak."""
    return [list(aval.shape), aval.dtype.name, aval.weak]


def aval_from_data(data: Data) -> Aval:
    """The inverse of `aval_to_data`."""
    shape, dtype, weak = data
    if not all(type(n) is int for n in shape):
        raise ValueError(f"{shape!r} is no shape")
    return Aval(tuple(shape), dtype_from_data(dtype), bool(weak))


def dtype_from_data(name: str) -> np.dtype[Any]:
    """A dtype by its name; for bfloat16, imports the package `ml_dtypes`.

    Raises `SavedProgramError` if the package is not installed.
    """
    if name == "bfloat16":
        try:
            import_module("ml_dtypes")
        except ImportError:
            raise SavedProgramError(
                "the program has arrays of bfloat16, a dtype of the package ml_dtypes, which is "
                "not installed here: pip install ml_dtypes"
            ) from None
    return np.dtype(name)


def _bits(value: Any, dtype: np.dtype[Any]) -> str:
    """A number by its bits, since decimal digits might lose some."""
    return np.asarray(value, dtype.newbyteorder("<")).tobytes().hex()


def _number(bits: str, dtype: np.dtype[Any]) -> Any:
    (number,) = np.frombuffer(bytes.fromhex(bits), dtype.newbyteorder("<"))
    return dtype.type(number)


# -- parameters ------------------------------------------------------------------------------------


def _to_data(value: Any, other: Encode) -> Data:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind in _records.values():
        return {"record": [kind.__name__, *(_to_data(x, other) for x in value)]}
    for name, (cls, encode, _) in _KINDS.items():
        if isinstance(value, cls) and not (cls is tuple and kind is not tuple):
            return {name: encode(value, lambda x: _to_data(x, other), other)}
    return other(value)


def _from_data(data: Data, other: Decode) -> Any:
    if not isinstance(data, Mapping):
        return data
    ((name, content),) = data.items()
    if name == "record":
        return _records[content[0]](*(_from_data(x, other) for x in content[1:]))
    if name not in _KINDS:
        return other(data)
    _, _, decode = _KINDS[name]
    return decode(content, lambda x: _from_data(x, other), other)


_DTYPE = np.dtype(np.float64)

# Each kind: its class, its conversion to data, and its conversion from data. The functions receive
# the value, a function that converts a part of it, and one that converts other kinds.
_KINDS: dict[str, tuple[type, Callable[..., Data], Callable[..., Any]]] = {
    "float": (float, lambda x, *_: _bits(x, _DTYPE), lambda x, *_: float(_number(x, _DTYPE))),
    "number": (
        np.generic,
        lambda x, *_: [x.dtype.name, _bits(x, x.dtype)],
        lambda x, *_: _number(x[1], dtype_from_data(x[0])),
    ),
    "tuple": (tuple, lambda x, part, _: [*map(part, x)], lambda x, part, _: tuple(map(part, x))),
    "dtype": (np.dtype, lambda x, *_: x.name, lambda x, *_: dtype_from_data(x)),
    "type": (Aval, lambda x, *_: aval_to_data(x), lambda x, *_: aval_from_data(x)),
    "graph": (
        Graph,
        lambda x, _, other: graph_to_data(x, other),
        lambda x, _, other: graph_from_data(x, other),
    ),
}
