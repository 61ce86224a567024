"""docs/numpy.md lists exactly the supported part of NumPy.

``python tests/numpy/test_page.py`` writes the page's lists anew.
"""

import re
import textwrap
from pathlib import Path

import numpy as np
import scipy.special

import functrans.numpy
from functrans.trace import protocols
from functrans.trace.operators import Operators
from functrans.trace.tracer import Tracer

PAGE = Path(__file__).parents[2] / "docs" / "numpy.md"
MARK = "<!-- From here on the page is written by tests/numpy/test_page.py. -->\n"


def found():
    """What is supported: titles, and names without the package."""
    functions = {f"{f.__module__}.{f.__name__}": f.__name__ for f in protocols.functions}
    ufuncs = {name for name in protocols.ufuncs if isinstance(getattr(np, name, None), np.ufunc)}
    later = {"matvec", "vecmat"}  # NumPy has them since 2.2
    ours = {n for n in dir(functrans.numpy.special) if not n.startswith("_")}
    members = {*protocols.methods, *protocols.attributes, *vars(Tracer), *vars(Operators)} & {
        *dir(np.ndarray),
        "at",
    } - {"ptp"}
    return {
        "Functions of np": {v for k, v in functions.items() if "linalg" not in k} - ufuncs,
        "Functions of np.linalg": {v for k, v in functions.items() if "linalg" in k},
        "Ufuncs of np": ufuncs,
        "Ufuncs of scipy.special": {
            x
            for x in protocols.ufuncs.keys() - ufuncs - later
            if x[0] != "_" and (hasattr(scipy.special, x) or not hasattr(np, x))
        },
        "Functions of functrans.numpy.special": ours & {*functrans.numpy.special.__all__},
        "Methods and attributes of arrays": {n for n in members if not n.startswith("_")},
    }


def lists():
    def entry(title, names):
        text = textwrap.fill(", ".join(f"`{n}`" for n in sorted(names)), 100)
        return f"### {title}\n\n{text}\n"

    return MARK + "\n" + "\n".join(entry(title, names) for title, names in found().items())


def written():
    """The page's own text, and its lists."""
    page = PAGE.read_text(encoding="utf-8")
    at = page.index(MARK)
    return page[:at], page[at:]


def test_the_page_lists_what_is_supported():
    """All of it; what else it lists is not in this version of NumPy, or of SciPy."""
    parts = re.findall(r"^### (.*)\n\n((?:`.*\n)+)", written()[1], re.MULTILINE)
    listed = {title: set(re.findall(r"`(\w+)`", names)) for title, names in parts}
    assert listed.keys() == found().keys()
    for title, names in found().items():
        missing, unknown = names - listed[title], listed[title] - names
        assert not missing, f"{title}: run python tests/numpy/test_page.py"
        for package in (np, np.linalg, np.ndarray, scipy.special):
            assert not [n for n in unknown if hasattr(package, n)], title


if __name__ == "__main__":
    PAGE.write_text(written()[0] + lists(), encoding="utf-8")
