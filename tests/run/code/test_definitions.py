"""User-defined operations use the disk cache, but never code of an older definition."""

import sys
import textwrap
import types

import numpy as np
import pytest

from functrans import config, extend, jit, trace
from functrans.run.call import on_disk as kept
from functrans.run.call.jitted import runnable
from functrans.run.code import definitions, elf
from tests.run.processes import run

DEFINITION = """
import numpy as np
from functrans import extend, vecmath

FACTOR = 1.5
COEFFICIENTS = [0.25, 0.5]

def helper(x):
    return FACTOR * x + COEFFICIENTS[1]

def make(shift):
    return extend.elementwise(
        "an_operation",
        numpy=lambda x: 1.5 * np.cos(x) + 0.5 + shift,
        jvp=lambda x, out, dx: -1.5 * np.sin(x) * dx,
        scalar=lambda x, scale=1.0: scale * (helper(vecmath.cos(x)) + shift),
        samples=extend.reals(-1, 1),
    )

an_operation = make(2.0)
"""

RUN = """
import sys
from functrans import grad, jit
from functrans.run.code import cache

x = np.linspace(-1.0, 2.0, 50)
value = jit(lambda x: an_operation(x) * 0.8125)(x)
print(float(value.sum()), float(value[0]))
print("functrans.lower.pipeline" in sys.modules, cache.statistics().compiled > 0)
"""

# what changes, and how the mean of `scalar` does
CHANGES = {
    "the rule": ("scale * (", "2.0 + scale * ("),
    "a helper": ("return FACTOR * x", "return 3.0 * FACTOR * x"),
    "a global": ("FACTOR = 1.5", "FACTOR = 2.5"),
    "a list": ("[0.25, 0.5]", "[0.25, 0.75]"),
    "a closure": ("make(2.0)", "make(4.0)"),
    "a default": ("scale=1.0", "scale=3.0"),
    "what a module gives": ("vecmath.cos", "vecmath.sin"),
    "what a name stands for": ("import extend, vecmath", "import extend, vecmath as other\n"
                               "vecmath = type('', (), {'cos': other.sin})"),
}  # fmt: skip


def in_process(folder, definition, how="{}"):
    source = how.format(repr(definition)) if how != "{}" else definition
    values, state = run(source + RUN, folder).splitlines()
    return values.split(), state.split() == ["False", "False"]


HOWS = {"a script": "{}", "a cell": "exec(compile({}, '<cell>', 'exec'))\n"}


@pytest.mark.full
@pytest.mark.skipif(not elf.SUPPORTED, reason="LLVM loads code here")
@pytest.mark.parametrize("how", HOWS)
def test_a_second_process_starts_warm(tmp_path, how):
    first, warm = in_process(tmp_path, DEFINITION, HOWS[how])
    assert not warm
    assert in_process(tmp_path, DEFINITION, HOWS[how]) == (first, True)
    # a line more above is no other definition
    assert in_process(tmp_path, "# a line\n" + DEFINITION, HOWS[how]) == (first, True)


@pytest.mark.full
@pytest.mark.parametrize("change", ["the rule", "a helper", "a global", "a closure"])
def test_a_definition_that_was_changed_is_compiled_again(tmp_path, change):
    before, _ = in_process(tmp_path, DEFINITION)
    after, warm = in_process(tmp_path, DEFINITION.replace(*CHANGES[change]))
    assert not warm
    assert after != before
    assert in_process(tmp_path, DEFINITION)[0] == before


def defined(source):
    """What a notebook's cell defines."""
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(textwrap.dedent(source), "<cell>", "exec"), space)
    extend.unregister("an_operation")
    return space


def fingerprint(source):
    return definitions.fingerprint(defined(source)["an_operation"])


def test_the_same_definition_has_the_same_fingerprint():
    assert fingerprint(DEFINITION) is not None
    assert fingerprint(DEFINITION) == fingerprint(DEFINITION)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_rule_follows_from_is_told_apart(change):
    changed = DEFINITION.replace(*CHANGES[change])
    assert changed != DEFINITION
    assert fingerprint(changed) != fingerprint(DEFINITION)


def test_numbers_in_a_definition_are_told_apart_by_their_bits():
    values = ("0.0", "-0.0", "float('nan')", "-float('nan')", "complex(0.0, -float('nan'))")
    sources = [DEFINITION.replace("FACTOR = 1.5", f"FACTOR = {value}") for value in values]
    assert len({fingerprint(source) for source in sources}) == len(values)


NAMELESS = {
    "an object": ("FACTOR = 1.5", "class Of:\n    factor = 1.5\nFACTOR = Of()"),
    "a class": ("return FACTOR", "return Of.factor", "class Of:\n    factor = 1.5\n"),
    "a generator": ("FACTOR = 1.5", "FACTOR = np.random.default_rng(0)"),
    "an import": ("return FACTOR", "import math\n    return FACTOR"),
    "reflection": ("return FACTOR", "return globals()['FACTOR']"),
    "evaluation": ("return FACTOR", "return eval('FACTOR')"),
    "an alias": ("return FACTOR", "return look(x, 'T')", "look = getattr\n"),
    "what is not there": ("return FACTOR", "return NOWHERE"),
    "a global that is set": ("return FACTOR", "global FACTOR\n    FACTOR = 1.5\n    return FACTOR"),
    "a ufunc of Python": ("FACTOR = 1.5", "FACTOR = np.frompyfunc(abs, 1, 1)"),
    "a large array": ("FACTOR = 1.5", "FACTOR = np.ones(100_000)"),
    "an array of objects": ("FACTOR = 1.5", "FACTOR = np.array([None])"),
    "a cache": ("def helper", "@functools.cache\ndef helper", "import functools\n"),
    "a module": ("return FACTOR", "return functools", "import functools\n"),
}


@pytest.mark.parametrize("change", NAMELESS)
def test_what_cannot_be_told_apart_has_no_fingerprint(change):
    old, new, *before = NAMELESS[change]
    changed = "".join(before) + DEFINITION.replace(old, new)
    assert changed != DEFINITION
    assert fingerprint(changed) is None


def test_a_module_of_the_users_is_known_by_what_is_taken_of_it(monkeypatch):
    module = types.ModuleType("a_users_module")
    module.factor, module.other = 1.5, 1.0
    monkeypatch.setitem(sys.modules, "a_users_module", module)
    source = "import a_users_module\n" + DEFINITION.replace(
        "return FACTOR", "return a_users_module.factor"
    )
    before = fingerprint(source)
    assert before is not None
    module.other = 2.0
    assert fingerprint(source) == before
    module.factor = 2.0
    assert fingerprint(source) != before


def test_a_definition_that_changes_while_it_is_used_is_not_kept():
    """What was found out of it, shapes and patterns, is remembered in the process."""
    space = defined(DEFINITION)
    operation = space["an_operation"]
    first = definitions.fingerprint(operation)
    assert first is not None
    space["FACTOR"] = 2.5
    assert definitions.fingerprint(operation) is None
    space["FACTOR"] = 1.5
    assert definitions.fingerprint(operation) == first


def test_a_global_that_changes_before_compiling_again_leaves_nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    space = defined(DEFINITION)
    operation, x = space["an_operation"], np.ones(3)
    jit(lambda x: operation(x) * 0.40625)(x)
    space["FACTOR"] = 2.5
    monkeypatch.setattr(config, "cache", True)
    graph = trace(lambda x: operation(x) * 0.71875)(x)
    assert kept.key_of(graph) is None
    runnable(graph)(x)
    assert kept.find(graph) is None


@pytest.mark.full
def test_a_package_is_not_imported_for_its_name():
    code = """
    import sys
    from functrans import extend, vecmath
    from functrans.run.code.definitions import fingerprint

    operation = extend.elementwise(
        "lazily", numpy=extend.lazy("scipy.special:cosm1"), jvp=lambda x, out, dx: dx,
        scalar=lambda x: vecmath.cos(x), samples=extend.reals(-3, 3),
    )
    before = fingerprint(operation)
    print("scipy" in sys.modules)
    import scipy.special
    print(before is not None and before == fingerprint(operation))
    """
    assert run(textwrap.dedent(code), None).split() == ["False", "True"]
