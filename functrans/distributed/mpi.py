"""Collectives by MPI: the buffer calls of mpi4py, along the axes of a mesh.

A `Link` is a plain value, equal in all processes, so that it can be a parameter of an equation and
part of a program on disk. The communicators behind it belong to the process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from time import sleep
from types import TracebackType
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import cached, once
from functrans.distributed import handles
from functrans.ir.graph import Graph
from functrans.ir.serial import record
from functrans.ir.text import graph_text
from functrans.ir.types import is_inexact
from functrans.locks import lock
from functrans.records import NamedTuple
from functrans.run.call import memory
from functrans.run.code import messages

Axes = tuple[tuple[str, int], ...]

_communicators: dict[Axes, dict[str, Any]] = {}
_lock = lock()


@once
def _mpi() -> Any:
    """The module of mpi4py's; importing it starts MPI."""
    try:
        return import_module("mpi4py.MPI")
    except ImportError as error:
        raise ImportError(
            "a Mesh with engine='mpi' needs mpi4py and an MPI library: pip install "
            "'functrans[mpi]', or engine='sim' for simulated processes"
        ) from error


@cached(64)
def _key(link: Link) -> str:
    return sha256(repr(tuple(link)).encode()).hexdigest()[:16]


@record
class Link(NamedTuple):
    """The processes of a mesh along one of its axes, seen from this one."""

    axes: Axes
    name: str

    @property
    def key(self) -> str | None:
        """The identifier of these processes in compiled code; None if that cannot call MPI."""
        return _key(self) if handles.functions(_mpi()) else None

    @property
    def _along(self) -> Any:
        return _communicators[self.axes][self.name]

    def number(self) -> int:
        """The number of this process along the axis."""
        return self._along.Get_rank()

    def pvary(self, x: Any) -> Any:
        return x

    def psum(self, x: Any) -> Any:
        return self._reduced(x, "SUM")

    def pmax(self, x: Any) -> Any:
        return self._extreme(x, "MAX")

    def pmin(self, x: Any) -> Any:
        return self._extreme(x, "MIN")

    def all_gather(self, x: Any, axis: int) -> Any:
        sent = _sendable(x)
        received = _room((self._along.Get_size(), *sent.shape), sent.dtype)
        self._along.Allgather(sent, received)
        return _as(np.moveaxis(received, 0, axis), x.dtype)

    def own_part(self, x: Any, axis: int) -> Any:
        return np.take(x, self.number(), axis)

    def psum_scatter(self, x: Any, axis: int) -> Any:
        sent = _sendable(np.moveaxis(np.asarray(x), axis, 0))
        received = _room(sent.shape[1:], sent.dtype)
        self._along.Reduce_scatter_block(sent, received, _mpi().SUM)
        return _as(received, x.dtype)

    def all_to_all(self, x: Any, axis: int) -> Any:
        sent = _sendable(np.moveaxis(np.asarray(x), axis, 0))
        received = _room(sent.shape, sent.dtype)
        self._along.Alltoall(sent, received)
        return _as(np.moveaxis(received, 0, axis), x.dtype)

    def ppermute(self, x: Any, moves: tuple[tuple[int, int], ...]) -> Any:
        here, nobody = self.number(), _mpi().PROC_NULL
        receiver = next((to for sender, to in moves if sender == here), nobody)
        sender = next((sender for sender, to in moves if to == here), nobody)
        sent = _sendable(x)
        received = np.zeros_like(sent)
        self._along.Sendrecv(sent, receiver, recvbuf=received, source=sender)
        return _as(received, x.dtype)

    def _reduced(self, x: Any, operation: str) -> Any:
        sent = _sendable(x)
        received = _room(sent.shape, sent.dtype)
        self._along.Allreduce(sent, received, getattr(_mpi(), operation))
        return _as(received, x.dtype)

    def _extreme(self, x: Any, operation: str) -> Any:
        """The maximum or minimum; NaN if there is one, which MPI does not guarantee."""
        x = np.asarray(x)
        if not is_inexact(x.dtype):
            return self._reduced(x, operation)
        bad = np.isnan(x)
        found = self._reduced(np.where(bad, 0, x).astype(x.dtype), operation)
        missing = self._reduced(bad, "MAX")
        return np.where(missing, np.nan, found).astype(x.dtype)[()]


_AS_THEY_ARE = frozenset(map(np.dtype, "bhilqBHILQfdFD"))
"""The dtypes for which MPI has reductions; looking them up here saves some microseconds."""


def _sendable(x: Any) -> Any:
    """Contiguous, in a dtype that MPI has: truth values as bytes, half floats as float32."""
    if type(x) is np.ndarray and x.dtype in _AS_THEY_ARE and x.flags.c_contiguous:
        return x
    x = np.asarray(x)
    if x.dtype == np.bool_:
        x = x.astype(np.uint8)
    elif x.dtype not in _AS_THEY_ARE and x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    return np.require(x, requirements=["C", "A"])


def _room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if not memory.is_large(shape, dtype):
        return np.empty(shape, dtype)
    (room,) = memory.results([(shape, dtype)])
    return room


def _as(x: Any, dtype: np.dtype[Any]) -> Any:
    """The received array, in the dtype that was sent; a scalar if it has no axes."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    return x if x.ndim else x[()]


def connected(axes: Axes) -> tuple[int, dict[str, Link]]:
    """The number of this process in a mesh, and its links along the axes; all processes call it.

    Raises
    ------
    ValueError
        If the number of processes is not that of the mesh.
    """
    mpi = _mpi()
    world = mpi.COMM_WORLD
    count = int(np.prod([size for _, size in axes], dtype=int))
    if count != world.Get_size():
        raise ValueError(
            f"Mesh({dict(axes)}) has {count} processes, and MPI has started {world.Get_size()}: "
            f"mpiexec -n {count} python -m mpi4py program.py"
        )
    with _lock:
        if axes not in _communicators:
            if not _communicators:
                _share_threads(mpi)
                _end_all_together(mpi)
            grid = world.Create_cart([size for _, size in axes])
            _communicators[axes] = {
                name: grid.Sub([i == j for j in range(len(axes))])
                for i, (name, _) in enumerate(axes)
            }
            _let_code_find(axes)
    return world.Get_rank(), {name: Link(axes, name) for name, _ in axes}


def _let_code_find(axes: Axes) -> None:
    """Let compiled code pass messages along the axes of a mesh, if it can call MPI."""
    addresses = handles.functions(_mpi())
    for name, communicator in _communicators[axes].items():
        key = Link(axes, name).key
        if addresses is not None and key is not None:
            messages.enter(key, handles.Handles(_mpi(), communicator, addresses))


def _share_threads(mpi: Any) -> None:
    """Divide the threads of a machine among its processes; with more, they would wait."""
    if "FUNCTRANS_NUM_THREADS" not in os.environ:
        here = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
        share = (os.cpu_count() or 1) // here.Get_size()
        config.threads = min(config.threads, max(1, share))
        here.Free()


FORWARDING = 1.0
"""Seconds for mpiexec to forward the output of a process, before all processes are aborted."""


def _end_all_together(mpi: Any) -> None:
    """When a process fails, print its error and end the others, which would wait for it."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        sys.stderr.flush()
        if not issubclass(kind, SystemExit) and mpi.COMM_WORLD.Get_size() > 1:
            sleep(FORWARDING)
            mpi.COMM_WORLD.Abort(1)

    sys.excepthook = hook


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def check_same(graph: Graph, closed_over: Sequence[Any], what: str) -> None:
    """Raise in all processes if they are about to run different programs, which would hang.

    Raises
    ------
    RuntimeError
        If their programs, or arrays that the function closes over, differ.
    """
    world = _mpi().COMM_WORLD
    program = _ADDRESS.sub("", graph_text(graph))
    arrays = [np.ascontiguousarray(x) for x in closed_over if isinstance(x, np.ndarray)]
    found = world.allgather([sha256(program.encode()).digest()] + [_digest(x) for x in arrays])
    others = [rank for rank, own in enumerate(found) if own != found[0]]
    if not others:
        return
    if any(found[rank][0] != found[0][0] for rank in others):
        raise RuntimeError(
            f"{what} has become another program in the processes {others} than in process 0. What "
            "is traced must not depend on the process: lax.axis_index gives its number as a traced "
            f"value. The program of process {world.Get_rank()}:\n{program}"
        )
    raise RuntimeError(
        f"{what} closes over arrays that are not the same in the processes {others} and in process "
        "0. What differs is an argument, with a spec in in_specs that names an axis of the mesh"
    )


def _digest(x: Any) -> bytes:
    return sha256(repr((x.shape, x.dtype)).encode() + x.tobytes()).digest()
