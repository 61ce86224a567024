"""Kernels as text, for error messages and readers."""

import numpy as np

from functrans import jit
from functrans.loop.nodes import INDEX, guard, index
from functrans.loop.scalar import const, convert, fma, sqrt
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Store,
    While,
    buffer,
    load,
    local,
    size,
)
from functrans.loop.target import CPU
from functrans.loop.text import text
from functrans.lower import pipeline
from functrans.run.call import jitted as call

F8 = np.dtype(np.float64)
ZERO = const(0, INDEX)


def lines(*body, buffers=(), scratch=()):
    """The text of statements, with the numbers that tell names apart left out."""
    names = text(Kernel(tuple(buffers), 1, body, tuple(scratch))).splitlines()
    return ["".join(c for c in line if not c.isdigit()) for line in names]


X, Y = buffer("x", F8, (size(0),)), buffer("y", F8, (size(0),))
K = index("k", 10)
T = local(F8, "t")


def test_loops_and_stores():
    body = Store(Y, (K,), guard(K < 3, load(X, (K,)), 0.5), "add")
    assert lines(
        For(K, ZERO, size(0), (body,), lanes=8, parallel=True, whole=True), buffers=(X, Y)
    ) == [
        "kernel(x: float[n], y: float[n];  sizes)",
        "  for k in :n  # parallel, whole,  lanes",
        "    y[k] add= guard((k < ), x[k], .)",
    ]


def test_folds_branches_and_locals():
    fold = Reduce((T,), ("max",), (sqrt(load(X, (K,))),), ((K, ZERO, const(10, INDEX)),), lanes=4)
    again = While((), T < 5, (Assign((T,), (fma(T, T, T),)),))
    found = lines(
        fold,
        If(T <= 1, (Let((local(F8, "u"),), (T,)),), (Store(X, (ZERO,), T),)),
        again,
        scratch=(buffer("row", np.float32, (3,)),),
    )
    assert found == [
        "kernel(;  sizes)",
        "  scratch row: float[]",
        "  fold k in :  #  lanes",
        "    t max= sqrt(x[k])",
        "  if (t <= .)",
        "    let u = t",
        "  else",
        "    x[] = t",
        "  repeat",
        "  while (t < .)",
        "    set t = fma(t, t, t)",
    ]


def test_calls():
    number = convert(size(0), np.int32)
    found = lines(Call("dgemm", (b"N", number, Address(X, (K,))), (X,), (Y,)))
    assert found[1:] == ["  call dgemm(N, int(n), &x[k])"]


def test_atomic_stores():
    found = lines(Store(Y, (K,), load(X, (K,)), "add", atomic=True))
    assert found[1:] == ["  y[k] add= x[k]  # atomic"]


def test_what_is_used_twice_has_a_name():
    square = load(X, (K,)) * load(X, (K,))
    found = lines(Store(Y, (K,), square + sqrt(square)))
    assert found[1:] == ["  v = x[k]", "  v = (v * v)", "  y[k] = (v + sqrt(v))"]


def test_a_long_program_is_printed_without_recursion():
    x = load(X, (K,))
    for _ in range(3000):
        x = x * 1.5 + 1
    assert len(text(Kernel((X, Y), 1, (Store(Y, (K,), x),)))) > 10_000


def test_every_kernel_of_a_program_can_be_printed():
    def f(x):
        return np.cumsum(np.linalg.solve(x @ x.T + 40 * np.eye(20), x), axis=0)[::-1]

    lowered = jit(f).lower(np.ones((20, 30)))
    assert lowered.schedule()
    plan = pipeline.plan(call.program(lowered.graph()).graph, CPU)
    assert "call dgetr" in "\n".join(text(step.kernel) for step in plan.steps)


def test_an_expression_whose_parts_are_shared_is_shown_in_part():
    x = load(X, (K,))
    for _ in range(200):
        x = x * x
    assert len(repr(x)) < 2_000
    assert repr(x).startswith("mul(mul(")
    assert repr(T * 2.0 + 1.0) == f"add(mul({T!r}, 2.0), 1.0)"
