"""The functions of `scipy.signal` under its names, for arrays and for traced values.

Functions that design filters, and others of `FROM_SOURCE`, run from SciPy's source.
"""

from functrans.scipy.entries import namespace as _namespace
from functrans.scipy.signal.convolution import *  # noqa: F403
from functrans.scipy.signal.convolution import __all__ as _convolution
from functrans.scipy.signal.filters import *  # noqa: F403
from functrans.scipy.signal.filters import __all__ as _filters
from functrans.scipy.signal.polyphase import *  # noqa: F403
from functrans.scipy.signal.polyphase import __all__ as _polyphase
from functrans.scipy.signal.responses import *  # noqa: F403
from functrans.scipy.signal.responses import __all__ as _responses
from functrans.scipy.signal.roots import *  # noqa: F403
from functrans.scipy.signal.roots import __all__ as _roots
from functrans.scipy.signal.spectra import *  # noqa: F403
from functrans.scipy.signal.spectra import __all__ as _spectra

__all__ = [*_convolution, *_filters, *_responses, *_polyphase, *_roots, *_spectra]

__getattr__, __dir__ = _namespace("signal", __all__)
