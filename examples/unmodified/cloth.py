"""A cloth of springs that hangs from two pins: its final shape, differentiated by the initial."""

import numpy as np

SIDE = 6
REST = 1.0 / (SIDE - 1)


def start():
    x, y = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE), indexing="ij")
    return np.stack([x, y, np.zeros_like(x)], axis=-1)


def forces(p, stiffness):
    f = np.zeros_like(p)
    f[..., 2] -= 1.0
    for axis in (0, 1):
        d = np.diff(p, axis=axis)
        length = np.sqrt(np.sum(d**2, axis=-1, keepdims=True))
        pull = stiffness * (1 - REST / length) * d
        if axis == 0:
            f[:-1] += pull
            f[1:] -= pull
        else:
            f[:, :-1] += pull
            f[:, 1:] -= pull
    return f


def fall(stiffness, steps=60, dt=0.02):
    p, v = start(), np.zeros((SIDE, SIDE, 3))
    for _ in range(steps):
        v += dt * forces(p, stiffness)
        v *= 0.99
        v[0, 0] = 0.0
        v[0, -1] = 0.0
        p += dt * v
    return p


def objective(stiffness):
    """How far the free corner has come down."""
    return -fall(stiffness)[-1, -1, 2]


ARGUMENT = 200.0


def draw(axes, gradient):
    p = fall(ARGUMENT)
    q = p[..., 0] + 0.35 * p[..., 1], p[..., 2] + 0.35 * p[..., 1]
    axes.plot(*q, "b", lw=0.8)
    axes.plot(q[0].T, q[1].T, "b", lw=0.8)
    axes.set_title(f"d depth / d stiffness = {gradient:.2e}")
