"""A real GPU with the interface of the stub's machine."""

import numpy as np

from functrans.caches import once
from functrans.run.cuda.libraries.bindings import bindings, checked


@once
def context_and_stream():
    """The first GPU's context, and a stream that waits for copies, for the whole process."""
    driver = bindings().driver
    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))
    checked(driver.cuCtxSetCurrent(context))
    return context, int(checked(driver.cuStreamCreate(0)))


class Device:
    """Memory of the GPU, which is freed with this object."""

    def __init__(self):
        self.bindings = bindings()
        context, self.stream = context_and_stream()
        checked(self.bindings.driver.cuCtxSetCurrent(context))
        self.memory = self
        self._blocks = []

    def __del__(self):
        checked(self.bindings.driver.cuStreamSynchronize(self.stream))
        for address in self._blocks:
            self.bindings.driver.cuMemFree(address)

    def allocate(self, nbytes):
        address = int(checked(self.bindings.driver.cuMemAlloc(nbytes)))
        self._blocks.append(address)
        checked(self.bindings.driver.cuMemsetD8(address, 0xFF, nbytes))
        return address

    def place(self, array, before=0):
        array = np.ascontiguousarray(array)
        first = before * array.itemsize
        address = self.allocate(max(first + array.nbytes, 1)) + first
        if array.nbytes:
            checked(self.bindings.driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
        return address

    def array(self, address, count, dtype):
        found = np.empty(count, dtype)
        checked(self.bindings.driver.cuStreamSynchronize(self.stream))
        if found.nbytes:
            checked(self.bindings.driver.cuMemcpyDtoH(found.ctypes.data, address, found.nbytes))
        return found
