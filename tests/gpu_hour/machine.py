"""The device of the cases: this machine's first GPU, or a stand-in with emulated kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import functrans
from functrans.run.cuda import launches
from functrans.run.cuda.driver import driver
from functrans.run.cuda.libraries.bindings import are_installed
from tests.gpu_hour.cases import Cannot, Here
from tests.run.cuda import emulated
from tests.run.cuda.conftest import close

DEVICE = "cuda:0"


@contextmanager
def device(here: Here, libraries: bool = False) -> Iterator[None]:
    """The GPU of a case. A stand-in is new for each, and finds what is never freed."""
    if not here.stand_in:
        if libraries and not are_installed():
            raise Cannot("functrans[cuda-linalg] is not installed")
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        if libraries:
            # kernels do not know what a library has written, nor are its calls captured there
            patch.setattr(emulated, "_written", lambda block: np.ones(block.nbytes, bool))
            patch.setattr(launches, "WORTH_A_GRAPH", 1 << 30)
        made = emulated.emulated_libraries if libraries else emulated.emulated_gpu
        with made(patch) as gpu:
            yield
            functrans.clear_caches()
            close(gpu)


def is_well() -> bool:
    """Whether the GPU still answers: after some errors it refuses all that a process asks."""
    try:
        gc.collect()
        there = driver(DEVICE)
        there.stream()
        there.synchronize()
        return bool((np.asarray(functrans.device_put(np.arange(9), DEVICE)) == np.arange(9)).all())
    except Exception:
        return False
