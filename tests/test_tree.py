"""Pytrees: order, paths, raveling, registration, and reports of differences."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functrans import grad, jit, tree
from functrans.errors import (
    DtypeError,
    RegistrationError,
    ShapeError,
    StaticArgumentError,
    TreeMismatchError,
)
from functrans.tree import core

Point = namedtuple("Point", ["x", "y"])


@tree.register_dataclass(static="name")
@dataclass(frozen=True, slots=True)
class Layer:
    weight: object
    bias: object = 0.0
    name: str = "linear"
    scale: object = field(default=1, metadata={"static": True})


class Pair:
    """Registered without names for its children."""

    def __init__(self, a, b):
        self.a, self.b = a, b


tree.register(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))

scalars = st.integers() | st.floats(allow_nan=False) | st.text(max_size=2)
trees = st.recursive(
    scalars | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda t: Point(*t))
        | st.tuples(inner, inner).map(lambda t: Layer(*t))
    ),
    max_leaves=8,
)


# ---- flatten and unflatten ----------------------------------------------------------------------


@given(trees)
def test_unflatten_undoes_flatten(t):
    leaves, structure = tree.flatten(t)
    assert tree.unflatten(structure, leaves) == t
    assert structure.num_leaves == len(leaves) == len(tree.paths(t))


@given(trees)
def test_a_path_is_what_gets_at_its_leaf(t):
    for path, leaf in zip(tree.paths(t), tree.leaves(t), strict=True):
        assert eval(f"t{path}", {"t": t}) is leaf


def test_leaves_of_a_dict_come_by_sorted_key_and_it_keeps_its_own_order():
    t = {"b": 1, "a": 2, 3: 0}  # keys of two types can be sorted too
    assert tree.leaves(t) == [0, 2, 1]
    assert list(tree.map(lambda x: x, t)) == ["b", "a", 3]
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 1, "b": 2})
    assert hash(tree.structure({"b": 1, "a": 2})) == hash(tree.structure({"a": 1, "b": 2}))


def test_an_ordered_dict_keeps_its_order():
    assert tree.leaves(OrderedDict(b=1, a=2)) == [1, 2]
    assert tree.structure(OrderedDict(b=1, a=2)) != tree.structure(OrderedDict(a=1, b=2))


def test_an_ordered_dict_whose_keys_have_moved():
    def weighted(values):
        inner = values["z"][1].values()
        return sum((i + 1) * x for i, x in enumerate([*inner, *values["w"].values()]))

    values = OrderedDict(w=OrderedDict(a=1.0, b=2.0), z=[(), OrderedDict(c=3.0, d=4.0)])
    compiled = jit(weighted)
    for moved in (values, values["w"], values["z"][1], values):
        moved.move_to_end(next(iter(moved)))
        assert compiled(values) == weighted(values)
        slopes = grad(weighted)(values)
        assert list(slopes) == list(values)
        assert list(slopes["w"]) == list(values["w"])
    moved = OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert tree.leaves(moved) == [2, 1]
    assert tree.structure(moved) == tree.structure(OrderedDict(b=0, a=0))
    assert tree.leaves([moved], is_leaf=lambda x: isinstance(x, OrderedDict)) == [moved]
    assert tree.map(lambda x, y: x - y, moved, OrderedDict(a=1, b=2)) == OrderedDict(b=0, a=0)


def test_every_builtin_container():
    t = (1, [2], {"k": 3}, Point(4, 5), None, deque([6]), defaultdict(int, k=7), OrderedDict(k=8))
    assert tree.leaves(t) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert tree.map(lambda x: x, t) == t


def test_none_has_no_leaves_and_is_part_of_the_structure():
    assert tree.flatten(None)[0] == []
    assert tree.leaves([None, 1, None]) == [1]
    assert tree.structure([None, 1]) != tree.structure([1, None])


def test_is_leaf_stops_the_descent():
    assert tree.leaves([1, None, (2, 3)], is_leaf=lambda n: n is None or isinstance(n, tuple)) == [
        1,
        None,
        (2, 3),
    ]


def test_arrays_strings_and_sets_are_leaves():
    array = np.arange(3)
    assert tree.leaves([array, "ab", {1}])[0] is array
    assert len(tree.leaves([array, "ab", {1}])) == 3


def test_unflatten_counts_the_leaves():
    structure = tree.structure({"a": (1, 2)})
    with pytest.raises(TreeMismatchError) as error:
        tree.unflatten(structure, iter([1, 2, 3]))
    assert str(error.value) == "the structure has places for 2 leaves, got 3: {'a': (*, *)}"


# ---- map ----------------------------------------------------------------------------------------


def test_map_over_several_trees():
    assert tree.map(lambda a, b: a + b, {"k": (1, 2)}, {"k": (10, 20)}) == {"k": (11, 22)}


def test_map_hands_over_what_lies_below_the_first_trees_leaves():
    state = {"w": {"mean": 1, "count": 2}}
    assert tree.map(lambda w, s: (w, s["count"]), {"w": 0}, state) == {"w": (0, 2)}


def test_map_names_the_first_difference():
    with pytest.raises(TreeMismatchError) as error:
        tree.map(max, {"a": 1, "b": (1, [2, 3])}, {"a": 1, "b": (1, (2, 3))})
    assert str(error.value) == (
        "the trees given to map differ: at ['b'][1]: expected a list of 2, found a tuple of 2"
    )


def test_map_does_not_swallow_the_functions_own_errors():
    with pytest.raises(ValueError, match=r"^mine$"):
        tree.map(lambda a, b: (_ for _ in ()).throw(ValueError("mine")), [1], [2])


def test_map_with_path():
    got = tree.map_with_path(lambda path, a, b: (path, a, b), {"k": [1, 2]}, {"k": [3, 4]})
    assert got == {"k": [("['k'][0]", 1, 3), ("['k'][1]", 2, 4)]}
    assert tree.map_with_path(lambda path, leaf: path, 1.0) == ""


# ---- paths --------------------------------------------------------------------------------------


def test_paths_read_as_code():
    t = {"params": [Layer(1.0, Point(2.0, 3.0))], 0: Pair(4.0, [5.0])}
    assert tree.paths(t) == [
        "[0][0]",
        "[0][1][0]",
        "['params'][0].weight",
        "['params'][0].bias.x",
        "['params'][0].bias.y",
    ]


# ---- prefixes -----------------------------------------------------------------------------------


def none(node):
    return node is None


@pytest.mark.parametrize(
    ("prefix", "full", "expected"),
    [
        (0, {"a": 1, "b": (2, 3)}, [0, 0, 0]),
        ({"a": 0, "b": 1}, {"a": 1, "b": (2, 3)}, [0, 1, 1]),
        (None, {"a": 1, "b": (2, 3)}, [None, None, None]),
        ((None, 0), ({"a": 1}, None), [None]),
        ((None, 0), (Layer(1.0), 2.0), [None, None, 0]),
        (Layer(0, None), Layer((1.0, 2.0), 3.0), [0, 0, None]),
        ((), (), []),
        (0, None, []),
    ],
)
def test_broadcast_prefix(prefix, full, expected):
    assert tree.broadcast_prefix(prefix, full, none) == expected


def test_without_is_leaf_a_none_in_a_prefix_covers_only_none():
    assert tree.broadcast_prefix((None, 0), (None, [1, 2])) == [0, 0]
    with pytest.raises(TreeMismatchError, match=r"at \[0\]: expected None, found a leaf"):
        tree.broadcast_prefix((None, 0), (1, 2))


@pytest.mark.parametrize(
    ("prefix", "full", "reason"),
    [
        ((0, 1), (1, 2, 3), "expected a tuple of 2, found a tuple of 3"),
        ([0, 1], (1, 2), "expected a list of 2, found a tuple of 2"),
        ((0, (1, 2)), (1, 2), "at [1]: expected a tuple of 2, found a leaf"),
        ({"a": 0}, {"a": 1, "b": 2}, "at ['b']: expected no such key, found a leaf"),
    ],
)
def test_a_prefix_that_does_not_fit(prefix, full, reason):
    with pytest.raises(TreeMismatchError) as error:
        tree.broadcast_prefix(prefix, full, none, what="in_axes")
    assert str(error.value) == f"in_axes does not fit: {reason}"


# ---- differences --------------------------------------------------------------------------------

BIG = {f"k{i}": i for i in range(9)}


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        ([1, 2], (1, 2), "expected a list of 2, found a tuple of 2"),
        ([1, 2], [1], "expected a list of 2, found a list of 1"),
        ([], 1, "expected an empty list, found a leaf"),
        (1, None, "expected a leaf, found None"),
        (None, 1, "expected None, found a leaf"),
        ((1, {"a": [1]}), (1, {"a": 1}), "at [1]['a']: expected a list of 1, found a leaf"),
        ({"a": 1}, {"b": 1}, "at ['a']: expected a leaf, found no such key"),
        ({"b": 1}, {"a": 1, "b": 1}, "at ['a']: expected no such key, found a leaf"),
        (1, {"b": 1, "a": 1}, "expected a leaf, found a dict with keys 'a', 'b'"),
        (1, {"a": 1}, "expected a leaf, found a dict with key 'a'"),
        (1, BIG, "expected a leaf, found a dict with keys 'k0', 'k1', 'k2', 'k3', 'k4', ..."),
        (Point(1, 2), (1, 2), "expected a Point, found a tuple of 2"),
        (Point([1], 2), Point(1, 2), "at .x: expected a list of 1, found a leaf"),
        (Layer(1.0), Layer((1.0, 2)), "at .weight: expected a leaf, found a tuple of 2"),
        (
            OrderedDict(b=1, a=2),
            OrderedDict(a=1, b=2),
            "expected an OrderedDict with keys 'b', 'a', found an OrderedDict with keys 'a', 'b'",
        ),
        (
            {"a": 1},
            OrderedDict(a=1),
            "expected a dict with key 'a', found an OrderedDict with key 'a'",
        ),
        (
            [Layer(1.0, name="a")],
            [Layer(1.0, name="b")],
            "at [0]: expected CustomTreeNode(Layer[('a', 1)], [*, *]), "
            "found CustomTreeNode(Layer[('b', 1)], [*, *])",
        ),
    ],
)
def test_the_first_difference_in_words(expected, found, words):
    assert tree.difference(tree.structure(expected), tree.structure(found)) == words


def test_the_words_for_a_class_that_was_defined_again():
    again = tree.register(
        type("Pair", (Pair,), {}), lambda p: ((p.a, p.b), None), lambda _, c: again(*c)
    )
    words = tree.difference(tree.structure(Pair(1, 2)), tree.structure(again(1, 2)))
    assert words.endswith(", of another class of that name")


@given(trees, trees)
def test_there_is_a_difference_exactly_where_structures_differ(a, b):
    a, b = tree.structure(a), tree.structure(b)
    assert (tree.difference(a, b) is None) == (a == b)


@given(trees, trees)
def test_there_is_a_prefix_difference_exactly_where_a_prefix_does_not_fit(a, b):
    words = tree.difference(tree.structure(a), tree.structure(b), prefix=True)
    try:
        covering = tree.broadcast_prefix(a, b)
    except TreeMismatchError as error:
        assert str(error) == f"the prefix does not fit: {words}"
    else:
        assert words is None
        assert len(covering) == len(tree.leaves(b))


def test_check_same_structure():
    a, b = tree.structure({"a": 1, "b": [2]}), tree.structure({"a": 1, "b": 2})
    tree.check_same_structure(a, a)
    with pytest.raises(TreeMismatchError) as error:
        tree.check_same_structure(a, b, what="the carry")
    assert str(error.value) == (
        "the carry has the wrong structure: at ['b']: expected a list of 1, found a leaf"
    )


# ---- ravel --------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=4), st.booleans())
def test_ravel_and_back(shapes, single):
    dtype = np.float32 if single else np.float64
    rng = np.random.default_rng(0)
    t = {i: rng.normal(size=shape).astype(dtype) for i, shape in enumerate(shapes)}
    vector, unravel = tree.ravel(t)
    assert vector.shape == (sum(x.size for x in t.values()),)
    back = unravel(vector)
    tree.check_same_structure(tree.structure(t), tree.structure(back))
    for x, y in zip(tree.leaves(t), tree.leaves(back), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("leaves", "dtype"),
    [
        ([np.float32(1), np.float32(2)], np.float32),
        ([np.float32(1), np.float64(2)], np.float64),
        ([np.float16(1), np.float32(2)], np.float32),
        ([np.float32(1), 2.0], np.float32),
        ([1.0, 2.0], np.float64),
        ([], np.float64),
    ],
)
def test_ravel_promotes_like_numpy_with_python_floats_weak(leaves, dtype):
    vector, unravel = tree.ravel(leaves)
    assert vector.dtype == dtype
    for leaf, back in zip(leaves, unravel(vector), strict=True):
        assert back.dtype == (dtype if type(leaf) is float else leaf.dtype)
        assert back.shape == ()
        assert back == leaf


def test_the_vector_does_not_share_memory_with_the_tree():
    x = np.ones(3)
    vector, _ = tree.ravel([x])
    vector[0] = 5
    assert x[0] == 1


def test_ravel_takes_row_major_order_whatever_the_memory_order():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    vector, unravel = tree.ravel(x)
    np.testing.assert_array_equal(vector, np.arange(6.0))
    np.testing.assert_array_equal(unravel(vector), x)


@pytest.mark.parametrize(
    ("leaf", "what"),
    [
        (np.arange(3), "of dtype int64"),
        (np.array([True]), "of dtype bool"),
        (3, "of type int"),
        ("w", "of type str"),
    ],
)
def test_ravel_refuses_what_has_no_derivative(leaf, what):
    with pytest.raises(DtypeError) as error:
        tree.ravel({"w": 1.0, "n": [leaf]})
    assert str(error.value) == (
        f"ravel takes floating-point leaves, but the leaf at ['n'][0] is {what}"
    )


@pytest.mark.parametrize("shape", [(3,), (5,), (4, 1), ()])
def test_unravel_refuses_another_shape(shape):
    _, unravel = tree.ravel({"w": np.ones((2, 2))})
    with pytest.raises(ShapeError, match=r"takes a vector of shape \(4,\)"):
        unravel(np.ones(shape))


def test_unravel_takes_a_list_and_casts_to_the_leafs_dtype():
    _, unravel = tree.ravel({"w": np.ones(2, np.float32)})
    assert unravel([1, 2])["w"].dtype == np.float32


# ---- registration -------------------------------------------------------------------------------


def test_a_dataclass_is_rebuilt_without_its_init():
    calls = []

    @tree.register_dataclass
    @dataclass
    class Checked:
        x: object
        double: object = field(init=False)

        def __post_init__(self):
            calls.append(self.x)
            self.double = self.x * 2

    got = tree.map(lambda leaf: f"<{leaf}>", Checked(3))
    assert (got.x, got.double, calls) == ("<3>", "<6>", [3])


def test_static_fields_are_structure():
    assert tree.leaves(Layer(1.0, 2.0, "a")) == [1.0, 2.0]
    assert tree.structure(Layer(1.0, name="a")) != tree.structure(Layer(1.0, name="b"))
    assert tree.map(lambda x: -x, Layer(1.0, 2.0, "a", 5)) == Layer(-1.0, -2.0, "a", 5)


def test_an_unhashable_static_field_is_named():
    with pytest.raises(StaticArgumentError) as error:
        tree.flatten([Layer(1.0, name=["a"])])
    assert str(error.value) == (
        "the field 'name' of Layer is static, so it must be hashable, but it is of type list; "
        "write a tuple"
    )
    with pytest.raises(StaticArgumentError, match=r"'scale' .* of type ndarray; make it a child"):
        tree.flatten(Layer(1.0, scale=np.ones(2)))


def test_a_subclass_is_a_leaf_until_it_is_registered():
    class Sub(Pair):
        pass

    assert len(tree.leaves(Sub(1, 2))) == 1


@pytest.mark.parametrize(
    ("register", "words"),
    [
        (lambda: tree.register_dataclass(int), "register_dataclass takes a dataclass, got <class"),
        (lambda: tree.register_dataclass(Layer(1.0)), "register_dataclass takes a dataclass"),
        (lambda: tree.register_dataclass(Layer), "Layer is a pytree already"),
        (lambda: tree.register(dict, list, list), "dict is a pytree already"),
        (lambda: tree.register("Layer", list, list), "only a class can be registered"),
        (
            lambda: tree.register_dataclass(Layer, static=("nane", "scale")),
            "Layer has no field 'nane' to be static; did you mean 'name'?",
        ),
        (
            lambda: tree.register_dataclass(Layer, static="zzz"),
            "Layer has no field 'zzz' to be static; its fields are ['weight', 'bias', 'name', 'sca",
        ),
    ],
)
def test_what_cannot_be_registered(register, words):
    with pytest.raises(RegistrationError) as error:
        register()
    assert str(error.value).startswith(words)


def test_a_class_registered_here_stays_a_leaf_for_other_users_of_optree():
    assert optree.tree_leaves(Pair(1, 2), namespace="another library") != [1, 2]
    assert tree.leaves(Pair(1, 2)) == [1, 2]


def test_optrees_own_functions_work_on_our_namespace():
    assert optree.tree_leaves([Pair(1, 2)], namespace=tree.NAMESPACE) == [1, 2]


@pytest.mark.parametrize("private", [None, lambda *_: ([], None), lambda tree: tree])
def test_without_the_private_function_of_optree_the_public_one_is_used(private, monkeypatch):
    assert core._quickest() is core.optree._C.flatten
    monkeypatch.setattr(core.optree, "_C", SimpleNamespace(flatten=private))
    assert core._quickest() is core._public
    values, structure = core._public({"b": [1, None], "a": 2}, None, False, core.NAMESPACE)
    assert values == [2, 1]
    assert tree.unflatten(structure, values) == {"b": [1, None], "a": 2}
