"""jit: just-in-time compilation of a function for each combination of argument types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Concatenate, overload

from functrans.api.arguments import (
    Argnums,
    as_array,
    aval_of_leaf,
    check_callable,
    examples,
    is_foreign,
    known_values,
    leaf_of_call,
    name_of,
    positional_names,
    wrap,
)
from functrans.api.cached_calls import CachedCalls
from functrans.api.call import compiled_call, jit_call
from functrans.api.flat import Flat
from functrans.api.keys import NO_CONTAINERS, NUMBERS, leaf_key, no_containers, structure_of_leaves
from functrans.api.lowered import Lowered
from functrans.api.methods import MOST_KEPT, JitMethod, is_referable, reference_to
from functrans.api.options import (
    Named,
    Where,
    backend_of,
    check_apart,
    check_backend,
    fetched,
    leaves_of,
    machine_of,
    named,
    where_of,
)
from functrans.api.paths import Outcomes, Path, PathReport, Paths
from functrans.api.randomness import watched
from functrans.api.state import MOST_ENTRIES, State
from functrans.api.static import NO_STATIC, Given, Present, Static, with_containers, without_static
from functrans.api.transformed import P, Q, R
from functrans.caches import Table
from functrans.errors import DtypeError
from functrans.ir.graph import Graph
from functrans.ir.on_device import is_any_on_device
from functrans.ir.primitive import current
from functrans.trace.axes import scope
from functrans.trace.stage import Staged, stage
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer
from functrans.tracebacks import boundary
from functrans.tree import core as tree
from functrans.tree.compare import Structure


class Jitted(CachedCalls[P, R]):
    """A compiled function, as `jit` returns it; `lower` shows the stages of its compilation."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Named,
        donated: Named,
        max_paths: int,
        where: Where,
        instance: Callable[[], Any] | None = None,
    ) -> None:
        options = {
            "static_argnums": static.numbers,
            "static_argnames": tuple(sorted(static.names)),
            "donate_argnums": donated.numbers,
            "donate_argnames": tuple(sorted(donated.names)),
            "max_paths": max_paths,
            **where._asdict(),
        }
        super().__init__(jit, function, options, instance)
        self._static = static
        self._donated = donated
        self._has_static = bool(static)
        self._max_paths = max_paths
        self._where = where
        # keyed by instance
        self._methods: Table[int, Jitted[..., Any]] = Table(MOST_ENTRIES)
        self._kept: Table[int, Jitted[..., Any]] = Table(MOST_KEPT)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jitted[P, R]: ...

    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Jitted[Q, R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        methods = self._methods if is_referable(instance) else self._kept
        if (compiled := methods.get(id(instance))) is None:
            compiled = self._method(instance)
            methods.remember(id(instance), compiled)
        return JitMethod(compiled, instance)

    def _method(self, instance: Any) -> Jitted[..., Any]:
        """The compiled method of one instance."""
        function, number = self._function, id(instance)
        reference = reference_to(instance, lambda: self._methods.pop(number, None))

        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        wrap(function, method, "jit")
        signature = inspect.signature(function.__get__(instance))
        method.__signature__ = signature  # type: ignore[attr-defined]
        itself = positional_names(function)[:1]
        static, donated = (
            named(method, option, tuple(n - (n > 0) for n in given.numbers if n != 0),
                  given.names.difference(itself))
            for option, given in (("static", self._static), ("donate", self._donated))
        )  # fmt: skip
        return Jitted(method, static, donated, self._max_paths, self._where, reference)

    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, static = (args, kwargs), NO_STATIC
        if self._has_static:
            args, kwargs, static = without_static(self._function, self._static, args, kwargs)
        if not kwargs and no_containers(self._where.is_host).issuperset(map(type, args)):
            leaves: Sequence[Any] = args
            structure = structure_of_leaves(len(args))
        else:
            leaves, structure = tree.flatten((args, kwargs))
            static = with_containers(static, args, kwargs)
            if any(map(is_foreign, leaves)) or (self._where.is_host and is_any_on_device(leaves)):
                leaves = self._arrays(leaves, structure, static)
        state, closed_over = self._outside.state(static)
        if closed_over:
            leaves = [*leaves, *closed_over]
        if current.get() is not None:
            if scope() is not None:  # the cached paths must not depend on them
                return self._function(*given[0], **given[1])
            record = partial(self._record, leaves, structure, static, state)
            return self._repeated(record, given, state)
        key = (
            state.number,
            structure,
            static.key,
            # inline, since a call of a function for each leaf takes longer
            *[
                kind if (kind := type(x)) in NUMBERS
                else (x.dtype, x.shape) if kind in NO_CONTAINERS else leaf_key(x)
                for x in leaves
            ],
        )  # fmt: skip
        entry = self._entries.get(key)
        if entry is None or entry[1] is not None:
            return self._repeated(lambda: self._along(key, leaves, structure, static), given, state)
        result = self._called(entry[0], leaves, structure, static)
        self._remember(entry[0], structure, leaves, state, static)
        return result

    def _along(self, key: Any, leaves: Sequence[Any], structure: Structure, static: Static) -> Any:
        """The result of a call that may need tracing."""
        path, paths = self._entries.get(key) or self._trace(key, leaves, structure, static)
        if paths is not None:
            return paths(leaves, key[0])
        result = self._called(path, leaves, structure, static)
        path.calls += 1
        return result

    def _called(
        self, path: Path, leaves: Sequence[Any], structure: Structure, static: Static
    ) -> Any:
        try:
            return path.structure.unflatten(path.results(leaves))
        except OverflowError:
            self._arrays(leaves, structure, static)  # its error names the argument
            raise

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The stages of the compilation for arguments of these types.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the function, or `Aval`s. ``device="cuda"`` compiles for a GPU; if
            there is none, for the ``architecture`` (like ``"sm_80"``; by default ``"sm_90"``).

        Returns
        -------
        Lowered
            With ``graph()``, ``stages()``, ``schedule()``, ``source()``, ``llvm()``, ``asm()`` and
            ``cost()``; for a GPU, ``ptx()`` and ``resources()``.
        """
        own, machine = machine_of(self._function, kwargs)
        (args, own), is_of_types = examples((args, own))
        path = self._staged(args, own, None if is_of_types else ())[0]
        backend = path.backend if machine.device is None else machine.backend
        return Lowered(path.graph, path.donated, backend, machine.architecture)

    def program_for(
        self, args: Any, kwargs: Any
    ) -> tuple[Graph, Sequence[Any], Structure, Structure]:
        """The program for arguments of these types, which must not branch on their values.

        Returns its graph, the values of the inputs that follow the arguments, and the structures
        of the arguments that are not static and of the result.
        """
        path, closed_over, structure = self._staged(args, kwargs, None)
        return path.graph, [*closed_over, *path.captures], structure, path.structure

    def path_of(self, args: Any, kwargs: Any) -> tuple[Path, list[Any]]:
        """The path that a call takes, and all inputs of its program."""
        path, closed_over, _ = self._staged(args, kwargs, ())
        others, named_, _ = without_static(self._function, self._static, args, kwargs)
        return path, [*tree.leaves((others, named_)), *closed_over, *path.captures]

    def _staged(
        self, args: Any, kwargs: Any, outcomes: Outcomes | None
    ) -> tuple[Path, Sequence[Any], Structure]:
        """The path of a call, the captured arrays that are further inputs, and its structure."""
        others, named_, static = without_static(self._function, self._static, args, kwargs)
        leaves, structure = tree.flatten((others, named_))
        static = with_containers(static, others, named_)
        state, closed_over = self._outside.state(static)

        def trace() -> tuple[Path, Sequence[Any], Structure]:
            given = Given([*leaves, *closed_over], structure, static)
            return self._stage(given, outcomes, state.number)[0], closed_over, structure

        given = args, kwargs, outcomes
        return self._repeated(trace, given, state, self._staged)

    def paths(self) -> PathReport:
        """The paths that calls have taken through the function's Python branches.

        Returns
        -------
        PathReport
            Prints as a tree; ``programs`` is the number of compiled programs.
        """
        with self._lock:
            entries = dict.fromkeys(self._entries.values())
            known = [[path] if paths is None else paths.paths for path, paths in entries]
        return PathReport(name_of(self._function), known)

    def _record(
        self, leaves: Sequence[Any], structure: Structure, static: Static, state: State
    ) -> Any:
        """A call within another trace: one equation with the function's graph as inner graph.

        A graph without traced captures is cached as for a call outside of any trace.
        """
        leaves = self._arrays(leaves, structure, static)
        key = (state.number, structure, static.key, *(aval_of_leaf(x) for x in leaves))
        path, _ = self._entries.get(key, (None, None))
        if path is None:
            path, staged = self._stage(Given(leaves, structure, static), None, state.number)
            # if Python branched, the graph is valid for the enclosing trace only
            if not staged.decisions and not any(isinstance(x, Tracer) for x in path.captures):
                self._keep(key, (path, None), path.states)
        operands = [*leaves, *path.captures]
        if any(isinstance(x, Tracer) for x in operands):
            chosen = {"backend": self._where.chosen} if self._where.chosen is not None else {}
            outs = jit_call(*operands, graph=path.graph, name=name_of(self._function), **chosen)
        else:
            outs = compiled_call(*operands, graph=path.graph, backend=self._where.chosen)
        return path.structure.unflatten(outs)

    def _trace(
        self, key: Any, leaves: Sequence[Any], structure: Structure, static: Static
    ) -> tuple[Path, Paths | None]:
        """The first path for arguments of these types, and the set of paths if Python branches."""

        def trace(leaves: Sequence[Any], outcomes: Outcomes, state: int) -> Path:
            given = Given(leaves, structure, static)
            path = self._history.traced(self._stage, given, outcomes, state)
            known = self._entries.get((state, *key[1:]))
            if known is not None and state in path.states:
                self._keep(key, known, path.states)
            return path

        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                path = trace(leaves, (), key[0])
                paths = Paths(path, trace, self._max_paths, name_of(self._function))
                entry = path, paths if path.decisions else None
                self._keep(key, entry, path.states)
            return entry

    def _stage(self, given: Given, outcomes: Outcomes | None, state: int) -> tuple[Path, Staged]:
        """Stage the path with the given outcomes of its first branches, in the state of a number.

        Without ``outcomes``, the enclosing trace decides the branches.
        """
        return self._outside.traced(
            state, given.static, lambda fresh: self._staged_in(fresh, given, outcomes)
        )

    def _staged_in(
        self, state: State, given: Given, outcomes: Outcomes | None
    ) -> tuple[Path, Staged]:
        leaves, structure, static = given
        arrays = self._arrays(leaves, structure, static)
        speculates = outcomes is not None

        def flat_of(function: Callable[..., Any], present: Present) -> Flat:
            def call(args: Any, kwargs: Any) -> Any:
                args, kwargs = static.filled(args, kwargs, present)
                return watched(function)(*args, **kwargs)

            return Flat(call, structure, name_of(self._function))

        closed = state.closed(flat_of, structure.num_leaves)

        def with_guards(*tracers: Any) -> list[Any]:
            outs = closed(*tracers)
            trace = current.get()
            assert isinstance(trace, Trace)
            return [*(decision.tracer for decision in trace.decisions), *outs]

        name = partial(self._leaf_name, structure=structure, static=static)
        staged = stage(
            with_guards if speculates else closed,
            [aval_of_leaf(x) for x in arrays],
            kind="jit",
            values=known_values(arrays) if speculates else None,
            operands=None if speculates else arrays,
            outcomes=outcomes,
            name=name,
        )
        decisions = staged.decisions if speculates else ()
        donated = leaves_of(self._donated, structure, static.position, len(static.positional))
        captures = fetched(staged.captures) if self._where.is_host else staged.captures
        own, closed_over = arrays[: structure.num_leaves], arrays[structure.num_leaves :]
        backend = backend_of(own, [*closed_over, *captures], self._where.chosen, name)
        return Path(staged.graph, captures, closed.result, decisions, donated, backend), staged

    def _arrays(self, leaves: Sequence[Any], structure: Structure, static: Static) -> list[Any]:
        try:
            name = self._leaf_name
            found = [as_array(x, name, i, structure, static) for i, x in enumerate(leaves)]
            return fetched(found) if self._where.is_host else found
        except DtypeError as error:
            raise DtypeError(
                f"{error}; to pass it as it is, write jit(f, static_argnums=...) or static_argnames"
            ) from None

    def _leaf_name(self, i: int, structure: Structure, static: Static) -> str:
        if (other := i - structure.num_leaves) >= 0:
            return self._outside.label(other)
        return leaf_of_call(self._function, structure, i, static.position)


@overload
def jit(
    function: Callable[P, R],
    /,
    static_argnums: Argnums = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: Argnums = (),
    donate_argnames: str | Iterable[str] = (),
    max_paths: int = 16,
    backend: str | None = None,
    device: str | None = None,
) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    static_argnums: Argnums = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: Argnums = (),
    donate_argnames: str | Iterable[str] = (),
    max_paths: int = 16,
    backend: str | None = None,
    device: str | None = None,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@boundary
def jit(
    function: Callable[..., Any] | None = None,
    /,
    static_argnums: Argnums = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: Argnums = (),
    donate_argnames: str | Iterable[str] = (),
    max_paths: int = 16,
    backend: str | None = None,
    device: str | None = None,
) -> Any:
    """Compile a function to machine code.

    The function is traced once for each combination of shapes, dtypes and structures of its
    arguments, optimised as a whole, and compiled; later calls run the compiled code. It must be
    pure: side effects happen only while it is traced. Values that it reads from outside (closures,
    globals, attributes, containers) are checked before each call. Large arrays, and arrays that
    have changed once, are inputs like arguments; if anything else has changed, even in place, the
    function is traced again. ``outside()`` lists these values.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them.
    static_argnums : int or sequence of int, optional
        Arguments that are passed as they are (options, sizes, functions), by their positions: the
        function is compiled for each value. They must be hashable.
    static_argnames : str or sequence of str, optional
        The same by name, whether they are passed by position or by keyword.
    donate_argnums : int or sequence of int, optional
        Positional arguments, arrays or pytrees of them, whose memory may be reused: results of the
        same shapes and dtypes may be written into it, and may be these arrays themselves. Do not
        use their old values after the call. Only arrays that own their memory are overwritten, and
        only after their last use.
    donate_argnames : str or sequence of str, optional
        The same by name, whether they are passed by position or by keyword.
    max_paths : int, optional
        If Python branches on a traced value (``if x > 0``, ``while error > tolerance``), each path
        through the function is compiled when a call first takes it. This is the maximum number of
        paths.
    backend : {"native", "numba"}, optional
        How machine code is generated: directly with LLVM, or with Numba, from the source that
        ``lower(*args).source()`` shows. The default is ``functrans.config.backend``.
    device : str, optional
        An NVIDIA GPU to run on: ``"cuda"``, ``"cuda:1"``. Arguments that are there already
        (`functrans.device_put`) have the function run there without this, and its results stay
        there; without such an argument they are NumPy arrays. With ``"cpu"``, arguments on a GPU
        are copied to the host, and results are NumPy arrays (but a part of another program runs
        where that does).

    Returns
    -------
    Jitted
        Takes the arguments of ``function``. Its methods inspect the program: ``lower(*args)`` shows
        the stages of the compilation, ``paths()`` the paths through Python's branches.

    Raises
    ------
    StaticArgumentError
        If a static argument is not hashable.
    ArgnumsError
        If an option names a missing argument, or if an argument is both static and donated.
    DtypeError
        If an argument that is not static is neither a number nor an array.
    ValueError
        If the back end does not exist, or does not compile for the device.
    DeviceError
        If the device does not exist, or a package that is needed to use it is missing.
    PathLimitError
        If calls take more than ``max_paths`` different paths through Python's branches.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, jit
    >>> jit(grad(lambda x: np.sum(np.sin(x) ** 2)))(np.zeros(3))
    array([0., 0., 0.])
    >>> @jit(static_argnames="n")
    ... def power(x, n):
    ...     return x**n
    >>> power(2.0, n=3)
    np.float64(8.0)
    >>> @jit
    ... def leaky(x):
    ...     return x if x > 0 else 0.1 * x
    >>> leaky(2.0), leaky(-2.0)
    (np.float64(2.0), np.float64(-0.2))
    >>> @jit(donate_argnums=0)
    ... def descend(x, slope):
    ...     return x - 0.1 * slope
    >>> x = np.ones(3)
    >>> descend(x, np.ones(3)) is x
    True
    """
    if function is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            max_paths=max_paths,
            backend=backend,
            device=device,
        )
    check_callable(function, "jit")
    check_backend("jit(backend=...)", backend)
    where = where_of("jit(device=...)", device, backend)
    static = named(function, "static", static_argnums, static_argnames)
    donated = named(function, "donate", donate_argnums, donate_argnames)
    check_apart(function, static, donated)
    return Jitted(function, static, donated, max_paths, where)
