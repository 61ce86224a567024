"""The driver of a real GPU, by `cuda.core`, and by CUDA's driver API for fast calls.

Devices, streams, events, the memory pool, modules, launches and graphs are those of cuda.core.
Allocation and copies call the driver API (`cuda.bindings`) with plain integers, since ownership of
memory is managed in `functrans.run.cuda.memory`. A launch with six arguments took some 0.8 us by
cuda.core, and 1.8 us by ``cuLaunchKernel`` of cuda.bindings with arguments packed in Python
(measured once, on the tests' libcuda, without the time of NVIDIA's driver).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib import import_module
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from functrans.caches import Table
from functrans.errors import DeviceError
from functrans.locks import importing, lock
from functrans.run.cuda.driver import (
    Driver,
    Event,
    MemoryState,
    OutOfMemory,
    Properties,
    inherited,
    stream_name,
)
from functrans.run.cuda.free_lists import FreeLists
from functrans.trace.source import here

_INSTALL = 'pip install "functrans[cuda]"'

_SHARED_WITHOUT_ASKING = 48 << 10
"""The dynamic shared memory of a block, in bytes, that needs no opt-in."""


_PORTABLE = 1
"""CU_MEMHOSTALLOC_PORTABLE: pinned for all devices."""


def count(device: str) -> int:
    """The number of GPUs; raises if there is none.

    Raises `DeviceError` if there is no GPU, or a package is missing; the message says how to
    install it.
    """
    api = _api(device)
    try:
        (status,) = api.cuInit(0)
    except RuntimeError as error:  # the library is loaded on its first call
        raise DeviceError(
            f'device="{device}" needs NVIDIA\'s driver, and its library (libcuda) is not on this '
            "machine: install the driver for your GPU, or use a machine that has one"
        ) from error
    codes = api.CUresult
    if status == codes.CUDA_ERROR_NO_DEVICE:
        raise _no_gpu(device)
    if status in (codes.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, codes.CUDA_ERROR_UNKNOWN):
        raise DeviceError(
            f'device="{device}": NVIDIA\'s driver does not start ({status.name}): its parts are of '
            "different versions, or it was updated since this machine was started: restart it"
        )
    _checked(api, (status,))
    version = _checked(api, api.cuDriverGetVersion())
    needed = _major_of_bindings()
    if version // 1000 < needed:
        raise DeviceError(
            f'device="{device}": NVIDIA\'s driver on this machine is for CUDA {version // 1000}.'
            f"{version % 1000 // 10}, and the packages are for CUDA {needed}: update the driver"
        )
    number: int = _checked(api, api.cuDeviceGetCount())
    if not number:
        raise _no_gpu(device)
    return number


def _no_gpu(device: str) -> DeviceError:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
    return DeviceError(f'device="{device}": NVIDIA\'s driver finds no GPU on this machine{hidden}')


def _api(device: str) -> Any:
    """The driver API."""
    with importing:
        try:
            import_module("cuda.core")
            return import_module("cuda.bindings.driver")
        except ImportError as error:
            raise DeviceError(
                f'device="{device}" needs the package cuda-core, which is not installed here: '
                f"{_INSTALL}"
            ) from error


def _major_of_bindings() -> int:
    import cuda.bindings

    return int(cuda.bindings.__version__.partition(".")[0])


def _checked(api: Any, result: tuple[Any, ...]) -> Any:
    """The results of a driver API function, after checking its status."""
    status = result[0]
    if status:
        raise _failed(api, status)
    return result[1] if len(result) > 1 else None


def _failed(api: Any, status: Any) -> DeviceError:
    said = api.cuGetErrorString(status)[1]
    words = said.decode() if isinstance(said, bytes) else "no more is known"
    return DeviceError(f"the GPU's driver reports {status.name}: {words}{here()}")


Method = TypeVar("Method", bound=Callable[..., Any])


def _with_converted_errors(method: Method) -> Method:
    """A method that converts errors of cuda.core to this library's, with the user's line."""

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception as error:
            of_cuda = type(error) is RuntimeError or type(error).__module__.startswith("cuda.")
            if not of_cuda:  # the captured function may raise, too
                raise
            raise _converted(error) from error

    return call  # type: ignore[return-value]


def _converted(error: Exception) -> DeviceError:
    return DeviceError(f"the GPU's driver reports {error}{here()}")


class CoreStream:
    """A stream, with its cuda.core object and its driver API handle."""

    __slots__ = ("__weakref__", "driver", "handle", "kept", "native", "raw")

    def __init__(self, driver: CoreDriver, native: Any, raw: Any) -> None:
        self.driver = driver
        self.native = native
        self.raw = raw
        self.handle = int(raw)
        self.kept = FreeLists()

    def free_kept(self) -> None:
        """Return the memory kept for it to the pool."""
        for each in self.kept.clear():
            self.driver._free(each, self)

    def __del__(self) -> None:
        if not sys.is_finalizing() and not inherited():
            with suppress(DeviceError):  # the device has failed
                self.free_kept()


class CoreKernel:
    """A loaded kernel, and its recent launch configurations."""

    __slots__ = ("configurations", "native")

    def __init__(self, native: Any) -> None:
        self.native = native  # keeps its module alive
        self.configurations: Table[tuple[int, int, int], Any] = Table(16)


class CoreDriver:
    """A GPU, as `functrans.run.cuda.driver.Driver` describes it."""

    def __init__(self, ordinal: int) -> None:
        self.device = f"cuda:{ordinal}"
        self.ordinal = ordinal
        self._api = api = _api(self.device)
        self._call = partial(_checked, api)
        from cuda import core

        self._core = core
        self._launch = core.launch
        self._device = device = core.Device(ordinal)
        device.set_current()
        self._context = self._call(api.cuCtxGetCurrent())
        about = device.properties
        major, minor = device.compute_capability
        self.properties = Properties(
            name=str(device.name),
            architecture=f"sm_{major}{minor}",
            multiprocessors=about.multiprocessor_count,
            threads=about.max_threads_per_block,
            shared_bytes=about.max_shared_memory_per_block_optin,
        )
        # a private pool, whose size and trimming are controlled here
        self._resource = core.DeviceMemoryResource(ordinal, core.DeviceMemoryResourceOptions())
        self._pool = self._resource.handle
        kept = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        everything = api.cuuint64_t((1 << 64) - 1)  # a synchronization does not trim the pool
        self._call(api.cuMemPoolSetAttribute(self._pool, kept, everything))
        self._threads = threading.local()
        self._capturing = lock()
        self._foreign: Table[int, CoreStream] = Table(64)
        self._streams: WeakSet[CoreStream] = WeakSet()
        """The streams on which memory is allocated."""

    # ---- streams and events

    def stream(self) -> CoreStream:
        """The stream of this thread with the current name."""
        status = self._api.cuCtxSetCurrent(self._context)[0]
        if status:
            raise _failed(self._api, status)
        name = stream_name.get()
        try:
            return self._threads.streams[name]
        except (AttributeError, KeyError):
            made = self._made()
            vars(self._threads).setdefault("streams", {})[name] = made
            return made

    def transfers(self) -> CoreStream:
        """The stream of this thread for copies from the host."""
        try:
            return self._threads.transfers
        except AttributeError:
            made = self._threads.transfers = self._made()
            return made

    def _made(self) -> CoreStream:
        made = self._wrapped(self._device.create_stream())
        with self._capturing:  # other threads may iterate over them
            self._streams.add(made)
        return made

    @_with_converted_errors
    def foreign_stream(self, handle: int) -> CoreStream:
        """A stream of another package, which is not owned."""
        found = self._foreign.get(handle)
        if found is None:
            found = self._wrapped(self._core.Stream.from_handle(handle))
            self._foreign.remember(handle, found)
        return found

    def _wrapped(self, native: Any) -> CoreStream:
        return CoreStream(self, native, self._api.CUstream(int(native.handle)))

    @_with_converted_errors
    def record(self, stream: CoreStream, timed: bool = False) -> Event:
        """An event on a stream."""
        with self._current():
            options = self._core.EventOptions(timing_enabled=True) if timed else None
            return stream.native.record(options=options)

    @_with_converted_errors
    def wait(self, stream: CoreStream, event: Event) -> None:
        """Make a stream wait for an event."""
        with self._current():
            stream.native.wait(event)

    @_with_converted_errors
    def happened(self, event: Event) -> bool:
        """Whether an event has happened."""
        return bool(event.is_done)

    @_with_converted_errors
    def reach(self, event: Event) -> None:
        """Wait for an event."""
        event.sync()

    @_with_converted_errors
    def elapsed(self, start: Event, stop: Event) -> float:
        """The seconds between two timed events."""
        stop.sync()
        return float(stop - start) / 1e3

    def synchronize(self, stream: CoreStream | None = None) -> None:
        """Wait for a stream, or for all of them."""
        if stream is None:
            # a device cannot be synchronized while a stream is being captured
            with self._capturing, self._current():
                self._call(self._api.cuCtxSynchronize())
        else:
            self._call(self._api.cuStreamSynchronize(stream.raw))

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make the device the current one of this thread, within a block."""
        api = self._api
        self._call(api.cuCtxPushCurrent(self._context))
        try:
            yield
        finally:
            api.cuCtxPopCurrent()

    # ---- memory

    def allocate(self, nbytes: int, stream: CoreStream) -> int:
        """Memory of the pool."""
        kept = stream.kept.take(nbytes)
        if kept:
            return kept
        status, address = self._api.cuMemAllocFromPoolAsync(nbytes, self._pool, stream.raw)
        if status:
            if status == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise OutOfMemory(nbytes)
            raise _failed(self._api, status)
        return int(address)

    def free(
        self, address: int, stream: CoreStream, after: Sequence[Event] = (), nbytes: int = 0
    ) -> None:
        """Return memory to the pool, or keep it for the stream."""
        for event in after:
            self.wait(stream, event)
        for each in stream.kept.keep(address, nbytes):
            self._free(each, stream)

    def _free(self, address: int, stream: CoreStream) -> None:
        with self._current():
            self._call(self._api.cuMemFreeAsync(address, stream.raw))

    def _free_kept(self) -> None:
        """Return all memory kept for streams to the pool, and wait for that."""
        with self._capturing:
            streams = list(self._streams)
        for stream in streams:
            stream.free_kept()
        self.synchronize()

    def trim(self) -> None:
        """Return unused memory to the system."""
        self._free_kept()
        self._call(self._api.cuMemPoolTrimTo(self._pool, 0))

    def memory_state(self) -> MemoryState:
        """The state of the device's memory."""
        self._free_kept()
        status, free, total = self._api.cuMemGetInfo()
        self._call((status,))
        return MemoryState(total, free, self._resource.attributes.used_mem_current)

    def ordinal_of(self, address: int) -> int:
        """The number of the GPU that an address belongs to."""
        attribute = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._call(self._api.cuPointerGetAttribute(attribute, address)))

    # ---- copies

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Pinned memory, which is freed with the array."""
        with self._current():
            address = self._call(self._api.cuMemHostAlloc(nbytes, _PORTABLE))
        memory = (ctypes.c_ubyte * nbytes).from_address(int(address))
        # at the end of the process the driver may be unloaded
        weakref.finalize(memory, self._free_pinned, address).atexit = False
        return np.ctypeslib.as_array(memory)

    def _free_pinned(self, address: Any) -> None:
        with self._current():
            self._api.cuMemFreeHost(address)

    def copy_in(self, address: int, source: np.ndarray[Any, Any], stream: CoreStream) -> None:
        """Copy from the host."""
        self._call(
            self._api.cuMemcpyHtoDAsync(address, source.ctypes.data, source.nbytes, stream.raw)
        )

    def copy_out(self, target: np.ndarray[Any, Any], address: int, stream: CoreStream) -> None:
        """Copy to the host."""
        self._call(
            self._api.cuMemcpyDtoHAsync(target.ctypes.data, address, target.nbytes, stream.raw)
        )

    def copy(self, to: int, source: int, nbytes: int, stream: CoreStream) -> None:
        """Copy within the device."""
        self._call(self._api.cuMemcpyDtoDAsync(to, source, nbytes, stream.raw))

    def copy_from(
        self, to: int, other: Driver, source: int, nbytes: int, stream: CoreStream
    ) -> None:
        """Copy from another GPU, through the host if the two have no peer access."""
        assert isinstance(other, CoreDriver)
        self._call(
            self._api.cuMemcpyPeerAsync(
                to, self._context, source, other._context, nbytes, stream.raw
            )
        )

    def fill(self, address: int, byte: int, nbytes: int, stream: CoreStream) -> None:
        """Set bytes."""
        self._call(self._api.cuMemsetD8Async(address, byte, nbytes, stream.raw))

    # ---- kernels

    @_with_converted_errors
    def load(self, code: bytes, name: str, shared_bytes: int = 0) -> CoreKernel:
        """Load a kernel, and opt in to more dynamic shared memory if needed."""
        api = self._api
        module = self._core.ObjectCode.from_cubin(code)
        kernel = module.get_kernel(name)
        if shared_bytes > _SHARED_WITHOUT_ASKING:
            most = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device = api.CUdevice(self.ordinal)
            self._call(api.cuKernelSetAttribute(most, shared_bytes, kernel.handle, device))
        return CoreKernel(kernel)

    def launch(
        self,
        kernel: CoreKernel,
        blocks: int,
        threads: int,
        arguments: Sequence[int],
        stream: CoreStream,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a kernel."""
        configuration = kernel.configurations.get((blocks, threads, shared_bytes))
        try:
            if configuration is None:
                configuration = self._configured(kernel, blocks, threads, shared_bytes)
            # plain integers are passed as eight bytes
            self._launch(stream.native, configuration, kernel.native, *arguments)
        except Exception as error:
            raise _converted(error) from error

    def _configured(self, kernel: CoreKernel, blocks: int, threads: int, shared_bytes: int) -> Any:
        made = self._core.LaunchConfig(grid=blocks, block=threads, shmem_size=shared_bytes)
        kernel.configurations.remember((blocks, threads, shared_bytes), made)
        return made

    @_with_converted_errors
    def capture(self, record: Callable[[CoreStream], object], graph: Any = None) -> Any:
        """Capture the launches of a function.

        A separate stream is captured, so that memory that any thread frees during the capture is
        freed on other streams, and not recorded in the graph.
        """
        with self._capturing:
            return self._captured(record, graph)

    def _captured(self, record: Callable[[CoreStream], object], graph: Any) -> Any:
        builder = self._device.create_graph_builder()
        try:
            builder.begin_building("relaxed")
            try:
                record(self._wrapped(builder.stream))
            finally:
                builder.end_building()
            if graph is not None:
                try:
                    graph.update(builder)
                    return graph
                except Exception:  # the topology differs: instantiate a new graph
                    graph.close()
            return builder.complete()
        finally:
            builder.close()

    @_with_converted_errors
    def replay(self, graph: Any, stream: CoreStream) -> None:
        """Run a graph."""
        graph.launch(stream.native)
