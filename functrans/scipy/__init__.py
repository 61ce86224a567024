"""SciPy's functions under SciPy's names and signatures, for arrays and for traced values.

``from functrans.scipy import special`` is to `scipy.special` what `functrans.numpy` is to `numpy`:
on plain arrays outside of a trace SciPy computes; on traced values the same call is recorded.
Within a trace, calls of SciPy's own Python functions are dispatched to these, too. A module is
imported when it is first used.
"""

from functools import partial as _partial
from functools import reduce as _reduce
from importlib import import_module as _import_module
from typing import Any

from functrans.lazily import lazy as _lazy
from functrans.scipy.from_source import FROM_SOURCE as _FROM_SOURCE
from functrans.trace import foreign as _foreign
from functrans.trace import protocols as _protocols
from functrans.tree import core as _tree

__all__ = [
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse",
    "spatial", "special", "stats",
]  # fmt: skip


_refusals = _lazy("functrans.scipy.inside:refusals")
_take_the_place = _lazy("functrans.scipy.entries:take_the_place")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"functrans.scipy has no {name!r}; it has {', '.join(__all__)}")


def _instead(name: str) -> str:
    """The suggestion of an error in place of a SciPy function such as ``scipy.linalg.solve``."""
    _, module, *rest = name.split(".")
    if module in __all__:
        ours = _reduce(_member, rest, __getattr__(module))
        refusals = _refusals.resolve()
        if name in refusals:
            return str(refusals[name])
        if rest[0] in _FROM_SOURCE.get(module, "").split():
            return "it reads values, which grad and jvp know, but jit and vmap do not"
        # the attributes that our namespace lacks may be SciPy's own
        if ours not in (None, _reduce(_member, rest, _import_module(f"scipy.{module}"))):
            return f"call functrans.{name}"
    return "it has no form for traced values"


def _member(owner: Any, name: str) -> Any:
    return getattr(owner, name, None)


_foreign.instead["scipy"] = _instead


def __dir__() -> list[str]:
    return __all__


_namespaces = [*__all__, "sparse.linalg", "spatial.distance"]
for _name in {*_namespaces, *_FROM_SOURCE, "spatial.transform"}:
    _protocols.late[f"scipy.{_name}"] = _partial(_take_the_place, _name, _name in _namespaces)

_tree.late["scipy.sparse"] = _lazy("functrans.scipy.sparse_arguments:register_all")
