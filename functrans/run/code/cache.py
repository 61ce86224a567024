"""Cache of machine code: linked once in a process, compiled once for all processes of a user.

Object code is cached on disk, by a key of everything that determines it. It contains no addresses:
each process resolves the library functions that code calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from functrans import config
from functrans.caches import once
from functrans.lazily import lazy
from functrans.locks import lock
from functrans.records import NamedTuple
from functrans.run.code import fingerprint
from functrans.run.code.loading import Code, link
from functrans.run.code.modules import joined
from functrans.run.code.store import Store
from functrans.spans import span


class Statistics(NamedTuple):
    """Counts of this process's requests for code: found on disk, compiled, not written to disk."""

    compiled: int
    from_disk: int
    shared: int  # the number of requests for code that was in memory already


_compile_objects = lazy("functrans.run.code.native:compile_objects")

# weak, so that code is freed with the last program that uses it
_linked: WeakValueDictionary[tuple[Any, ...], Code] = WeakValueDictionary()
_lock = lock()
_counts = dict.fromkeys(Statistics._fields, 0)


class Wanted(NamedTuple):
    """A request for code."""

    text: str  # its LLVM module
    symbol: str  # the name of the function in it
    imports: dict[str, int]  # the addresses of the functions that it calls


def load(text: str, symbol: str, imports: dict[str, int]) -> Code:
    """The code for LLVM text: from memory, from disk, or compiled now."""
    return load_all([Wanted(text, symbol, imports)])[0]


def load_all(wanted: Sequence[Wanted]) -> list[Code]:
    """The code for several modules; missing code is compiled in parallel threads."""
    keys = {text: key_of(text) for text, *_ in wanted}
    places = [(keys[text], symbol, imports) for text, symbol, imports in wanted]
    found = [find(*place) for place in places]
    missing = {text for (text, *_), code in zip(wanted, found, strict=True) if code is None}
    images = _compile({text: keys[text] for text in missing})
    with _lock:
        return [
            _linked.get(_place(*place)) or _loaded(place[0], images[text], *place[1:])
            if code is None
            else code
            for (text, *_), place, code in zip(wanted, places, found, strict=True)
        ]


def find(key: str, symbol: str, imports: dict[str, int]) -> Code | None:
    """The code with a key, if it is in memory or on disk."""
    with _lock:
        code = _linked.get(_place(key, symbol, imports))
        if code is not None:
            _counts["shared"] += 1
            return code
        store = disk()
        image = store.get(key) if store is not None else None
        if image is None:
            return None
        _counts["from_disk"] += 1
        return _loaded(key, image, symbol, imports)


def statistics() -> Statistics:
    """Counts of this process's requests for code."""
    return Statistics(**_counts)


def disk() -> Store | None:
    """The folder of the disk cache; None if it is disabled."""
    if not config.cache or config.cache_dir is None:
        return None
    return Store(config.cache_dir, config.cache_bytes)


def _loaded(key: str, image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    addresses = imports
    if any(name in image for name in HALVES):
        addresses = imports | {name.decode(): code.address for name, code in _halves().items()}
    with span("load"):
        code = _linked[_place(key, symbol, imports)] = link(image, symbol, addresses)
    return code


HALVES = {
    b"__extendhfsf2": "half_to_float",
    b"__truncsfhf2": "float_to_half",
    b"__truncdfhf2": "double_to_half",
}
"""Conversions of float16, by the names that LLVM calls if a CPU has no instructions for them."""


@once
def _halves() -> dict[bytes, Code]:
    text = joined(Path(__file__).with_name("half.ll"))
    return {name: load(text, symbol, {}) for name, symbol in HALVES.items()}


def _place(key: str, symbol: str, imports: dict[str, int]) -> tuple[Any, ...]:
    return (key, symbol, *sorted(imports.items()))


def _compile(keys: dict[str, str]) -> dict[str, bytes]:
    """Compile LLVM texts with these keys, and write the object code to disk."""
    if not keys:
        return {}
    with _lock:
        _counts["compiled"] += len(keys)
    with span("compile", f"{len(keys)} kernel{'' if len(keys) == 1 else 's'}"):
        images: dict[str, bytes] = dict(zip(keys, _compile_objects(list(keys)), strict=True))
    store = disk()
    if store is not None:
        for text, key in keys.items():
            store.put(key, images[text])
    return images


def key_of(text: str) -> str:
    """The key of the code for LLVM text."""
    digest = fingerprint.of_code()
    digest.update(text.encode())
    return str(digest.hexdigest())
