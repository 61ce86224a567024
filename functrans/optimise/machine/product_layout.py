"""Which way round a matrix lies, and its product: so that vectors go along what is dense.

``vmap`` of ``W @ x`` is a product whose transpose is asked for: that is the product of the swapped
operands. A step of a scan that takes ``W @ x`` of a constant ``W`` would add up the numbers of each
row, and each such sum ends across the lanes of a vector; with the transpose of ``W``, made once
before the scan, vectors go along the rows' numbers side by side, and no sum ends so.
"""

from __future__ import annotations

from collections import Counter

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.loop.nodes import UNROLLED
from functrans.ops.linalg.compiled.blas import sides

CONTRACTION = "dot_general"

from functrans.optimise.machine.contraction_layout import transposed

LEAST_STEPS = 8
"""A scan of so many steps is worth a transpose before it."""

LONGEST_ROWS = 4
"""Rows that are so many times longer than there are of them are summed one after the other."""


# -- products that are transposed ------------------------------------------------------------------


def swapped(graph: Graph) -> Graph:
    """Let a product whose transpose is asked for be computed the other way round."""
    made: dict[Atom, Eqn] = {
        eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.primitive.name == CONTRACTION
    }
    uses = Counter(x for eqn in graph.eqns for x in eqn.inputs) + Counter(graph.outputs)
    better: dict[Eqn, Eqn] = {}
    unused: set[Eqn] = set()
    for eqn in graph.eqns:
        product = _transposed_product(eqn, made)
        if product is None or uses[product.outputs[0]] > 1:
            continue
        if eqn.params["permutation"] == _exchange(product):
            better[eqn] = _swapped(product, eqn.outputs[0])
            unused.add(product)
    if not better:
        return graph
    eqns = [better.get(eqn, eqn) for eqn in graph.eqns if eqn not in unused]
    return Graph(graph.inputs, eqns, graph.outputs)


def _transposed_product(eqn: Eqn, made: dict[Atom, Eqn]) -> Eqn | None:
    """The product that an equation transposes, if it is a transpose of one."""
    return made.get(eqn.inputs[0]) if eqn.primitive.name == "transpose" else None


def _exchange(product: Eqn) -> tuple[int, ...]:
    """The permutation that puts the right operand's free axes before the left one's."""
    left, right = sides(product)
    first, second = len(left.batch), len(left.batch) + len(left.free)
    last = second + len(right.free)
    return (*range(first), *range(second, last), *range(first, second))


def _swapped(product: Eqn, out: Var) -> Eqn:
    params = {
        **product.params,
        "contract": product.params["contract"][::-1],
        "batch": product.params["batch"][::-1],
    }
    return Eqn(product.primitive, product.inputs[::-1], (out,), params, product.source)


# -- matrices of scans -----------------------------------------------------------------------------


def columns_first(graph: Graph) -> Graph:
    """Transpose the constant matrices that the steps of scans multiply vectors with."""
    if not any(eqn.primitive.name == "scan" for eqn in graph.eqns):
        return graph
    eqns: list[Eqn] = []
    turned: dict[Atom, Var] = {}
    for eqn in graph.eqns:
        wanted = _matrices(eqn) if eqn.primitive.name == "scan" else []
        if not wanted:
            eqns.append(eqn)
            continue
        for number in wanted:
            matrix = eqn.inputs[number]
            if matrix not in turned:
                turned[matrix] = transposed(matrix, (1, 0), eqn, eqns)
        eqns.append(_with_columns(eqn, wanted, [turned[eqn.inputs[i]] for i in wanted]))
    return Graph(graph.inputs, eqns, graph.outputs)


def _matrices(scan: Eqn) -> list[int]:
    """Which constants of a scan are matrices whose rows are summed against a vector."""
    if scan.params["length"] < LEAST_STEPS:
        return []
    consts: tuple[Var, ...] = scan.params["body"].inputs[: scan.params["n_consts"]]
    rows = {x for eqn in scan.params["body"].eqns for x in eqn.inputs if _sums_rows(eqn, x)}
    return [number for number, const in enumerate(consts) if const in rows]


def _sums_rows(eqn: Eqn, matrix: Atom) -> bool:
    """Whether an equation is the product of a matrix with a vector, from the right."""
    if eqn.primitive.name != CONTRACTION or len(eqn.outputs[0].aval.shape) != 1:
        return False
    if len(matrix.aval.shape) != 2 or matrix.aval.dtype.kind != "f":
        return False
    if eqn.params["contract"][eqn.inputs.index(matrix)] != (1,):
        return False
    rows, length = matrix.aval.shape
    return rows > UNROLLED and length <= LONGEST_ROWS * rows


def _with_columns(scan: Eqn, wanted: list[int], matrices: list[Var]) -> Eqn:
    """The scan, its steps multiplying with transposes where that is better."""
    body: Graph = scan.params["body"]
    n_consts: int = scan.params["n_consts"]
    inner = {body.inputs[number]: Var(x.aval) for number, x in zip(wanted, matrices, strict=True)}
    eqns = [_by_columns(eqn, inner) for eqn in body.eqns]
    inputs = [*body.inputs[:n_consts], *inner.values(), *body.inputs[n_consts:]]
    params = {
        **scan.params,
        "body": Graph(inputs, eqns, body.outputs),
        "n_consts": n_consts + len(wanted),
    }
    operands = [*scan.inputs[:n_consts], *matrices, *scan.inputs[n_consts:]]
    return Eqn(scan.primitive, operands, scan.outputs, params, scan.source)


def _by_columns(eqn: Eqn, turned: dict[Var, Var]) -> Eqn:
    for number, x in enumerate(eqn.inputs):
        if isinstance(x, Var) and x in turned and _sums_rows(eqn, x):
            inputs, contract = list(eqn.inputs), list(eqn.params["contract"])
            inputs[number], contract[number] = turned[x], (0,)
            params = {**eqn.params, "contract": tuple(contract)}
            return Eqn(eqn.primitive, inputs, eqn.outputs, params, eqn.source)
    return eqn
