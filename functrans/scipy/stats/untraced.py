"""SciPy distributions without a traced form, as proxies that refuse traced values."""

from __future__ import annotations

from typing import Any

from functrans.numpy.define import refuse
from functrans.ops.arrays.shape import any_traced
from functrans.scipy.stats.distribution import Function


class Untraced:
    """A SciPy distribution without a traced form: its methods raise an error for traced values."""

    def __init__(self, name: str, distribution: Any) -> None:
        self.name = name
        self._distribution = distribution

    def __repr__(self) -> str:
        return f"functrans.scipy.stats.{self.name}"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._distribution, name)
        return self._refusing(found, f".{name}") if callable(found) else found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The distribution with its parameters fixed."""
        return self._refusing(self._distribution, "")(*args, **kwargs)

    def _refusing(self, function: Function, method: str) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if any_traced(args, kwargs):
                refuse(f"scipy.stats.{self.name}{method}", _UNTRACED)
            return function(*args, **kwargs)

        return call


_UNTRACED = (
    "no differentiable formula of it is known here; if you have one, write the "
    "log-density with the functions of functrans.scipy.special"
)
