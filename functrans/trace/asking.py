"""Delegation: Python functions of other libraries that call ours while a function is traced.

``from scipy.integrate import quad`` binds SciPy's function long before anything is traced, and what
it makes of its arguments is a plain array. So the function itself has to ask. It stays the object
that it is, with its name and its place; while something is traced it has other *code*, which hands
a call that concerns traced values to us, and all others to its own code. There are hundreds of such
functions, so all get their own code back not when a trace ends, but when one of them is called
while nothing is traced: traces that follow one another find the other code in place.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from functrans.ir.primitive import current
from functrans.locks import lock
from functrans.trace.trace import Trace

Function = Callable[..., Any]
Condition = Callable[[FrameType, tuple[Any, ...], dict[str, Any]], bool]

_codes: dict[FunctionType, tuple[CodeType, CodeType]] = {}
"""The code of each function, and the one that asks."""

_answers: dict[FunctionType, Function] = {}
"""What the code that asks calls, for each function."""

_own: dict[FunctionType, Function] = {}
"""Each function as its library wrote it, whatever is traced."""

_changing = lock()
_in_place: list[bool] = [False]
_wanted: list[bool] = [False]
"""Whether the functions have the code that asks, and whether something is traced."""


def let_ask(function: FunctionType, ours: Function, concerned: Condition) -> None:
    """Let a function be ours in the calls of a traced function that concern traced values.

    Parameters
    ----------
    function : function
        Of another library.
    ours : callable
        What takes its place.
    concerned : callable
        Whether a call is one: from the frame that calls, and from the arguments.
    """
    if function in _codes:
        return
    code = function.__code__
    theirs = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    theirs.__kwdefaults__ = function.__kwdefaults__

    def answer(*args: Any, **kwargs: Any) -> Any:
        trace = current.get()
        if isinstance(trace, Trace) and not trace.rewriting:
            # of the frames, this is the first, and that of the function itself the second
            if concerned(sys._getframe(2), args, kwargs):
                return ours(*args, **kwargs)
        else:
            restore()
        return theirs(*args, **kwargs)

    if not hasattr(function, "__wrapped__"):
        # what is asked for its signature is asked for that of its code, otherwise
        function.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
    _own[function], _answers[function] = theirs, answer
    with _changing:
        _codes[function] = code, _calling(answer, code)
        if _in_place[0]:
            function.__code__ = _codes[function][1]


def asking(function: FunctionType) -> Function | None:
    """What a function does while something is traced, if it asks us, whether or not it does now."""
    return _answers.get(function)


def own(function: Any) -> Any:
    """A function as its library wrote it."""
    return _own.get(function, function) if isinstance(function, FunctionType) else function


def exchange() -> None:
    """Let all of the functions ask."""
    with _changing:
        _wanted[0] = True
        if not _in_place[0]:
            _in_place[0] = True  # before the first: Ctrl-C may come after it
            for function, (_, asking) in _codes.items():
                function.__code__ = asking


def release() -> None:
    """Nothing is traced any more: all get their own code back when one is called."""
    _wanted[0] = False


def restore() -> None:
    """Give all of the functions their code back, unless something is traced."""
    if not _in_place[0] or _wanted[0]:
        return
    with _changing:
        if _in_place[0] and not _wanted[0]:
            for function, (own, _) in _codes.items():
                function.__code__ = own
            _in_place[0] = False


_SOURCE = """
def around({variables}):
    def asking(*args, **kwargs):
        answer = "what is called"
        return {answered}
        {variables}
    return asking
"""


def _calling(answer: Function, like: CodeType) -> CodeType:
    """Code that calls a function, and in tracebacks is where the code that it is like is.

    A function keeps its closure, so the code has the same free variables; and a generator function
    stays one.
    """
    made: dict[str, Any] = {}
    answered = "answer(*args, **kwargs)"
    if like.co_flags & inspect.CO_GENERATOR:
        answered = f"(yield from {answered})"
    exec(_SOURCE.format(variables=", ".join(like.co_freevars), answered=answered), made)
    code: CodeType = made["around"](*like.co_freevars).__code__
    return code.replace(
        co_consts=tuple(answer if x == "what is called" else x for x in code.co_consts),
        co_filename=like.co_filename,
        co_firstlineno=like.co_firstlineno,
        co_name=like.co_name,
        co_qualname=like.co_qualname,
    )
