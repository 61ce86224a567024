"""Import order of the layers: one direction, at the top of files, and Numba only in the back ends.

Imports are read from the source with `ast` rather than from a running interpreter, so that imports
inside functions and imports for type checkers count as well.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "functrans"

# Each folder or file of the package may import from those in the rows above its own, and from
# itself; from no other in its own row. `vecmath` stands this low because a primitive's definition
# names its scalar form; `config` holds plain settings that anybody may read.
ORDER = [
    {"records"},
    {"errors", "config", "version", "locks", "spelling", "probing", "spans"},
    {"lazily", "tracebacks"},
    {"caches", "parsing"},
    {"subclasses"},
    {"tree"},
    {"ir"},
    {"loop"},
    {"vecmath"},
    {"trace"},
    {"ops"},
    {"extend"},
    {"transform"},
    {"optimise"},
    {"lower"},
    {"emit"},
    {"run"},
    {"api"},
    {"numpy", "lax", "testing", "debug"},
    {"scipy", "random", "train", "distributed"},
    {"__init__"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

# Slow to import, so imported when they are first needed, which may be inside a function.
DEFERRED = {"numba", "llvmlite", "scipy", "opt_einsum", "threadpoolctl", "ml_dtypes"}
DEFERRED |= {"mpi4py", "distributed", "cuda", "nvmath", "matplotlib", "graphviz", "tqdm"}
COMPILERS = {"numba", "llvmlite"}

# Where ``lazy("scipy.special:erf")`` is defined, the one import whose module is not written out;
# the strings that it is called with are read as imports wherever they stand.
COMPUTED = {Path("functrans/lazily.py"), Path("functrans/ops/__init__.py")}
# Packages whose modules are imported when they are first named, from a list of their names.
COMPUTED |= {Path("functrans/scipy/__init__.py"), Path("functrans/__init__.py")}
COMPUTED |= {Path("functrans/vecmath/__init__.py")}
NUMPY = Path("functrans/numpy")
COMPUTED |= {NUMPY / name for name in ("methods.py", "substitutes.py", "tables.py")}
# Rules that come with the compiler, named by their modules in one folder.
COMPUTED |= {Path("functrans/ops/define.py")}
# The functions of SciPy's that ours take the place of, named where they are defined.
COMPUTED |= {Path("functrans/scipy/define.py"), Path("functrans/scipy/inside.py")}
COMPUTED |= {Path("functrans/scipy/optimize/searches.py")}
# A package whose modules are imported when they are first named, from a list of their names.
COMPUTED |= {Path("functrans/scipy/__init__.py"), Path("functrans/scipy/entries.py")}
# Modules of SciPy's whose functions are computed with traced values.
COMPUTED |= {Path("functrans/scipy/source") / name for name in ("reinterpret.py", "rotations.py")}
# Functions of SciPy's of which there are several alike.
COMPUTED |= {
    Path("functrans/scipy") / f"{name}.py"
    for name in ("fft", "inside", "optimize/searches", "sparse/iterative", "stats/samples")
}
# Functions of SciPy's that are named by a table.
SPECIAL = Path("functrans/ops/elementwise/special")
COMPUTED |= {SPECIAL / f"{name}.py" for name in ("bessel", "scipy", "spherical")}


@dataclass(frozen=True)
class Import:
    """One module that a file imports, and where."""

    module: str  # absolute, with the name taken from it: "functrans.ir.types"
    line: int
    inside_function: bool


def imports_of(source, path):
    """Every import in a file, those inside functions and conditions too."""
    # Relative imports start at the folder of the file, which an __init__.py stands for.
    package = path.parent.parts
    found = []

    def visit(node, inside):
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *([node.module] if node.module else [])))
            found.extend(
                Import(f"{prefix}.{alias.name}", node.lineno, inside) for alias in node.names
            )
        elif isinstance(node, ast.Call) and is_import_call(node.func):
            # Such a call is made to import later than at the top. A room of ours that is named at
            # the top, so that the compiler is loaded with its first use, still has to be below.
            for argument in node.args[:1]:
                name = argument.value if isinstance(argument, ast.Constant) else "(computed)"
                at_top = not inside and str(name).startswith(f"{PACKAGE}.")
                found.append(Import(str(name).replace(":", "."), node.lineno, not at_top))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_homes":
            # the names of a package that are imported when they are asked for
            keys = getattr(node.args[0], "keys", ())
            found.extend(Import(f"{key.value}.(names)", key.lineno, False) for key in keys)
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, inside or function)

    visit(ast.parse(source), False)
    return found


def is_import_call(function):
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__", "lazy", "lazy_module"}


def room(parts):
    """The folder or file right below the package that a path or a dotted name lies in."""
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


def may_compile(path):
    """Whether Numba may be touched here: in emit/ and run/."""
    parts = path.parts[1:]
    return parts[0] in ("emit", "run")


def offences(source, path):
    """What is wrong with the imports of a file, in words."""
    own = room(path.parts)
    if own not in RANK:
        yield f"{own} is not in the order: give it a place in ORDER"
        return
    for imported in imports_of(source, path):
        parts = imported.module.split(".")
        where = f"line {imported.line}: {imported.module}"
        if parts[0] == PACKAGE:
            # `from functrans import tree` is the room `tree`; a name in no room is the front door.
            target = room(parts) if room(parts) in RANK else "__init__"
            if imported.inside_function:
                yield f"{where} is imported inside a function"
            elif target != own and RANK[target] >= RANK[own]:
                yield f"{where} points upwards, from {own} to {target}"
        elif imported.module == "(computed)" and path in COMPUTED:
            continue
        elif imported.inside_function and parts[0] not in DEFERRED:
            yield f"{where} is imported inside a function"
        if parts[0] in COMPILERS and not may_compile(path):
            yield f"{where} is imported outside of emit/ and run/"


FILES = sorted((ROOT / PACKAGE).rglob("*.py"))


def test_imports_point_one_way():
    names = [path.relative_to(ROOT) for path in FILES]
    found = {str(name): list(offences((ROOT / name).read_text("utf-8"), name)) for name in names}
    assert {name: those for name, those in found.items() if those} == {}


# ---- the reader of imports itself ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("functrans/ops/stop.py", "from functrans.trace.tracer import Tracer"),
        ("functrans/ops/stop.py", "from functrans.ops import shape"),
        ("functrans/ops/stop.py", "from . import shape"),
        ("functrans/ops/stop.py", "from functrans import errors, tree"),
        ("functrans/ops/stop.py", "def f():\n    import scipy.special"),
        ("functrans/ops/stop.py", "erf = lazy('scipy.special:erf')"),
        ("functrans/api.py", "compile_graph = lazy('functrans.run.call.compiled:compile_graph')"),
        ("functrans/lazily.py", "def resolve(self):\n    return import_module(self.name)"),
        ("functrans/run/call/compiled.py", "def f():\n    import numba"),
        ("functrans/run/call/compiled.py", "def f():\n    importlib.import_module('numba.core')"),
        ("functrans/emit/llvm/kernel.py", "def f():\n    from llvmlite import ir"),
        ("functrans/emit/cuda.py", "def f():\n    from numba import cuda"),
        ("functrans/numpy/__init__.py", "import numpy as np\nfrom functrans.api import jit"),
        ("functrans/__init__.py", "from functrans.numpy import fft"),
        ("functrans/lax/__init__.py", "_homes({'functrans.lax.loops': 'scan'})"),
    ],
)
def test_what_is_allowed(path, source):
    assert list(offences(source, Path(path))) == []


@pytest.mark.parametrize(
    ("path", "source", "words"),
    [
        ("functrans/errors.py", "from functrans.tree import flatten", "from errors to tree"),
        ("functrans/errors.py", "import functrans.config", "from errors to config"),
        (
            "functrans/ops/stop.py",
            "from functrans.transform import jvp",
            "from ops to transform",
        ),
        (
            "functrans/ops/stop.py",
            "from ..transform import jvp",
            "from ops to transform",
        ),
        ("functrans/ops/__init__.py", "from ..transform import jvp", "from ops to transform"),
        (
            "functrans/ops/stop.py",
            "from functrans import transform",
            "from ops to transform",
        ),
        (
            "functrans/ops/stop.py",
            "from functrans import grad",
            "from ops to __init__",
        ),
        ("functrans/ops/stop.py", "import functrans", "from ops to __init__"),
        (
            "functrans/ops/stop.py",
            "if TYPE_CHECKING:\n    from functrans.run import jit",
            "from ops to run",
        ),
        ("functrans/lax.py", "from functrans.numpy import sin", "from lax to numpy"),
        (
            "functrans/api.py",
            "def f():\n    from functrans import tree",
            "functrans.tree is imported inside a function",
        ),
        ("functrans/api.py", "f = lambda: __import__('functrans')", "inside a function"),
        ("functrans/api.py", "class A:\n    def f(self):\n        import re", "inside a function"),
        ("functrans/api.py", "def f(name):\n    import_module(name)", "(computed) is imported"),
        ("functrans/lax/__init__.py", "_homes({'functrans.scipy.stats': 'norm'})", "lax to scipy"),
        ("functrans/ops/jvp.py", "jvp = lazy('functrans.transform.jvp:jvp')", "to transform"),
        (
            "functrans/api.py",
            "def f():\n    lazy('functrans.run.call.compiled:f')()",
            "inside a function",
        ),
        ("functrans/ops/stop.py", "def f():\n    import numba", "outside of emit/"),
        ("functrans/ops/stop.py", "f = lazy('numba.cuda:jit')", "outside of emit/"),
        ("functrans/lower/nest/bodies.py", "from numba import njit", "outside of emit/"),
        ("functrans/colours.py", "", "colours is not in the order"),
    ],
)
def test_what_is_not_allowed(path, source, words):
    [offence] = offences(source, Path(path))
    assert words in offence


def test_the_order_names_each_room_once():
    assert len(RANK) == sum(len(names) for names in ORDER)
