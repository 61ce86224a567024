"""Gathers and scatters of random programs: repeated, multi-axis and data-dependent indices."""

import numpy as np


def numbers(x):
    return x.dtype.kind in "fc" and x.ndim >= 1 and 0 < x.size <= 6000


def gather(d):
    first = d.value(numbers)
    if first is None:
        return None
    x = d.values[first]
    n, last = x.shape[0], x.shape[-1]
    name = d.choice([
        "repeated", "grid", "pairs", "along axis", "by data", "last axis", "two steps", "negative",
        "choose", "rows by columns", "mode wrap", "mode clip", "mask", "diagonal", "windows",
    ])  # fmt: skip
    count = d.choice([1, 2, 3, 7, 17, 40])
    if count * x.size > 20_000 or (x.ndim > 3 and count > 3):
        return None
    repeated = d.rng.integers(0, n, size=count)
    several = d.rng.integers(0, n, size=(2, count))
    columns = d.rng.integers(-last, last, size=count)
    along = d.rng.integers(0, n, size=(count, *x.shape[1:]))
    far = d.rng.integers(-2 * n, 3 * n, size=count)
    if name in ("pairs", "rows by columns", "diagonal") and x.ndim < 2:
        return None

    def by_data(x):
        at = np.floor(np.abs(np.tanh(x.real)) * (n - 1)).astype(np.int64)
        return np.take(x, at.ravel()[:count], axis=0)

    functions = {
        "repeated": lambda x: x[repeated], "grid": lambda x: x[several] * 2,
        "pairs": lambda x: x[repeated % n, ..., columns],
        "along axis": lambda x: np.take_along_axis(x, along, axis=0), "by data": by_data,
        "last axis": lambda x: x[..., columns],
        "two steps": lambda x: x[repeated][several % count],
        "negative": lambda x: x[repeated - n] * x[repeated],
        "choose": lambda x: np.where(x[repeated].real > 0, x[several[0]], x[several[1]]),
        "rows by columns": lambda x: x[np.ix_(repeated, columns % x.shape[1])],
        "mode wrap": lambda x: np.take(x, far, axis=0, mode="wrap"),
        "mode clip": lambda x: np.take(x, far, axis=0, mode="clip"),
        "mask": lambda x: np.where(np.isin(np.arange(n), repeated), x.T, x.T * 3).T,
        "diagonal": lambda x: np.diagonal(x) * 2,
        "windows": lambda x: x[(np.arange(n)[:, None] + np.arange(min(3, n))) % n].sum(1),
    }  # fmt: skip
    return f"take {name} ({count})", [first], functions[name]


def scatter(d):
    first = d.value(numbers)
    if first is None:
        return None
    x = d.values[first]
    n, last = x.shape[0], x.shape[-1]
    name = d.choice([
        "add at", "add pairs", "subtract at", "multiply at", "maximum at", "set rows", "set last",
        "set pairs", "add columns", "set by mask", "add by data", "along axis", "swap rows",
    ])  # fmt: skip
    if name == "maximum at" and x.dtype.kind == "c":
        return None
    if "pairs" in name and x.ndim < 2:
        return None
    count = d.choice([1, 2, 3, 7, 17])
    repeated = d.rng.integers(-n, n, size=count)
    columns = d.rng.integers(0, last, size=count)
    unique = d.rng.permutation(n)[: min(count, n)]
    i, j = d.integer(0, n), d.integer(0, n)
    scale = x.dtype.type(0.5)

    def apply(x):
        y = x * scale
        values = np.tanh(np.resize(np.arange(count), (count, *(1,) * (x.ndim - 1)))) + x[:1] * scale
        if name == "add at":
            np.add.at(y, repeated, values)
        elif name == "subtract at":
            np.subtract.at(y, repeated, values)
        elif name == "multiply at":
            # of what is multiplied, one by one, there is no derivative
            np.multiply.at(y, repeated, np.cos(np.arange(count)).reshape(-1, *(1,) * (x.ndim - 1)))
        elif name == "maximum at":
            np.maximum.at(y, repeated, values)
        elif name == "add pairs":
            np.add.at(y, (repeated, ..., columns), x[repeated, ..., columns])
        elif name == "set pairs":
            y[unique, ..., 0] = x[unique, ..., -1] * 2
        elif name == "set rows":
            y[unique] = x[unique[::-1]] * 3
        elif name == "set last":
            y[..., columns[0]] += x[..., 0]
        elif name == "add columns":
            np.add.at(y, (..., columns), x[..., :1] * np.ones(count, x.dtype))
        elif name == "set by mask":
            y[x.real > 0.5] *= 2
        elif name == "add by data":
            at = np.floor(np.abs(np.tanh(x.real)) * (n - 1)).astype(np.int64).ravel()[:count]
            at = np.minimum(at, n - 1)  # which half floats round up
            np.add.at(y, at, x[: at.size] if at.size <= n else x[:1])
        elif name == "along axis":
            at = np.broadcast_to(unique.reshape(-1, *(1,) * (x.ndim - 1))[:1], (1, *x.shape[1:]))
            np.put_along_axis(y, at, x[:1] * 2, axis=0)
        else:
            y[[i, j]] = y[[j, i]]
        return y

    if name == "add by data" and min(count, x.size) > n:
        return None
    return f"put {name} ({count}, {i}, {j})", [first], apply


OPERATIONS = [gather, gather, scatter, scatter]
