"""Calls that native code remembers: from the second of a kind on, no Python is run for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

from functrans.api.arguments import name_of
from functrans.api.outside import Moved, Outside, OutsideReport, State, Unpresentable
from functrans.api.paths import Path, Paths
from functrans.api.transformed import P, R, Transformed
from functrans.caches import Table
from functrans.locks import lock
from functrans.run.call import inline_cache
from functrans.tree import core as tree
from functrans.tree.compare import Structure

MOST_ENTRIES = 1024
"""For so many types of arguments, and values of static ones, a function remembers its programs.
What came first goes first: a static value that changes at every call must not fill the memory."""

MOST_STATES = 8
"""Of so many states of what it closes over a function remembers programs."""


class Remembering(Transformed[P, R]):
    """A compiled function whose calls are made by native code where they are like the last ones.

    ``__call__`` is for all others (`functrans.run.call.inline_cache`). What has to be looked at
    before a call, outside of the function, is Python's to look at: so are all calls then.
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
        # with the other paths, if there are some
        self._entries: Table[Any, tuple[Path, Paths | None]] = Table(MOST_ENTRIES)
        self._outside = Outside(function, instance)
        self._closed: Table[int, _ClosedCalls] = Table(MOST_STATES)
        self._lock = lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self._results(args, kwargs))

    @abstractmethod
    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def outside(self) -> OutsideReport:
        """What the function reads besides its arguments: which arrays, and what is done about each.

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

    def forget_calls(self) -> None:
        """Have all calls come through Python, until they have been made there again."""
        self._recent = ()
        for calls in list(self._closed.values()):
            calls.forget_calls()

    def _keep(self, key: Any, entry: tuple[Path, Paths | None]) -> None:
        """Enter a program for the state that it was traced in, and the one that this has left."""
        if not self._outside.is_settled:  # the program may be one for a later state
            return
        with self._lock:
            self.forget_calls()
            states = {number for number, *_ in list(self._entries)}
            if key[0] not in states and len(states) >= MOST_STATES:
                self._entries.clear()
            self._entries.remember(key, entry)
            after = self._outside.after(key[0])
            if after is not None:
                self._entries.remember((after, *key[1:]), entry)

    def _repeated(
        self,
        call: Callable[[], Any],
        given: tuple[Any, ...],
        state: State,
        again: Callable[..., Any] | None = None,
    ) -> Any:
        """What a call gives that may trace; where that cannot be, what all of it gives once more.

        The state may be another one by now. Or the function does not take a traced value in the
        place of an array that it closes over: then these are constants, which are compared.
        """
        again = again or self._results
        try:
            return call()
        except Moved:
            return again(*given)
        except Unpresentable:
            with self._outside.compared(state):
                return again(*given)
        finally:
            state.release()

    def _remember(
        self,
        path: Path,
        structure: Structure,
        leaves: Sequence[Any],
        state: State,
        args: tuple[Any, ...] | None,
    ) -> None:
        """Python has made a call: native code may make those that are like it.

        Where there is something to be looked at, that is done in Python, and then native code
        makes the call: of positional ``args``, and of the arrays that are closed over.
        """
        if path.recalled is None:
            return
        path.calls += 1
        if path.calls == 1:  # one call is no reason to load what that takes
            return
        with self._lock:
            calls: Remembering[..., Any] | _ClosedCalls = self
            if self._outside.watches:
                if args is None:
                    return
                # (`leaves` are those of the arguments, and the arrays behind them)
                count = tree.structure(args).num_leaves
                structure = tree.structure(((*args, *leaves[count:]), {}))
                calls = state.native = self._closed.get(state.number) or _ClosedCalls()
                self._closed.remember(state.number, calls)
            if not path.recalled:
                path.recalled = self._entry(path, structure, leaves, calls)
            if path.recalled is not None:
                calls._recent = inline_cache.with_first(path.recalled, calls._recent)

    def _entry(
        self, path: Path, structure: Structure, leaves: Sequence[Any], calls: Any
    ) -> inline_cache.Entry | None:
        own, program = type(calls), path.run
        if own.__call__ not in _NATIVE or not inline_cache.takes(program):
            return None
        if not inline_cache.attach(own, "_recent"):
            return None
        inline_cache.add_holder(calls)
        return inline_cache.entry_of(program, structure, leaves, path.captures, path.structure)


MISSED = object()
"""What comes back of a call that native code does not make."""


class _ClosedCalls:
    """Calls of a function in one state, with the arrays that it closes over behind the arguments.

    That things are in this state is the caller's to know.
    """

    __slots__ = ("__weakref__", "_recent")

    def __init__(self) -> None:
        self._recent: tuple[Any, ...] = ()

    def __call__(self, *_: Any) -> Any:
        return MISSED

    def forget_calls(self) -> None:
        """As `Remembering.forget_calls`."""
        self._recent = ()


_NATIVE = (Remembering.__call__, _ClosedCalls.__call__)
