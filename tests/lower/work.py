"""The ratio of a plan's operations to those of its graph, which measures recomputation."""

from functrans import jit
from functrans.lower import pipeline
from functrans.lower.report import step_operations
from functrans.lower.select.partition import partition
from functrans.lower.select.recomputation import graph_work
from tests.targets import target

BOUND = 3
"""So many times the operations of a graph are done at most: what a plan is held to."""

SMALL = 256
"""Operations besides that are not worth a word."""

TARGET = target(vector_bytes=32)


def asked_and_done(graph):
    """The operations of a graph, each element computed once, and those of the plan for it."""
    asked = done = 0
    for segment in partition(graph, TARGET):
        if segment.call is None:
            plan = pipeline.plan(segment.graph, TARGET)
            asked += graph_work(segment.graph, TARGET)
            done += sum(map(step_operations, plan.steps))
    return asked, done


def check_graph(graph):
    """Check that the plan for a graph keeps to the bound."""
    asked, done = asked_and_done(graph)
    assert done <= BOUND * asked + SMALL, f"{done} operations in the place of {asked}"


def check(function, *args):
    """Check that the plan for a function keeps to the bound."""
    check_graph(jit(function).lower(*args).graph())
