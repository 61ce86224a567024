"""Deconvolution in Fourier space: the error, differentiated by the strength of regularisation."""

import numpy as np

POINTS = 128
T = np.arange(POINTS)
SHARP = ((T > 20) & (T < 40)) + 0.5 * ((T > 60) & (T < 65)) + np.exp(-0.5 * ((T - 95) / 6) ** 2)
BLUR = np.exp(-0.5 * (np.minimum(T, POINTS - T) / 3.0) ** 2)
BLUR /= BLUR.sum()
RESPONSE = np.fft.rfft(BLUR)
SEEN = np.fft.irfft(RESPONSE * np.fft.rfft(SHARP)) + 0.01 * np.random.default_rng(5).normal(
    size=POINTS
)


def restored(log_strength):
    k = np.arange(POINTS // 2 + 1) / POINTS
    penalty = np.exp(log_strength[0]) * (1 + np.exp(log_strength[1]) * k**2)
    spectrum = np.conj(RESPONSE) * np.fft.rfft(SEEN) / (np.abs(RESPONSE) ** 2 + penalty)
    return np.fft.irfft(spectrum)


def objective(log_strength):
    """The mean squared error."""
    return np.mean((restored(log_strength) - SHARP) ** 2)


ARGUMENT = np.array([-6.0, 3.0])


def draw(axes, gradient):
    axes.plot(SHARP, "0.7", label="true")
    axes.plot(SEEN, "k:", label="seen")
    axes.plot(restored(ARGUMENT), label="restored")
    axes.set_title(f"gradient: {gradient[0]:.1e}, {gradient[1]:.1e}")
    axes.legend()
