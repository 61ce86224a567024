"""Exceptions about devices: missing or failing devices, and exhausted device memory."""

from functrans.errors.base import FunctransError


class DeviceError(FunctransError, RuntimeError):
    """A device is missing or cannot be used; the message says why.

    A package may be missing, NVIDIA's driver, any GPU, or the GPU with that number; or the GPU
    has reported a failure.

    Fails::

        device_put(x, "cuda:99")

    Fix::

        device_put(x, devices()[-1])        # one that is there: "cpu" always is
    """


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has not enough memory for an array, or for the temporaries of a program.

    Fails::

        [device_put(batch) for batch in batches]

    Fix::

        [np.asarray(device_put(batch)).sum() for batch in batches]      # one at a time
    """
