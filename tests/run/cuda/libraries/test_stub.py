"""The stub rejects calls that the libraries would reject or compute wrongly."""

import numpy as np
import pytest

from tests.run.cuda.libraries.stub import Machine

N = 3


class Ready:
    """A machine with a handle, three matrices and a scalar."""

    def __init__(self):
        self.machine = Machine()
        self.blas = self.machine.bindings.cublas
        self.handle = self.blas.create()
        self.blas.set_stream(self.handle, self.machine.stream)
        self.a, self.b = (self.machine.memory.place(np.eye(N)) for _ in range(2))
        self.one = np.ones(1)

    def trsm(self, **changes):
        blas = self.blas
        given = {
            "handle": self.handle, "side": blas.SideMode.LEFT, "uplo": blas.FillMode.UPPER,
            "trans": blas.Operation.N, "diag": blas.DiagType.UNIT, "m": N, "n": N,
            "alpha": self.one.ctypes.data, "a": self.a, "lda": N, "b": self.b, "ldb": N,
        }  # fmt: skip
        blas.dtrsm_64(*{**given, **changes}.values())


def test_a_good_call_is_done():
    Ready().trsm()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda x: {"lda": N - 1}, "a leading dimension is too small"),
        (lambda x: {"uplo": 1}, "uplo = 1 is no"),
        (lambda x: {"uplo": x.blas.Operation.T}, "is no"),
        (lambda x: {"m": 2.0}, "m = 2.0"),
        (lambda x: {"m": 2**63}, "m = "),
        (lambda x: {"a": -8}, "a = -8"),
        (lambda x: {"b": x.a}, "overlaps an operand"),
        (lambda x: {"b": x.a + 8}, "not allocated"),
        (lambda x: {"a": x.a + 4}, "misaligned"),
        (lambda x: {"n": N + 1}, "not allocated"),
        (lambda x: {"more": 1}, "strsm_64|dtrsm_64"),
    ],
)
def test_what_is_wrong_with_a_call(changes, words):
    ready = Ready()
    with pytest.raises(AssertionError, match=words):
        ready.trsm(**changes(ready))


def test_another_stream_and_another_context():
    ready = Ready()
    ready.machine.stream += 1
    with pytest.raises(AssertionError, match="another stream"):
        ready.trsm()
    ready.machine.stream -= 1
    ready.machine.context += 1
    with pytest.raises(AssertionError, match="another context"):
        ready.trsm()


def test_a_handle_that_was_destroyed():
    ready = Ready()
    ready.blas.destroy(ready.handle)
    with pytest.raises(KeyError):
        ready.trsm()


def test_what_nvmath_does_not_have_the_stub_has_not():
    assert not hasattr(Ready().blas, "dgetri")


def test_an_algorithm_of_another_problem():
    machine = Machine()
    light, kind = machine.bindings.cublas_lt, machine.bindings.data_type.CUDA_R_64F
    handle = light.create()
    compute = machine.bindings.cublas.ComputeType.COMPUTE_64F
    first, second = (light.matmul_desc_create(compute, kind) for _ in range(2))
    layout = light.matrix_layout_create(kind, N, N, N)
    wish = light.matmul_preference_create()
    word = np.array([64], np.uint64)
    attribute = light.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
    light.matmul_preference_set_attribute(wish, attribute, word.ctypes.data, 8)
    found, count = np.zeros(1, light.matmul_heuristic_result_dtype), np.zeros(1, np.int32)
    light.matmul_algo_get_heuristic(
        handle, first, layout, layout, layout, layout, wish, 1, found.ctypes.data, count.ctypes.data
    )
    a, b, c = (machine.memory.place(np.eye(N)) for _ in range(3))
    scales, room = np.array([1.0, 0.0]), machine.memory.allocate(64)

    def matmul(operation, a=a, room=room):
        light.matmul(
            handle, operation, scales.ctypes.data, a, layout, b, layout, scales[1:].ctypes.data,
            c, layout, c, layout, found["algo"].ctypes.data, room, 64, machine.stream,
        )  # fmt: skip

    matmul(first)
    with pytest.raises(AssertionError, match="chosen for another problem"):
        matmul(second)
    with pytest.raises(AssertionError, match="less aligned than promised"):
        matmul(first, a=a + 8)
