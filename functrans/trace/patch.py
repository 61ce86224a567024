"""Patching of NumPy's modules during tracing, for calls like ``np.array([x, y])`` and ``np.zeros``.

NumPy dispatches most functions on their arguments, but not ``np.zeros``, and not on the elements of
lists. A *monkey patch* of ``np.zeros`` itself would be visible in other threads and libraries,
which may rely on its identity. So the modules keep their contents. During tracing only their class
is replaced, by one with a property for each function: it returns this library's function to lines
of the traced function that call NumPy's by its full name, and NumPy's own to all other code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from functrans import config
from functrans.caches import Table
from functrans.ir.primitive import current
from functrans.lazily import Made, is_imported
from functrans.locks import importing, lock
from functrans.trace import delegation, protocols
from functrans.trace.bytecode import Reads, attribute_reads
from functrans.trace.source import is_foreign
from functrans.trace.trace import Trace

_patched: dict[ModuleType, tuple[type, type]] = {}
"""Each module's original class, and its class during tracing."""

namespaces: list[tuple[Callable[[], None], Callable[[], None]]] = []
"""Pairs of functions that replace names in other modules (`bound_names.py`), and restore them."""

_tracing: set[Trace] = set()
_changing = lock()


def enter(trace: Trace) -> None:
    """Patch NumPy's modules, unless that is switched off."""
    if not config.patch_numpy:
        delegation.restore()
        return
    enter_late()
    with _changing:
        if len(_patched) < len(protocols.replacements):
            for module in protocols.replacements.keys() - _patched.keys():
                functions = protocols.replacements[module]
                _patched[module] = type(module), _patched_class(module, functions)
        _tracing.add(trace)
        for module, (_, patched) in _patched.items():
            module.__class__ = patched
        for change, _ in namespaces:
            change()
        delegation.exchange()


def enter_late() -> None:
    """Enter the replacements for modules that have been imported since this was last called."""
    loaded = sys.modules
    for name in [name for name in protocols.late if name in loaded and is_imported(name)]:
        with importing:
            protocols.late.pop(name, lambda: None)()  # another thread may have done it


def leave(trace: Trace) -> None:
    """Undo what `enter` did, unless another thread is tracing."""
    if not _tracing:
        return
    with _changing:
        _tracing.discard(trace)
        # Ctrl-C may have prevented another trace from leaving
        _tracing.intersection_update([t for t in _tracing if t.alive])
        if not _tracing:
            for module, (own, _) in _patched.items():
                module.__class__ = own
            for _, change_back in namespaces:
                change_back()
            delegation.release()


def _patched_class(module: ModuleType, ours: dict[str, Any]) -> type:
    own = type(module)
    # Python 3.14 reads attributes from the dict of any module whose type looks them up as modules
    # do. So this type looks them up as other objects do, and as a module what is then missing.
    properties: dict[str, Any] = {
        "__getattribute__": object.__getattribute__,
        "__getattr__": own.__getattribute__,
    }
    properties |= {name: _property(module, name, value) for name, value in ours.items()}
    for name in protocols.imported_when_read.get(module, ()):
        properties[name] = _submodule(module, name)
    return type(module.__name__, (own,), properties)


def _property(module: ModuleType, name: str, ours: Any) -> property:
    content = vars(module)
    numpys = content[name]
    made = None if type(ours) is Made else ours
    # Only a function that is called at once is replaced, or one that `map` calls: one that is just
    # named is NumPy's, so that `function is np.sum` and lookups by a function's name work as ever.
    # Objects (np.r_, scipy.stats.norm) are not called, but have attributes or items.
    if type(ours) is Made:
        wanted = {ours.called}
    else:
        wanted = {True} if isinstance(ours, (FunctionType, type)) else {False, callable(ours)}
    frame_of = sys._getframe

    def read(_: Any) -> Any:
        nonlocal made
        frame = frame_of(1)
        code = frame.f_code
        # on the path of every NumPy name in a traced function, so written without extra calls
        known = _known.get(id(code))
        reads = _reads_in(code) if known is None else known[1]
        found = reads.get(frame.f_lasti)
        if found in wanted and content[name] is numpys:
            trace = current.get()
            if isinstance(trace, Trace) and not trace.rewriting:
                if made is None:
                    made = ours.make()
                return made
        return content[name]

    def write(_: Any, value: Any) -> None:
        content[name] = value

    def remove(_: Any) -> None:
        del content[name]

    return property(read, write, remove)


def _submodule(module: ModuleType, name: str) -> property:
    """A submodule that NumPy imports lazily, which is patched after that."""
    content = vars(module)

    def read(_: Any) -> Any:
        if name not in content:
            with importing:
                content["__getattr__"](name)
            trace = current.get()
            if isinstance(trace, Trace):
                enter(trace)
        return content[name]

    def write(_: Any, value: Any) -> None:
        content[name] = value

    return property(read, write)


_known: Table[int, tuple[CodeType, Reads]] = Table(16384)
"""Keyed by the id of the code, which the entry keeps alive: hashing code would be slow."""


forget = _known.clear


def _reads_in(code: CodeType) -> Reads:
    """The attribute reads of a user's code; none for the code of installed packages."""
    known = _known.get(id(code))
    if known is None:
        known = code, {} if is_foreign(code.co_filename) else attribute_reads(code)
        _known.remember(id(code), known)
    return known[1]
