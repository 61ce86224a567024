"""What the gradient of a real function of complex numbers is, as a picture.

``grad(f)(z)`` is ``df/dx - 1j * df/dy`` at ``z = x + 1j * y``. Its conjugate, drawn as an arrow,
points to where ``f`` grows fastest. Here ``f`` is the absolute value of a polynomial: against the
arrows one comes to its zeros, as gradient descent does.

Run it with ``python examples/complex_gradient.py``; it writes `docs/complex-gradient.svg`.
"""

from pathlib import Path

import numpy as np

from functrans import grad, jit, lax, value_and_grad, vmap

PICTURE = Path(__file__).parents[1] / "docs" / "complex-gradient.svg"
ZEROS = np.array([1.2 + 0.5j, -0.9 + 1.0j, -0.3 - 1.1j])
STARTS = np.array([1.8 + 1.7j, -1.9 - 0.3j, 1.7 - 1.6j])
EDGE = 2.0


def size(z):
    """The absolute value of the polynomial."""
    return np.abs(np.prod(z - ZEROS))


@jit
def uphill(z):
    """For each number the direction in which ``size`` grows fastest."""
    return np.conj(vmap(grad(size))(z))


@jit
def descent(z):
    """The way of gradient descent from one number.

    Each step goes a twentieth of the way to 0, as far as the slope can tell.
    """

    def step(z, _):
        value, slope = value_and_grad(size)(z)
        z = z - 0.05 * value / np.abs(slope) ** 2 * np.conj(slope)
        return z, z

    return lax.scan(step, z, None, length=200)[1]


def picture():
    """The plane of complex numbers as SVG: arrows uphill, zeros, and ways down to them."""
    side = np.linspace(-EDGE + 0.2, EDGE - 0.2, 13)
    grid = (side[None, :] + 1j * side[:, None]).ravel()
    arrows = uphill(grid)
    arrows = 0.11 * arrows / np.abs(arrows)
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 4 4" width="420" height="420">',
        '<defs><marker id="tip" viewBox="0 0 4 4" refX="3" refY="2" markerWidth="4" '
        'markerHeight="4" orient="auto"><path d="M0 0 4 2 0 4z" fill="#567"/></marker></defs>',
        '<rect x="-2" y="-2" width="4" height="4" fill="#fff"/>',
        '<path d="M-2 0H2M0 -2V2" stroke="#ccc" stroke-width=".01"/>',
    ]
    lines += [
        f'<path d="M{point(z - a)} {point(z + a)}" stroke="#567" stroke-width=".018" '
        'marker-end="url(#tip)"/>'
        for z, a in zip(grid, arrows, strict=True)
    ]
    for start in STARTS:
        way = " ".join(point(z) for z in [start, *descent(start)[::5]])
        lines.append(f'<path d="M{way}" fill="none" stroke="#d60" stroke-width=".03"/>')
    lines += [f'<circle cx="{z.real}" cy="{-z.imag}" r=".06" fill="#d60"/>' for z in ZEROS]
    return "\n".join([*lines, "</svg>", ""])


def point(z):
    """A number's place: in pictures, y grows downwards."""
    return f"{z.real:.2f} {-z.imag:.2f}"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"written: {PICTURE.name}")
