"""jit: a function traced once for each type of its arguments, and run as machine code."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrans.api.arguments import (
    Argnums,
    argument_name,
    as_array,
    aval_of_leaf,
    check_callable,
    decorated,
    name_of,
    normalized_argnums,
    wrap,
)
from functrans.api.lowered import Lowered
from functrans.errors import ArgnumsError, DtypeError, StaticArgumentError
from functrans.ir.graph import Graph
from functrans.ir.primitive import current
from functrans.ir.types import describe
from functrans.run.call import jit_call, program
from functrans.trace.stage import stage
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree
from functrans.tree.compare import Structure


class _Entry(NamedTuple):
    """What is kept of one tracing: the graph, what it captured, where the results go."""

    graph: Graph
    captures: tuple[Any, ...]
    structure: Structure
    run: Callable[..., tuple[Any, ...]] | None


class _Static:
    """The static part of a call; ``key`` is part of the key of the cache."""

    def __init__(
        self, positional: tuple[tuple[int, Any], ...], keywords: tuple[tuple[str, Any], ...]
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.key = _exactly(positional), _exactly(keywords)

    def position(self, i: int) -> int:
        """Where the ``i``-th of the other positional arguments stands in the call."""
        for fixed, _ in self.positional:
            i += fixed <= i
        return i


def _exactly(value: Any) -> Any:
    """A key that tells apart what compares equal: 1 and True and 1.0, 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), *map(_exactly, value)
    return type(value), value.hex() if isinstance(value, float) else value


_NO_STATIC = _Static((), ())


class JitFunction:
    """What `jit` returns: called like the function, with `lower` to look inside."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Argnums,
        static_argnames: str | Sequence[str],
    ) -> None:
        wrap(function, self, "jit")
        self._function = function
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._given_numbers = numbers
        self._static_names = frozenset(names)
        self._static_numbers = numbers
        self._has_static = bool(names or numbers)
        if names:
            self._static_numbers += _positions(function, names)
        self._entries: dict[Any, _Entry] = {}
        self._methods: dict[int, JitFunction] = {}
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        compiled = self._methods.get(id(instance))
        if compiled is None:
            compiled = self._methods[id(instance)] = self._method(instance)
        return _JitMethod(compiled, instance)

    def _method(self, instance: Any) -> JitFunction:
        """The function for one instance, whose attributes are constants of the trace."""
        function, number = self._function, id(instance)
        # the cache must not keep the instance alive; who calls the method has it
        reference = weakref.ref(instance, lambda _: self._methods.pop(number, None))

        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        wrap(function, method, "jit")
        signature = inspect.signature(function.__get__(instance))
        method.__signature__ = signature  # type: ignore[attr-defined]
        numbers = tuple(n - (n > 0) for n in self._given_numbers if n != 0)
        return JitFunction(method, numbers, tuple(self._static_names))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._has_static:
            args, kwargs, static = self._without_static(args, kwargs)
        else:
            static = _NO_STATIC
        leaves, structure = tree.flatten((args, kwargs))
        if current.get() is not None:
            return self._record(leaves, structure, static)
        key = (structure, static.key, *map(_leaf_key, leaves))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._trace(key, leaves, structure, static)
        assert entry.run is not None
        return entry.structure.unflatten(entry.run(*leaves, *entry.captures))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The stages of the compilation for arguments of these types.

        Returns
        -------
        Lowered
            With ``graph()``, ``schedule()``, ``source()``, ``llvm()``, ``asm()`` and ``cost()``.
        """
        args, kwargs, static = self._without_static(args, kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        return Lowered(self._stage(leaves, structure, static)[0].graph)

    def _record(self, leaves: list[Any], structure: Structure, static: _Static) -> Any:
        """Called while something else is traced: one equation, of which the graph is the inner one.

        A graph without traced captures is kept as for a call from outside.
        """
        leaves = self._arrays(leaves, structure, static)
        key = (structure, static.key, *(aval_of_leaf(x) for x in leaves))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._stage(leaves, structure, static)[0]
            if not any(isinstance(x, Tracer) for x in entry.captures):
                self._entries[key] = entry
        operands = [*leaves, *entry.captures]
        if not any(isinstance(x, Tracer) for x in operands):
            return entry.structure.unflatten(program(entry.graph)(*operands))
        outs = jit_call(*operands, graph=entry.graph, name=name_of(self._function))
        return entry.structure.unflatten(outs)

    def _trace(self, key: Any, leaves: list[Any], structure: Structure, static: _Static) -> _Entry:
        with self._lock:
            if key not in self._entries:
                entry, _ = self._stage(leaves, structure, static)
                self._entries[key] = entry._replace(run=program(entry.graph))
            return self._entries[key]

    def _stage(
        self, leaves: list[Any], structure: Structure, static: _Static
    ) -> tuple[_Entry, list[Any]]:
        found: dict[str, Any] = {}

        def flat(*tracers: Any) -> list[Any]:
            args, kwargs = structure.unflatten(tracers)
            args, kwargs = _with_static(args, kwargs, static)
            outs, found["structure"] = tree.flatten(self._function(*args, **kwargs))
            return [as_array(x, lambda: f"a result of {name_of(self._function)}") for x in outs]

        def name(i: int) -> str:
            return self._leaf_name(i, structure, static)

        arrays = self._arrays(leaves, structure, static)
        staged = stage(flat, [aval_of_leaf(x) for x in arrays], kind="jit", name=name)
        return _Entry(staged.graph, staged.captures, found["structure"], None), arrays

    def _arrays(self, leaves: list[Any], structure: Structure, static: _Static) -> list[Any]:
        try:
            return [
                as_array(x, self._leaf_name, i, structure, static) for i, x in enumerate(leaves)
            ]
        except DtypeError as error:
            raise DtypeError(
                f"{error}; to pass it as it is, write jit(f, static_argnums=...) or static_argnames"
            ) from None

    def _leaf_name(self, i: int, structure: Structure, static: _Static) -> str:
        args, kwargs = tree.unflatten(structure, range(structure.num_leaves))
        for position, arg in enumerate(args):
            if i in tree.leaves(arg):
                return argument_name(self._function, static.position(position))
        (key,) = [k for k, value in kwargs.items() if i in tree.leaves(value)]
        return f"argument {key!r} of {name_of(self._function)}"

    def _without_static(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], _Static]:
        numbers = tuple(n for n in self._static_numbers if -len(args) <= n < len(args))
        positions = sorted(normalized_argnums(tuple(set(numbers)), len(args), self._function))
        positional = tuple((i, args[i]) for i in positions)
        keywords = tuple(
            (name, value) for name, value in sorted(kwargs.items()) if name in self._static_names
        )
        for label, value in (*positional, *keywords):
            try:
                hash(value)
            except TypeError:
                name = (
                    argument_name(self._function, label)
                    if isinstance(label, int)
                    else f"argument {label!r} of {name_of(self._function)}"
                )
                raise StaticArgumentError(
                    f"{name} is static, so it must be hashable, but {describe(value)} is not: pass "
                    "a tuple for a list, or let it be traced"
                ) from None
        rest = tuple(x for i, x in enumerate(args) if i not in positions)
        others = {k: v for k, v in kwargs.items() if k not in self._static_names}
        return rest, others, _Static(positional, keywords)


class _JitMethod:
    """A compiled method, bound to its instance."""

    def __init__(self, compiled: JitFunction, instance: Any) -> None:
        self._compiled = compiled
        self._instance = instance
        wrap(compiled, self, "jit")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As `JitFunction.lower`."""
        return self._compiled.lower(*args, **kwargs)


def _positions(function: Callable[..., Any], names: Sequence[str]) -> tuple[int, ...]:
    """Where arguments that are static by name stand if they are passed by position."""
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    positions = []
    for name in names:
        if name not in parameters:
            if takes_any:
                continue
            raise ArgnumsError(
                f"static_argnames names {name!r}, which {name_of(function)} does not take: it "
                f"takes {', '.join(parameters)}"
            )
        if parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            positions.append(list(parameters).index(name))
    return tuple(positions)


def _with_static(args: Any, kwargs: Any, static: _Static) -> tuple[list[Any], dict[str, Any]]:
    args = list(args)
    for i, value in static.positional:
        args.insert(i, value)
    return args, {**kwargs, **dict(static.keywords)}


def _leaf_key(x: Any) -> Any:
    kind = type(x)
    if kind is np.ndarray:
        return x.dtype, x.shape
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype, x.shape
    return kind


def jit(
    function: Callable[..., Any] | None = None,
    /,
    static_argnums: Argnums = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """Compile a function to machine code.

    The function is traced once for each combination of shapes, dtypes and structures of its
    arguments, optimised as a whole, and compiled; later calls run the compiled code. It must be
    pure: what it does besides returning results happens only while it is traced, and what it reads
    from outside is read then. Arrays that it reads from outside become constants.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers or pytrees of them.
    static_argnums : int or sequence of int, optional
        Positional arguments that are passed as they are (options, sizes, functions): the function
        is compiled for each value. They must be hashable.
    static_argnames : str or sequence of str, optional
        The same by name, whether they are passed by position or by keyword.

    Returns
    -------
    JitFunction
        With the arguments of ``function``, and a method ``lower(*args)`` to look inside.

    Raises
    ------
    StaticArgumentError
        If a static argument is not hashable.
    DtypeError
        If an argument that is not static is no number or array.
    TracerBoolError
        If Python branches on the value of a traced argument.

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
    """
    if function is None:
        return decorated(jit, static_argnums=static_argnums, static_argnames=static_argnames)
    check_callable(function, "jit")
    return JitFunction(function, static_argnums, static_argnames)
