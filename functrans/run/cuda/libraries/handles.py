"""Handles of the libraries: created at first use, one set for each stream of each thread.

A handle must not be used by two threads at once, and is bound to one stream of one device. So each
thread has a table of its own, whose keys are a device's context and a stream. A handle is destroyed
in the context in which it was created, by the thread that drops the last reference to it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrans.caches import Table, cached_property
from functrans.records import NamedTuple
from functrans.run.cuda.libraries.bindings import Bindings, bindings, checked, first_call

Workspace = Callable[[int], int]
"""Returns the address of device memory of a given number of bytes, aligned to 256. The memory lasts
until the stream has executed the work of the current call."""


@contextmanager
def pooled(
    allocate: Callable[[int], int],  # returns an address, aligned to 256, for a size in bytes
    free: Callable[[int], object],  # frees the memory at an address
) -> Iterator[Workspace]:
    """A context with working memory from a stream-ordered pool, for calls on the pool's stream.

    At the end, the memory is returned to the pool in the order of the stream: after these calls.
    """
    taken: list[int] = []

    def take(nbytes: int) -> int:
        taken.append(allocate(nbytes))
        return taken[-1]

    try:
        yield take
    finally:
        for address in reversed(taken):
            free(address)


BLAS_WORKSPACE = 4 << 20
"""Bytes of cuBLAS's workspace while it is captured: as much as it allocates before Hopper."""

STREAMS = 64
"""The most streams for which a thread keeps handles."""

PROBLEMS = 512
"""The most products whose descriptors and algorithms are kept."""

TRANSFORMS = 64
"""The most plans of Fourier transforms that are kept: each has some device memory."""


class Numbers(NamedTuple):
    """A dtype as the libraries name it."""

    letter: str  # the first letter of the names of its routines
    dtype: np.dtype[Any]  # the dtype of scalar arguments
    itemsize: int  # the size of a matrix's elements in bytes
    kind: str  # the name of the elements in ``cudaDataType``
    compute: str  # the precision in which products are summed, a name in ``cublasComputeType_t``
    # the name in ``cudaDataType`` of the operands' elements, if these are half floats and the
    # results are not
    narrow: str | None = None


class Work(NamedTuple):
    """What a routine works with: a dtype, the handles of a stream, and working memory."""

    numbers: Numbers
    handles: Handles
    workspace: Workspace

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.numbers.itemsize

    @property
    def kind(self) -> Any:
        """The dtype as a member of ``cudaDataType``."""
        return self.handles.libraries.data_type[self.numbers.kind]

    def room(self, count: int) -> int:
        """Working memory for a number of elements."""
        return self.workspace(count * self.size) if count else 0

    def routine(self, library: Any, name: str) -> Any:
        """A function of a library, which has one for each dtype."""
        return getattr(library, self.numbers.letter + name)


class Owned:
    """A handle of a library, which is destroyed with the last reference to it."""

    def __init__(self, owner: Context, handle: int, destroy: Callable[[int], object]) -> None:
        self.handle = handle
        # at the end of the process, the driver is gone before the remaining handles
        weakref.finalize(self, owner.during, destroy, handle).atexit = False


class Context:
    """The context of a device that is the calling thread's current one."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._context = checked(driver.cuCtxGetCurrent())

    @property
    def key(self) -> int:
        """A number that identifies the context."""
        return int(self._context)

    def during(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in this context, whichever context is current."""
        checked(self._driver.cuCtxPushCurrent(self._context))
        try:
            function(*arguments)
        finally:
            checked(self._driver.cuCtxPopCurrent())


class Handles:
    """The handles of the libraries for one stream, and the objects kept for it."""

    def __init__(
        self,
        libraries: Bindings,
        context: Context,  # the stream's context
        stream: int,  # the ``CUstream``
    ) -> None:
        self.libraries = libraries
        self.context = context
        self.stream = stream
        self.products: Table[Any, Any] = Table(PROBLEMS)
        self.transforms: Table[Any, Any] = Table(TRANSFORMS)
        self._host = np.zeros(0, np.uint8)
        self._owned: list[Owned] = []
        self._kept: list[object] | None = None

    def owned(self, handle: int, destroy: Callable[[int], object]) -> Owned:
        """An owned handle that a library has created in this context."""
        return Owned(self.context, handle, destroy)

    def _created(self, library: str, module: Any, of: str = "") -> int:
        """A handle that a library creates, or parameters ``of`` it, until these handles go."""
        create, destroy = (getattr(module, name + of) for name in ("create", "destroy"))
        self._owned.append(self.owned(first_call(library, create), destroy))
        return self._owned[-1].handle

    @cached_property
    def blas(self) -> int:
        """The ``cublasHandle_t``, on the stream."""
        made = self._created("cuBLAS", self.libraries.cublas)
        self.libraries.cublas.set_stream(made, self.stream)
        return made

    @cached_property
    def light(self) -> int:
        """The ``cublasLtHandle_t``."""
        return self._created("cuBLASLt", self.libraries.cublas_lt)

    @cached_property
    def solver(self) -> int:
        """The ``cusolverDnHandle_t``, on the stream."""
        made = self._created("cuSOLVER", self.libraries.cusolver_dn)
        self.libraries.cusolver_dn.set_stream(made, self.stream)
        return made

    @cached_property
    def parameters(self) -> int:
        """The ``cusolverDnParams_t`` of the default algorithms."""
        return self._created("cuSOLVER", self.libraries.cusolver_dn, "_params")

    @contextmanager
    def captured(
        self,
        stream: int,  # the ``CUstream`` that is captured
        room: int,  # the address of `BLAS_WORKSPACE` bytes, which the owner of the graph keeps
    ) -> Iterator[list[object]]:
        """A context whose calls are captured: objects they use must outlive their CUDA graph.

        Handles are created before, since creating one allocates memory. cuBLAS, which would
        allocate a workspace for each captured stream, is given one.
        """
        own, blas = self.stream, self.libraries.cublas
        self._kept = [self, self.light]
        try:
            blas.set_stream(self.blas, stream)
            blas.set_workspace(self.blas, room, BLAS_WORKSPACE)
            self.stream = stream
            yield self._kept
        finally:
            self.stream, self._kept = own, None
            blas.set_stream(self.blas, own)  # cuBLAS then uses its own workspace again

    def uses(self, something: object) -> None:
        """Record an object that work on the stream still uses."""
        if self._kept is not None:
            self._kept.append(something)

    def on_host(self, nbytes: int) -> int:
        """The address of host memory of a size in bytes, for the current call."""
        if nbytes > self._host.nbytes:
            self._host = np.zeros(nbytes, np.uint8)
        return int(self._host.ctypes.data) if nbytes else 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.handles: Table[tuple[int, int], Handles] = Table(STREAMS)


_thread = _Thread()


def handles_for(
    stream: int,  # the ``CUstream``
    libraries: Bindings | None = None,  # the bindings; those of this machine if not given
) -> Handles:
    """The calling thread's handles for a stream of its current device.

    Raises `DeviceError` if the libraries are not installed.
    """
    found = libraries or bindings()
    context = Context(found.driver)
    key = context.key, stream
    handles = _thread.handles.get(key)
    if handles is None or handles.libraries is not found:
        handles = Handles(found, context, stream)
        _thread.handles.remember(key, handles)
    return handles
