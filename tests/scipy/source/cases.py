"""Test calls of the SciPy functions that run on traced values from their own source.

A case has a function's path, its arguments, and the index of the traced argument.
"""

import numpy as np
from scipy import ndimage

from functrans.scipy.define import since_1_18

_rng = np.random.default_rng(0)
X, Y = _rng.normal(size=(2, 9))
POSITIVE = np.abs(X) + 0.3
LIKELY = POSITIVE / 4
ROWS = _rng.normal(size=(4, 3))
SQUARE = _rng.normal(size=(3, 3)) - 3 * np.eye(3)
IMAGE = _rng.normal(size=(5, 6))
LABELS = np.tile([1, 1, 2, 2, 0, 0], (5, 1))
COUNTS = np.array([[4.0, 9.0, 3.0], [7.0, 2.0, 6.0]])
W = np.array([0.5, 1.0])

ZEROS, POLES = np.array([-1.1, -1.2, -0.8]), np.array([-0.5, -0.2 + 0.5j, -0.2 - 0.5j])
B, A = np.array([0.1, 0.2, 0.3]), np.array([1.0, -0.4, 0.2])
CUBIC = np.array([1.0, 0.9, 0.2, 0.1])
SECTION = np.array([[0.1, 0.2, 0.3, 1.0, -0.4, 0.2]])
STATES = SQUARE, SQUARE[:, :1], SQUARE[:1], np.array([[0.5]])
BAND = np.array([0.2, 0.5])
EDGES, GAINS = np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.7, 0.1])


def _second_difference(x, axis, output, mode, cval):
    return ndimage.correlate1d(x, [1, -2, 1], axis, output, mode, cval)


_SIGNAL = [
    *(("signal." + name, (3, 0.3), 1) for name in ("bessel", "butter")),
    *(("signal.butter", (n, x, "band"), 1) for n, x in ((2, BAND), (3, BAND))),
    *(("signal.butter", (n, 0.3, "high", False, "sos"), 1) for n in (1, 4, 5)),
    ("signal.butter", (4, BAND, "bandstop", False, "sos"), 1),
    ("signal.butter", (3, 0.3, "low", True, "zpk"), 1),
    ("signal.butter", (3, 10.0, "low", False, "ba", 100.0), 1),
    *(("signal." + name, (3, 4.0, 0.3), i) for name in ("cheby1", "cheby2") for i in (1, 2)),
    *(("signal.ellip", (3, 0.5, 20.0, 0.3), i) for i in (1, 2, 3)),
    ("signal.iirfilter", (3, BAND), 1),
    ("signal.iirdesign", (0.2, 0.3, 1.0, 20.0), 0),
    *(("signal." + name, (0.3, 30.0), i) for name in ("iirnotch", "iirpeak") for i in (0, 1)),
    ("signal.iircomb", (0.25, 30.0), 1),
    ("signal.gammatone", (440.0, "iir", None, None, 16000.0), 0),
    ("signal.hilbert", (X,), 0),
    *((f"signal.{name}", (X,), 0) for name in ("detrend", "periodogram", "spectrogram", "stft")),
    ("signal.coherence", (X, Y, 1.0, "hann", 4), 0),
    ("signal.resample_poly", (X, 3, 2), 0),
    *(("signal.savgol_filter", (X, 5, 2, order), 0) for order in (0, 1)),
    ("signal.welch", (X, 1.0, "hann", 4), 0),
    ("signal.medfilt", (X, 5), 0),
    *(("signal.filtfilt", (B, A, X, -1, "odd", 3), i) for i in (0, 1, 2)),
    ("signal.sosfilt_zi", (SECTION,), 0),
    ("signal.sosfiltfilt", (SECTION, X, -1, "odd", 3), 1),
    ("signal.sosfiltfilt", (SECTION, np.concatenate([X, Y])), 1),
    *(("signal.resample", (X, n), 0) for n in (5, 14)),
    ("signal.bilinear_zpk", (ZEROS, POLES, 0.7, 2.0), 3),
    *(("signal." + name, (ZEROS, POLES, 0.7, 1.5), 3) for name in ("lp2lp_zpk", "lp2hp_zpk")),
    *(("signal.lp2bp_zpk", (ZEROS, POLES, 0.7, 1.5, 0.3), i) for i in (2, 3, 4)),
    *(("signal.lp2bs_zpk", (ZEROS, POLES, 0.7, 1.5, 0.3), i) for i in (2, 3, 4)),
    *(("signal.zpk2tf", (ZEROS, POLES, 0.7), i) for i in (0, 2)),
    *(("signal.zpk2ss", (ZEROS, POLES, 0.7), i) for i in (0, 2)),
    *(("signal.zpk2sos", (ZEROS, POLES, 0.7), i) for i in (0, 2)),
    *(("signal.tf2zpk", (B, A), i) for i in (0, 1)),
    *(("signal.tf2sos", (B, A), i) for i in (0, 1)),
    *(("signal.tf2ss", (B, A), i) for i in (0, 1)),
    ("signal.sos2tf", (SECTION,), 0),
    ("signal.sos2zpk", (SECTION,), 0),
    *(("signal.ss2tf", STATES, i) for i in (0, 1, 3)),
    *(("signal.ss2zpk", STATES, i) for i in (0, 2)),
    *((f"signal.{name}", (B, A, 1.5), i) for name in ("lp2lp", "lp2hp") for i in (0, 1, 2)),
    *((f"signal.{name}", (B, A, 1.5, 0.2), i) for name in ("lp2bp", "lp2bs") for i in (0, 2, 3)),
    *(("signal.bilinear", (B, A, 2.0), i) for i in (0, 1)),
    *(("signal.normalize", (B, A), i) for i in (0, 1)),
    *(("signal.freqs", (B, A, W), i) for i in (0, 1, 2)),
    *(("signal.freqs_zpk", (ZEROS, POLES, 0.7, W), i) for i in (0, 2)),
    *(("signal.freqz", (B, A, W), i) for i in (0, 1, 2)),
    *(("signal.freqz_zpk", (ZEROS, POLES, 0.7, W), i) for i in (0, 2)),
    *((f"signal.{name}", (SECTION, W), 1) for name in ("freqz_sos", "sosfreqz")),
    ("signal.group_delay", ((B, A), W), 1),
    *((f"signal.{name}", (0.2, 0.3, 1.0, 20.0), 0) for name in ("buttord", "cheb1ord")),
    *((f"signal.{name}", (0.2, 0.3, 1.0, 20.0), 2) for name in ("cheb2ord", "ellipord")),
    *((f"signal.{name}", (3, 4.0), 1) for name in ("cheb1ap", "cheb2ap")),
    *(("signal.ellipap", (3, 0.5, 20.0), i) for i in (1, 2)),
    ("signal.findfreqs", (B, A, 4), 0),
    ("signal.firwin", (7, 0.3), 1),
    *(("signal.firwin2", (7, EDGES, GAINS), i) for i in (2,)),
    ("signal.minimum_phase", (np.array([0.1, 0.4, 0.9, 0.4, 0.1]),), 0),
    ("signal.square", (np.array([0.1, 4.0]),), 0),
    *((f"signal.{name}", (B, CUBIC), i) for name in ("residue", "residuez") for i in (0, 1)),
    *(("signal.deconvolve", (X, B), i) for i in (0, 1)),
    ("signal.hilbert2", (IMAGE,), 0),
    ("signal.wiener", (X, 3), 0),
    ("signal.order_filter", (X, np.ones(3), 1), 0),
    *((f"signal.{name}", (X,), 0) for name in ("argrelmax", "argrelmin")),
    ("signal.vectorstrength", (X, 2.0), 0),
    *((f"signal.{name}", (X,), 0) for name in ("cspline1d", "qspline1d")),
    ("signal.cspline1d", (X, 0.3), 0),
    ("signal.cspline1d_eval", (X, np.array([1.2, 3.4])), 0),
    ("signal.gauss_spline", (W, 3), 0),
    ("signal.dlsim", ((*STATES, 0.1), np.ones((4, 1))), 1),
    ("signal.abcd_normalize", STATES, 0),
    *(
        (f"signal.windows.{name}", (8, x), 1)
        for name, x in {
            "chebwin": 60.0,
            "dpss": 2.5,
            "general_cosine": BAND,
            "general_hamming": 0.54,
            "kaiser": 8.0,
            "kaiser_bessel_derived": 8.0,
        }.items()
    ),
    ("signal.windows.taylor", (8, 4, 30.0), 2),
]

_OF_ONE_SAMPLE = (
    "circmean circvar describe differential_entropy entropy gmean gstd gzscore "
    "jarque_bera kstat kstatvar kurtosis kurtosistest lmoment mode normaltest obrientransform "
    "probplot relfreq sem sigmaclip skew skewtest theilslopes tmax tmean tmin variation zscore"
)
_OF_TWO_SAMPLES = (
    "alexandergovern ansari bartlett brunnermunzel cramervonmises_2samp epps_singleton_2samp "
    "f_oneway fligner levene median_test mood pearsonr ranksums somersd spearmanrho ttest_ind "
    "ttest_rel zmap"
)
_STATS = [
    *((f"stats.{name}", (POSITIVE,), 0) for name in _OF_ONE_SAMPLE.split()),
    *((f"stats.{name}", (X, Y), i) for name in _OF_TWO_SAMPLES.split() for i in (0, 1)),
    *((f"stats.{name}", (LIKELY,), 0) for name in ("combine_pvalues", "false_discovery_control")),
    ("stats.anderson_ksamp", ([X, Y],), 0),
    ("stats.boxcox_llf", (0.3, POSITIVE), 1),
    ("stats.chi2_contingency", (COUNTS,), 0),
    ("stats.contingency.chi2_contingency", (COUNTS,), 0),
    ("stats.contingency.expected_freq", (COUNTS,), 0),
    ("stats.directional_stats", (ROWS,), 0),
    ("stats.friedmanchisquare", (X, Y, X * Y), 0),
    ("stats.page_trend_test", (ROWS,), 0),
    ("stats.percentileofscore", (X, 0.1), 0),
    ("stats.qmc.geometric_discrepancy", (LIKELY[:8].reshape(4, 2),), 0),
    ("stats.qmc.scale", (LIKELY[:8].reshape(4, 2), [-1, -2], [1, 2]), 0),
    *(("stats.quantile", (X, 0.3), i) for i in (0, 1)),
    ("stats.scoreatpercentile", (X, 30), 0),
    *(("stats.ttest_1samp", (X, 0.3), i) for i in (0, 1)),
    *(("stats.ttest_ind_from_stats", (1.0, 2.0, 10, 1.5, 2.5, 12), i) for i in (0, 1, 4)),
    *(("stats.yeojohnson_llf", (0.5, X), i) for i in (0, 1)),
]

_OF_LABELS = (
    "center_of_mass extrema maximum maximum_position median minimum minimum_position variance"
)
_OTHERS = [
    ("cluster.vq.whiten", (ROWS,), 0),
    ("constants.convert_temperature", (W, "C", "K"), 0),
    ("constants.lambda2nu", (W,), 0),
    ("constants.nu2lambda", (W,), 0),
    *(("linalg.block_diag", (ROWS, SQUARE), i) for i in (0, 1)),
    *(("linalg.khatri_rao", (ROWS, SQUARE), i) for i in (0, 1)),
    ("linalg.convolution_matrix", (B, 4, "same"), 0),
    ("linalg.fiedler", (X,), 0),
    *(("linalg.leslie", (B, W), i) for i in (0, 1)),
    ("special.assoc_laguerre", (X, 2, 0.5), 0),
    ("special.softplus", (X,), 0),
    *((f"integrate.{name}", (X,), 0) for name in (
        "cumulative_simpson", "cumulative_trapezoid", "romb", "simpson", "trapezoid",
    )),
    *((f"optimize.{name}", (X,), 0) for name in ("rosen", "rosen_der", "rosen_hess")),
    ("optimize.rosen_hess_prod", (X, Y), 1),
    *((f"ndimage.{name}", (IMAGE, LABELS, [1, 2]), 0) for name in _OF_LABELS.split()),
    ("ndimage.laplace", (IMAGE,), 0),
    *((f"ndimage.{x}", (IMAGE, LABELS, [1, 2]), 0) for x in ("mean", "sum_labels")),
    ("ndimage.standard_deviation", (IMAGE, LABELS, [1, 2]), 0),
    ("ndimage.generic_gradient_magnitude", (IMAGE, ndimage.sobel), 0),
    ("ndimage.zoom", (IMAGE, 1.5), 0),
    *((f"ndimage.gaussian_{x}", (IMAGE, 0.7), 0) for x in ("laplace", "gradient_magnitude")),
    *((f"ndimage.{x}", (IMAGE, ROWS[:2]), i) for x in ("correlate", "convolve") for i in (0, 1)),
    *((f"ndimage.{x}1d", (IMAGE, B), i) for x in ("correlate", "convolve") for i in (0, 1)),
    *((f"ndimage.{x}", (IMAGE,), 0) for x in ("prewitt", "sobel")),
    *((f"ndimage.{x}_filter", (IMAGE, 3), 0) for x in ("maximum", "median", "minimum", "uniform")),
    *((f"ndimage.{x}_filter1d", (IMAGE, 4), 0) for x in ("maximum", "minimum", "uniform")),
    *((f"ndimage.{x}_filter", (IMAGE, 2, 3), 0) for x in ("percentile", "rank")),
    *(("ndimage.affine_transform", (IMAGE, SQUARE[:2, :2], W, (3, 4)), i) for i in (0, 1, 2)),
    *(("ndimage.map_coordinates", (IMAGE, np.stack([POSITIVE] * 2)), i) for i in (0, 1)),
    *(("ndimage.shift", (IMAGE, W + 0.1), i) for i in (0, 1)),
    ("ndimage.spline_filter", (IMAGE,), 0),
    *(("ndimage.spline_filter1d", (IMAGE, n), 0) for n in (3, 4)),
    ("ndimage.generic_laplace", (IMAGE, _second_difference), 0),
    ("ndimage.histogram", (IMAGE, -1, 1, 4), 0),
    ("ndimage.labeled_comprehension", (IMAGE, LABELS, [1, 2], np.mean, float, 0), 0),
    ("ndimage.vectorized_filter", (IMAGE, np.mean), 0),
    ("sparse.csgraph.laplacian", (np.abs(SQUARE),), 0),
    ("spatial.distance.jensenshannon", (POSITIVE, np.abs(Y)), 0),
    ("spatial.distance_matrix", (SQUARE, ROWS), 0),
    ("spatial.geometric_slerp", (np.array([1.0, 0]), np.array([0, 1.0]), BAND), 2),
    *((f"spatial.{name}", (ROWS, ROWS[::-1]), 1) for name in (
        "minkowski_distance", "minkowski_distance_p",
    )),
    ("spatial.procrustes", (ROWS, ROWS[::-1] ** 3), 0),
]  # fmt: skip

OPTIONS = {"ndimage.vectorized_filter": {"size": 3}}

CASES = [*_SIGNAL, *_STATS, *_OTHERS]

UNCOMPILED = {
    *"signal.iirdesign signal.bilinear signal.buttord signal.cheb1ord signal.cheb2ord "
    "signal.ellipord signal.findfreqs signal.minimum_phase signal.residue signal.residuez "
    "signal.argrelmax signal.argrelmin".split(),
    *(f"ndimage.{x}" for x in "extrema maximum maximum_position median minimum "
    "minimum_position".split()),
    *(f"stats.{x}" for x in "anderson_ksamp ansari cramervonmises_2samp fligner "
    "friedmanchisquare median_test mode mood page_trend_test percentileofscore "
    "qmc.geometric_discrepancy sigmaclip somersd theilslopes".split()),
}  # fmt: skip
if since_1_18():
    UNCOMPILED.remove("stats.fligner")
"""What has as many elements as the values say: it is refused where these are not known."""
