"""The primitives, one family in each file; a family is imported when one of its names is used.

Definitions are found in every module of this folder. Folders named ``compiled`` hold the longer
`emit` rules, and are imported with the compiler.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from functrans.ir.primitive import Primitive, registry
from functrans.lazily import homes, importer
from functrans.trace import protocols

_NAMES = {
    "arrays.structural": "broadcast_to cast full iota reduce_sum reinterpret reshape transpose",
    "elementwise.arithmetic": (
        "add divide divmod floor_divide fmod fraction gcd lcm modf multiply negative positive "
        "reciprocal remainder subtract"
    ),
    "elementwise.choice": "absolute clip direction fabs fmax fmin maximum minimum select sign",
    "elementwise.compare": "equal greater greater_equal less less_equal not_equal",
    "elementwise.complex_numbers": (
        "complex complex_to_pairs conj conjugate imag pairs_to_complex real"
    ),
    "elementwise.exponential": (
        "exp exp2 expit expm1 log log10 log1p log2 logaddexp logaddexp2 logit"
    ),
    "elementwise.floats": "binary_exponent copysign frexp heaviside ldexp nextafter spacing",
    "elementwise.fused": "fma",
    "elementwise.hyperbolic": "arccosh arcsinh arctanh cosh sech_squared sinh tanh",
    "elementwise.logic": (
        "bitwise_and bitwise_count bitwise_or bitwise_xor invert isfinite isinf isnan "
        "left_shift logical_and logical_not logical_or logical_xor right_shift signbit"
    ),
    "elementwise.power": (
        "cbrt float_power hypot integer_power power power_of_integers sqrt square"
    ),
    "elementwise.rounding": "ceil floor rint trunc",
    "elementwise.sinc": "sinc_derivative",
    "elementwise.special.bessel": (
        "airy airye bei beip ber berp besselpoly i0 i0e i1 i1e it2i0k0 it2j0y0 it2struve0 "
        "itairy iti0k0 itj0y0 itmodstruve0 itstruve0 iv ive j0 j1 jv jve k0 k0e k1 k1e kei "
        "keip ker kerp kn kv kve modstruve struve y0 y1 yn yv yve"
    ),
    "elementwise.special.complex_valued": (
        "hankel1 hankel1e hankel2 hankel2e kelvin modfresnelm modfresnelp"
    ),
    "elementwise.special.counts": (
        "bdtr bdtrc bdtri bdtrik bdtrin nbdtr nbdtrc nbdtri nbdtrik nbdtrin pdtr pdtrc pdtri pdtrik"
    ),
    "elementwise.special.distributions": (
        "btdtria btdtrib chdtr chdtrc chdtri chdtriv chndtr chndtridf chndtrinc chndtrix "
        "fdtr fdtrc fdtri fdtridfd gdtr gdtrc gdtria gdtrib gdtrix kolmogi kolmogorov "
        "ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit "
        "nrdtrimn nrdtrisd smirnov smirnovi stdtr stdtridf stdtrit tklmbda"
    ),
    "elementwise.special.elliptic": (
        "agm ellipe ellipeinc ellipj ellipk ellipkinc ellipkm1 elliprc elliprd elliprf "
        "elliprg elliprj"
    ),
    "elementwise.special.entropy": (
        "boxcox boxcox1p entr exprel huber inv_boxcox inv_boxcox1p kl_div log_expit powm1 "
        "pseudo_huber rel_entr spence xlog1py xlogy"
    ),
    "elementwise.special.equations": (
        "mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 "
        "mathieu_modsem2 mathieu_sem obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv "
        "obl_rad2 obl_rad2_cv pbdv pbvv pbwa pro_ang1 pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv "
        "pro_rad2 pro_rad2_cv"
    ),
    "elementwise.special.errors": (
        "dawsn erf erfc erfcinv erfcx erfi erfinv fresnel ndtr ndtri ndtri_exp owens_t "
        "voigt_profile"
    ),
    "elementwise.special.faddeeva": "wofz",
    "elementwise.special.gamma": (
        "_riemann_zeta _zeta beta betaln binom gamma gammaln gammasgn loggamma poch psi "
        "rgamma zeta zetac"
    ),
    "elementwise.special.hypergeometric": (
        "hyp0f1 hyp1f1 hyp2f1 hyperu log_wright_bessel wright_bessel"
    ),
    "elementwise.special.incomplete": (
        "betainc betaincc betainccinv betaincinv gammainc gammaincc gammainccinv gammaincinv"
    ),
    "elementwise.special.integrals": (
        "_lambertw cosdg cosm1 cotdg exp1 exp10 expi expn radian round shichi sici sindg "
        "tandg wrightomega"
    ),
    "elementwise.special.log_ndtr": "log_ndtr",
    "elementwise.special.orthogonal": (
        "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre "
        "eval_hermite eval_hermitenorm eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt "
        "eval_sh_chebyu eval_sh_jacobi eval_sh_legendre lpmv"
    ),
    "elementwise.special.spherical": (
        "_spherical_in _spherical_in_d _spherical_jn _spherical_jn_d _spherical_kn "
        "_spherical_kn_d _spherical_yn _spherical_yn_d spherical_in spherical_jn spherical_kn "
        "spherical_yn"
    ),
    "elementwise.trigonometric": (
        "arccos arcsin arctan arctan2 arctan2_derivative cos deg2rad degrees rad2deg radians sin "
        "tan"
    ),
    "linalg.products": "matmul matvec vecdot vecmat",
}
"""The modules of the primitives that are used most: those of operators and of ufuncs. A name that
is not listed is found by importing all modules."""


def _definitions(package: str) -> Iterator[str]:
    """The modules of a package and of its subpackages."""
    found = import_module(package)
    for module in iter_modules(found.__path__, f"{package}."):
        if not module.ispkg:
            yield module.name
        elif not module.name.endswith(".compiled"):
            yield from _definitions(module.name)


def import_all() -> None:
    """Import every definition."""
    for module in _definitions(__name__):
        import_module(module)


def is_built_in(primitive: Primitive) -> bool:
    """Whether the library itself defines a primitive, not a user."""
    return primitive.home.startswith("functrans.")


HOME = homes(_NAMES, __name__)
find = importer(HOME)

for _table in (registry, protocols.ufuncs):
    _table.found_by(find)
    _table.filled_by(import_all)
