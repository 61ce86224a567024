"""Fictitious targets: the CPU with other thresholds, and their use in place of the host."""

import re
from dataclasses import replace

from functrans.caches import clear_caches
from functrans.loop.distribution import Levels
from functrans.loop.fusion import Joining
from functrans.loop.reductions import Reductions
from functrans.loop.target import CPU
from functrans.lower.kernel.arena import Arena
from functrans.lower.kernel.array_regrouping import Regrouping
from functrans.lower.kernel.batch_partition import BatchPartition
from functrans.lower.kernel.distribution import Distribution
from functrans.lower.kernel.reuse import Reuse
from functrans.lower.kernel.symbolic_sizes import Kernels
from functrans.lower.nest.fusion import Fusion
from functrans.lower.nest.index_splitting import Pieces
from functrans.lower.nest.tiling import Tiling
from functrans.lower.nest.vectors import Vectors
from functrans.lower.product.limits import Blocking
from functrans.lower.product.row_blocks import RowBlocks
from functrans.lower.product.stream import Streaming
from functrans.lower.select.assembly import Assembly
from functrans.lower.select.materialise import Materialisation
from functrans.lower.select.recomputation import Recomputation
from functrans.lower.select.unrolling import Unrolling
from functrans.ops.arrays.shape import Joins
from functrans.ops.control.compiled.loops import Apart, Carries
from functrans.ops.convolution.compiled.limits import Convolutions
from functrans.ops.fft.compiled.ways import Transforms
from functrans.ops.linalg.compiled.blas import Products
from functrans.ops.linalg.compiled.elimination import Elimination
from functrans.ops.linalg.compiled.forms import Forms
from functrans.ops.linalg.compiled.grid.teams import Teams
from functrans.ops.linalg.compiled.interleaved import Interleaving
from functrans.ops.linalg.matrices import Matrices
from functrans.ops.reductions.compiled.short_circuit import ShortCircuit
from functrans.ops.reductions.compiled.sorts import Sorts
from functrans.optimise.grid.library_transforms import LibraryTransforms
from functrans.optimise.grid.scan_fission import Fission
from functrans.optimise.machine.contraction_layout import SplitSums, Swapping, TermOrder
from functrans.optimise.machine.gathered_rows import GatheredRows
from functrans.optimise.machine.invariant_packing import InvariantPacking
from functrans.optimise.machine.late_gathers import Sinking
from functrans.optimise.machine.outlining import Outlining
from functrans.optimise.machine.scan_motion import Motion
from functrans.optimise.machine.stored_intermediates import Storing
from functrans.optimise.machine.zero_blocks import Directions
from functrans.run.code import host

RECORDS = {
    re.sub("(?<=[a-z])([A-Z])", r"_\1", record.__name__).lower(): record
    for record in (
        Apart, Arena, Assembly, BatchPartition, Blocking, Carries, Convolutions, Directions,
        Distribution, Elimination, Fission, Forms, Fusion, GatheredRows, Interleaving,
        InvariantPacking, Joining, Joins, Kernels, Levels, LibraryTransforms, Materialisation,
        Matrices, Motion, Outlining, Pieces, Products, Recomputation, Reductions, Regrouping, Reuse,
        RowBlocks, ShortCircuit, Sinking, Sorts, SplitSums, Storing, Streaming, Swapping, Teams,
        TermOrder, Tiling, Transforms, Unrolling, Vectors,
    )
}  # fmt: skip


def target(base=CPU, **changes):
    """A target like another: facts by their names, and of records of thresholds those to change."""
    records = [
        base[RECORDS[name]]._replace(**changes.pop(name)) for name in [*changes] if name in RECORDS
    ]
    if isinstance(changes.get("grid"), dict):
        changes["grid"] = base.grid._replace(**changes["grid"])
    return replace(base, **changes).having(*records)


def machines_of(always, others):
    """The host with other vectors and registers, and with other thresholds, of elimination.

    Their panels and tiles have other sizes; the machine at hand runs all of them.
    """
    return {
        "AVX-512": {"elimination": always},
        "AVX2": {"vector_bytes": 32, "registers": 16, "elimination": always},
        "NEON": {"vector_bytes": 16, "registers": 32, "elimination": always},
    } | {name: {"elimination": {**always, **changed}} for name, changed in others.items()}


def take_host_for(monkeypatch, **changes):
    """Plan for the host as if it were another machine."""
    other = target(host.kind(), **changes)
    monkeypatch.setattr(host, "other", other)
    # which the host is asked for
    for name in {"vector_bytes", "registers", "library_sorts", "slow_division"} & {*changes}:
        monkeypatch.setattr(host, f"_{name}", lambda name=name: changes[name])
    if "vector_bytes" in changes:
        monkeypatch.setattr(host, "_whole_vectors", lambda: False)
    clear_caches()  # of programs for the machine before
