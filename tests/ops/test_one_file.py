"""A primitive is one file: the examples of docs/adding-a-primitive.md, added to the library."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import functrans

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-primitive.md"
NAMES = {
    "sinc": "elementwise",
    "cyclic_shift": "arrays",
    "scatter_or": "indexing",
    "eigen": "linalg",
}

# What `functrans.extend` gives a user, as files below it have it.
HEAD = """
from types import SimpleNamespace

import numpy as np

from functrans import vecmath
from functrans.ir import primitive as _ir
from functrans.loop import nodes, scalar
from functrans.loop.statements import Store
from functrans.ops.arrays.structural import full_p as full
from functrans.ops.arrays.structural import iota
from functrans.ops.compiled.emission import Emit
from functrans.ops.compiled.statements import nest
from functrans.lazily import lazy
from functrans.ops.define import primitive
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.arrays.promotion import floating
from functrans.ops.samples import cases, reals

extend = SimpleNamespace(**vars(_ir) | {k: v for k, v in globals().items() if k[0] != "_"})
"""

CHECK = """
import functrans, numpy as np
from functrans import jit, testing
from functrans.ops import is_built_in
from functrans.ir.primitive import registry
for name in {names!r}:
    assert is_built_in(registry[name]), name
    testing.check_primitive(registry[name])
print(functrans.__file__)
"""


def definitions():
    """The page's definitions, by the name of the primitive."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    return {name: next(block for block in blocks if f'    "{name}",\n' in block) for name in NAMES}


def test_each_definition_is_found_where_it_lies(tmp_path):
    package = Path(functrans.__file__).parent
    copy = tmp_path / "functrans"
    shutil.copytree(package, copy)  # with what Python has compiled
    for name, text in definitions().items():
        own = [line for line in text.splitlines() if not line.startswith(("import", "from"))]
        own = [line for line in own if not line.startswith("testing.")]
        (copy / "ops" / NAMES[name] / f"new_{name}.py").write_text(HEAD + "\n".join(own))
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(names=list(NAMES))],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "FUNCTRANS_CACHE": "0", "FUNCTRANS_CHECK_PLANS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
