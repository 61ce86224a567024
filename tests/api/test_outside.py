"""Closed-over state of jitted functions, and later changes of it."""

import _thread
import functools
import gc
import io
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tqdm import TMonitor, tqdm

from functrans import grad, jit, value_and_grad, vmap
from functrans.api import outside
from functrans.api.outside import Outside

X = np.array([1.0, 2.0, 3.0])


class Layer:
    def __init__(self, size):
        self.weights = np.full(size, 0.5)


class Model:
    offset = np.zeros(3)

    def __init__(self):
        self.weights = np.array([0.1, 0.2, 0.3])
        self.layer = Layer(3)
        self.parts = [np.ones(3), {"scale": np.array([1.0, 1.0, 2.0])}]
        self.log = []

    @property
    def squashed(self):
        return np.tanh(self.weights)

    def derived(self, x):
        return np.sum(np.exp(self.weights) * x)

    def nested(self, x):
        return np.sum(self.layer.weights * x) + np.sum(self.parts[1]["scale"] * self.parts[0] * x)

    def by_property(self, x):
        return np.sum(self.squashed * x + self.offset)

    compiled_derived, compiled_nested = jit(derived), jit(nested)
    compiled_by_property = jit(by_property)


def in_weights(model):
    model.weights -= 0.5


def in_a_layer(model):
    model.layer.weights[1] = 7.0


def in_a_container(model):
    model.parts[1]["scale"] *= -1.0


def a_new_part(model):
    model.parts[0] = np.array([3.0, 4.0, 5.0])


def of_the_class(model):
    type(model).offset += 1.0


CHANGES = [in_weights, in_a_layer, in_a_container, a_new_part, of_the_class]


@pytest.mark.parametrize("name", ["derived", "nested", "by_property"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_jitted_method_is_never_stale(name, change):
    model = Model()
    compiled = getattr(model, f"compiled_{name}")
    bound = jit(getattr(model, name))
    slope = jit(grad(getattr(model, name)))
    for _ in range(3):
        expected = getattr(model, name)(X)
        assert compiled(X) == getattr(model, f"compiled_{name}")(X) == pytest.approx(expected)
        assert bound(X) == pytest.approx(expected)
        np.testing.assert_allclose(slope(X), grad(getattr(model, name))(X))
        change(model)


def test_a_method_is_traced_again_only_if_there_is_a_change():
    traced = []

    class Counted(Model):
        def derived(self, x):
            traced.append(1)
            return super().derived(x)

    model = Counted()
    compiled = jit(model.derived)
    compiled(X), compiled(X)
    model.log.append(np.ones(2))  # which the method does not read
    compiled(X)
    assert len(traced) == 1
    model.weights[:] = 0.0
    assert compiled(X) == 6.0
    compiled(X)
    assert len(traced) == 2


WEIGHTS = np.array([1.0, -1.0, 0.5])


def helper(x):
    return np.sum(np.exp(WEIGHTS) * x)


def test_a_global_that_a_helper_reads():
    compiled = jit(lambda x: helper(x) + 1.0)
    before = WEIGHTS.copy()
    try:
        for _ in range(3):
            assert compiled(X) == pytest.approx(helper(X) + 1.0)
            WEIGHTS[0] += 1.0
    finally:
        WEIGHTS[:] = before


@pytest.mark.parametrize(
    "made_of",
    [
        jit,
        lambda f: jit(jit(f)),
        lambda f: jit(vmap(f, in_axes=0)),
        lambda f: jit(lambda x: f(x)),
        lambda f: jit(functools.partial(lambda g, x: g(x), f)),
        lambda f: lambda x: value_and_grad(lambda x: np.sum(jit(f)(x)))(x)[1],
    ],
    ids=["jit", "jit jit", "jit vmap", "closure", "partial", "jit inside of grad"],
)
def test_an_array_in_a_closure(made_of):
    scale = np.array(2.0)
    function = lambda x: x * np.sqrt(scale)  # noqa: E731
    compiled = made_of(function)
    for _ in range(3):
        expected = X * np.sqrt(scale)
        if "value_and_grad" in compiled.__code__.co_names if hasattr(compiled, "__code__") else 0:
            expected = np.full(3, np.sqrt(scale))
        np.testing.assert_allclose(compiled(X), expected)
        scale[...] += 1.0


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5.0), np.arange(5), np.zeros(0), np.array([True, False]),
        np.arange(20_000.0), np.asfortranarray(np.ones((200, 100))), np.arange(40_000.0)[::2],
        np.ones((3, 2000), np.float32).T, np.arange(9000, dtype=np.int16), np.ones(3000, "f2"),
        np.arange(3000) + 0j, np.array(["a", "bc"] * 999), np.array([{}, []], object),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)  # fmt: skip
def test_any_bit_counts(array):
    outside = Outside(lambda: array)
    state, inputs = outside.state()
    assert outside.state() == (state, inputs)
    if any(x is array for x in inputs):
        return  # it is no constant, but an argument of the program
    if array.size:
        place = tuple(n // 2 for n in array.shape)
        before = array[place]
        array[place] = "z" if array.dtype.kind == "U" else not before
        assert outside.state()[0].number != state.number
        array[place] = before


def number(outside):
    return outside.state()[0].number


def test_nan_is_no_change_and_a_sign_of_zero_or_nan_is_one():
    array, numbers = np.array([np.nan, 0.0]), [np.nan, np.ones(1), 0.0]
    outside = Outside(lambda: (array, numbers))
    before = number(outside)
    assert number(outside) == before
    numbers[2] = -0.0
    assert number(outside) != before
    numbers[2] = 0.0
    assert number(outside) == before
    for changed in (-np.nan, complex(0.0, np.nan), complex(0.0, -np.nan)):
        last, numbers[0] = number(outside), changed
        assert number(outside) not in (before, last)
    numbers[0] = np.nan
    assert number(outside) == before
    array[1] = -0.0
    assert number(outside) != before


def test_read_only_arrays_are_not_compared():
    array = np.arange(3.0)
    array.flags.writeable = False
    outside = Outside(lambda: array)
    state, inputs = outside.state()
    assert not inputs and not state.copies


@pytest.mark.dear
def test_what_knows_itself_and_what_is_deep():
    knot = [np.ones(2)]
    knot.append(knot)
    deep = []
    for _ in range(5000):
        deep = [deep, np.ones(1)]
    outside = Outside(lambda: (knot, deep))
    before = number(outside)
    assert number(outside) == before
    knot[0][0] = 3.0
    assert number(outside) != before


def test_a_name_that_is_gone_is_a_change():
    holder = Model()
    outside = Outside(lambda x: x * holder.weights)
    before = number(outside)
    del holder.weights
    assert number(outside) != before


@pytest.mark.dear
def test_an_instance_can_go():
    class Callable:
        def __init__(self):
            self.scale = np.ones(3)
            self.method, self.part = self.twice, functools.partial(self.twice)

        def twice(self, x):
            return 2.0 * x * self.scale

        @jit
        def __call__(self, x):
            return self.method(x) + self.part(x)

    one = Callable()
    assert one(1.0).tolist() == [4.0, 4.0, 4.0]
    one.scale[0] = 0.0
    assert one(1.0).tolist() == [0.0, 4.0, 4.0]
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_methods_of_parts():
    class Affine:
        def __init__(self):
            self._w = np.ones(3)

        def apply(self, x):
            return x * np.exp(self._w)

    class Net:
        def __init__(self):
            self.layers = [Affine(), Affine()]

        @jit
        def __call__(self, x):
            for layer in self.layers:
                x = layer.apply(x)
            return x

    net = Net()
    net(X)
    net.layers[1]._w[:] = 0.0
    np.testing.assert_allclose(net(X), X * np.e)


def test_threads_see_their_own_changes():
    scales = [np.array(float(i)) for i in range(4)]
    wrong = []

    def work(scale):
        compiled = jit(lambda x: x * np.sqrt(scale))
        for _ in range(20):
            scale += 1.0
            if not np.allclose(compiled(X), X * np.sqrt(scale)):
                wrong.append(float(scale))

    threads = [threading.Thread(target=work, args=(scale,)) for scale in scales]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_changes_at_each_look_is_traced_at_each_call(monkeypatch):
    """No call waits for it to come to rest."""

    class Restless:
        def __init__(self):
            self.weights = np.ones(2000)
            self.looks = 0

        def __call__(self, x):
            return np.sum(self.weights * x) + 0 * self.looks

    model, walk = Restless(), outside.Walk

    def looked(*args):
        found = walk(*args)
        model.looks += 1
        assert model.looks < 200, "a call looks again for ever"
        return found

    monkeypatch.setattr(outside, "Walk", looked)
    compiled, slope = jit(model), jit(grad(model))
    x = np.ones(2000)
    for _ in range(3):
        assert compiled(x) == model(x)
        np.testing.assert_array_equal(slope(x), model.weights)
        model.weights = model.weights + 1.0
        model.weights[0] = 7.0


def test_a_function_that_numba_has_compiled_is_one_object():
    """Its compiler hangs on it: thousands of objects, which change as it works."""
    numba = pytest.importorskip("numba")
    doubled = numba.njit(lambda a: a * 2)
    table = np.ones(3)

    @jit
    def function(x):
        return np.sum(x * doubled(table))

    assert function(np.ones(3)) == 6.0
    assert len(function._outside._walk().alive) < 50
    table[0] = 5.0
    assert function(np.ones(3)) == 14.0


@pytest.mark.parametrize("ends", [True, False])
def test_another_thread_changes_a_constant_during_a_trace(ends):
    """The program is not kept for the state that the trace began in."""
    holder = {"scale": 1.0}
    during, changed, over = threading.Event(), threading.Event(), threading.Event()

    def f(x):
        during.set()
        changed.wait(0.2)
        return holder["scale"] * x

    def meanwhile():
        while not during.is_set():  # (who waits is part of an event)
            time.sleep(0.001)
        holder["scale"] = 2.0
        changed.set()
        if not ends:
            over.wait()

    compiled = jit(f)
    threading.Thread(target=meanwhile, daemon=True).start()
    compiled(1.0)
    for scale in (2.0, 1.0, 2.0, 1.0):
        during.clear()
        changed.clear()
        holder["scale"] = scale
        for _ in range(3):
            assert compiled(1.0) == scale
    over.set()


def test_a_constant_changes_during_two_traces():
    """As by another thread: the second trace is not valid for the state that it ends in."""
    holder, over = {"scale": 1.0}, threading.Event()
    early, late = iter([2.0]), iter([None, 5.0])

    def f(x):
        holder["scale"] = next(early, holder["scale"])
        result = holder["scale"] * x
        holder["scale"] = next(late, None) or holder["scale"]
        return result

    threading.Thread(target=over.wait, daemon=True).start()
    compiled = jit(f)
    assert [compiled(1.0) for _ in range(3)] == [2.0, 5.0, 5.0]
    over.set()


def test_what_counts_its_traces_is_traced_a_few_times_where_there_are_threads():
    counter = Counter()
    compiled = jit(counter)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert [compiled(2.0) for _ in range(5)] == [4.0] * 5
    stop.set()
    thread.join()
    assert counter.calls == 4


def test_the_thread_that_redraws_progress_bars_is_no_other():
    counter = Counter()
    with tqdm(total=1, file=io.StringIO()):  # it starts with the first bar
        assert any(isinstance(thread, TMonitor) for thread in threading.enumerate())
        assert jit(counter)(2.0) == 4.0
    assert counter.calls == 1


def test_threads_that_have_ended_are_no_others():
    """Python keeps those that it has not started in its list, once they have asked who they are."""
    over = _thread.allocate_lock()
    over.acquire()

    asked = []

    def ask():
        asked.append(threading.current_thread().ident)
        over.release()

    _thread.start_new_thread(ask, ())
    assert over.acquire(timeout=10)
    number = asked.pop()
    while number in sys._current_frames():
        time.sleep(0.001)
    counter = Counter()
    compiled = jit(counter)
    assert [compiled(2.0) for _ in range(5)] == [4.0] * 5
    assert counter.calls == 1


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * 2.0


@pytest.mark.parametrize("threads", [False, True])
def test_a_function_that_counts_may_branch(threads):
    """Each path through it is traced in another state, and holds for those that it leads to."""

    class Branching(Counter):
        def __call__(self, x):
            return super().__call__(x) if x > 0 else -x

    over = threading.Event()
    if threads:
        threading.Thread(target=over.wait, daemon=True).start()
    compiled = jit(Branching())
    values = [1.0, 1.0, -1.0, -1.0, 2.0, -3.0, 3.0]
    assert [compiled(v) for v in values] == [2.0, 2.0, 1.0, 1.0, 4.0, 3.0, 6.0]
    over.set()


class Scaled(staticmethod):
    factor = 1.0

    def __get__(self, instance, kind=None):
        return lambda x: self.factor * self.__func__(x)


class Counted(weakref.ref):
    factor = 1.0


class Wrappers:
    doubled = Scaled(lambda x: 2.0 * x)
    plain = staticmethod(lambda x: 3.0 * x)
    shift = 1.0

    @classmethod
    def shifted(cls, x):
        return x + cls.shift


def test_static_methods_and_weak_references_of_classes_with_attributes(monkeypatch):
    model = Wrappers()
    reference = Counted(model)

    def f(x):
        here = reference()
        return reference.factor * (here.doubled(x) + here.plain(x) + here.shifted(x))

    compiled = jit(f)
    np.testing.assert_array_equal(compiled(X), f(X))
    for changed, name, value in (
        (vars(Wrappers)["doubled"], "factor", 5.0),
        (Scaled, "factor", 7.0),
        (reference, "factor", 2.0),
        (Wrappers, "shift", 4.0),
        (Wrappers, "plain", staticmethod(lambda x: -x)),
        (Wrappers, "shifted", classmethod(lambda cls, x: x)),
    ):
        monkeypatch.setattr(changed, name, value, raising=False)
        np.testing.assert_array_equal(compiled(X), f(X))
