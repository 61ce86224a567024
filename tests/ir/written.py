"""A parser for graphs in their printed form, for tests.

    { a:f64[3], b:f64[3] ->
      c = multiply a 2.0
      d = reduce_sum[axes=(0,)] c
      return d }

Types of results may be omitted. A number is a weakly typed Python number; ``2.0:f32`` has that
dtype. An inner graph is a named parameter: ``jit[graph=inner, name='f']``.
"""

import re

import numpy as np

from functrans.ir.check import check_graph
from functrans.ir.graph import Eqn, Graph, Literal, Var
from functrans.ir.primitive import registry
from functrans.ir.types import Aval, aval_of

DTYPES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32",
    "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
SCOPE = {"np": np, **{name: np.dtype(name) for name in DTYPES.values()}}

TYPE = re.compile(r"(\w+)(\*?)\[([\d,]*)\]")
EQUATION = re.compile(r"(?P<left>.*?) = (?P<name>\w+)(\[(?P<params>.*)\])?(?P<operands>( \S+)*)")


def aval(text):
    """``f64*[2,3]`` as a type."""
    short, weak, shape = TYPE.fullmatch(text).groups()
    return Aval(tuple(int(n) for n in shape.split(",") if n), DTYPES[short], bool(weak))


def number(text):
    """``2.0``, or ``2.0:f32``."""
    digits, _, short = text.partition(":")
    value = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}.get(digits)
    value = eval(digits) if value is None else value
    known = Aval((), DTYPES[short]) if short else aval_of(value)
    return Literal(known.dtype.type(value), known)


def graph(text, **inner):
    """The graph that a text says, checked; ``inner`` has the graphs that it names."""
    first, *lines = text.strip().splitlines()
    names = {}

    def define(word, inferred=None):
        name, _, annotated = word.strip().partition(":")
        assert not (inferred and annotated) or aval(annotated) == inferred, (word, inferred)
        names[name] = Var(inferred or aval(annotated))
        return names[name]

    def atom(word):
        return names[word] if word in names else number(word)

    parameters = first.strip().removeprefix("{").removesuffix("->").strip()
    inputs = [define(word) for word in parameters.split(", ") if word]
    *body, last = (line.strip() for line in lines)
    eqns = []
    for line in body:
        parts = EQUATION.fullmatch(line)
        assert parts, line
        primitive = registry[parts["name"]]
        operands = [atom(word) for word in parts["operands"].split()]
        params = eval(f"dict({parts['params'] or ''})", SCOPE | inner)
        avals = primitive.results([x.aval for x in operands], params)
        outputs = [define(*pair) for pair in zip(parts["left"].split(", "), avals, strict=True)]
        eqns.append(Eqn(primitive, operands, outputs, params))
    results = last.removeprefix("return").removesuffix("}").strip()
    made = Graph(inputs, eqns, [atom(word) for word in results.split(", ") if word])
    check_graph(made)
    return made


def is_graph(found, text, **inner):
    """Assert that a graph is the one that a text says, whatever its variables are called."""
    wanted = graph(text, **inner)
    assert found == wanted, f"found\n{found}\nand not\n{wanted}"
