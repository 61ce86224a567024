"""Key paths, tree transposition, prefix broadcasting, `Partial` functions."""

import pickle
from collections import namedtuple

import pytest

from functrans import tree
from functrans.errors import TreeMismatchError


def test_key_paths():
    point = namedtuple("point", "x y")
    given = {"a": [1, point(2, 3)], "b": (4,)}
    pairs, structure = tree.flatten_with_path(given)
    assert [leaf for _, leaf in pairs] == tree.leaves(given)
    assert structure == tree.structure(given)
    assert [path for path, _ in pairs] == tree.paths(given)
    assert [path.keys for path, _ in pairs] == [("a", 0), ("a", 1, "x"), ("a", 1, "y"), ("b", 0)]
    assert tree.keystr(pairs[1][0]) == "['a'][1].x"
    assert tree.keystr(("a", 1)) == "['a'][1]"
    assert tree.map_with_path(lambda path, leaf: path.keys, [1, {"k": 2}]) == [
        (0,),
        {"k": (1, "k")},
    ]
    (path,) = [path for path, _ in tree.flatten_with_path(5)[0]]
    assert (path, path.keys) == ("", ())
    again = pickle.loads(pickle.dumps(pairs[0][0]))
    assert (again, again.keys) == (pairs[0][0], pairs[0][0].keys)


def test_transpose():
    outer, inner = tree.structure([0, 0]), tree.structure({"x": 0, "y": (0,)})
    rows = [{"x": 1, "y": (2,)}, {"x": 3, "y": (4,)}]
    turned = tree.transpose(outer, inner, rows)
    assert turned == {"x": [1, 3], "y": ([2, 4],)}
    assert tree.transpose(inner, outer, turned) == rows
    with pytest.raises(TreeMismatchError, match="does not have the outer structure: expected a"):
        tree.transpose(outer, inner, rows[0])
    with pytest.raises(TreeMismatchError, match="does not have the inner structure"):
        tree.transpose(outer, inner, [rows[0], {"x": 1}])


def test_broadcast():
    assert tree.broadcast(1, {"a": 2, "b": (3, 4)}) == {"a": 1, "b": (1, 1)}
    assert tree.broadcast((1, None), ([5, 6], 7), lambda node: node is None) == ([1, 1], None)
    with pytest.raises(TreeMismatchError):
        tree.broadcast({"a": 1}, {"b": 2})


def test_partial():
    line = tree.Partial(max, 3.0, key=abs)
    assert line(-5.0) == -5.0
    assert tree.leaves(tree.Partial(max, 3.0, (1.0, 2.0))) == [3.0, 1.0, 2.0]
    doubled = tree.map(lambda x: 2 * x, tree.Partial(max, 3.0, 1.0))
    assert doubled() == 6.0
    assert isinstance(doubled, tree.Partial)
    assert tree.structure(tree.Partial(max, 1.0)) == tree.structure(tree.Partial(max, 2.0))
    assert tree.structure(tree.Partial(max, 1.0)) != tree.structure(tree.Partial(min, 1.0))
