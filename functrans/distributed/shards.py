"""shard_map: each process of a mesh applies a function to its own parts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

import numpy as np

from functrans.api.arguments import (
    argument_name,
    as_array,
    aval_of_leaf,
    check_callable,
    leaf_of_call,
    name_of,
)
from functrans.api.flat import Flat
from functrans.api.linearization import run
from functrans.api.mapping import vmap
from functrans.api.transformed import transform
from functrans.distributed.mesh import Mesh, PartitionSpec
from functrans.errors import AxesError, ShapeError, TreeMismatchError
from functrans.ir.graph import Graph
from functrans.ir.types import describe, interned
from functrans.lazily import lazy
from functrans.ops.arrays.structural import made, reshape, transpose
from functrans.ops.collectives.collectives import all_gather, lane_number, own_part
from functrans.run.call.ownership import own
from functrans.trace.axes import Axis, Names, check_name, declare, entered
from functrans.trace.stage import stage
from functrans.transform.variance import explicit, variance
from functrans.tree import core as tree
from functrans.tree.compare import Structure

_check_same = lazy("functrans.distributed.mpi:check_same")

_INDEX = np.dtype(np.int64)


@transform
def shard_map(
    function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any, *, local: bool = False
) -> Callable[..., Any]:
    """Run a function on the parts of arrays, each in a process of a mesh.

    Each process runs ``function`` on its parts. The axes of the mesh are named axes: collectives
    (`functrans.lax.psum` and others) work along them, and derivatives take into account which
    values vary along them, as under ``vmap(axis_name=...)``.

    Parameters
    ----------
    function : callable
        Takes and returns pytrees of arrays: the parts.
    mesh : Mesh
    in_specs : PartitionSpec, or a tuple with an entry for each argument
        How arguments are divided. An entry may be a pytree that is a prefix of the argument.
    out_specs : PartitionSpec, or a pytree that is a prefix of the result
        How results are composed of their parts. A result that is not divided along an axis of the
        mesh must be equal along it.
    local : bool, optional
        By default, every process has whole arrays as arguments and results, and takes its part. If
        ``local``, these are only its own parts, and no messages are needed to compose results. A
        process that simulates the others always has whole arrays.

    Returns
    -------
    callable
        Takes the positional arguments of ``function``. `functrans.grad`, `functrans.jit` and
        `functrans.vmap` apply to it.

    Raises
    ------
    AxesError
        If a spec does not fit: it names an axis that the mesh does not have, or a result varies
        along an axis that its spec does not name.
    ShapeError
        If an axis of an array cannot be divided into equal parts.
    RuntimeError
        In all processes, if they have traced different programs.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax
    >>> from functrans.distributed import Mesh, P, shard_map
    >>> mesh = Mesh({"data": 2})
    >>> def loss(w, x, y):
    ...     return lax.pmean(np.mean((x @ w - y) ** 2), "data")
    >>> total = shard_map(loss, mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
    >>> x, w = np.arange(8.0).reshape(4, 2), np.array([1.0, -1.0])
    >>> total(w, x, np.zeros(4)), grad(total)(w, x, np.zeros(4))
    (np.float64(1.0), array([-6., -8.]))
    """
    check_callable(function, "shard_map")
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh of shard_map must be a Mesh, not {describe(mesh)}")
    for specs, what in ((in_specs, "in_specs"), (out_specs, "out_specs")):
        for spec in tree.leaves(specs):
            _check_spec(spec, mesh, what)

    def sharded(*args: Any) -> Any:
        call = _Call(function, mesh, args, in_specs, out_specs)
        results = call.simulated() if mesh.engine == "sim" else call.distributed(local)
        return call.flat.result.unflatten(own(results, call.leaves))

    return sharded


def _check_spec(spec: Any, mesh: Mesh, what: str) -> None:
    if not isinstance(spec, PartitionSpec):
        raise AxesError(
            f"{what} of shard_map must hold PartitionSpecs, found {describe(spec)}: write P() for "
            'what is whole in every process, P("name") for what is divided along its first axis'
        )
    for name in spec.names:
        if name not in mesh.axes:
            raise AxesError(f"{what} of shard_map: {spec} names {name!r}, which {mesh} has not")


class _Call:
    """One call of a function on the parts of arrays."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Mesh,
        args: tuple[Any, ...],
        in_specs: Any,
        out_specs: Any,
    ) -> None:
        self.function = function
        self.mesh = mesh
        self.sizes = mesh.axes
        leaves, structure = tree.flatten(args)
        call = tree.structure((args, {}))

        def name(i: int) -> str:
            return leaf_of_call(function, call, i)

        self.name = name
        self.leaves = [as_array(x, name, i) for i, x in enumerate(leaves)]
        self.specs = _spread(function, args, in_specs)
        self.flat = Flat(function, structure, name_of(function))
        self.wanted = out_specs

    def simulated(self) -> Sequence[Any]:
        """All parts in this process: lanes along an axis for each axis of the mesh."""
        found: list[PartitionSpec] = []

        def part(*leaves: Any) -> list[Any]:
            outs = self.flat(*leaves)
            found[:] = self.out_specs(outs, [variance(x) for x in outs])
            return outs

        lanes: Callable[..., list[Any]] = part
        for name in reversed(self.sizes):
            lanes = self._along(lanes, name, found)
        outs = lanes(*(
            self._divided(x, spec, self.name(i))
            for i, (x, spec) in enumerate(zip(self.leaves, self.specs, strict=True))
        ))  # fmt: skip
        return [self._whole(x, spec) for x, spec in zip(outs, found, strict=True)]

    def _along(
        self, inner: Callable[..., list[Any]], name: str, found: Sequence[PartitionSpec]
    ) -> Callable[..., list[Any]]:
        """A function for all processes along one more axis, whose lanes are first."""

        def apart(*leaves: Any) -> tuple[list[Any], list[Any]]:
            outs = inner(*leaves)
            divided = [x for x, spec in zip(outs, found, strict=True) if name in spec.names]
            others = [x for x, spec in zip(outs, found, strict=True) if name not in spec.names]
            return divided, others

        in_axes = tuple(0 if name in spec.names else None for spec in self.specs)
        size = self.sizes[name]
        mapped = vmap(apart, in_axes, (0, None), axis_size=size, axis_name=name)

        def together(*leaves: Any) -> list[Any]:
            divided, others = map(iter, mapped(*leaves))
            return [next(divided if name in spec.names else others) for spec in found]

        return together

    def distributed(self, local: bool) -> Sequence[Any]:
        """The result from the part of this process, by messages to the others."""
        parts = list(self.leaves)
        if not local:
            parts = [
                self._own(self._divided(x, spec, self.name(i)), spec)
                for i, (x, spec) in enumerate(zip(self.leaves, self.specs, strict=True))
            ]
        graph, captures, found = self._staged(parts)
        lanes = [made(lane_number, **self._params(name), dtype=_INDEX) for name in self.sizes]
        outs = run(graph, [*parts, *lanes, *captures])
        if local:
            return outs
        return [
            self._whole(self._gathered(x, spec), spec) for x, spec in zip(outs, found, strict=True)
        ]

    def _staged(self, parts: Sequence[Any]) -> tuple[Graph, Sequence[Any], Sequence[PartitionSpec]]:
        """The differentiable program of a process, its captured values, and the specs."""
        names, count = list(self.sizes), len(parts)
        for name in names:
            check_name(name, "the mesh of shard_map")
        found: list[PartitionSpec] = []

        def part(*inputs: Any) -> list[Any]:
            leaves, lanes = inputs[:count], inputs[count:]
            with ExitStack() as stack:
                for name, lane in zip(names, lanes, strict=True):
                    axis = Axis(name, self.sizes[name], lane, self.mesh.links[name])
                    stack.enter_context(entered(axis))
                declare(leaves, [spec.names for spec in self.specs])
                declare(lanes, [frozenset({name}) for name in names])
                outs = self.flat(*leaves)
                found[:] = self.out_specs(outs, [variance(x) for x in outs])
            return outs

        avals = [aval_of_leaf(x) for x in parts]
        lanes = [interned((), _INDEX)] * len(names)
        staged = stage(part, [*avals, *lanes], kind="shard_map")
        _check_same(staged.graph, staged.captures, name_of(self.function))
        graph = staged.graph
        varying: list[Names] = [spec.names for spec in self.specs]
        varying += [frozenset({name}) for name in names]
        varying += [frozenset()] * len(staged.captures)
        for i, name in enumerate(names):
            flags = [name in each for each in varying]
            wanted = [name in spec.names for spec in found]
            lane = graph.inputs[count + i]
            graph = explicit(graph, flags, self._params(name), wanted, lane).graph
        return graph, staged.captures, found

    def out_specs(self, outs: Sequence[Any], varying: Sequence[Names]) -> list[PartitionSpec]:
        """The spec of each result, checked against what varies."""
        structure: Structure = self.flat.result
        try:
            specs = tree.broadcast_prefix(
                self.wanted, structure.unflatten(range(len(outs))), what="out_specs"
            )
        except TreeMismatchError as error:
            raise AxesError(str(error)) from None
        for i, (x, spec, names) in enumerate(zip(outs, specs, varying, strict=True)):
            path = tree.paths(structure.unflatten(range(len(outs))))[i]
            what = f"result {path} of {name_of(self.function)}".replace("result  ", "the result ")
            for name in sorted(names - spec.names):
                raise AxesError(
                    f"{what} varies along the axis {name!r}, and its spec {spec} in out_specs says "
                    f"that it is the same there: name {name!r} in the spec, or add the parts up "
                    f"(lax.psum(x, {name!r}))"
                )
            if len(spec.axes) > x.ndim:
                raise AxesError(f"out_specs: {spec} has more axes than {what}, of shape {x.shape}")
        return specs

    def _params(self, name: str) -> dict[str, Any]:
        return {"name": name, "size": self.sizes[name], "engine": self.mesh.links[name]}

    # -- the layout of parts -----------------------------------------------------------------------

    def _used(self, spec: PartitionSpec) -> list[str]:
        """The axes of the mesh that an array is divided along, in their order."""
        return [name for name in self.sizes if name in spec.names]

    def _order(self, spec: PartitionSpec, ndim: int) -> tuple[list[str], tuple[int, ...]]:
        """The axes of a divided array: names, each before the axis of a process's part.

        Returns ``[name, name, "", name, "", ...]``, and the permutation that moves the names, in
        the order of the mesh, to the front.
        """
        axes = [*spec.axes, *[()] * (ndim - len(spec.axes))]
        labels = [label for names in axes for label in (*names, "")]
        first = [labels.index(name) for name in self._used(spec)]
        rest = [i for i, label in enumerate(labels) if not label]
        return labels, (*first, *rest)

    def _divided(self, x: Any, spec: PartitionSpec, what: str) -> Any:
        """An array with an additional leading axis for each name."""
        shape = aval_of_leaf(x).shape
        if len(spec.axes) > len(shape):
            raise AxesError(f"in_specs: {spec} has more axes than {what}, of shape {shape}")
        if not spec.names:
            return x
        labels, order = self._order(spec, x.ndim)
        parts = [prod(self.sizes[name] for name in names) for names in spec.axes]
        extents = list(x.shape)
        for axis, (names, count) in enumerate(zip(spec.axes, parts, strict=True)):
            if extents[axis] % count:
                raise ShapeError(
                    f"{what} has shape {x.shape}, and its axis {axis} does not fall into equal "
                    f"parts for the {count} processes along {' and '.join(map(repr, names))}"
                )
            extents[axis] //= count
        rest = iter(extents)
        shape = tuple(self.sizes[label] if label else next(rest) for label in labels)
        return transpose(reshape(x, shape=shape), permutation=order)

    def _whole(self, x: Any, spec: PartitionSpec) -> Any:
        """The inverse of `_divided`."""
        if not spec.names:
            return x
        labels, order = self._order(spec, x.ndim - len(spec.names))
        back = tuple(int(i) for i in np.argsort(order))
        x = transpose(x, permutation=back)
        shape, count = [], 1
        for label, extent in zip(labels, x.shape, strict=True):
            count *= extent
            if not label:
                shape.append(count)
                count = 1
        return reshape(x, shape=tuple(shape))

    def _own(self, x: Any, spec: PartitionSpec) -> Any:
        for name in self._used(spec):
            lane = made(lane_number, **self._params(name), dtype=_INDEX)
            x = own_part(x, lane, axis=0, **self._params(name))
        return x

    def _gathered(self, x: Any, spec: PartitionSpec) -> Any:
        for name in reversed(self._used(spec)):
            lane = made(lane_number, **self._params(name), dtype=_INDEX)
            x = all_gather(x, lane, axis=0, **self._params(name))
        return x


def _spread(function: Callable[..., Any], args: tuple[Any, ...], specs: Any) -> list[PartitionSpec]:
    """The spec of each leaf of the arguments."""
    if isinstance(specs, PartitionSpec):
        specs = (specs,) * len(args)
    if not isinstance(specs, (tuple, list)) or len(specs) != len(args):
        count = len(specs) if isinstance(specs, (tuple, list)) else 1
        raise AxesError(
            f"in_specs has {count} entr{'y' if count == 1 else 'ies'}, but {name_of(function)} was "
            f"called with {len(args)} positional argument{'' if len(args) == 1 else 's'}"
        )
    found: list[PartitionSpec] = []
    for i, (spec, arg) in enumerate(zip(specs, args, strict=True)):
        try:
            found += tree.broadcast_prefix(spec, arg, what=f"in_specs[{i}]")
        except TreeMismatchError as error:
            raise AxesError(f"{error} ({argument_name(function, i)})") from None
    return found
