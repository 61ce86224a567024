"""Burgers' equation in Fourier space: the final state, differentiated by the initial one."""

import numpy as np

POINTS = 64
X = 2 * np.pi * np.arange(POINTS) / POINTS
START = np.sin(X) + 0.5 * np.cos(2 * X)


def solve(u, steps=40, dt=0.01, viscosity=0.05):
    k = np.fft.fftfreq(POINTS, 1 / POINTS)
    decay = np.exp(-viscosity * k**2 * dt)
    kept = np.abs(k) < POINTS / 3
    v = np.fft.fft(u)
    for _ in range(steps):
        w = np.fft.ifft(v).real
        slope = -0.5j * k * np.fft.fft(w * w) * kept
        half = np.fft.ifft((v + 0.5 * dt * slope) * np.sqrt(decay)).real
        v = decay * v + dt * np.sqrt(decay) * (-0.5j * k * np.fft.fft(half * half) * kept)
    return np.fft.ifft(v).real


def objective(u):
    """The energy that is left in the right half."""
    return np.sum(solve(u)[POINTS // 2 :] ** 2) / POINTS


ARGUMENT = START


def draw(axes, gradient):
    axes.plot(X, START, label="start")
    axes.plot(X, solve(START), label="end")
    axes.plot(X, 10 * gradient, "k--", label="10 x gradient")
    axes.legend()
