"""Settings, as attributes of this module: ``functrans.config.threads = 1``.

The initial value of each comes from the environment, as docs/configuration.md describes. Setting an
invalid value, or a name that is not a setting, raises an error.
"""

from __future__ import annotations

import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def _default_threads() -> int:
    for name in ("FUNCTRANS_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        # OMP_NUM_THREADS may be a list, for nested loops
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
        if text and name.startswith("FUNCTRANS"):
            _ignored(name, "a positive integer")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _default_truth(name: str, default: bool) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text in _YES | _NO:
        return text in _YES
    if text:
        _ignored(name, "0 or 1")
    return default


def _default_cache_dir() -> Path | None:
    named = os.environ.get("FUNCTRANS_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
        below = "AppData/Local"
    elif sys.platform == "darwin":
        base, below = "", "Library/Caches"
    else:
        base, below = os.environ.get("XDG_CACHE_HOME", ""), ".cache"
    if os.path.isabs(base):
        return Path(base, "functrans")
    try:
        return Path.home() / below / "functrans"
    except RuntimeError:  # a user without a home
        return None


def _default_bytes(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if text.isdecimal():
        return int(text)
    if text:
        _ignored(name, "a number of bytes")
    return default


def _default_names(name: str) -> tuple[str, ...]:
    return tuple(filter(None, os.environ.get(name, "").replace(" ", "").split(",")))


def _default_backend() -> str:
    text = os.environ.get("FUNCTRANS_BACKEND", "").strip().lower()
    if text and text not in BACKENDS:
        _ignored("FUNCTRANS_BACKEND", _ONE_OF_THEM)
    return text if text in BACKENDS else BACKENDS[0]


def _default_precision() -> str:
    text = os.environ.get("FUNCTRANS_MATMUL_PRECISION", "").strip().lower()
    if text and text not in PRECISIONS:
        _ignored("FUNCTRANS_MATMUL_PRECISION", _ONE_OF_THESE)
    return text if text in PRECISIONS else PRECISIONS[0]


def _default_cpu() -> str | None:
    text = os.environ.get("FUNCTRANS_CPU", "").strip()
    if text and text not in _CPUS:
        _ignored("FUNCTRANS_CPU", f"one of {', '.join(_CPUS)}")
        return None
    return text or None


def _default_fallback() -> str | None:
    text = os.environ.get("FUNCTRANS_CUDA_FALLBACK", "").strip().lower()
    if text and text != "host":
        _ignored("FUNCTRANS_CUDA_FALLBACK", "'host'")
        return None
    return text or None


def _default_values() -> str | None:
    text = os.environ.get("FUNCTRANS_CHECK_VALUES", "").strip().lower()
    if text and text not in VALUES:
        _ignored("FUNCTRANS_CHECK_VALUES", _ONE_OF_BOTH)
        return None
    return text or None


def _ignored(name: str, wanted: str) -> None:
    warnings.warn(
        f"the environment variable {name} is {os.environ[name]!r}, which is not {wanted}: ignored",
        RuntimeWarning,
        stacklevel=2,
    )


BACKENDS = ("native", "numba")
"""The back ends, as ``jit(backend=...)`` names them: our own LLVM code generator, or Numba."""

_ONE_OF_THEM = " or ".join(map(repr, BACKENDS))

PRECISIONS = ("float32", "tf32")
"""The precisions of products of float32 matrices on a GPU."""

_ONE_OF_THESE = " or ".join(map(repr, PRECISIONS))

VALUES = ("nan", "finite")
"""The values for which the results of transformed functions may be checked."""

_ONE_OF_BOTH = " or ".join(map(repr, VALUES))

_CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")

_YES = {"1", "on", "yes", "true"}
_NO = {"0", "off", "no", "false"}

threads: int = _default_threads()
"""The most threads that compiled code uses, even if it is already compiled. From the environment
variables FUNCTRANS_NUM_THREADS, NUMBA_NUM_THREADS or OMP_NUM_THREADS, else the number of CPUs that
this process may run on. Results do not depend on it."""

parallel_threshold: int = 500_000
"""The least work of a loop that is split among threads: its scalar operations and the bytes that it
moves, of which a core with vectors of 64 bytes does 80 or more in a nanosecond. After a change,
functions are compiled again."""

backend: str = _default_backend()
"""The back end that generates machine code, unless `jit` is given another: ``"native"`` or
``"numba"``. It applies to later compilations. From the environment variable FUNCTRANS_BACKEND."""

cpu: str | None = _default_cpu()
"""The instruction set of compiled code: a level of x86-64, ``"x86-64-v2"`` (vectors of 16 bytes),
``"x86-64-v3"`` (32 bytes) or ``"x86-64-v4"`` (64 bytes), as far as the CPU supports it. None: all
instructions of the CPU. After a change, functions are compiled again. From the environment variable
FUNCTRANS_CPU."""

cuda_fallback: str | None = _default_fallback()
"""What happens to operations without a GPU kernel in programs that run on a GPU. With None, they
raise an error; with ``"host"``, their operands are copied to the host, and their results back. It
applies to later compilations. From the environment variable FUNCTRANS_CUDA_FALLBACK."""
matmul_precision: str = _default_precision()
"""The precision of products of float32 matrices on a GPU: ``"float32"``, or ``"tf32"`` on tensor
cores, with operands rounded to fractions of 10 bits and sums in float32. It applies to later
compilations. From the environment variable FUNCTRANS_MATMUL_PRECISION."""

cache: bool = _default_truth("FUNCTRANS_CACHE", True)
"""Whether compiled code is kept on disk. Off if the environment variable FUNCTRANS_CACHE is 0."""

cache_dir: Path | None = _default_cache_dir()
"""The folder of the disk cache: the environment variable FUNCTRANS_CACHE_DIR, else ``functrans`` in
the user's cache directory. None: no cache."""

cache_bytes: int = _default_bytes("FUNCTRANS_CACHE_BYTES", 256 * 1024 * 1024)
"""The maximum size of the disk cache; the least recently used files are removed. From the
environment variable FUNCTRANS_CACHE_BYTES, else 256 MiB."""

recycle_bytes: int = _default_bytes("FUNCTRANS_RECYCLE_BYTES", 128 * 1024 * 1024)
"""The most memory of unreferenced large results that is kept for new ones: the system would clear
new memory each time. From the environment variable FUNCTRANS_RECYCLE_BYTES, else 128 MiB."""

patch_numpy: bool = _default_truth("FUNCTRANS_PATCH_NUMPY", True)
"""Whether ``np.array([x, y])``, ``np.zeros(3)`` and similar calls accept traced values in the code
of a traced function; NumPy has no protocol for them. It applies to later traces. From the
environment variable FUNCTRANS_PATCH_NUMPY."""

check_plans: bool = _default_truth("FUNCTRANS_CHECK_PLANS", False)
"""Whether every graph and every plan is verified during compilation, after each pass. This is slow,
and meant for finding bugs in this library or in your own operations. From the environment variable
FUNCTRANS_CHECK_PLANS."""


skip_passes: tuple[str, ...] = _default_names("FUNCTRANS_SKIP_PASSES")
"""The names of graph passes to leave out, in order to measure the gain of each, or to find a faulty
one; results are the same, up to rounding. docs/compiler.md lists the passes. From the environment
variable FUNCTRANS_SKIP_PASSES, with commas between names."""

deterministic: bool = _default_truth("FUNCTRANS_DETERMINISTIC", False)
"""Whether the same arguments give the same bits on a GPU if floats are added to elements that are
indexed more than once. Otherwise threads add in any order, which is faster, but rounds differently
in each run. It applies to later compilations. From the environment variable
FUNCTRANS_DETERMINISTIC."""

check_floats: bool = _default_truth("FUNCTRANS_CHECK_FLOATS", False)
"""Whether NumPy evaluates jitted functions, operation by operation, instead of compiling them, with
its warnings about overflow and invalid values; `numpy.errstate` applies. This is slow, and meant
for finding out where a NaN arises. From the environment variable FUNCTRANS_CHECK_FLOATS."""

check_values: str | None = _default_values()
"""Whether the results of transformed functions are checked: ``"nan"`` for NaN, ``"finite"`` for
infinities as well, None for neither. If such a value is in no argument, the program is evaluated
again, step by step, and a `functrans.errors.NonFiniteError` names the user's line in which the
value arose. `functrans.debug.nans` enables it within a block. From the environment variable
FUNCTRANS_CHECK_VALUES."""

log_compiles: bool = _default_truth("FUNCTRANS_LOG_COMPILES", False)
"""Whether each trace of a jitted function prints a line with the reason. From the environment
variable FUNCTRANS_LOG_COMPILES."""

announce_compiles: bool = _default_truth("FUNCTRANS_ANNOUNCE_COMPILES", True)
"""Whether a compilation of more than a second prints a line if standard error is a terminal or a
notebook. From the environment variable FUNCTRANS_ANNOUNCE_COMPILES."""

full_tracebacks: bool = _default_truth("FUNCTRANS_FULL_TRACEBACKS", False)
"""Whether tracebacks show the library's own frames. Otherwise only the frames of the program that
calls the library remain. From the environment variable FUNCTRANS_FULL_TRACEBACKS."""


_WRONG = object()


def _if(holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """The value itself if a condition holds for it."""
    return lambda value: value if holds(value) else _WRONG


_truth = _if(lambda value: type(value) is bool)
_positive = _if(lambda value: type(value) is int and value > 0)
_not_negative = _if(lambda value: type(value) is int and value >= 0)
_backend = _if(lambda value: isinstance(value, str) and value in BACKENDS)
_precision = _if(lambda value: isinstance(value, str) and value in PRECISIONS)
_fallback = _if(lambda value: value is None or value == "host")
_values = _if(lambda value: value is None or value in VALUES)
_cpu = _if(lambda value: value is None or (isinstance(value, str) and value in _CPUS))


def _folder(value: Any) -> Any:
    if value is None:
        return None
    return Path(value) if isinstance(value, (str, os.PathLike)) and str(value) else _WRONG


def _names(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return _WRONG
    names = tuple(value)
    return names if all(isinstance(name, str) for name in names) else _WRONG


# For each setting: a function that converts a value (or returns _WRONG), and a description.
_SWITCHES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "threads": (_positive, "a positive integer"),
    "parallel_threshold": (_not_negative, "an integer, 0 or more"),
    "backend": (_backend, _ONE_OF_THEM),
    "cpu": (_cpu, f"None, or one of {', '.join(_CPUS)}"),
    "cuda_fallback": (_fallback, "None or 'host'"),
    "matmul_precision": (_precision, _ONE_OF_THESE),
    "cache": (_truth, "True or False"),
    "cache_dir": (_folder, "a path, or None"),
    "cache_bytes": (_not_negative, "an integer, 0 or more"),
    "recycle_bytes": (_not_negative, "an integer, 0 or more"),
    "patch_numpy": (_truth, "True or False"),
    "check_plans": (_truth, "True or False"),
    "skip_passes": (_names, "a sequence of names"),
    "deterministic": (_truth, "True or False"),
    "check_floats": (_truth, "True or False"),
    "check_values": (_values, f"None, {_ONE_OF_BOTH}"),
    "log_compiles": (_truth, "True or False"),
    "announce_compiles": (_truth, "True or False"),
    "full_tracebacks": (_truth, "True or False"),
}


def __dir__() -> list[str]:
    return sorted(_SWITCHES)


_watchers: dict[str, list[Callable[[Any], None]]] = {}


def on_change(switch: str, notice: Callable[[Any], None]) -> None:
    """Register a function to be called with each new value of a setting."""
    _watchers.setdefault(switch, []).append(notice)


class _Settings(types.ModuleType):
    """The type of this module, which checks assigned values."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            if name not in _SWITCHES:
                raise AttributeError(
                    f"functrans.config has no switch {name!r}; it has {', '.join(_SWITCHES)}"
                )
            accept, wanted = _SWITCHES[name]
            accepted = accept(value)
            if accepted is _WRONG:
                raise ValueError(f"functrans.config.{name} must be {wanted}, not {value!r}")
            value = accepted
        super().__setattr__(name, value)
        for notice in _watchers.get(name, ()):
            notice(value)


sys.modules[__name__].__class__ = _Settings
