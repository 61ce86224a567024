"""Targets whose thresholds are drawn low, so that every form of code occurs on small arrays."""

from contextlib import contextmanager

from functrans import config
from functrans.loop.target import CPU, STAGES
from functrans.run.code import host
from tests.targets import RECORDS, target

LOW = {
    "cache": (64, 1 << 20),
    "parallel_loops": (3, 1),
    "largest_scratch": (0, 256, 1 << 16),
    "largest_stack": (256, 1 << 18),
    "stages": ((), STAGES[1:], STAGES, STAGES),
    "reductions": {
        "few_iterations": (4, 64, 512),
        "long": (16, 200, 1 << 17),
        "blocks": (3, 64),
        "most_steps": (4, 32),
        "shortest": (4, 16),
        "from_memory": (64, 24 << 20),
        "beyond_cache": (64, 1 << 20),
        "fewest_rows": (8, 256),
        "fewest_rows_again": (8, 512),
        "fewest_lines": (1, 16),
        "rows_together": (2, 8),
        "fewest_lines_together": (1, 32),
        "fewest_lines_far": (1, 96),
        "fewest_blocks": (2, 8),
        "rows_jammed": (2, 4),
        "shortest_jammed": (2, 24),
    },
    "fusion": {
        "largest_nest": (30, 6000),
        "largest_block": (50, 16_000),
        "few_stores": (5, 1000),
        "long_row": (2, 64),
        "most_buffers": (3, 256),
        "worth_a_kernel": (2, 8, 256),
        "small_part": (0, 100_000),
    },
    "vectors": {
        "largest_split": (0, 200_000),
        "largest_copied": (0, 1500),
        "narrow_body": (0, 48),
        "chained": (2, 4),
        "least_together": (1, 20),
        "largest_together": (0, 1500),
    },
    "pieces": {
        "shortest_row": (2, 16),
        "most_pieces": (2, 5),
        "long_piece": (0.0, 0.5),
        "most_phases": (0, 8),
    },
    "tiling": {
        "block": (2, 16),
        "long_block": (4, 64),
        "near": (0, 8),
        "most_jammed": (2, 256),
        "largest_jammed": (0, 800),
        "long": (8, 512),
    },
    "recomputation": {"bound": (1, 2)},
    "batch_partition": {
        "least_rows": (1, 2, 8),
        "most_blocks": (3, 16),
        "least_work": (0, 100, 2_000_000),
    },
    "term_order": {"ratio": (1, 4), "fewest": (1, 200)},
    "gathered_rows": {"shortest": (1, 4), "often": (0, 1)},
    "regrouping": {"fewest": (2, 32), "least": (0, 1 << 20)},
    "interleaving": {"fewest_matrices": (1, 2), "most_bytes_of_two": (0, 1 << 15)},
    "invariant_packing": {"least_steps": (1, 8), "least_bytes": (0, 1 << 15)},
    "distribution": {"least_work": (0, 100, 1 << 20), "most_nested": (1, 4)},
    "joining": {"longest": (0, 20, 1024)},
    "levels": {
        "least_work": (1, 48),
        "longest_apart": (0, 200, 31),
    },
    "apart": {"longest": (0, 31), "most_parts": (8, 3), "least_work": (0, 14)},
    "unrolling": {
        "longest": (3, 16),
        "one_vector": (2, 8),
        "half_vector": (100, 1, 4),
        "much_work": (4, 48),
        "work_of_step": (1000, 1, 4),
        "largest_interleaved": (2, 8),
        "largest_body": (50, 16_000),
        "sums": (1, 7),
        "elements": (1, 4, 64),
    },
    "materialisation": {
        "cheap": (0, 12),
        "largest_expression": (20, 600),
        "repeated": (1, 4),
        "deepest": (2, 40),
    },
    "products": {
        "smallest_side": (2, 8),
        "smallest_work": (1, 8192),
        "worth_splitting": (64, 1 << 20),
        "least_half_bytes": (0, 192),
    },
    "forms": {
        "fewest_rows": (1, 4, 2),
        "shortest": (2, 4),
        "fewest_thin_terms": (1, 17),
        "fewest_kept_columns": (2, 100, 6),
        "least_work": (1, 100, 1 << 14),
        "least_work_of_long": (1, 100, 1 << 11),
        "least_work_in_loops": (1, 100, 1 << 22),
        "largest_factor": (1, 24),
    },
    "blocking": {
        "most_thin": (0, 3, 10),
        "steps_of_lanes": (-10, 2.2),
        "few_terms": (0, 64),
        "depth_bytes": (32, 128, 1536),
        "deepest_bytes": (32, 128, 6144),
        "rows_in_place": (0, 12, 96),
        "fewest_tiles": (0, 4),
        "page": (1, 4096),
        "largest_in_place": (0, 96 << 10),
        "contiguous_bytes": (0, 512),
        "largest_for_a_tile": (0, 1 << 24),
        "rows_of_packing_blocks": (0, 250),
        "block_bytes": (1, 20_000, 190_000),
        "most_rows": (2, 10),
        "panel_bytes": (1, 256, 24 << 10),
        "packed_bytes": (1, 64, 512),
        "few_bytes": (0, 1 << 18),
        "few_registers": (64, 16),
        "narrow_bytes": (64, 1024),
        "shortest_line": (1, 32),
        "rows": (4, 16, 48),
        "columns": (8, 32, 512),
        "fewest_blocks": (1, 8),
    },
    "row_blocks": {
        "least_bytes": (1, 1, 4 << 20),
        "block_bytes": (64, 400_000),
        "fewest_rows": (1, 4, 256),
        "most_rows": (4, 512),
        "multiple": (1, 2, 8),
    },
    "streaming": {
        "fewest_matrices": (1, 2, 4),
        "least_bytes": (1, 1, 1 << 20),
        "least_shared_bytes": (1, 1, 8 << 20),
        "most_terms": (8, 400, 400),
        "block_bytes": (64, 600_000),
        "most_rows": (8, 48),
        "most_parts": (2, 16),
        "tile": (1, 32),
        "fewest_tiles": (1, 4),
    },
    "transforms": {
        "long": (12, 100, 1 << 20),
        "shared": (12, 1 << 15),
        "few": (1, 8),
        "short": (2, 64),
        "uneven": (2, 4096),
        "wide": (8, 512),
        "largest_tile": (256, 1 << 19),
        "far": (1, 1 << 12),
    },
    "convolutions": {
        "fewest_columns": (2, 3),
        "fewest_channels_last": (1, 6),
        "channel_bytes": (1, 256),
        "well_filled": (0.1, 0.9),
        "worth_skipping": (0.1, 1.1, 0.96),
        "gain_of_images": (0.0, 100.0, 0.9),
        "most_sums_in_registers": (2, 5, 12),
        "filled": (0.1, 1.0, 0.6),
        "terms_of_a_copy": (0, 8),
        "fewest_blocks": (1, 2, 4),
        "most_phases": (1, 4, 36),
        "fewest_rows": (1, 4),
        "part_of_cache": (1, 64, 4),
        "most_parts": (2, 16),
        "most_sums": (1, 3, 8),
        "fewest_sums": (1, 2),
        "largest_parts": (64, 4096, 1 << 23),
        "long_sum": (2, 16, 64),
    },
    "matrices": {"largest": (2, 8)},
    "elimination": {
        "fewest_rows": (1, 32),
        "depth_bytes": (64, 4096),
        "panels": (1, 4),
        "fewest_strips": (1, 8),
    },
    "carries": {
        "most_locals": (0, 4, 64),
        "longest_step": (0, 1 << 20),
        "least_reordered": (0, 1 << 12),
    },
    "motion": {"least_work": (1, 512), "least_rows": (1, 16), "most_scatters": (1, 8)},
    "storing": {"operations": (1, 8, 32)},
    "split_sums": {
        "long_sum": (1, 4),
        "largest_in_parts": (2, 256),
        "least_part": (4, 128),
        "largest_copy": (0, 1 << 23),
    },
    "directions": {"fewest": (2, 17), "fraction": (99.0, 0.85), "least": (-(10**9), 4096)},
    "sinking": {"costly": (1, 12), "fewer": (0, 1, 2)},
    "sorts": {
        "network": (8, 16),
        "elements": (0, 1024),
        "vectorised": (0, 512),
        "along_for_digit": (0, 2, 80),
        "compressed": (0, 1 << 15),
        "few_lines": (0, 4),
    },
    "short_circuit": {"block": (2, 9, 1 << 12)},
    "joins": {"few": (1, 5), "small": (4, 64)},
    "assembly": {"together": (4, 128), "few_elements": (0, 2)},
    "outlining": {
        "fewest": (2, 4),
        "least_code": (1, 3000),
        "least_saved": (1, 1000),
        "enough_code": (1, 500),
        "enough_work": (1, 4000),
    },
    "kernels": {"largest_constant": (2, 16)},
    "arena": {"small": (0, 1024)},
    "reuse": {"least_bytes": (0, 1 << 16)},
}
"""By the target's fields and records: each threshold, and what it is drawn from, the real one
last."""


def draw(rng, like=CPU):
    """A target with thresholds that are drawn, and in words those that are not as usual."""
    changes, words = {}, []

    def one(name, options, usual):
        value = options[int(rng.integers(len(options)))]
        if value != usual:
            words.append(f"{name} = {value}")
        return value

    for name, options in LOW.items():
        if name in RECORDS:
            usual = like[RECORDS[name]]
            changes[name] = {
                inner: one(f"{name}.{inner}", each, getattr(usual, inner))
                for inner, each in options.items()
            }
        else:
            changes[name] = one(name, options, getattr(like, name))
    return target(like, **changes), words


@contextmanager
def drawn(rng):
    """Compile with thresholds that are drawn anew; gives those that are not as usual."""
    usual = host.other
    host.other, changed = draw(rng, host.kind())
    before = config.parallel_threshold
    config.parallel_threshold = int(rng.choice([0, 0, 1000, before]))
    try:
        yield changed
    finally:
        host.other = usual
        config.parallel_threshold = before
