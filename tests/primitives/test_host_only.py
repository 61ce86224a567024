"""The list of primitives for which compiled programs call NumPy, which may only become shorter."""

import numpy as np
import pytest

from functrans.ir.types import is_complex
from functrans.loop.target import CPU
from functrans.lower.grid.target import CUDA
from functrans.lower.select.partition import without_form
from functrans.optimise.machine.complex_parts import without_complex
from tests.primitives.harness import cases, complex_cases

# A name in both lists is NumPy's or SciPy's for numbers of both kinds.
OF_REAL_NUMBERS = """
agm airy_ai airy_aip airy_bi airy_bip airye_ai airye_aip airye_bi airye_bip
assoc_legendre_p assoc_legendre_p_norm assoc_legendre_p_norm_slope assoc_legendre_p_slope bdtr
bdtrc bdtri bdtrik bdtrin bei beip ber berp besselpoly betainc_n binom
btdtria btdtrib carlson chdtr chdtrc chdtri chdtriv chi chndtr chndtridf chndtrinc
chndtrc chndtrcix chndtrix ci cosdg cotdg dawsn effect ellipe ellipeinc ellipk
ellipkinc ellipkm1 elliprc elliprd elliprf elliprg elliprj elliptic_amplitude elliptic_cn
elliptic_dn elliptic_sn erfi eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer
eval_genlaguerre eval_hermite eval_hermitenorm eval_jacobi eval_laguerre eval_legendre
eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi eval_sh_legendre expn external fdtr
fdtrc fdtri fdtridfd first_token fresnel_c fresnel_s gammainc_n gdtr gdtrc gdtria
gdtrib gdtrix hessenberg hyp0f1 hyp1f1 hyp2f1 hyperu it2i0 it2j0 it2k0 it2struve0 it2y0 itairy_ai
itairy_bi itairy_left_ai itairy_left_bi iti0 itj0 itk0 itmodstruve0 itstruve0 ity0 iv ive jv jve
kei keip ker kerp kolmogi kolmogorov kv kve lambertw ldl library_fft log_wright_bessel
logm logm_frechet lpmv mathieu_a mathieu_b mathieu_cem mathieu_cem_slope mathieu_modcem1
mathieu_modcem1_slope mathieu_modcem2 mathieu_modcem2_slope mathieu_modsem1 mathieu_modsem1_slope
mathieu_modsem2 mathieu_modsem2_slope mathieu_sem mathieu_sem_slope matrix_balance modstruve nbdtr
nbdtrc nbdtri nbdtrik nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf
nctdtrinc nctdtrit ndtri_exp obl_ang1 obl_ang1_cv obl_ang1_cv_slope obl_ang1_slope obl_cv obl_rad1
obl_rad1_cv obl_rad1_cv_slope obl_rad1_slope obl_rad2 obl_rad2_cv obl_rad2_cv_slope obl_rad2_slope
owens_t pbdv pbdv_slope pbvv pbvv_slope pbwa pbwa_slope pdtr pdtrc pdtri pdtrik pivots_of_qr poch
polar pro_ang1 pro_ang1_cv pro_ang1_cv_slope pro_ang1_slope pro_cv pro_rad1
pro_rad1_cv pro_rad1_cv_slope pro_rad1_slope pro_rad2 pro_rad2_cv pro_rad2_cv_slope pro_rad2_slope
radian riemann_zeta shi si sindg smirnov smirnovi solve_banded solve_continuous_are
solve_discrete_are solve_sylvester spence sph_legendre_p sph_legendre_p_slope spherical_in
spherical_jn spherical_kn spherical_yn sqrtm stdtr stdtridf stdtrit struve tandg tied tklmbda
trigonometric_transform voigt_profile w_imag w_real wright_bessel wrightomega yv yve zeta
zeta_derivative zetac
""".split()

OF_COMPLEX_NUMBERS = """
argmax argmin argsort cummax cummin cumprod dawsn digamma effect
elliprc elliprd elliprf elliprg elliprj erf erfc erfcx erfi exp1 expi expm expm_frechet
first_token gamma hessenberg ldl log_ndtr log_ndtr_derivative loggamma logm logm_frechet
matrix_balance ndtr pivots_of_qr polar reduce_max reduce_min rgamma scatter_max
scatter_min scatter_multiply sinc_derivative solve_banded solve_continuous_are solve_discrete_are
solve_sylvester sort spence sqrtm tied wrightomega xlog1py xlogy
""".split()


def leaving(samples, target=CPU):
    """The primitives of which a program calls NumPy, for some sample that has elements."""
    found = set()
    for case in samples:
        if any(0 in np.shape(x) for x in case.operands) or case.primitive.higher_order:
            continue
        graph = without_complex(case.graph(), target)
        if without_form(graph, target):
            found.add(case.primitive.name)
    return found


def takes_complex(case):
    return any(is_complex(np.asarray(x).dtype) for x in case.operands)


SAMPLES = {
    "real": (lambda: [x for x in cases(np.float64).values() if not takes_complex(x)],
             OF_REAL_NUMBERS),
    "complex": (lambda: complex_cases(np.complex128).values(), OF_COMPLEX_NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLES)
def test_what_numpy_is_called_for(kind):
    samples, known = SAMPLES[kind]
    found = leaving(samples())
    assert found - set(known) == set(), "these have to be compiled, or declared here"
    assert set(known) - found == set(), "these are compiled by now: take them out"


def test_arithmetic_that_has_no_kernel_for_a_gpu_has_no_compiled_form_at_all():
    numbers = [x for x in cases(np.float64).values() if x.primitive.elementwise]
    left = leaving((x for x in numbers if not takes_complex(x)), CUDA)
    assert left == {x.primitive.name for x in numbers} & set(OF_REAL_NUMBERS)
    # NumPy's own have one, without exception: what is left is SciPy's
    assert not [name for name in left if hasattr(np, name)]
