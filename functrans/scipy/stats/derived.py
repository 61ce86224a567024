"""Continuous distributions that follow from others: with fixed parameters, or mirrored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.scipy.stats import densities, positive_axis, real_axis
from functrans.scipy.stats.distribution import Row


def _fixed(row: Row, name: str, *shapes: float) -> Row:
    """The distribution with its last shape parameters fixed."""

    def at(slot: Any) -> Any:
        return (lambda *given: slot(*given, *shapes)) if callable(slot) else slot

    return Row(name, row.shapes[: len(row.shapes) - len(shapes)], *map(at, row[2:]))


def _mirrored(row: Row, name: str) -> Row:
    """The distribution of ``-X``."""

    def support(*shapes: Any) -> tuple[Any, Any]:
        low, high = row.support(*shapes)
        return -high, -low

    def at_minus(function: Any) -> Callable[..., Any] | None:
        return function and (lambda x, *shapes: function(-x, *shapes))

    def minus(function: Any) -> Any:
        return function and (lambda *given: -function(*given))

    return row._replace(
        name=name, support=support, within=minus(row.within), logpdf=at_minus(row.logpdf),
        cdf=at_minus(row.sf), sf=at_minus(row.cdf), logcdf=at_minus(row.logsf),
        logsf=at_minus(row.logcdf), ppf=minus(row.isf), isf=minus(row.ppf), mean=minus(row.mean),
    )  # fmt: skip


_ROWS = {row.name: row for row in (*real_axis.ROWS, *positive_axis.ROWS, *densities.ROWS)}

ROWS: tuple[Row, ...] = (
    _fixed(_ROWS["gamma"], "erlang"),
    _fixed(_ROWS["lognorm"], "gibrat", 1.0),
    _fixed(_ROWS["rdist"], "semicircular", 3.0),
    _fixed(_ROWS["invgauss"], "wald", 1.0),
    _mirrored(_ROWS["gumbel_r"], "gumbel_l"),
    _mirrored(_ROWS["levy"], "levy_l"),
    _mirrored(_ROWS["weibull_min"], "weibull_max"),
)
