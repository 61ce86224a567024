"""Convolutions over any number of axes, as in neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.lax.sliding import dilated, numbers, windows_over
from functrans.ops.arrays.promotion import dtype_key, result_type
from functrans.ops.arrays.shape import asarray, merged
from functrans.ops.arrays.structural import astype, reshape, transpose
from functrans.ops.convolution.convolution import convolve
from functrans.ops.convolution.windows import windows_of
from functrans.ops.indexing.views import flip
from functrans.records import NamedTuple
from functrans.trace.source import here

Axes = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """The meaning of the axes of a convolution's arrays.

    Parameters
    ----------
    lhs_spec : tuple of int
        The axes of the images: batch, features, and then the spatial ones.
    rhs_spec : tuple of int
        The axes of the kernel: output features, input features, and then the spatial ones.
    out_spec : tuple of int
        The axes of the result, in the order of those of the images.
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The axes of a convolution, from their names.

    Parameters
    ----------
    lhs_shape, rhs_shape : tuple of int
        The shapes of the images and of the kernel.
    dimension_numbers : None, tuple of three strings, or ConvDimensionNumbers
        Three strings have a letter for each axis: of the images, such as ``"NHWC"``, of the kernel,
        such as ``"HWIO"``, and of the result. ``N`` is the batch, ``C`` the features; ``O`` and
        ``I`` are the output and input features of the kernel. Other letters are spatial axes, in
        the order of the kernel. None means ``("NCHW", "OIHW", "NCHW")``.

    Returns
    -------
    ConvDimensionNumbers

    Raises
    ------
    ShapeError
        If the arrays have different numbers of axes, or the strings do not match them.

    Examples
    --------
    >>> from functrans import lax
    >>> lax.conv_dimension_numbers((8, 28, 28, 3), (5, 5, 3, 6), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape) or ndim < 2:
        raise ShapeError(
            "a convolution takes images and a kernel with the same number of axes, two of them for "
            f"batch and features: found shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}{here()}"
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        straight = tuple(range(ndim))
        return ConvDimensionNumbers(straight, straight, straight)
    if not hasattr(dimension_numbers, "__len__") or len(dimension_numbers) != 3:
        raise ShapeError(
            "dimension_numbers must be three strings, such as ('NHWC', 'HWIO', 'NHWC'), and are "
            f"{dimension_numbers!r}{here()}"
        )
    lhs, rhs, out = dimension_numbers
    spatial = [letter for letter in rhs if letter not in "OI"]
    expected = (["N", "C", *spatial], ["O", "I", *spatial], ["N", "C", *spatial])
    for text, letters, shape in zip((lhs, rhs, out), expected, (lhs_shape, rhs_shape, lhs_shape),
                                    strict=True):  # fmt: skip
        if sorted(text) != sorted(letters) or len({*text}) != len(shape):
            raise ShapeError(
                f"dimension_numbers {tuple(dimension_numbers)!r} do not name the axes of arrays "
                f"of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}{here()}: "
                f"{text!r} must have one each of {', '.join(letters)}"
            )
    specs = (
        tuple(text.index(letter) for letter in letters)
        for text, letters in zip((lhs, rhs, out), expected, strict=True)
    )
    return ConvDimensionNumbers(*specs)


def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
    precision: Any = None, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Convolve images with a kernel, with strides, padding, dilation and groups.

    As in neural networks, the kernel is not flipped: an element of the result is the sum of the
    products of the kernel with a window. (`scipy.signal` calls this a correlation.)

    Parameters
    ----------
    lhs : array
        The images: a batch, features, and any number of spatial axes (also none).
    rhs : array
        The kernel: output features, input features, and the spatial axes.
    window_strides : sequence of int
        For each spatial axis, the step by which the kernel moves.
    padding : {"SAME", "VALID", "SAME_LOWER"} or sequence of pairs
        The numbers of zeros before and after each spatial axis; negative numbers crop. ``"VALID"``
        adds none. With ``"SAME"``, the extents of the result are those of the images, divided by
        the strides and rounded up; an odd zero is added at the end, or with ``"SAME_LOWER"`` at the
        start.
    lhs_dilation, rhs_dilation : sequence of int, optional
        The spacing of the elements of the images, or of the kernel.
    dimension_numbers : optional
        The meaning of the axes, as for `conv_dimension_numbers`; None is ``("NCHW", "OIHW",
        "NCHW")``.
    feature_group_count : int, optional
        The number of groups into which the features of the images and of the result are divided;
        each group is a separate convolution. With as many groups as features it is depthwise.
    batch_group_count : int, optional
        The number of groups into which the batch and the features of the result are divided.
    precision : optional
        Has no effect: sums are in the dtype of the result.
    preferred_element_type : dtype, optional
        The dtype of the result. Sums are computed in it, or in the operands' dtype if that is
        wider.

    Returns
    -------
    array
        In the operands' common dtype.

    Raises
    ------
    ShapeError
        If axes, groups or parameters do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad, lax
    >>> images = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> kernel = np.array([[[[-1.0, 1.0]]]])
    >>> lax.conv_general_dilated(images, kernel, (2, 1), "VALID")[0, 0]
    array([[1., 1., 1.],
           [1., 1., 1.]])
    >>> grad(lambda k: lax.conv_general_dilated(images, k, (2, 1), "VALID").sum())(kernel)[0, 0]
    array([[30., 36.]])
    """
    what = "conv_general_dilated"
    x, y = asarray(lhs), asarray(rhs)
    specs = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    groups = _groups(x.shape, y.shape, specs, feature_group_count, batch_group_count)
    count = x.ndim - 2
    strides = numbers(window_strides, count, "window_strides", what)
    bases = numbers(lhs_dilation, count, "lhs_dilation", what)
    dilations = numbers(rhs_dilation, count, "rhs_dilation", what)
    extents = [x.shape[axis] for axis in specs.lhs_spec[2:]]
    taps = [y.shape[axis] for axis in specs.rhs_spec[2:]]
    windows = windows_over(extents, taps, strides, padding, bases, dilations, what)
    dtype = result_type((dtype_key(x), dtype_key(y)))
    if preferred_element_type is not None:
        wide = np.promote_types(dtype, preferred_element_type)
        x, y = astype(x, wide), astype(y, wide)
    result = _grouped(x, y, specs, groups, tuple(enumerate(windows, _FIRST_SPATIAL)))
    return result if preferred_element_type is None else astype(result, preferred_element_type)


_BATCH, _SUMMED, _FEATURES, _GROUPS, _FIRST_SPATIAL = range(5)
"""The labels of axes."""


class _Groups(NamedTuple):
    features: int
    batch: int


def _groups(
    x: Sequence[int], y: Sequence[int], specs: ConvDimensionNumbers, features: int, batch: int
) -> _Groups:
    """The numbers of groups; raises unless the shapes fit."""
    if features < 1 or batch < 1 or (features > 1 and batch > 1):
        raise ShapeError(
            "one of feature_group_count and batch_group_count may be larger than 1, and they are "
            f"{features} and {batch}{here()}"
        )
    (n_axis, c_axis), (o_axis, i_axis) = specs.lhs_spec[:2], specs.rhs_spec[:2]
    if x[c_axis] != y[i_axis] * features:
        raise ShapeError(
            f"the images have {x[c_axis]} features (axis {c_axis} of shape {tuple(x)}){here()}, "
            f"and the kernel takes {y[i_axis]} (axis {i_axis} of shape {tuple(y)})"
            + (f" in each of {features} groups" if features > 1 else "")
        )
    if y[o_axis] % (features * batch):
        raise ShapeError(
            f"the {y[o_axis]} output features of the kernel (axis {o_axis} of shape {tuple(y)})"
            f"{here()} cannot be divided into {features * batch} groups"
        )
    if x[n_axis] % batch:
        raise ShapeError(
            f"a batch of {x[n_axis]} images{here()} cannot be divided into {batch} groups"
        )
    return _Groups(features, batch)


def _grouped(x: Any, y: Any, specs: ConvDimensionNumbers, groups: _Groups, windows: Any) -> Any:
    """The convolution, with an axis of groups in all three arrays if there is more than one."""
    spatial = [label for label, _ in windows]
    count = groups.features * groups.batch
    n_axis, c_axis = specs.lhs_spec[:2]
    divided = c_axis if groups.features > 1 else n_axis
    x, x_labels = _with_groups(x, specs.lhs_spec, (_BATCH, _SUMMED, *spatial), divided, count)
    y, y_labels = _with_groups(
        y, specs.rhs_spec, (_FEATURES, _SUMMED, *spatial), specs.rhs_spec[0], count
    )
    labels = _in_place(specs.out_spec, (_BATCH, _FEATURES, *spatial))
    features = labels.index(_FEATURES)
    if count > 1:
        labels = (*labels[:features], _GROUPS, *labels[features:])
    out = convolve(x, y, (x_labels, y_labels, labels), windows)
    return out if count == 1 else merged(out, features)


def _in_place(spec: Axes, labels: Sequence[int]) -> Axes:
    """The labels in the order of an array's axes."""
    return tuple(label for _, label in sorted(zip(spec, labels, strict=True)))


def _with_groups(
    x: Any, spec: Axes, labels: Sequence[int], divided: int, count: int
) -> tuple[Any, Axes]:
    """An array with one of its axes divided into groups, and the labels of its axes."""
    ordered = _in_place(spec, labels)
    if count == 1:
        return x, ordered
    shape = (*x.shape[:divided], count, x.shape[divided] // count, *x.shape[divided + 1 :])
    return reshape(x, shape=shape), (*ordered[:divided], _GROUPS, *ordered[divided:])


def conv(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: str, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Convolve images (N, C, ...) with a kernel (O, I, ...): `conv_general_dilated` in short.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.conv(np.ones((1, 1, 4)), np.ones((1, 1, 3)), (1,), "SAME")
    array([[[2., 3., 3., 2.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    precision: Any = None, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Convolve images (N, C, ...) with a kernel (O, I, ...), with padding and dilation.

    The arguments are those of `conv_general_dilated`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> x, k = np.arange(1.0, 4.0).reshape(1, 1, 3), np.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, k, (1,), [(1, 0)], lhs_dilation=(2,))
    array([[[1., 1., 2., 2., 3.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


_CHANNELS_LAST = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"),
                  5: ("NHWDC", "HWDIO", "NHWDC")}  # fmt: skip


def conv_transpose(
    lhs: Any, rhs: Any, strides: Sequence[int], padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    transpose_kernel: bool = False, precision: Any = None, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The transposed convolution: the derivative of a convolution with respect to its images.

    Parameters
    ----------
    lhs : array
        The images.
    rhs : array
        The kernel.
    strides : sequence of int
        The factor by which the result is larger along each spatial axis.
    padding : {"SAME", "VALID"} or sequence of pairs
        With ``"SAME"``, the extents of the result are those of the images times the strides;
        ``"VALID"`` gives all elements to which the kernel contributes. Pairs are as for
        `conv_general_dilated`.
    rhs_dilation : sequence of int, optional
    dimension_numbers : optional
        As for `conv_general_dilated`; None has the features last: ``("NHWC", "HWIO", "NHWC")``.
    transpose_kernel : bool, optional
        Whether the kernel is that of the original convolution, of which this is the transpose: its
        spatial axes are flipped, and its features exchanged.
    precision : optional
        Has no effect.
    preferred_element_type : dtype, optional

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> x, k = np.array([1.0, 2.0, 3.0]).reshape(1, 3, 1), np.array([1.0, 10.0]).reshape(2, 1, 1)
    >>> lax.conv_transpose(x, k, (2,), "VALID").ravel()
    array([10.,  1., 20.,  2., 30.,  3.])
    """
    what = "conv_transpose"
    x, y = asarray(lhs), asarray(rhs)
    if dimension_numbers is None:
        dimension_numbers = _CHANNELS_LAST.get(x.ndim)
    specs = conv_dimension_numbers(x.shape, y.shape, dimension_numbers)
    count = x.ndim - 2
    strides = numbers(strides, count, "strides", what)
    dilations = numbers(rhs_dilation, count, "rhs_dilation", what)
    if transpose_kernel:
        y = flip(y, specs.rhs_spec[2:])
        first, second, *rest = specs.rhs_spec
        specs = specs._replace(rhs_spec=(second, first, *rest))
    if isinstance(padding, str):
        taps = [dilated(y.shape[axis], n) for axis, n in zip(specs.rhs_spec[2:], dilations,
                                                             strict=True)]  # fmt: skip
        padding = [_transposed_padding(padding, *each) for each in zip(taps, strides, strict=True)]
    return conv_general_dilated(
        x, y, (1,) * count, padding, strides, dilations, specs,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transposed_padding(padding: str, taps: int, stride: int) -> tuple[int, int]:
    name = padding.upper()
    if name == "SAME":
        total = taps + stride - 2
        before = taps - 1 if stride > taps - 1 else -(-total // 2)
    elif name == "VALID":
        total, before = taps + stride - 2 + max(taps - stride, 0), taps - 1
    else:
        raise ShapeError(
            "padding of conv_transpose must be 'SAME', 'VALID' or pairs (before, behind), and is "
            f"{padding!r}{here()}"
        )
    return before, total - before


def conv_general_dilated_patches(
    lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The window under a kernel of some shape, at each position, as features (im2col).

    Parameters
    ----------
    lhs : array
        The images.
    filter_shape : sequence of int
        The spatial axes of the kernel.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers : optional
        As for `conv_general_dilated`; only the spatial axes of the kernel matter.
    precision : optional
        Has no effect.
    preferred_element_type : dtype, optional
        The dtype of the result.

    Returns
    -------
    array
        With ``features * prod(filter_shape)`` features: the window of the first feature, then that
        of the second, and so on.

    Raises
    ------
    ShapeError
        If the parameters do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    array([[[0., 1., 2.],
            [1., 2., 3.]]])
    """
    what = "conv_general_dilated_patches"
    x = asarray(lhs)
    count = x.ndim - 2
    taps = numbers(filter_shape, count, "filter_shape", what)
    specs = conv_dimension_numbers(x.shape, (1,) * x.ndim, dimension_numbers)
    strides = numbers(window_strides, count, "window_strides", what)
    bases = numbers(lhs_dilation, count, "lhs_dilation", what)
    dilations = numbers(rhs_dilation, count, "rhs_dilation", what)
    axes = specs.lhs_spec[2:]
    extents = [x.shape[axis] for axis in axes]
    windows = windows_over(extents, taps, strides, padding, bases, dilations, what)
    seen = windows_of(x, axes=axes, windows=windows)
    n_axis, c_axis = specs.lhs_spec[:2]
    # batch, features, taps, and then the positions
    order = (n_axis, c_axis, *range(x.ndim, x.ndim + count), *axes)
    seen = transpose(seen, permutation=order)
    features = x.shape[c_axis] * prod(taps)
    shape = (x.shape[n_axis], features, *(seen.shape[axis] for axis in range(2 + count, seen.ndim)))
    out = reshape(seen, shape=shape)
    out = transpose(out, permutation=_in_place(specs.out_spec, range(x.ndim)))
    return out if preferred_element_type is None else astype(out, preferred_element_type)
