"""The operations of random programs, as users write them with NumPy.

An operation is drawn for the values that a program has so far. It returns its name, its operands,
and a function of them that works on arrays and on traced values; or None if none of the values
fits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans import lax
from tests.fuzz import complex_numbers, gathers, loops, products, signals


class Drawn(NamedTuple):
    """An operation with all its choices made."""

    text: str
    operands: tuple[int, ...]
    apply: Callable[..., Any]


class Draw:
    """The random choices for one program, and the values that it has so far."""

    def __init__(self, rng, values):
        self.rng = rng
        self.values = values

    def choice(self, options):
        return options[int(self.rng.integers(len(options)))]

    def value(self, wanted=lambda x: True):
        """The number of one of the values, the last ones more often."""
        fitting = [i for i, x in enumerate(self.values) if wanted(x)]
        if not fitting:
            return None
        weights = np.arange(1, len(fitting) + 1, dtype=float)
        return int(self.rng.choice(fitting, p=weights / weights.sum()))

    def integer(self, low, high):
        return int(self.rng.integers(low, high))


def floats(x):
    return x.dtype.kind == "f"


def integers(x):
    return x.dtype.kind in "iu"


def with_axes(least=1):
    return lambda x: x.ndim >= least and x.dtype.kind in "fiuc"


def unary(d):
    name = d.choice([
        "sin", "cos", "tanh", "exp(-abs)", "sqrt(abs)", "log1p(abs)", "square", "negative",
        "abs", "arctan", "copy", "cbrt", "softplus", "half",
    ])  # fmt: skip
    functions = {
        "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "square": lambda x: np.square(np.tanh(x)),
        "exp(-abs)": lambda x: np.exp(-np.abs(x)), "sqrt(abs)": lambda x: np.sqrt(np.abs(x) + 0.5),
        "log1p(abs)": lambda x: np.log1p(np.abs(x)), "negative": lambda x: -x, "abs": np.abs,
        "arctan": np.arctan, "copy": lambda x: x.copy(), "cbrt": lambda x: np.cbrt(x + 3.0),
        "softplus": lambda x: np.logaddexp(x, 0.0), "half": lambda x: x / 2,
    }  # fmt: skip
    return name, [d.value(floats)], functions[name]


def binary(d):
    name = d.choice(["add", "subtract", "multiply", "maximum", "minimum", "divide", "where"])
    functions = {
        "add": np.add, "subtract": np.subtract, "multiply": lambda x, y: np.tanh(x) * y,
        "maximum": np.maximum, "minimum": np.minimum, "divide": lambda x, y: x / (1.5 + np.cos(y)),
        "where": lambda x, y: np.where(x > 0.3, x, y),
    }  # fmt: skip
    first = d.value(floats)
    if first is None:
        return None
    return name, [first, d.value(lambda y: floats(y) and fits(d.values[first], y))], functions[name]


def fits(x, y):
    """Whether two arrays broadcast."""
    return all(
        a == b or 1 in (a, b) for a, b in zip(reversed(x.shape), reversed(y.shape), strict=False)
    )


def of_integers(d):
    name = d.choice([
        "lcg", "shift left", "shift right", "mask", "floor_divide", "remainder", "to float",
        "compare", "add", "hash", "reciprocal", "negative",
    ])  # fmt: skip
    shift = d.integer(0, 80)
    by = d.choice([-7, -1, 1, 2, 3, 8, 10, 0])
    functions = {
        "lcg": lambda n: n * n.dtype.type(85) + n.dtype.type(77),
        "shift left": lambda n: n << shift, "shift right": lambda n: n >> shift,
        "mask": lambda n: n & 63, "floor_divide": lambda n: n // by, "remainder": lambda n: n % by,
        "to float": lambda n: np.sin((n % 100).astype(np.float64)),
        "compare": lambda n: n + 1 > n, "add": lambda n: n + n,
        "hash": lambda n: (n ^ (n >> 3)) * 31, "reciprocal": np.reciprocal, "negative": np.negative,
    }  # fmt: skip
    if name in ("floor_divide", "remainder"):
        name = f"{name} by {by}"
        function = functions[name.split(" ")[0]]
    else:
        function = functions[name]
    wanted = (lambda x: x.dtype == np.int64) if name == "hash" else (lambda x: x.dtype.kind == "i")
    return f"{name} ({shift})", [d.value(wanted)], function


def conversion(d):
    dtype = d.choice(
        [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, bool]
    )
    first = d.value(lambda x: floats(x) or x.dtype.kind == "i")
    if first is None:
        return None
    if d.values[first].dtype.kind == "f" and dtype not in (np.float16, np.float32, np.float64):
        return (
            f"truncated to {np.dtype(dtype)}",
            [first],
            lambda x: (np.cos(x) * 99.5).astype(dtype),
        )
    return f"to {np.dtype(dtype)}", [first], lambda x: x.astype(dtype)


def reduction(d):
    first = d.value(with_axes())
    if first is None:
        return None
    x = d.values[first]
    axis = d.choice([None, *range(-x.ndim, x.ndim)])
    keepdims = bool(d.integer(0, 2))
    names = ["sum", "mean", "prod"] if x.dtype.kind == "f" else ["sum"]
    extent = x.size if axis is None else x.shape[axis]
    # of complex numbers, as of spectra, real parts are often equal up to their rounding
    if extent and x.dtype.kind != "c":
        names += ["max", "min", "argmax"] + (["var", "logsumexp"] if x.dtype.kind == "f" else [])
    name = d.choice(names)
    functions = {
        "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "argmax": np.argmax,
        "var": np.var, "prod": lambda x, **kw: np.prod(np.cos(x), **kw),
        "logsumexp": lambda x, **kw: np.log(np.sum(np.exp(np.tanh(x)), **kw)),
    }  # fmt: skip
    function = functions[name]
    if name == "mean" and not extent:
        return None
    return (
        f"{name}(axis={axis}, keepdims={keepdims})",
        [first],
        lambda x: function(x, axis=axis, keepdims=keepdims),
    )


def running(d):
    first = d.value(with_axes())
    if first is None:
        return None
    axis = d.integer(-d.values[first].ndim, d.values[first].ndim)
    name = d.choice(["cumsum", "cumprod", "maximum.accumulate"])
    functions = {
        "cumsum": lambda x: np.cumsum(x, axis=axis),
        "cumprod": lambda x: np.cumprod(1 + np.tanh(x) / 8, axis=axis),
        "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=axis),
    }
    if name == "cumprod" and d.values[first].dtype.kind != "f":
        return None
    return f"{name}(axis={axis})", [first], functions[name]


def movement(d):
    first = d.value(with_axes())
    if first is None:
        return None
    x = d.values[first]
    axis = d.integer(0, x.ndim)
    n = x.shape[axis]
    name = d.choice([
        "roll", "flip", "tile", "repeat", "pad", "take", "insert", "delete", "transpose", "reshape",
        "slice", "expand", "reverse take", "diff", "swap", "ravel", "broadcast", "resize", "triu",
    ])  # fmt: skip
    shift = d.integer(-5, 6)
    mode = d.choice(["constant", "wrap", "symmetric", "reflect", "edge"])
    width = (d.integer(0, 4), d.integer(0, 4))
    wanted = d.rng.integers(0, max(n, 1), size=d.integer(0, 6))
    start, stop, step = d.integer(0, n + 1), d.integer(0, n + 1), d.choice([1, 1, 2, 3, -1])
    order = tuple(map(int, d.rng.permutation(x.ndim)))
    at = d.integer(0, n + 1)
    cut = (slice(None),) * axis + (slice(min(start, stop), max(start, stop)),)
    if step != 1:
        cut = (slice(None),) * axis + (slice(None, None, step),)
    if name == "pad" and ((mode != "constant" and n == 0) or (mode == "reflect" and n < 2)):
        return None
    if name in ("take", "reverse take", "insert", "delete") and n == 0:
        return None
    widths = [width if i == axis else (0, 0) for i in range(x.ndim)]
    shapes = [
        s for s in ((x.size,), (1, x.size), (x.size, 1), (*x.shape, 1)) if np.prod(s) == x.size
    ]
    if x.size % 2 == 0 and x.size:
        shapes.append((2, x.size // 2))
    shape = d.choice(shapes)
    functions = {
        "roll": lambda x: np.roll(x, shift, axis=axis),
        "flip": lambda x: np.flip(x, axis),
        "tile": lambda x: np.tile(x, 2),
        "repeat": lambda x: np.repeat(x, 2, axis=axis),
        "pad": lambda x: np.pad(x, widths, mode=mode),
        "take": lambda x: np.take(x, wanted, axis=axis),
        "reverse take": lambda x: np.take(x, np.arange(n)[::-1], axis=axis),
        "insert": lambda x: np.insert(x, at, 2, axis=axis),
        "delete": lambda x: np.delete(x, min(at, n - 1), axis=axis),
        "transpose": lambda x: np.transpose(x, order),
        "reshape": lambda x: np.reshape(x, shape),
        "slice": lambda x: x[cut],
        "expand": lambda x: np.expand_dims(x, axis),
        "diff": lambda x: np.diff(x, axis=axis),
        "swap": lambda x: np.swapaxes(x, 0, axis),
        "ravel": np.ravel,
        "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)) + 0,
        "resize": lambda x: np.resize(x, (3, *x.shape)) if x.size else x,
        "triu": lambda x: np.triu(x) if x.ndim > 1 else x,
    }
    detail = {"roll": shift, "pad": (mode, width), "take": wanted, "slice": cut, "reshape": shape,
              "transpose": order, "insert": at, "delete": at}  # fmt: skip
    return f"{name}(axis={axis}, {detail.get(name, '')})", [first], functions[name]


def joining(d):
    first = d.value(with_axes())
    if first is None:
        return None
    x = d.values[first]
    axis = d.integer(0, x.ndim)
    name = d.choice(["concatenate", "stack", "many", "with itself"])

    def alike(y):
        rest = [i for i in range(x.ndim) if i != axis]
        return (
            y.ndim == x.ndim and y.dtype == x.dtype and all(x.shape[i] == y.shape[i] for i in rest)
        )

    if name == "concatenate":
        return (
            f"concatenate(axis={axis})",
            [first, d.value(alike)],
            lambda x, y: np.concatenate([x, y], axis=axis),
        )
    if name == "stack":
        second = d.value(lambda y: y.shape == x.shape and y.dtype == x.dtype)
        return f"stack(axis={axis})", [first, second], lambda x, y: np.stack([x, y], axis=axis)
    if name == "many":
        count = d.choice([5, 40, 300])
        if x.size > 100:
            return None
        return (
            f"stack of {count}",
            [first],
            lambda x: np.stack([x * (i % 3) for i in range(count)], axis=axis),
        )
    return (
        f"concatenate with itself (axis={axis})",
        [first],
        lambda x: np.concatenate([x, x * 2, x], axis=axis),
    )


def update(d):
    first = d.value(lambda x: with_axes()(x) and x.shape[0] > 0)
    if first is None:
        return None
    x = d.values[first]
    n = x.shape[0]
    name = d.choice(["row", "rows", "add rows", "slice", "mask", "last axis", "column loop"])
    i, j = d.integer(-n, n), d.integer(0, n)
    rows = d.rng.integers(0, n, size=d.integer(1, 6))

    def apply(x):
        y = x.copy()
        if name == "row":
            y[i] = 1
        elif name == "rows":
            y[np.unique(rows)] = y[np.unique(rows)] * 2
        elif name == "add rows":
            np.add.at(y, rows, 1)
        elif name == "slice":
            y[j:] += 2
        elif name == "mask":
            y[y > 0] = 0
        elif name == "last axis":
            y[..., 0] = y[..., -1] * 2 if y.shape[-1] else 0
        else:
            for k in range(min(n, 3)):
                y[k] = y[k - 1] + y[k]
        return y

    if name == "last axis" and x.shape[-1] == 0:
        return None
    return f"{name} [{i}, {j}, {rows}]", [first], apply


def product(d):
    first = d.value(lambda x: floats(x) and x.ndim == 2)
    if first is None:
        return None
    x = d.values[first]
    name = d.choice(["x @ x.T", "x.T @ x", "x @ y", "outer", "einsum", "batched", "gram of three"])
    scale = 1 / max(max(x.shape), 1)
    if name == "x @ y":
        second = d.value(lambda y: floats(y) and y.ndim == 2 and y.shape[0] == x.shape[1])
        return name, [first, second], lambda x, y: x @ y * scale
    functions = {
        "x @ x.T": lambda x: x @ x.T * scale, "x.T @ x": lambda x: x.T @ x * scale,
        "outer": lambda x: np.outer(x[:1], x[:, :1]),
        "einsum": lambda x: np.einsum("ij,ik->jk", x, np.tanh(x)) * scale,
        "batched": lambda x: np.matmul(np.stack([x, x + 1]), x.T) * scale,
        "gram of three": lambda x: (x @ x.T * scale) @ x,
    }  # fmt: skip
    return name, [first], functions[name]


def linear_algebra(d):
    # LAPACK has no routines for half precision
    first = d.value(
        lambda x: floats(x) and x.dtype != np.float16 and x.ndim == 2 and 0 < x.shape[0] <= 20
    )
    if first is None:
        return None

    def regular(x):
        a = np.tanh(x)
        return a @ a.T / a.shape[0] + 2 * np.eye(a.shape[0])

    name = d.choice(["solve", "inv", "cholesky", "det", "slogdet"])
    functions = {
        "solve": lambda x: np.linalg.solve(regular(x), x),
        "inv": lambda x: np.linalg.inv(regular(x)),
        "cholesky": lambda x: np.linalg.cholesky(regular(x)),
        "det": lambda x: np.linalg.det(regular(x) / 2),
        "slogdet": lambda x: np.linalg.slogdet(regular(x))[1],
    }
    return name, [first], functions[name]


def scan(d):
    first = d.value(lambda x: floats(x) and x.ndim >= 1 and 0 < x.shape[0] <= 64)
    reverse = bool(d.integer(0, 2))
    kind = d.choice(["sum", "shifted", "matrix", "last"])

    def step(carry, row):
        if kind == "sum":
            new = carry * 0.5 + np.sin(row)
        elif kind == "shifted":
            new = np.roll(carry, 1) * 0.5 + row if row.ndim else carry * 0.5 + row
        elif kind == "matrix":
            new = np.tanh(carry + np.cumsum(row, axis=-1) * 0.1) if row.ndim else carry * row
        else:
            new = row
        return new, (carry + row) if kind != "last" else np.cos(carry)

    def apply(x):
        start = x[0] * 0.1
        if not signals.is_plain(x):
            return lax.scan(step, start, x, reverse=reverse)[1]
        rows, carry = [], start
        for row in x[::-1] if reverse else x:
            carry, out = step(carry, row)
            rows.append(out)
        return np.stack(rows[::-1] if reverse else rows)

    return f"scan {kind} (reverse={reverse})", [first], apply


def while_loop(d):
    first = d.value(floats)
    limit = d.integer(0, 6)

    def apply(x):
        state = (np.zeros((), np.int64), x)
        body = lambda s: (s[0] + 1, np.roll(np.sin(s[1]), 1) + 0.1 if s[1].ndim else np.sin(s[1]))  # noqa: E731
        if not signals.is_plain(x):
            return lax.fori_loop(0, limit, lambda _, y: body((0, y))[1], x)
        for _ in range(limit):
            state = body(state)
        return state[1]

    return f"loop of {limit}", [first], apply


def branch(d):
    first = d.value(lambda x: floats(x) and x.size > 0)
    yes = lambda x: np.flip(np.sin(x)) if x.ndim else np.sin(x)  # noqa: E731
    no = lambda x: np.cumsum(x, axis=-1) * 0.1 if x.ndim else x * 2  # noqa: E731

    def apply(x):
        condition = np.sum(np.sign(x)) > 0
        if not signals.is_plain(x):
            return lax.cond(condition, yes, no, x)
        return yes(x) if condition else no(x)

    return "branch", [first], apply


OPERATIONS = [
    unary, unary, unary, binary, binary, binary, of_integers, reduction, reduction, running,
    movement, movement, movement, movement, joining, joining, update, update, product,
    linear_algebra, scan, while_loop, branch, conversion, *complex_numbers.OPERATIONS,
    *signals.OPERATIONS, *products.OPERATIONS, *loops.OPERATIONS, *gathers.OPERATIONS,
]  # fmt: skip


def drawn(d):
    """An operation that fits, or None."""
    given = d.choice(OPERATIONS)(d)
    if given is None or any(operand is None for operand in given[1]):
        return None
    text, operands, apply = given
    return Drawn(text, tuple(operands), apply)
