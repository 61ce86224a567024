"""Matrix products of random programs: transposed operands, odd sizes, half precision, epilogues."""

import numpy as np

from tests.fuzz.signals import single_or_double

SIZES = (1, 2, 3, 5, 7, 15, 17, 31, 33, 65)

PATTERNS = (
    "ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ij,kj->ki", "ji,jk->ik", "ji,kj->ik",
    "bij,bjk->bik", "bij,bkj->bik", "bji,bjk->bki", "bij,jk->bik", "bij,bj->bi", "ij,bjk->bik",
    "bij,bkj->kbi", "ij,ij->i", "ij,ij->j", "ij,kj->k", "bij,bik->jk", "bij,bij->b", "ij,j->i",
    "bij,bij->ij", "bij,cj->bci", "ib,bjk->kij",
)  # fmt: skip

EPILOGUES = {
    "none": lambda x: x, "bias and relu": lambda x: np.maximum(x + x.dtype.type(0.25), 0),
    "tanh": np.tanh, "scaled": lambda x: x * x.dtype.type(0.5),
    "row sums": lambda x: x.sum(-1, dtype=np.float32),
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) * x.dtype.type(0.5),
    "columns' bias": lambda x: x + np.arange(x.shape[-1], dtype=x.dtype) * x.dtype.type(1 / 64),
    "residual": lambda x: x + np.tanh(x) * x, "transposed": lambda x: np.swapaxes(x, -1, -2),
}  # fmt: skip


def patterns(d):
    """A value with a matrix that is drawn, in any order of axes, with something done on the way."""
    pattern = d.choice(PATTERNS)
    operands, result = pattern.split("->")
    left, right = operands.split(",")
    first = d.value(lambda x: single_or_double(x) and x.ndim == len(left) and x.size <= 4000)
    if first is None:
        return None
    x = d.values[first]
    sizes = dict(zip(left, x.shape, strict=True))
    if 0 in x.shape or np.prod([d.choice(SIZES) for _ in right]) > 4000:
        return None
    other = d.rng.normal(size=[sizes.setdefault(c, d.choice(SIZES)) for c in right])
    dtype = d.choice([np.float16, np.float32, x.dtype.type, x.dtype.type])
    terms = np.prod([size for letter, size in sizes.items() if letter not in result])
    if dtype is np.float16 and terms > 300:  # NumPy's own sum rounds after each of them
        dtype = np.float32
    if dtype is np.float16:  # sums that cancel have no digits left
        other = np.abs(other)
    other = (other / max(x.shape[-1], other.shape[-1])).astype(dtype)
    before = d.choice(["none", "none", "tanh", "reversed", "where"])
    epilogue = d.choice(list(EPILOGUES))
    if epilogue in ("softmax", "columns' bias", "transposed", "row sums"):
        if len(result) < (2 if epilogue == "transposed" else 1):
            epilogue = "tanh"

    def apply(x):
        x = np.tanh(np.abs(x) if dtype is np.float16 else x).astype(dtype)
        if before == "reversed":
            x = x[::-1]
        elif before == "where":
            x = np.where(x > 0, x, dtype(0.25) * x)
        elif before == "tanh":
            x = np.tanh(x)
        return EPILOGUES[epilogue](np.einsum(pattern, x, other))

    return f"{pattern} {np.dtype(dtype)} {other.shape} ({before}; {epilogue})", [first], apply


def chains(d):
    """Layers, attention, Gram matrices: products of products."""
    name = d.choice([
        "layers", "attention", "gram", "bilinear", "power", "masked", "moments", "triangles",
    ])  # fmt: skip
    first = d.value(lambda x: single_or_double(x) and x.ndim == 2 and 0 < x.size <= 3000)
    if first is None:
        return None
    m, n = d.values[first].shape
    if max(m, n) > 130:
        return None
    k, heads = d.choice(SIZES[:8]), d.choice([1, 2, 3])
    dtype = d.choice([np.float16, np.float32, d.values[first].dtype.type])
    a, b = (d.rng.normal(size=s).astype(dtype) / dtype(8) for s in ((n, k), (k, n)))
    three = (d.rng.normal(size=(3, heads, n, k)) / 8).astype(dtype)
    causal = bool(d.integer(0, 2))

    def layers(x):
        return np.maximum(x @ a + dtype(0.1), 0) @ b + x

    def attention(x):
        q, key, v = (x @ w for w in three)
        scores = (q @ np.swapaxes(key, -1, -2)).astype(np.float32) / np.sqrt(k)
        if causal:
            scores = np.where(np.tri(m, dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        weights = (e / e.sum(-1, keepdims=True)).astype(dtype)
        return np.moveaxis(weights @ v, 0, 1).reshape(m, heads * k)

    functions = {
        "layers": layers, "attention": attention,
        "gram": lambda x: (x.T @ x) / dtype(m) + (x.T @ x).T / dtype(m),
        "bilinear": lambda x: np.einsum("mi,ik,kj,mj->m", x, a, b, x),
        "power": lambda x: (x @ (a @ b)) @ (a @ b) / dtype(4),
        "masked": lambda x: np.where(x > 0, x, dtype(0)) @ a,
        "triangles": lambda x: np.tril(np.tril(x, k - 3) @ a @ np.triu(b, heads - 2), causal),
        "moments": lambda x: np.einsum("mi,mj->ij", x - x.mean(0), x * dtype(1 / m)),
    }  # fmt: skip
    return (
        f"{name} of {np.dtype(dtype)} (k={k}, heads={heads}, causal={causal})",
        [first],
        lambda x: functions[name](np.tanh(x).astype(dtype)),
    )


def middle(d):
    """Reductions over axes in the middle, and over several; what is made of their results."""
    first = d.value(lambda x: x.dtype.kind == "f" and x.ndim >= 1 and 0 < x.size <= 6000)
    if first is None:
        return None
    size = d.values[first].size
    factors = [n for n in (1, 2, 3, 4, 5, 6, 8, 13, 16, 17, 25, 32, 50, 64) if size % n == 0]
    p = d.choice(factors)
    q = d.choice([n for n in factors if (size // p) % n == 0])
    shape = (p, size // p // q, q)
    axes = d.choice([1, 1, (0, 2), (0, 1), (1, 2), (2, 0), 0, -1, -2])
    name = d.choice([
        "sum", "mean", "max", "argmax", "var", "softmax", "norm", "argmin", "any", "center", "prod",
        "count", "ptp", "std of halves", "cumsum", "sorted",
    ])  # fmt: skip
    one = axes if isinstance(axes, int) else axes[0]

    def center(x):
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1)

    def softmax(x):
        e = np.exp(x - x.max(axes, keepdims=True))
        return e / e.sum(axes, keepdims=True)

    functions = {
        "sum": lambda x: x.sum(axes), "mean": lambda x: x.mean(axes), "max": lambda x: x.max(axes),
        "argmax": lambda x: x.argmax(one), "argmin": lambda x: x.argmin(one),
        "var": lambda x: x.var(axes), "softmax": softmax, "center": center,
        "norm": lambda x: np.sqrt((x * x).sum(axes) + 1), "any": lambda x: (x > 1.5).any(axes),
        "prod": lambda x: np.prod(1 + x / x.size, axis=axes),
        "count": lambda x: np.count_nonzero(x > 0, axis=axes),
        "ptp": lambda x: np.ptp(x, axis=one),
        "std of halves": lambda x: x.astype(np.float16).std(axes),
        "cumsum": lambda x: np.cumsum(x, axis=one), "sorted": lambda x: np.sort(x, axis=one),
    }  # fmt: skip
    order = tuple(map(int, d.rng.permutation(3)))
    return (
        f"{name} over {axes} of {shape} (turned {order})",
        [first],
        lambda x: functions[name](np.tanh(x.reshape(shape)).transpose(order)),
    )


OPERATIONS = [patterns, patterns, chains, middle, middle]
