"""Programs in files."""

import json
import os
import sys
import zipfile
from collections import deque, namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import functrans
from functrans import (
    Aval,
    callback,
    checkpoint,
    custom_jvp,
    custom_vjp,
    extend,
    grad,
    hessian,
    jit,
    lax,
    load,
    save,
    vmap,
)
from functrans.errors import SavedProgramError, TracerBoolError, TreeMismatchError
from functrans.tree import leaves
from tests.primitives.harness import PRIMITIVES, cases

X = np.array([0.5, -1.0, 2.0])
TABLE = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
GRAM = TABLE @ TABLE.T + np.eye(3)


@custom_jvp
def clamp(x):
    return np.minimum(np.maximum(x, -1.0), 1.0)


@clamp.defjvp
def clamp_jvp(primals, tangents):
    return clamp(*primals), 2.0 * tangents[0]


@custom_vjp
def rounded(x):
    return np.round(x)


rounded.defvjp(lambda x: (rounded(x), TABLE), lambda saved, ct: (ct * saved.sum() + ct,))


def looped(x):
    total, each = lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x)
    small = lax.while_loop(lambda t: t > 0.1, lambda t: t / 2, np.abs(total))
    return lax.cond(small > 0.07, np.sin, np.cos, small) + each.sum()


def rewritten(path, change):
    """The archive, with its description changed."""
    with zipfile.ZipFile(path) as z:
        files = {name: z.read(name) for name in z.namelist()}
    data = json.loads(files["program.json"])
    change(data)
    files["program.json"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as z:
        for name, content in files.items():
            z.writestr(name, content)


FUNCTIONS = {
    "arithmetic": lambda x: np.sum(np.exp(x) ** 2 / 3.0 - x),
    "captures": lambda x: (TABLE.T @ x).sum() + x[np.array([0, 2])].prod(),
    "loops": looped,
    "custom_jvp": lambda x: np.sum(clamp(3.0 * x)),
    "custom_vjp": lambda x: np.sum(rounded(3.0 * x)),
    "jit in jit": lambda x: jit(np.sin)(x).sum() * jit(looped)(x),
    "checkpoint": checkpoint(lambda x: np.sin(np.sin(x)).sum(), policy="dots"),
    "checkpoint of all": checkpoint(lambda x: np.sin(np.sin(x)).sum()),
    "gradient": lambda x: np.sum(grad(lambda x: np.sum(x**3))(x)),
    "nan and infinity": lambda x: np.nansum(np.where(x > 0, np.nan, x)) + np.max([np.inf, 1.0]),
    "backwards through a loop": lambda x: np.sum(
        grad(
            lambda x: lax.while_loop(
                lambda c: c.sum() < 9, lambda c: c * x, x * x + 2, max_steps=9
            ).sum()
        )(x)
    ),
    "implicit": lambda x: lax.custom_linear_solve(
        lambda v: GRAM @ v, x, lambda f, b: np.linalg.solve(GRAM, b), symmetric=True
    ).sum(),
    "linear algebra": lambda x: np.linalg.solve(np.diag(x) + np.outer(x, x), x).sum(),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_computes_what_the_function_does(name, tmp_path):
    function = FUNCTIONS[name]
    path = tmp_path / "program"
    save(function, path, X)
    program = load(path)
    np.testing.assert_array_equal(program(X), jit(function)(X))
    other = X[::-1] + 0.25
    np.testing.assert_allclose(program(other), function(other), rtol=1e-14)
    np.testing.assert_allclose(grad(program)(X), grad(function)(X), rtol=1e-12)
    np.testing.assert_allclose(jit(grad(program))(other), grad(function)(other), rtol=1e-12)
    if name != "custom_vjp":
        np.testing.assert_allclose(hessian(program)(X), hessian(function)(X), rtol=1e-9, atol=1e-12)
    rows = np.stack([X, other])
    np.testing.assert_allclose(vmap(program)(rows), [function(X), function(other)], rtol=1e-14)
    save(program, path, X)  # in place of the file itself, and a program of a program
    np.testing.assert_array_equal(load(path)(X), program(X))


def test_structures_names_and_static_arguments(tmp_path):
    @jit(static_argnames="power")
    def predict(params, x, *, power, scale):
        y = (x @ params["layers"][0] + params["b"]) ** power * scale
        return {"y": y, "pair": (y.sum(), [None, x.dtype.type(1)])}

    params = {"layers": [TABLE, None], "b": np.float32(0.5), 3: X}
    save(predict, tmp_path / "p", params, X, power=2, scale=np.float64(2.0))
    program = load(os.fspath(tmp_path / "p"))
    found, expected = program(params, X, scale=3.0), predict(params, X, power=2, scale=3.0)
    assert repr(found.keys()) == repr(expected.keys())
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert repr(program).startswith("<program predict({")
    assert program.__name__ == "predict"


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i1", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 17)])
def test_types(dtype, shape, tmp_path):
    value = np.ones(shape, dtype)[()]
    save(lambda x: (x, x == x), tmp_path / "p", Aval(shape, dtype))
    same, equal = load(tmp_path / "p")(value)
    assert same.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(same, value)
    assert equal.shape == shape


@pytest.mark.parametrize(
    "args",
    [(X[:2],), (X.astype(np.float32),), (X, X), ((X,),), (1.0,), (X.astype(int),)],
    ids=["shape", "dtype", "count", "structure", "number", "integers"],
)
def test_arguments_of_other_types_are_refused(args, tmp_path):
    save(np.sum, tmp_path / "p", X)
    with pytest.raises(TreeMismatchError, match=r"^sum was saved for"):
        load(tmp_path / "p")(*args)


def test_a_python_number_yields_and_another_does_not(tmp_path):
    save(lambda x, n: x * n, tmp_path / "p", X.astype(np.float32), 2.0)
    program = load(tmp_path / "p")
    assert program(X.astype(np.float32), 3.0).dtype == np.float32
    assert program(X.astype(np.float32), 3).dtype == np.float32
    with pytest.raises(TreeMismatchError, match=r"saved for f64\*\[\] at .* found f64\[\]"):
        program(X.astype(np.float32), np.float64(3.0))


RESULTS = {
    "eig": lambda a: np.linalg.eig(a + a.T),
    "eigh": np.linalg.eigh,
    "svd": np.linalg.svd,
    "qr": np.linalg.qr,
    "slogdet": np.linalg.slogdet,
    "unique_all": lambda a: functrans.numpy.unique_all(a, size=9),
    "unique_counts": lambda a: functrans.numpy.unique_counts(a, size=9),
    "unique_inverse": lambda a: functrans.numpy.unique_inverse(a, size=9),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_numpys_own_classes(name, tmp_path):
    function, a = RESULTS[name], TABLE[:, :3] + np.eye(3)
    save(lambda a: {"nested": [function(a)]}, tmp_path / "p", a)
    (found,) = load(tmp_path / "p")(a)["nested"]
    expected = jit(function)(a)
    assert type(found) is type(expected) is type(getattr(np, name, getattr(np.linalg, name, 0))(a))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_named_tuples_of_the_users(tmp_path):
    class Layer(NamedTuple):
        weight: object
        bias: object

    # other fields, or another name
    Wrong = namedtuple("Layer", "weight offset")
    Other = namedtuple("Other", "weight bias")

    def step(layers, x):
        return [Layer(each.weight * x, each.bias + 1) for each in layers]

    layers = [Layer(X, X[0]), Layer(X, X[1])]
    save(step, tmp_path / "p", layers, X)
    program = load(tmp_path / "p")
    found = program(layers, X)
    assert repr(found) == repr(step(layers, X))
    assert repr(program(found, X)) == repr(step(found, X))
    assert type(program(found, X)[0]) is type(load(tmp_path / "p")(found, X)[1])
    for kind in (Wrong, Other):
        with pytest.raises(TreeMismatchError, match="step was saved for other arguments"):
            program([kind(*each) for each in layers], X)
    with pytest.raises(TreeMismatchError, match="step was saved for other arguments"):
        program([deque(each) for each in layers], X)


@pytest.mark.parametrize(
    "named",
    [["a; import os", ["x", 0]], ["a", ["x=print(1)", 0]], ["a", ["_x", 0]], ["a", ["def", 0]],
     ["a", ["x", 0], ["x", 1]], ["a", [3, 0]]],
)  # fmt: skip
def test_names_that_are_more_than_names(named, tmp_path):
    save(np.sum, tmp_path / "p", X)
    rewritten(tmp_path / "p", lambda d: d.update(results={"named": named}))
    with pytest.raises(SavedProgramError, match="is no program"):
        load(tmp_path / "p")


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "p"
    with pytest.raises(SavedProgramError, match=r"consists of Python's code \(sort\)"):
        save(callback(np.sort, out_types=lambda x: x), path, X)
    with pytest.raises(SavedProgramError, match="results hold a deque, and a file holds tuples"):
        save(lambda x: deque([x, x]), path, X)
    with pytest.raises(SavedProgramError, match=r"Python's code \(policy\)"):
        save(checkpoint(np.sin, policy=("sin",)), path, X)
    with pytest.raises(TracerBoolError):
        save(lambda x: x if x > 0 else -x, path, 1.0)
    assert list(tmp_path.iterdir()) == []


def test_operations_of_the_users(tmp_path):
    halved = extend.primitive(
        "halved", infer=lambda x: x, numpy=lambda x: x / 2, linear=extend.LINEAR,
        transpose=lambda ct, x: [halved(ct)], samples=extend.cases(((3,), {})),
    )  # fmt: skip
    try:
        save(lambda x: halved(x) + 1, tmp_path / "p", X)
        np.testing.assert_array_equal(load(tmp_path / "p")(X), X / 2 + 1)
    finally:
        extend.unregister("halved")
    with pytest.raises(SavedProgramError, match="uses the operation halved, which is not defined"):
        load(tmp_path / "p")


def operations(data):
    """The names of all operations in data."""
    if isinstance(data, dict):
        yield from ([data["operation"]] if "operation" in data else [])
        data = list(data.values())
    if isinstance(data, list):
        for part in data:
            yield from operations(part)


NOT_IN_FILES = {
    "lane_number": "the number of a process is asked in programs of several alone",
    "custom_pullback": "it is transposed away",
    "step": "the compiler makes it",
    "unused": "what a branch in a loop gives for the residuals of another one",
}


@pytest.mark.full
def test_files_hold_every_operation_with_graphs_inside(tmp_path):
    # those that have samples are written and read in tests/ir/test_serial.py; collectives are in
    # programs of several processes alone, since vmap leaves none
    collectives = {primitive.name for primitive in PRIMITIVES if primitive.collective is not None}
    sampled = {case.primitive.name for case in cases(np.float64).values()}
    found = set()
    for function in FUNCTIONS.values():
        save(grad(function), tmp_path / "p", X)
        load(tmp_path / "p")
        with zipfile.ZipFile(tmp_path / "p") as z:
            found |= {*operations(json.loads(z.read("program.json")))}
    expected = {primitive.name for primitive in PRIMITIVES} - sampled - collectives
    expected -= NOT_IN_FILES.keys()
    assert {"scan", "cond", "custom_vjp"} < expected <= found


def test_bfloat16(tmp_path, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    weights = np.array([1.5, -2, 3e-3], ml_dtypes.bfloat16)
    save(lambda x: np.sum(x * weights) + weights[1], tmp_path / "p", weights)
    program = load(tmp_path / "p")
    assert program(weights).dtype == weights.dtype
    assert program(weights) == np.sum(weights * weights) + weights[1]
    assert str(program) == "<program <lambda>(bf16[3])>"
    # where the package is not
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(SavedProgramError, match=r"of the package ml_dtypes, .*: pip install ml_d"):
        load(tmp_path / "p")
