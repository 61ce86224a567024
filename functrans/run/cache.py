"""Compiled code: linked once in a process, compiled once in all processes of a user.

The object code is kept on disk by a key of everything that it follows from. Addresses are not in
it: a library function that code calls is found again by every process.
"""

from __future__ import annotations

import hashlib
import threading
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from functrans import config
from functrans.run import native
from functrans.run.native import Code
from functrans.run.store import Store
from functrans.version import __version__


class Statistics(NamedTuple):
    """What became of the code that this process asked for."""

    compiled: int
    from_disk: int
    shared: int
    """It was in memory already."""


# weak, so that code goes with the last program that needs it
_linked: WeakValueDictionary[tuple[Any, ...], Code] = WeakValueDictionary()
_lock = threading.RLock()
_counts = dict.fromkeys(Statistics._fields, 0)


def load(text: str, symbol: str, imports: dict[str, int]) -> Code:
    """The code for LLVM text: loaded before, kept on disk, or compiled now.

    Parameters
    ----------
    text : str
    symbol : str
        The function in it that is wanted.
    imports : dict of str to int
        The addresses of the functions that it calls.
    """
    key = _key(text)
    place = (key, symbol, *sorted(imports.items()))
    with _lock:
        code = _linked.get(place)
        if code is None:
            code = _linked[place] = native.link(_image(key, text), symbol, imports)
        else:
            _counts["shared"] += 1
        return code


def statistics() -> Statistics:
    """What became of the code that this process asked for."""
    return Statistics(**_counts)


def disk() -> Store | None:
    """The folder where code is kept; None if there is to be none."""
    if not config.cache or config.cache_dir is None:
        return None
    return Store(config.cache_dir, config.cache_bytes)


def _image(key: str, text: str) -> bytes:
    """The object code for LLVM text."""
    store = disk()
    kept = store.get(key) if store is not None else None
    if kept is not None:
        _counts["from_disk"] += 1
        return kept
    _counts["compiled"] += 1
    image = native.compile_object(text)
    if store is not None:
        store.put(key, image)
    return image


def _key(text: str) -> str:
    digest = _circumstances().copy()
    digest.update(text.encode())
    return str(digest.hexdigest())


@lru_cache(maxsize=1)
def _circumstances() -> Any:
    """A hash of all but the text that object code follows from."""
    circumstances = (__version__, native.FORMAT, *native.target())
    return hashlib.sha256("\n".join(map(str, circumstances)).encode() + b"\n")
