"""Special functions: those of `scipy.special`."""

from functrans.numpy.special import log_softmax, logsumexp, softmax

__all__ = ["log_softmax", "logsumexp", "softmax"]
