"""Control flow as operations, and sliding windows: scan, while_loop, cond, convolution, pooling.

Also slices at traced positions, and sums over segments.

Python's ``for``, ``while`` and ``if`` work in traced functions, too, if their conditions are known;
a ``for`` loop is then recorded step by step. The functions here are recorded as one operation,
whatever the number of steps.
"""

from typing import TYPE_CHECKING

from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace

if TYPE_CHECKING:
    from functrans.lax.associative import associative_scan, cumlogsumexp
    from functrans.lax.branches import cond, select, switch
    from functrans.lax.collectives import (
        all_gather,
        all_to_all,
        axis_index,
        axis_size,
        pmax,
        pmean,
        pmin,
        ppermute,
        psum,
        psum_scatter,
        pvary,
    )
    from functrans.lax.convolution import (
        ConvDimensionNumbers,
        conv,
        conv_dimension_numbers,
        conv_general_dilated,
        conv_general_dilated_patches,
        conv_transpose,
        conv_with_general_padding,
    )
    from functrans.lax.implicit import custom_linear_solve, custom_root
    from functrans.lax.loops import fori_loop, while_loop
    from functrans.lax.pooling import avg_pool, max_pool, min_pool, reduce_window
    from functrans.lax.scanning import map, scan
    from functrans.lax.slicing import (
        dynamic_index_in_dim,
        dynamic_slice,
        dynamic_slice_in_dim,
        dynamic_update_index_in_dim,
        dynamic_update_slice,
        dynamic_update_slice_in_dim,
        segment_max,
        segment_min,
        segment_prod,
        segment_sum,
    )

__all__ = [
    "ConvDimensionNumbers", "all_gather", "all_to_all", "associative_scan", "avg_pool",
    "axis_index", "axis_size", "cond", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "cumlogsumexp",
    "custom_linear_solve", "custom_root", "dynamic_index_in_dim", "dynamic_slice",
    "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "fori_loop", "map", "max_pool", "min_pool", "pmax", "pmean",
    "pmin", "ppermute", "psum", "psum_scatter", "pvary", "reduce_window", "scan", "segment_max",
    "segment_min", "segment_prod", "segment_sum", "select", "switch", "while_loop",
]  # fmt: skip

_HOME = _homes(
    {
        "functrans.lax.associative": "associative_scan cumlogsumexp",
        "functrans.lax.branches": "cond select switch",
        "functrans.lax.collectives": (
            "all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute psum psum_scatter "
            "pvary"
        ),
        "functrans.lax.convolution": (
            "ConvDimensionNumbers conv conv_dimension_numbers conv_general_dilated "
            "conv_general_dilated_patches conv_transpose conv_with_general_padding"
        ),
        "functrans.lax.implicit": "custom_linear_solve custom_root",
        "functrans.lax.loops": "fori_loop while_loop",
        "functrans.lax.pooling": "avg_pool max_pool min_pool reduce_window",
        "functrans.lax.scanning": "map scan",
        "functrans.lax.slicing": (
            "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim "
            "dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
            "segment_max segment_min segment_prod segment_sum"
        ),
    }
)

__getattr__, __dir__ = _namespace(__name__, _HOME)
