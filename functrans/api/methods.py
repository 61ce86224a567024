"""Compiled methods: what `jit` in a class gives for an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functrans.api.arguments import wrap
from functrans.api.lowered import Lowered
from functrans.api.outside import OutsideReport
from functrans.api.paths import PathReport

if TYPE_CHECKING:
    from functrans.api.compile import Jitted


class JitMethod:
    """A compiled method, bound to its instance."""

    def __init__(self, compiled: Jitted[..., Any], instance: Any) -> None:
        self._compiled = compiled
        self._instance = instance
        wrap(compiled, self, "jit")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As `Jitted.lower`."""
        return self._compiled.lower(*args, **kwargs)

    def paths(self) -> PathReport:
        """As `Jitted.paths`."""
        return self._compiled.paths()

    def outside(self) -> OutsideReport:
        """As `Jitted.outside`."""
        return self._compiled.outside()
