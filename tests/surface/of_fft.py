"""Calls of `numpy.fft`'s functions."""

import numpy as np

NAME = "numpy.fft"
THEIRS = {"np": np}
OURS = {"np": np}

CALLS = """
np.fft.fft(x)  np.fft.fft2(m)  np.fft.fftn(m)  np.fft.ifft(x)  np.fft.ifft2(m)  np.fft.ifftn(m)
np.fft.rfft(x)  np.fft.rfft2(m)  np.fft.rfftn(m)  np.fft.irfft(x)  np.fft.irfft2(m)
np.fft.irfftn(m)  np.fft.hfft(x)  np.fft.ihfft(x)  np.fft.fftshift(x)  np.fft.ifftshift(x)
np.fft.fftfreq(5, x[0])  np.fft.rfftfreq(5, x[0])
"""

NO_ARRAYS = ""


def public():
    """Its functions."""
    return sorted(np.fft.__all__)
