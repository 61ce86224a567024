"""Long scalar functions as one node, and their expansion in generated code."""

import numpy as np

from functrans.ir.primitive import registry
from functrans.loop.functions import expanded, function_of, node_count, often
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, evaluate, postorder
from functrans.loop.statements import For, Kernel, Store, buffer, load

F8 = np.dtype(float)
P = index("i")
X, Y = buffer("x", F8, (100,)), buffer("y", F8, (100,))


def test_short_operations_and_those_of_integers_are_none():
    assert function_of(registry["add"], (F8, F8), ()) is None
    assert function_of(registry["power"], (np.dtype(int),) * 2, ()) is None


def test_a_function_is_one_node_that_counts_for_many():
    sine = function_of(registry["sin"], (F8,), ())
    node = sine((load(X, (P,)),))
    assert (node.op, node.dtype) == ("apply", F8)
    assert node_count([node]) == sine.node_count > 20
    assert function_of(registry["sin"], (F8,), ()) is sine


def test_expanded_it_computes_what_it_did():
    sine = function_of(registry["sin"], (F8,), ())
    argument = load(X, (P,))
    (whole,) = expanded([sine((argument,)) * 2], {})
    assert not any(node.op == "apply" for node in postorder([whole]))
    for x in (0.3, -5.0, 1e10, 1e300):
        assert abs(evaluate(whole, {argument: np.float64(x)}) - 2 * np.sin(x)) < 1e-15


def test_what_is_rarely_needed_is_a_function_inside():
    sine = function_of(registry["sin"], (F8,), ())
    assert any(node.op == "apply" for node in sine.nodes)


def kernel(primitives, count):
    """So many functions of as many elements each."""
    stores = [
        Store(Y, (const(i, INDEX),), function_of(registry[name], (F8,), ())((load(X, (i,)),)))
        for i in range(count)
        for name in primitives
    ]
    return Kernel((X, Y), 0, (For(P, const(0, INDEX), const(1, INDEX), tuple(stores)),))


def test_functions_that_a_kernel_has_many_of_are_called():
    sine = function_of(registry["sin"], (F8,), ())
    assert often(kernel(["sin"], 8)) == set()
    assert often(kernel(["sin"], 9)) == {sine}
    # beside a cosine of the same number it shares operations, which calls would not
    assert often(kernel(["sin", "cos"], 32)) == set()
    assert sine in often(kernel(["sin", "cos"], 33))
