"""Calls that native code remembers: from the second of a kind on, no Python is run for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

from functrans.api.outside import Outside
from functrans.api.paths import Path
from functrans.api.transformed import P, R, Transformed
from functrans.locks import lock
from functrans.run.call import inline_cache
from functrans.tree.compare import Structure


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
        self._outside = Outside(function, instance)
        self._lock = lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self._results(args, kwargs))

    @abstractmethod
    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def forget_calls(self) -> None:
        """Have all calls come through Python, until they have been made there again."""
        self._recent = ()

    def _note(self) -> None:
        """The function has been traced: look at what it read."""
        with self._lock:
            self._outside.note()
            self.forget_calls()

    def _remember(self, path: Path, structure: Structure, leaves: Sequence[Any]) -> None:
        """Python has made a call: native code may make those that are like it."""
        if path.recalled is None:
            return
        path.calls += 1
        if path.calls == 1:  # one call is no reason to load what that takes
            return
        with self._lock:
            if self._outside.watches:
                return
            if not path.recalled:
                path.recalled = self._entry(path, structure, leaves)
            if path.recalled is not None:
                self._recent = inline_cache.with_first(path.recalled, self._recent)

    def _entry(
        self, path: Path, structure: Structure, leaves: Sequence[Any]
    ) -> inline_cache.Entry | None:
        own, program = type(self), path.run
        if own.__call__ is not Remembering.__call__ or not inline_cache.takes(program):
            return None
        if not inline_cache.attach(own, "_recent"):
            return None
        inline_cache.add_holder(self)
        return inline_cache.entry_of(program, structure, leaves, path.captures, path.structure)
