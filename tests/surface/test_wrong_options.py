"""Options that NumPy and SciPy refuse are refused on traced values, by errors about the call.

The calls of the tables are repeated with a wrong value of one option, or an option that there is
not.
"""

import ast
import inspect
import warnings

import numpy as np
import pytest

from functrans.tracebacks import is_fault
from tests.numpy.attempts import attempt
from tests.surface.calls import OPERANDS, _function, _on_tracers, tables
from tests.surface.page import namespaces

QUICK = [n for n in namespaces() if not getattr(n, "SLOW", False)]
WITHOUT_MEANING = {"lapack_driver", "driver", "order", "like", "device"}
"""Options about memory and algorithms, whose values are not looked at."""


def wrong_options(call, modules):
    """The calls with a wrong option, by the options."""
    tree = ast.parse(call, mode="eval")
    outermost = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    function = eval(ast.unparse(outermost.func), {"np": np, **OPERANDS, **modules})
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # compiled functions may have none
        parameters = ()
    wrong = {p.name: "'bogus'" for p in parameters if isinstance(p.default, str)}
    wrong |= {p.name: "99" for p in parameters if p.name in ("axis", "axes", "axis1")}
    given = len(outermost.args) + len(outermost.keywords)
    late = {p.name for p in list(parameters)[given:] if p.kind != p.POSITIONAL_ONLY}
    for name, value in {**{n: v for n, v in wrong.items() if n in late}, "tpyo": "1"}.items():
        outermost.keywords.append(ast.keyword(name, ast.parse(value, mode="eval").body))
        yield name, ast.unparse(tree)
        outermost.keywords.pop()


def fault(namespace, option, call):
    """What is wrong with a call on traced values, where NumPy refuses it on arrays; or None."""
    if option in WITHOUT_MEANING:
        return None
    theirs, operands = _function(call, namespace.THEIRS)
    expected = attempt(theirs, *operands)
    if not isinstance(expected, Exception) or not operands:
        return None
    ours, _ = _function(call, namespace.OURS)
    found = attempt(_on_tracers, ours, operands, False)
    if not isinstance(found, Exception):
        return f"{call} gives {found}, and not {expected!r}"
    return f"{call}: {found!r} from inside" if is_fault(found) else None


@pytest.mark.parametrize("namespace", QUICK, ids=lambda n: n.NAME)
def test_options_that_are_refused(namespace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `np.save` and its kind write files, also with wrong options
    calls = {**tables(namespace)["CALLS"], **tables(namespace)["KNOWN"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        faults = [
            fault(namespace, option, wrong)
            for call in calls.values()
            for option, wrong in wrong_options(call, namespace.THEIRS)
        ]
    assert [found for found in faults if found] == []
