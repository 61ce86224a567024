"""Random programs planned for a GPU, interpreted with threads in random order."""

from typing import Any

import numpy as np

from functrans import config, grad, jit, vmap
from functrans.ir.types import interleaved, is_complex, joined
from functrans.loop.grid import AttentionTile
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.select.partition import compiled
from functrans.lower.verify import verify
from functrans.optimise import legalised, optimise
from tests.emit.cuda.programs import emulate_plan
from tests.fuzz.checks import Mismatch, compare, float_inputs, losses_of, nearby, precision
from tests.loop.plans import evaluate_plan
from tests.targets import target

MOST = 12_000
"""Elements of all values of a program: the interpreters go from number to number."""

LOW = {
    "grid": {
        "warp": (2, 4),
        "block": (4, 8),
        "largest_team": (4, 16),
        "shortest": (2, 3, 16),
        "iterations": (1, 2, 8),
        "busy": (1, 8, 1 << 15),
        "launch": (0, 20, 4000),
        "at_once": (1, 8, 1 << 13),
        "rows": (64, 32 << 10),
        "long_rows": (0, 2000, 215 << 10),
        "row_registers": (0, 64),
        "rows_of_a_team": (1, 2, 8),
        "blocks": (1, 264),
        "slices": (64, 12 << 10),
        "largest_expanded": (0, 1 << 30),
        "threads": (4, 132 * 2048),
        "shortest_in_strips": (4, 16, 4096),
        "in_flight": (16, 32),
        "sort_registers": (1, 4, 32),
        "smallest_tiled": (1, 64, 1 << 14),
        "tile_side": (4, 8, 32),
        "largest_local": (0, 64, 1024),
        "attention_tiles": ((), (AttentionTile(4, 4, 2, 2, 2),)),
    },
    "reductions": {"blocks": (3, 5), "few_iterations": (1, 8, 64), "long": (16, 200, 1 << 16)},
    "unrolling": {"longest": (2, 16), "sums": (1, 7), "elements": (1, 4, 64)},
    "fission": {"least_batch": (2, 32)},
    "motion": {"least_work": (1, 512), "least_sum": (1, 512)},
    "kernels": {"largest_constant": (2, 16)},
}
"""What thresholds of a GPU are drawn from."""


def draw_target(rng) -> Any:
    """A GPU for which small arrays are large."""
    return target(
        CUDA,
        largest_scratch=int(rng.choice([64, 1 << 18])),
        **{
            record: {
                name: options[int(rng.integers(len(options)))] for name, options in own.items()
            }
            for record, own in LOW.items()
        },
    )


def on_a_grid(program, rng) -> None:
    """A program, its gradient, or either for a batch: evaluated, or its text emulated."""
    if sum(np.asarray(x).size for x in program.values(*program.inputs)) > MOST:
        return
    function: Any = program
    inputs, moving = list(program.inputs), float_inputs(program)
    if moving and rng.random() < 0.5:
        function = grad(losses_of(program, rng)[0], argnums=moving)
    if rng.random() < 0.3:
        function = vmap(function)
        inputs = [np.stack([x, x[..., ::-1] if x.ndim else x]) for x in inputs]
    with np.errstate(all="ignore"):
        expected = function(*inputs)
        around = nearby(function, inputs, rng, precision(program))
    graph, captures, *_ = jit(function).program_for(tuple(inputs), {})
    whole = optimise(graph)
    graph = legalised(whole, CUDA)
    emulated = rng.random() < 0.3
    machine = CUDA if emulated else draw_target(rng)
    if not all(compiled(eqn, machine) for eqn in graph.eqns):
        return
    donated = tuple(i for i in range(len(inputs)) if rng.random() < 0.2)
    plan = pipeline.plan(graph, machine, donated)
    if config.check_plans:
        verify(plan)
    given = [
        interleaved(x, x.dtype) if x.dtype.kind == "c" else x
        for x in map(np.asarray, [*inputs, *captures])
    ]
    if emulated:
        found, status = emulate_plan(plan, given, seed=int(rng.integers(1 << 30)))
    else:
        found, status = evaluate_plan(plan, given, rng.permutation)
    if status:
        raise Mismatch(f"the program failed with {status}")
    found = [
        joined(x, aval.dtype) if is_complex(aval.dtype) else x
        for x, aval in zip(found, whole.out_avals, strict=True)
    ]
    results = expected if isinstance(expected, (tuple, list)) else [expected]
    near = [each if isinstance(each, (tuple, list)) else [each] for each in around]
    compare("on a grid", found, results, near, precision(program))
