"""Arrays on a GPU."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from functrans.errors import MutationError
from functrans.ir.on_device import OnDevice
from functrans.ir.types import is_bfloat16
from functrans.run.cuda import answers, dlpack
from functrans.run.cuda.driver import Driver, Stream, driver
from functrans.run.cuda.memory import Memory, allocate
from functrans.run.cuda.pending import Pending, look
from functrans.run.cuda.staging import staged
from functrans.trace import protocols

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_FULL, _HEAD = 64, 4
"""The largest size that is printed completely, and the number of printed elements of others."""


class DeviceArray(NDArrayOperatorsMixin, OnDevice):
    """An array in the memory of a GPU, C-contiguous. `functrans.device_put` makes one.

    It is immutable: every operation returns another array. Work is queued on a stream, and Python
    continues; reading elements (``np.asarray(x)``, ``float(x)``, ``print(x)``) waits for them, and
    raises an error if the program that computed them failed.

    CuPy, PyTorch and others accept it without a copy, by DLPack or ``__cuda_array_interface__``.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    memory : Memory
        Its memory, and the streams that use it.
    pending : tuple of Status
        The status words to check before the numbers are valid.
    """

    __slots__ = ("__weakref__", "dtype", "memory", "pending", "shape")

    def __init__(
        self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any], pending: Pending = ()
    ) -> None:
        self.memory = memory
        self.shape = shape
        self.dtype = dtype
        self.pending = pending

    # ---- properties

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The GPU that it is on: ``"cuda:0"``."""
        return self.memory.driver.device

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        size, dtype = self.size, self.dtype
        try:
            # elements that are not printed are not copied
            values = to_host([self])[0] if size <= _FULL else _head(self)
        except Exception as error:  # printing must work for arrays of failed programs
            said = f"failed: {type(error).__name__}: {error}"
            return f"DeviceArray(shape={self.shape}, dtype={dtype}, device={self.device!r}, {said})"
        text = np.array2string(values, separator=", ", prefix="DeviceArray(")
        if size > _FULL:
            text = f"{text[:-1]}, ...], shape={self.shape}"
        elif not size:
            text = f"[], shape={self.shape}"
        return f"DeviceArray({text}, dtype={dtype}, device={self.device!r})"

    # ---- looking at the numbers

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                f"an array on {self.device} cannot be had on the host without a copy: leave out "
                "copy=False"
            )
        values = to_host([self])[0]
        return values if dtype is None else values.astype(dtype, copy=False)

    def block_until_ready(self) -> DeviceArray:
        """Wait until the array has been computed, and raise if that failed.

        Returns
        -------
        DeviceArray
            The same array.
        """
        here = self.memory.driver
        stream = here.stream()
        self.memory.read(stream)
        here.synchronize(stream)
        self.check()
        return self

    def check(self) -> None:
        """Raise if the program that computed the array has failed; waits if it can fail."""
        if self.pending:
            look(self.pending)
            self.pending = ()

    def tolist(self) -> Any:
        """The numbers as nested Python lists."""
        return to_host([self])[0].tolist()

    def item(self, *index: Any) -> Any:
        """One element as a Python number: as ``ndarray.item``."""
        return to_host([self])[0].item(*index)

    def __bool__(self) -> bool:
        return bool(to_host([self])[0])

    def __int__(self) -> int:
        return int(to_host([self])[0])

    def __float__(self) -> float:
        return float(to_host([self])[0])

    def __complex__(self) -> complex:
        return complex(to_host([self])[0])

    def __index__(self) -> int:
        return operator.index(to_host([self])[0])

    def __format__(self, specification: str) -> str:
        if self.shape:
            return format(str(self), specification)
        return format(self.item(), specification)

    # ---- other arrays of the same numbers

    def copy(self) -> DeviceArray:
        """Return a copy on the same device, in memory of its own.

        Returns
        -------
        DeviceArray
        """
        return self.part(0, self.shape)

    def to_device(self, device: str) -> Any:
        """Return the array on another device, or, on ``"cpu"``, as an ndarray.

        Parameters
        ----------
        device : str
            ``"cuda:1"``, or ``"cpu"``.

        Returns
        -------
        DeviceArray or numpy.ndarray
            The array itself, if it is on that device.

        Raises
        ------
        DeviceError
            If the device does not exist.
        DeviceMemoryError
            If there is no room.
        """
        if device == "cpu":
            return to_host([self])[0]
        there, here = driver(device), self.memory.driver
        if there is here:
            return self
        made, stream = self._empty_like(there, self.shape)
        if made.nbytes:
            to, source = made.memory.address, self.memory.address
            there.copy_from(to, here, source, made.nbytes, stream)
        return made

    def part(self, offset: int, shape: tuple[int, ...]) -> DeviceArray:
        """A copy of a contiguous part, which starts at an offset in bytes."""
        here = self.memory.driver
        made, stream = self._empty_like(here, shape)
        if made.nbytes:
            here.copy(made.memory.address, self.memory.address + offset, made.nbytes, stream)
        return made

    def _empty_like(self, there: Driver, shape: tuple[int, ...]) -> tuple[DeviceArray, Stream]:
        """An array for copies of elements, and their stream, which waits for the elements."""
        stream = there.stream()
        made = empty(shape, self.dtype, stream, self.pending)
        if made.nbytes:
            self.memory.read(stream)
        return made, stream

    def __copy__(self) -> DeviceArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled as an ndarray, since the GPU may be another one when it is read
        return from_host, (to_host([self])[0], self.device)

    # ---- other packages

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if is_bfloat16(self.dtype):
            raise AttributeError  # as if undefined: __getattr__ raises a helpful error
        self.check()
        self.memory.show()
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.address, False),
            "strides": None,
            "stream": self.memory.stream.handle,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.memory.driver.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and dl_device[0] == dlpack.CPU:
            if copy is False:
                raise BufferError(f"an array on {self.device} is not on the host without a copy")
            return to_host([self])[0].__dlpack__(max_version=max_version)
        if dl_device is not None and dl_device != self.__dlpack_device__():
            raise BufferError(f"an array on {self.device} cannot be handed over on {dl_device}")
        if stream == 0:
            raise BufferError("stream=0 could be either of two streams: pass 1 or 2 instead")
        shown = self.copy() if copy else self
        shown.check()
        _hand_over(shown.memory, dlpack.LEGACY_STREAM if stream is None else stream)
        return dlpack.capsule(
            shown.memory.address,
            shown.shape,
            shown.dtype,
            shown.__dlpack_device__(),
            owner=shown,
            versioned=max_version is not None and max_version[0] >= 1,
            copied=bool(copy),
        )

    # ---- NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return answers.apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return answers.apply_function(func, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return protocols.operators["array_namespace"](api_version)

    def __round__(self, digits: int | None = None) -> Any:
        return np.round(self, digits or 0)

    def __contains__(self, element: Any) -> bool:
        return bool(np.any(self == element))

    def __getitem__(self, index: Any) -> Any:
        return answers.apply_operator("__getitem__", "x[...]", self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        answers.apply_operator("__setitem__", "x[...] = y", self, index, value)

    def __delitem__(self, index: Any) -> NoReturn:
        raise MutationError("an array cannot lose elements: use np.delete(x, i)")

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return answers.apply_operator("__iter__", "iteration", self)

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__":
            raise AttributeError(
                f"{name} has no name for bfloat16: hand the array over by DLPack "
                "(torch.from_dlpack(x))"
            )
        return answers.attribute(self, name)


# In-place operators return a new array, to which the name is bound.
for _name in (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and",
    "xor", "or",
):  # fmt: skip
    setattr(DeviceArray, f"__i{_name}__", getattr(NDArrayOperatorsMixin, f"__{_name}__"))


def empty(
    shape: tuple[int, ...], dtype: np.dtype[Any], stream: Stream, pending: Pending = ()
) -> DeviceArray:
    """An uninitialised array, to be written by the next work on a stream.

    Raises `DeviceMemoryError` if there is no room.
    """
    memory = allocate(stream.driver, prod(shape) * dtype.itemsize, stream)
    return DeviceArray(memory, shape, dtype, pending)


def to_host(arrays: Sequence[DeviceArray]) -> list[np.ndarray[Any, Any]]:
    """Copies of arrays on the host, with one wait for all of them.

    Raises the error of a program that computed one of them, if it has failed.
    """
    found = [np.empty(each.shape, each.dtype) for each in arrays]
    words = tuple(dict.fromkeys(chain.from_iterable(each.pending for each in arrays)))
    drivers = [each.memory.driver for each in arrays] + [each.driver for each in words]
    for here in dict.fromkeys(drivers):
        stream = here.stream()
        for array, values in zip(arrays, found, strict=True):
            if array.memory.driver is here and values.nbytes:
                array.memory.read(stream)
                here.copy_out(values, array.memory.address, stream)
        for one in words:
            if one.driver is here:
                one.fetch(stream)
        here.synchronize(stream)
    for one in words:
        one.check()
    for array in arrays:
        array.pending = ()
    return found


def fetched(values: Sequence[Any]) -> list[Any]:
    """The values, with the device arrays among them replaced by copies on the host."""
    copies = iter(to_host([x for x in values if isinstance(x, DeviceArray)]))
    return [next(copies) if isinstance(x, DeviceArray) else x for x in values]


def from_host(values: np.ndarray[Any, Any], device: str) -> DeviceArray:
    """A copy of a host array on a device."""
    return put([values], driver(device))[0]


def put(arrays: Sequence[np.ndarray[Any, Any]], there: Driver) -> list[DeviceArray]:
    """Copies of host arrays on a GPU; the host arrays have been read when this returns."""
    made = []
    for array in arrays:
        values = np.asarray(array, order="C")
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        made.append(DeviceArray(staged(values, there), values.shape, values.dtype))
    return made


def _head(array: DeviceArray) -> np.ndarray[Any, Any]:
    """The first elements."""
    return to_host([DeviceArray(array.memory, (_HEAD,), array.dtype, array.pending)])[0]


def _hand_over(memory: Memory, handle: int) -> None:
    """Make a stream of another package wait until the array is computed."""
    here = memory.driver
    here.stream()
    if handle == dlpack.LEGACY_STREAM:
        # the default stream always exists: freeing the memory waits for it instead of the device
        memory.read(here.foreign_stream(handle))
        return
    memory.show()
    if handle != dlpack.UNORDERED:
        here.wait(here.foreign_stream(handle), here.record(memory.stream))
