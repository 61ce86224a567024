"""Warning about random generators that a compiled function uses while it is traced.

The numbers drawn during tracing are constants of the compiled program. The states of all reachable
generators are compared before and after tracing: NumPy's global one, and those of NumPy and Python
that are reachable from the function's closure, its defaults and the globals that it names, through
functions, attributes and containers.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from functrans.api.arguments import name_of
from functrans.records import NamedTuple
from functrans.trace.bytecode import called_without_arguments, closure, codes, instructions
from functrans.trace.source import is_installed

MOST_OBJECTS = 2000
"""The most objects that are visited, since a function may reach a whole program."""


class _Place(NamedTuple):
    """A name by which a generator is reached, and the code that contains it."""

    name: str
    code: CodeType | None = None


class _Found(NamedTuple):
    """A generator, its place, its state before tracing, and the function that reads the state."""

    generator: Any
    place: _Place
    before: Any
    read: Callable[[Any], Any]


_shown: dict[Any, Any] = {}
"""The registry of given warnings, by which Python's filters warn once for each line."""


def watched(
    function: Callable[..., Any], transform: str = "jit", most: int = MOST_OBJECTS
) -> Callable[..., Any]:
    """The function, to be called once, with a warning if it draws from a random generator.

    Generators are searched among at most ``most`` objects that it reaches.
    """
    if sys.modules.keys().isdisjoint(("numpy.random", "random")):
        return function  # then no generator exists

    def call(*args: Any, **kwargs: Any) -> Any:
        reached = list(_reachable(function, most))
        found = list(_generators(reached))
        result = function(*args, **kwargs)
        for each in found:
            if not _same(each.before, each.read(each.generator)):
                _warn(function, each.place, transform)
        for file, line in _unseeded(reached):
            _warn_at(
                f"{name_of(function)} makes a random generator without a seed, by default_rng(), "
                f"while {transform} traces it: what it draws {_CONSEQUENCES[transform]} and use "
                "functrans.random",
                file,
                line,
            )
        return result

    call.__name__ = name_of(function)
    return call


def _unseeded(reached: Iterable[tuple[Any, _Place]]) -> Iterator[tuple[str, int]]:
    """The lines on which functions create unseeded generators."""
    for code in _user_codes(reached):
        if "default_rng" in code.co_names:
            for line in called_without_arguments(code, "default_rng"):
                yield code.co_filename, line


def _user_codes(reached: Iterable[tuple[Any, _Place]]) -> list[CodeType]:
    """The code of the user's own functions."""
    return [
        code
        for value, _ in reached
        if isinstance(value, FunctionType) and not is_installed(value.__code__.co_filename)
        for code in codes(value.__code__)
    ]


def _state(generator: Any) -> Any:
    if hasattr(generator, "getstate"):  # Python's
        return generator.getstate()
    bits = getattr(generator, "bit_generator", None)
    return bits.state if bits is not None else generator.get_state(legacy=False)


_NORMAL = frozenset(
    "chisquare f lognormal multivariate_normal noncentral_chisquare noncentral_f normal randn "
    "standard_normal standard_t vonmises wald".split()
)
"""Methods of NumPy's global generator that draw normal numbers in pairs, and cache the second."""


def _words(generator: Any) -> Any:
    """The state of a Mersenne twister, read from memory: NumPy's dict of it takes 30 us."""
    bits = generator._bit_generator
    if type(bits).__name__ != "MT19937":
        return _state(generator)
    return ctypes.string_at(bits.ctypes.state_address, _TWISTER)


_TWISTER = 4 * (624 + 1)
"""The bytes of its words and of the position of the next word."""


def _same(a: Any, b: Any) -> bool:
    """Whether two states, dictionaries of numbers and arrays, are equal."""
    if isinstance(a, Mapping):
        return all(_same(a[key], b[key]) for key in a)
    return bool(a.tobytes() == b.tobytes()) if hasattr(a, "tobytes") else bool(a == b)


def _generators(reached: Iterable[tuple[Any, _Place]]) -> Iterator[_Found]:
    """The generators among reachable objects, NumPy's global one first."""
    numpys, pythons = sys.modules.get("numpy.random"), sys.modules.get("random")
    kinds: list[type] = []
    legacy = None
    if numpys is not None:
        legacy = numpys.mtrand._rand
        draws_normals = any(not _NORMAL.isdisjoint(code.co_names) for code in _user_codes(reached))
        read = _state if draws_normals else _words
        yield _Found(legacy, _GLOBAL, read(legacy), read)
        kinds += [numpys.Generator, numpys.RandomState]
    if pythons is not None:
        kinds.append(pythons.Random)
    types = tuple(kinds)
    for value, place in reached:
        stateless = type(value).__name__ == "SystemRandom"
        if isinstance(value, types) and value is not legacy and not stateless:
            yield _Found(value, place, _state(value), _state)


_GLOBAL = _Place("random")
"""The place of NumPy's global generator: ``np.random.normal``."""


def _reachable(function: Any, most: int = MOST_OBJECTS) -> Iterator[tuple[Any, _Place]]:
    """The objects that a function can reach, each once, with their places."""
    waiting: list[tuple[Any, _Place]] = [(function, _Place(name_of(function)))]
    seen: set[int] = set()
    while waiting and len(seen) < most:
        value, place = waiting.pop()
        if id(value) in seen or type(value) in weakref.ProxyTypes:
            continue  # the referent of a proxy may have been deleted
        seen.add(id(value))
        yield value, place
        if isinstance(value, FunctionType) and not is_installed(value.__code__.co_filename):
            waiting += _named(value)
        else:
            waiting += (
                (part, _Place(name or place.name, place.code)) for name, part in _parts(value)
            )


def _named(function: FunctionType) -> Iterator[tuple[Any, _Place]]:
    """The objects that a function's code names: in its closure, among globals and in modules."""
    known = dict(function.__globals__) | dict(closure(function))
    for code in codes(function.__code__):
        for name in (*code.co_names, *code.co_freevars):
            value = known.get(name)
            if isinstance(value, ModuleType):
                for attribute in code.co_names:
                    yield vars(value).get(attribute), _Place(attribute, code)
            else:
                yield value, _Place(name, code)
    code, defaults = function.__code__, function.__defaults__ or ()
    last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    for name, value in (
        *zip(last, defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield value, _Place(name, code)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The components of an object, with the names of attributes."""
    if isinstance(value, (list, tuple, set)):
        yield from (("", part) for part in value)
    elif isinstance(value, dict):
        yield from (("", part) for part in value.values())
    elif isinstance(value, MethodType):
        yield from (("", value.__func__), ("", value.__self__))
    elif isinstance(value, functools.partial):
        yield from (("", part) for part in (value.func, value.args, value.keywords))
    elif isinstance(value, weakref.ref):
        yield "", value()
    elif isinstance(value, FunctionType):
        yield from closure(value)  # a wrapper of this library
    elif isinstance(value, BuiltinMethodType):
        yield "", value.__self__  # a method of a generator, as in draw = rng.normal
    elif not isinstance(value, (type, ModuleType)):
        with suppress(AttributeError):
            # not by getattr, which may call the user's code
            attributes = object.__getattribute__(value, "__dict__")
            yield from attributes.items() if isinstance(attributes, dict) else ()


_CONSEQUENCES = {
    "jit": "is now a constant of the compiled program, the same in every call. Draw outside and "
    "pass the numbers as an argument, or pass a key",
    "vmap": "is the same for all examples. Draw an array outside and map over it, or map over keys",
}


def _warn(function: Any, place: _Place, transform: str) -> None:
    drew_from = "NumPy's random numbers" if place is _GLOBAL else f"the generator {place.name!r}"
    _warn_at(
        f"{name_of(function)} drew from {drew_from} while {transform} traced it: what came out "
        f"{_CONSEQUENCES[transform]} and use functrans.random",
        *_line(function, place),
    )


def _warn_at(message: str, file: str, line: int) -> None:
    warnings.warn_explicit(message, RuntimeWarning, file, line, registry=_shown)


def _line(function: Any, place: _Place) -> tuple[str, int]:
    """The line that names a generator; otherwise the first line of the function."""
    own = _user_codes(_reachable(function))
    for code in [place.code] if place.code else own:
        for instruction in instructions(code):
            named, position = instruction.argval, instruction.positions
            names = named if isinstance(named, tuple) else (named,)  # may load two variables
            if place.name in names and position is not None and position.lineno:
                return code.co_filename, position.lineno
    return (own[0].co_filename, own[0].co_firstlineno) if own else ("<unknown>", 1)
