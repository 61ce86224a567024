"""Handles of the libraries: made when first used, one set for each stream of each thread.

A handle must not be used by two threads at once, and is bound to one stream of one device: so each
thread has a table of its own, by the device's context and the stream. What was made is destroyed in
the context that it was made in, by whichever thread lets go of it last.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from functrans.caches import Table, cached_property
from functrans.run.cuda.libraries.bindings import Bindings, bindings, checked, first_call

Workspace = Callable[[int], int]
"""Gives the address of device memory of a size in bytes, aligned to 256, that last until the stream
has done what is put there by the call at hand."""


@contextmanager
def pooled(allocate: Callable[[int], int], free: Callable[[int], object]) -> Iterator[Workspace]:
    """Working memory from a stream-ordered pool, for calls that are put on its stream meanwhile.

    All of it goes back to the pool at the end, in the order of the stream: after these calls.

    Parameters
    ----------
    allocate : callable
        Gives an address, aligned to 256, for a size in bytes.
    free : callable
        Takes an address back.
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
"""Bytes that cuBLAS works in while it is captured: what it takes for itself before Hopper."""

STREAMS = 64
"""The number of streams of which a thread keeps handles."""

PROBLEMS = 512
"""The number of products of which the descriptors and the algorithm are kept."""

TRANSFORMS = 64
"""The number of plans of Fourier transforms that are kept: each has some device memory."""


class Numbers(NamedTuple):
    """A dtype as the libraries name it.

    Parameters
    ----------
    letter : str
        What the names of its routines begin with.
    dtype : numpy dtype
        Of the scalars that are passed along.
    itemsize : int
        Of the elements of a matrix.
    kind : str
        The name of the elements in ``cudaDataType``.
    compute : str
        In which precision products are summed, a name in ``cublasComputeType_t``.
    narrow : str or None
        The name in ``cudaDataType`` of the elements that are multiplied, if these are half floats
        where the results are not.
    """

    letter: str
    dtype: np.dtype[Any]
    itemsize: int
    kind: str
    compute: str
    narrow: str | None = None


class Owned:
    """A handle of a library, which is destroyed when nobody has it any more."""

    def __init__(self, owner: Context, handle: int, destroy: Callable[[int], object]) -> None:
        self.handle = handle
        # the driver is gone before what is left at the end of the process would be destroyed
        weakref.finalize(self, owner.during, destroy, handle).atexit = False


class Context:
    """The context of a device that is the calling thread's current one."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._context = checked(driver.cuCtxGetCurrent())

    @property
    def key(self) -> int:
        """A number that no other context has."""
        return int(self._context)

    def during(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the context, whichever is the current one."""
        checked(self._driver.cuCtxPushCurrent(self._context))
        try:
            function(*arguments)
        finally:
            checked(self._driver.cuCtxPopCurrent())


class Handles:
    """The handles of the libraries for one stream, and what they keep for it.

    Parameters
    ----------
    libraries : Bindings
    context : Context
        That of the stream.
    stream : int
        The ``CUstream``.
    """

    def __init__(self, libraries: Bindings, context: Context, stream: int) -> None:
        self.libraries = libraries
        self.context = context
        self.stream = stream
        self.products: Table[Any, Any] = Table(PROBLEMS)
        self.transforms: Table[Any, Any] = Table(TRANSFORMS)
        self._host = np.zeros(0, np.uint8)
        self._kept: list[object] | None = None

    def owned(self, handle: int, destroy: Callable[[int], object]) -> Owned:
        """Something that a library has made in this context."""
        return Owned(self.context, handle, destroy)

    @cached_property
    def _blas(self) -> Owned:
        library = self.libraries.cublas
        made = self.owned(first_call("cuBLAS", library.create), library.destroy)
        library.set_stream(made.handle, self.stream)
        return made

    @cached_property
    def _light(self) -> Owned:
        library = self.libraries.cublas_lt
        return self.owned(first_call("cuBLASLt", library.create), library.destroy)

    @cached_property
    def _solver(self) -> Owned:
        library = self.libraries.cusolver_dn
        made = self.owned(first_call("cuSOLVER", library.create), library.destroy)
        library.set_stream(made.handle, self.stream)
        return made

    @cached_property
    def _parameters(self) -> Owned:
        library = self.libraries.cusolver_dn
        create = library.create_params
        return self.owned(first_call("cuSOLVER", create), library.destroy_params)

    @property
    def blas(self) -> int:
        """The ``cublasHandle_t``, on the stream."""
        return self._blas.handle

    @property
    def light(self) -> int:
        """The ``cublasLtHandle_t``."""
        return self._light.handle

    @property
    def solver(self) -> int:
        """The ``cusolverDnHandle_t``, on the stream."""
        return self._solver.handle

    @property
    def parameters(self) -> int:
        """The ``cusolverDnParams_t`` of the default algorithms."""
        return self._parameters.handle

    def kind(self, numbers: Numbers) -> Any:
        """A dtype as a member of ``cudaDataType``."""
        return self.libraries.data_type[numbers.kind]

    @contextmanager
    def captured(self, stream: int, room: int) -> Iterator[list[object]]:
        """Calls meanwhile are captured: what they use must live as long as their CUDA graph.

        Handles are made before, since making one allocates memory; and cuBLAS, which would allocate
        more for each stream that it finds captured, is given some.

        Parameters
        ----------
        stream : int
            The ``CUstream`` that is captured.
        room : int
            The address of `BLAS_WORKSPACE` bytes, which whoever replays the graph has.
        """
        own, blas = self.stream, self.libraries.cublas
        self._kept = [self, self._light]
        try:
            blas.set_stream(self.blas, stream)
            blas.set_workspace(self.blas, room, BLAS_WORKSPACE)
            self.stream = stream
            yield self._kept
        finally:
            self.stream, self._kept = own, None
            blas.set_stream(self.blas, own)  # which makes the workspace its own again

    def uses(self, something: object) -> None:
        """Say what the work on the stream goes on using."""
        if self._kept is not None:
            self._kept.append(something)

    def on_host(self, nbytes: int) -> int:
        """The address of host memory of a size in bytes, for the call at hand."""
        if nbytes > self._host.nbytes:
            self._host = np.zeros(nbytes, np.uint8)
        return int(self._host.ctypes.data) if nbytes else 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.handles: Table[tuple[int, int], Handles] = Table(STREAMS)


_thread = _Thread()


def handles_for(stream: int, libraries: Bindings | None = None) -> Handles:
    """The calling thread's handles for a stream of its current device.

    Parameters
    ----------
    stream : int
        The ``CUstream``.
    libraries : Bindings, optional
        Others than this machine's.

    Raises
    ------
    DeviceError
        If the libraries are not installed.
    """
    found = libraries or bindings()
    context = Context(found.driver)
    key = context.key, stream
    handles = _thread.handles.get(key)
    if handles is None or handles.libraries is not found:
        handles = Handles(found, context, stream)
        _thread.handles.remember(key, handles)
    return handles
