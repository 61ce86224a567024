"""Meshes: named axes of processes, along which arrays are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from functrans.errors import AxesError
from functrans.lazily import lazy

_connected = lazy("functrans.distributed.mpi:connected")

ENGINES = ("sim", "mpi")


class PartitionSpec:
    """Partition of the axes of an array along the axes of a mesh.

    Parameters
    ----------
    *axes : None, str or tuple of str
        For each axis of the array, the axis (or axes, the slowest first) of the mesh along which it
        is split. None, or no entry for the last axes, means that it is not split.

    Examples
    --------
    >>> from functrans.distributed import P
    >>> P("data"), P(None, ("rows", "columns")), P()
    (P('data'), P(None, ('rows', 'columns')), P())
    """

    def __init__(self, *axes: str | Sequence[str] | None) -> None:
        self.axes = tuple(
            () if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)
            for axis in axes
        )
        names = [name for axis in self.axes for name in axis]
        for name in names:
            if not isinstance(name, str):
                raise AxesError(f"{self} has {name!r} for the name of an axis of a mesh")
            if names.count(name) > 1:
                raise AxesError(f"{self} divides two axes along {name!r}")
        self.names = frozenset(names)

    def __repr__(self) -> str:
        shown = [axis[0] if len(axis) == 1 else axis or None for axis in self.axes]
        return f"P({', '.join(map(repr, shown))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)


P = PartitionSpec


class Mesh:
    """Processes along named axes.

    Parameters
    ----------
    axes : dict of int
        The names of the axes, and the number of processes along each.
    engine : {"sim", "mpi"}, optional
        With ``"sim"``, all processes are simulated in this one by `vmap`, with the same results up
        to rounding, which suffices for tests. With ``"mpi"``, ``mpiexec`` has started each process
        with the same program; it needs mpi4py. The threads of a machine are divided among its
        processes, unless ``FUNCTRANS_NUM_THREADS`` is set.

    Attributes
    ----------
    axes : dict of int
    engine : str
    size : int
        The number of processes.
    rank : int
        The number of this process; 0 if they are simulated.

    Raises
    ------
    ValueError
        If the engine is not known, if a size is less than 1, or if MPI has started another number
        of processes.
    ImportError
        If mpi4py is not installed.

    Examples
    --------
    >>> from functrans.distributed import Mesh
    >>> Mesh({"data": 4})
    Mesh({'data': 4}, engine='sim')
    """

    def __init__(self, axes: Mapping[str, int], engine: str = "sim") -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine of a Mesh is 'sim' or 'mpi', not {engine!r}")
        self.axes = dict(axes)
        self.engine = engine
        for name, size in self.axes.items():
            if not isinstance(name, str) or not isinstance(size, int) or size < 1:
                raise ValueError(
                    f"a Mesh has names and positive numbers of processes, not {name!r}: {size!r}"
                )
        self.size = prod(self.axes.values())
        self.links: dict[str, Any] = dict.fromkeys(self.axes)
        """For each axis, the engine that passes messages along it; None if none are needed."""
        self.rank = 0
        if engine == "mpi":
            self.rank, self.links = _connected(tuple(self.axes.items()))

    def __repr__(self) -> str:
        return f"Mesh({self.axes}, engine={self.engine!r})"
