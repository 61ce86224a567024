"""Adoption: code that refuses a traced value is traced as the user's own, in a second attempt.

Two kinds of code call NumPy's own functions while a function is traced: installed packages, which
may rely on plain arrays, and code that calls functions by names that it has imported (``from numpy
import zeros``), since the patched modules do not see that. Most of it computes with plain arrays
only. So nothing is changed until an error shows that a traced value has met it. Then the package or
the module is adopted, and the function is traced again. If that fails, too, the package was not the
reason, and is left alone again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from functrans.errors import FunctransError
from functrans.locks import lock
from functrans.trace import bound_names, patch
from functrans.trace.source import (
    ADOPTED,
    APART,
    INSTALLED,
    adopt,
    adoptions,
    disown,
    innermost,
    package_of,
    whose,
)
from functrans.trace.tracer import Tracer

Traced = TypeVar("Traced")

_changing = lock()
_when: dict[str | int, int] = {}
"""The number of the adoption of each package (by its path) and namespace (by its id)."""


def adopted_for(error: Exception, before: int) -> Adopted | None:
    """What is adopted after a first attempt has failed; None if there is nothing.

    ``before`` is the number of adoptions when that attempt began.
    """
    adopted = Adopted(before)
    return adopted if adopted.extended(error) else None


class Adopted:
    """What has been adopted in order to trace a function."""

    def __init__(self, before: int) -> None:
        self._before = before
        self._packages: list[str] = []
        self._modules: list[dict[str, Any]] = []
        self._copies: list[dict[str, Any]] = []
        self._first: Exception | None = None

    def traced(self, attempt: Callable[[], Traced]) -> Traced:
        """The result of tracing a function, after code has been adopted for it.

        Raises the last error; or the first one, if the last one is that of a compiled function to
        which a traced value was passed.
        """
        failed = True
        try:
            while True:
                self._before = adoptions[0]
                try:
                    result = attempt()
                    failed = False
                    return result
                except Exception as error:
                    if self.extended(error):
                        continue
                    if isinstance(error, FunctransError) or Tracer.__name__ not in str(error):
                        raise
                assert self._first is not None
                raise self._first
        finally:
            self._first = None  # its traceback refers to frames that refer to this object
            if failed and self._packages:
                for package in self._packages:
                    disown(package)
                patch.forget()
            for namespace in [*self._copies, *(self._modules if failed else ())]:
                bound_names.release(namespace)
                _when.pop(id(namespace), None)

    def extended(self, error: Exception) -> bool:
        """Adopt the code that has raised an error; whether anything is new since the attempt began.

        Another thread may have adopted it in the meantime.
        """
        frame = innermost(error)
        if frame is None:
            return False
        with _changing:
            is_new = self._extended(frame, isinstance(error, FunctransError))
        if is_new and self._first is None:
            self._first = error
        return is_new

    def _extended(self, frame: FrameType, is_refused: bool) -> bool:
        file, namespace = frame.f_code.co_filename, frame.f_globals
        owner = whose(file)
        if owner == INSTALLED:
            self._adopt(package_of(file))
            return True
        if owner == ADOPTED and _when.get(package_of(file), 0) > self._before:
            return True
        if owner == APART or not is_refused:
            return False
        if not bound_names.bind(namespace) and not (
            owner == ADOPTED and bound_names.bind_numbers(namespace)
        ):
            return _when.get(id(namespace), 0) > self._before
        self._remember(id(namespace))
        module = sys.modules.get(namespace.get("__name__", ""))
        if module is None or vars(module) is not namespace:
            self._copies.append(namespace)  # made for this trace
        elif owner == ADOPTED:
            self._modules.append(namespace)
        return True

    def _remember(self, key: str | int) -> None:
        adoptions[0] += 1
        _when[key] = adoptions[0]

    def _adopt(self, package: str) -> None:
        adopt(package)
        patch.forget()
        self._remember(package)
        self._packages.append(package)
        for module in [*sys.modules.values()]:
            file = getattr(module, "__file__", None) or ""
            if file.startswith(package + os.sep) and bound_names.bind(vars(module)):
                self._modules.append(vars(module))
