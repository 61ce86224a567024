"""Exceptions about devices: what is not there, and what there is no room for."""

from functrans.errors.base import FunctransError


class DeviceError(FunctransError, RuntimeError):
    """A device is not there, or cannot be used: the message says what is missing.

    That may be a package, NVIDIA's driver, a GPU, or a GPU of that number; or something has gone
    wrong on the GPU.

    Fails::

        device_put(x, "cuda:99")

    Fix::

        device_put(x, devices()[-1])        # one that is there: "cpu" always is
    """


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no room for an array, or for what a program needs meanwhile.

    Fails::

        [device_put(batch) for batch in batches]

    Fix::

        [np.asarray(device_put(batch)).sum() for batch in batches]      # one at a time
    """
