"""Serialisation of graphs: every primitive, with the parameters of its samples."""

import json

import numpy as np
import pytest

from functrans.ir.serial import UndefinedOperation, graph_from_data, graph_to_data
from functrans.ops.calls.constant import Constant
from tests.primitives.harness import by_primitive, cases

CASES = list(cases(np.float64).values())
KNOWN = {
    name: case
    for name, case in cases(np.float64).items()
    if case.primitive.name not in ("constant", "effect", "external")
}


@pytest.mark.parametrize(**by_primitive(KNOWN))
def test_there_and_back(group):
    for name, case in group.items():
        graph = case.graph()
        assert graph_from_data(json.loads(json.dumps(graph_to_data(graph)))) == graph, name


def test_numbers_keep_their_bits():
    for value in (0.1, -0.0, np.nan, np.inf, 5e-324, np.float32(0.1), np.int8(-3), np.True_):
        case = next(c for c in CASES if c.primitive.name == "full")
        graph = case.graph()
        eqn = graph.eqns[-1]
        eqn.params["value"] = value
        again = graph_from_data(json.loads(json.dumps(graph_to_data(graph)))).eqns[-1]
        found = again.params["value"]
        assert type(found) is type(value)
        assert np.asarray(found).tobytes() == np.asarray(value).tobytes()


def test_other_kinds_are_refused_or_given_to_others():
    case = next(c for c in CASES if c.primitive.name == "constant")
    with pytest.raises(TypeError, match="no kind of data for"):
        graph_to_data(case.graph())
    data = graph_to_data(case.graph(), lambda value: {"mine": value.array.tolist()})
    with pytest.raises(ValueError, match="unknown kind of data"):
        graph_from_data(data)
    again = graph_from_data(data, lambda data: Constant(np.array(data["mine"])))
    assert again == case.graph()


def test_an_operation_that_is_not_defined():
    data = graph_to_data(next(iter(KNOWN.values())).graph())
    data["equations"][0]["operation"] = "nothing"
    with pytest.raises(UndefinedOperation, match="nothing"):
        graph_from_data(data)
