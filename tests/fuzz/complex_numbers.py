"""Operations of random programs on complex numbers; complex results are compared as pairs."""

import numpy as np


def complexes(x):
    return x.dtype.kind == "c"


def floats_or_complexes(x):
    return x.dtype.kind == "f" or complexes(x)


def made(d):
    name = d.choice(["turned", "exp(1j)", "of two", "cast"])
    functions = {
        "turned": lambda x: x * (0.6 - 0.8j), "exp(1j)": lambda x: np.exp(1j * x),
        "of two": lambda x: np.cos(x) + 1j * np.sin(2 * x), "cast": lambda x: x.astype(complex),
    }  # fmt: skip
    return f"complex: {name}", [d.value(lambda x: x.dtype.kind == "f")], functions[name]


def part(d):
    name = d.choice(["real", "imag", "abs", "angle", "is small"])
    functions = {
        "real": np.real, "imag": np.imag, "abs": np.abs, "angle": lambda z: np.angle(z + 30),
        "is small": lambda z: np.abs(z) < 0.7,
    }  # fmt: skip
    return f"complex: {name}", [d.value(complexes)], functions[name]


def unary(d):
    name = d.choice([
        "conj", "exp", "sqrt", "log", "tanh", "square", "reciprocal", "sin", "arctan", "sign",
        "negative", "cube", "power", "copy",
    ])  # fmt: skip
    functions = {
        "conj": np.conj, "exp": lambda z: np.exp(z / (2 + np.abs(z))),
        "sqrt": lambda z: np.sqrt(z + 5 * (1 + np.abs(z))),
        "log": lambda z: np.log(z * z.conj() + 1),
        "tanh": lambda z: np.tanh(z / (1 + np.abs(z))), "square": lambda z: z * z / (1 + np.abs(z)),
        "reciprocal": lambda z: 1 / (z + 3 * (1 + np.abs(z))), "negative": lambda z: -z,
        "sin": lambda z: np.sin(z / (1 + np.abs(z))), "sign": lambda z: np.sign(z + 1000),
        "arctan": lambda z: np.arctan(z / (2 + 2 * np.abs(z))),
        "cube": lambda z: (z / (1 + np.abs(z))) ** 3, "copy": lambda z: z.copy(),
        "power": lambda z: (z + 4 * (1 + np.abs(z))) ** 0.3,
    }  # fmt: skip
    return f"complex: {name}", [d.value(complexes)], functions[name]


def binary(d):
    name = d.choice(["add", "subtract", "multiply", "divide", "where"])
    functions = {
        "add": np.add, "subtract": np.subtract,
        "multiply": lambda x, y: x * y / (1 + np.abs(y)),
        "divide": lambda x, y: x / (2j + np.abs(y)),
        "where": lambda x, y: np.where(np.real(x) > 0.3, x, y),
    }  # fmt: skip
    first = d.value(complexes)
    if first is None:
        return None
    shape = d.values[first].shape

    def fits(y):
        pairs = zip(reversed(shape), reversed(y.shape), strict=False)
        return floats_or_complexes(y) and all(a == b or 1 in (a, b) for a, b in pairs)

    return f"complex: {name}", [first, d.value(fits)], functions[name]


OPERATIONS = [made, part, unary, unary, binary]


def in_floats(x):
    """The numbers of an array, complex ones as pairs."""
    x = np.asarray(x)
    return np.stack([x.real, x.imag], -1) if complexes(x) else x


def kind_of_float(dtype):
    """The dtype of the parts of a complex dtype; another one as it is."""
    return np.empty(0, dtype).real.dtype
