"""The first hour on a GPU: ``python -m tests.gpu_hour [PART ...] [--seconds N] [--out FOLDER]``.

Four parts, in this order if none is named, each within ten minutes (``--seconds``, for each):
*basics* (versions, the driver, loops, graphs, libraries), *correctness* (programs under all
transforms, the registry of primitives, compute-sanitizer), *speed* (beside a copy, and beside
CuPy, PyTorch and JAX where they are installed) and *thresholds* (ncu; the numbers of `Grid`). The
most telling cases come first. Each row is printed when it is there, and written to FOLDER
(``$OUT``, if that is set) as a line of JSON.

``--stand-in`` runs all of it small, on an emulated GPU. ``python -m tests.gpu_hour wheels`` says
which packages this machine lacks, and fetches or installs them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gpu_hour import wheels
from tests.gpu_hour.cases import Here
from tests.gpu_hour.runner import BAD, NothingToRunOn, Report, Waiting, run

PARTS = ("basics", "correctness", "speed", "thresholds")

TIMED = ("speed", "thresholds")
"""Parts that have the machine to themselves."""


def workers_for(part: str, stand_in: bool) -> int:
    """How many cases of a part may run at a time: compiling them takes longer than running them."""
    alone = stand_in or part in TIMED
    return 1 if alone else max(1, min(12, (os.cpu_count() or 1) - 2))


def unsettled(path: Path) -> set[str]:
    """The cases that a file of rows says were bad, or left out."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row["case"] for row in rows if row["outcome"] in (*BAD, "left out")}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["wheels"]:  # which must run where nothing is installed yet
        return wheels.main(given[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_hour", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--seconds", type=float, default=570.0, help="for each part")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"), metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names have it")
    parser.add_argument(
        "--again", type=Path, metavar="FOLDER", help="cases that were bad, or left out, in there"
    )
    parser.add_argument("--workers", type=int, help="processes that share the GPU")
    parser.add_argument("--stand-in", action="store_true", help="small, on an emulated GPU")
    parser.add_argument("--full", action="store_true", help="on a stand-in, too, all cases")
    asked = parser.parse_args(given)
    unknown = sorted(set(asked.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: there are {', '.join(PARTS)}")
    return hour(asked)


def hour(asked: argparse.Namespace) -> int:
    """Run what was asked for: 1 if something was wrong, else 0."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory, too
    os.environ.update(wheels.toolkit())
    here = Here(asked.stand_in, None if asked.out is None else Path(asked.out).resolve())

    reports = []
    for part in asked.parts or PARTS:
        names = None if asked.again is None else unsettled(asked.again / f"{part}.jsonl")

        def keep(case: Waiting, names: set[str] | None = names) -> bool:
            if names is not None:
                return case.name in names
            return asked.only in case.name and not (here.stand_in and case.finer and not asked.full)

        print(f"\n{part}, {asked.seconds:.0f} s", flush=True)
        reports.append(Report(part, here.out))
        workers = asked.workers or workers_for(part, here.stand_in)
        try:
            run(f"tests.gpu_hour.{part}", here, reports[-1], keep, asked.seconds, workers)
        except NothingToRunOn as error:
            print(f"there is nothing to be found out here: {error}", file=sys.stderr)
            return 2
    print("\n" + "\n".join(report.summary() for report in reports), flush=True)
    return int(any(report.bad for report in reports))


if __name__ == "__main__":
    sys.exit(main())
