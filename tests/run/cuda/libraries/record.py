"""Records the signatures and enumerations of `nvmath.bindings` that we use.

``python -m tests.run.cuda.libraries.record`` rewrites the file, if nvmath is installed.
"""

import enum
import importlib
import json
from pathlib import Path

PATH = Path(__file__).parent / "signatures.json"

FUNCTIONS = {
    "cublas": """
        create destroy set_stream set_workspace scal_ex_64 strsm_64 dtrsm_64 strsv_64 dtrsv_64
        sgeam_64 dgeam_64 strttp dtrttp stpttr dtpttr
    """,
    "cublasLt": """
        create destroy matmul matmul_algo_get_heuristic matmul_desc_create matmul_desc_destroy
        matmul_desc_set_attribute matmul_preference_create matmul_preference_destroy
        matmul_preference_set_attribute matrix_layout_create matrix_layout_destroy
        matrix_layout_set_attribute
    """,
    "cusolver": "",
    "cusolverDn": """
        create destroy set_stream create_params destroy_params xpotrf xpotrf_buffer_size
        sgetrf sgetrf_buffer_size dgetrf dgetrf_buffer_size sgetrs dgetrs
        xgeqrf xgeqrf_buffer_size sorgqr sorgqr_buffer_size dorgqr dorgqr_buffer_size
        xsyevd xsyevd_buffer_size xgesvd xgesvd_buffer_size
    """,
    "cufft": """
        create destroy set_stream set_auto_allocation set_work_area make_plan_many64
        exec_c2c exec_z2z exec_r2c exec_d2z exec_c2r exec_z2d
    """,
}

ENUMERATIONS = {
    "cublas": "ComputeType DiagType FillMode Operation SideMode",
    "cublasLt": "MatmulDescAttribute MatmulPreferenceAttribute MatrixLayoutAttribute",
    "cusolver": "EigMode",
    "cusolverDn": "",
    "cufft": "Type",
}


def members(one):
    assert issubclass(one, enum.IntEnum)
    return {name: int(value) for name, value in one.__members__.items()}


def record():
    """What the installed nvmath says."""
    nvmath = importlib.import_module("nvmath")
    found = {}
    for module, names in FUNCTIONS.items():
        loaded = importlib.import_module(f"nvmath.bindings.{module}")
        signatures = {name: getattr(loaded, name).__doc__.split("\n")[0] for name in names.split()}
        enums = {name: members(getattr(loaded, name)) for name in ENUMERATIONS[module].split()}
        found[module] = {"functions": signatures, "enumerations": enums}
    found["cudaDataType"] = members(nvmath.CudaDataType)
    algorithm = importlib.import_module("nvmath.bindings.cublasLt").matmul_heuristic_result_dtype
    found["heuristic"] = repr(algorithm.descr)
    return found


def written():
    """What the file says."""
    return json.loads(PATH.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PATH.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
