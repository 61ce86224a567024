"""Layers after `ops` refer to primitives as objects or by their slots, never by name.

An imported object can be found by readers, type checkers and searches, and cannot be confused with
a primitive of the same name that a user has defined.
"""

import ast
from pathlib import Path

import pytest

import functrans.ops
from functrans.emit.cuda.names import NAMES as CALLED
from functrans.ir.primitive import registry
from functrans.loop.nodes import FOLDS
from functrans.loop.scalar import OPERATIONS

ROOT = Path(__file__).parents[2]

FOLDERS = ("optimise", "lower", "emit", "run")

NAMES = set(registry) - {*OPERATIONS, *FOLDS, *CALLED}
"""Those of primitives; operators of the loop language, and what kernels call, are like some."""


def is_call_of(node, *names):
    return isinstance(node, ast.Call) and getattr(node.func, "attr", None) in names


def is_called(node, name):
    """Whether an expression is a variable, or an attribute, of a name."""
    return name in (getattr(node, "id", None), getattr(node, "attr", None))


def is_message(node):
    return isinstance(node, ast.JoinedStr)


def is_key_of(node, name):
    """Whether something is looked up under a key in what is called by a name."""
    if isinstance(node, ast.Subscript):
        return is_called(node.value, name)
    return is_call_of(node, "get", "pop") and is_called(node.func.value, name)


def offences(source):
    """Where a primitive is known by its name, in words."""
    found = []

    def visit(node):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if is_message(node):
            return
        if is_key_of(node, "registry"):
            found.append(f"line {node.lineno}: a primitive is looked up in the registry")
        if is_called(node, "name") and is_called(getattr(node, "value", None), "primitive"):
            if isinstance(node.value, ast.Attribute):
                found.append(f"line {node.lineno}: a primitive's name is not for a message only")
        if isinstance(node, ast.Constant) and node.value in NAMES:
            found.append(f"line {node.lineno}: {node.value!r} is the name of a primitive")
        for child in ast.iter_child_nodes(node):
            is_key = isinstance(child, ast.Constant) and is_key_of(node, "params")
            if not is_key:
                visit(child)

    visit(ast.parse(source))
    return found


FILES = sorted(p for folder in FOLDERS for p in (ROOT / "functrans" / folder).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_primitive_is_known_by_its_name(path):
    assert offences(path.read_text(encoding="utf-8")) == []


def test_there_are_files_and_names_to_look_for():
    assert functrans.ops
    assert ROOT / "functrans" / "optimise" / "simplification.py" in FILES
    assert {"transpose", "scan", "reduce_sum", "gemm"} <= NAMES
    assert "add" not in NAMES


@pytest.mark.parametrize(
    "source",
    [
        '"""transpose"""',
        'def f():\n    "transpose"',
        "eqn.primitive is transpose_p",
        "eqn.primitive in (scan_p, counted_scan_p)",
        'Scalar("add", (x, y), dtype)',
        'message = f"{eqn.primitive.name} transpose"',
        'cond = eqn.params.get("cond")',
        'params["cond"] = cond',
        '"n_carry" in eqn.params',
    ],
)
def test_what_is_allowed(source):
    assert offences(source) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('name == "transpose"', "line 1: 'transpose' is the name"),
        ('LOOPS = frozenset({"scan"})', "'scan' is the name"),
        ('RULES = {"reshape": rule}', "'reshape' is the name"),
        ('match name:\n    case "inv":\n        pass', "line 2: 'inv' is the name"),
        ('registry["my_own"]', "looked up"),
        ("primitive.registry.get(name)", "looked up"),
        ("eqn.primitive.name in SCATTERS", "not for a message"),
        ('eqn.primitive.name.startswith("reduce_")', "not for a message"),
        ("runners.get(eqn.primitive.name)", "not for a message"),
        ("name = eqn.primitive.name", "not for a message"),
    ],
)
def test_what_is_not_allowed(source, words):
    [offence] = offences(source)
    assert words in offence
