"""The functions of SciPy that run from their own source on traced values, by module.

They are written in Python in terms of NumPy's functions and other SciPy functions, so their source
can be traced. A test compares the values and derivatives of each with SciPy's results.
"""

FROM_SOURCE = {
    "cluster.vq": "whiten",
    "constants": "convert_temperature lambda2nu nu2lambda",
    "integrate": "cumulative_simpson cumulative_trapezoid romb simpson trapezoid",
    "linalg": "block_diag convolution_matrix fiedler khatri_rao leslie",
    "ndimage": "affine_transform center_of_mass convolve convolve1d correlate correlate1d extrema "
    "gaussian_gradient_magnitude gaussian_laplace generic_gradient_magnitude generic_laplace "
    "histogram labeled_comprehension laplace map_coordinates maximum maximum_filter "
    "maximum_filter1d maximum_position mean median median_filter minimum minimum_filter "
    "minimum_filter1d minimum_position percentile_filter prewitt rank_filter shift sobel "
    "spline_filter spline_filter1d standard_deviation sum_labels uniform_filter uniform_filter1d "
    "variance vectorized_filter zoom",
    "optimize": "rosen rosen_der rosen_hess rosen_hess_prod",
    "signal": "abcd_normalize argrelmax argrelmin bessel bilinear bilinear_zpk butter buttord "
    "cheb1ap cheb1ord cheb2ap cheb2ord cheby1 cheby2 coherence cspline1d cspline1d_eval "
    "deconvolve detrend dlsim ellip ellipap ellipord filtfilt findfreqs firwin firwin2 freqs "
    "freqs_zpk freqz freqz_sos freqz_zpk gammatone gauss_spline group_delay hilbert hilbert2 "
    "iircomb iirdesign iirfilter iirnotch iirpeak lp2bp lp2bp_zpk lp2bs lp2bs_zpk lp2hp lp2hp_zpk "
    "lp2lp lp2lp_zpk medfilt minimum_phase normalize order_filter periodogram qspline1d resample "
    "resample_poly savgol_filter sos2tf sos2zpk sosfilt_zi sosfiltfilt sosfreqz "
    "spectrogram square ss2tf ss2zpk stft tf2sos tf2ss tf2zpk vectorstrength welch wiener zpk2sos "
    "zpk2ss zpk2tf",
    "signal.windows": "chebwin dpss general_cosine general_hamming kaiser kaiser_bessel_derived "
    "taylor",
    "sparse.csgraph": "laplacian",
    "spatial": "distance_matrix geometric_slerp minkowski_distance minkowski_distance_p procrustes",
    "spatial.distance": "jensenshannon",
    "special": "assoc_laguerre softplus",
    "stats": "alexandergovern anderson_ksamp ansari bartlett boxcox_llf brunnermunzel "
    "chi2_contingency circmean circvar combine_pvalues cramervonmises_2samp describe "
    "differential_entropy directional_stats entropy epps_singleton_2samp f_oneway "
    "false_discovery_control fligner friedmanchisquare gmean gstd gzscore jarque_bera kstat "
    "kstatvar kurtosis kurtosistest levene lmoment median_test mode mood normaltest "
    "obrientransform page_trend_test pearsonr percentileofscore probplot quantile ranksums relfreq "
    "scoreatpercentile sem sigmaclip skew skewtest somersd spearmanrho theilslopes tmax tmean tmin "
    "ttest_1samp ttest_ind ttest_ind_from_stats ttest_rel variation yeojohnson_llf zmap zscore",
    "stats.contingency": "chi2_contingency expected_freq",
    "stats.qmc": "geometric_discrepancy scale",
}
"""The names of the functions, by SciPy's modules."""
