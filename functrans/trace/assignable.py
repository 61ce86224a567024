"""Assignable arrays: plain arrays of a traced function that become traced by assignment.

``np.zeros(3)`` in a trace is an ndarray in every respect, so NumPy, SciPy and Numba can use it as
usual. When a traced value is stored in it, it becomes traced, with all its views. Since it must
remain an ndarray, it becomes a *proxy* of a tracer: every Python operation is forwarded to the
tracer, and C code, which reads an ndarray's memory, finds objects there that refuse conversion to
numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrans import config
from functrans.errors import MutationError, TracerConversionError
from functrans.ir.primitive import current
from functrans.ir.types import is_supported
from functrans.trace import protocols
from functrans.trace.operators import Operators
from functrans.trace.source import here
from functrans.trace.trace import Trace
from functrans.trace.tracer import Tracer
from functrans.trace.views import make_view

Array = np.ndarray[Any, Any]

# -- until it is assigned to -----------------------------------------------------------------------


class _AsArray(type):
    """A metaclass that makes a class equal to ``np.ndarray``, for ``type(x) == np.ndarray``."""

    def __eq__(cls, other: object) -> bool:
        return other is np.ndarray or other is cls

    def __hash__(cls) -> int:
        return hash(np.ndarray)


class Assignable(np.ndarray[Any, Any], metaclass=_AsArray):
    """An array created within a trace, to which no traced value has been assigned."""

    __array_priority__ = 0.5  # results of operations with plain arrays are Assignable, too

    _made_in: Callable[[], Trace | None]
    _views: WeakValueDictionary[int, Assignable]

    def __array_finalize__(self, source: Any) -> None:
        base = self.base
        if type(base) is Assignable:
            _add_view(_owner_of(base), self)
        elif type(base) is np.ndarray and type(source) is Assignable and base.base is None:
            # the elements at an array of indices are a copy
            _remember_maker(self)

    def __array_wrap__(
        self, result: Array, context: Any = None, return_scalar: bool = False
    ) -> Any:
        if isinstance(result, Assignable):  # out= is an Assignable
            return result
        return result[()] if return_scalar else linked(assignable(result))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # ndarray's own method makes assumptions about other subclasses
        if Proxy in types:
            return NotImplemented
        result = super().__array_function__(func, types, args, kwargs)
        if type(result) is tuple or type(result) is list:
            return type(result)(map(linked, result))
        return linked(result)

    def __getitem__(self, index: Any) -> Any:
        return _read(self, index) if loses(index) else super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if loses(value) or loses(index):
            become_traced(self)
            self[index] = value
        else:
            super().__setitem__(index, value)

    def fill(self, value: Any) -> None:
        self[...] = value

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        if loses(values) or loses(indices):
            become_traced(self)
            self.put(indices, values, mode)
        else:
            super().put(indices, values, mode)

    @property
    def flat(self) -> Any:
        return protocols.attributes["flat"](self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[...] = values

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        if loses(indices):
            traced = protocols.operators["traced"](np.array(self))
            return traced.take(indices, axis=axis, out=out, mode=mode)
        return super().take(indices, axis, out, mode)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("real", "imag") and loses(value):
            become_traced(self)
            setattr(self, name, value)
        else:
            super().__setattr__(name, value)

    def copy(self, order: Any = "C") -> Any:
        return assignable(np.array(self, order=order))

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        result = super().astype(dtype, *args, **keywords)
        return result if result is self else assignable(np.array(result, order="K"))

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy("K")

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(self).__reduce_ex__(protocol)

    def __buffer__(self, flags: int, /) -> memoryview:
        # of the base, so that buffer users are counted as references (used from Python 3.12 on)
        return memoryview(np.asarray(self))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def _making(name: str) -> Callable[..., Any]:
    """A method of arrays that creates a new array."""
    method = getattr(np.ndarray, name)

    def make(self: Assignable, *args: Any, **keywords: Any) -> Any:
        if loses(args) or loses(tuple(keywords.values())):
            return getattr(protocols.operators["traced"](np.array(self)), name)(*args, **keywords)
        own = np.asarray(self)
        result = method(own, *args, **keywords)
        return self if result is own else assignable(result)  # conj of real numbers

    make.__name__ = name
    return make


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress",
    "conj", "conjugate", "cumprod", "cumsum", "dot", "flatten", "max", "mean", "min", "prod",
    "repeat", "round", "searchsorted", "std", "sum", "take", "trace", "var",
):  # fmt: skip
    setattr(Assignable, _name, _making(_name))


def assignable(x: Any) -> Any:
    """A new array that owns its memory, as an `Assignable`."""
    trace = current.get()
    owns = type(x) is np.ndarray and x.base is None and x.flags.writeable
    if not owns or not isinstance(trace, Trace) or not (is_supported(x.dtype) and x.dtype.isnative):
        return x
    result = x.view(Assignable)
    _remember_maker(result)
    return result


def linked(x: Any) -> Any:
    """A plain array that NumPy made as a view of an `Assignable`, as an `Assignable`.

    `become_traced` makes it traced as well. Of the views of a view, it cannot count the plain ones.
    """
    owner = _owner_of(x) if type(x) is np.ndarray else x
    if owner is x:
        return x
    view = x.view(Assignable)
    _add_view(owner, view)
    return view


def _add_view(owner: Assignable, view: Assignable) -> None:
    """Record a view, unless the array is a result that never becomes traced."""
    if "_made_in" in vars(owner):
        if "_views" not in vars(owner):
            owner._views = WeakValueDictionary()
        owner._views[id(view)] = view


def held(x: Any) -> Any:
    """A read-only view of an array of another owner; arrays created from it are assignable."""
    if type(x) is np.ndarray and config.patch_numpy and is_supported(x.dtype) and x.dtype.isnative:
        x = x.view(Assignable)
    elif isinstance(x, np.ndarray) and x.flags.writeable:
        x = x.view()
    else:
        return x
    x.flags.writeable = False
    return x


def _remember_maker(x: Assignable) -> None:
    """Record the function that created an array: only that function can make it traced."""
    trace = current.get()
    if isinstance(trace, Trace):
        x._made_in = ref(trace)


def plain(x: Any) -> Any:
    """An `Assignable` as a plain ndarray; any other value unchanged."""
    return np.asarray(x) if type(x) is Assignable else x


def loses(x: Any) -> bool:
    """Whether a tracer, also in a sequence or slice, cannot be converted to a number."""
    if isinstance(x, protocols.SEQUENCES):
        return any(map(loses, x))
    if type(x) is slice:
        return loses(x.start) or loses(x.stop) or loses(x.step)
    return isinstance(x, Tracer) and not x._converts()


def _read(x: Assignable, index: Any) -> Any:
    """The elements at a traced index. If NumPy would return a view, ``x`` becomes traced."""
    numbers = protocols.operators["traced"](np.array(x))
    elements = protocols.operators["getitem"](numbers, index)
    if not isinstance(elements, Tracer) or elements._as_view is None:
        return elements
    if _made_in(_owner_of(x)) is current.get():
        become_traced(x)
        return x[index]
    numbers._argument = lambda: "an array of an enclosing function"
    return elements


# -- when it is assigned to ------------------------------------------------------------------------


def become_traced(x: Assignable) -> None:
    """Make an array traced, with all its views."""
    array = _owner_of(x)
    _check_made_here(array)
    is_shared = _references(array) != _ALONE
    memory = np.asarray(array).base
    assert memory is not None  # checked by `_check_made_here`
    views = [v for v in getattr(array, "_views", {}).values() if v is not array]
    if is_shared or any(v.dtype != memory.dtype for v in (array, *views)):
        _refuse(
            "other arrays share its memory, and would not see the assignment.\n"
            "Make them after it, or begin with a copy: a = np.array(a)."
        )
    if (array.shape, array.strides) != (memory.shape, memory.strides):
        views.append(array)  # assigning ``array.shape`` has made it a view of its memory
    numbers = np.empty_like(memory, dtype=np.int64)
    numbers[...] = np.arange(memory.size).reshape(memory.shape)
    places = [_elements(view, memory, numbers.ravel("K")) for view in views]
    writeable = [view.flags.writeable for view in views]
    tracer = protocols.operators["traced"](np.array(memory))
    tracer._is_contiguous = memory.flags.c_contiguous
    for view, own, is_writeable in zip(views, places, writeable, strict=True):
        _become_proxy(view, _view_of(tracer, own, is_writeable), memory)
    if type(array) is Assignable:
        _become_proxy(array, tracer, memory)
    if memory.dtype.kind in "fc":
        memory.fill(np.nan)  # for code that shares the memory without holding a reference


def _owner_of(x: Any) -> Any:
    """The `Assignable` that an array is a view of, or itself.

    There may be plain views in between, and what ``sliding_window_view`` makes views of.
    """
    owner, base = x, x.base
    while base is not None:
        owner = base if type(base) is Assignable else owner
        base = getattr(base, "base", None)
    return owner


def _made_in(array: Assignable) -> Trace | None:
    return vars(array).get("_made_in", lambda: None)()


def _check_made_here(array: Assignable) -> None:
    made_in = _made_in(array)
    trace = current.get()
    if made_in is None or not made_in.alive or array.base is None:
        raise TracerConversionError(
            f"assignment of a traced value{here()}: the array was not made by this "
            "function, or not by one of NumPy's functions that make arrays.\n"
            "Begin with a copy: a = np.array(a)."
        )
    if made_in is not trace:
        _refuse(
            "the array belongs to an enclosing function.\n"
            "Return the new value from the inner function instead."
        )


def _refuse(why: str) -> NoReturn:
    raise MutationError(f"assignment of a traced value{here()}: {why}")


def _references(array: Assignable) -> int:
    """The references to an array's memory: more than `_ALONE` if plain arrays share it."""
    return sys.getrefcount(array.base)


_ALONE = _references(np.empty(1).view(Assignable))


def _elements(view: Assignable, memory: Array, numbers: Array) -> Array:
    """The elements of a view, as row-major element numbers of the array.

    ``numbers`` has the number of each element, in memory order.
    """
    if view.size == 0:
        return np.zeros(view.shape, np.int64)
    start = (_address(view) - _address(memory)) // memory.itemsize
    steps = [numbers.itemsize * (stride // memory.itemsize) for stride in view.strides]
    return np.array(as_strided(numbers[start:], view.shape, steps))


def _address(x: Array) -> int:
    return x.__array_interface__["data"][0]


def _view_of(base: Tracer, places: Array, writeable: bool) -> Tracer:
    """A view of a tracer, of some of its elements."""
    getitem, setitem = protocols.operators["getitem"], protocols.operators["setitem"]

    def read(base: Any) -> Any:
        return getitem(base.flatten(), places)

    def write(base: Any, new: Any) -> Any:
        return setitem(base.flatten(), places, new).reshape(base.shape)

    return make_view(read(base), base, read, write if writeable else None, "a view")


# -- afterwards ------------------------------------------------------------------------------------


class Proxy(np.ndarray[Any, Any]):
    """An array to which a traced value was assigned: it forwards all operations to a tracer."""

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, np.ndarray):
            _tracer_of(source).__array__()

    def __getattribute__(self, name: str) -> Any:
        # also __class__, so that isinstance(x, Tracer) holds
        return getattr(_tracer_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_tracer_of(self), name, value)

    def __buffer__(self, flags: int, /) -> NoReturn:
        # its memory has the addresses of objects (used from Python 3.12 on)
        _tracer_of(self)._refuse_plain("a buffer")


def _tracer_of(proxy: Any) -> Tracer:
    return object.__getattribute__(proxy, "__dict__")["_tracer"]


def _forwarded_to_tracer(name: str) -> Callable[..., Any]:
    method = getattr(Tracer, name)

    def ask(self: Proxy, *args: Any, **keywords: Any) -> Any:
        return method(_tracer_of(self), *args, **keywords)

    ask.__name__ = name
    return ask


# in-place operators are ndarray's own, since the tracer handles ufuncs with ``out=``
_OWN = {"__class__", "__init__", "__doc__", "__module__", "__slots__", "__weakref__"}
for _name, _member in {**vars(Operators), **vars(Tracer)}.items():
    if _name.startswith("__") and callable(_member) and _name not in _OWN:
        if not (_name.startswith("__i") and f"__{_name[3:]}" in vars(Operators)):
            setattr(Proxy, _name, _forwarded_to_tracer(_name))


class _Refusal:
    """An element in the memory of a `Proxy`, which refuses conversion."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __repr__(self) -> str:
        return "traced"


def _refusing(self: _Refusal, *args: Any) -> Any:
    self.tracer._refuse_plain("a plain np.ndarray (np.asarray, or storing it in an array)")


for _name in (
    "__float__", "__int__", "__index__", "__complex__", "__bool__", "__array__", "__len__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__abs__", "__pos__",
    *(f"__{kind}{name}__" for kind in ("", "r") for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
        "lshift", "rshift", "divmod",
    )),
):  # fmt: skip
    setattr(_Refusal, _name, _refusing)


def _become_proxy(array: Assignable, tracer: Tracer, memory: Array) -> None:
    refusals = [_Refusal(tracer)] * array.size
    shape = array.shape
    array.__setstate__((1, shape, np.dtype(object), False, refusals))  # type: ignore[arg-type]
    array.flags.writeable = False  # not even through a buffer
    # the memory is kept alive, since views in C code may still refer to it
    vars(array).clear()
    vars(array).update(_tracer=tracer, _memory=memory)
    array.__class__ = Proxy  # type: ignore[assignment]
