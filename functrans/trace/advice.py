"""Advice on the errors of functions that check the types of their arguments themselves.

Compiled functions and those of other libraries know nothing of traced values: what they say of one
("expected numpy.ndarray, got Tracer") does not tell a user what to write instead.
"""

from __future__ import annotations

import re
from types import TracebackType

from functrans.trace.source import LIBRARY, USER, whose
from functrans.trace.tracer import Tracer

_NAMES_A_TRACER = re.compile(
    r"array.*\b(got|not) Tracer\b|Invoked with:.*\bTracer\(|\.Tracer'>", re.DOTALL
)
"""What Cython, CPython, pybind11 and JAX write of an argument that is no plain array."""

_ADVICE = (
    "A Tracer stands for an array while the function is traced. If the function that raised this "
    "takes plain\narrays only, call it by functrans.callback, with a derivative by "
    "functrans.custom_jvp, or write its formula\nwith NumPy's functions."
)


def advise(error: TypeError) -> None:
    """Add a note to an error that a traced value has caused in other code than the user's."""
    if _ADVICE in getattr(error, "__notes__", ()):
        return
    if _NAMES_A_TRACER.search(str(error)) or _was_given_a_tracer(error.__traceback__):
        error.add_note(_ADVICE)


def _was_given_a_tracer(trace: TracebackType | None) -> bool:
    """Whether the function that raised is another library's, and has a traced argument."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or whose(trace.tb_frame.f_code.co_filename) in (USER, LIBRARY):
        return False
    code, values = trace.tb_frame.f_code, trace.tb_frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(isinstance(values.get(name), Tracer) for name in names)
