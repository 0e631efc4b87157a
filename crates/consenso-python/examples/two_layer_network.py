"""A two-layer network on Adult, trained by ten sites under ε = 4: the gradients of JAX or PyTorch where one is installed, else of numpy.

Whoever computes the gradients, the gate clips each record's, adds up, noises and charges: the claim does not rest on this file.
"""

import argparse
import time

import numpy as np

import consenso
from consenso.datasets import load_adult

HIDDEN = 8


def by_numpy(features):
    def gradients(x, X, y):
        hidden, out = x[: features * HIDDEN].reshape(HIDDEN, features), x[features * HIDDEN :]
        a = np.tanh(X @ hidden.T)
        slope = -y / (1 + np.exp(y * (a @ out)))
        inner = (slope[:, None] * out * (1 - a**2))[:, :, None] * X[:, None, :]
        return np.concatenate([inner.reshape(len(X), -1), slope[:, None] * a], axis=1)

    return gradients


def by_jax(features):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def loss(x, row, label):
        hidden, out = x[: features * HIDDEN].reshape(HIDDEN, features), x[features * HIDDEN :]
        return jnp.logaddexp(0.0, -label * (out @ jnp.tanh(hidden @ row)))

    return jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))


def by_torch(features):
    import torch
    from torch.func import grad, vmap

    def loss(x, row, label):
        hidden, out = x[: features * HIDDEN].reshape(HIDDEN, features), x[features * HIDDEN :]
        return torch.nn.functional.softplus(-label * (out @ torch.tanh(hidden @ row)))

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    return lambda x, X, y: each(*(torch.from_numpy(np.ascontiguousarray(a)) for a in (x, X, y))).numpy()


def gradients_of(features):
    """The first that is installed, and its name."""
    for name, make in (("JAX", by_jax), ("PyTorch", by_torch), ("numpy", by_numpy)):
        try:
            return name, make(features)
        except ImportError:
            continue
    raise AssertionError("numpy is always there")


def main(records=None, rounds=150, batch=None):
    adult = load_adult()
    ones = lambda rows: np.column_stack([adult.one_hot(rows), np.ones(len(rows))])  # noqa: E731
    X, y = ones(adult.data)[:records], (2 * adult.target - 1)[:records]
    features = X.shape[1]
    by, gradients = gradients_of(features)
    problem = consenso.CustomProblem(gradients, dim=(features + 1) * HIDDEN, clip=1.0)
    start = np.random.default_rng(0).normal(size=problem.dim) / 3
    began, sites = time.process_time(), np.arange(len(X)) % 10
    fit = problem.fit(X, y, sites=sites, epsilon=4.0, delta=1e-6, rounds=rounds, learning_rate=0.02, start=start, batch=batch)
    seconds = time.process_time() - began
    hidden, out = fit.model_[: features * HIDDEN].reshape(HIDDEN, features), fit.model_[features * HIDDEN :]
    right = np.mean((np.tanh(ones(adult.test_data) @ hidden.T) @ out > 0) == (adult.test_target > 0))
    print(f"{by}: {problem.dim} parameters, {fit.rounds_} rounds, ε ≤ {fit.claim_['epsilon']:.3f}, test accuracy {right:.3f}, {seconds:.1f} s of processor time")
    return right, fit


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int)
    arguments.add_argument("--rounds", type=int, default=150)
    arguments.add_argument("--batch", type=float, help="the chance of a record to be drawn for a round")
    main(**vars(arguments.parse_args()))
