"""Layout selection for matrices: row- or column-major, so that vectors run along rows.

``vmap`` of ``W @ x`` is the transpose of a product: it is computed as the product of the swapped
operands. In a step of a scan, ``W @ x`` with a constant ``W`` would reduce along each row of ``W``,
and every such sum ends with a reduction across the lanes of a vector. With the transpose of ``W``,
which is computed once before the scan, each lane of a vector accumulates another result, and no
reduction across lanes is needed.

``w @ x`` of a matrix and a stack of matrices is a contraction whose columns lie along two axes that
cannot be merged into one in memory: as one product, its operand and its result would be copied. It
is computed as a stack of products.
"""

from __future__ import annotations

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.loop.nodes import UNROLLED
from functrans.loop.target import Target
from functrans.ops.arrays.structural import broadcast_to_p, transpose_p
from functrans.ops.control.scan import scan_p
from functrans.ops.linalg.compiled.blas import sides
from functrans.ops.linalg.compiled.forms import is_blocked
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.loops import Const, Loop
from functrans.optimise.machine.contraction_layout import transposed, with_swapped_operands
from functrans.records import NamedTuple


class Columns(NamedTuple):
    """Thresholds for the transposition of matrices before a scan.

    Measured: `widest` (steps of 64 to 512 results, on a core with AVX-512).
    """

    least_steps: int = 8
    """The fewest steps for which a transpose before the scan is profitable."""
    longest_rows: int = 4
    """The greatest ratio of the length of rows to their number: longer rows are reduced one by
    one."""
    widest: int = 1536
    """The most bytes of the results: with more, columns leave the cache between two of them."""


# -- products that are transposed ------------------------------------------------------------------


def swap_products(graph: Graph, target: Target) -> Graph:
    """Swap the operands of products of which only the transpose is read, or make stacks of them.

    Expects sums in their final form, so that contractions are products.
    Leaves no transpose of a product that nothing else reads.
    """
    made: dict[Atom, Eqn] = {
        eqn.outputs[0]: eqn for eqn in graph.eqns if eqn.primitive is dot_general
    }
    better: dict[Eqn, tuple[Eqn, ...]] = {}
    unused: set[Eqn] = set()
    for eqn in graph.eqns:
        product = made.get(eqn.inputs[0]) if eqn.primitive is transpose_p else None
        if product is None or graph.uses[product.outputs[0]] > 1:
            continue
        if eqn.params["permutation"] == _exchange(product):
            found: tuple[Eqn, ...] = (with_swapped_operands(product, eqn.outputs[0]),)
        else:
            found = _stacked(product, eqn, target)
        if found:
            better[eqn] = found
            unused.add(product)
    if not better:
        return graph
    eqns = [new for eqn in graph.eqns if eqn not in unused for new in better.get(eqn, (eqn,))]
    return Graph(graph.inputs, eqns, graph.outputs)


def _exchange(product: Eqn) -> tuple[int, ...]:
    """The permutation that moves the right operand's free axes in front of the left one's."""
    left, right = sides(product)
    first, second = len(left.batch), len(left.batch) + len(left.free)
    last = second + len(right.free)
    return (*range(first), *range(second, last), *range(first, second))


def _stacked(product: Eqn, turn: Eqn, target: Target) -> tuple[Eqn, ...]:
    """A product whose columns lie along several axes, as a stack along all but the last of these.

    Empty if its transpose does not begin with these axes, or if the stack is not profitable: every
    product of the stack reads the matrix, which must stay in the cache; the last axis must fill
    vectors; and the products must be blocked.
    """
    left, right = sides(product)
    matrix, columns = product.inputs[0].aval, right.free[-1:]
    around = right.free[:-1]
    order = (*range(1, 1 + len(around)), 0, 1 + len(around))
    if left.batch or len(left.free) != 1 or not around or turn.params["permutation"] != order:
        return ()
    shape, lanes = product.inputs[1].aval.shape, target.lanes(matrix.dtype.itemsize)
    is_large = matrix.size * matrix.dtype.itemsize > target.cache
    if target.in_loop or is_large or shape[columns[0]] < 2 * lanes:
        return ()
    repeated = Var(matrix.update(shape=(*(shape[axis] for axis in around), *matrix.shape)))
    contract = tuple(axis + len(around) for axis in left.contract), right.contract
    params = {**product.params, "contract": contract, "batch": (tuple(range(len(around))), around)}
    operands = repeated, product.inputs[1]
    stack = product.but(inputs=operands, outputs=turn.outputs, params=params)
    if not is_blocked(stack, target):
        return ()
    wide = {"shape": repeated.aval.shape}
    return Eqn(broadcast_to_p, product.inputs[:1], (repeated,), wide, product.source), stack


# -- matrices of scans -----------------------------------------------------------------------------


def columns_first(graph: Graph, target: Target) -> Graph:
    """Transpose constant matrices before scans whose steps multiply vectors by them.

    Expects scans without operations that can be computed for all steps at once.
    Leaves steps that read such matrices along their rows.
    """
    eqns: list[Eqn] = []
    turned: dict[Atom, Var] = {}
    for eqn in graph.eqns:
        if eqn.primitive is scan_p and eqn.params["length"] >= target[Columns].least_steps:
            eqn = _by_columns(eqn, turned, eqns, target[Columns])
        eqns.append(eqn)
    return Graph(graph.inputs, eqns, graph.outputs)


def _by_columns(scan: Eqn, turned: dict[Atom, Var], eqns: list[Eqn], limits: Columns) -> Eqn:
    """The scan, whose steps multiply by transposed matrices where that is profitable."""
    loop = Loop(scan)
    rows = {x for eqn in loop.body for x in eqn.inputs if _sums_rows(eqn, x, limits)}
    inner: dict[Atom, Var] = {}
    for const in [each for each in loop.consts if each.inner[0] in rows]:
        matrix = const.outer
        if matrix not in turned:
            turned[matrix] = transposed(matrix, (1, 0), scan, eqns)
        inner[const.inner[0]] = Var(turned[matrix].aval)
        loop.consts.append(Const((inner[const.inner[0]],), turned[matrix]))
    if not inner:
        return scan
    loop.body = [_with_columns(eqn, inner, limits) for eqn in loop.body]
    return loop.rebuilt()


def _sums_rows(eqn: Eqn, matrix: Atom, limits: Columns) -> bool:
    """Whether an equation multiplies a matrix by a vector, or vectors by a matrix.

    Several vectors are the rows of the left operand; then the matrix is the right one.
    """
    if eqn.primitive is not dot_general or len(eqn.outputs[0].aval.shape) not in (1, 2):
        return False
    if len(eqn.outputs[0].aval.shape) == 2 and eqn.inputs[1] is not matrix:
        return False
    if len(matrix.aval.shape) != 2 or matrix.aval.dtype.kind != "f":
        return False
    if eqn.params["contract"][eqn.inputs.index(matrix)] != (1,):
        return False
    rows, length = matrix.aval.shape
    is_narrow = rows * matrix.aval.dtype.itemsize <= limits.widest
    return is_narrow and rows > UNROLLED and length <= limits.longest_rows * rows


def _with_columns(eqn: Eqn, turned: dict[Atom, Var], limits: Columns) -> Eqn:
    for number, x in enumerate(eqn.inputs):
        if x in turned and _sums_rows(eqn, x, limits):
            inputs, contract = list(eqn.inputs), list(eqn.params["contract"])
            inputs[number], contract[number] = turned[x], (0,)
            params = {**eqn.params, "contract": tuple(contract)}
            return eqn.but(inputs=inputs, params=params)
    return eqn
