"""Reference convolution by Python loops over every product."""

import itertools

import numpy as np


def dilated(x, axes, steps):
    """Zeros between the elements along some axes."""
    for axis, step in zip(axes, steps, strict=True):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * step + 1 if shape[axis] else 0
        out = np.zeros(shape, x.dtype)
        out[(slice(None),) * axis + (slice(None, None, step),)] = x
        x = out
    return x


def padded(x, axes, pairs):
    """Zeros around some axes, or elements taken away where a number is negative."""
    for axis, (before, behind) in zip(axes, pairs, strict=True):
        widths = [(0, 0)] * x.ndim
        widths[axis] = max(before, 0), max(behind, 0)
        x = np.pad(x, widths)
        start, stop = max(-before, 0), x.shape[axis] - max(-behind, 0)
        x = x[(slice(None),) * axis + (slice(start, max(stop, start)),)]
    return x


def conv(x, k, strides, pairs, x_dilation, k_dilation, feature_groups=1, batch_groups=1):
    """The convolution of ``x`` (N, C, ...) with ``k`` (O, I, ...)."""
    axes = range(2, x.ndim)
    x = padded(dilated(x, axes, x_dilation), axes, pairs)
    k = dilated(k, axes, k_dilation)
    sizes = [
        max((n - m) // s + 1, 0) if n >= m else 0
        for n, m, s in zip(x.shape[2:], k.shape[2:], strides, strict=True)
    ]
    batch, features = x.shape[0] // batch_groups, k.shape[0]
    out = np.zeros((batch, features, *sizes))
    per_group = features // (feature_groups * batch_groups)
    for n, o in itertools.product(range(batch), range(features)):
        group = o // per_group
        image = x[n + batch * (group if batch_groups > 1 else 0)]
        first = k.shape[1] * (group if feature_groups > 1 else 0)
        for place in itertools.product(*map(range, sizes)):
            corner = [p * s for p, s in zip(place, strides, strict=True)]
            for c in range(k.shape[1]):
                under = tuple(slice(a, a + n) for a, n in zip(corner, k.shape[2:], strict=True))
                out[(n, o, *place)] += np.sum(image[(first + c, *under)] * k[o, c])
    return out
