"""Optimal control: the torques that swing a pendulum up, by the gradient through the simulation."""

import numpy as np
import scipy.optimize

from functrans import jit, lax, value_and_grad

STEPS, DT, LIMIT = 120, 0.04, 3.0


def simulated(torques):
    """Angles and speeds of a pendulum that hangs at first; an angle of pi is upright."""

    def step(state, torque):
        angle, speed = state
        speed = speed + DT * (LIMIT * np.tanh(torque) - 9.81 * np.sin(angle) - 0.1 * speed)
        angle = angle + DT * speed
        return (angle, speed), (angle, speed)

    return lax.scan(step, (0.0, 0.0), torques)[1]


def cost(torques):
    angle, speed = simulated(torques)
    at_the_end = 1 + np.cos(angle[-20:]) + 0.1 * speed[-20:] ** 2
    return np.sum(at_the_end) + 1e-3 * np.sum(torques**2)


def solution():
    """The angles, the speeds and the torques of the best path that is found."""
    start = 0.1 * np.sin(np.arange(STEPS) * DT * 3.1)
    best = scipy.optimize.minimize(
        jit(value_and_grad(cost)), start, jac=True, method="L-BFGS-B", options={"maxiter": 500}
    ).x
    angle, speed = simulated(best)
    return angle, speed, LIMIT * np.tanh(best)


def draw(axes):
    angle, _, torque = solution()
    t = DT * np.arange(STEPS)
    axes.plot(t, angle, "b", label="angle")
    axes.plot(t, torque, "0.6", lw=1, label="torque")
    axes.axhline(np.pi, color="k", lw=0.5, ls=":")
    axes.axhline(-np.pi, color="k", lw=0.5, ls=":")
    axes.legend(fontsize=7)
    axes.set_xlabel("time in s")
    axes.set_title("a pendulum swings up")
