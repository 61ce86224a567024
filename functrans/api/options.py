"""The options of `jit`: static and donated arguments, back end and device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from functrans import config
from functrans.api.arguments import (
    Argnums,
    argument_name,
    check_argnums,
    name_of,
    parameters_of,
    positional_names,
)
from functrans.errors import ArgnumsError, DeviceError
from functrans.ir.on_device import OnDevice
from functrans.lazily import lazy
from functrans.records import NamedTuple
from functrans.tree import core as tree
from functrans.tree.compare import Structure

_device = lazy("functrans.run.cuda.driver:name_of")
_full_name = lazy("functrans.run.cuda.driver:full_name")
_to_host = lazy("functrans.run.cuda.array:to_host")


class Named(NamedTuple):
    """The arguments that an option names."""

    numbers: tuple[int, ...]  # the positions as given
    names: frozenset[str]  # of static arguments, including those given by position
    # all positions, including those of the named arguments if they are passed by position
    positions: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)


def named(
    function: Callable[..., Any], option: str, argnums: Argnums, argnames: str | Iterable[str]
) -> Named:
    """The arguments of ``{option}_argnums`` and ``{option}_argnames``; raises if one is missing."""
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if isinstance(argnums, Iterable) and not isinstance(argnums, str):
        argnums = tuple(argnums)
    check_argnums(argnums, function, f"{option}_argnums")
    numbers = tuple(argnums) if isinstance(argnums, tuple) else (argnums,)
    _check_numbers(function, numbers, f"{option}_argnums")
    positions = (*numbers, *_positions(function, names, f"{option}_argnames"))
    # an array that is passed by name is donated only if the option gives its name: what a donated
    # array had is lost
    by_name = positional_names(function) if numbers and option == "static" else []
    also = (by_name[n] for n in numbers if -len(by_name) <= n < len(by_name))
    return Named(numbers, frozenset((*names, *also)), positions)


def check_backend(option: str, backend: str | None) -> None:
    """Raise if a back end does not exist; None stands for the configured one."""
    if backend is not None and backend not in config.BACKENDS:
        names = " or ".join(map(repr, config.BACKENDS))
        raise ValueError(f"{option} must be {names}, not {backend!r}")


class Where(NamedTuple):
    """The back end and device that were passed to `jit`."""

    backend: str | None  # the back end as given
    device: str | None  # the full name of an available GPU, or ``"cpu"``; None by default

    @property
    def is_host(self) -> bool:
        """Whether device arrays are copied to the host."""
        return self.device == "cpu"

    @property
    def chosen(self) -> str | None:
        """The chosen GPU, or the chosen back end for the host."""
        return self.backend if self.is_host else self.device or self.backend


def where_of(option: str, device: str | None, backend: str | None) -> Where:
    """The back end and device of a function; raises if the device does not exist."""
    if device is None or device == "cpu":
        return Where(backend, device)
    name: str = _device(device)
    if backend is not None:
        raise ValueError(f"{option} has a compiler of its own: leave out backend={backend!r}")
    return Where(None, name)


def fetched(values: Sequence[Any]) -> list[Any]:
    """The values, with device arrays copied to the host in one transfer."""
    found = list(values)
    there = [number for number, x in enumerate(found) if isinstance(x, OnDevice)]
    for number, x in zip(there, _to_host([found[i] for i in there]) if there else (), strict=True):
        found[number] = x
    return found


def backend_of(
    leaves: Sequence[Any],  # the arguments
    captures: Sequence[Any],  # the captured values
    chosen: str | None,  # a back end or a device
    name: Callable[[int], str],  # the name of an argument in messages, by its number
) -> str | None:
    """The back end of a call: the device of its arrays, or else the chosen back end.

    Raises `DeviceError` if arrays are on a device other than the chosen one, or on several.
    """
    found = chosen if chosen is not None and chosen.startswith("cuda") else None
    because = "the function is compiled for it"
    for number, x in enumerate((*leaves, *captures)):
        if not isinstance(x, OnDevice):
            continue
        what = name(number) if number < len(leaves) else "an array that is used from outside"
        if found is not None and x.device != found:
            raise DeviceError(
                f"{what} is on {x.device}, but the program runs on {found}, since {because}: put "
                f'it there, functrans.device_put(x, "{found}")'
            )
        if found is None:
            found, because = x.device, f"{what} is there"
    return found or chosen


class Machine(NamedTuple):
    """The machine that a function is lowered for."""

    device: str | None  # the device as given; None by default
    architecture: str | None  # the architecture of a GPU

    @property
    def backend(self) -> str | None:
        """The full name of a GPU, which need not exist; None for the CPU."""
        if self.device is None or self.device == "cpu":
            return None
        return _full_name(self.device)


def machine_of(
    function: Callable[..., Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], Machine]:
    """Separate the function's own keyword arguments from those that describe the machine."""
    parameters = parameters_of(function)
    said = {
        name: kwargs[name] for name in Machine._fields if name in kwargs and name not in parameters
    }
    machine = Machine(said.get("device"), said.get("architecture"))
    if machine.architecture is not None and machine.device is None:
        machine = machine._replace(device="cuda")
    return {name: x for name, x in kwargs.items() if name not in said}, machine


def check_apart(function: Callable[..., Any], static: Named, donated: Named) -> None:
    """Raise if an argument is both static and donated."""
    count = _count(function)
    first, second = (
        {n + count if n < 0 and count is not None else n for n in given.positions}
        for given in (static, donated)
    )
    both = first & second
    for label in (*both, *(static.names & donated.names)):
        name = f"argument {label!r} of {name_of(function)}"
        raise ArgnumsError(
            f"{argument_name(function, label) if isinstance(label, int) else name} is static and "
            "donated: what is static is a constant of the program, with no memory to give up"
        )


def leaves_of(
    donated: Named,
    # the structure of the positional and keyword arguments that are not static
    structure: Structure,
    # maps each of these positional arguments to its position in the call
    position: Callable[[int], int],
    fixed: int,  # the number of static positional arguments
) -> tuple[int, ...]:
    """The positions of the leaves of donated arguments."""
    if not donated:
        return ()
    args, kwargs = tree.unflatten(structure, range(structure.num_leaves))
    count = len(args) + fixed
    positions = {n % count for n in donated.positions if -count <= n < count}
    given = [arg for i, arg in enumerate(args) if position(i) in positions]
    given += [arg for name, arg in kwargs.items() if name in donated.names]
    return tuple(leaf for arg in given for leaf in tree.leaves(arg))


def _check_numbers(function: Callable[..., Any], numbers: Sequence[int], option: str) -> None:
    """Raise if a function has no positional arguments of these numbers."""
    count = _count(function)
    for number in numbers:
        if count is not None and not -count <= number < count:
            raise ArgnumsError(
                f"{option} names argument {number}, but {name_of(function)} takes {count} "
                f"positional argument{'' if count == 1 else 's'}"
            )


def _count(function: Callable[..., Any]) -> int | None:
    """The number of positional arguments of a function; None if it is unknown or unlimited."""
    kinds = [p.kind for p in parameters_of(function).values()]
    if not kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return len([k for k in kinds if k is not inspect.Parameter.KEYWORD_ONLY])


def _positions(function: Callable[..., Any], names: Sequence[str], option: str) -> tuple[int, ...]:
    """The positions of named arguments that may be passed by position."""
    if not names:
        return ()
    parameters = parameters_of(function)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    positions = []
    for name in names:
        if name not in parameters:
            if takes_any:
                continue
            raise ArgnumsError(
                f"{option} names {name!r}, which {name_of(function)} does not take: it "
                f"takes {', '.join(parameters)}"
            )
        if parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            positions.append(list(parameters).index(name))
    return tuple(positions)
