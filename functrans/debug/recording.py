"""Recording of named intermediate values and their cotangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.api.compile import Jitted, jit
from functrans.ir.graph import Eqn, Graph, prune
from functrans.ir.observe import Observer, observed
from functrans.ir.types import describe
from functrans.ops.elementwise.stop import named
from functrans.run.call.failures import by_numpy
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree


@boundary
def name(x: Any, name: str, /) -> Any:
    """Name a value, so that `record` can show it and its cotangent.

    It costs nothing in compiled functions.

    Parameters
    ----------
    x : array or pytree
        Continue with the returned value, not with ``x`` itself. For leaves of a pytree, the path is
        appended to the name: ``h['weights']``.
    name : str

    Returns
    -------
    array or pytree
        Equal to ``x``.

    Raises
    ------
    TypeError
        If the name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"debug.name takes a value and then its name, a string, not {describe(name)}: "
            "write debug.name(x, 'x')"
        )
    places, structure = tree.flatten_with_path(x)
    return structure.unflatten(
        [
            named(leaf, name=f"{name}{place}") if isinstance(leaf, Tracer) else leaf
            for place, leaf in places
        ]
    )


class Recording:
    """The recorded values of a call; prints as a table.

    Attributes
    ----------
    result : object
        What the function returned.
    values : dict of list of ndarray
        For each name, the values in the order in which they were computed: in a loop, one for each
        step. Under `vmap`, all examples are in one array, along the first axis.
    cotangents : dict of list of ndarray
        The same for cotangents. Those of a loop begin with its last step.
    tangents : dict of list of ndarray
        The same for tangents, in forward mode.
    """

    def __init__(self) -> None:
        self.result: Any = None
        self.values: dict[str, list[np.ndarray[Any, Any]]] = {}
        self.cotangents: dict[str, list[np.ndarray[Any, Any]]] = {}
        self.tangents: dict[str, list[np.ndarray[Any, Any]]] = {}

    def __repr__(self) -> str:
        lines = []
        kinds: Mapping[str, Mapping[str, Sequence[np.ndarray[Any, Any]]]] = {
            "value": self.values, "tangent": self.tangents, "cotangent": self.cotangents,
        }  # fmt: skip
        for name in {**self.values, **self.tangents, **self.cotangents}:
            for kind, found in kinds.items():
                if name in found:
                    lines.append(f"{name}: {kind} {_described(found[name])}")
        return "\n".join(lines) or "nothing has a name: write debug.name(x, 'x') in the function"


def _described(arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    last = arrays[-1]
    times = f"{len(arrays)} times " if len(arrays) > 1 else ""
    shape = f"{times}{last.dtype}[{', '.join(map(str, last.shape))}]"
    if last.dtype.kind not in "fc" or not last.size:
        return shape
    size = np.sqrt(np.mean([np.mean(np.abs(x) ** 2) for x in arrays]))
    return f"{shape}, root mean square {size:.3g}"


def _without_repetitions(graph: Graph) -> Graph:
    """The graph without dead code: values of a loop that its derivative recomputes."""
    names = [var for eqn in graph.eqns if eqn.primitive is named for var in eqn.outputs]
    return prune(Graph(graph.inputs, graph.eqns, [*graph.outputs, *names]))


class _Recorder(Observer):
    """Records the results of named equations."""

    def __init__(self, recording: Recording) -> None:
        self.again: dict[str, list[np.ndarray[Any, Any]]] = {}
        """Values that a backward pass computes once more."""
        self._by_kind = {
            "": recording.values,
            "tangent": recording.tangents,
            "cotangent": recording.cotangents,
            "again": self.again,
        }

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        kind = eqn.source.derivative if eqn.source is not None else ""
        if eqn.primitive is named:
            found = self._by_kind[kind].setdefault(eqn.params["name"], [])
            found.append(np.array(results[0]))


def record(function: Callable[..., Any], /) -> Callable[..., Recording]:
    """Record the named values inside an unchanged function, and their cotangents.

    Values get names by `name`. The function is evaluated once by NumPy, operation by operation.

    Parameters
    ----------
    function : callable
        Any function of arrays, transformed or not, compiled or not. For cotangents, one that
        computes a gradient: ``grad(f)``, or a whole training step.

    Returns
    -------
    callable
        Takes the arguments of ``function``, and returns a `Recording`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import debug, grad
    >>> def loss(w, x):
    ...     h = debug.name(np.tanh(x @ w), "h")
    ...     return np.sum(debug.name(h**2, "squares"))
    >>> seen = debug.record(grad(loss))(np.array([1.0, 2.0]), np.array([[0.5, 0.0], [0.0, 0.1]]))
    >>> seen.values["h"]
    [array([0.46211716, 0.19737532])]
    >>> seen.cotangents["h"]
    [array([0.92423431, 0.39475064])]
    >>> seen.result
    array([0.36343099, 0.03793723])
    """

    @boundary
    def recorded(*args: Any, **kwargs: Any) -> Recording:
        recording = Recording()
        program = function if isinstance(function, Jitted) else jit(function)
        path, inputs = program.path_of(args, kwargs)
        recorder = _Recorder(recording)
        with observed(recorder):
            outputs = by_numpy(_without_repetitions(path.graph), inputs)
        recording.values = {**recorder.again, **recording.values}
        count = len(path.graph.outputs)
        recording.result = path.structure.unflatten(outputs[len(path.outcomes) : count])
        return recording

    return recorded
