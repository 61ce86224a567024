"""NumPy's modules while something is traced: a traced function's ``np.array([x, y])`` calls ours.

NumPy asks the arguments of most functions what to do, but neither those of ``np.zeros`` nor the
elements of lists. A *monkey patch* that changed what ``np.zeros`` is would be met by other threads
and other libraries, which may go by its identity. So the modules keep what they hold. Their class
is another one while something is traced, with a property for each function: it gives ours where a
traced function's own lines call NumPy's by its full name, and NumPy's to whoever else asks.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from functrans import config
from functrans.caches import Table
from functrans.ir.primitive import current
from functrans.lazily import Made, is_imported
from functrans.locks import importing, lock
from functrans.trace import asking, protocols
from functrans.trace.bytecode import Reads, attribute_reads
from functrans.trace.source import is_installed
from functrans.trace.trace import Trace

_patched: dict[ModuleType, tuple[type, type]] = {}
"""Each module's own class, and the one that it has meanwhile."""

_tracing: set[Trace] = set()
_changing = lock()


def enter(trace: Trace) -> None:
    """Patch NumPy's modules, if that is not switched off."""
    if not config.patch_numpy:
        asking.restore()
        return
    loaded = sys.modules
    for name in [name for name in protocols.late if name in loaded and is_imported(name)]:
        with importing:
            protocols.late.pop(name, _nothing)()
    with _changing:
        if len(_patched) < len(protocols.replacements):
            for module in protocols.replacements.keys() - _patched.keys():
                functions = protocols.replacements[module]
                _patched[module] = type(module), _patched_class(module, functions)
        _tracing.add(trace)
        for module, (_, patched) in _patched.items():
            module.__class__ = patched
        for (owner, name), (_, ours) in protocols.replaced_methods.items():
            setattr(owner, name, ours)
        asking.exchange()


def _nothing() -> None:
    """What is done where another thread has been quicker."""


def leave(trace: Trace) -> None:
    """Undo what `enter` did, unless another thread is tracing."""
    if not _tracing:
        return
    with _changing:
        _tracing.discard(trace)
        # Ctrl-C may have kept another one from leaving
        _tracing.intersection_update([t for t in _tracing if t.alive])
        if not _tracing:
            for module, (own, _) in _patched.items():
                module.__class__ = own
            for (owner, name), (numpys, _) in protocols.replaced_methods.items():
                setattr(owner, name, numpys)
            asking.release()


def _patched_class(module: ModuleType, ours: dict[str, Any]) -> type:
    properties = {name: _property(module, name, value) for name, value in ours.items()}
    for name in protocols.imported_when_read.get(module, ()):
        properties[name] = _submodule(module, name)
    return type(module.__name__, (type(module),), properties)


def _property(module: ModuleType, name: str, ours: Any) -> property:
    content = vars(module)
    numpys = content[name]
    made = None if type(ours) is Made else ours
    # A function is to be called at once: one that is only named is NumPy's, so that
    # `function is np.sum` and what goes by the name of a function are as ever. An object (np.r_,
    # scipy.stats.norm) is asked for something else.
    if type(ours) is Made:
        wanted = {ours.called}
    else:
        wanted = {True} if isinstance(ours, (FunctionType, type)) else {False, callable(ours)}
    frame_of = sys._getframe

    def read(_: Any) -> Any:
        nonlocal made
        frame = frame_of(1)
        code = frame.f_code
        # every name of NumPy's in a traced function comes along here: no calls that are not needed
        known = _known.get(id(code))
        reads = _reads_in(code) if known is None else known[1]
        found = reads.get(frame.f_lasti)
        if found is not None and not wanted.isdisjoint(found) and content[name] is numpys:
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
    """A module that NumPy imports when it is first asked for, which is then patched as others."""
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
"""By the id of the code, which the entry keeps alive: to hash code is to hash all that is in it."""


def _reads_in(code: CodeType) -> Reads:
    """Where a user's code reads attributes; nothing of the code of installed packages."""
    known = _known.get(id(code))
    if known is None:
        known = code, {} if is_installed(code.co_filename) else attribute_reads(code)
        _known.remember(id(code), known)
    return known[1]
