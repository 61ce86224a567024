"""Each public function has a docstring example that runs in the quick set.

Functions with NumPy's and SciPy's names are called in tests/surface instead.
"""

import inspect

import pytest

import functrans
from functrans import lax, random, testing, tree

ELSEWHERE = {"load": "save"}
"""Functions that appear in the example of another one."""


@pytest.mark.parametrize(
    "module", [functrans, lax, random, testing, tree], ids=lambda m: m.__name__
)
def test_each_function_has_an_example(module):
    public = {name: getattr(module, name) for name in module.__all__}
    functions = {name: one for name, one in public.items() if inspect.isfunction(one)}
    for name, function in functions.items():
        page = functions[ELSEWHERE.get(name, name)].__doc__ or ""
        assert ">>> " in page, f"{function.__module__}.{name} has no example in its docstring"
    assert functions
