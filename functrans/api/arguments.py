"""A user's arguments: their positions, their names in messages, their types."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np

from functrans.errors import ArgnumsError, DtypeError, IntegerInputError
from functrans.ir.on_device import OnDevice
from functrans.ir.types import Aval, aval_of, describe, is_inexact, is_supported, unsupported
from functrans.ops.indexing.selected import Selected, refuse
from functrans.probing import probe
from functrans.subclasses import lost
from functrans.trace.absent import UNKNOWN
from functrans.trace.foreign import LABELLED, library_of
from functrans.trace.protocols import is_sequence
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree
from functrans.tree.compare import Structure

Argnums = int | Sequence[int]

_ABSENT = object()

Wrapper = TypeVar("Wrapper", bound=Callable[..., Any])


def wrap(function: Callable[..., Any], wrapper: Wrapper, prefix: str) -> Wrapper:
    """Give the wrapper the name, docstring and signature of the function that it stands for."""
    # like functools.update_wrapper
    for key in functools.WRAPPER_ASSIGNMENTS:
        if (value := probe(function, key, _ABSENT)) is not _ABSENT:
            setattr(wrapper, key, value)
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    # attributes that the user set, but not those of a transformed function, which are its state
    for key, value in probe(function, "__dict__", {}).items():
        if not key.startswith("_"):
            setattr(wrapper, key, value)
    if probe(function, "__name__") is None:
        name = f"{prefix}({type(function).__name__})"
        wrapper.__name__ = name
    return wrapper


def check_callable(function: Any, transform: str) -> None:
    """Raise if the argument of a transform is not callable."""
    if isinstance(function, (property, functools.cached_property, classmethod)):
        raise TypeError(
            f"{transform} takes a function, not a {type(function).__name__}: write "
            f"@{type(function).__name__} above @{transform}"
        )
    if not callable(function):
        raise TypeError(
            f"{transform} takes a function, not {describe(function)}: write "
            f"{transform}(f)(x), not {transform}(f(x))"
        )


def check_point(function: Callable[..., Any], transform: str, primals: Sequence[Any]) -> None:
    """Raise unless a transform that takes a function and its arguments is given some."""
    check_callable(function, transform)
    if not primals:
        try:
            inspect.signature(function).bind()
        except TypeError:
            raise TypeError(
                f"{transform} takes a function and its arguments: write {transform}(f, x), not "
                f"{transform}(f)(x)"
            ) from None
        except Exception:  # a class's own `__getattr__` may raise anything
            return


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function in messages."""
    return probe(function, "__name__") or type(function).__name__


def argument_name(function: Callable[..., Any], position: int) -> str:
    """``"argument 1 ('weights') of loss"``."""
    names = positional_names(function)
    label = f" ('{names[position]}')" if position < len(names) else ""
    return f"argument {position}{label} of {name_of(function)}"


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function; none if they are unknown."""
    try:
        return inspect.signature(function).parameters
    except Exception:  # a class's own `__getattr__` may raise anything
        return {}


def positional_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that are passed by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, p in parameters_of(function).items() if p.kind in kinds]


def leaf_of_call(
    function: Callable[..., Any], call: Structure, leaf: int, original: Callable[[int], int] = int
) -> str:
    """The name in messages of a leaf of ``(args, kwargs)``; ``original`` maps its position."""
    args, kwargs = tree.unflatten(call, range(call.num_leaves))
    for position, arg in enumerate(args):
        if leaf in (leaves := tree.leaves(arg)):
            return _leaf_name(function, original(position), tree.paths(arg)[leaves.index(leaf)])
    (key,) = [k for k, value in kwargs.items() if leaf in tree.leaves(value)]
    return f"argument {key!r} of {name_of(function)}"


def _leaf_name(function: Callable[..., Any], position: int, path: str) -> str:
    return argument_name(function, position) + (f", leaf {path}" if path else "")


def normalized_argnums(
    argnums: Argnums, count: int, function: Callable[..., Any], option: str = "argnums"
) -> tuple[int, ...]:
    """Argument positions, nonnegative and without duplicates."""
    result: list[int] = []
    for position in _positions(argnums, function, option):
        if not -count <= position < count:
            raise ArgnumsError(
                f"{option}={argnums} for a call of {name_of(function)} with {count} positional "
                f"argument{'' if count == 1 else 's'}: pass what is differentiated by position"
            )
        result.append(int(position) % count)
    if len(set(result)) < len(result):
        raise ArgnumsError(f"{option}={argnums} names an argument of {name_of(function)} twice")
    return tuple(result)


def check_argnums(argnums: Argnums, function: Callable[..., Any], option: str = "argnums") -> None:
    """Raise an error unless argument positions are integers."""
    _positions(argnums, function, option)


_WITHOUT_NAMES = "nondiff_argnums"


def _positions(argnums: Argnums, function: Callable[..., Any], option: str) -> tuple[int, ...]:
    positions = tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, (int, np.integer)):
            point = (
                f". Transforms return functions, which take the arguments of {name_of(function)}: "
                "write grad(f)(x), not grad(f, x)"
            )
            by_name = option.replace("argnums", "argnames")
            names = f"; for names, write {by_name}={argnums!r}" if option != _WITHOUT_NAMES else ""
            is_point = hasattr(argnums, "shape") or isinstance(argnums, (float, complex))
            raise ArgnumsError(
                f"{option} must be an integer or a tuple of integers, found {describe(argnums)}"
                f"{point if is_point else names if isinstance(argnums, str) else ''}"
            )
    return positions


def leaf_names(function: Callable[..., Any], positions: Sequence[int], args: Any) -> list[str]:
    """The names in messages of the leaves of the arguments at the given positions."""
    return [
        _leaf_name(function, position, path)
        for position, arg in zip(positions, args, strict=True)
        for path in tree.paths(arg)
    ]


def examples(arguments: Any) -> tuple[Any, bool]:
    """Arguments with an array in place of each `Aval`, and whether there was an `Aval`.

    Such an array is a broadcast scalar, with arbitrary values, that takes no memory.
    """
    leaves, structure = tree.flatten(arguments)
    found = [
        np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Aval) else x
        for x in leaves
    ]
    return structure.unflatten(found), any(isinstance(x, Aval) for x in leaves)


def as_array(x: Any, name: Callable[..., str], *place: Any) -> Any:
    """A leaf as a tracer, a plain native array or a NumPy scalar.

    ``name(*place)`` is its name in messages.
    """
    if type(x) in (float, complex, bool) or isinstance(x, (Tracer, OnDevice)):
        return x
    if type(x) is int:
        if not -(2**63) <= x < 2**63:
            raise OverflowError(f"{name(*place)} is {x}, which no int64 holds: pass {x:.6g}")
        return x
    if isinstance(x, (np.ndarray, np.generic)) and is_supported(x.dtype):
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        if words := lost(x):
            raise DtypeError(f"{name(*place)} is {words}")
        return np.asarray(x) if isinstance(x, np.ndarray) and type(x) is not np.ndarray else x
    if isinstance(x, Selected):
        refuse(x.mask)
    if isinstance(x, (np.ndarray, np.generic)):
        raise DtypeError(f"{name(*place)} is {unsupported(x)}")
    # conversion of a container that is also array-like would lose its keys
    plain_kind = next((kind for kind in (dict, list, tuple) if isinstance(x, kind)), None)
    makes_arrays = (probe(x, "__array__") or probe(x, "__dlpack__")) is not None
    if plain_kind is None and makes_arrays and not isinstance(x, type):
        return as_array(_of_another_library(x, name, *place), name, *place)
    hint = _instead_of(x, plain_kind, name(*place))
    colon = ": " if hint else ""
    raise DtypeError(f"{name(*place)} is {describe(x)}, not a number or an array{colon}{hint}")


def _instead_of(x: Any, plain_kind: type | None, name: str) -> str:
    """What to pass instead of a leaf that is not an array; empty if that is not known."""
    if plain_kind is not None:
        return (
            f"pass {plain_kind.__name__}(x), or make its class a container of arrays by "
            "functrans.tree.register"
        )
    for number_kind in (int, float, complex):
        if isinstance(x, number_kind):
            return f"write {number_kind.__name__}(x) for its number"
    if is_dataclass(x):
        return "functrans.tree.register_dataclass makes its class a container of arrays"
    if isinstance(x, Coroutine):
        return "an async function returns it, so transform the function that it awaits"
    if isinstance(x, (Iterator, Set)):
        return "write list(x) for its elements"
    if is_sequence(type(x)):
        return "write np.asarray(x) for its elements"
    is_argument = name.startswith("argument")
    if isinstance(x, (str, bytes)):
        return "leave it out, and read it from a closure" if is_argument else ""
    if type(x).__module__ == "builtins":
        return ""
    out = "leave it out, or " if is_argument else ""
    hint = f"{out}make {type(x).__name__} a container by functrans.tree.register"
    if "('self')" in name:
        hint += (
            " (transform the method of the instance, as in grad(model.loss); let a property "
            "call a decorated method)"
        )
    return hint


def is_foreign(x: Any) -> bool:
    """Whether a leaf must be converted by `as_array` before its type is known."""
    return not isinstance(x, (np.ndarray, np.generic, Tracer, float, int, OnDevice))


def _of_another_library(x: Any, name: Callable[..., str], *place: Any) -> np.ndarray[Any, Any]:
    """Convert another library's array to NumPy's, if that loses no information."""
    kind = type(x)
    package = library_of(x)
    if words := lost(x):
        raise DtypeError(f"{name(*place)} is {words}")
    what = f"{name(*place)} is a {package} {kind.__name__}"
    if package in LABELLED:
        raise DtypeError(f"{what}, whose labels would be lost: pass x.to_numpy()")
    if getattr(x, "requires_grad", False):
        raise DtypeError(
            f"{what} with requires_grad, whose derivatives would be lost: pass x.detach().numpy()"
        )
    try:
        return np.asarray(x) if hasattr(x, "__array__") else np.from_dlpack(x)
    except Exception as error:
        raise DtypeError(f"{what}, which NumPy cannot read ({error}): pass an array") from error


def aval_of_leaf(x: Any) -> Aval:
    """The type of an array, number or tracer."""
    return x._aval if isinstance(x, Tracer) else aval_of(x)


def value_of_leaf(x: Any) -> Any:
    """The value of an array, number or tracer; `UNKNOWN` if a tracer has none."""
    if isinstance(x, Tracer):
        return x._known_value
    return x if isinstance(x, (np.ndarray, np.generic, OnDevice)) else aval_of(x).dtype.type(x)


def known_values(leaves: Sequence[Any]) -> list[Any] | None:
    """The values of all leaves, or None if one is unknown."""
    values = [value_of_leaf(x) for x in leaves]
    return None if any(v is UNKNOWN for v in values) else values


_LEFT_OUT = "leave it out of argnums"
_WITHOUT = {
    "vjp": "write allow_int=True",
    "linearize": "write allow_int=True",
    "jvp": "None as its tangent",
}


def check_differentiable(leaves: Sequence[Any], name: Callable[[int], str], transform: str) -> None:
    """Raise if a leaf cannot be differentiated because it is not inexact."""
    for i, x in enumerate(leaves):
        aval = aval_of_leaf(x)
        if not is_inexact(aval.dtype):
            fix = "3.0 instead of 3" if aval.shape == () and aval.weak else ".astype(float)"
            raise IntegerInputError(
                f"{transform} differentiates with respect to floats, but {name(i)} has dtype "
                f"{aval.dtype}: pass a float ({fix}), or {_WITHOUT.get(transform, _LEFT_OUT)}"
            )
