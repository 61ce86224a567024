"""Draws the pictures of the programs, with their gradients, and the page that shows them.

Run it with ``python -m examples.unmodified.draw``.
"""

import importlib
import io
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from functrans import grad

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("draw", "__init__"))

TITLES = {
    "ac_circuit": "A circuit of alternating current",
    "heat_sparse": "Heat, by sparse matrices",
    "hidden_markov": "A hidden Markov model",
    "kalman_filter": "A Kalman filter",
    "ode_fit": "A differential equation fitted",
    "pca": "Principal components",
    "spectral_pde": "A partial differential equation by spectra",
}

HEADER = """# Programs as they are

Each of these is a program in NumPy and SciPy that knows nothing of functrans. `functrans.grad` of
its `objective` is its gradient; the tests compare it with finite differences. The pictures are
drawn by `python -m examples.unmodified.draw`.
"""


def program(name):
    return importlib.import_module(f"examples.unmodified.{name}")


def picture(name):
    """The picture of a program and its gradient, as PNG."""
    module = program(name)
    figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
    module.draw(axes, grad(module.objective)(module.ARGUMENT))
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=80)
    plt.close(figure)
    return stream.getvalue()


def page():
    """The index, with a sentence and a picture for each."""
    parts = [HEADER]
    for name in NAMES:
        title = TITLES.get(name, name.replace("_", " ").capitalize())
        sentence = program(name).__doc__.strip()
        parts.append(f"## [{title}]({name}.py)\n\n{sentence}\n\n![{title}]({name}.png)\n")
    return "\n".join(parts)


def main():
    for name in NAMES:
        (HERE / f"{name}.png").write_bytes(picture(name))
    (HERE / "README.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
