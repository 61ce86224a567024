"""Primitives: a record for each operation, with a slot for each rule and property.

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
    operands, by number, without a derivative, although others have one; with the reason for each.
``linear``
    groups of operands in which the result is jointly linear: ``LINEAR``, ``BILINEAR``, ...
    It provides the jvp.
``scalar(*scalars, **params)``
    the compiled form of an elementwise primitive, as arithmetic on `functrans.loop.scalar.Scalar`.
``pull(read, index, *avals, **params)``
    the compiled form of a primitive that moves or reduces: the element of the result at ``index``
    (a tuple of integer Scalars), made of elements ``read(operand_number, index)`` of the operands.
``emit``
    the compiled form of a primitive from memory to memory: an
    `functrans.ops.compiled.emission.Emit`, whose rule gives statements of the loop language. A
    primitive may use it for large operands, and ``pull`` for small ones.
``emit_on_grid``
    the same for a grid of threads, if it differs; None if there is no such form on a grid.
``regroups(shape)``
    for a primitive whose result has the elements of its operand in their order, in another shape:
    the parameters that give this shape.
``at_position(old, new)``
    for a primitive that changes its first operand at positions (given by the other operands, along
    the ``axes``), by combining each element with one of the second operand: the new element, as a
    `Scalar`. A loop writes such results into its carry in place.
``parts(*operands, **params)``
    the result with complex numbers as pairs of real ones, in which compiled programs compute
    (`functrans.ops.compiled.pairs`). Not needed for a primitive that is linear or bilinear in its
    complex operands, which is applied to the parts. Without a rule, compiled programs call NumPy.
    With inner graphs, ``parts(operands, transform=..., **params)`` gives flat results;
    ``transform`` rewrites an inner graph to pairs.
``host(eqn, operands, compile)``
    for a primitive with inner graphs: the results, as a sequence, of an equation that has no
    compiled form as a whole; None to call NumPy. ``compile`` is a `Compile`.
``split(unknown, transform, **params)``
    for a primitive with inner graphs: the `EqnSplit` for given unknown operands.
``trim(eqn, wanted)``
    for a primitive with inner graphs: the `Eqn` with only the ``wanted`` results (a bool for each),
    and only the operands that these need.
``sparsity(*operands, **params)``
    for a linear primitive that is neither ``elementwise`` nor has ``pull``: the sparsity pattern of
    the result, computed from those of its operands (`functrans.ops.dependence`); one for each
    result if there are several. With inner graphs, the keyword ``inner`` gives the patterns of an
    inner graph's results. By default, every element depends on all elements of the operands.
``transpose_moves``
    whether the transpose only moves or repeats elements, so that a mask can be moved along.
``transpose_adds``
    whether the transpose sums elements without weights, so that a mask can be moved along by
    counting the unmasked elements.
``steep``
    whether the derivative of an elementwise primitive may be infinite where its tangent is 0.
``always_strong``
    whether the result of an elementwise primitive is strong even if all its operands are weak,
    because it is a conversion.
``makes_numbers``
    whether the result is weak if the operand is 0-d, like that of ``x.item()``.
``collective``
    the kind of the result of a primitive along the named axis ``name``: ``"invariant"``, equal in
    all lanes, or ``"varying"``. None: it varies if an operand does.
``quotient``
    the operand that is a divisor: the result ``y`` solves ``B y = a`` with a ``B`` that is linear
    in this operand, and its jvp rule uses the result instead of ``a``. This gives a recurrence for
    the Taylor coefficients of the result.
``stores``
    whether it takes and returns storage-only dtypes (bfloat16), since it only moves or converts
    elements, or has inner graphs. All other primitives are computed in float32, and their results
    rounded.
``promotion(keys)``
    the dtypes to which the operands of an elementwise primitive are cast before it is recorded,
    unless it has another preparation.
``exact``
    whether parameters may be any numbers, which keys then compare by their types and bits. Always
    set for a primitive that a user has defined.
``samples(rng)``
    draws operands and parameters for the tests that are generated from the registry.

Rules are written in the IR's own operations: they receive tracers, which record the operations.
The rules of a primitive with inner graphs (``higher_order``) receive the transform to apply to
these as the keyword argument ``transform``, so that the definition imports none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from sys import _getframe, modules
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from functrans.caches import Exact
from functrans.ir.on_device import appliers, is_any_on_device
from functrans.ir.types import Aval, Shape, interned, is_bfloat16
from functrans.lazily import Catalogue
from functrans.locks import lock
from functrans.records import NamedTuple

if TYPE_CHECKING:
    from functrans.ir.graph import Eqn, Graph

LINEAR: tuple[tuple[int, ...], ...] = ((0,),)
"""Linear in the first operand, whatever the others are."""

BILINEAR: tuple[tuple[int, ...], ...] = ((0,), (1,))
"""Linear in the first operand, and linear in the second."""

ALL_LINEAR: tuple[tuple[int, ...], ...] = ((-1,),)
"""Jointly linear in all operands, however many there are."""


class EqnSplit(NamedTuple):
    """The partial evaluation of an equation with inner graphs, into a known and an unknown part.

    Parameters
    ----------
    known : Graph
        Maps the known operands to the known results, followed by the residuals. A residual may be
        an operand itself, which is then not copied.
    unknown : Graph
        Maps the residuals, followed by the unknown operands, to the unknown results.
    unknown_out : tuple of bool
        Which results the unknown part computes.
    """

    known: Graph
    unknown: Graph
    unknown_out: tuple[bool, ...]


class Sample(NamedTuple):
    """Operands and parameters for generated tests of a primitive."""

    operands: tuple[Any, ...]
    params: dict[str, Any] = {}  # noqa: RUF012  a NamedTuple default, never written to


# a string: naming the class would import NumPy's random module, a tenth of NumPy's import time
Samples = Callable[["np.random.Generator"], Iterator[Sample]]


class Compile(Protocol):
    """A function that compiles a graph, once."""

    def __call__(
        self, graph: Graph, *, whole: bool = False, in_part: tuple[int, ...] = ()
    ) -> Callable[..., Sequence[Any]] | None:
        """The compiled graph, as a function of arrays.

        With ``whole``, None if an equation has no compiled form. Of the outputs ``in_part`` only
        the first rows need be written, since the others are never read.
        """
        ...


def not_differentiable(reason: str) -> NotDifferentiable:
    """Declare, in place of a jvp rule, that a primitive has no derivative, with the reason."""
    return NotDifferentiable(reason)


class NotDifferentiable(NamedTuple):
    """The reason why a primitive has no derivative; differentiating through it raises."""

    reason: str


class Piecewise(NamedTuple):
    """The derivative is zero wherever it exists (rounding, comparisons, integers)."""


ZERO_DERIVATIVE = Piecewise()


class Same:
    """The value of a slot for a grid that means: use the form for a CPU."""


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """An operation of the IR; the module's docstring describes the slots."""

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
    exact: bool = False
    prepare: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    promotion: Callable[[tuple[Any, ...]], tuple[np.dtype[Any], ...]] | None = None
    home: str = field(init=False)
    """The module that defines it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", _module_being_run())
        if not self.home.startswith("functrans."):
            object.__setattr__(self, "exact", True)
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

    def keyed(self, params: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The items of parameters as a key; `dict` restores the parameters."""
        items = tuple(params.items())
        return Exact(items) if self.exact else items

    @property
    def by_elements(self) -> bool:
        """Whether its compiled form computes single elements (``scalar`` or ``pull``)."""
        return self.scalar is not None or self.pull is not None

    def linear_groups(self, arity: int) -> tuple[tuple[int, ...], ...]:
        """The groups of operands that the result is jointly linear in."""
        return (tuple(range(arity)),) if self.linear == ALL_LINEAR else self.linear

    def infer_all(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """The avals of the results, always as a tuple."""
        result = self.infer(*avals, **params)
        return tuple(result) if self.several else (result,)

    def gives_weak(self, avals: Sequence[Aval]) -> bool:
        """Whether the result is weak, normally because all operands are."""
        if self.makes_numbers and avals[0].ndim == 0:
            return True
        if not self.elementwise or self.always_strong or not avals or not avals[0].weak:
            return False
        return all(aval.weak for aval in avals)

    def results(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """As `infer_all`, with weak results where `gives_weak` holds."""
        results = self.infer_all(avals, params)
        if self.gives_weak(avals):
            return tuple(interned(aval.shape, aval.dtype, True) for aval in results)
        return results


registry: Catalogue[str, Primitive] = Catalogue()
"""Every primitive by name. The library's own modules are imported on lookup."""

_registry_lock = lock()


def _module_being_run() -> str:
    """The module that is being imported, which contains the definition."""
    frame: FrameType | None = _getframe(2)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def register(primitive: Primitive) -> None:
    """Register a primitive; raises if the name exists already."""
    with _registry_lock:
        if registry.has(primitive.name):
            raise ValueError(
                f"there is a primitive {primitive.name!r} already: choose another name"
            )
        registry[primitive.name] = primitive


def named(name: str) -> Primitive:
    """The primitive of a name, by which primitives are pickled."""
    return registry[name]


def unregister(name: str) -> None:
    """Remove a primitive from the registry, so that a notebook cell can define it again."""
    with _registry_lock:
        registry.pop(name, None)


class Interpreter(Protocol):
    """The interpretation of primitives: a trace, which records equations."""

    def bind(self, primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply the primitive."""
        ...


current: ContextVar[Interpreter | None] = ContextVar("current", default=None)
"""The innermost active trace in this context; None outside of all transforms."""


def bind(primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to operands of the exact types that it takes."""
    # without the device package there are no device arrays
    if "ml_dtypes" in modules and _computes_on_stored(primitive, operands):
        return _in_float32(primitive, operands, params)
    interpreter = current.get()
    if interpreter is None:
        return compute(primitive, operands, params)
    return interpreter.bind(primitive, operands, params)


def compute(primitive: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Evaluate a primitive on arrays: by NumPy, or on their device."""
    if appliers and is_any_on_device(operands):
        return appliers[-1](primitive, operands, params)
    return primitive.numpy(*operands, **params)


def _computes_on_stored(primitive: Primitive, operands: tuple[Any, ...]) -> bool:
    return not (primitive.stores or primitive.higher_order) and any(map(_is_stored, operands))


def _is_stored(x: Any) -> bool:
    """Whether a value has a storage-only dtype (bfloat16)."""
    return hasattr(x, "dtype") and is_bfloat16(x.dtype)


def _in_float32(primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to bfloat16 numbers by computing in float32 and rounding the result."""
    cast, single = registry["cast"], np.dtype(np.float32)
    narrow = next(x.dtype for x in operands if _is_stored(x))
    wide = tuple(cast(x, dtype=single) if _is_stored(x) else x for x in operands)
    results = bind(primitive, wide, params)
    if not primitive.several:
        return cast(results, dtype=narrow) if results.dtype == single else results
    return tuple(cast(x, dtype=narrow) if x.dtype == single else x for x in results)
