"""Reference implementations of the library routines with NumPy and SciPy, on host memory."""

import ctypes
import itertools
from types import SimpleNamespace

import numpy as np
import scipy.linalg.lapack

from tests.run.cuda.libraries.memory import BY_LETTER, DTYPES, HEURISTIC, apart

SCALED = 48
"""Bytes of workspace that the stub's algorithms and plans ask for."""


class Done:
    """What the libraries have in common: handles that live until they are destroyed."""

    numbers = itertools.count(1000)

    def __init__(self, machine):
        self.machine = machine
        self.memory = machine.memory
        self.live = {}

    def new(self, **state):
        handle = next(Done.numbers)
        self.live[handle] = SimpleNamespace(stream=0, context=self.machine.context, **state)
        return handle

    def create(self):
        return self.new()

    def destroy(self, handle):
        assert self.live.pop(handle).context == self.machine.context, "another context"

    def set_stream(self, handle, stream):
        self.live[handle].stream = stream

    def on_stream(self, handle):
        assert self.live[handle].stream in self.machine.streams, "another stream"
        assert self.live[handle].context == self.machine.context, "another context"

    def number(self, address, dtype, index=0):
        """A number on the host."""
        dtype = np.dtype(dtype)
        kind = (ctypes.c_ubyte * dtype.itemsize).from_address(address + index * dtype.itemsize)
        return np.frombuffer(kind, dtype)[0]


SIZES = {
    "TRANSA": 4, "TRANSB": 4, "BATCH_COUNT": 4, "STRIDED_BATCH_OFFSET": 8,
    "MAX_WORKSPACE_BYTES": 8, "MIN_ALIGNMENT_A_BYTES": 4, "MIN_ALIGNMENT_B_BYTES": 4,
    "MIN_ALIGNMENT_C_BYTES": 4, "MIN_ALIGNMENT_D_BYTES": 4,
}  # fmt: skip
"""The bytes of cuBLASLt's attributes."""


class Light(Done):
    """cuBLASLt."""

    def matmul_desc_create(self, compute, scale):
        pairs = {("COMPUTE_32F", "CUDA_R_32F"), ("COMPUTE_32F_FAST_TF32", "CUDA_R_32F"),
                 ("COMPUTE_64F", "CUDA_R_64F")}  # fmt: skip
        assert (compute.name, scale.name) in pairs
        return self.new(compute=compute, scale=scale, attributes={"TRANSA": 0, "TRANSB": 0})

    def matrix_layout_create(self, kind, rows, columns, leading):
        assert rows > 0 and columns > 0, "cuBLASLt takes no empty matrices"
        assert leading >= rows, "a leading dimension is too small"
        batch = {"BATCH_COUNT": 1, "STRIDED_BATCH_OFFSET": 0}
        return self.new(
            dtype=DTYPES[kind], rows=rows, columns=columns, leading=leading, attributes=batch
        )

    def matmul_preference_create(self):
        names = [f"MIN_ALIGNMENT_{one}_BYTES" for one in "ABCD"]
        return self.new(attributes={"MAX_WORKSPACE_BYTES": 0, **dict.fromkeys(names, 256)})

    def _set(self, handle, attribute, address, size):
        assert size == SIZES[attribute.name]
        value = self.number(address, np.int32 if size == 4 else np.int64)
        assert attribute.name in self.live[handle].attributes
        self.live[handle].attributes[attribute.name] = int(value)

    matmul_desc_set_attribute = matrix_layout_set_attribute = _set
    matmul_preference_set_attribute = _set
    matmul_desc_destroy = matrix_layout_destroy = matmul_preference_destroy = Done.destroy

    def matmul_algo_get_heuristic(self, handle, *rest):
        assert handle in self.live
        operation, a, b, c, d, preference, wanted, results, count = rest
        aligned = self.live[preference].attributes
        assert aligned["MAX_WORKSPACE_BYTES"] >= SCALED and wanted == 1
        # what is added to and what is made are the same memory here
        assert aligned["MIN_ALIGNMENT_C_BYTES"] == aligned["MIN_ALIGNMENT_D_BYTES"]
        found = np.zeros(1, HEURISTIC)
        found["algo"]["data_"][0, :5] = operation, a, b, c, d
        alignments = [aligned[f"MIN_ALIGNMENT_{one}_BYTES"] for one in "ABC"]
        found["algo"]["data_"][0, 5:] = alignments
        found["workspace_size"] = SCALED
        ctypes.memmove(results, found.ctypes.data, found.nbytes)
        ctypes.memmove(count, np.ones(1, np.int32).ctypes.data, 4)

    def matmul(self, handle, *rest):
        (operation, alpha, a, a_is, b, b_is, beta, c, c_is, d, d_is, algorithm, room, size,
         stream) = rest  # fmt: skip
        assert handle in self.live and stream in self.machine.streams
        words = [int(self.number(algorithm, np.uint64, i)) for i in range(8)]
        assert words[:5] == [operation, a_is, b_is, c_is, d_is], "chosen for another problem"
        for address, alignment in zip((a, b, c), words[5:], strict=True):
            assert address % alignment == 0, "less aligned than promised"
        assert size >= SCALED and room % 256 == 0 and c == d and c_is == d_is
        self.memory.bytes(room, size)[...] = 0xFF
        flags, scale = self.live[operation].attributes, DTYPES[self.live[operation].scale]
        alpha, beta = self.number(alpha, scale), self.number(beta, scale)
        layouts = [self.live[one] for one in (a_is, b_is, c_is)]
        batches = [one.attributes["BATCH_COUNT"] for one in layouts]
        assert len(set(batches)) == 1
        for number in range(batches[0]):
            first, second, result = (
                self.memory.matrix(
                    address
                    + number * one.attributes["STRIDED_BATCH_OFFSET"] * one.dtype.itemsize,
                    one.rows, one.columns, one.leading, one.dtype,
                )
                for address, one in zip((a, b, c), layouts, strict=True)
            )  # fmt: skip
            apart(result, first, second)
            first = first.T if flags["TRANSA"] else first
            second = second.T if flags["TRANSB"] else second
            assert first.shape[1] == second.shape[0]
            assert (first.shape[0], second.shape[1]) == result.shape
            product = alpha * (first.astype(scale) @ second.astype(scale))
            result[...] = product if beta == 0 else product + beta * result.astype(scale)


class Blas(Done):
    """cuBLAS. Functions of a letter are found by the rest of their names."""

    def __getattr__(self, name):
        general = getattr(self, f"_{name[1:]}", None)
        if name.startswith("_") or name[0] not in BY_LETTER or general is None:
            raise AttributeError(name)
        return lambda handle, *rest: (
            self.on_stream(handle), general(BY_LETTER[name[0]], *rest)
        )[1]  # fmt: skip

    def set_workspace(self, handle, workspace, nbytes):
        self.live[handle].workspace = workspace, nbytes

    def set_stream(self, handle, stream):
        super().set_stream(handle, stream)
        self.live[handle].workspace = None

    def scal_ex_64(self, handle, n, alpha, alpha_type, x, x_type, step, execution):
        self.on_stream(handle)
        assert alpha_type == execution and step == 1
        array = self.memory.array(x, n, DTYPES[x_type])
        array[...] = (self.number(alpha, DTYPES[alpha_type]) * array).astype(array.dtype)

    def _triangle(self, dtype, uplo, diag, n, a, lda):
        whole = self.memory.matrix(a, n, n, lda, dtype)
        part = np.triu(whole) if uplo.name == "UPPER" else np.tril(whole)
        if diag.name == "UNIT":
            np.fill_diagonal(part, 1)
        return part, whole

    def _trsm_64(self, dtype, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb):
        left = side.name == "LEFT"
        part, whole = self._triangle(dtype, uplo, diag, m if left else n, a, lda)
        part = part if trans.name == "N" else part.T
        result = self.memory.matrix(b, m, n, ldb, dtype)
        apart(result, whole)
        right = self.number(alpha, dtype) * result
        solved = np.linalg.solve(part, right) if left else np.linalg.solve(part.T, right.T).T
        result[...] = solved

    def _trsv_64(self, dtype, uplo, trans, diag, n, a, lda, x, step):
        part, whole = self._triangle(dtype, uplo, diag, n, a, lda)
        flat = self.memory.array(x, (n - 1) * step + 1, dtype)[::step]
        apart(flat, whole)
        flat[...] = np.linalg.solve(part if trans.name == "N" else part.T, flat)

    def _geam_64(self, dtype, first, second, m, n, alpha, a, lda, beta, b, ldb, c, ldc):
        shape = (m, n) if first.name == "N" else (n, m)
        one, result = (
            self.memory.matrix(a, *shape, lda, dtype),
            self.memory.matrix(c, m, n, ldc, dtype),
        )
        apart(result, one)
        assert self.number(beta, dtype) == 0 and (b, ldb, second.name) == (c, ldc, "N")
        result[...] = self.number(alpha, dtype) * (one if first.name == "N" else one.T)

    def _packed(self, uplo, n):
        """Rows and columns of the elements of a triangle, column by column."""
        upper = uplo.name == "UPPER"
        columns, rows = np.tril_indices(n) if upper else np.triu_indices(n)
        return rows, columns

    def _trttp(self, dtype, uplo, n, a, lda, packed):
        whole = self.memory.matrix(a, n, n, lda, dtype)
        target = self.memory.array(packed, n * (n + 1) // 2, dtype)
        target[...] = whole[self._packed(uplo, n)]

    def _tpttr(self, dtype, uplo, n, packed, a, lda):
        source = self.memory.array(packed, n * (n + 1) // 2, dtype)
        self.memory.matrix(a, n, n, lda, dtype)[self._packed(uplo, n)] = source


class Solver(Done):
    """cuSOLVER. What of LAPACK SciPy has, is its own."""

    def create_params(self):
        return self.new()

    destroy_params = Done.destroy

    def _info(self, address, value):
        self.memory.array(address, 1, np.int32)[0] = value

    def _lapack(self, dtype, name):
        return getattr(scipy.linalg.lapack, ("s" if dtype.itemsize == 4 else "d") + name)

    def _rooms(self, device, on_device, host, on_host):
        assert (on_device, on_host) == (SCALED, SCALED), "not what was asked for"
        self.memory.bytes(device, on_device)[...] = 0xFF
        ctypes.memset(host, 0xFF, on_host)

    def xpotrf_buffer_size(self, *problem):
        return SCALED, SCALED

    xsyevd_buffer_size = xgeqrf_buffer_size = xpotrf_buffer_size

    def xpotrf(self, handle, parameters, uplo, n, kind, a, lda, compute, *rest):
        self.on_stream(handle)
        assert parameters in self.live and kind == compute
        self._rooms(*rest[:4])
        whole = self.memory.matrix(a, n, n, lda, DTYPES[kind])
        lower = uplo.name == "LOWER"
        factor, info = self._lapack(whole.dtype, "potrf")(whole, lower=lower, clean=0)
        where = np.tril_indices(n) if lower else np.triu_indices(n)
        whole[where] = factor[where]
        self._info(rest[4], info)

    def _getrf_buffer_size(self, handle, m, n, a, lda):
        return SCALED

    sgetrf_buffer_size = dgetrf_buffer_size = _getrf_buffer_size

    def _getrf(self, dtype, handle, m, n, a, lda, room, pivots, info):
        self.on_stream(handle)
        self.memory.array(room, SCALED, dtype)[...] = np.nan
        whole = self.memory.matrix(a, m, n, lda, dtype)
        whole[...], found, status = self._lapack(dtype, "getrf")(whole)
        self.memory.array(pivots, min(m, n), np.int32)[...] = found + 1
        self._info(info, status)

    def sgetrf(self, *rest):
        self._getrf(BY_LETTER["s"], *rest)

    def dgetrf(self, *rest):
        self._getrf(BY_LETTER["d"], *rest)

    def _getrs(self, dtype, handle, trans, n, columns, a, lda, pivots, b, ldb, info):
        self.on_stream(handle)
        whole = self.memory.matrix(a, n, n, lda, dtype)
        right = self.memory.matrix(b, n, columns, ldb, dtype)
        apart(right, whole)
        found = self.memory.array(pivots, n, np.int32) - 1
        flag = int(trans.name == "T")
        right[...], status = self._lapack(dtype, "getrs")(whole, found, right, trans=flag)
        self._info(info, status)

    def sgetrs(self, *rest):
        self._getrs(BY_LETTER["s"], *rest)

    def dgetrs(self, *rest):
        self._getrs(BY_LETTER["d"], *rest)

    def xgeqrf(self, handle, parameters, m, n, kind, a, lda, kind_tau, tau, compute, *rest):
        self.on_stream(handle)
        assert parameters in self.live and kind == kind_tau == compute
        self._rooms(*rest[:4])
        whole = self.memory.matrix(a, m, n, lda, DTYPES[kind])
        whole[...], scales, _, info = self._lapack(whole.dtype, "geqrf")(whole)
        self.memory.array(tau, min(m, n), whole.dtype)[...] = scales
        self._info(rest[4], info)

    def sorgqr_buffer_size(self, handle, m, n, k, a, lda, tau):
        return SCALED

    dorgqr_buffer_size = sorgqr_buffer_size

    def _orgqr(self, dtype, handle, m, n, k, a, lda, tau, room, size, info):
        self.on_stream(handle)
        assert m >= n >= k > 0 and size == SCALED
        self.memory.array(room, size, dtype)[...] = np.nan
        whole = self.memory.matrix(a, m, n, lda, dtype)
        scales = self.memory.array(tau, k, dtype)
        whole[...], _, status = self._lapack(dtype, "orgqr")(whole, scales)
        self._info(info, status)

    def sorgqr(self, *rest):
        self._orgqr(BY_LETTER["s"], *rest)

    def dorgqr(self, *rest):
        self._orgqr(BY_LETTER["d"], *rest)

    def xsyevd(self, handle, parameters, job, uplo, n, kind, a, lda, kind_w, w, compute, *rest):
        self.on_stream(handle)
        assert parameters in self.live and kind == kind_w == compute
        self._rooms(*rest[:4])
        whole = self.memory.matrix(a, n, n, lda, DTYPES[kind])
        values, vectors = np.linalg.eigh(whole, uplo.name[0])
        self.memory.array(w, n, whole.dtype)[...] = values
        whole[...] = vectors if job.name == "VECTOR" else np.nan
        self._info(rest[4], 0)

    def xgesvd_buffer_size(self, *problem):
        return SCALED, SCALED

    def xgesvd(self, handle, parameters, job_u, job_v, m, n, kind, a, lda, kind_s, s, kind_u, u,
               ldu, kind_v, vt, ldvt, compute, *rest):  # fmt: skip
        self.on_stream(handle)
        assert parameters in self.live and kind == kind_s == kind_u == kind_v == compute
        assert m >= n, "cuSOLVER's gesvd takes no wide matrices"
        assert job_u == job_v and chr(job_u) in "ASN" and min(ldu, ldvt) >= 1
        self._rooms(*rest[:4])
        whole = self.memory.matrix(a, m, n, lda, DTYPES[kind])
        left, values, right = np.linalg.svd(whole, full_matrices=chr(job_u) == "A")
        whole[...] = np.nan
        self.memory.array(s, n, whole.dtype)[...] = values
        if chr(job_u) != "N":
            self.memory.matrix(u, *left.shape, ldu, whole.dtype)[...] = left
            self.memory.matrix(vt, n, n, ldvt, whole.dtype)[...] = right
        self._info(rest[4], 0)


LETTERS = {"C2C": "FF", "Z2Z": "DD", "R2C": "fF", "C2R": "Ff", "D2Z": "dD", "Z2D": "Dd"}
"""The dtypes before and after, of cuFFT's transforms."""


class Fourier(Done):
    """cuFFT. Real numbers begin where complex ones could, and complex input of C2R is destroyed."""

    def set_auto_allocation(self, plan, automatic):
        self.live[plan].automatic = automatic
        self.live[plan].room = 0

    def make_plan_many64(self, plan, rank, points, given, step, before, made, leap, after, kind,
                         count):  # fmt: skip
        assert self.live[plan].automatic == 0 and rank == 1 and count > 0 and points[0] > 0
        half = points[0] // 2 + 1
        assert given[0] == (half if kind.name in ("C2R", "Z2D") else points[0])
        assert made[0] == (half if kind.name in ("R2C", "D2Z") else points[0])
        self.live[plan].__dict__.update(
            kind=kind.name, points=points[0], given=(given[0], step, before),
            made=(made[0], leap, after), count=count,
        )  # fmt: skip
        return SCALED

    def set_work_area(self, plan, room):
        self.live[plan].room = room

    def _lines(self, plan, address, side, letter):
        numbers, step, apart_ = side
        dtype = {"F": np.complex64, "D": np.complex128, "f": np.float32, "d": np.float64}[letter]
        span = (self.live[plan].count - 1) * apart_ + (numbers - 1) * step + 1
        unit = np.dtype(dtype).itemsize * (2 if letter in "fd" else 1)
        assert address % unit == 0, "no complex number could begin here"
        flat = self.memory.bytes(address, span * np.dtype(dtype).itemsize).view(dtype)
        strides = apart_ * flat.itemsize, step * flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (self.live[plan].count, numbers), strides)

    def _exec(self, kind, plan, x, y, direction=0):
        self.on_stream(plan)
        one = self.live[plan]
        assert one.kind == kind
        self.memory.bytes(one.room, SCALED)[...] = 0xFF
        letters = LETTERS[kind]
        source = self._lines(plan, x, one.given, letters[0])
        target = self._lines(plan, y, one.made, letters[1])
        if x != y:
            apart(target, source)
        if letters[0] in "fd":
            target[...] = np.fft.rfft(source)
        elif letters[1] in "fd":
            kept = source.copy()
            source[...] = np.nan
            alone = kept[:, [0, *([-1] if one.points % 2 == 0 else [])]]
            assert not alone.imag.any(), "what cuFFT makes of these is nowhere said"
            target[...] = np.fft.irfft(kept, one.points) * one.points
        else:
            assert direction in (-1, 1)
            way = np.fft.fft if direction == -1 else np.fft.ifft
            target[...] = way(source) * (1 if direction == -1 else one.points)

    def __getattr__(self, name):
        if name.startswith("exec_"):
            return lambda *rest: self._exec(name[5:].upper(), *rest)
        raise AttributeError(name)
