"""Calls of `scipy.special`'s functions."""

import scipy.special

import functrans.scipy.special

NAME = "scipy.special"
THEIRS = {"special": scipy.special}
OURS = {"special": functrans.scipy.special}

CALLS = """
special.assoc_laguerre(x, 2, 0.5)  special.assoc_legendre_p(2, 1, y)
special.assoc_legendre_p_all(2, 1, y)  special.bdtr(1, 3, y)  special.bdtrc(1, 3, y)
special.bdtri(1, 3, y)  special.bdtrik(y, 3, 0.4)  special.bdtrin(1, y, 0.4)  special.comb(5, k)
special.diric(x, 3)  special.ellip_harm(5, 8, 1, 1, y)  special.ellip_harm_2(5, 8, 1, 1, y + 9)
special.ellip_normal(y + 5, 8, 1, 1)  special.eval_chebyc(2, y)  special.eval_chebys(2, y)
special.eval_chebyt(2, y)  special.eval_chebyu(2, y)  special.eval_gegenbauer(2, p, y)
special.eval_genlaguerre(2, p, y)  special.eval_hermite(3, x)  special.eval_hermitenorm(3, x)
special.eval_jacobi(2, p, q, y)  special.eval_laguerre(2, y)  special.eval_legendre(2, y)
special.eval_sh_chebyt(2, y)  special.eval_sh_chebyu(2, y)  special.eval_sh_jacobi(2, p + 1, q, y)
special.eval_sh_legendre(2, y)  special.expn(2, y)  special.factorial(k)  special.factorial2(k)
special.factorialk(k, 3)  special.h1vp(1, y)  special.h2vp(1, y)  special.ivp(2, y)
special.jvp(2, y)  special.kn(2, y)  special.kvp(2, y)  special.lambertw(y).real
special.lmbda(2, y[0])
special.log_softmax(x)  special.logsumexp(x)  special.legendre_p(2, y)
special.legendre_p_all(2, y)  special.lpmv(1, 2, y)  special.lqmn(1, 2, y[0])
special.lqn(2, y[0])  special.mathieu_cem(1, 0.5, y)  special.mathieu_even_coef(2, y[0])
special.mathieu_modcem1(1, 0.5, y)  special.mathieu_modcem2(1, 0.5, y)
special.mathieu_modsem1(1, 0.5, y)  special.mathieu_modsem2(1, 0.5, y)
special.mathieu_odd_coef(2, y[0])  special.mathieu_sem(1, 0.5, y)  special.multigammaln(y + 2, 3)
special.nbdtr(3, 4, y)  special.nbdtrc(3, 4, y)  special.nbdtri(3, 4, y)
special.nbdtrik(0.6, 4, y)  special.nbdtrin(3, 0.6, y)  special.ndtri_exp(-y)
special.obl_ang1(1, 2, 0.5, y)  special.obl_cv_seq(1, 2, y[0])  special.obl_rad1(1, 2, 0.5, y)
special.obl_rad2(1, 2, 0.5, y)  special.pbdn_seq(2, y[0])  special.pbdv_seq(2, y[0])
special.pbvv_seq(2, y[0])  special.pdtri(2, y)  special.pdtrik(y, 2.5)  special.perm(5, k)
special.polygamma(2, y)  special.pro_ang1(1, 2, 0.5, y)  special.pro_cv_seq(1, 2, y[0])
special.pro_rad1(1, 2, 0.5, y + 1)  special.pro_rad2(1, 2, 0.5, y + 2)
special.riccati_jn(2, y[0])  special.riccati_yn(2, y[0])  special.sinc(x)  special.softmax(x)
special.softplus(x)  special.sph_harm_y(2, 1, p, q)  special.sph_harm_y_all(2, 1, p, q)
special.sph_legendre_p(2, 1, y)  special.sph_legendre_p_all(2, 1, y)  special.spherical_in(2, y)
special.spherical_jn(2, y)  special.spherical_kn(2, y)  special.spherical_yn(2, y)
special.stdtridf(0.8, y + 1)  special.stirling2(k + 1, 2)  special.yn(2, y)  special.yvp(2, y)
special.zeta(y + 1, 2.0)
"""

NO_ARRAYS = """
ai_zeros bei_zeros beip_zeros ber_zeros bernoulli berp_zeros bi_zeros c_roots cg_roots chebyc chebys
chebyt chebyu erf_zeros euler fresnel_zeros fresnelc_zeros fresnels_zeros gegenbauer genlaguerre
geterr h_roots he_roots hermite hermitenorm j_roots jacobi jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros
js_roots kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros l_roots la_roots laguerre legendre
p_roots ps_roots roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_gegenbauer
roots_genlaguerre roots_hermite roots_hermitenorm roots_jacobi roots_laguerre roots_legendre
roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi roots_sh_legendre s_roots seterr sh_chebyt sh_chebyu
sh_jacobi sh_legendre t_roots ts_roots u_roots us_roots y0_zeros y1_zeros y1p_zeros yn_zeros
ynp_zeros
"""


def public():
    """Its functions."""
    found = ((name, getattr(scipy.special, name)) for name in scipy.special.__all__)
    return sorted(name for name, f in found if callable(f) and not isinstance(f, type))
