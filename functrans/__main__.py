"""The command line: ``functrans cache``, or ``python -m functrans cache``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from functrans.run.code import cache
from functrans.run.code.store import Usage
from functrans.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="functrans", description="functrans from a terminal")
    parser.add_argument("--version", action="version", version=f"functrans {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    about = "show where compiled code is kept, and how much, or remove it"
    command = commands.add_parser("cache", help=about, description=about.capitalize())
    command.add_argument("--clear", action="store_true", help="remove all that is kept")
    options = parser.parse_args(arguments)
    return _cache(options.clear)


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
