"""Inline caching of calls: from the second similar call on, native code dispatches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

from functrans import config
from functrans.api.arguments import name_of
from functrans.api.history import CompilationReport, History
from functrans.api.outside import Moved, Outside, OutsideReport
from functrans.api.paths import Path, Paths
from functrans.api.state import MOST_ENTRIES, State, Unpresentable
from functrans.api.static import Static
from functrans.api.transformed import P, R, Transformed, checked
from functrans.caches import Table
from functrans.errors import TracerConversionError
from functrans.locks import lock
from functrans.run.call import inline_cache
from functrans.tracebacks import hide
from functrans.tree.compare import Structure

MOST_STATES = 8
"""The most closed-over states for which a function keeps programs."""


class CachedCalls(Transformed[P, R]):
    """A compiled function whose calls are dispatched by native code if they resemble recent ones.

    ``__call__`` handles all other calls (`functrans.run.call.inline_cache`).
    """

    __slots__ = ("_recent",)

    def __init__(
        self,
        transform: Callable[..., Any],
        function: Callable[..., Any],
        options: dict[str, Any],
        instance: Callable[[], Any] | None,
    ) -> None:
        super().__init__(transform, function, options, function)
        self._recent: tuple[Any, ...] = ()
        # with the function's other paths, if it branches
        self._entries: Table[Any, tuple[Path, Paths | None]] = Table(MOST_ENTRIES)
        self._outside = Outside(function, instance)
        self._history = History(function, self._outside)
        self._lock = lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = self._results(args, kwargs)
            if config.check_values is not None:
                result = checked(self, args, kwargs, result)
            return cast(R, result)
        except BaseException as error:
            hide(error)
            raise

    @abstractmethod
    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def outside(self) -> OutsideReport:
        """The arrays that the function reads besides its arguments, and how each is treated.

        Returns
        -------
        OutsideReport
            Prints as a list. Its ``by_reference`` has the arrays that are inputs of the program,
            its ``compared`` those that are compared before each call, with their sizes in bytes.

        Examples
        --------
        >>> import numpy as np
        >>> from functrans import jit
        >>> data, scale = np.ones(1000), np.ones(3)
        >>> f = jit(lambda x: np.sum(data) * scale * x)
        >>> f.outside()
        <lambda> reads besides its arguments
          by reference, as if they were arguments:
            data  8000 bytes
          compared with copies before each call:
            scale  24 bytes
        """
        return self._outside.report(name_of(self._function))

    def compilations(self) -> CompilationReport:
        """The traces of the function, and their reasons (`functrans.debug.why_compiled`)."""
        return CompilationReport(name_of(self._function), self._history.compilations())

    def forget_calls(self) -> None:
        """Empty the inline cache, so that each call goes through Python once more."""
        self._recent = ()

    def _keep(self, key: Any, entry: tuple[Path, Paths | None], states: Sequence[int]) -> None:
        """Store a program for the states in which it is valid."""
        with self._lock:
            self.forget_calls()
            known = {number for number, *_ in list(self._entries)}
            if not known.issuperset(states) and len(known) >= MOST_STATES:
                self._entries.clear()
            for number in states:
                self._entries.remember((number, *key[1:]), entry)

    def _repeated(
        self,
        call: Callable[[], Any],
        given: tuple[Any, ...],
        state: State,
        again: Callable[..., Any] | None = None,
    ) -> Any:
        """The result of a call that may trace; repeat the call if tracing fails.

        Either the state has changed. Or the function does not accept tracers in place of arrays
        that it closes over: then these become constants, which are compared. Or a plain array does
        not accept a tracer, as an index or as an operand of a method: then arrays that were
        constants become inputs.
        """
        again = again or self._results
        try:
            return call()
        except Moved:
            return again(*given)
        except Unpresentable as refused:
            try:
                with self._outside.compared(refused.paths):
                    return again(*given)
            except TracerConversionError:  # by a plain array, that took a tracer as an input
                if isinstance(refused.__cause__, IndexError):
                    raise refused.__cause__ from None
                raise
        except TracerConversionError as error:
            if not (paths := self._outside.constants(state)):
                raise
            try:
                with self._outside.lifted(paths):
                    return again(*given)
            except (IndexError, ArithmeticError) as found:
                raise found from None
            except Exception:
                raise error from None
        finally:
            state.release()

    def _remember(
        self, path: Path, structure: Structure, leaves: Sequence[Any], state: State, static: Static
    ) -> None:
        """Enter a completed call into the inline cache, for similar calls in this state."""
        path.calls += 1
        if path.calls == 1:  # a single call does not justify loading the cache
            return
        if state.entries.get(path, self) is None:  # native code does not support such calls
            return
        with self._lock:
            if path not in state.entries:
                state.entries.remember(path, self._entry(path, structure, leaves, state, static))
            entry = state.entries.get(path)
            if entry is not None:
                self._recent = inline_cache.with_first(entry, self._recent)

    def _entry(
        self, path: Path, structure: Structure, leaves: Sequence[Any], state: State, static: Static
    ) -> inline_cache.Entry | None:
        own, program = type(self), path.run
        if own.__call__ is not CachedCalls.__call__ or not inline_cache.takes(program):
            return None
        guards = state.guards() if state.watches else None
        if (guards is None and state.watches) or not inline_cache.attach(own, "_recent"):
            return None
        inline_cache.add_holder(self)
        return inline_cache.entry_of(
            program, structure, leaves, path.captures, path.structure, guards, static.constants
        )
