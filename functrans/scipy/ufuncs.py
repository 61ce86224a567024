"""Proxies for the ufuncs of `scipy.special`, which import SciPy when they are called.

Importing `scipy.special` takes longer than the rest of a first call whose code is on disk. Traced
values do not need it: SciPy is imported only for calls with plain arrays, and for attributes of the
ufuncs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.lazily import Lazy, homes
from functrans.ops import HOME
from functrans.trace.tracer import Tracer

_ELSEWHERE = homes(
    {
        "functrans.ops.elementwise.exponential": "exp2 expit expm1 log1p logit",
        "functrans.ops.elementwise.power": "cbrt",
    }
)
_FAMILIES = "functrans.ops.elementwise.special."
_NO_UFUNCS = {"spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "zeta"}

UFUNCS = {
    **{name: name for name, home in HOME.items() if home.startswith(_FAMILIES)},
    **{name: name for name in _ELSEWHERE},
    "digamma": "psi",
    "jn": "jv",
}
"""The ufuncs of `scipy.special` with a traced form: their own names, by all of their aliases."""

for _name in [name for name in UFUNCS if name.startswith("_") or name in _NO_UFUNCS]:
    del UFUNCS[_name]

_PLAIN = (np.ndarray, np.float64, np.float32, int, float, complex, bool, np.int64)


class StandIn(Lazy):
    """A proxy for a ufunc of `scipy.special`, with its call and its attributes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"scipy.special:{name}")
        self.__qualname__ = name
        self.__module__ = "functrans.scipy.special"
        self.__doc__ = (
            f"SciPy's ufunc ``scipy.special.{name}``, for arrays and for traced values.\n\n"
            f"What it computes is said there: ``help(scipy.special.{name})``."
        )

    def resolve(self) -> Any:
        """SciPy's ufunc."""
        return _resolved(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = None
        for x in args:
            if isinstance(x, Tracer):
                tracer = x
            elif type(x) not in _PLAIN:
                break
        else:
            if tracer is not None and not kwargs:
                try:
                    return tracer.__array_ufunc__(self, "__call__", *args)  # type: ignore[arg-type]
                except (TypeError, ValueError):
                    pass  # SciPy's ufunc raises NumPy's error for wrong arguments
        return self.resolve()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # introspection must not import SciPy
            raise AttributeError(name)
        return getattr(self.resolve(), name)

    def __dir__(self) -> list[str]:
        return dir(self.resolve())

    def __repr__(self) -> str:
        return f"<functrans.scipy.special.{self.name}>"

    def __reduce__(self) -> str:
        return self.name


@cached(512)
def _resolved(of: StandIn) -> Any:
    return Lazy.resolve(of)
