"""Arguments and results of `emit` rules, on a primitive defined for the test."""

import numpy as np
import pytest

from functrans import config
from functrans.errors import PlanError
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ir.primitive import unregister
from functrans.ir.types import Aval
from functrans.loop.nodes import index
from functrans.loop.statements import Store, load
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.ops.compiled.emission import Element, Emit, always, emitted
from functrans.ops.compiled.places import whole
from functrans.ops.compiled.statements import nest
from functrans.ops.define import primitive
from functrans.ops.elementwise.arithmetic import add, multiply
from tests.loop.plans import evaluate_plan

F8 = np.dtype(float)


@pytest.fixture
def define():
    """Defines a primitive of two arrays, which is forgotten after the test."""

    def made(rule, meaning, **options):
        return primitive(
            "emitted_for_a_test",
            infer=lambda x, y: x.update(),
            numpy=meaning,
            emit=Emit(rule, **options),
        )

    yield made
    unregister("emitted_for_a_test")


def results(op, *operands):
    """What a program gives in which the primitive's operand is made, and its result is used."""
    x, y = (Var(Aval(v.shape, v.dtype)) for v in operands)
    made, out, last = (Var(x.aval) for _ in range(3))
    graph = Graph(
        [x, y],
        [Eqn(multiply, [x, x], [made], {}), Eqn(op, [made, y], [out], {}),
         Eqn(add, [out, x], [last], {})],
        [out, last],
    )  # fmt: skip
    found, _ = evaluate_plan(pipeline.plan(graph, CPU), operands)
    wanted = op.numpy(operands[0] ** 2, operands[1])
    np.testing.assert_allclose(found[0], wanted)
    np.testing.assert_allclose(found[1], wanted + operands[0])


X, Y = np.arange(12.0).reshape(3, 4), np.linspace(-1, 1, 12).reshape(3, 4)


def test_a_call_from_memory_to_memory(define):
    def rule(at):
        x, out = at.operand(0), at.result()
        loops = tuple(index("i", n) for n in (3, 4))
        value = load(x, loops) - at.element(1, loops)
        at.call(nest(loops, (Store(out, loops, value),)))

    results(define(rule, np.subtract), X, Y)


def test_a_copy_that_is_changed(define):
    def rule(at):
        out = at.copied(0)
        loops = tuple(index("i", n) for n in (3, 4))
        at.call(nest(loops, (Store(out, loops, at.element(1, loops), "max"),)))

    results(define(rule, np.maximum), X, Y)


def test_elements_in_loops_that_fuse(define):
    def rule(at):
        loops = at.loops((3, 4))
        value = at.element(0, loops) * at.element(1, loops)
        at.compute(at.result(), loops, (0, 1), [Element(loops, value)])

    results(define(rule, np.multiply), X, Y)


@pytest.mark.parametrize("adds", [False, True])
def test_parts_that_are_put_together(define, adds):
    def rule(at):
        everything = tuple(map(whole, (3, 4)))
        at.assemble([(everything, 0), (everything, 1)], adds=adds)

    meaning = np.add if adds else lambda x, y: y
    results(define(rule, meaning, by_elements=always), X, Y)


def test_what_is_shared_is_made_once(define):
    made = []

    def rule(at):
        def room():
            made.append(at.scratch("twice", F8, (3, 4)))
            loops = tuple(index("i", n) for n in (3, 4))
            at.call(
                nest(loops, (Store(made[0], loops, at.element(1, loops) * 2.0),)),
                writes=made,
            )  # fmt: skip
            return made[0]

        rooms = at.shared("twice", room), at.shared("twice", room)
        assert rooms[0] is rooms[1]
        loops = at.loops((3, 4))
        value = at.element(0, loops) + load(rooms[0], loops)
        at.compute(at.result(), loops, (0, 1), [Element(loops, value)])

    results(define(rule, lambda x, y: x + 2 * y), X, Y)
    assert len(made) == 1


def test_a_rule_that_does_not_apply_is_not_asked(define):
    op = define(None, np.add, applies=lambda eqn, target: eqn.inputs[0].aval.size > 100)
    x, out = Var(Aval((3,), F8)), Var(Aval((3,), F8))
    assert emitted(Eqn(op, [x, x], [out], {}), CPU) is None


def test_a_rule_that_reads_what_nobody_makes_is_found(define, monkeypatch):
    monkeypatch.setattr(config, "check_plans", True)

    def rule(at):
        nowhere, out = at.scratch("nowhere", F8, (3, 4)), at.result()
        loops = tuple(index("i", n) for n in (3, 4))
        at.call(nest(loops, (Store(out, loops, load(nowhere, loops)),)))

    with pytest.raises(PlanError, match=r"reads t\d+_nowhere before it is made"):
        results(define(rule, np.add), X, Y)
