"""Sparse gradients of tables: a graph with an offset added to each row that it reads of a table.

The offsets are inputs. Their cotangents and the indices of the rows represent the gradient of the
table, in less memory than the table takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from functrans.errors import NotDifferentiableError
from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined
from functrans.ir.primitive import Piecewise
from functrans.ir.types import Aval
from functrans.ops.arrays.slicing import slice_p
from functrans.ops.arrays.structural import cast
from functrans.ops.elementwise.arithmetic import add
from functrans.ops.indexing.gather import gather
from functrans.records import NamedTuple


class LookUp(NamedTuple):
    """A read of rows: of which input, and the resulting array.

    ``rows`` are the indices, if they are constants of the program.
    """

    table: int
    aval: Aval
    rows: Any = None


def with_offsets(
    graph: Graph,
    tables: Sequence[int],  # the inputs that are tables
    names: Sequence[str],  # their names in messages
) -> tuple[Graph, list[LookUp]]:
    """A graph with an offset for each look-up as a further input, and the indices as results.

    Constant indices are not among the results.

    Raises `NotDifferentiableError` if a table is used otherwise than by reading rows.
    """
    called = dict(zip(tables, names, strict=True))
    number: dict[Atom, int] = {graph.inputs[i]: i for i in tables}
    atoms: dict[Atom, Atom] = {}
    offsets: list[Var] = []
    indices: list[Atom] = []
    found: list[LookUp] = []

    def rewritten(eqns: Iterable[Eqn]) -> Iterator[Eqn]:
        for old in eqns:
            operands = [atoms.get(atom, atom) for atom in old.inputs]
            eqn = Eqn(old.primitive, operands, old.outputs, old.params, old.source)
            read = [number[atom] for atom in operands if atom in number]
            if not read or isinstance(eqn.primitive.jvp, Piecewise):
                yield eqn
            elif eqn.primitive.name == "jit":
                inner, results = inlined(eqn.params["graph"], operands)
                yield from rewritten(inner)
                atoms.update(
                    (out, atoms.get(x, x)) for out, x in zip(eqn.outputs, results, strict=True)
                )
            elif eqn.primitive is cast:
                number[eqn.outputs[0]] = read[0]
                yield eqn
            elif eqn.inputs[0] in number and _reads_rows(eqn):
                (out,) = eqn.outputs
                rows = Var(out.aval)
                offsets.append(Var(out.aval))
                found.append(LookUp(read[0], out.aval, _known_rows(eqn)))
                indices.extend(eqn.inputs[1:])
                yield Eqn(eqn.primitive, operands, [rows], eqn.params, eqn.source)
                yield Eqn(add, [rows, offsets[-1]], [out], {}, eqn.source)
            else:
                raise NotDifferentiableError(
                    f"{called[read[0]]} is read by {eqn.primitive.name}, at {eqn.source}: its "
                    "gradient is made of rows only where rows are looked up, table[indices], "
                    "outside of loops and branches. For its whole gradient, leave it out of tables"
                )

    eqns = list(rewritten(graph.eqns))
    outputs = [atoms.get(atom, atom) for atom in graph.outputs]
    return Graph([*graph.inputs, *offsets], eqns, [*outputs, *indices]), found


def _reads_rows(eqn: Eqn) -> bool:
    table = eqn.inputs[0].aval
    if eqn.primitive is slice_p:
        columns = tuple((0, size, 1) for size in table.shape[1:])
        return bool(eqn.params["index"][1:] == columns)
    return eqn.primitive is gather and bool(eqn.params["axes"] == (0,))


def _known_rows(eqn: Eqn) -> Any:
    if eqn.primitive is gather:
        return None
    rows = eqn.params["index"][0]
    if isinstance(rows, int):
        return np.int64(rows)
    start, count, step = rows
    return start + step * np.arange(count)
