"""The part *thresholds*: the slowest rows under ncu, and a sweep of the planner's parameters.

Each parameter takes several values, on rows that depend on it; results are checked, and the values
are timed in turns. Times are those of kernels alone, without the host's. The last case writes a
table of all results, ``thresholds.txt`` in the folder.
"""

from __future__ import annotations

import csv
import functools
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrans
from functrans import jit
from functrans.errors import FunctransError
from functrans.loop.grid import AttentionTile
from functrans.loop.reductions import Reductions
from functrans.loop.target import Target
from functrans.lower.grid.target import CUDA
from functrans.run.cuda import launches
from tests.benchmarks.one import functrans_library
from tests.gpu_hour.cases import Cannot, Case, Here
from tests.gpu_hour.machine import DEVICE
from tests.gpu_hour.rows import ROWS
from tests.gpu_hour.runner import ROOT, short
from tests.gpu_hour.speed import (
    Contestant,
    behind,
    error,
    expected_of,
    in_turns,
    on_host,
    placed,
    set_up,
)


def cases(here: Here) -> list[Case]:
    """The profiler first, then the sweep, each number with all of its rows in turn."""
    return [
        *(
            Case(
                f"ncu, number {number + 1} of the slowest",
                functools.partial(seen, here, number),
                seconds=240,
                finer=number > 0,
            )
            for number in range(SLOWEST)
        ),
        *(
            Case(f"{name}: {row}", functools.partial(swept, here, name, row), 180, finer=number > 0)
            for name, sweep in SWEEPS.items()
            for number, row in enumerate(sweep.rows)
        ),
        Case("table", functools.partial(table, here)),
    ]


# ---- the sweep -----------------------------------------------------------------------------------


class Sweep(NamedTuple):
    """A number that is varied.

    Parameters
    ----------
    values : tuple
    rows : tuple of str
        What depends on it.
    target : callable
        From a value to a machine that has it.
    usual : value, optional
        The one that is planned by now, if `Grid` does not say it by the name of the sweep.
    """

    values: tuple[Any, ...]
    rows: tuple[str, ...]
    target: Callable[[Any], Target]
    usual: Any = None


GRID = CUDA.grid
assert GRID is not None


def of_grid(name: str, values: tuple[Any, ...], *rows: str) -> Sweep:
    """A field of `Grid`."""
    return Sweep(
        values,
        rows,
        lambda value: replace(CUDA, grid=GRID._replace(**{name: value})),
        getattr(GRID, name),
    )


def depths(name: str, values: tuple[int, ...], *rows: str) -> Sweep:
    """The depth of all tiles of a kind."""
    tiles = getattr(GRID, name)

    def target(value: int) -> Target:
        changed = tuple(one._replace(depth=value) for one in tiles)
        return replace(CUDA, grid=GRID._replace(**{name: changed}))

    return Sweep(values, rows, target, tiles[0].depth)


def attention_tile(tile: AttentionTile) -> Target:
    """A machine with another largest tile of attention of half floats."""
    tiles = (tile, *GRID.warp_attention_tiles[1:])
    return replace(CUDA, grid=GRID._replace(warp_attention_tiles=tiles))


def tile(name: str, number: int, values: tuple[tuple[int, ...], ...], *rows: str) -> Sweep:
    """One tile of a kind, by its fields; without any, there are no tiles of that kind."""
    tiles = getattr(GRID, name)

    def target(value: tuple[int, ...]) -> Target:
        changed = (*tiles[:number], type(tiles[0])(*value), *tiles[number + 1 :]) if value else ()
        return replace(CUDA, grid=GRID._replace(**{name: changed}))

    return Sweep(values, rows, target, tuple(tiles[number]))


def alone(name: str, count: int, *rows: str) -> Sweep:
    """Each of the first tiles of a kind as the only one: sums are then split for its size."""
    tiles = getattr(GRID, name)

    def target(value: int | str) -> Target:
        left = tiles if isinstance(value, str) else (tiles[value],)
        return replace(CUDA, grid=GRID._replace(**{name: left}))

    return Sweep(tuple(range(count)), rows, target, "all")


SWEEPS = {
    "in_flight": of_grid(
        "in_flight", (16, 32, 64, 128), "elementwise", "a x + y",
        "elementwise, float16", "elementwise, float64",
    ),
    "block": of_grid("block", (128, 256, 512), "elementwise", "gather of rows", "scatter, added"),
    "iterations": of_grid(
        "iterations", (4, 8, 16, 32), "softmax", "sums of rows", "layer norm"
    ),
    "busy": of_grid(
        "busy", (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18), "a long running sum",
        "softmax of 1,000 rows of 500", "scatter, added in few places",
    ),
    "latency": of_grid("latency", (4, 8, 16, 32), "LSTM", "a long running sum"),
    "largest_single_strip": of_grid(
        "largest_single_strip", (200, 500, 1000), "random normals", "random bits"
    ),
    "row_registers": of_grid(
        "row_registers", (0, 8, 16, 64), "softmax", "softmax of rows of 8,192"
    ),
    "long_rows": of_grid(
        "long_rows", (0, 107 << 10, 215 << 10), "softmax of rows of 50,257",
        "layer norm of rows of 50,257", "softmax of rows of 20,000",
        "softmax of rows of 50,257, bfloat16",
    ),
    "rows_of_a_team": of_grid(
        "rows_of_a_team", (1, 4, 8, 16), "softmax of rows of 50,257", "layer norm of rows of 50,257"
    ),
    "sort_registers": of_grid(
        "sort_registers", (8, 16, 32), "sorted rows", "order of rows", "a long sort"
    ),
    "tile_side": of_grid("tile_side", (16, 32, 64), "transpose"),
    "crowded": of_grid(
        "crowded", (0, 512, 2048, 8192), "scatter, added in few places",
        "scatter, added in 4,000 places",
    ),
    "updates": of_grid(
        "updates", (4096, 1 << 15, 1 << 18, 1 << 20), "scatter, added in few places"
    ),
    "blocks": of_grid(
        "blocks", (66, 132, 264, 528), "product float32 of 1,000, own",
        "product float16 of 1,000, own", "product float64 of 1,000, own",
        "product float32 of long sums, own", "attention float32 of 3 heads",
    ),
    "least_part": of_grid("least_part", (128, 256, 512, 1024), "product float32 of long sums, own"),
    "one of tiles": alone(
        "tiles", 3, "product float32 of 1,000, own", "product float32 of long sums, own"
    ),
    "one of copied_tiles": alone("copied_tiles", 5, "product float16 of 1,000, own"),
    "one of double_tiles": alone("double_tiles", 3, "product float64 of 1,000, own"),
    "second of tiles": tile(
        "tiles", 1,
        ((64, 64, 16, 4, 4), (64, 64, 16, 8, 4), (64, 64, 16, 8, 8), (64, 64, 32, 8, 4)),
        "product float32 of 1,000, own",
    ),
    "first of double_tiles": tile(
        "double_tiles", 0,
        (
            (), (128, 128, 16, 64, 32, 3), (128, 128, 16, 64, 32, 4), (128, 128, 8, 64, 32, 4),
            (128, 128, 16, 32, 64, 3), (128, 64, 16, 64, 32, 3), (128, 64, 16, 32, 32, 3),
            (256, 64, 16, 64, 32, 3), (64, 64, 16, 32, 32, 4),
        ),
        "product float64, own",
    ),
    "second of double_tiles": tile(
        "double_tiles", 1,
        ((64, 64, 16, 32, 32, 3), (64, 64, 16, 32, 32, 4), (64, 64, 32, 32, 32, 3)),
        "product float64 of 1,000, own",
    ),
    "shared": of_grid("shared", (32 << 10, 48 << 10), "product float32, own", "attention float32"),
    "blocks of a sum": Sweep(
        (132, 256, 528, 1056), ("sum", "sums of columns"),
        lambda value: CUDA.having(CUDA[Reductions]._replace(blocks=value)),
        CUDA[Reductions].blocks,
    ),
    "waves": of_grid("waves", (4, 8, 16, 32, 64), "sums of few rows"),
    "depth of tiles": depths("tiles", (8, 16, 32), "product float32, own"),
    "depth of warp_tiles": depths(
        "warp_tiles", (16, 32, 64), "product float16, own", "product tf32, own"
    ),
    "depth of copied_tiles": depths(
        "copied_tiles", (16, 32, 64), "product float16, own", "product tf32, own",
        "product float16 of 1,000, own",
    ),
    "tiles_together": of_grid(
        "tiles_together", (1, 4, 8, 16), "product float16, own", "product float64, own"
    ),
    "queries of warp_attention_tiles": Sweep(
        (64, 128, 256), ("attention float16", "causal attention float16"),
        lambda value: attention_tile(AttentionTile(value, 64, 64, 2, 16)), 128,
    ),
    "keys of warp_attention_tiles": Sweep(
        (32, 64, 128), ("attention float16",),
        lambda value: attention_tile(AttentionTile(128, value, value, 2, value // 4)), 64,
    ),
    "depth of attention_tiles": depths(
        "attention_tiles", (16, 32, 64), "attention float32", "causal attention float32"
    ),
}  # fmt: skip


def swept(here: Here, name: str, of: str) -> dict[str, Any]:
    """The times of a row by the values of a number; those that change no kernel are left out."""
    row, sweep = ROWS[of], SWEEPS[name]
    if row.by_rows < 0:
        here.needs_a_gpu("would take too long for its size")
    given = [on_host(here, one) for one in row.operands]
    operands, contestants, texts, found = placed(here, row), [], {}, {}
    span = behind(functrans.device_put(np.zeros(here.size(1 << 26, 9)), DEVICE).copy)
    expected = expected_of(here, row)
    with set_up(row) as patch:
        for value in dict.fromkeys((sweep.usual, *sweep.values)):
            patch.setattr(launches, "CUDA", sweep.target(value))
            function = jit(row.program(functrans_library()[0]))
            try:
                text = jit(function).lower(*given, device=DEVICE).source()
                if text in texts:
                    found[f"{value}"] = f"as {texts[text]}"
                    continue
                worst = error(here, row, function(*operands), expected)
            except FunctransError as reason:  # such as a tile that has no room
                found[f"{value}"] = f"none: {type(reason).__name__}"
                continue
            texts[text] = value
            found["error"] = max(worst, found.get("error", 0.0))
            call = functools.partial(compiled_as, patch, sweep.target(value), function, operands)
            contestants.append(Contestant(str(value), call, span))
        times = in_turns(here, contestants)
    best, usual = min(times, key=lambda one: times[one]), str(sweep.usual)
    found |= {f"us {value}": seconds * 1e6 for value, seconds in times.items()}
    return {"usual": usual, "best": best, "gain": times[usual] / times[best], **found}


def compiled_as(patch: pytest.MonkeyPatch, target: Target, function: Any, operands: Any) -> Any:
    """A call, while that is the machine."""
    patch.setattr(launches, "CUDA", target)
    return function(*operands)


def table(here: Here) -> dict[str, Any]:
    """What the sweep found, as a table and as the fields that would be others."""
    if here.out is None:
        raise Cannot("there is no --out FOLDER, where the rows would be")
    lines, changed = [], {}
    for name, ratios in ratios_of(here).items():
        usual = str(SWEEPS[name].usual)
        means = {
            value: math.exp(sum(map(math.log, each)) / len(each)) for value, each in ratios.items()
        }
        best = min(means, key=lambda value: means[value])
        shown = ", ".join(f"{value}: {mean:.3f}" for value, mean in means.items())
        lines.append(f"{name:26} {shown}")
        if best != usual and means[best] < 0.98:
            changed[name] = f"{usual} -> {best} ({1 - means[best]:.0%} less time)"
    text = "\n".join(
        [
            "Time beside that of the value that is planned by now, in the geometric mean of rows.",
            *lines,
        ]
        + ["", "To be changed in Grid and in its target:"]
        + [f"{name}: {how}" for name, how in changed.items()]
    )
    (here.out / "thresholds.txt").write_text(text + "\n")
    return {"numbers": len(lines), **changed}


def ratios_of(here: Here) -> dict[str, dict[str, list[float]]]:
    """For each number and value, times of rows beside those of the usual value."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows_of(here, "thresholds"):
        name, measured = row["case"].partition(": ")[0], row.get("measured", {})
        if name in SWEEPS and row["outcome"] == "right":
            times = {
                key.removeprefix("us "): x for key, x in measured.items() if key.startswith("us ")
            }
            for value, seconds in times.items():
                of = found.setdefault(name, {}).setdefault(value, [])
                of.append(seconds / times[measured["usual"]])
    return found


def rows_of(here: Here, part: str) -> Iterator[dict[str, Any]]:
    """What has been written of a part."""
    path = None if here.out is None else here.out / f"{part}.jsonl"
    if path is not None and path.exists():
        yield from map(json.loads, path.read_text().splitlines())


# ---- ncu -----------------------------------------------------------------------------------------

SLOWEST = 8

USUAL_SUSPECTS = (
    "a long running sum", "softmax of rows of 50,257", "attention float16", "attention float32",
    "sums of columns", "product float16, own", "scatter, added", "sorted rows",
)  # fmt: skip
"""What is looked at where nothing was measured."""

PEAKS = {"float64": 67.0, "tf32": 450.0, "float16": 900.0, "float32": 60.0}
"""TFLOP/s of an H100 or H200, about: what a row's are compared with, by what is in its name."""

METRICS = {
    "us": "gpu__time_duration.sum",
    "memory %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "multiprocessors %": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "warps %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
}


def slowest(here: Here) -> list[str]:
    """The rows that are farthest from what the machine can do."""
    shares = {}
    for row in rows_of(here, "speed"):
        measured = row.get("measured", {})
        if row["case"] in ROWS and row["outcome"] == "right":
            peak = next((peak for kind, peak in PEAKS.items() if kind in row["case"]), 60.0)
            share = measured.get("of a copy", measured.get("TFLOP/s", peak) / peak)
            shares[row["case"]] = share
    names = sorted(shares, key=lambda name: shares[name])
    return list(dict.fromkeys([*names, *USUAL_SUSPECTS]))[:SLOWEST]


def seen(here: Here, number: int) -> dict[str, Any]:
    """One of the slowest rows under ncu."""
    profiler = shutil.which("ncu")
    if profiler is None:
        raise Cannot("ncu is not installed")
    name = slowest(here)[number]
    command = [sys.executable, "-m", "tests.gpu_hour.worker", "tests.gpu_hour.once"]
    command += ["--print", name, *(["--stand-in"] if here.stand_in else [])]
    options = ["--csv", "--print-units", "base", "--clock-control", "none"]
    options += ["--metrics", ",".join(METRICS.values())]
    done = subprocess.run([profiler, *options, *command], cwd=ROOT, capture_output=True, text=True)
    if here.out is not None:
        with (here.out / "ncu.txt").open("a") as file:
            file.write(f"{name}\n{done.stdout}\n")
    kernels = kernels_of(done.stdout)
    assert kernels, (
        f"{name}: it ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
    )
    return {"row": name, **{kernel: ", ".join(what) for kernel, what in kernels.items()}}


def kernels_of(text: str) -> dict[str, list[str]]:
    """Kernels in what ncu prints, each with what was counted of it."""
    lines = text.splitlines()
    start = next((n for n, each in enumerate(lines) if each.startswith('"ID"')), len(lines))
    names = {metric: name for name, metric in METRICS.items()}
    found: dict[str, list[str]] = {}
    for one in csv.DictReader(lines[start:]):
        metric = one.get("Metric Name")
        if metric in names:
            value = float(one["Metric Value"].replace(",", ""))
            value /= 1e3 if metric == METRICS["us"] else 1  # it counts nanoseconds
            kernel = f"{one['ID']} {one['Kernel Name']}"
            found.setdefault(kernel, []).append(f"{names[metric]} {short(value)}")
    return found
