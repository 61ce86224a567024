"""Training tools in functional form: functions of functions and of pytrees.

They compose with all transforms, and have no state: the caller passes it on.
"""

from typing import TYPE_CHECKING

from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace

if TYPE_CHECKING:
    from functrans.train.accumulation import accumulate
    from functrans.train.clipping import (
        clip_by_global_norm,
        clip_by_value,
        global_norm,
        per_sample_clipped,
    )
    from functrans.train.optimisers import Optimiser, adam, apply_updates, sgd
    from functrans.train.precision import LossScale, cast, choose, loss_scale, scaled_value_and_grad
    from functrans.train.rows import Rows, value_and_row_grad

__all__ = [
    "LossScale", "Optimiser", "Rows", "accumulate", "adam", "apply_updates", "cast", "choose",
    "clip_by_global_norm", "clip_by_value", "global_norm", "loss_scale", "per_sample_clipped",
    "scaled_value_and_grad", "sgd", "value_and_row_grad",
]  # fmt: skip

__getattr__, __dir__ = _namespace(
    __name__,
    _homes(
        {
            "functrans.train.accumulation": "accumulate",
            "functrans.train.clipping": (
                "clip_by_global_norm clip_by_value global_norm per_sample_clipped"
            ),
            "functrans.train.optimisers": "Optimiser adam apply_updates sgd",
            "functrans.train.precision": "LossScale cast choose loss_scale scaled_value_and_grad",
            "functrans.train.rows": "Rows value_and_row_grad",
        }
    ),
)
