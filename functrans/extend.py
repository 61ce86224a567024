"""The public interface for defining operations, which the library itself uses.

`elementwise` defines an elementwise operation from one rule for the derivative and one expression
for the compiled form: it can then be differentiated to any order, batched and compiled. `primitive`
defines any other operation. `functrans.testing.check_primitive` tests a definition.
docs/adding-a-primitive.md has an example of each kind.
"""

from functrans import vecmath
from functrans.ir.primitive import (
    ALL_LINEAR,
    BILINEAR,
    LINEAR,
    ZERO_DERIVATIVE,
    Primitive,
    Sample,
    not_differentiable,
    registry,
)
from functrans.ir.primitive import unregister as _leave_registry
from functrans.lazily import lazy
from functrans.loop import nodes, scalar
from functrans.ops.arrays.promotion import common, floating
from functrans.ops.arrays.structural import full_p as full
from functrans.ops.arrays.structural import iota
from functrans.ops.compiled.emission import Emission, Emit
from functrans.ops.compiled.pairs import Pair
from functrans.ops.define import primitive
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import (
    away_from_integers,
    booleans,
    broadcasting,
    cases,
    complexes,
    integers,
    reals,
)
from functrans.trace import protocols
from functrans.trace.tracer import Tracer

__all__ = [
    "ALL_LINEAR", "BILINEAR", "LINEAR", "ZERO_DERIVATIVE", "Emission", "Emit", "Pair", "Primitive",
    "Sample", "Store", "Tracer", "away_from_integers", "booleans", "broadcasting", "cases",
    "common", "complexes", "elementwise", "floating", "full", "integers", "iota", "lazy", "nest",
    "nodes", "not_differentiable", "primitive", "reals", "registry", "scalar", "unregister",
    "vecmath",
]  # fmt: skip

# so that the definition of a name that exists already raises
registry.complete()

_LIBRARYS = dict(protocols.ufuncs.items())

nest = lazy("functrans.ops.compiled.statements:nest")

Store = lazy("functrans.loop.statements:Store")


def unregister(name: str) -> None:
    """Remove a primitive, so that its name can be defined again (in a notebook cell run twice).

    If it was defined for a ufunc, traced values support that ufunc as without the definition.
    """
    primitive = registry.get(name)
    _leave_registry(name)
    for ufunc in [key for key, answer in protocols.ufuncs.items() if answer is primitive]:
        if ufunc in _LIBRARYS:
            protocols.ufuncs[ufunc] = _LIBRARYS[ufunc]
        else:
            del protocols.ufuncs[ufunc]


def __dir__() -> list[str]:
    return sorted(__all__)
