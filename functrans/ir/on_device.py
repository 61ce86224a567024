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
"""Registered functions that apply a primitive to operands on a device; the last one is used."""

evaluators: list[Callable[[Any, Sequence[Any]], Sequence[Any]]] = []
"""Registered functions that evaluate a graph with inputs on a device; the last one is used."""


callers: list[Callable[[Any, tuple[Any, ...], dict[str, Any], str], Any]] = []
"""Registered functions that call a named function of the library with arguments on a device: it is
traced, and run there as a whole. The last one is used."""


placers: list[Callable[[Sequence[Any], str], list[Any]]] = []
"""Registered functions that copy host arrays to a device; the last one is used."""


def beside(results: list[Any], given: Iterable[Any]) -> list[Any]:
    """Move results to the device of the arguments, if one of these is on a device.

    A derivative that does not depend on its arguments is computed on the host.
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
    """Whether there is a device array among the arguments, or in sequences among these."""
    if not callers:
        return False
    return any(map(_holds_device, args)) or any(map(_holds_device, kwargs.values()))


def _holds_device(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_device, x))
    return isinstance(x, OnDevice)


def device_of(values: Iterable[Any]) -> str | None:
    """The device of the first value that is on one; None if there is none."""
    return next((x.device for x in values if isinstance(x, OnDevice)), None)
