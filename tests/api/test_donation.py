"""Which arguments are donated: by position, by name, in containers, beside static ones."""

import numpy as np
import pytest

from functrans import jit, tree
from functrans.errors import ArgnumsError


def ones():
    return np.ones(30)


def overwritten(run, *args, **kwargs):
    """The numbers of the leaves that the results are, after the call."""
    leaves = tree.leaves((args, kwargs))
    results = tree.leaves(run(*args, **kwargs))
    return [i for i, x in enumerate(leaves) if any(x is result for result in results)]


def pair(a, b):
    return a + 1.0, b * 2.0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"donate_argnums": ()}, []),
        ({"donate_argnums": 0}, [0]),
        ({"donate_argnums": 1}, [1]),
        ({"donate_argnums": -1}, [1]),
        ({"donate_argnums": (0, 1)}, [0, 1]),
        ({"donate_argnums": [1, -1]}, [1]),
        ({"donate_argnames": "b"}, [1]),
        ({"donate_argnames": ("a", "b")}, [0, 1]),
        ({"donate_argnums": 0, "donate_argnames": "b"}, [0, 1]),
    ],
)
def test_by_position_or_name(options, expected):
    assert overwritten(jit(pair, **options), ones(), ones()) == expected
    assert overwritten(jit(**options)(pair), ones(), ones()) == expected


def test_by_name_passed_by_keyword():
    run = jit(pair, donate_argnames="b")
    assert overwritten(run, ones(), b=ones()) == [1]
    assert overwritten(run, a=ones(), b=ones()) == [1]
    assert overwritten(jit(pair, donate_argnums=1), ones(), b=ones()) == []

    def only_by_keyword(*, a, b):
        return a + 1.0, b + 1.0

    assert overwritten(jit(only_by_keyword, donate_argnames="a"), a=ones(), b=ones()) == [0]


def test_any_number_of_arguments():
    run = jit(lambda *xs: [x + 1.0 for x in xs], donate_argnums=(1, -1))
    assert overwritten(run, ones(), ones(), ones(), ones()) == [1, 3]
    assert overwritten(run, ones()) == [0]


def test_containers():
    run = jit(lambda p, x: tree.map(lambda w: w * x, p), donate_argnums=0)
    p = {"a": ones(), "b": (ones(), 2.0, None)}
    assert overwritten(run, p, 3.0) == [0, 1]


def test_beside_static_arguments():
    def f(n, a, mode, b):
        return a * n, b * n

    for options in ({"static_argnums": (0, 2)}, {"static_argnames": ("n", "mode")}):
        run = jit(f, donate_argnums=-1, **options)
        b = ones()
        assert run(2, ones(), "fast", b)[1] is b
        assert run(3, ones(), "slow", b)[1] is b
        np.testing.assert_array_equal(b, 6.0 * ones())


def test_an_argument_is_not_static_and_donated():
    for options in (
        {"static_argnums": 1, "donate_argnums": (0, 1)},
        {"static_argnums": -1, "donate_argnames": "b"},
        {"static_argnames": "b", "donate_argnums": 1},
    ):
        with pytest.raises(ArgnumsError, match=r"argument 1 \('b'\) of pair is static and donated"):
            jit(pair, **options)

    def with_keyword(a, b, *, c):
        return a, b

    with pytest.raises(ArgnumsError, match=r"argument 1 \('b'\) of with_keyword is static"):
        jit(with_keyword, static_argnums=-1, donate_argnums=1)
    jit(lambda *xs: xs, static_argnums=-1, donate_argnums=0)

    def only_by_keyword(*, a):
        return a

    with pytest.raises(ArgnumsError, match="argument 'a' of only_by_keyword is static and donated"):
        jit(only_by_keyword, static_argnames="a", donate_argnames="a")


def test_methods():
    class Model:
        scale = 3.0

        @jit(donate_argnums=1)
        def times(self, x):
            return self.scale * x

    x = ones()
    assert Model().times(x) is x


def test_the_schedule_says_what_lives_where():
    lowered = jit(pair, donate_argnums=1).lower(ones(), ones())
    assert "output 1: float64[30] lives in input 1" in lowered.schedule()
    assert "lives in" not in jit(pair).lower(ones(), ones()).schedule()


def test_a_copy_that_is_returned_twice():
    for x in np.full((1, 1), 3.0), np.full((1, 1, 1), 3.0):
        first, second = jit(lambda x: (y := np.cumsum(x, axis=0), y), donate_argnums=0)(x)
        assert first.item() == second.item() == 3.0
