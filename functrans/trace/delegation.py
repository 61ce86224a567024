"""Delegation: Python functions of other libraries that call ours while a function is traced.

``from scipy.integrate import quad`` binds SciPy's function long before anything is traced, and
that function converts its arguments to plain arrays. So the function itself must delegate. It
remains the same object, with its name and module; but during tracing its *code* object is replaced
by one that passes calls with traced values to this library, and all other calls to the original
code. Since there are hundreds of such functions, the original code is restored not at the end of a
trace, but when one of them is called outside of any trace: consecutive traces find the replaced
code in place.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from functrans.caches import cached
from functrans.ir.primitive import current
from functrans.locks import lock
from functrans.trace.trace import Trace

Function = Callable[..., Any]
Condition = Callable[[FrameType, tuple[Any, ...], dict[str, Any]], bool]

_codes: dict[FunctionType, tuple[CodeType, CodeType]] = {}
"""The original code of each function, and its delegating code."""

_answers: dict[FunctionType, Function] = {}
"""The function that the delegating code calls, for each function."""

_own: dict[FunctionType, Function] = {}
"""Each function with its original code, also during tracing."""

_changing = lock()
_in_place: list[bool] = [False]
_wanted: list[bool] = [False]
"""Whether the delegating code is in place, and whether a trace is active."""


class _Signature(inspect.Signature):
    """The signature of a function, determined when it is read: a first trace has a hundred."""

    __slots__ = ("_function",)
    _function: Function

    @classmethod
    def of(cls, function: Function) -> _Signature:
        made = cls.__new__(cls)
        made._function = function
        return made

    def __getattr__(self, name: str) -> Any:
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        return getattr(inspect.signature(self._function), name)


def delegate(
    function: Any,  # a function of another library, written in Python
    ours: Function,  # the replacement
    concerned: Condition,  # of the calling frame and the arguments: whether a call is delegated
) -> None:
    """Delegate a function's calls to a replacement, in traces, if they concern traced values."""
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
            # frame 0 is this function's, frame 1 that of the delegating function
            if concerned(sys._getframe(2), args, kwargs):
                return ours(*args, **kwargs)
        else:
            restore()
        return theirs(*args, **kwargs)

    if not hasattr(function, "__wrapped__"):
        # otherwise inspect would derive the signature from the replaced code
        function.__signature__ = _Signature.of(theirs)
    _own[function], _answers[function] = theirs, answer
    with _changing:
        _codes[function] = code, _calling(answer, code)
        if _in_place[0]:
            function.__code__ = _codes[function][1]


def replacement_of(function: FunctionType) -> Function | None:
    """The replacement of a function during tracing, if it delegates."""
    return _answers.get(function)


def own(function: Any) -> Any:
    """A function with its original code."""
    return _own.get(function, function) if isinstance(function, FunctionType) else function


def exchange() -> None:
    """Install the delegating code of all functions."""
    with _changing:
        _wanted[0] = True
        if not _in_place[0]:
            _in_place[0] = True  # set before the first exchange, after which Ctrl-C may interrupt
            for function, (_, delegating) in _codes.items():
                function.__code__ = delegating


def release() -> None:
    """Note that no trace is active: the next call of a function restores all original code."""
    _wanted[0] = False


def restore() -> None:
    """Restore the original code of all functions, unless a trace is active."""
    if not _in_place[0] or _wanted[0]:
        return
    with _changing:
        if _in_place[0] and not _wanted[0]:
            for function, (own, _) in _codes.items():
                function.__code__ = own
            _in_place[0] = False


_SOURCE = """
def around({variables}):
    def asking(*args, **kwargs): answer = "what is called"; return {answered}; {variables}
    return asking
"""


def _calling(answer: Function, like: CodeType) -> CodeType:
    """Code that calls ``answer``, with the name and position of the code that it replaces.

    It is one line, which tracebacks show as the first one of the function.
    """
    code = _asking(like.co_freevars, bool(like.co_flags & inspect.CO_GENERATOR))
    return code.replace(
        co_consts=tuple(answer if x == "what is called" else x for x in code.co_consts),
        co_filename=like.co_filename,
        co_firstlineno=like.co_firstlineno,
        co_name=like.co_name,
        co_qualname=like.co_qualname,
    )


@cached(256)
def _asking(variables: tuple[str, ...], generates: bool) -> CodeType:
    """Code that calls a constant.

    A function keeps its closure, so the code has the same free variables; and the code of a
    generator function remains that of a generator.
    """
    made: dict[str, Any] = {}
    answered = "answer(*args, **kwargs)"
    if generates:
        answered = f"(yield from {answered})"
    exec(_SOURCE.format(variables=", ".join(variables), answered=answered), made)
    return made["around"](*variables).__code__
