"""The optimiser as lists of graph passes: Graph -> Graph, each with what it expects and leaves.

A graph goes through three lists. `SIMPLIFICATION` is independent of the machine, and gives the same
bits. The other two are for a target. Legalisation leaves only operations that the target has:
`legalised` replaces complex numbers by pairs of real ones, and simplifies the result. The passes of
a machine choose layouts, move code out of loops and outline repeats, for a graph from which loops
are generated next: they are the first stage of `functrans.lower.pipeline`. A grid of threads has
lists of its own (`functrans.optimise.grid.passes`).

A pass is a function whose docstring says in two lines what it expects and what it leaves. Its entry
gives the reason for its position, and the check of its result if ``config.check_plans`` is set.
Results stay correct without a pass (``config.skip_passes``) unless it is required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from functrans import config
from functrans.caches import cached
from functrans.errors import GraphTypeError
from functrans.ir.check import checked, is_asked
from functrans.ir.graph import Graph, prune, with_graphs
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.optimise import checks
from functrans.optimise.conditions import REDUCTIONS, has_collectives, has_complex, having, is_any
from functrans.optimise.constant_indices import index_by_constants
from functrans.optimise.loops import merge_in_loops, propagate_into_loops, prune_in_loops
from functrans.optimise.machine.outlining import outline
from functrans.optimise.simplification import fold_constants, inline, merge_equal, simplify
from functrans.optimise.twins import merge_twins
from functrans.records import NamedTuple


class Pass(NamedTuple):
    """A pass: what it does, the reason for its position, and the check of what it leaves.

    ``run`` and ``check`` receive the graph and, in the lists for a target, the target. The pass
    leaves a graph as it is if ``when`` does not hold, and is not run.
    """

    run: Callable[..., Graph]
    because: str
    check: Callable[..., None] = checks.nothing_more
    is_required: bool = False
    when: Callable[[Graph], bool] = is_any

    @property
    def name(self) -> str:
        return self.run.__name__


class Passes(NamedTuple):
    """The passes for a kind of machine."""

    legalisation: tuple[Pass, ...]
    machine: tuple[Pass, ...]


def optimise_inner(graph: Graph) -> Graph:
    """Simplify inner graphs: the bodies of loops, and branches.

    Expects loops and branches without unused results.
    Leaves inner graphs to which this list of passes has been applied.
    """
    if not any(eqn.primitive.higher_order for eqn in graph.eqns):
        return graph
    eqns = []
    for eqn in graph.eqns:
        params = eqn.params
        if eqn.primitive.higher_order:
            params = {name: with_graphs(optimise, value) for name, value in params.items()}
        eqns.append(eqn.but(params=params))
    return Graph(graph.inputs, eqns, graph.outputs)


def eliminate_dead_code(graph: Graph) -> Graph:
    """Eliminate dead code: equations whose results are not needed.

    Expects any graph.
    Leaves equations that the outputs need.
    """
    return prune(graph)


# fmt: off
SIMPLIFICATION: tuple[Pass, ...] = (
    Pass(inline, "first: caller and called graph are simplified together", checks.has_no_calls),
    Pass(merge_in_loops, "before pruning, which removes the redundant one of two equal operands",
         checks.loops_are_lean),
    Pass(prune_in_loops, "before bodies are simplified, so that dead code takes no time there"),
    Pass(fold_constants, "before loops, which then see their operands, and before algebra, "
         "which recognises scalars", checks.has_no_constants),
    Pass(propagate_into_loops, "before bodies are simplified, which can then use these constants"),
    Pass(optimise_inner, "before the graph itself: an operand may lose its last use in a body"),
    Pass(eliminate_dead_code, "before passes that examine each equation", checks.has_no_dead_code),
    Pass(simplify, "before common subexpressions, which are equal in their simplest form"),
    Pass(merge_equal, "before the second round, which then sees equal operands",
         checks.has_no_duplicates),
    Pass(index_by_constants, "before the second round, which removes the transposes it inserts"),
    Pass(fold_constants, "again: algebra may have made equations of constants alone",
         checks.has_no_constants),
    Pass(simplify, "again: folding may have made scalars that algebra can use"),
    Pass(merge_twins, "after simplification, by which equal loops become equal equations"),
    Pass(eliminate_dead_code, "last: merging and algebra leave dead code",
         checks.has_no_dead_code),
)
"""For any machine. Each gives a graph that computes the same, bit by bit."""

SELECTION = Pass(
    lazy("functrans.optimise.machine.selection:select_ranks"),
    "before passes that move slices away from the sorts that they read, and before programs are "
    "split at calls of NumPy, whose sort is used for long lines",
    when=having("reductions.sorting:sort", "reductions.sorting:argsort"),
)

FOR_CORES = Passes(
    legalisation=(
        SELECTION,
        Pass(lazy("functrans.optimise.machine.complex_parts:without_complex"),
             "the loop language has no complex numbers",
             when=has_complex, check=checks.is_real, is_required=True),
    ),
    machine=(
        Pass(lazy("functrans.optimise.machine.messages:send_along_first_axis"),
             "first: the other passes then see the transpositions",
             when=has_collectives, is_required=True),
        Pass(lazy("functrans.optimise.machine.zero_blocks:leave_out_zero_blocks"),
             "before passes that move or join slices, by which it finds the blocks",
             when=having("arrays.structural:absent_p")),
        Pass(lazy("functrans.optimise.machine.slice_forwarding:forward_slices"),
             "before all passes that examine what is read or written in a loop",
             when=having("arrays.slicing:update_slice_p", or_inside=True)),
        SELECTION,
        Pass(lazy("functrans.optimise.machine.shift_invariance:leave_out_shifts"),
             "before passes that move the broadcasts and sums that it recognises",
             when=having("reductions.reduce:reduce_max", "reductions.reduce:reduce_min")),
        Pass(lazy("functrans.optimise.machine.late_broadcasts:broadcast_last"),
             "before sums, which then see what is repeated along their axes",
             when=having("arrays.structural:broadcast_to_p")),
        Pass(lazy("functrans.optimise.machine.late_gathers:gather_last"),
             "before sums, for the same reason as broadcasts",
             when=having("indexing.gather:gather")),
        Pass(lazy("functrans.optimise.machine.messages:bucket_sums"),
             "before passes that move and join slices: its results are slices of one array",
             when=has_collectives),
        Pass(lazy("functrans.optimise.machine.sums.distribution:distribute_sums"),
             "before layouts: it recognises contractions as they were written",
             when=having("linalg.contraction:dot_general",
                         "convolution.windows:overlap_add_p",
                         *REDUCTIONS)),
        Pass(lazy("functrans.optimise.machine.diagonals:compare_for_diagonals"),
             "after sums, which detect embedded slices",
             when=having("arrays.slicing:embed_p", "arrays.slicing:update_slice_p")),
        Pass(lazy("functrans.optimise.machine.deferred_scatters:add_scatters_last"),
             "after sums, some of which need no scatter",
             when=having("indexing.gather:scatter_add")),
        Pass(lazy("functrans.optimise.machine.real_transforms:halve_transforms"),
             "after sums, which may have been the only readers of one part",
             when=having("fft.split:split_fft_p")),
        Pass(lazy("functrans.optimise.machine.product_layout:swap_products"),
             "before layouts, which absorb the transposes",
             when=having("linalg.contraction:dot_general")),
        Pass(lazy("functrans.optimise.machine.late_transposes:transpose_last"),
             "after swapping, which leaves no transpose of a matrix",
             when=having("linalg.contraction:dot_general")),
        Pass(lazy("functrans.optimise.machine.stored_intermediates:store_intermediates"),
             "before code motion, which can use the stacked values",
             when=having("control.scan:scan_p")),
        Pass(lazy("functrans.optimise.machine.scan_motion:move_out_of_scans"),
             "before layouts: it creates contractions over all steps",
             when=having("control.scan:scan_p")),
        Pass(lazy("functrans.optimise.machine.invariant_packing:pack_before_loops"),
             "after code motion: a product that left its loop needs no panels",
             when=having("control.scan:scan_p", "control.while_loop:while_p")),
        Pass(lazy("functrans.optimise.machine.product_layout:columns_first"),
             "after packing: only matrices that were not packed are transposed",
             when=having("control.scan:scan_p")),
        Pass(lazy("functrans.optimise.machine.contraction_layout:lay_out_contractions"),
             "after passes that make contractions",
             when=having("linalg.contraction:dot_general"), check=checks.contractions_fit),
        Pass(lazy("functrans.optimise.machine.gathered_rows:gather_rows"),
             "after layouts, which would absorb the transposes that it inserts",
             when=having("indexing.gather:gather")),
        Pass(lazy("functrans.optimise.machine.triangular_factors:write_out_triangles"),
             "after layouts: a selection, which it inserts, cannot be read transposed",
             when=having("linalg.factorisations:cholesky_p", "linalg.qr:r_p")),
        Pass(lazy("functrans.optimise.machine.half_products:widen_half_products"),
             "after layouts, which skip half floats on a CPU",
             when=having("linalg.contraction:dot_general")),
        Pass(lazy("functrans.optimise.machine.write_coalescing:coalesce_writes"),
             "after layouts, since chains of writes end at the transposes that these insert",
             when=having("arrays.shape:concatenate_p",
                         "arrays.slicing:embed_p",
                         "arrays.slicing:update_slice_p")),
        Pass(lazy("functrans.optimise.machine.transposed_solves:solve_through_transposes"),
             "after layouts, like all passes that absorb transposes",
             when=having("linalg.factorisations:solve_p",
                         "linalg.factorisations:triangular_solve")),
        Pass(outline, "last: segments are compared in the form that is compiled"),
    ),
)
"""For the cores of a CPU. Each gives a graph that computes the same, up to rounding: sums are in
another order."""
# fmt: on

_for_a_grid = lazy("functrans.optimise.grid.passes:PASSES")


def passes_for(target: Target) -> Passes:
    """The lists for a target."""
    if not target.lanes_are_threads:
        return FOR_CORES
    return _for_a_grid.resolve()


@cached(512)
def optimise(graph: Graph) -> Graph:
    """The graph after `SIMPLIFICATION`."""
    return _through(SIMPLIFICATION, graph)


def legalised(graph: Graph, target: Target) -> Graph:
    """The graph in operations that a target has, simplified again if it is another one."""
    made = _through(passes_for(target).legalisation, graph, target)
    return graph if made is graph else optimise(made)


def rewritten(graph: Graph, target: Target, outlined: bool = False) -> Graph:
    """The graph after the passes of a machine; without outlining unless it is asked for.

    Only whole programs are outlined: the body of a loop is a single segment. Programs whose inputs
    are overwritten are not, since a called segment only reads its operands.
    """
    passes = passes_for(target).machine
    return _through([each for each in passes if outlined or each.run is not outline], graph, target)


def _through(passes: Iterable[Pass], graph: Graph, *target: Target) -> Graph:
    skipped = _skipped()
    for each in passes:
        if each.name in skipped or not each.when(graph):
            continue
        graph = checked(each.run(graph, *target), each.name)
        if is_asked():
            try:
                each.check(graph, *target)
            except GraphTypeError as error:
                raise GraphTypeError(f"{each.name} broke its promise: {error}") from error
    return graph


def _skipped() -> frozenset[str]:
    """The names of passes to leave out.

    Raises `ValueError` if there is no pass of such a name, or it is required.
    """
    if not config.skip_passes:
        return frozenset()
    lists = (SIMPLIFICATION, *FOR_CORES, *_for_a_grid.resolve())
    known = {each.name: each for passes in lists for each in passes}
    optional = sorted(name for name, each in known.items() if not each.is_required)
    for name in config.skip_passes:
        if name not in optional:
            what = "is required" if name in known else "is no pass"
            raise ValueError(
                f"functrans.config.skip_passes: {name!r} {what}; those that may be left out are "
                f"{', '.join(optional)}"
            )
    return frozenset(config.skip_passes)
