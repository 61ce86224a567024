"""A fuzzer for stale results: ``python -m tests.fuzz.captured --seconds 600 --seed 1``.

A module is generated as text: holders of arrays (globals, cells, attributes, containers, objects
that are called, indexed or iterated), each with the expression that reads it and the statements
that change it, and a function that reads some of them. Its transforms are created once. Between
calls, random statements change the holders, in place or by new values of the same type or another
one.
After each, all compiled forms must give what the plain function gives, computed by NumPy alone, and
the slopes that its finite differences give.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from functrans.errors import TracerConversionError
from tests.fuzz.places import PLACES

HEAD = """
import collections, copy, dataclasses, functools, operator, threading, types, weakref
import numpy as np
import scipy.sparse, scipy.interpolate
from functrans import checkpoint, grad, jit, lax, value_and_grad, vmap

N = {size}
rng = np.random.default_rng({seed})
def new(n=N): return rng.uniform(0.5, 2.0, n)
def num(): return float(rng.uniform(0.5, 2.0))
"""

USES = [
    "np.sum({e} * x)",
    "np.sum(np.sin({e}) * x)",
    "np.sum(np.exp(0.1 * ({e})[1:]) * x[:-1])",
    "np.sum(x**2) * np.sum({e})",
    "np.dot({e}, x)",
    "np.sum(np.where(({e}) > 1.0, x, -x))",
    "(np.sum(x) if ({e})[0] > 1.0 else np.sum(x * x))",
    "np.sum(x) * float(({e})[0])",
    "np.sum(np.stack([({e}), x])**2)",
    "np.linalg.norm({e}) * np.sum(x)",
    "np.sum(np.asarray({e})[np.argsort(x)] * x)",
    "np.sum(np.cumsum({e}) * np.tanh(x))",
    "np.max({e}) * np.sum(x) + np.sum(({e})[::-1] * x)",
    "np.sum(({e}).reshape(-1, 1) * x[:, None]) + np.sum(({e}).T @ x)",
    "np.sum(np.array([({e})[0], ({e})[-1]])) * np.sum(x)",
    "np.sum(helper(({e}), x))",
    "np.sum(np.maximum({e}, x))",
    "sorted(np.asarray({e}).tolist())[0] * np.sum(x)",
    "np.sum(np.add.reduce([({e}), ({e}) * 2]) * x)",
]

FORMS = {
    "jit(f)": ("jit(f)", "value"),
    "jit(value_and_grad(f))": ("jit(value_and_grad(f))", "both"),
    "jit(grad(f))": ("jit(grad(f))", "slope"),
    "grad(jit(f))": ("grad(jit(f))", "slope"),
    "jit(vmap(f))": ("jit(vmap(f))", "batch"),
    "vmap(jit(f))": ("vmap(jit(f))", "batch"),
    "inner jit": ("jit(lambda x, g=jit(f): g(x))", "value"),
    "cond": ("jit(lambda x: lax.cond(np.sum(x) < 1e9, f, lambda x: 0.0 * f(x), x))", "value"),
    "scan": ("jit(lambda x: lax.scan(lambda c, y: (c + f(y), c), 0.0, x[None])[0])", "value"),
    "map": ("jit(lambda x: lax.map(f, x[None])[0])", "value"),
    "checkpoint": ("jit(grad(checkpoint(f)))", "slope"),
    "partial": ("jit(functools.partial(weighted, k=1.0))", "value"),
    "method": ("jit(Holder(f).call)", "value"),
    "object": ("jit(Holder(f))", "value"),
    "method of a class": ("Holder(f).compiled", "value"),
    "eager grad": ("grad(f)", "slope"),
}

TAIL = """
def helper(w, x): return w * x
class Holder:
    def __init__(self, f): self.f = f
    def call(self, x): return self.f(x)
    __call__ = call
    compiled = jit(call)
def f(x):
    return {body}
def weighted(x, k): return f(x) * k
def plain(x):
    with np.errstate(all="ignore"):
        return float(f(x))
"""


def draw(rng: np.random.Generator) -> tuple[str, list[str], list[str]]:
    """A module's text, the names of the places in it, and the statements that change them."""
    size = int(rng.choice([3, 40, 700, 3000], p=[0.45, 0.15, 0.2, 0.2]))
    names = [str(x) for x in rng.choice(list(PLACES), size=rng.integers(1, 4))]
    setup = [HEAD.format(size=size, seed=int(rng.integers(1 << 30)))]
    terms, changes = [], []
    for n, name in enumerate(names):
        place = PLACES[name]
        setup.append(place.setup.format(n=n))
        use = USES[0] if rng.random() < 0.3 else str(rng.choice(USES))
        terms.append("(" + use.format(e=place.read.format(n=n)) + ")")
        changes += [change.format(n=n) for change in place.changes]
    setup.append(TAIL.format(body=" + ".join(terms)))
    chosen = [str(x) for x in rng.choice(list(FORMS), size=3, replace=False)]
    setup += [f"form{i} = {FORMS[name][0]}" for i, name in enumerate(chosen)]
    return "\n".join(setup), chosen, changes


class Stale(AssertionError):
    """A compiled function has not seen what changed."""


_TOLERANCE = 1e-4  # of slopes; a jump that is crossed must not pass for one


def slope_along(plain, x, direction, scale):
    """The derivative in a direction, by central differences; None where they cross a jump."""
    coarse, fine = (
        (plain(x + h * direction) - plain(x - h * direction)) / (2 * h) for h in (1e-6, 2e-7)
    )
    return coarse if abs(coarse - fine) <= 0.5 * _TOLERANCE * max(1.0, abs(fine), scale) else None


def compare(module, forms, rng, said):
    """Hold each compiled form against the plain function, as things are now."""
    x = rng.uniform(0.5, 2.0, module.N)
    expected = module.plain(x)
    scale = max(1.0, abs(expected))
    direction = rng.normal(size=module.N)
    for i, name in enumerate(forms):
        kind = FORMS[name][1]
        function = getattr(module, f"form{i}")
        argument = np.stack([x, x + 0.01]) if kind == "batch" else x
        found = function(argument)
        values, slopes = {
            "value": lambda r: ([r], None),
            "batch": lambda r: (list(r), None),
            "both": lambda r: ([r[0]], r[1]),
            "slope": lambda r: ([], r),
        }[kind](found)
        wanted = [expected] if kind != "batch" else [expected, module.plain(x + 0.01)]
        for value, want in zip(values, wanted, strict=False):
            if not abs(float(value) - want) <= 1e-9 * scale:
                raise Stale(f"{said}: {name} gave {float(value)!r}, not {want!r}")
        if slopes is not None:
            along = float(np.asarray(slopes) @ direction)
            want = slope_along(module.plain, x, direction, scale)
            if want is not None and not abs(along - want) <= _TOLERANCE * max(
                1.0, abs(want), scale
            ):
                raise Stale(f"{said}: {name} has slope {along!r}, not {want!r}")


def attempt(seed: int, number: int, folder: Path) -> tuple[str, str] | None:
    """Draw one module and check it; gives what has failed, and the text."""
    rng = np.random.default_rng([seed, number])
    text, forms, changes = draw(rng)
    name = f"captured_{seed}_{number}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    done = []
    try:
        spec.loader.exec_module(module)
        compare(module, forms, rng, "at first")
        for _ in range(6):
            change = str(rng.choice(changes)) if rng.random() < 0.85 else "pass"
            done.append(change)
            try:
                exec(compile(change, f"{name}-change", "exec"), module.__dict__)
                module.plain(np.ones(module.N))
            except Exception:  # what cannot be changed so any more, or fails in plain Python, too
                return None
            if rng.random() < 0.15:
                failed: list[BaseException] = []

                def elsewhere(failed=failed):
                    try:
                        compare(module, forms, rng, "in a thread")
                    except BaseException as error:
                        failed.append(error)

                if "threading.local" in text:
                    continue
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
                if failed:
                    raise failed[0]
            else:
                compare(module, forms, rng, f"after {change!r}")
    except TracerConversionError:  # what cannot be known is refused in words, and is not wrong
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {str(error)[:600]}"
        return words, f"# forms: {forms}\n# changes: {done}\n{text[text.index('def num') :]}"
    finally:
        # what its changes have entered has its sizes, and must not be another module's
        entered = [each for each in sys.modules if re.fullmatch(r"late\d+", each)]
        for each in (name, *entered):
            sys.modules.pop(each, None)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.captured", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first module")
    parser.add_argument("--only", action="store_true", help="try the first module alone")
    given = parser.parse_args()
    os.environ.setdefault("FUNCTRANS_CACHE", "0")
    end, number = time.monotonic() + given.seconds, given.first
    failures = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            try:
                found = attempt(given.seed, number, Path(folder))
            except TracerConversionError:
                found, refused = None, refused + 1
            if found is not None:
                failures += 1
                print(f"failed {number}: {found[0]}\n{found[1]}\nend of failure", flush=True)
            number += 1
            if given.only:
                break
    count = number - given.first
    print(f"{count} modules of seed {given.seed}, {refused} refused, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
