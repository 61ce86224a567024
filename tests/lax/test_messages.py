"""The text of errors of loops and branches."""

import numpy as np
import pytest

from functrans import errors, lax, vmap

ONES = np.ones(3)

CASES = [
    (
        lambda: lax.fori_loop(0, 3, lambda i, x: x * 0.5, np.arange(4)),
        errors.CarryError,
        "the carry of fori_loop must keep its type: it starts as i64[4] and the body returns "
        "f64[4].\nGive it that type from the start, or convert what the body returns "
        "(.astype, .reshape)",
    ),
    (
        lambda: lax.scan(
            lambda c, x: ({"h": [c["h"][0], np.ones(4) * x]}, x), {"h": [0.0, ONES]}, ONES
        ),
        errors.CarryError,
        "the carry of scan must keep its type: at ['h'][1], it starts as f64[3] and the body "
        "returns f64[4].\nGive it that type from the start, or convert what the body returns "
        "(.astype, .reshape)",
    ),
    (
        lambda: lax.scan(lambda c, x: ({"h": (c["h"][0], x)}, x), {"h": [0.0, ONES]}, ONES),
        errors.CarryError,
        "the carry of scan must keep its structure: at ['h']: expected a list of 2, found a tuple "
        "of 2, in what the body returns",
    ),
    (
        lambda: lax.while_loop(lambda x: x > 1, lambda x: (x, x), 8.0),
        errors.CarryError,
        "the carry of while_loop must keep its structure: expected a leaf, found a tuple of 2, in "
        "what the body returns",
    ),
    (
        lambda: lax.scan(lambda c, x: c + x, 0.0, ONES),
        errors.CarryError,
        "f of scan must return (carry, y), and returned one array (f64[]): return (carry, None) "
        "if there is nothing to stack",
    ),
    (
        lambda: lax.while_loop(lambda x: x, lambda x: x / 2, 8.0),
        errors.CarryError,
        "what cond of while_loop returns must be one bool, and is f64[]: compare it with something "
        "(x != 0)",
    ),
    (
        lambda: lax.while_loop(lambda x: x > 1, lambda x: x / 2, ONES),
        errors.CarryError,
        "what cond of while_loop returns must be one bool, and is bool[3]: reduce it (.any(), "
        ".all()), or use np.where to choose for each element",
    ),
    (
        lambda: lax.while_loop(lambda x: x > 1, lambda x: x / 2, 1e9, max_steps=10),
        errors.StepLimitError,
        "a while_loop has not ended after max_steps=10 steps: allow more, or see that its "
        "condition becomes false",
    ),
    (
        lambda: lax.fori_loop(0, 2.5, lambda i, x: x, 0.0),
        errors.CarryError,
        "the bounds of fori_loop are integers, and upper is f64*[]",
    ),
    (
        lambda: lax.scan(lambda c, x: (c, x), 0.0),
        errors.AxisSizeError,
        "scan needs xs or length, to know how many steps there are",
    ),
    (
        lambda: lax.scan(lambda c, x: (c, x), 0.0, {"a": ONES, "b": np.ones(4)}),
        errors.AxisSizeError,
        "the steps of scan do not agree: xs['a'] has 3, and xs['b'] has 4",
    ),
    (
        lambda: lax.scan(lambda c, x: (c, x), 0.0, {"a": ONES, "b": 1.0}),
        errors.AxisSizeError,
        "scan goes along the first axis of xs, but xs['b'] is f64*[]",
    ),
    (
        lambda: lax.cond(np.array([True, False]), lambda x: x, lambda x: x, 1.0),
        errors.BranchError,
        "pred of cond must be one bool, and is bool[2]: reduce it (.any(), .all()), or use "
        "np.where to choose for each element",
    ),
    (
        lambda: vmap(lambda x: lax.cond(x, lambda x: x, lambda x: x, x))(ONES),
        errors.BranchError,
        "pred of cond must be one bool, and is f64[]: compare it with something (x != 0)",
    ),
    (
        lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
        errors.BranchError,
        "the branches of cond must return the same structure: expected a tuple of 2, found a leaf "
        "(expected is what false_fun returns, found what true_fun returns)",
    ),
    (
        lambda: lax.cond(True, lambda x: {"a": x}, lambda x: {"a": ONES * x}, 1.0),
        errors.BranchError,
        "the branches of cond must return the same types: at ['a'], false_fun returns f64[3] and "
        "true_fun returns f64*[]",
    ),
    (
        lambda: lax.switch(2, [np.sin, np.cos, lambda x: ONES * x], 1.0),
        errors.BranchError,
        "the branches of switch must return the same types: branch 0 (sin) returns f64[] and "
        "branch 2 returns f64[3]",
    ),
    (
        lambda: lax.switch(0.5, [np.sin, np.cos], 1.0),
        errors.BranchError,
        "the index of switch must be one integer, and is f64*[]",
    ),
    (
        lambda: lax.switch(0, [], 1.0),
        errors.BranchError,
        "switch needs at least one branch",
    ),
    (
        lambda: lax.cond(True, 1.0, 2.0),
        TypeError,
        "false_fun of cond must be a function, not 2.0 of type float",
    ),
    (
        lambda: lax.select(True, (1.0, 2.0), [1.0, 2.0]),
        errors.TreeMismatchError,
        "select chooses between pytrees of the same structure: expected a tuple of 2, found a list "
        "of 2 (expected is on_true, found is on_false)",
    ),
    (
        lambda: lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y),
        errors.TreeMismatchError,
        "f of custom_root must return the structure of initial_guess: expected a leaf, found a "
        "tuple of 2",
    ),
    (
        lambda: lax.custom_root(lambda x: x, 1, lambda f, x: x, lambda g, y: y),
        errors.CustomRuleError,
        "initial_guess of custom_root must be a float, not i64[]",
    ),
    (
        lambda: lax.custom_linear_solve(lambda x: x, ONES, lambda a, b: b[:2]),
        errors.ShapeError,
        "solve of custom_linear_solve must return the types of b: b is f64[3], and it returns "
        "f64[2]",
    ),
    (
        lambda: lax.associative_scan(np.add, (np.ones(3), np.ones(4))),
        errors.AxisSizeError,
        "associative_scan: elems[1] has 4 elements along axis 0, another one has 3",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"), CASES, ids=lambda x: "" if callable(x) else None
)
def test_the_words_of(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == words
    assert type(caught.value) is error


def test_python_cannot_branch_in_a_body():
    with pytest.raises(errors.TracerBoolError, match=r"test_messages.py.*traced by scan"):
        lax.scan(lambda c, x: (c if c > 0 else -c, x), 0.0, ONES)
