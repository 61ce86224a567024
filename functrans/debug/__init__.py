"""Debugging: the origin of NaNs, the magnitudes of gradients, the cost of a program.

Results refer to the user's own lines, for eager and compiled functions alike.
"""

from typing import TYPE_CHECKING

from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace

if TYPE_CHECKING:
    from functrans.debug.backward import trace_back
    from functrans.debug.checking import nans
    from functrans.debug.compilations import why_compiled
    from functrans.debug.explanation import explain
    from functrans.debug.printing import breakpoint, callback, print
    from functrans.debug.profiles import profile
    from functrans.debug.recording import name, record

__all__ = [
    "breakpoint", "callback", "explain", "name", "nans", "print", "profile", "record", "trace_back",
    "why_compiled",
]  # fmt: skip

__getattr__, __dir__ = _namespace(
    __name__,
    _homes(
        {
            "functrans.debug.backward": "trace_back",
            "functrans.debug.compilations": "why_compiled",
            "functrans.debug.explanation": "explain",
            "functrans.debug.checking": "nans",
            "functrans.debug.printing": "breakpoint callback print",
            "functrans.debug.profiles": "profile",
            "functrans.debug.recording": "name record",
        }
    ),
)
