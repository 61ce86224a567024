"""Loops of random programs over batches: scans and while loops under `vmap`, and nested ones."""

import numpy as np

import functrans
from functrans import lax
from tests.fuzz.signals import is_plain, single_or_double


def rows(least=1, most=64):
    return lambda x: (
        single_or_double(x) and x.ndim >= 2 and least <= x.shape[0] <= most and 0 < x.size <= 3000
    )


def over_rows(function, in_axes=0):
    """`vmap` of a function; a Python loop for plain arrays."""

    def apply(x):
        if not is_plain(x):
            return functrans.vmap(function, in_axes=in_axes)(x)
        return np.stack([function(row) for row in np.moveaxis(x, in_axes, 0)])

    return apply


def scanned(step, start, xs, reverse=False):
    """`lax.scan`, or a Python loop for plain arrays."""
    if not is_plain(xs):
        return lax.scan(step, start, xs, reverse=reverse)
    carry, outs = start, []
    for x in xs[::-1] if reverse else xs:
        carry, out = step(carry, x)
        outs.append(out)
    return carry, np.stack(outs[::-1] if reverse else outs)


def batched_scan(d):
    """A scan for each of a batch, along an axis of each; its carry has several parts."""
    first = d.value(rows())
    if first is None:
        return None
    x = d.values[first]
    axis = d.integer(0, x.ndim)
    if x.shape[axis] > 70 or x.size == 0:
        return None
    reverse = bool(d.integer(0, 2))
    name = d.choice(["filter", "counted", "running best", "matrix", "nested", "branch", "gather"])
    weights = d.rng.normal(size=(3, 3)).astype(x.dtype) / 4
    order = d.rng.integers(0, 3, size=3)

    def filtered(row):
        def step(carry, x):
            a, b = carry
            new = (0.5 * a + np.tanh(x), 0.3 * b + a)
            return new, new[0] - new[1]

        return scanned(step, (row[0] * 0, row[0]), row, reverse)[1]

    def counted(row):
        def step(carry, x):
            total, n = carry
            n = n + (x > 0)
            return (total + x, n), total / (n + 1)

        count = np.zeros(row.shape[1:], np.int64)
        (total, n), out = scanned(step, (row[0] * 0, count + (row[0] * 0 > 1)), row, reverse)
        return out + total + n

    def running_best(row):
        def step(carry, x):
            best = np.maximum(carry, x)
            return best, np.where(best > x, x, best * 2)

        return scanned(step, row[0], row, reverse)[1]

    def matrix(row):
        def step(carry, x):
            new = np.tanh(weights @ carry + x.sum())
            return new, new[0] * x

        return scanned(step, weights[0] + row.sum() * 0, row, reverse)[1]

    def nested(row):
        def step(carry, x):
            inner = scanned(
                lambda c, w: (c * 0.5 + w * x.mean(), c + w), x.mean(), weights[0] + 0 * x.sum()
            )
            return carry + inner[0], inner[1].sum() + carry

        return scanned(step, row.mean() * 0, row, reverse)[1]

    def branch(row):
        def step(carry, x):
            if is_plain(x):
                new = np.sin(carry) if x.sum() > 0 else carry * 0.5 + 1
            else:
                new = lax.cond(x.sum() > 0, np.sin, lambda c: c * 0.5 + 1, carry)
            return new, new + x

        return scanned(step, row.mean(), row, reverse)[1]

    def gathered(row):
        def step(carry, x):
            new = carry[order] * 0.5 + np.tanh(x).mean()
            return new, new[0] + new[-1]

        return scanned(step, weights[1] + row.sum() * 0, row, reverse)[1]

    functions = {
        "filter": filtered, "counted": counted, "running best": running_best, "matrix": matrix,
        "nested": nested, "branch": branch, "gather": gathered,
    }  # fmt: skip
    function = functions[name]
    return (
        f"scans in a batch: {name} (axis={axis}, reverse={reverse})",
        [first],
        over_rows(function, axis),
    )


def batched_while(d):
    """A while loop for each of a batch, whose number of steps depends on data."""
    first = d.value(rows())
    if first is None:
        return None
    x = d.values[first]
    axis = d.integer(0, x.ndim)
    if x.shape[axis] > 70:
        return None
    name = d.choice(["newton", "collatz", "halving", "rolling", "nested", "search", "fori"])
    most = d.integer(1, 7)

    def loop(condition, body, state):
        if not all(is_plain(x) for x in state):
            return lax.while_loop(condition, body, state)
        while condition(state):
            state = body(state)
        return state

    def newton(row):
        a = np.abs(row.sum()) + 1
        y, _ = loop(
            lambda s: (np.abs(s[0] * s[0] - a) > 1e-3 * a) & (s[1] < 40),
            lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1),
            (a, np.int64(0) + 0 * (a > 0)),
        )
        return y * row

    def collatz(row):
        n = np.abs(np.trunc(row.sum() * 10)).astype(np.int64) % 30 + 1
        n, count = loop(
            lambda s: (s[0] != 1) & (s[1] < 20),
            lambda s: (np.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0 * n),
        )
        return count + 0.5 * n + row

    def halving(row):
        (y,) = loop(
            lambda s: np.abs(s[0]).max() > 0.25, lambda s: (s[0] * np.cos(s[0]) * 0.5,), (row,)
        )
        return y

    def rolling(row):
        y, _ = loop(
            lambda s: s[1] < most + (row.sum() > 0),
            lambda s: (np.roll(np.sin(s[0]), 1, axis=0) + 0.1, s[1] + 1),
            (row, 0 * (row.sum() > 9)),
        )
        return y

    def nested(row):
        def inner(s):
            y, n = s
            z, _ = loop(lambda t: t[1] < n, lambda t: (t[0] * 0.5 + 0.1, t[1] + 1), (y, 0 * n))
            return z, n + 1

        y, _ = loop(lambda s: s[1] < most, inner, (row, np.int64(0) + 0 * (row.sum() > 9)))
        return y

    def search(row):
        flat = row.reshape(-1)
        i, total = loop(
            lambda s: (s[0] < flat.size) & (np.abs(s[1]) < 2),
            lambda s: (s[0] + 1, s[1] + flat[s[0]]),
            (np.int64(0) + 0 * (row.sum() > 9), flat[0] * 0),
        )
        return total + i * row

    def fori(row):
        body = lambda i, y: y * 0.5 + np.cos(y + i)  # noqa: E731
        if not is_plain(row):
            return lax.fori_loop(0, most, body, row)
        for i in range(most):
            row = body(i, row)
        return row

    functions = {
        "newton": newton, "collatz": collatz, "halving": halving, "rolling": rolling,
        "nested": nested, "search": search, "fori": fori,
    }  # fmt: skip
    return (
        f"while loops in a batch: {name} (axis={axis}, {most})",
        [first],
        over_rows(functions[name], axis),
    )


OPERATIONS = [batched_scan, batched_while]
