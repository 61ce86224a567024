"""Devices: the available ones, and transfers of arrays to them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from functrans.lazily import lazy
from functrans.tracebacks import boundary

_count = lazy("functrans.run.cuda.driver:count")
_named = lazy("functrans.run.cuda.driver:named_stream")
_put = lazy("functrans.run.cuda.placement:put_leaves")


def devices() -> tuple[str, ...]:
    """Return the names of the available devices.

    Returns
    -------
    tuple of str
        ``"cpu"``, and ``"cuda:0"``, ``"cuda:1"``, ... for NVIDIA GPUs. If a package that is needed
        to use a GPU is missing, no GPU is listed, and ``functrans.device_put(x, "cuda")`` raises an
        error that names the package.

    Examples
    --------
    >>> import functrans
    >>> functrans.devices()[0]
    'cpu'
    """
    return "cpu", *(f"cuda:{ordinal}" for ordinal in range(_count()))


@boundary
def device_put(x: Any, device: str = "cuda:0") -> Any:
    """Put arrays on a device.

    Functions with arguments on a GPU run there, and return arrays there. Put arrays that are used
    repeatedly (parameters, data) there once.

    Parameters
    ----------
    x : pytree
        Its leaves are arrays or numbers: NumPy's, device arrays, or arrays of other packages on a
        GPU (CuPy, PyTorch), which are not copied if they are on that device already. These must be
        C-contiguous, and must not be written to as long as the result is in use.
    device : str
        ``"cuda:0"``, ``"cuda:1"``, ...; ``"cuda"`` is the first. Or ``"cpu"``: then the leaves of
        the result are NumPy arrays.

    Returns
    -------
    pytree
        The same structure with device arrays as leaves, of the shapes and dtypes that
        ``np.asarray`` gives. An array that is on the device already is returned itself.

    Raises
    ------
    DeviceError
        If the device does not exist, or a package that is needed to use it is missing.
    DeviceMemoryError
        If the device has too little free memory.
    DtypeError
        If a leaf is not an array of bools, integers, floats or complex numbers.
    ShapeError
        If an array of another package is not C-contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> batch = {"x": np.ones((2, 3)), "y": [1.0, 2.0]}
    >>> there = functrans.device_put(batch, functrans.devices()[-1])  # a GPU, if there is one
    >>> np.asarray(there["x"]).sum()
    np.float64(6.0)
    >>> functrans.device_put(there, "cpu")["y"]
    [array(1.), array(2.)]
    """
    return _put(x, device)


def cuda_stream(name: str) -> AbstractContextManager[None]:
    """Queue GPU work on a named stream, inside a ``with`` block.

    Work that the calling thread starts inside the block is not ordered with work outside, or on
    streams of other names, and may run at the same time. A stream that uses a result of another
    stream waits for it on the device, by an event. Memory is reused only when all streams have
    finished with it.

    Parameters
    ----------
    name : str
        Each thread has a stream of that name on each device, which is created on first use, and
        kept.

    Returns
    -------
    context manager

    Raises
    ------
    DeviceError
        If the name is not a nonempty string.

    Examples
    --------
    >>> import numpy as np
    >>> import functrans
    >>> with functrans.cuda_stream("copies"):  # the next batch, while this one is worked on
    ...     following = functrans.device_put(np.ones(3), functrans.devices()[-1])
    """
    return _named(name)
