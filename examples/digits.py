"""Handwritten digits: train a network, find the samples that are hardest, put bars on a fit.

    python examples/digits.py

1. An MLP is trained on 1,437 images of 8 x 8 pixels, by compiled gradients.
2. The gradient of the loss of every single image, all at once, says which images pull hardest at
   the network. A picture of them is saved.
3. A logistic regression is fitted by Newton's method, and the same Hessian gives the standard
   errors of its weights.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

from functrans import grad, hessian, jit, tree, value_and_grad, vmap

PICTURE = Path(__file__).parent / "output" / "hardest_digits.png"


class Data(NamedTuple):
    x: np.ndarray  # (images, 64): pixels between 0 and 1
    y: np.ndarray  # (images, 10): a one at the digit


def load(rng, test_share=0.2):
    """Training and test data, shuffled."""
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    data = Data(digits.data[order] / 16.0, np.eye(10)[digits.target[order]])
    cut = round(len(order) * test_share)
    return Data(*(a[cut:] for a in data)), Data(*(a[:cut] for a in data))


# ---- the network ---------------------------------------------------------------------------------


def init(rng, sizes=(64, 64, 32, 10)):
    """The parameters: a list of layers, each a dict. Any nesting of containers will do."""
    return [
        {"w": rng.normal(size=(m, n)) * np.sqrt(2.0 / m), "b": np.zeros(n)}
        for m, n in pairwise(sizes)
    ]


def logits(params, x):
    """For one image or for many: only the last axis is looked at."""
    *hidden, last = params
    for layer in hidden:
        x = np.maximum(x @ layer["w"] + layer["b"], 0.0)
    return x @ last["w"] + last["b"]


def loss(params, x, y):
    """The mean cross-entropy."""
    z = logits(params, x)
    z = z - np.max(z, axis=-1, keepdims=True)
    log_probabilities = z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))
    return -np.mean(np.sum(y * log_probabilities, axis=-1))


def accuracy(params, data):
    return np.mean(np.argmax(logits(params, data.x), axis=-1) == np.argmax(data.y, axis=-1))


def zeros_like(params):
    return tree.map(np.zeros_like, params)


def adam(params, gradient, moments, step, rate=3e-3, decay=(0.9, 0.999)):
    """One step of Adam, on whole pytrees: new parameters and new moments of the gradient."""
    mean, square = moments
    mean = tree.map(lambda m, g: decay[0] * m + (1 - decay[0]) * g, mean, gradient)
    square = tree.map(lambda s, g: decay[1] * s + (1 - decay[1]) * g**2, square, gradient)
    scale = rate * np.sqrt(1 - decay[1] ** step) / (1 - decay[0] ** step)
    params = tree.map(lambda p, m, s: p - scale * m / (np.sqrt(s) + 1e-8), params, mean, square)
    return params, (mean, square)


def train(params, data, rng, epochs=40, batch=32):
    """Gradient steps in mini-batches. Compiled once; every later step runs machine code."""
    loss_and_gradient = jit(value_and_grad(loss))
    update = jit(adam)
    moments = (zeros_like(params), zeros_like(params))
    step = 0
    for _ in (bar := tqdm(range(epochs), desc="training", unit="epoch")):
        order = rng.permutation(len(data.x))
        total = 0.0
        batches = len(order) // batch
        for chosen in order[: batches * batch].reshape(batches, batch):
            value, gradient = loss_and_gradient(params, data.x[chosen], data.y[chosen])
            step += 1
            params, moments = update(params, gradient, moments, step)
            total += value
        bar.set_postfix(loss=f"{total / batches:.4f}")
    return params


# ---- every image's own gradient ------------------------------------------------------------------


def gradient_norms(params, data):
    """How hard each image pulls at the network: the norm of the gradient of its own loss.

    `grad(loss)` is the gradient for one image, `vmap` takes it to all, and `jit` compiles that.
    """
    per_sample = jit(vmap(grad(loss), in_axes=(None, 0, 0)))
    gradients = per_sample(params, data.x, data.y)  # the tree of params, a new first axis
    squares = [np.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in tree.leaves(gradients)]
    return np.sqrt(np.sum(squares, axis=0))


def draw(params, data, norms, path, rows=3, columns=8):
    """Save a picture of the images with the largest norms."""
    hardest = np.argsort(norms)[::-1][: rows * columns]
    figure = Figure(figsize=(1.25 * columns, 1.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns)
    for axis, i in zip(axes.flat, hardest, strict=True):
        is_digit, said = np.argmax(data.y[i]), np.argmax(logits(params, data.x[i]))
        axis.imshow(data.x[i].reshape(8, 8), cmap="gray_r")
        axis.set_title(
            f"{is_digit}, said {said}\n{norms[i]:.3g}",
            fontsize=9,
            color="black" if said == is_digit else "firebrick",
        )
        axis.set_axis_off()
    figure.suptitle("The images with the largest gradients: digit, answer, norm of the gradient")
    figure.savefig(path, dpi=120)  # Figure draws by Agg: no screen is needed
    return hardest


# ---- a regression with error bars ----------------------------------------------------------------

FEATURES = {
    "intercept": lambda images: np.ones(len(images)),
    "ink": lambda images: images.mean(axis=(1, 2)),
    "left": lambda images: images[:, :, :4].mean(axis=(1, 2)),
    "top": lambda images: images[:, :4].mean(axis=(1, 2)),
    "centre": lambda images: images[:, 3:5, 3:5].mean(axis=(1, 2)),
}


def features(data, digits):
    """A small design matrix for telling two digits apart, and +1 or -1 for each image."""
    kept = np.any(data.y[:, digits] == 1.0, axis=1)
    images = data.x[kept].reshape(-1, 8, 8)
    columns = np.stack([feature(images) for feature in FEATURES.values()], axis=1)
    columns[:, 1:] = (columns[:, 1:] - columns[:, 1:].mean(axis=0)) / columns[:, 1:].std(axis=0)
    return columns, np.where(data.y[kept][:, digits[0]] == 1.0, 1.0, -1.0)


def negative_log_likelihood(weights, columns, signs):
    return np.sum(np.logaddexp(0.0, -signs * (columns @ weights)))


def newton(columns, signs, tolerance=1e-10, max_steps=50):
    """The most likely weights, their standard errors, and how many steps it took."""
    gradient = jit(grad(negative_log_likelihood))
    curvature = jit(hessian(negative_log_likelihood))
    weights = np.zeros(columns.shape[1])
    for step in range(1, max_steps + 1):
        change = np.linalg.solve(
            curvature(weights, columns, signs), gradient(weights, columns, signs)
        )
        weights = weights - change
        if np.max(np.abs(change)) < tolerance:
            covariance = np.linalg.inv(curvature(weights, columns, signs))
            return weights, np.sqrt(np.diag(covariance)), step
    raise RuntimeError(f"no convergence in {max_steps} steps: can the two digits be separated?")


def report(weights, errors, steps, digits):
    print(f"\nLogistic regression, {digits[0]} or {digits[1]}, {steps} Newton steps:")
    print(f"{'':>12} {'weight':>9} {'std. error':>11} {'z':>7}")
    for name, weight, error in zip(FEATURES, weights, errors, strict=True):
        print(f"{name:>12} {weight:9.3f} {error:11.3f} {weight / error:7.2f}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to save it")
    options = parser.parse_args(argv)
    options.picture.parent.mkdir(exist_ok=True)
    start = time.perf_counter()
    rng = np.random.default_rng(0)

    training, test = load(rng)
    params = train(init(rng), training, rng, options.epochs)
    reached = accuracy(params, test)
    print(f"Test accuracy: {reached:.1%} of {len(test.x)} images")

    everything = Data(*map(np.concatenate, zip(training, test, strict=True)))
    norms = gradient_norms(params, everything)
    draw(params, everything, norms, options.picture)
    print(
        f"Gradients of {len(norms)} images at once: median norm {np.median(norms):.2g}, largest "
        f"{np.max(norms):.2g}; the hardest are in {options.picture}"
    )

    digits = (3, 8)
    columns, signs = features(everything, digits)
    weights, errors, steps = newton(columns, signs)
    report(weights, errors, steps, digits)
    print(f"\n{time.perf_counter() - start:.1f} s in all")
    return reached, norms, weights, errors


if __name__ == "__main__":
    main()
