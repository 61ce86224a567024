"""Primitives: a record for each operation, with a slot for everything the library asks of it.

Conventions of the slots (`params` are keyword arguments everywhere):

``infer(*avals, **params)``
    the aval of the result (a tuple of them if the primitive has ``several`` results); raises
    `ShapeError` or `DtypeError` if the operands do not fit.
``numpy(*values, **params)``
    the result, computed by NumPy; a tuple if there are several.
``jvp(primals, tangents, outs, **params)``
    the tangent(s) of the result. A tangent is None where it is zero, on either side.
``transpose(cotangent, *operands, **params)``
    one cotangent (or None) for each operand. An operand that the result is linear in is given
    as its `Aval`, every other one by its value. With several results, the cotangent is a tuple.
``batch(operands, axes, **params)``
    the result with a mapped axis, and where that axis is: ``(result, axis)``. ``axes`` has an int
    for each operand that is mapped, else None.
``fixed``
    the operands, by number, in which it has no derivative although it has one in others: why.
``linear``
    groups of operands in which the result is jointly linear: ``LINEAR``, ``BILINEAR``, ...
    It provides the jvp.
``scalar(*scalars, **params)``
    the compiled form of an elementwise primitive, as arithmetic on `functrans.loop.scalar.Scalar`.
``pull(read, index, *avals, **params)``
    the compiled form of a primitive that moves or reduces: the element of the result at ``index``
    (a tuple of integer Scalars), made of elements ``read(operand_number, index)`` of the operands.
``emit``
    the compiled form of a primitive that is done from memory to memory: an
    `functrans.ops.compiled.emission.Emit`, whose rule gives statements of the loop language. A
    primitive may have it for large operands, and ``pull`` for small ones.
``emit_on_grid``
    the same for a grid of threads, where that is done otherwise; None if it has no such form there.
``regroups(shape)``
    for a primitive whose result has the elements of its operand in their order, in another shape:
    the parameters that give this shape.
``at_position(old, new)``
    for a primitive that is its first operand but at one position, where the second is combined with
    what is there (the other operands are the position along the ``axes``): the element there, as a
    `Scalar`. A loop writes such a result into its carry in place.
``parts(*operands, **params)``
    the result where complex numbers are pairs of real ones, in which a compiled program computes
    (`functrans.ops.compiled.pairs`). Nothing needs to be said if the primitive is linear or
    bilinear in its complex operands: it is applied to the parts. Without a rule, compiled programs
    call NumPy. With inner graphs, ``parts(operands, transform=..., **params)`` gives results flat;
    ``transform`` takes an inner graph apart.
``host(eqn, operands, compile)``
    for a primitive with inner graphs: the results, as a sequence, where a compiled program meets an
    equation that has no compiled form as a whole; None if NumPy is to be called. ``compile`` is a
    `Compile`.
``split(unknown, transform, **params)``
    for a primitive with inner graphs: the `EqnSplit` by which operands are unknown.
``trim(eqn, wanted)``
    for a primitive with inner graphs: the `Eqn` that gives the ``wanted`` results only (a bool for
    each), and takes no operands that are not needed for them.
``sparsity(*operands, **params)``
    for a linear primitive that is not known by its elements (``elementwise`` or ``pull``): the
    sparsity pattern of the result, made of those of its operands (`functrans.ops.dependence`); one
    for each result if there are several. With inner graphs, the keyword ``inner`` gives the
    patterns of one's results. Left out, every element depends on all elements of the operands.
``transpose_moves``
    whether the transpose only moves or repeats elements, so that a mask can be moved along.
``transpose_adds``
    whether the transpose adds up elements without weights, so that a mask can be moved along by
    counting what is let through.
``steep``
    whether the slope of an elementwise primitive may be infinite where its tangent is 0.
``always_strong``
    whether the result of an elementwise primitive has a dtype that does not yield, even if all its
    operands stand for Python numbers: it is a conversion.
``makes_numbers``
    whether the result stands for a Python number wherever the operand has no axes, as that of
    ``x.item()`` does.
``collective``
    what the result of a primitive along a named axis is: ``"invariant"``, equal in all lanes of the
    axis that its parameter ``name`` says, or ``"varying"``. None: it varies if an operand does.
``quotient``
    the operand that a primitive divides by: the result ``y`` solves ``B y = a`` with a ``B`` that
    is linear in this operand, and the rule of its tangent uses the result and not ``a``. The
    Taylor coefficients of the result then follow from one another.
``stores``
    whether it takes and gives numbers in dtypes that nobody computes in (bfloat16): what only moves
    elements, converts them, or has graphs inside. All others are applied to float32 numbers, and
    their results are rounded.
``promotion(keys)``
    the dtypes that the operands of an elementwise primitive are brought to, if nothing else is done
    to them before it is recorded.
``samples(rng)``
    draws operands and parameters for the tests that are generated from the registry.

Rules are written in the IR's own operations: they are given tracers, and what they do with them is
recorded. A primitive with inner graphs (``higher_order``) is given the transform to apply to them,
as the keyword argument ``transform``, so that its definition needs to import none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from sys import _getframe, modules
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from functrans.ir.on_device import appliers, is_any_on_device
from functrans.ir.types import Aval, Shape, interned, is_bfloat16
from functrans.lazily import Catalogue
from functrans.locks import lock

if TYPE_CHECKING:
    from functrans.ir.graph import Eqn, Graph

LINEAR: tuple[tuple[int, ...], ...] = ((0,),)
"""Linear in the first operand, whatever the others are."""

BILINEAR: tuple[tuple[int, ...], ...] = ((0,), (1,))
"""Linear in the first operand, and linear in the second."""

ALL_LINEAR: tuple[tuple[int, ...], ...] = ((-1,),)
"""Jointly linear in all operands, however many there are."""


class EqnSplit(NamedTuple):
    """How an equation with inner graphs falls into a known and an unknown part.

    Parameters
    ----------
    known : Graph
        From the known operands to the known results, and then the residuals. A residual may be an
        operand itself, which is then passed on and not copied.
    unknown : Graph
        From the residuals and then the unknown operands to the unknown results.
    unknown_out : tuple of bool
        Which results are the unknown part's.
    """

    known: Graph
    unknown: Graph
    unknown_out: tuple[bool, ...]


class Sample(NamedTuple):
    """Operands and parameters to try a primitive on."""

    operands: tuple[Any, ...]
    params: dict[str, Any] = {}  # noqa: RUF012  a NamedTuple default, never written to


# a string: NumPy imports its random module, a tenth of itself, when it is named
Samples = Callable[["np.random.Generator"], Iterator[Sample]]


class Compile(Protocol):
    """Compiles a graph, once."""

    def __call__(
        self, graph: Graph, *, whole: bool = False, in_part: tuple[int, ...] = ()
    ) -> Callable[..., Sequence[Any]] | None:
        """A function of arrays.

        If it must be compiled as a ``whole``, None where something in it has no compiled form. Of
        the outputs ``in_part``, only first rows need be written: nobody looks at the others.
        """
        ...


def not_differentiable(reason: str) -> NotDifferentiable:
    """Declare, in the place of a jvp, that a primitive has no derivative, and why."""
    return NotDifferentiable(reason)


class NotDifferentiable(NamedTuple):
    """The reason why a primitive has no derivative; differentiating through it raises."""

    reason: str


class Piecewise(NamedTuple):
    """The derivative is zero wherever it exists (rounding, comparisons, integers)."""


ZERO_DERIVATIVE = Piecewise()


class Same:
    """In a slot for a grid: the form for a CPU serves it, too."""


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """One operation of the IR, as it was defined; see the module's docstring for the slots."""

    name: str
    infer: Callable[..., Any]
    numpy: Callable[..., Any]
    jvp: Callable[..., Any] | NotDifferentiable | Piecewise | None = None
    transpose: Callable[..., Sequence[Any]] | None = None
    batch: Callable[..., tuple[Any, Any]] | None = None
    linear: tuple[tuple[int, ...], ...] = ()
    scalar: Callable[..., Any] | None = None
    pull: Callable[..., Any] | None = None
    emit: Any = None
    emit_on_grid: Any = Same
    at_position: Callable[[Any, Any], Any] | None = None
    regroups: Callable[[Shape], dict[str, Any]] | None = None
    parts: Callable[..., Any] | None = None
    host: Callable[[Eqn, Sequence[Any], Compile], Sequence[Any] | None] | None = None
    split: Callable[..., EqnSplit] | None = None
    trim: Callable[[Eqn, Sequence[bool]], Eqn] | None = None
    sparsity: Callable[..., Any] | None = None
    transpose_moves: bool = False
    transpose_adds: bool = False
    samples: Samples | None = None
    fixed: Mapping[int, str] = field(default_factory=dict)
    several: bool = False
    higher_order: bool = False
    elementwise: bool = False
    steep: bool = False
    always_strong: bool = False
    makes_numbers: bool = False
    collective: str | None = None
    quotient: int | None = None
    stores: bool = False
    prepare: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    promotion: Callable[[tuple[Any, ...]], tuple[np.dtype[Any], ...]] | None = None
    home: str = field(init=False)
    """The module that defines it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", _module_being_run())
        register(self)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return named, (self.name,)

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Apply to tracers, arrays and numbers, after NumPy's promotion of dtypes."""
        if self.prepare is not None:
            operands, params = self.prepare(*operands, **params)
        return bind(self, operands, params)

    @property
    def by_elements(self) -> bool:
        """Whether its elements can be pulled, one by one."""
        return self.scalar is not None or self.pull is not None

    def linear_groups(self, arity: int) -> tuple[tuple[int, ...], ...]:
        """The groups of operands that the result is jointly linear in."""
        return (tuple(range(arity)),) if self.linear == ALL_LINEAR else self.linear

    def infer_all(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """The avals of the results, always as a tuple."""
        result = self.infer(*avals, **params)
        return tuple(result) if self.several else (result,)

    def gives_weak(self, avals: Sequence[Aval]) -> bool:
        """Whether the result stands for a Python number, as a rule because all operands do."""
        if self.makes_numbers and avals[0].ndim == 0:
            return True
        if not self.elementwise or self.always_strong or not avals or not avals[0].weak:
            return False
        return all(aval.weak for aval in avals)

    def results(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """As `infer_all`, and weak where the results stand for Python numbers."""
        results = self.infer_all(avals, params)
        if self.gives_weak(avals):
            return tuple(interned(aval.shape, aval.dtype, True) for aval in results)
        return results


registry: Catalogue[str, Primitive] = Catalogue()
"""Every primitive by its name. A module of the library's own is imported when it is asked for."""

_registry_lock = lock()


def _module_being_run() -> str:
    """The module whose own lines are being run: a definition stands, or is made from, there."""
    frame: FrameType | None = _getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def register(primitive: Primitive) -> None:
    """Enter a primitive in the registry; a second one of the same name is refused."""
    with _registry_lock:
        if registry.has(primitive.name):
            raise ValueError(
                f"there is a primitive {primitive.name!r} already: choose another name"
            )
        registry[primitive.name] = primitive


def named(name: str) -> Primitive:
    """The primitive of a name: what is pickled of one."""
    return registry[name]


def unregister(name: str) -> None:
    """Take a primitive out of the registry (a notebook cell that defines it again)."""
    with _registry_lock:
        registry.pop(name, None)


class Interpreter(Protocol):
    """Whatever decides what applying a primitive means: a trace, which records it."""

    def bind(self, primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply the primitive."""
        ...


current: ContextVar[Interpreter | None] = ContextVar("current", default=None)
"""The innermost active trace of this thread of control; None outside of every transform."""


def bind(primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to operands of exactly the types that it takes."""
    # where there is no such package there are no such arrays
    if "ml_dtypes" in modules and _computes_on_stored(primitive, operands):
        return _in_float32(primitive, operands, params)
    interpreter = current.get()
    if interpreter is None:
        return compute(primitive, operands, params)
    return interpreter.bind(primitive, operands, params)


def compute(primitive: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """The result of a primitive for arrays: by NumPy, or where they are."""
    if appliers and is_any_on_device(operands):
        return appliers[-1](primitive, operands, params)
    return primitive.numpy(*operands, **params)


def _computes_on_stored(primitive: Primitive, operands: tuple[Any, ...]) -> bool:
    return not (primitive.stores or primitive.higher_order) and any(map(_is_stored, operands))


def _is_stored(x: Any) -> bool:
    """Whether these are numbers in a dtype that nobody computes in."""
    return hasattr(x, "dtype") and is_bfloat16(x.dtype)


def _in_float32(primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to bfloat16 numbers: to the same float32 numbers, and round what comes."""
    cast, single = registry["cast"], np.dtype(np.float32)
    narrow = next(x.dtype for x in operands if _is_stored(x))
    wide = tuple(cast(x, dtype=single) if _is_stored(x) else x for x in operands)
    results = bind(primitive, wide, params)
    if not primitive.several:
        return cast(results, dtype=narrow) if results.dtype == single else results
    return tuple(cast(x, dtype=narrow) if x.dtype == single else x for x in results)
