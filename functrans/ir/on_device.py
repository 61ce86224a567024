"""Arrays in device memory: dispatch to the module that created them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

kinds: set[type] = set()
"""The classes of arrays on a device."""


class OnDevice:
    """An array in the memory of a device: it has a shape and a dtype, and NumPy's protocols."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        kinds.add(cls)

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def device(self) -> str:
        """The name of the device."""
        raise NotImplementedError


appliers: list[Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]] = []
"""What applies a primitive to operands, of which some are on a device. The last one counts."""

evaluators: list[Callable[[Any, Sequence[Any]], Sequence[Any]]] = []
"""What computes a graph for inputs of which some are on a device. The last one counts."""


callers: list[Callable[[Any, tuple[Any, ...], dict[str, Any], str], Any]] = []
"""What calls a function of the library, by some name, with arguments of which some are on a device:
it is traced, and run there as a whole. The last one counts."""


placers: list[Callable[[Sequence[Any], str], list[Any]]] = []
"""What puts arrays of the host on a device. The last one counts."""


def beside(results: list[Any], given: Iterable[Any]) -> list[Any]:
    """Results where the arguments are: on the device that some of these are on, if there is one.

    A derivative that does not depend on its arguments is computed of numbers of the host alone.
    """
    device = device_of(given) if placers else None
    if device is None:
        return results
    hosts = [i for i, x in enumerate(results) if isinstance(x, (np.ndarray, np.generic))]
    for i, x in zip(hosts, placers[-1]([results[i] for i in hosts], device), strict=True):
        results[i] = x
    return results


def is_any_on_device(values: Iterable[Any]) -> bool:
    """Whether some of the values are on a device."""
    return bool(evaluators) and any(isinstance(x, OnDevice) for x in values)


def holds_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an array on a device stands anywhere in the arguments, and sequences in these."""
    if not callers:
        return False
    return any(map(_holds_device, args)) or any(map(_holds_device, kwargs.values()))


def _holds_device(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_device, x))
    return isinstance(x, OnDevice)


def device_of(values: Iterable[Any]) -> str | None:
    """The device that some of the values are on, if there is one."""
    return next((x.device for x in values if isinstance(x, OnDevice)), None)
