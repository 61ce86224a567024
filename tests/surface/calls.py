"""Calls of public functions on traced values, and the comparison of results with NumPy.

Each module ``of_*.py`` beside this one has the calls of one namespace:

``NAME``
    what the page calls the namespace;
``public()``
    the names of its functions;
``THEIRS``, ``OURS``
    what the names in its calls stand for: on plain arrays, and on traced values;
``SIZING``
    what they stand for in calls with ``size=``;
``CALLS``, ``SIZED``, ``KNOWN``, ``IN_PLACE``
    tables of calls, one text with two blanks between: of functions that work or are refused, that
    take ``size=``, that need values that are known, that assign to a matrix ``a``;
``SLOW``
    whether its calls take so long that they are for the slow tests;
``NO_ARRAYS``
    the names of functions that are not about arrays.

A function that is in none of the tables must be a ufunc: it is called with numbers between 0 and 1.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrans import Aval
from functrans.errors import (
    FunctransError,
    NotDifferentiableError,
    TracerConversionError,
    UnsupportedNumPyError,
)
from functrans.ir.evaluate import evaluate
from functrans.testing import check_grads
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer
from tests.numpy.attempts import leaves

_rng = np.random.default_rng(5)

OPERANDS = {
    "x": _rng.normal(size=5),
    "y": _rng.uniform(0.2, 0.8, size=5),
    "m": _rng.normal(size=(3, 4)),
    "s": np.eye(3) * 3 + _rng.uniform(-0.5, 0.5, (3, 3)),
    "k": np.array([3, 0, 2, 3, 1]),
    "b": np.array([True, False, True, True, False]),
    "u": np.array([3, 200], np.uint8),
    "z": _rng.normal(size=4) + 1j * _rng.normal(size=4),
    **{name: _rng.uniform(0.2, 0.8, size=5) for name in "pqrt"},
}
"""What the calls are made on: floats of any sign, and between 0 and 1; matrices, integers, truths,
bytes, complex numbers. All of them are traced."""

WORKS = "works"
SIZED = "works with `size=`"
KNOWN = "works where values are known"
NO_ARRAYS = "takes no arrays"
REFUSED = "refused"


class Row(NamedTuple):
    """What became of a call; for one that was refused, why, and what to write instead."""

    name: str
    status: str
    note: str = ""


@cache
def tables(namespace: ModuleType) -> dict[str, dict[str, str]]:
    """The tables of a namespace: calls by the names of their functions."""
    names = ("CALLS", "SIZED", "KNOWN", "IN_PLACE")
    return {name: _calls(getattr(namespace, name, "")) for name in names}


def _calls(text: str) -> dict[str, str]:
    """The calls of a table, by the name of the function that is called first."""
    found = [call.strip() for line in text.splitlines() for call in re.split(r"  +", line)]
    return {call.split("(")[0].split(".")[-1]: call for call in found if call}


def _ufunc_call(namespace: ModuleType, name: str) -> str:
    (alias, module), *_ = namespace.THEIRS.items()
    ufunc = getattr(module, name)
    assert isinstance(ufunc, np.ufunc), f"{namespace.NAME}.{name} is in no table: add a call of it"
    operands = ("p", "q", "r", "t", "p + 0.1")
    if not any(types[: ufunc.nin] == "d" * ufunc.nin for types in ufunc.types):
        operands = ("k", "k[::-1]")
    return f"{alias}.{name}({', '.join(operands[: ufunc.nin])})"


def _function(call: str, modules: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A call as a function, and its operands."""
    names = [name for name in OPERANDS if re.search(rf"(?<![.\w]){name}\b(?!=)", call)]
    function = eval(f"lambda {', '.join(names)}: {call}", {"np": np, **modules})
    return function, [OPERANDS[name] for name in names]


def row(namespace: ModuleType, name: str) -> Row:
    """What becomes of a function on traced values; fails if it is neither right nor refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _row(namespace, name)


def _row(namespace: ModuleType, name: str) -> Row:
    theirs, ours = namespace.THEIRS, namespace.OURS
    calls = tables(namespace)
    if name in namespace.NO_ARRAYS.split():
        return Row(name, NO_ARRAYS)
    if name in calls["SIZED"]:
        call = calls["SIZED"][name]
        with pytest.raises(FunctransError, match="size=n"):
            _on_tracers(*_function(re.sub(r", size=\d+", "", call), theirs), False)
        _check(call, namespace.SIZING, namespace.SIZING)
        return Row(name, SIZED)
    if name in calls["KNOWN"]:
        _check(calls["KNOWN"][name], theirs, ours, with_values=True)
        return Row(name, KNOWN)
    if name in calls["IN_PLACE"]:
        _check(f"[a := np.array(np.outer(y, y)), {calls['IN_PLACE'][name]}, a][2]", theirs, ours)
        return Row(name, WORKS)
    call = calls["CALLS"].get(name) or _ufunc_call(namespace, name)
    try:
        _on_tracers(*_function(call, ours), False)
    except (UnsupportedNumPyError, TracerConversionError) as error:
        return Row(name, REFUSED, _reason(str(error)))
    return Row(name, WORKS, _check(call, theirs, ours))


def _reason(message: str) -> str:
    """Why a call is refused, and what to write instead: a message without its place."""
    text = re.sub(r" at <string>:\d+ \(<lambda>\)", "", message).replace("\n", " ")
    reason = re.sub(r"^.* is not supported on traced values[:;]? ?", "", text)
    reason = re.sub(r"^a value traced by jit \(.*?\) ", "", reason)
    assert "by their full names" not in reason, f"somebody has met a tracer unprepared: {message}"
    assert reason, f"a reason, and what to write instead, is missing: {message}"
    return reason


# -- calling ---------------------------------------------------------------------------------------


def _check(
    call: str, theirs: dict[str, Any], ours: dict[str, Any], with_values: bool = False
) -> str:
    """Raise unless a call gives on tracers what it gives on arrays, with its derivatives.

    Gives a note on the arguments in which it says that it has none.
    """
    reference, operands = _function(call, theirs)
    function, _ = _function(call, ours)
    expected = leaves(reference(*operands))
    _assert_same(_on_tracers(function, operands, with_values), expected)
    floats = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    if not any(map(_is_inexact, expected)):
        return ""
    without = {}
    for i in floats:
        try:
            check_grads(_of_one(function, operands, i), (operands[i],), order=1, max_elements=3)
        except NotDifferentiableError as error:
            without[i] = str(error).split("(<lambda>): ")[-1]
    if not without:
        return ""
    which = "its arguments" if len(without) == len(floats) else f"argument {_listed(without)}"
    return f"no derivative in {which}: {next(iter(without.values()))}"


def _listed(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, numbers))


def _on_tracers(function: Callable[..., Any], operands: list[Any], with_values: bool) -> list[Any]:
    """The results on tracers, with the values that `grad` has, or without, as under `jit`."""
    plain: dict[int, Any] = {}

    def traced(*tracers: Any) -> list[Any]:
        results = leaves(function(*tracers))
        plain.update({i: r for i, r in enumerate(results) if not isinstance(r, Tracer)})
        return [r for r in results if isinstance(r, Tracer)]

    avals = [Aval(x.shape, x.dtype) for x in operands]
    values = operands if with_values else None
    staged = stage(traced, avals, kind="grad" if with_values else "jit", values=values)
    found = evaluate(staged.graph, [*operands, *staged.captures])
    results = iter(found)
    return [plain[i] if i in plain else next(results) for i in range(len(found) + len(plain))]


def _is_inexact(x: Any) -> bool:
    is_array = isinstance(x, (np.ndarray, np.generic, Tracer))
    return is_array and x.dtype in (np.float64, np.complex128) and x.size > 0


def _of_one(function: Callable[..., Any], operands: list[Any], place: int) -> Any:
    """A function of one of its operands, which gives its results that have derivatives."""

    def of_one(x: Any) -> list[Any]:
        given = [*operands[:place], x, *operands[place + 1 :]]
        return [r for r in leaves(function(*given)) if _is_inexact(r)]

    return of_one


def _assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, (np.ndarray, np.generic)) and b.dtype.kind in "biufc":
            assert np.shape(a) == np.shape(b)
            assert np.asarray(a).dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        elif not isinstance(b, str):  # a text says of a tracer what is known
            assert a == b
