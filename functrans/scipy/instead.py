"""What to write instead of functions of SciPy's that have no traced form."""

from __future__ import annotations

_NO_ALL = "it has no traced form: stack the degrees and orders that you need"
_NO_COEFFICIENTS = "its coefficients have no traced form: compute with mathieu_cem or mathieu_sem"
_NO_ELLIPSOID = "it has no traced form, and no derivative: compute it outside of the trace"
_NO_SECOND_KIND = "it has no traced form: write the function from atanh and its recurrence"

SPECIAL = {
    "assoc_legendre_p_all": f"{_NO_ALL} of assoc_legendre_p",
    "ellip_harm": _NO_ELLIPSOID,
    "ellip_harm_2": _NO_ELLIPSOID,
    "ellip_normal": _NO_ELLIPSOID,
    "factorialk": "write the product, or k**(n / k) * gamma(n / k + 1) for multiples n of k",
    "lmbda": "write gamma(v + 1) * (2 / x)**v * jv(v, x) for each order v",
    "lqmn": _NO_SECOND_KIND,
    "lqn": _NO_SECOND_KIND,
    "mathieu_even_coef": _NO_COEFFICIENTS,
    "mathieu_odd_coef": _NO_COEFFICIENTS,
    "obl_cv_seq": "stack obl_cv(m, n, c) of the modes n",
    "pbdn_seq": "stack pbdv(v, z) of the orders v",
    "pbdv_seq": "stack pbdv(v, x) of the orders v",
    "pbvv_seq": "stack pbvv(v, x) of the orders v",
    "pro_cv_seq": "stack pro_cv(m, n, c) of the modes n",
    "sph_harm_y_all": f"{_NO_ALL} of sph_harm_y",
    "sph_legendre_p_all": f"{_NO_ALL} of sph_legendre_p",
    "stirling2": "it counts, and has no derivative: compute it outside of the trace",
}
"""For `scipy.special`, by the name of the function."""
