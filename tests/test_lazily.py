"""Lazy imports of names at their first use."""

import ast
import inspect
import os
import pickle
import pkgutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import functrans
from functrans import lax, random, spelling
from functrans import numpy as fnp
from functrans.lazily import Catalogue
from functrans.numpy.tables import NAMES
from functrans.ops import HOME, import_all
from functrans.trace import protocols

PACKAGES = [functrans, lax, random]


def run(script):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def written_out(package):
    """The names that type checkers see in a package, and the modules that they are from."""
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [(node, each) for block in blocks for node in block.body for each in node.names]
    found = {}
    for node, alias in imports:
        names = import_module(node.module).__all__ if alias.name == "*" else [alias.name]
        found |= {alias.asname or name: (node.module, name) for name in names}
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=lambda x: x.__name__)
def test_type_checkers_see_what_there_is(package):
    seen = written_out(package)
    assert sorted(seen) == sorted(package.__all__) == dir(package)
    for name, (module, own) in seen.items():
        if module == package.__name__ and package is functrans:
            assert getattr(package, name) is import_module(f"{module}.{own}")
        else:
            assert getattr(package, name) is getattr(import_module(module), own)


@pytest.mark.parametrize("package", [*PACKAGES, fnp], ids=lambda x: x.__name__)
def test_no_name_is_a_modules(package):
    """Python enters a module under its name as soon as anybody imports it."""
    modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
    of_modules = {name for name in dir(package) if inspect.ismodule(getattr(package, name))}
    # the one that is imported, and its name taken away, before anything else can
    assert modules & set(dir(package)) - of_modules == (
        {"trace"} if package is functrans else set()
    )


@pytest.mark.parametrize("module", NAMES)
def test_the_table_has_all_names_of_a_module(module):
    home = import_module(f"functrans.numpy.{module}")
    assert sorted(NAMES[module].split()) == sorted(home.__all__)
    for name in NAMES[module].split():
        assert getattr(fnp, name) is getattr(home, name)


def test_the_table_of_operations_says_where_they_are():
    import_all()
    for name, module in HOME.items():
        found = [protocols.ufuncs.get(name), functrans.extend.registry.get(name)]
        homes = {getattr(x, "home", getattr(x, "__module__", None)) for x in found if x is not None}
        # what answers for several results of SciPy's is made by a function of that module
        assert {module, "functrans.ops.elementwise.special.scipy"} & homes, name


def test_a_function_of_numpys_is_found_without_the_others():
    script = """
import numpy as np, sys, functrans
from functrans.trace import protocols
assert protocols.functions[np.linalg.norm] and protocols.functions[np.median]
print("functrans.numpy.padding" in sys.modules)
"""
    assert run(script) == "False"


def test_a_class_of_names_is_loaded_by_what_uses_it():
    script = """
import sys, numpy as np
from functrans import grad
print(grad(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(1)).shape)
loaded = [name for name in sys.modules if name.startswith("functrans.")]
print(*loaded)
"""
    shape, loaded = run(script).splitlines()
    assert shape == "(1,)"
    assert "functrans.ops.elementwise.hyperbolic" in loaded.split()
    for name in ("numpy.linalg", "ops.fft", "lax", "lower", "run.code", "scipy.define", "extend"):
        assert f"functrans.{name}" not in loaded.split()


def test_what_is_asked_for_is_there_for_many_threads_at_once():
    script = """
import sys
from threading import Barrier, Thread
import numpy as np
import functrans
start, found = Barrier(8), []
def ask():
    start.wait()
    found.append(functrans.grad(lambda x: np.linalg.norm(np.sin(x)) + np.median(x))(np.ones(3)))
threads = [Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and all(np.array_equal(x, found[0]) for x in found)
"""
    run(script)


def test_names_go_by_where_they_are_defined():
    for function in (functrans.grad, functrans.jit, lax.scan, fnp.linalg.norm, fnp.sum):
        assert inspect.signature(function)
        assert function.__doc__
    assert pickle.loads(pickle.dumps(functrans.grad)) is functrans.grad
    assert functrans.trace is import_module("functrans.api.lowered").trace


def test_all_names_can_be_had_at_once():
    script = (
        "from functrans import *\nfrom functrans.numpy import *\nprint(grad, vmap, linalg, sum)"
    )
    assert "functrans.numpy.linalg" in run(script)


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'functrans' has no attribute 'gard'"):
        functrans.gard  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'scam'"):
        exec("from functrans.lax import scam")


def test_a_saved_program_is_read_by_the_names_of_its_operations():
    script = """
from functrans.ir.primitive import registry
print(registry["lu_factor" if "lu_factor" in registry else "lu"].name, len(registry) > 400)
print(registry["jit"].home)
"""
    assert run(script).split()[1:] == ["True", "functrans.api.call"]


def test_a_catalogue_is_complete_for_who_looks():
    table = Catalogue()
    asked = []
    table.found_by(lambda key: asked.append(key) or (key == "a" and table.update(a=1)))
    table.filled_by(lambda: table.update(b=2))
    assert table["a"] == 1
    assert not table.has("b")
    assert table["b"] == 2
    assert asked == ["a", "b"]
    assert "c" not in table
    with pytest.raises(KeyError):
        table["c"]
    assert dict(table.items()) == {"a": 1, "b": 2} and len(table) == 2


def test_traced_values_say_what_methods_they_have():
    script = """
import numpy as np
from functrans import grad
def f(x):
    assert {"sum", "reshape", "clip", "T", "at", "strides"} <= set(dir(x))
    assert not hasattr(x, "unheard_of")
    return x.sum()
print(grad(f)(np.ones(2)))
"""
    assert run(script) == "[1. 1.]"


@pytest.mark.dear
def test_a_program_is_compiled_and_run_from_an_archive(tmp_path):
    package = Path(functrans.__file__).parent
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                file.write(path, path.relative_to(package.parent))
    code = """
import numpy as np
import functrans
from functrans import grad, jit
print(functrans.__file__)
print(jit(grad(lambda x: np.sum(np.sin(x) * np.linalg.norm(x))))(np.ones(3)).shape)
print(len(functrans.extend.registry) > 400)
"""
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.split() == [
        str(archive / "functrans" / "__init__.py"), "(3,)", "True"
    ], done.stderr  # fmt: skip


def test_no_module_takes_the_place_of_a_name():
    """Python enters a module in its package, where it would replace a function of that name."""
    for module in pkgutil.walk_packages(functrans.__path__, "functrans."):
        if not module.ispkg or ".cuda" in module.name:
            continue
        package = import_module(module.name)
        modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
        tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
        named = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert not modules & named, module.name


def test_functions_of_a_lazy_module_are_imported_when_they_are_called():
    script = """
import sys
from functrans.lazily import lazy_module
padding = lazy_module("functrans.numpy.padding", "pad")
pad = padding.pad
before = "functrans.numpy.padding" in sys.modules
print(before, pad([1], 1), "functrans.numpy.padding" in sys.modules)
"""
    assert run(script) == "False [0 1 0] True"


@pytest.mark.parametrize(("package", "module"), [(fnp, "scalar_math"), (random, "checks")])
def test_an_import_of_a_module_compares_no_names(package, module, monkeypatch):
    """It asks the package for the module as an attribute first."""
    compared = []
    monkeypatch.setattr(spelling, "get_close_matches", lambda *args, **_: compared.append(args))
    monkeypatch.delattr(package, module, raising=False)
    assert not hasattr(package, module)
    assert not compared
    assert not hasattr(package, module + "s")
    assert compared
