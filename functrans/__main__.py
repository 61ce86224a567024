"""The command line: ``functrans cache`` and ``functrans explain``, also ``python -m functrans``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from runpy import run_path

from functrans.lazily import lazy
from functrans.run.code import cache
from functrans.run.code.store import Usage
from functrans.version import __version__

explain = lazy("functrans.debug.explanation:explain")
value_and_grad = lazy("functrans.api.derivatives:value_and_grad")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="functrans", description="functrans from a terminal")
    parser.add_argument("--version", action="version", version=f"functrans {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    about = "show where compiled code is kept, and how much, or remove it"
    command = commands.add_parser("cache", help=about, description=about.capitalize())
    command.add_argument("--clear", action="store_true", help="remove all that is kept")
    about = "say what a function of a script does, and which line takes the time and the memory"
    command = commands.add_parser("explain", help=about, description=about.capitalize())
    command.add_argument("function", help="script.py:name; the script is run, but not as __main__")
    command.add_argument(
        "--args", metavar="CODE",
        help="the arguments, as Python code in the script: 'weights, x[:100]'; "
        "without it, the script's variables that are called as the function's parameters are",
    )  # fmt: skip
    command.add_argument("--grad", action="store_true", help="its value and gradient")
    command.add_argument("--save", metavar="FILE", help="write the report as an HTML page as well")
    options = parser.parse_args(arguments)
    if "function" in options:
        return _explain(options.function, options.args, options.grad, options.save)
    return _cache(options.clear)


def _explain(place: str, code: str | None, with_gradient: bool, page: str | None) -> int:
    path, _, name = place.rpartition(":")
    if not path or not Path(path).is_file():
        print(f"{place}: give a script and a function in it, script.py:name", file=sys.stderr)
        return 2
    # a script may import modules of its own folder
    sys.path.insert(0, str(Path(path).resolve().parent))
    variables = run_path(path, run_name="functrans_explain")
    function = variables.get(name)
    if not callable(function):
        print(f"{path} has no function {name!r}", file=sys.stderr)
        return 2
    if code is not None:
        args = eval(f"({code},)", variables)
    else:
        parameters = signature(function).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty]
        missing = [one for one in needed if one not in variables]
        if missing:
            print(
                f"{path} has no variable {missing[0]!r} for the parameter of {name}: "
                f"give the arguments, --args 'CODE, ...'",
                file=sys.stderr,
            )
            return 2
        args = tuple(variables[one] for one in needed)
    explained = explain(value_and_grad(function) if with_gradient else function)(*args)
    print(explained)
    if page is not None:
        explained.save(page)
        print(f"\nwritten to {page}")
    return 0


def _cache(clear: bool) -> int:
    store = cache.disk()
    if store is None:
        print("off: no compiled code is kept (see FUNCTRANS_CACHE and FUNCTRANS_CACHE_DIR)")
        return 0
    refusal = store.refusal()
    if refusal is not None:
        print(f"{store.folder} is not used: {refusal}", file=sys.stderr)
        return 1
    if clear:
        print(f"removed {_words(store.clear())} from {store.folder}")
    else:
        print(f"{store.folder}: {_words(store.usage())} of at most {_size(store.limit)}")
    return 0


def _words(usage: Usage) -> str:
    return f"{usage.files} file{'' if usage.files == 1 else 's'}, {_size(usage.bytes)}"


def _size(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB" if size >= 1024**2 else f"{-(-size // 1024)} KiB"


if __name__ == "__main__":
    sys.exit(main())
