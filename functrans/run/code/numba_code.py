"""Numba dispatchers of printed source, which other Numba code may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functrans.caches import cached, once
from functrans.emit import source
from functrans.emit.program import emit as emit_program
from functrans.locks import importing
from functrans.loop.statements import Kernel
from functrans.loop.walk import routines
from functrans.lower.plan import Plan
from functrans.run.code import routines as library


@once
def _numba() -> Any:
    with importing:
        import numba

        return numba


def _compiled(text: str, name: str, scope: dict[str, Any]) -> Any:
    exec(text, scope)
    return _numba().njit(error_model="numpy", nogil=True)(scope[name])


@cached(1024)
def _kernel(text: str, name: str, called: tuple[str, ...]) -> Any:
    addresses = {symbol: library.address(symbol) for symbol in called}
    return _compiled(text, name, source.namespace(addresses))


def names_of(kernels: Iterable[Kernel]) -> dict[Kernel, str]:
    """The names of kernels in the source."""
    return {kernel: f"nest{i}" for i, kernel in enumerate(kernels)}


def dispatchers(kernels: Mapping[Kernel, str]) -> dict[str, Any]:
    """The dispatchers of kernels, by name.

    Kernels of equal text share one, which is compiled once for each combination of argument types.
    """
    return {
        name: _kernel(source.emit(kernel, "nest"), "nest", routines(kernel.body))
        for kernel, name in kernels.items()
    }


def program(plan: Plan) -> Any:
    """The dispatcher of a plan: takes its inputs and outputs as arrays, and returns the status."""
    names = names_of(plan.kernels)
    scope = {**source.namespace(), **dispatchers(names)}
    return _compiled(emit_program(plan, names), "program", scope)
