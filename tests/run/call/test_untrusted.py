"""Altered parameters in program files are refused or harmless, for every primitive."""

import numpy as np
import pytest

from functrans.errors import FunctransError, PlanError, ShapeError
from functrans.ir.check import check_graph
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ir.primitive import registry
from functrans.ir.types import Aval
from functrans.ops.ranges import RANGES
from functrans.run.call.untrusted import check_untrusted

REFUSED = (FunctransError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
PARAMETRISED = sorted(
    name
    for name, op in registry.items()
    if op.samples is not None
    and not op.elementwise
    and op.infer.__module__.startswith("functrans.")
)


def altered(value):
    """Values that are like one, and might be taken for one."""
    if isinstance(value, bool):
        yield from (not value, 7)
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -1 - value, 2**40, 2**62, True, float(value))
    elif isinstance(value, tuple):
        make = value._make if hasattr(value, "_make") else tuple
        for n, entry in enumerate(value):
            yield from (make([*value[:n], x, *value[n + 1 :]]) for x in altered(entry))
        if type(value) is tuple:
            yield from (value[:-1], value + value[-1:], value[::-1])
    elif isinstance(value, str):
        yield from ("", value.upper())


def graph_of(op, operands, params):
    inputs = [Var(Aval(x.shape, x.dtype)) for x in map(np.asarray, operands)]
    outputs = [Var(aval) for aval in op.results([x.aval for x in inputs], params)]
    graph = Graph(inputs, [Eqn(op, inputs, outputs, params)], outputs)
    check_graph(graph)
    return graph


@pytest.mark.few(3)
@pytest.mark.parametrize("name", PARAMETRISED)
def test_what_is_in_range_keeps_to_its_memory(name):
    op = registry[name]
    for operands, params in op.samples(np.random.default_rng(0)):
        check_untrusted(graph_of(op, operands, params))
        for key, value in params.items():
            for other in altered(value):
                try:
                    check_untrusted(graph_of(op, operands, {**params, key: other}))
                except PlanError as error:
                    raise AssertionError(f"{key}={other!r} is not refused before") from error
                except REFUSED:
                    pass


@pytest.mark.parametrize("name", PARAMETRISED)
def test_ranges_are_known(name):
    for _, params in registry[name].samples(np.random.default_rng(0)):
        numbers = {k for k, v in params.items() if isinstance(v, (int, tuple))}
        assert numbers <= {*RANGES, "elements", "results", "lanes", "value"}


def test_sizes_are_numbers():
    x = Var(Aval((-1,), np.float64))
    with pytest.raises(ShapeError, match="there are no arrays of type"):
        check_untrusted(Graph([x], [], [x]))
