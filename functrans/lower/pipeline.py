"""The compiler as one list of stages: Graph -> Graph -> roots -> nests -> kernels -> plan.

`STAGES` is the list for a CPU; the list for a GPU is in `lower/grid/pipeline.py`. Each stage takes
a `Draft` and returns it with further parts; its docstring says in two lines what it expects and
what it leaves. A stage also names a check of its result, and a function that prints the result.
`plan` executes the stages in order, and reports each one to observers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from time import perf_counter

from functrans.ir import check
from functrans.ir.graph import Graph
from functrans.lazily import lazy, lazy_module
from functrans.loop.operations import operations_of
from functrans.loop.statements import Buffer, buffer
from functrans.loop.target import Target
from functrans.lower.draft import Draft
from functrans.lower.kernel.arena import allocate
from functrans.lower.kernel.array_regrouping import columns_of
from functrans.lower.kernel.batch_partition import partition_batch
from functrans.lower.kernel.distribution import distributed
from functrans.lower.kernel.donation import donate
from functrans.lower.kernel.loop_collapsing import collapsed
from functrans.lower.kernel.reuse import reuse
from functrans.lower.kernel.steps import Formal, Steps
from functrans.lower.nest.bodies import Nest, NestBuilder, limit_stack
from functrans.lower.nest.divider import with_relieved_divider
from functrans.lower.nest.fusion import Fusion, Loop, fuse
from functrans.lower.nest.merging import merged
from functrans.lower.nest.row_fusion import with_fused_rows
from functrans.lower.plan import Plan, schedule
from functrans.lower.product.fusion import begins_a_nest
from functrans.lower.select.materialise import materialised
from functrans.lower.select.recomputation import (
    Recomputation,
    excessive,
    expected_demand,
    graph_work,
)
from functrans.lower.select.root import Contraction, Readers, readers_of
from functrans.lower.select.selection import select
from functrans.lower.select.split_reductions import (
    Splitting,
    on_cores,
    split_reductions,
    summed_again,
)
from functrans.ops.compiled.emission import Inner
from functrans.optimise import rewritten
from functrans.records import NamedTuple

checks = lazy_module(
    "functrans.lower.checks",
    "graph_is_typed kept_is_made roots_read_what_is_made each_root_has_a_loop "
    "nests_read_what_is_made steps_fit_kernels outputs_have_memory",
)
printing = lazy_module("functrans.lower.printing", "graph kept kernels loops nests plan roots")

# few programs have products of their own kernels, and a tenth of what is imported is for these
_nests_of = lazy("functrans.lower.product.nests:nests_of")


class Stage(NamedTuple):
    """A stage: its name, its function, the check of its result, and the printer of its result."""

    name: str
    run: Callable[[Draft], Draft]
    check: Callable[[Draft], None]
    text: Callable[[Draft], str]


def rewriting(draft: Draft) -> Draft:
    """Rewrite the graph for the machine: layouts, loop-invariant code motion, outlining.

    The passes are listed in `optimise/passes.py`, under `machine`.

    Expects a graph whose primitives all have compiled forms.
    Leaves an equivalent graph that type-checks.
    """
    outlined = draft.whole and not draft.donated
    return replace(draft, graph=rewritten(draft.graph, draft.target, outlined))


def materialisation(draft: Draft) -> Draft:
    """Choose which values are materialised, and which are recomputed wherever they are used.

    `select/materialise.py`; and `select/recomputation.py`, which limits recomputation.

    Expects the rewritten graph.
    Leaves the materialised values: used often, or at indices that depend on data, or expensive.
    """
    graph, target = draft.graph, draft.target
    kept, asked = materialised(graph, target), graph_work(graph, target)
    kept |= excessive(graph, asked, expected_demand(graph, kept, target), target)
    return replace(draft, kept=frozenset(kept), asked=asked)


def selection(draft: Draft) -> Draft:
    """Select how each materialised value is computed: element by element (pull), or emitted.

    `select/selection.py`. The definition of contractions says from which size on they are matrix
    products with a kernel of their own, or calls of BLAS; `select/root_builder.py` builds the
    expressions of pulled values.

    Expects the materialised values.
    Leaves roots: values with an iteration space and expressions for their elements, or calls.
    """
    target, kept, whole = draft.target, draft.kept, draft.whole
    on_cores = whole and not target.lanes_are_threads
    fixed = [one for one in draft.inputs if on_cores and one not in draft.donated]
    selected = select(draft.graph, draft.inputs, draft.lower, kept, target, whole, fixed)
    return replace(draft, selected=selected, roots=tuple(selected.all))


def reduction_splitting(draft: Draft) -> Draft:
    """Split long reductions with few results into blocks, which threads share.

    `select/split_reductions.py`.

    Expects roots.
    Leaves roots; a long reduction has become two, of partial results and of their sum.
    """
    return splitting(draft, on_cores(summed_again(draft.roots)))


def splitting(draft: Draft, rules: Splitting) -> Draft:
    """The draft after reduction splitting, by the rules of one kind of machine."""
    if "split_reductions" not in draft.target.stages:
        return draft
    loops, simplify = draft.chosen.loops, draft.chosen.puller.simplify
    split = [split_reductions(root, loops, draft.target, simplify, rules) for root in draft.roots]
    return replace(draft, roots=tuple(root for parts in split for root in parts))


def fusion(draft: Draft) -> Draft:
    """Fuse loops: a root joins the nest of a root that it reads in the same iteration.

    `nest/fusion.py`, with the rule of `product/fusion.py`: a product begins a nest. A softmax
    becomes a single loop over rows here.

    Expects roots, each after those that it reads.
    Leaves nests of loops with the roots in them.
    """
    return replace(draft, loops=tuple(fuse(draft.roots, draft.target, begins_a_nest)))


def loop_generation(draft: Draft) -> Draft:
    """Generate the statements of nests: vectors, index splitting, accumulators, tiles.

    `nest/bodies.py`, with `nest/index_splitting.py`, `nest/accumulators.py`, `nest/tiling.py`,
    `nest/row_sums.py`, `nest/row_jamming.py` and `nest/fission.py`.
    Values that only their own nest reads are in locals or in scratch on the stack. Nests that begin
    with a matrix product are blocked: `product/epilogue.py`, with `product/kernel.py`; several of
    them may share the same blocks of rows: `product/streaming.py`, `product/row_blocks.py`.

    Expects nests of loops with roots in them.
    Leaves statements of the loop language; loops with independent iterations are marked.
    """
    return generated(draft, _nests)


def _nests(
    loops: Sequence[Loop], readers: Readers, bodies: NestBuilder, draft: Draft
) -> Iterable[Nest]:
    """The nests of loops: streams of products, single products, and all others."""
    if not any(isinstance(root, Contraction) for root in draft.roots):
        return chain.from_iterable(map(bodies.build, loops))
    target, simplify = draft.target, draft.chosen.puller.simplify
    return _nests_of(draft.roots, loops, readers, bodies, target, simplify)


Generation = Callable[[Sequence[Loop], Readers, NestBuilder, Draft], Iterable[Nest]]
"""Generates the nests of loops, most of them by a `NestBuilder`."""


def generated(draft: Draft, generate: Generation) -> Draft:
    """The draft after loop generation."""
    readers = readers_of(draft.roots)
    bodies = NestBuilder(readers, draft.target, draft.chosen.puller.simplify)
    nests = tuple(generate(draft.loops, readers, bodies, draft))
    counted = tuple(
        replace(nest, operations=operations_of(nest.body)) if nest.operations is None else nest
        for nest in nests
    )
    return replace(draft, nests=counted, work=sum(nest.operations or 0 for nest in counted))


def merging(draft: Draft) -> Draft:
    """Merge small nests that write slices of one array.

    `nest/merging.py`.

    Expects nests.
    Leaves fewer nests, in the same order.
    """
    return replace(draft, nests=tuple(merged(draft.nests, draft.target[Fusion])))


def row_fusion(draft: Draft) -> Draft:
    """Fuse nests over rows, a few rows at a time, so that rows passed between them stay in cache.

    `nest/row_fusion.py`.

    Expects nests.
    Leaves fewer nests, in an order in which every buffer is written before it is read.
    """
    nests = with_fused_rows(draft.nests, draft.chosen.outputs, draft.target)
    return replace(draft, nests=tuple(nests))


def work_sharing(draft: Draft) -> Draft:
    """Share work among threads: a scan over a batch becomes a parallel loop over blocks of it.

    `kernel/batch_partition.py`. Threads share the ranges of the outermost parallel loops.

    Expects nests, whose independent loops are marked.
    Leaves nests, whose outermost loops are shared.
    """
    nests = draft.nests
    if "batch_partition" in draft.target.stages:
        nests = tuple(partition_batch(nest, draft.target) for nest in nests)
    return replace(draft, nests=nests)


def buffer_donation(draft: Draft) -> Draft:
    """Donate buffers: write results into inputs that the caller has donated.

    `kernel/donation.py`.

    Expects nests.
    Leaves nests that may overwrite inputs, and which output uses which input's buffer.
    """
    nests, homes = donate(draft.nests, draft.donated, draft.chosen.outputs)
    return replace(draft, nests=tuple(nests), homes=homes)


def buffer_reuse(draft: Draft) -> Draft:
    """Reuse buffers: store temporaries in the buffers of results that are computed from them.

    `kernel/reuse.py`.

    Expects nests, and which outputs use inputs' buffers.
    Leaves nests that may overwrite temporaries, and which of these use which output's buffer.
    """
    nests, homes = reuse(draft.nests, draft.inputs, draft.chosen.outputs, draft.homes, draft.target)
    return replace(draft, nests=tuple(nests), homes=homes)


def loop_distribution(draft: Draft) -> Draft:
    """Distribute long loop steps: their nests become kernels, called in each iteration.

    `kernel/distribution.py`.

    Expects nests.
    Leaves nests, each a kernel, whose scratch fits on a thread's stack.
    """
    nests: Sequence[Nest] = draft.nests
    if "loop_distribution" in draft.target.stages:
        nests = [part for nest in nests for part in distributed(nest, draft.target)]
    return replace(draft, nests=tuple(limit_stack(nest, draft.target) for nest in nests))


def strength_reduction(draft: Draft) -> Draft:
    """Reduce the strength of division and square roots where loops wait for the divider.

    `nest/divider.py`.

    Expects nests.
    Leaves nests that compute the same bits.
    """
    target = draft.target
    nests = [replace(nest, body=with_relieved_divider(nest.body, target)) for nest in draft.nests]
    return replace(draft, nests=tuple(nests))


def array_regrouping(draft: Draft) -> Draft:
    """Regroup arrays: the rows of many arrays that a loop accesses become rows of one.

    `kernel/array_regrouping.py`.

    Expects nests.
    Leaves the columns of records: which part of each row is a row of which temporary.
    """
    chosen, homes = draft.chosen, draft.homes
    elsewhere = {*draft.inputs, *chosen.outputs, *chosen.views, *homes, *homes.values()}
    return replace(draft, columns=columns_of(draft.nests, elsewhere, draft.target))


def loop_collapsing(draft: Draft) -> Draft:
    """Collapse loops that go through memory like a single one.

    `kernel/loop_collapsing.py`.

    Expects nests, and the columns of records.
    Leaves nests that compute the same bits.
    """
    nests = [collapsed(nest, draft.homes, draft.columns, draft.target) for nest in draft.nests]
    return replace(draft, nests=tuple(nests))


def kernel_construction(draft: Draft) -> Draft:
    """Turn nests into kernels: sizes become arguments, so that one kernel serves many sizes.

    `kernel/steps.py`, with `kernel/symbolic_sizes.py`.

    Expects nests.
    Leaves plan steps, each a call of a kernel; equal subprograms share their kernels.
    """
    subprograms, lower = draft.chosen.subprograms, _formal(draft.target)
    made = Steps(draft.target, subprograms, draft.homes, draft.columns, lower)
    return replace(draft, steps=tuple(made.of(draft.nests)))


def memory_planning(draft: Draft) -> Draft:
    """Plan memory: allocate temporaries in an arena, by their lifetimes.

    `kernel/arena.py`.

    Expects steps.
    Leaves the plan (which `functrans.lower.verify` verifies).
    """
    outputs = tuple(draft.homes.get(one, one) for one in draft.chosen.outputs)
    used = [step.buffers for step in schedule(draft.steps)]
    views = draft.chosen.views
    elsewhere, columns = {*draft.inputs, *outputs, *views}, draft.columns
    offsets, arena = allocate(used, elsewhere, columns, draft.target)
    plan = Plan(draft.inputs, outputs, draft.steps, offsets, arena, views, columns)
    return replace(draft, plan=plan)


class Pipeline(NamedTuple):
    """The stages for one kind of machine, in order, in sections."""

    graph: tuple[Stage, ...]
    loops: tuple[Stage, ...]  # repeated with more values materialised if too much is recomputed
    kernels: tuple[Stage, ...]
    memory: tuple[Stage, ...]
    inside: Callable[[Target], Target]  # maps a target to the target for inner graphs

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages."""
        return (*self.graph, *self.loops, *self.kernels, *self.memory)


def _inside(target: Target) -> Target:
    """The target for a graph inside a loop, where packing is profitable only for large products."""
    return replace(target, in_loop=True)


OF_ROOTS = (checks.roots_read_what_is_made, printing.roots)
OF_NESTS = (checks.nests_read_what_is_made, printing.nests)
OF_STEPS = (checks.steps_fit_kernels, printing.kernels)
"""The check and the printer of what a stage leaves."""

CPU_PIPELINE = Pipeline(
    graph=(
        Stage("rewriting", rewriting, checks.graph_is_typed, printing.graph),
        Stage("materialisation", materialisation, checks.kept_is_made, printing.kept),
    ),
    loops=(
        Stage("selection", selection, *OF_ROOTS),
        Stage("reduction splitting", reduction_splitting, *OF_ROOTS),
        Stage("fusion", fusion, checks.each_root_has_a_loop, printing.loops),
        Stage("loop generation", loop_generation, *OF_NESTS),
        Stage("merging", merging, *OF_NESTS),
    ),
    kernels=(
        Stage("row fusion", row_fusion, *OF_NESTS),
        Stage("work sharing", work_sharing, *OF_NESTS),
        Stage("buffer donation", buffer_donation, *OF_NESTS),
        Stage("buffer reuse", buffer_reuse, *OF_NESTS),
        Stage("loop distribution", loop_distribution, *OF_NESTS),
        Stage("strength reduction", strength_reduction, *OF_NESTS),
        Stage("array regrouping", array_regrouping, *OF_NESTS),
        Stage("loop collapsing", loop_collapsing, *OF_NESTS),
        Stage("kernel construction", kernel_construction, *OF_STEPS),
    ),
    memory=(Stage("memory planning", memory_planning, checks.outputs_have_memory, printing.plan),),
    inside=_inside,
)
"""The stages for a CPU."""

STAGES = CPU_PIPELINE.stages
"""All stages for a CPU, in order."""

# the stages for GPUs are imported with their first program
_on_a_grid = lazy("functrans.lower.grid.pipeline:pipeline")


def pipeline_of(target: Target) -> Pipeline:
    """The stages for a machine."""
    if target.grid is None:
        return CPU_PIPELINE
    return _on_a_grid()


Watch = Callable[[Stage, Draft, float], None]
"""Called with each stage, the draft that it returned, and the seconds that it took."""


def plan(
    graph: Graph,
    target: Target,  # the machine to compile for
    donated: Sequence[int] = (),  # the numbers of the inputs that results may overwrite
    watch: Watch | None = None,  # called after each stage of this graph, but not of inner graphs
) -> Plan:
    """The plan of a graph whose primitives all have compiled forms; its arguments determine it."""
    inputs = _inputs(graph, "in")
    given = tuple(inputs[number] for number in donated)
    draft = Draft(target, graph, inputs, _Inner(target).lower, given, whole=True)
    stages = pipeline_of(target)
    draft = _with_loops(_run(stages.graph, draft, watch), watch)
    done = _run((*stages.kernels, *stages.memory), draft, watch).plan
    assert done is not None
    return done


def _run(stages: Sequence[Stage], draft: Draft, watch: Watch | None = None) -> Draft:
    for stage in stages:
        start = perf_counter()
        draft = stage.run(draft)
        seconds = perf_counter() - start
        if check.is_asked():
            stage.check(draft)
        if watch is not None:
            watch(stage, draft, seconds)
    return draft


def _with_loops(draft: Draft, watch: Watch | None = None) -> Draft:
    """The draft with loops, which are generated again while there is too much recomputation."""
    target, limits = draft.target, draft.target[Recomputation]
    loops = pipeline_of(target).loops
    best = last = _run(loops, draft, watch)
    for _ in range(limits.rounds):
        if best.work <= limits.bound * draft.asked:
            break
        more = excessive(draft.graph, draft.asked, last.chosen.demand(), target)
        if not more:
            break
        lower = _Inner(target, *last.chosen.inner).lower
        last = _run(loops, replace(draft, kept=last.kept | more, lower=lower), watch)
        best = min(best, last, key=lambda each: each.work)
    return best


class _Inner:
    """Lowers inner graphs, in the order in which they occur."""

    def __init__(
        self,
        target: Target,
        *known: Inner,  # the results for the first ones, if they have been lowered before
    ) -> None:
        self.target = pipeline_of(target).inside(target)
        self._known = iter(known)

    def lower(self, graph: Graph) -> Inner:
        found = next(self._known, None)
        if found is not None:
            return found
        draft = Draft(self.target, graph, _inputs(graph, "x"), _Inner(self.target).lower)
        done = _with_loops(_run(pipeline_of(self.target).graph, draft))
        return Inner(
            tuple(statement for nest in done.nests for statement in nest.body),
            tuple(dict.fromkeys(row for nest in done.nests for row in nest.scratch)),
            done.inputs,
            tuple(done.chosen.outputs),
            sum(nest.work for nest in done.nests),
            sum(nest.uncounted for nest in done.nests),
        )


def _formal(target: Target) -> Callable[[Graph], Formal]:
    """Lowers subprograms, whose graphs have been rewritten together with the program."""

    def lower(graph: Graph) -> Formal:
        draft = Draft(target, graph, _inputs(graph, "x"), _Inner(target).lower)
        stages = pipeline_of(target)
        done = _run(stages.kernels, _with_loops(_run(stages.graph[1:], draft)))
        return done.steps, (*done.inputs, *done.chosen.outputs)

    return lower


def _inputs(graph: Graph, name: str) -> tuple[Buffer, ...]:
    """Buffers for the inputs of a graph."""
    return tuple(
        buffer(f"{name}{i}", x.aval.dtype, x.aval.shape) for i, x in enumerate(graph.inputs)
    )
