"""Recording: a trace collects the equations of a function while the function runs.

A `Tracer` represents one value of the trace. If the values of a trace's inputs are known, each
equation is evaluated when it is recorded, so that Python may branch on the result; equations with
inner graphs (a compiled call, a loop) are evaluated when a result is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from functrans.caches import cached
from functrans.ir.evaluate import place_of
from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.on_device import OnDevice
from functrans.ir.primitive import Piecewise, Primitive, bind, compute, current
from functrans.ir.types import Aval, aval_of, interned, is_inexact, may_change
from functrans.records import NamedTuple
from functrans.subclasses import PLAIN
from functrans.trace.absent import PENDING, UNKNOWN
from functrans.trace.foreign import check_plain
from functrans.trace.source import Source, here, user_source
from functrans.trace.tracer import Tracer

_ndarray = np.ndarray


class Decision(NamedTuple):
    """A branch of Python on a value, and its outcome in the current call."""

    tracer: Tracer
    outcome: bool
    source: Source | None


class Effects(Protocol):
    """The order of a trace's side effects (`functrans.ops.calls.effect`)."""

    def before(self, values: Sequence[Any]) -> Sequence[Any]:
        """The same values, which depend on all effects so far."""
        ...


class Trace:
    """The equations recorded while a function runs."""

    def __init__(
        self,
        # the transform that traces (``"grad"``, ``"vmap"``, ``"jit"``...), for error messages
        kind: str,
        *,
        # The values in the enclosing trace that the inputs represent; the inputs have values if
        # these do. `UNKNOWN` for an input that represents many (a mapped argument of `vmap`)
        operands: Sequence[Any] | None = None,
        # If given, the inputs have values that are valid for one call only: Python may branch on
        # values computed from them, and each such decision is recorded. The first decisions have
        # these outcomes.
        outcomes: tuple[bool, ...] | None = None,
        # Whether the inputs have values. Float constants are then inputs of the graph instead of
        # literals, because they may differ in the next call, and graphs are cached by structure.
        concrete: bool = False,
        # Whether the library's rules run, not a user's function. Equal equations are then recorded
        # once, and get the source line of the equation that is being rewritten.
        rewriting: bool = False,
    ) -> None:
        self.kind = kind
        self.operands = operands
        self.outcomes = outcomes
        self.decisions: list[Decision] = []
        self.concrete = concrete
        self.rewriting = rewriting
        self.parent = current.get()
        self.alive = True
        self.inputs: list[Var] = []
        self.eqns: list[Eqn] = []
        self.captures: list[tuple[Var, Any]] = []
        self.values: dict[Var, Any] = {}
        self.source: Source | None = None
        self.refusal: Exception | None = None
        """The last error of a conversion to an integer, which NumPy may replace by its own."""
        self.asked: Tracer | None = None
        self.refused_at: Source | None = None
        """The last value whose conversion was refused, here or in an inner trace, and where."""
        self.effects: Effects | None = None
        """The recorded side effects, if there are any."""
        self._captured: dict[Any, tuple[Any, Tracer]] = {}
        self._pending: dict[Var, Eqn] = {}
        self._recorded: dict[Any, tuple[Tracer, ...]] = {}
        self._outside: dict[Var, Any] = {}
        self._makers: dict[Var, Eqn] = {}
        self._listed = 0
        self._constants: set[Var] = set()
        self._looked_at = 0

    @property
    def cause(self) -> str:
        """The transform that causes the lack of values: this one, or an enclosing one."""
        follows = self.operands is not None and all(x is not UNKNOWN for x in self.operands)
        if follows and isinstance(self.parent, Trace):
            return self.parent.cause
        return self.kind

    def close(self) -> None:
        """End the recording, and break reference cycles."""
        self.alive = False
        # tracers refer to their trace: dropping the references to them leaves no cycle
        self._captured.clear()
        self._recorded.clear()
        if self.outcomes is not None:
            # the values were those of one call, and recorded rules keep the trace alive
            self.values.clear()

    def refused(self, value: Tracer) -> None:
        """Record a value whose conversion to a plain one was refused."""
        self.refused_at = user_source()
        trace: Any = self
        while isinstance(trace, Trace):
            trace.asked = value
            trace = trace.parent

    # -- values coming in ----------------------------------------------------------------------

    def input(
        self, aval: Aval, value: Any = UNKNOWN, argument: Callable[[], str] | None = None
    ) -> Tracer:
        """Add an input; ``argument`` returns its name if it is an argument of the user's."""
        var = Var(aval)
        self.inputs.append(var)
        return self._tracer(var, value, argument)

    def tracer_of(self, var: Var) -> Tracer:
        """A tracer for a variable of this trace."""
        absent = PENDING if var in self._pending else UNKNOWN
        return Tracer(self, var, self.values.get(var, absent))

    def lift(self, x: Any) -> Tracer | Literal:
        """The representation of any value in this trace: a tracer, or a literal for a scalar."""
        if isinstance(x, Tracer):
            if x._as_view is not None:
                x._refresh()
            return x if x._owner is self else self._capture_outer(x)
        aval = aval_of(x)
        if isinstance(x, OnDevice):
            return self._capture_on_device(x, aval)
        if type(x) not in PLAIN:
            check_plain(x)
        if aval.shape == () and not (self.concrete and is_inexact(aval.dtype)):
            return Literal(aval.dtype.type(x), aval)
        return self._capture_constant(x, aval)

    def atom(self, x: Any) -> Atom:
        """The representation of any value in this trace's graph."""
        lifted = self.lift(x)
        return lifted._variable if isinstance(lifted, Tracer) else lifted

    def _capture_outer(self, outer: Tracer) -> Tracer:
        outer._check_usable()
        known = self._captured.get(outer._variable)
        if known is None:
            # the outer tracer may be assigned to later: capture its present value
            frozen = Tracer(outer._owner, outer._variable, outer._value)
            known = (frozen, self.capture(frozen, outer._variable.aval, outer._known_value))
            self._captured[outer._variable] = known
        return known[1]

    def _capture_constant(self, x: Any, aval: Aval) -> Tracer:
        if aval.shape == ():
            x = aval.dtype.type(x) if isinstance(x, np.ndarray) else x  # may be assigned to later
            return self.capture(x, aval, x)
        known = self._captured.get(id(x))
        # arguments are read-only views, of a class of this library
        changes = x.flags.writeable or (type(x) is _ndarray and may_change(x))
        if known is not None and (not changes or np.array_equal(known[1]._value, x)):
            return known[1]
        # the user may write to the array later: capture a copy of its present contents
        frozen = x if type(x) is _ndarray else np.asarray(x)
        if changes or not x.dtype.isnative:
            frozen = np.array(x, aval.dtype, order="K")
        known = (x, self.capture(frozen, aval, frozen))
        self._captured[id(x)] = known
        return known[1]

    def _capture_on_device(self, x: OnDevice, aval: Aval) -> Tracer:
        known = self._captured.get(id(x))
        if known is None:
            # immutable; reading its numbers would wait for the device
            known = self._captured[id(x)] = (x, self.capture(x, aval, x))
        return known[1]

    def capture(self, outer: Any, aval: Aval, value: Any) -> Tracer:
        assert not self.rewriting, (
            "a rule holds a constant array: build it by the IR's iota or full"
        )
        var = Var(aval)
        self.captures.append((var, outer))
        return self._tracer(var, value, lambda: "a value of an enclosing function")

    def _tracer(self, var: Var, value: Any, argument: Callable[[], str] | None = None) -> Tracer:
        if value is not UNKNOWN:
            self.values[var] = value
        tracer = Tracer(self, var, value)
        tracer._argument = argument
        return tracer

    def constants(self) -> set[Var]:
        """The variables whose derivative with respect to all inputs is zero."""
        constants = self._constants
        arrays = (var for var, x in self.captures if not isinstance(x, Tracer))
        constants.update(arrays)
        while self._looked_at < len(self.eqns):
            eqn = self.eqns[self._looked_at]
            if isinstance(eqn.primitive.jvp, Piecewise) or all(
                isinstance(x, Literal) or x in constants for x in eqn.inputs
            ):
                constants.update(eqn.outputs)
            self._looked_at += 1
        return constants

    # -- recording -----------------------------------------------------------------------------

    def bind(self, primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record a primitive, or compute it at once if no operand is a tracer."""
        # on the path of every traced operation, so written without extra calls
        for x in operands:
            if isinstance(x, Tracer):
                break
        else:
            if not self.rewriting:
                return compute(primitive, operands, params)
        if self.effects is not None and primitive.higher_order:
            operands = tuple(self.effects.before(operands))
        outs = self.record(primitive, operands, params)
        return outs if primitive.several else outs[0]

    def record(
        self, primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Tracer, ...]:
        """Record a primitive, whether or not an operand is traced.

        In a concrete trace, the value of a simple operation is computed now.
        """
        atoms: list[Atom] = []
        values: list[Any] = []
        unknown, pending = self.rewriting, False
        for x in operands:
            # a value of this trace's own is what it lifts to, unless it is a view
            if type(x) is not Tracer or x._owner is not self or x._as_view is not None:
                x = self.lift(x)
            if type(x) is Literal:
                atoms.append(x)
                values.append(x.value)
                continue
            value = x._value
            unknown |= value is UNKNOWN
            pending |= value is PENDING
            atoms.append(x._variable)
            values.append(value)
        if unknown:
            return self._record(primitive, atoms, params)
        if primitive.higher_order or not self.concrete:
            return self._record_pending(primitive, atoms, params)
        if pending:
            values = [self.value_of(atom) for atom in atoms]
        return self._record_computed(primitive, atoms, values, params)

    def create(self, primitive: Primitive, params: dict[str, Any]) -> Tracer:
        """Record a primitive without operands, to whose result the traced function may assign.

        `bind` would compute it at once. Its value is known even if those of the inputs are not, and
        is computed on demand.
        """
        record = self._record if self.rewriting else self._record_pending
        (out,) = record(primitive, (), params)
        return out

    def _record(
        self, primitive: Primitive, atoms: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Tracer, ...]:
        if not self.rewriting:
            return self._append(primitive, atoms, params, self.source or user_source())
        key = (
            primitive,
            tuple(atom if isinstance(atom, Var) else atom.key for atom in atoms),
            primitive.keyed(params),
        )
        if key not in self._recorded:
            self._recorded[key] = self._append(primitive, atoms, params, self.source)
        return self._recorded[key]

    def _append(
        self,
        primitive: Primitive,
        atoms: Sequence[Atom],
        params: dict[str, Any],
        source: Source | None,
    ) -> tuple[Tracer, ...]:
        avals = infer(primitive, tuple([atom.aval for atom in atoms]), params)
        outputs = [Var(aval) for aval in avals]
        eqn = Eqn(primitive, atoms, outputs, params, source)
        self.eqns.append(eqn)
        if self.outcomes is not None:
            self._pending.update(dict.fromkeys(outputs, eqn))
        return tuple([Tracer(self, var, UNKNOWN) for var in outputs])

    def _record_pending(
        self, primitive: Primitive, atoms: Sequence[Atom], params: dict[str, Any]
    ) -> tuple[Tracer, ...]:
        outs = self._append(primitive, atoms, params, self.source or user_source())
        for out in outs:
            out._value = PENDING
            self._pending[out._variable] = self.eqns[-1]
        return outs

    def _record_computed(
        self,
        primitive: Primitive,
        atoms: Sequence[Atom],
        values: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[Tracer, ...]:
        avals = [atom.aval for atom in atoms]
        try:
            results = compute(primitive, values, params)
        except Exception as error:
            infer(primitive, tuple(avals), params)
            if self.source is not None:
                error.add_note(place_of(Eqn(primitive, atoms, (), params, self.source)))
            raise
        weak = primitive.gives_weak(avals)
        outputs, outs = [], []
        for value in results if primitive.several else (results,):
            if type(value) in _PYTHONS:  # computed from Python numbers
                value = np.asarray(value)[()]
            var = Var(interned(value.shape, value.dtype, weak))
            self.values[var] = value
            outputs.append(var)
            outs.append(Tracer(self, var, value))
        self.eqns.append(Eqn(primitive, atoms, outputs, params, self.source or user_source()))
        return tuple(outs)

    def record_again(
        self, eqn: Eqn, operands: Sequence[Any], values: Sequence[Any]
    ) -> tuple[Tracer, ...]:
        """Record an equation of another trace, whose results have been computed there."""
        outs = [
            self._tracer(Var(var.aval), value)
            for var, value in zip(eqn.outputs, values, strict=True)
        ]
        atoms = [self.atom(x) for x in operands]
        self.eqns.append(
            Eqn(eqn.primitive, atoms, [o._variable for o in outs], eqn.params, eqn.source)
        )
        return tuple(outs)

    def value_of(self, atom: Atom) -> Any:
        """The value of a variable, computed now if it was deferred; `UNKNOWN` if it has none."""
        if isinstance(atom, Literal):
            return atom.value
        waiting = [atom] if atom in self._pending else []
        while waiting:
            eqn = self._pending.get(waiting[-1])
            if eqn is None:
                waiting.pop()
                continue
            before = [x for x in eqn.inputs if isinstance(x, Var) and x in self._pending]
            if before:
                waiting += before
                continue
            self._compute(eqn)
        return self.values.get(atom, UNKNOWN)

    def _compute(self, eqn: Eqn) -> None:
        values = [x.value if isinstance(x, Literal) else self.values[x] for x in eqn.inputs]
        results = compute(eqn.primitive, values, eqn.params)
        for var, value in zip(
            eqn.outputs, results if eqn.primitive.several else (results,), strict=True
        ):
            self.values[var] = value
            del self._pending[var]

    # -- how a value came about ----------------------------------------------------------------

    def maker(self, var: Var) -> Eqn | None:
        """The equation that computes a variable."""
        for eqn in self.eqns[self._listed :]:
            self._makers.update(dict.fromkeys(eqn.outputs, eqn))
        self._listed = len(self.eqns)
        return self._makers.get(var)

    def comes_from_an_array(self, var: Var) -> bool:
        """Whether a variable was computed from an array with axes, in this trace."""
        found, reached = [var], {var}
        for x in found:
            eqn = self.maker(x)
            sources = {y for y in eqn.inputs if isinstance(y, Var)} - reached if eqn else set()
            reached |= sources
            found += sources
        return any(x.aval.shape for x in found)

    def outside_of(self, var: Var) -> Any:
        """The value of an enclosing trace, or the constant, that a variable represents; or None."""
        return next((outer for own, outer in self.captures if own is var), None)

    # -- decisions by the values of the current call -------------------------------------------

    def decide(self, tracer: Tracer) -> Any:
        """The outcome of a Python branch on an unknown value, which is recorded as a decision.

        `UNKNOWN` if there is no value for the current call: then the branch is an error.
        """
        if self.outcomes is not None:
            number = len(self.decisions)
            if number < len(self.outcomes):
                outcome = self.outcomes[number]
            else:
                outcome = bool(self.value_of(tracer._variable))
            asked = Tracer(self, tracer._variable, UNKNOWN)
            self.decisions.append(Decision(asked, outcome, user_source()))
            return outcome
        if not isinstance(self.parent, Trace):
            return UNKNOWN
        outside = self._in_enclosing_trace(tracer._variable)
        value = outside
        if isinstance(outside, Tracer):
            value = outside._known_value
            value = outside._owner.decide(outside) if value is UNKNOWN else value
        if value is not UNKNOWN:
            self.decisions.append(Decision(tracer, bool(value), user_source()))
        return value

    def _in_enclosing_trace(self, var: Var) -> Any:
        """The value of a variable in the enclosing trace, in which its equations are recorded too.

        `UNKNOWN` if it depends on an input without a counterpart there.
        """
        outside = self._outside
        for own, operand in zip(self.inputs, self.operands or (), strict=False):
            if operand is not UNKNOWN:
                outside[own] = operand
        outside.update(self.captures)
        makers = {out: eqn for eqn in self.eqns for out in eqn.outputs}
        recording = current.get()
        try:
            current.set(self.parent)
            waiting = [var]
            while waiting:
                if waiting[-1] in outside:
                    waiting.pop()
                    continue
                if waiting[-1] not in makers:
                    return UNKNOWN
                eqn = makers[waiting[-1]]
                before = [x for x in eqn.inputs if isinstance(x, Var) and x not in outside]
                if before:
                    waiting += before
                    continue
                operands = [x.value if isinstance(x, Literal) else outside[x] for x in eqn.inputs]
                outs = bind(eqn.primitive, tuple(operands), dict(eqn.params))
                outside.update(
                    zip(eqn.outputs, outs if eqn.primitive.several else (outs,), strict=True)
                )
        finally:
            current.set(recording)
        return outside[var]

    # -- what was recorded ---------------------------------------------------------------------

    def graph(self, outputs: Sequence[Any]) -> Graph:
        """The graph with the given outputs; captured values are its last inputs."""
        if self.effects is not None:
            outputs = self.effects.before(outputs)
        atoms = [self.atom(x) for x in outputs]
        return Graph([*self.inputs, *(var for var, _ in self.captures)], self.eqns, atoms)


_PYTHONS = frozenset((bool, int, float, complex))


def infer(
    primitive: Primitive, avals: tuple[Aval, ...], params: dict[str, Any]
) -> tuple[Aval, ...]:
    """The avals of a primitive's results; errors name the user's line."""
    try:
        return _infer(primitive, avals, primitive.keyed(params))
    except (ValueError, TypeError, IndexError) as error:
        place = here()
        if place and place not in str(error):
            error.args = (f"{error}\n  in {primitive.name}{place}",)
        raise


@cached(16384)
def _infer(
    primitive: Primitive, avals: tuple[Aval, ...], params: tuple[tuple[str, Any], ...]
) -> tuple[Aval, ...]:
    return primitive.results(avals, dict(params))
