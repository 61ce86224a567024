"""Multiple roots, for expansions into partial fractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import array, known
from functrans.numpy.define import refuse
from functrans.numpy.polynomials import divided
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.define import answers
from functrans.scipy.source.reinterpret import NumpyWith, by_source
from functrans.scipy.source.sections import decided

__all__ = ["residue", "residuez", "unique_roots"]

scipys = lazy("scipy:signal")

_REDUCTIONS: dict[str, Any] = {"max": np.max, "min": np.min, "mean": np.mean, "avg": np.mean}
_REDUCTIONS |= {"maximum": np.max, "minimum": np.min}


@answers("scipy.signal:unique_roots")
def unique_roots(p: Any, tol: float = 1e-3, rtype: str = "min") -> tuple[Any, Any]:
    """The distinct roots among ``p``, and their multiplicities.

    Which roots are closer than ``tol`` is decided like Python's branches. The derivative is that of
    the least, the largest or the mean root of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.signal import unique_roots
    >>> grad(lambda p: unique_roots(p, rtype="mean")[0][1])(np.array([0.0, 2.0, 2.0]))
    array([0. , 0.5, 0.5])
    """
    if rtype not in _REDUCTIONS:
        raise ValueError(f"`rtype` must be one of {set(_REDUCTIONS)}, and is {rtype!r}")
    p = array(p)
    near = decided(np.abs(p[:, None] - p) <= tol)
    left = np.ones(p.shape[0], bool)
    groups = []
    for i, row in enumerate(near):
        if left[i]:
            groups.append(np.flatnonzero(row & left))
            left &= ~row
    roots = [_REDUCTIONS[rtype](p[group]) for group in groups]
    return np.stack(roots) if roots else p, np.array([len(group) for group in groups], int)


def _untrimmed(u: Any, v: Any) -> tuple[Any, Any]:
    """Polynomial division; leading zeros of the remainder, and their derivatives, are kept."""
    quotient, remainder = divided(u, v)
    return quotient, remainder[min(max(len(u) - len(v) + 1, 0), len(remainder) - 1) :]


UNTRIMMED = NumpyWith(polydiv=_untrimmed)


def _expansion(name: str, variable: str) -> Any:
    def function(b: Any, a: Any, tol: float = 1e-3, rtype: str = "avg") -> Any:
        end = 0 if variable == "s" else -1
        for letter, x in (("b", b), ("a", a)):
            if holds_tracer(x) and np.ndim(x) and np.size(x) and known(x[end]) == 0:
                refuse(
                    f"scipy.signal.{name} of a traced `{letter}` with {letter}[{end}] == 0",
                    "SciPy drops this coefficient, and its derivative would be lost: leave it out",
                )
        # each part of a multiple root has an infinite derivative, and their mean loses all digits
        if holds_tracer(a) and np.any(unique_roots(np.roots(a), tol)[1] > 1):
            refuse(
                f"scipy.signal.{name} of a traced denominator with multiple poles",
                "a multiple pole has no derivative: pass the denominator as a plain array",
            )
        return by_source(getattr(scipys.resolve(), name), (b, a, tol, rtype), {})

    function.__doc__ = f"""Residues, poles and direct terms of ``b / a``, in powers of {variable}.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.signal import {name}
    >>> def total(a):
    ...     return np.sum({name}(np.array([1.0]), a)[0])
    >>> grad(total)(np.array([2.0, 3.0])).round(6)
    array([-0.25,  0.  ])
    """
    return answers(f"scipy.signal:{name}")(function)


residue = _expansion("residue", "s")
residuez = _expansion("residuez", "1 / z")
