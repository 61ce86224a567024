"""The fuzzer's command: draws programs for a given time, and prints failing ones in reduced form.

A second process does the work, so that a crash is reported like any other failure; the process is
then started again with the program after the one that crashed it.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback

import numpy as np

LONGEST = 180
"""Seconds for one program: more is a failure."""


def modes():
    """The ways to run a program, each with how often it is drawn."""
    from tests.fuzz.checks import MODES
    from tests.fuzz.grids import on_a_grid

    return {**MODES, "on a grid": (on_a_grid, 5)}


def choose_mode(rng):
    weights = np.array([weight for _, weight in modes().values()])
    return list(modes())[int(rng.choice(len(weights), p=weights / weights.sum()))]


def attempt(seed, number):
    """Draw one program and check it; gives None, or what has failed."""
    import functrans
    from tests.fuzz import checks, programs, thresholds

    rng = np.random.default_rng([seed, number])
    mode = choose_mode(rng)
    check = modes()[mode][0]
    program = programs.draw(rng)
    getattr(functrans, "clear_caches", int)()
    low = rng.random() < 0.6
    state = rng.bit_generator.state

    def failure(candidate):
        own = np.random.default_rng()
        own.bit_generator.state = state
        context = thresholds.drawn(own) if low else contextlib.nullcontext([])
        with context as changed:
            try:
                getattr(functrans, "clear_caches", int)()
                check(candidate, own)
            except Exception as error:
                return f"{mode}: {type(error).__name__}: {error}", changed, error
        return None

    found = failure(program)
    if found is None:
        return None
    kind = type(found[2])
    if kind is TimeoutError:  # each smaller program would take as long
        return f"{found[0]}\n{program}"
    small = programs.shrunk(program, lambda p: (f := failure(p)) is not None and type(f[2]) is kind)
    words, changed, error = failure(small) or found
    trace = "".join(traceback.format_exception(error)[-4:]) if kind is not checks.Mismatch else ""
    return f"{words}\nthresholds: {', '.join(changed) or 'as usual'}\n{small}\n{trace}"


def work(seed, first, seconds):
    def too_long(*_):
        raise TimeoutError(f"more than {LONGEST} seconds")

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, too_long)
    end = time.monotonic() + seconds
    number = first
    while time.monotonic() < end:
        print(f"begin {number}", flush=True)
        if hasattr(signal, "SIGALRM"):
            signal.alarm(LONGEST)
        try:
            found = attempt(seed, number)
        except Exception as error:
            trace = "".join(traceback.format_exception(error)[-6:])
            found = f"{type(error).__name__}: {error}\n{trace}"
        if found is not None:
            print(f"failed {number}\n{found}\nend of failure", flush=True)
        number += 1
    print(f"done {number}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--only", action="store_true", help="try the first program alone, here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("FUNCTRANS_CACHE", "0")
    os.environ.setdefault("FUNCTRANS_CHECK_PLANS", "1")
    if given.only:
        print(attempt(given.seed, given.first) or "nothing is wrong")
        return 0
    if given.worker:
        work(given.seed, given.first, given.seconds)
        return 0
    return supervise(given)


def supervise(given):
    """Run workers until the time is up; gives 1 if anything has failed."""
    end = time.monotonic() + given.seconds
    first, failures = given.first, 0
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", "--seed", str(given.seed)]
        command += ["--first", str(first), "--seconds", str(left)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        for line in worker.stdout:
            if line.startswith("begin "):
                first = int(line.split()[1])
            else:
                failures += line.startswith("failed ")
                print(line, end="", flush=True)
        if worker.wait() == 0:
            break
        failures += 1
        print(
            f"failed {first}\nthe process ended with {worker.returncode}\nend of failure",
            flush=True,
        )
        first += 1
    print(f"{first - given.first} programs of seed {given.seed}, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
