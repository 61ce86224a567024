"""The planner's thresholds drawn low, so that every form of code occurs on small arrays."""

import importlib
from contextlib import contextmanager

from functrans import config

LOW = {
    "lower.select.split_reductions": {"FEW_ITERATIONS": (4, 64, 512), "LONG": (16, 200, 1 << 17)},
    "lower.nest.bodies": {
        "LARGEST_SCRATCH": (0, 256, 1 << 16),
        "LARGEST_COPIED": (0, 1500),
        "WORTH_A_KERNEL": (2, 8, 256),
        "NARROW_BODY": (0, 48),
    },
    "loop.reductions": {"MOST_STEPS": (4, 32)},
    "lower.nest.fusion": {
        "LARGEST_NEST": (30, 6000),
        "LARGEST_BLOCK": (50, 16_000),
        "FEW_STORES": (5, 1000),
        "LONG_ROW": (2, 64),
        "MOST_BUFFERS": (3, 256),
    },
    "lower.kernel.batch_partition": {
        "LEAST_ROWS": (1, 2, 8),
        "MOST_PARTS": (3, 16),
        "LEAST_WORK": (0, 100, 1_000_000),
    },
    "lower.nest.index_splitting": {"SHORTEST_ROW": (2, 16), "MOST_PIECES": (2, 5)},
    "lower.pipeline": {"SMALL": (0, 1024), "SMALL_PART": (0, 100_000)},
    "lower.nest.tiling": {
        "BLOCK": (2, 16),
        "LONG_BLOCK": (4, 32),
        "LONG": (8, 512),
        "CACHE": (64, 1 << 20),
        "TILE": (2, 16),
    },
}
"""By module: each threshold, and what it is drawn from, the real one last."""


@contextmanager
def drawn(rng):
    """Compile with thresholds that are drawn anew; gives those that are not as usual."""
    saved, changed = [], []
    for module_name, names in LOW.items():
        module = importlib.import_module(f"functrans.{module_name}")
        for name, options in names.items():
            value = options[int(rng.integers(len(options)))]
            saved.append((module, name, getattr(module, name)))
            if value != getattr(module, name):
                setattr(module, name, value)
                changed.append(f"{module_name}.{name} = {value}")
    before = config.parallel_threshold
    config.parallel_threshold = int(rng.choice([0, 0, 1000, before]))
    try:
        yield changed
    finally:
        config.parallel_threshold = before
        for module, name, value in saved:
            setattr(module, name, value)
