"""The guards of a state as a Python function, for calls that native code does not dispatch.

Its table has five words: the addresses of the guards' program, the number of inputs that they find,
and the addresses of ``np.ndarray``, True and None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.run.call import entry, guards, layouts
from functrans.run.call.guards import Guards
from functrans.run.code import cache
from functrans.run.code.modules import joined

_TEXT = Path(__file__).with_name("agreement.ll")

_MOST_INPUTS = 1024


@once
def _method() -> tuple[entry.MethodDef, Any]:
    code = cache.load(joined(entry.CHECK, guards.TEXT, _TEXT), "agreed", {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # as for `steps.code`
    return entry.MethodDef(b"functrans_guards", code.address, entry.METH_FASTCALL, None), code


def function(guarded: Guards) -> Callable[[], tuple[Any, ...] | None] | None:
    """A function that returns the inputs that guards find, or None if one of them does not hold.

    It must not outlive ``guarded``. None if the layouts of objects are not the known ones.
    """
    if not layouts.hold() or guarded.inputs > _MOST_INPUTS:
        return None
    words = [guarded.program.ctypes.data, guarded.inputs, *map(id, (np.ndarray, True, None))]
    return entry.native(_method()[0], np.array(words, np.int64))
