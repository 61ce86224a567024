"""The stages that only a grid of threads has, or has in another form, each Draft -> Draft.

`functrans.lower.grid.pipeline` has them in its list, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from functrans.loop.reductions import Reductions
from functrans.loop.statements import Kernel, size
from functrans.lower import pipeline
from functrans.lower.draft import Draft
from functrans.lower.grid.attention.fusion import with_fused_pairs
from functrans.lower.grid.barrier_insertion import with_barriers
from functrans.lower.grid.coalescing import coalesced
from functrans.lower.grid.column_reduction import shared_columns
from functrans.lower.grid.distribution import distributed
from functrans.lower.grid.horizontal_fusion import side_by_side
from functrans.lower.grid.launch import narrowed
from functrans.lower.grid.library_calls import with_library_calls
from functrans.lower.grid.products.epilogues import epilogues
from functrans.lower.grid.products.tiling import tiled_product
from functrans.lower.grid.register_rows import with_register_rows
from functrans.lower.grid.rematerialisation import rematerialised
from functrans.lower.grid.sizes import with_leaves
from functrans.lower.grid.software_pipelining import pipelined
from functrans.lower.grid.splitting import ON_A_GRID
from functrans.lower.grid.strip_mining import strip_mined
from functrans.lower.grid.thread_mapping import mapped
from functrans.lower.grid.transposition import transposed
from functrans.lower.kernel.symbolic_sizes import Kernels
from functrans.lower.nest.bodies import Nest, NestBuilder, limit_stack
from functrans.lower.nest.fusion import Loop, fuse
from functrans.lower.plan import Step
from functrans.lower.select.root import Readers


def attention(draft: Draft) -> Draft:
    """Fuse attention and its gradients into tiled kernels, without scores or weights in memory.

    `grid/attention/fusion.py`, with `grid/attention/softmax_kernel.py` for a softmax-weighted sum,
    and `grid/attention/gradient_kernel.py` for sums that recompute scores and weights.

    Expects roots.
    Leaves fewer roots: values that only these kernels need are not stored.
    """
    simplify = draft.chosen.puller.simplify
    return replace(draft, roots=with_fused_pairs(draft.roots, draft.target, simplify))


def library_calls(draft: Draft) -> Draft:
    """Call libraries for products that are not part of a larger kernel.

    `grid/library_calls.py`.

    Expects roots, of which some may become library calls.
    Leaves roots that are elements, or calls.
    """
    return replace(draft, roots=with_library_calls(draft.roots))


def reduction_splitting(draft: Draft) -> Draft:
    """Split long reductions with few results into enough blocks to occupy the teams of a grid.

    `select/split_reductions.py`, by the rules of `grid/splitting.py`.

    Expects roots.
    Leaves roots; a long reduction has become two, of partial results and of their sum.
    """
    return pipeline.splitting(draft, ON_A_GRID)


def fusion(draft: Draft) -> Draft:
    """Fuse loops; elementwise operations on a product join the loops over its tiles (epilogues).

    `nest/fusion.py`, with the rule of `grid/products/epilogues.py`.

    Expects roots, each after those that it reads.
    Leaves nests of loops with the roots in them.
    """
    return replace(draft, loops=tuple(fuse(draft.roots, draft.target, epilogues(draft.target))))


def loop_generation(draft: Draft) -> Draft:
    """Generate the statements of nests; matrix products become tiled kernels.

    `grid/products/tiling.py`, and `nest/bodies.py` for all other nests.

    Expects nests of loops with roots in them.
    Leaves statements of the loop language; loops with independent iterations are marked.
    """
    return pipeline.generated(draft, _nests)


def _nests(
    loops: Sequence[Loop], readers: Readers, bodies: NestBuilder, draft: Draft
) -> Iterator[Nest]:
    """The nests of loops: tiled products, and all others."""
    simplify = draft.chosen.puller.simplify
    for loop in loops:
        product = tiled_product(loop, readers, draft.target, simplify)
        yield from bodies.build(loop) if product is None else (product,)


def rematerialisation(draft: Draft) -> Draft:
    """Rematerialise long rows where they are read, if they are cheap to compute.

    `grid/rematerialisation.py`. A softmax of long rows then needs no memory for them.

    Expects nests.
    Leaves nests without cheap temporaries that would be written to memory and read again.
    """
    lasting = {*draft.inputs, *draft.chosen.outputs}
    return replace(draft, nests=tuple(rematerialised(draft.nests, lasting, draft.target.gpu)))


def loop_distribution(draft: Draft) -> Draft:
    """Distribute loops: nests become kernels that occupy a grid; the host iterates over scans.

    `grid/distribution.py`, with `grid/cost.py` and `grid/expansion.py`.

    Expects nests, whose independent loops are marked.
    Leaves nests, each a kernel, and the loops of the host that contain them.
    """
    nests = [limit_stack(nest, draft.target) for nest in draft.nests]
    return replace(draft, nests=tuple(distributed(nests, draft.target)))


def horizontal_fusion(draft: Draft) -> Draft:
    """Fuse small kernels that are independent of each other, side by side.

    `grid/horizontal_fusion.py`. The step of an optimiser becomes one launch.

    Expects nests that are a kernel each.
    Leaves fewer of them.
    """
    return replace(draft, nests=tuple(side_by_side(draft.nests, draft.homes, draft.target)))


def thread_mapping(draft: Draft) -> Draft:
    """Map loops to a grid: iterations of loop bands become threads, or teams of threads.

    `grid/thread_mapping.py`. A loop over rows gets a warp or a block for each row.

    Expects nests that are a kernel each.
    Leaves nests, with the number of threads for each iteration.
    """
    grid, lengths = draft.target.gpu, draft.target[Reductions]
    return replace(draft, nests=tuple(mapped(nest, grid, lengths) for nest in draft.nests))


def loop_coalescing(draft: Draft) -> Draft:
    """Coalesce the loops of a band if all arrays are contiguous along them.

    `grid/coalescing.py`. An elementwise kernel gets a single index for arrays of any shape.

    Expects steps.
    Leaves steps with fewer loops in their bands, whose buffers are reshaped.
    """
    largest = draft.target[Kernels].largest_constant
    # (a loop of the host is verified as one kernel, on the buffers of the program)
    return _each_step(draft, lambda step: narrowed(coalesced(step, largest)), repeated=narrowed)


def transposition(draft: Draft) -> Draft:
    """Transpose operands that are read across their memory order, by tiles in shared memory.

    `grid/transposition.py`. Reads and writes of `x.T` are then coalesced.

    Expects steps.
    Leaves steps, of which some compute a tile of two loops in each team.
    """
    return _on_grid(draft, transposed)


def column_reduction(draft: Draft) -> Draft:
    """Share the rows of a reduction over columns among the threads of teams.

    `grid/column_reduction.py`. `x.sum(axis=0)` of few columns gets as many threads as that of many.

    Expects steps.
    Leaves steps, of which some compute neighbouring columns in each team.
    """
    return _on_grid(draft, shared_columns, draft.target[Reductions])


def register_rows(draft: Draft) -> Draft:
    """Put rows into registers if each thread of a team needs only its own elements.

    `grid/register_rows.py`. A softmax then reads its rows from memory once. Longer rows are in
    shared memory, without barriers.

    Expects steps.
    Leaves steps with rows that are private to threads, in unrolled loops if in registers.
    """
    grid = draft.target.gpu
    return _each_step(draft, lambda step: with_register_rows(step, grid))


def software_pipelining(draft: Draft) -> Draft:
    """Copy a team's next row to shared memory while it stores the results of one.

    `grid/software_pipelining.py`. A softmax of rows that fill shared memory then uses it and memory
    at the same time.

    Expects steps, with rows in shared memory.
    Leaves steps, of which some process several rows in each team.
    """
    return _on_grid(draft, pipelined)


def strip_mining(draft: Draft) -> Draft:
    """Strip-mine loops over neighbouring elements, so that each thread processes 16 bytes of them.

    `grid/strip_mining.py`, with `nest/unroll_and_jam.py`.

    Expects steps.
    Leaves steps with adjacent loads of neighbouring elements in their statements.
    """
    return _on_grid(draft, strip_mined)


def _on_grid(draft: Draft, change: Callable[..., Step], *given: Any) -> Draft:
    """The steps, transformed given the largest number that is a constant in kernels."""
    grid, largest = draft.target.gpu, draft.target[Kernels].largest_constant
    return _each_step(draft, lambda step: change(step, grid, *given, largest))


def _each_step(
    draft: Draft, change: Callable[[Step], Step], repeated: Callable[[Step], Step] | None = None
) -> Draft:
    """The steps, transformed one by one; those that call the same kernel still do so afterwards.

    Steps that the host repeats may be transformed by ``repeated`` instead.
    """
    done: dict[tuple[Kernel, tuple[int, ...]], Step] = {}
    for step in draft.steps:
        if (step.kernel, step.sizes) not in done:
            done[step.kernel, step.sizes] = (
                _in_turns(step, repeated or change) if step.turns else change(step)
            )
    made = ((step, done[step.kernel, step.sizes]) for step in draft.steps)
    steps = tuple(
        replace(new, buffers=old.buffers, work=old.work, turns=old.turns) for old, new in made
    )
    return replace(draft, steps=steps)


def _in_turns(step: Step, change: Callable[[Step], Step]) -> Step:
    """A step, transformed while indices stand for the host's loops in its kernel, and not sizes."""
    slots = {size(len(step.sizes) + number): turn for number, turn in enumerate(step.turns)}
    kernel = replace(with_leaves(step.kernel, slots), sizes=len(step.sizes))
    given = replace(step, kernel=kernel, turns=())
    made = change(given)
    if made is given:
        return step
    turns = {turn: size(len(made.sizes) + number) for number, turn in enumerate(step.turns)}
    kernel = with_leaves(made.kernel, turns)
    return replace(made, kernel=replace(kernel, sizes=len(made.sizes) + len(turns)))


def barrier_insertion(draft: Draft) -> Draft:
    """Insert barriers where a thread of a team reads what another one has written.

    `grid/barrier_insertion.py`.

    Expects steps.
    Leaves steps whose teams synchronise where necessary.
    """
    done = {step.kernel: with_barriers(step.kernel) for step in draft.steps}
    steps = tuple(replace(step, kernel=done[step.kernel]) for step in draft.steps)
    return replace(draft, steps=steps)
