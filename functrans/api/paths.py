"""Path specialisation: Python branches on traced values under jit.

A function that is traced for `jit` may branch on traced values. The trace uses the values of the
current call, and each decision becomes a *guard*: a result of the compiled program that must equal
its value during tracing. If a guard differs, the call is repeated along another path, which is
traced when a call first takes it. Functions are pure, so this is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import modules
from time import perf_counter
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import cached_property
from functrans.errors import NonFiniteError, PathLimitError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph, prune
from functrans.ir.observe import observer
from functrans.ir.primitive import current
from functrans.lazily import lazy
from functrans.locks import lock
from functrans.ops.arrays.known import with_known_arrays
from functrans.records import dataclass
from functrans.run.call.failures import COMPILED_CODES, by_numpy, explained
from functrans.run.call.jitted import runnable
from functrans.trace.source import located
from functrans.trace.trace import Decision
from functrans.tree.compare import Structure

Outcomes = tuple[bool, ...]

# imported with the first check of values
_flagged = lazy("functrans.api.origins:flagged")
_origin_of = lazy("functrans.api.origins:origin_of")


@dataclass
class Made:
    """Record of a program's compilation or loading: seconds, and the origin of its kernels.

    ``seconds`` is None until then.
    """

    seconds: float | None = None
    compiled: int = 0
    from_disk: int = 0
    in_memory: int = 0

    def __str__(self) -> str:
        if self.seconds is None:
            return "not run yet"
        counts = {
            "compiled": self.compiled,
            "from disk": self.from_disk,
            "in memory already": self.in_memory,
        }
        kernels = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return f"made in {1e3 * self.seconds:.1f} ms (kernels: {kernels or 'none new'})"


def _kernels() -> tuple[int, int, int]:
    """The numbers of kernels that this process has compiled, found on disk, and found in memory."""
    # a program that was loaded from disk as a whole has not imported the compiler
    cache = modules.get("functrans.run.code.cache")
    return (0, 0, 0) if cache is None else tuple(cache.statistics())


class Path:
    """One path through a function: its program, and the branch outcomes for which it is valid.

    Attributes
    ----------
    states : tuple of int
        The numbers of the closed-over states for which it is certainly valid. If there are none, it
        is valid for the current call only.
    made : Made
        How it was compiled or loaded.
    """

    def __init__(
        self,
        graph: Graph,  # its first outputs are the guards
        # The values of the graph's inputs that follow the function's arguments. A few integers
        # become constants of the graph.
        captures: Sequence[Any],
        structure: Structure,  # the structure of the result, whose leaves are the other outputs
        decisions: Sequence[Decision],  # one for each guard
        # the positions of the arguments that may be overwritten; only without guards, since a
        # program on a wrong path must not destroy its arguments
        donated: tuple[int, ...] = (),
        # the back end; by default that of `functrans.config` when the program is compiled
        backend: str | None = None,
    ) -> None:
        self.states: tuple[int, ...] = ()
        self.made = Made()
        self.backend = backend
        self.donated = () if decisions else donated
        self.graph, self.captures = with_known_arrays(graph, captures)
        self.structure = structure
        self.decisions = decisions
        self.outcomes = tuple(decision.outcome for decision in decisions)
        self.calls = 0
        self._flagged: dict[str, tuple[Callable[..., Sequence[Any]], bool]] = {}

    @cached_property
    def run(self) -> Callable[..., Sequence[Any]]:
        """The compiled program."""
        start, before = perf_counter(), _kernels()
        program = runnable(self.graph, self.donated, self.backend)
        made, counts = self.made, zip(_kernels(), before, strict=True)
        made.seconds = perf_counter() - start
        made.compiled, made.from_disk, made.in_memory = (now - then for now, then in counts)
        return program

    def is_like(self, other: Path) -> bool:
        """Whether another path has the same program and the same captured values."""
        return (
            self.graph == other.graph
            and len(self.captures) == len(other.captures)
            and all(
                a is b or (isinstance(a, np.ndarray) and np.array_equal(a, b, equal_nan=False))
                for a, b in zip(self.captures, other.captures, strict=True)
            )
        )

    def results(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The results of the program for arguments."""
        if config.check_floats:
            return by_numpy(self.graph, [*leaves, *self.captures])
        if config.check_values is not None and current.get() is None and observer.get() is None:
            return self._checked([*leaves, *self.captures], config.check_values)
        try:
            return self.run(*leaves, *self.captures)
        except COMPILED_CODES as error:
            if self.donated:  # donated
                raise
            found = explained(error, self.graph, [*leaves, *self.captures])
            if found is error:
                raise
            raise found from None

    def _checked(self, inputs: Sequence[Any], kind: str) -> Sequence[Any]:
        """The results of the program, if `functrans.config.check_values` accepts their values."""
        # inputs are not overwritten, since the origin of a bad value is searched from them
        known = self._flagged.get(kind)
        if known is None:
            graph, has_flag = _flagged(self.graph, kind)
            known = self._flagged[kind] = runnable(graph, (), self.backend), has_flag
        program, has_flag = known
        try:
            results = program(*inputs)
        except NonFiniteError:
            self._look_for_origin(inputs)
            # the arguments themselves contained the value
            return runnable(self.graph, (), self.backend)(*inputs)
        if not has_flag:
            return results
        *results, flag = results
        if flag:
            self._look_for_origin(inputs)
        return results

    def _look_for_origin(self, inputs: Sequence[Any]) -> None:
        origin = _origin_of(self.graph, inputs)
        if origin is not None:
            raise NonFiniteError(str(origin))

    def try_(self, leaves: Sequence[Any]) -> tuple[Outcomes | None, Any]:
        """Run the program; return the outcomes up to the first that differs, or else the result."""
        count = len(self.outcomes)
        try:
            results = self.results(leaves)
        except Exception:
            # on the path of another call, any error may occur
            differing = self._parts_at(self._guards(leaves))
            if differing is None:
                raise
            return differing, None
        differing = self._parts_at(results[:count])
        if differing is not None:
            return differing, None
        self.calls += 1
        return None, self.structure.unflatten(results[count:])

    def _parts_at(self, guards: Iterable[Any]) -> Outcomes | None:
        for i, (expected, found) in enumerate(zip(self.outcomes, guards, strict=False)):
            if expected != bool(found):
                return (*self.outcomes[:i], not expected)
        return None

    def _guards(self, leaves: Sequence[Any]) -> Iterable[Any]:
        """The guards in order; each is valid only if all guards before it held."""
        for graph in self._guard_graphs:
            yield evaluate(graph, [*leaves, *self.captures])[0]

    @cached_property
    def _guard_graphs(self) -> list[Graph]:
        outputs = self.graph.outputs[: len(self.outcomes)]
        return [prune(Graph(self.graph.inputs, self.graph.eqns, [out])) for out in outputs]


class Paths:
    """The paths through a function for arguments of given types."""

    def __init__(
        self,
        first: Path,
        # ``trace(leaves, outcomes, state)`` gives the `Path` of a call with these outcomes of its
        # first decisions, in the state of this number
        trace: Callable[[Sequence[Any], Outcomes, int], Path],
        limit: int,  # the maximum number of paths
        name: str,  # the name of the function in messages
    ) -> None:
        self.trace = trace
        self.limit = limit
        self.name = name
        self.paths = [first]
        self._lock = lock()

    def __call__(self, leaves: Sequence[Any], state: int) -> Any:
        """The result of the function in a state, along the path of the call."""
        outcomes: Outcomes | None = ()
        while outcomes is not None:
            path = self._along(leaves, outcomes, state)
            outcomes, result = path.try_(leaves)
        if path in self.paths[1:]:
            with self._lock:  # the next call will probably take the same path
                self.paths = [path, *(other for other in self.paths if other is not path)]
        return result

    def _along(self, leaves: Sequence[Any], outcomes: Outcomes, state: int) -> Path:
        """A path that starts with the given outcomes; traced if there is none."""
        with self._lock:
            for path in self.paths:
                if path.outcomes[: len(outcomes)] == outcomes:
                    return path
            if len(self.paths) == self.limit:
                self._refuse(outcomes)
            path = self.trace(leaves, outcomes, state)
            if state in path.states:
                self.paths = [path, *self.paths]
            return path

    def _refuse(self, outcomes: Outcomes) -> None:
        known = next(p for p in self.paths if p.outcomes[: len(outcomes) - 1] == outcomes[:-1])
        place = located(known.decisions[len(outcomes) - 1].source)
        raise PathLimitError(
            f"{self.name} has gone {self.limit} different ways through its Python branches, and "
            f"goes another one{place}. Each way is compiled on its own.\n"
            "Write functrans.lax.cond(condition, f, g, *xs) for a branch, "
            "functrans.lax.while_loop(cond, body, init) or functrans.lax.fori_loop for a loop, or "
            "allow more: jit(f, max_paths=...)."
        )


class PathReport:
    """The paths of a function, for each type of its arguments; prints as a tree."""

    def __init__(self, name: str, paths: Sequence[Sequence[Path]]) -> None:
        self._name = name
        self._paths = [list(some) for some in paths]

    @property
    def programs(self) -> int:
        """The number of compiled programs."""
        return sum(map(len, self._paths))

    def __repr__(self) -> str:
        lines = []
        for some in self._paths:
            first = some[0].graph
            types = first.in_avals[: len(first.inputs) - len(some[0].captures)]
            lines.append(f"{self._name}({', '.join(map(str, types))})")
            lines += _lines(some, 0, "  ")
        return "\n".join(lines)


def _lines(paths: Sequence[Path], depth: int, indent: str) -> Iterable[str]:
    """The tree of the paths that agree in their first ``depth`` outcomes."""
    first = paths[0]
    if depth == len(first.outcomes):
        calls = f", {first.calls} call{'' if first.calls == 1 else 's'}" if depth else ""
        yield f"{indent}{len(first.graph.eqns)} operations{calls}"
        return
    yield indent + located(first.decisions[depth].source).removeprefix(" at ")
    for outcome in (True, False):
        inner = [path for path in paths if path.outcomes[depth] == outcome]
        if inner:
            yield f"{indent}  {outcome}:"
            yield from _lines(inner, depth + 1, indent + "    ")
