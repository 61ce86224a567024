"""The disk cache of programs, keyed by graphs; code is loaded without LLVM."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from functrans import clear_caches, config, extend, grad, jit, lax, trace
from functrans.ir.graph import Eqn, Graph, Var
from functrans.ops import is_built_in
from functrans.ops.arrays.structural import full_p
from functrans.run.call import on_disk as kept
from functrans.run.call.jitted import _program, program, runnable
from functrans.run.call.program import NativeProgram
from functrans.run.code import cache, elf, native
from functrans.run.code import fingerprint as circumstances
from tests.run.processes import run


def graph_of(function, *arrays):
    return trace(function)(*arrays)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A disk cache of one's own."""
    monkeypatch.setattr(config, "cache", True)
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    return tmp_path


SECOND = """
import sys
import numpy as np
from functrans import grad, jit, lax, vmap

def loop(x):
    return lax.fori_loop(0, 5, lambda i, y: np.sin(y) * x[i], x)

x = np.linspace(-1.0, 2.0, 500)
w = np.linspace(-1.0, 2.0, 100).reshape(10, 10)
print(jit(np.tanh)(x).sum(), jit(lambda w: w @ w @ w)(w).sum())
print(jit(grad(lambda x: np.sum(np.exp(x))))(x).sum(), jit(loop)(x).sum())
print("llvmlite" in sys.modules, "functrans.lower.pipeline" in sys.modules)
"""


@pytest.mark.full
@pytest.mark.skipif(not elf.SUPPORTED, reason="LLVM loads code here")
def test_a_second_process_neither_plans_nor_loads_llvm(folder):
    *first, loaded = run(SECOND, folder).splitlines()
    assert loaded == "True True"
    *second, loaded = run(SECOND, folder).splitlines()
    assert loaded == "False False"
    assert second == first


def test_a_program_from_the_disk_is_the_program(folder):
    x = np.linspace(0, 1, 300_001)
    graph = graph_of(lambda x: (np.sin(x) * 0.628, np.sum(x * x), x[3]), x)
    assert kept.find(graph) is None
    compiled = program(graph)
    found = kept.find(graph)
    assert isinstance(found, NativeProgram)
    assert found is not compiled.whole
    assert found.listing == compiled.whole.listing
    for one, other in zip(found(x), compiled(x), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_what_would_come_back_as_something_else_is_not_kept(folder):
    x = np.linspace(0, 1, 18)
    one, other = (graph_of(lambda x, k=k: np.cos(x) * k, x) for k in (0.3729, 0.3730))
    listing = program(one).whole.listing
    kept.keep(other, SimpleNamespace(listing=listing._replace(arena=np.int64(listing.arena))))
    assert kept.find(other) is None
    kept.keep(other, SimpleNamespace(listing=listing))
    assert kept.find(other) is not None


def test_without_the_code_the_program_is_compiled_again(folder):
    x = np.linspace(0, 1, 17)
    graph = graph_of(lambda x: np.cos(x) * 0.3728, x)
    (key,) = [step.key for step in program(graph).whole.listing.steps]
    program.__globals__["_program"].cache_clear()
    cache.disk()._path(key).unlink()
    cache._linked.clear()
    assert kept.find(graph) is None
    np.testing.assert_allclose(runnable(graph)(x)[0], np.cos(x) * 0.3728)


def test_the_key_of_a_graph_tells_what_differs():
    x = np.ones(4)
    keys = [
        kept.key_of(graph_of(function, x.astype(dtype)))
        for dtype in (np.float64, np.float32, ">f8")
        for function in (
            lambda x: x + 1.0,
            lambda x: x + 2.0,
            lambda x: x + np.float64(1.0),
            lambda x: 1.0 - x,
            lambda x: x - 1.0,
            lambda x: np.sum(x, keepdims=True),
            lambda x: np.sum(x),
            lambda x: lax.fori_loop(0, 2, lambda i, y: y * 2.0, x),
            lambda x: lax.fori_loop(0, 2, lambda i, y: y * 3.0, x),
        )
    ]
    assert None not in keys
    # the byte order is no matter of graphs
    assert len(set(keys)) == 2 * 9


NAN = float("nan")
NUMBERS = {
    "complex128": (0j, 1j, -1j, complex(0.0, -0.0), complex(-0.0, 0.0), 1 + 1j, complex("nan"),
                   complex(-NAN, 0.0), complex(0.0, -NAN)),
    "float64": (0.0, -0.0, 1.0, NAN, -NAN, *np.array([0x7FF8000000000001]).view(float).tolist()),
}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_are_in_keys_by_their_bits(dtype):
    """Signs of zeros decide about the side of a branch cut, those of NaN about `np.copysign`."""

    def filled(value):
        params = {"shape": (4,), "value": value, "dtype": np.dtype(dtype)}
        (aval,) = full_p.infer_all([], params)
        eqn = Eqn(full_p, (), [Var(aval)], params)
        return Graph([], [eqn], eqn.outputs)

    keys = {kept.key_of(filled(value)) for value in NUMBERS[dtype]}
    assert None not in keys
    assert len(keys) == len(NUMBERS[dtype])


def test_equal_graphs_have_equal_keys():
    x = np.ones((3, 4))
    one, other = (graph_of(grad(lambda x: np.sum(np.tanh(x @ x.T))), x) for _ in range(2))
    assert one is not other
    assert kept.key_of(one) == kept.key_of(other)


def test_operations_of_the_users_own_are_kept_by_their_definitions(folder):
    keys = []
    for factor in (2, 3, 2):
        times = extend.elementwise(
            "times_for_this_test", numpy=lambda x, f=factor: f * x,
            scalar=lambda x, f=factor: x * float(f),
            jvp=lambda x, out, dx, f=factor: f * dx, samples=extend.reals(-1, 1),
        )  # fmt: skip
        try:
            assert not is_built_in(times)
            graph = graph_of(lambda x, times=times: times(x) + 1.0, np.ones(3))
            keys.append(kept.key_of(graph))
            assert list(program(graph)(np.ones(3))[0]) == [factor + 1.0] * 3
            assert list(kept.find(graph)(np.ones(3))[0]) == [factor + 1.0] * 3
        finally:
            extend.unregister("times_for_this_test")
    two, three, again = keys
    assert two == again != three


def test_another_state_of_the_library_has_other_keys(monkeypatch):
    graph = graph_of(np.sin, np.ones(3))
    # worked out each time
    monkeypatch.setattr(circumstances, "of_library", circumstances.of_library.__wrapped__)
    usual = kept.key_of(graph)
    assert kept.key_of(graph) == usual
    monkeypatch.setattr(circumstances, "_sources", lambda: ["sin.py 1 2"])
    assert kept.key_of(graph) != usual


def test_the_librarys_files_are_looked_at():
    sources = list(circumstances._sources())
    assert len(sources) > 100
    assert any(line.startswith("on_disk.py ") for line in sources)


TEXT = """
declare double @hypot(double, double)
@table = internal constant [3 x double] [double 1.5, double 2.5, double 3.5]
define double @pick(i64 %i) {
  %p = getelementptr [3 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %p
  ret double %x
}
define double @far(i64 %i) {
  %x = call double @pick(i64 %i)
  %y = call double @hypot(double %x, double 2.0)
  ret double %y
}
"""


@pytest.mark.skipif(not elf.SUPPORTED, reason="LLVM loads code here")
def test_both_linkers_do_the_same():
    import ctypes

    image = native.compile_object(TEXT)
    ours = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)
    loaded = elf.load(image, {})
    by_llvm, _library = native.link(image, "far", {})
    for i in range(3):
        expected = np.hypot(1.5 + i, 2.0)
        assert ours(loaded.symbols["far"])(i) == expected
        assert ours(by_llvm)(i) == expected


@pytest.mark.skipif(not elf.SUPPORTED, reason="LLVM loads code here")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("declare void @nobody_has_this()\n"
         "define void @f() {\n  call void @nobody_has_this()\n  ret void\n}\n", "nobody_has_this"),
        ("@counter = global i64 5\n", "variables"),
    ],
)  # fmt: skip
def test_what_the_loader_does_not_understand(text, words):
    with pytest.raises(elf.NotUnderstood, match=words):
        elf.load(native.compile_object(text), {})
    with pytest.raises(elf.NotUnderstood, match="64 bits"):
        elf.load(b"something else", {})


def frames_of(call):
    """The functions of Python that run in a call."""
    seen = []
    sys.setprofile(
        lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else 0
    )
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@jit
def _once_in_a_process(x, y):
    return x - y


@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_call_takes_the_same_way_whether_compiled_here_or_found_on_disk(folder, donated):
    for _ in range(2):
        _once_in_a_process(np.ones(30), 1.0)
    clear_caches()
    ways, planned = [], []
    for _ in range(2):
        function = jit(lambda x, y: np.sin(x) + y, donate_argnums=donated)
        function(np.ones(30), 2.0)
        given = np.ones(30)
        ways.append(frames_of(lambda f=function, x=given: f(x, 2.0)))
        planned.append(_program.cache_info().misses)
        clear_caches()
    assert planned == [1, 0]
    compiled, found = ways
    assert compiled == found
    assert "__call__" in found
