"""Draws the pictures of the programs in two folders, and the pages that show them.

Run it with ``python -m examples.draw``.
"""

import importlib
import io
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from functrans import grad

HERE = Path(__file__).parent

TITLES = {
    "ac_circuit": "A circuit of alternating current",
    "hamiltonian_monte_carlo": "Hamiltonian Monte Carlo",
    "heat_sparse": "Heat, by sparse matrices",
    "hidden_markov": "A hidden Markov model",
    "kalman_filter": "A Kalman filter",
    "ode_fit": "A differential equation fitted",
    "option_greeks": "Option Greeks",
    "pca": "Principal components",
    "physics_informed": "A physics-informed network",
    "private_training": "Differentially private training",
    "spectral_pde": "A partial differential equation by spectra",
}


class Collection(NamedTuple):
    """The programs in a folder, and what the page says of them."""

    folder: str
    header: str

    @property
    def names(self):
        return sorted(path.stem for path in (HERE / self.folder).glob("*.py"))

    def program(self, name):
        return importlib.import_module(f"examples.{self.folder}.{name}")

    def picture(self, name):
        """The picture of a program as PNG."""
        module = self.program(name)
        figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
        if hasattr(module, "objective") and hasattr(module, "ARGUMENT"):
            module.draw(axes, grad(module.objective)(module.ARGUMENT))
        else:
            module.draw(axes)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=80)
        plt.close(figure)
        return stream.getvalue()

    def page(self):
        """The index, with a sentence and a picture for each."""
        parts = [self.header]
        for name in self.names:
            title = TITLES.get(name, name.replace("_", " ").capitalize())
            sentence = self.program(name).__doc__.strip()
            parts.append(f"## [{title}]({name}.py)\n\n{sentence}\n\n![{title}]({name}.png)\n")
        return "\n".join(parts)


UNMODIFIED = Collection(
    "unmodified",
    """# Programs as they are

Each of these is a program in NumPy and SciPy that knows nothing of functrans. `functrans.grad` of
its `objective` is its gradient; the tests compare it with finite differences. The pictures are
drawn by `python -m examples.draw`.
""",
)

GALLERY = Collection(
    "gallery",
    """# Gallery

Programs of some fifty lines that use functrans: `solution()` of each is what its picture shows, and
the tests compare it with what is known. The pictures are drawn by `python -m examples.draw`. There
are [programs that know nothing of functrans](../unmodified/README.md), too.
""",
)


def main():
    for collection in (UNMODIFIED, GALLERY):
        folder = HERE / collection.folder
        for name in collection.names:
            (folder / f"{name}.png").write_bytes(collection.picture(name))
        (folder / "README.md").write_text(collection.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
