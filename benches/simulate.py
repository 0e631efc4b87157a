"""The peers of our simulator: Algorithm 1 with noise, in numpy, written plainly and as fast as numpy honestly goes.

    python benches/simulate.py                  {"ms_per_round": ...}      (any Python 3 with numpy 2.2 or newer)

`plain` is the update as batched matrix products, the way one writes it down; `simulate` is the same update tuned for this size.

N = 100 agents on 200 edges, 100 records of 14 features each, K = 100 rounds, 10 runs, on two threads; a round is one run's
round of all agents, and its time is the wall time of everything divided by runs x rounds (the processor time beside it is what to
read on a machine that is busy with something else). The update is the paper's, in
double precision:

    s ~ U(0,1) per agent, coordinate and round
    x_i+ = (1-s) x_i + (s/n_i) sum_j x_j - grad f_i(x_i)/D + dual_i/D + Laplace(rate 1.02^k)
    dual_i+ = dual_i + zeta sum_j (x_j+ - x_i+)

What makes `simulate` fast: labels are folded into the features; features are stored feature-major, so both products of the gradient stream
over contiguous rows; every array is reused; the graph is a dense 100 x 100 product, faster than any gather at this size; each thread works on one run at
a time, whose records (1.1 MB) stay in cache; noise is drawn by inverse transform, several rounds at once. Drawing it is part of the time.
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

# Our own two threads go over runs; a threaded BLAS would fight them for the cores over tiny matrices.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np

AGENTS, EDGES, RECORDS, DIM, ROUNDS, RUNS = 100, 200, 100, 14, 100, 10
PENALTY, DUAL_STEP, REGULARIZATION, GROWTH = 10.0, 0.5, 1.0, 1.02
BLOCK = 10  # rounds of draws made at once: 14,000 numbers, which stay in cache


def connected_graph(rng):
    """Adjacency of a uniform connected graph, by rejection."""
    above = np.triu_indices(AGENTS, 1)
    while True:
        chosen = rng.choice(len(above[0]), EDGES, replace=False)
        adjacency = np.zeros((AGENTS, AGENTS))
        adjacency[above[0][chosen], above[1][chosen]] = 1
        adjacency += adjacency.T
        reached = np.zeros(AGENTS, bool)
        reached[0] = True
        while True:
            wider = reached | (adjacency[reached].sum(axis=0) > 0)
            if (wider == reached).all():
                break
            reached = wider
        if reached.all():
            return adjacency


def make_run(run):
    """A graph and unit-norm records with labels of a noisy linear rule; labels folded into the features, feature-major."""
    rng = np.random.default_rng([7, run])
    features = rng.standard_normal((AGENTS, RECORDS, DIM))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    labels = np.sign(features @ rng.standard_normal(DIM) + 0.3 * rng.standard_normal((AGENTS, RECORDS)))
    folded = np.ascontiguousarray((labels[:, :, None] * features).transpose(0, 2, 1))
    return run, connected_graph(rng), folded, features, labels


def draw_block(rng, k):
    """Uniform weights and Laplace noise of rate 1.02^k for the rounds k … k + BLOCK."""
    shape = (BLOCK, AGENTS, DIM)
    weights = rng.random(shape)
    noise = rng.random(shape)
    noise -= 0.5
    magnitude = np.abs(noise)
    magnitude *= -2
    np.log1p(magnitude, out=magnitude)
    np.copysign(magnitude, noise, out=noise)
    noise /= (GROWTH ** np.arange(k, k + BLOCK))[:, None, None]
    return weights, noise


def simulate(problem, draws=draw_block, rounds=ROUNDS):
    run, adjacency, folded, _, _ = problem
    rng = np.random.Generator(np.random.SFC64([11, run]))
    degrees = adjacency.sum(axis=1)[:, None]
    # One product with A' = [mean over neighbours] serves both the update and, scaled by n_i, the dual step.
    averaging = adjacency / degrees
    dual_scale = DUAL_STEP * degrees / PENALTY
    x = np.zeros((AGENTS, DIM))
    mean = np.zeros((AGENTS, DIM))
    scaled_duals = np.zeros((AGENTS, DIM))  # duals / D
    margins = np.empty((AGENTS, 1, RECORDS))
    flat = margins[:, 0, :]
    gradient = np.empty((AGENTS, DIM))
    keep = 1 - REGULARIZATION / PENALTY  # x - mu x / D, folded into one factor
    for k in range(rounds):
        if k % BLOCK == 0:
            weights, noise = draws(rng, k)
        # sum over records of sigma(-y z.x) y z = -b (gradient of the loss)
        np.matmul(x[:, None, :], folded, out=margins)
        np.exp(flat, out=flat)
        flat += 1
        np.reciprocal(flat, out=flat)
        np.matvec(folded, flat, out=gradient)
        gradient *= 1 / (RECORDS * PENALTY)
        # (1-s) x + s mean - mu x / D = keep x + s (mean - x)
        mean -= x
        mean *= weights[k % BLOCK]
        x *= keep
        x += mean
        x += gradient
        x += scaled_duals
        x += noise[k % BLOCK]
        np.matmul(averaging, x, out=mean)
        np.subtract(mean, x, out=gradient)
        gradient *= dual_scale
        scaled_duals += gradient
    return x, scaled_duals * PENALTY


def plain(problem):
    """The update as batched matrix products, as one writes it down."""
    run, adjacency, _, features, labels = problem
    rng = np.random.default_rng([11, run])
    degrees = adjacency.sum(axis=1)[:, None]
    transposed = features.transpose(0, 2, 1)
    x, duals = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    for k in range(ROUNDS):
        s = rng.random((AGENTS, DIM))
        margins = (features @ x[:, :, None])[:, :, 0] * labels
        slopes = -labels / (1 + np.exp(margins))
        gradient = (transposed @ slopes[:, :, None])[:, :, 0] / RECORDS + REGULARIZATION * x
        noise = rng.laplace(0, GROWTH**-k, (AGENTS, DIM))
        x = (1 - s) * x + s * (adjacency @ x) / degrees - gradient / PENALTY + duals / PENALTY + noise
        duals = duals + DUAL_STEP * (adjacency @ x - degrees * x)
    return x, duals


def reference(problem, draws, rounds):
    """The formulas one agent at a time, with nothing folded or reused: what `simulate` must equal."""
    run, adjacency, _, features, labels = problem
    rng = np.random.Generator(np.random.SFC64([11, run]))
    x, duals = np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM))
    for k in range(rounds):
        if k % BLOCK == 0:
            weights, noise = draws(rng, k)
        new = np.empty_like(x)
        for i in range(AGENTS):
            neighbours = np.flatnonzero(adjacency[i])
            z, y, s = features[i], labels[i], weights[k % BLOCK][i]
            gradient = -(z.T @ (y / (1 + np.exp(y * (z @ x[i]))))) / RECORDS + REGULARIZATION * x[i]
            new[i] = (1 - s) * x[i] + s / len(neighbours) * x[neighbours].sum(axis=0) - gradient / PENALTY
            new[i] += duals[i] / PENALTY + noise[k % BLOCK][i]
        for i in range(AGENTS):
            duals[i] += DUAL_STEP * (new[np.flatnonzero(adjacency[i])] - new[i]).sum(axis=0)
        x = new
    return x, duals


def main():
    parser = argparse.ArgumentParser(description="time numpy's Algorithm 1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9, help="the best of so many is printed")
    options = parser.parse_args()
    problems = [make_run(run) for run in range(RUNS)]
    for ours, theirs in zip(simulate(problems[0], rounds=30), reference(problems[0], draw_block, 30)):
        assert np.abs(ours - theirs).max() < 1e-12, "the fast update is not the paper's"
    best = {}
    for name, update in (("plain", plain), ("tuned", simulate)):
        times = []
        with ThreadPoolExecutor(options.threads) as pool:
            for _ in range(options.repeats + 1):
                start = time.perf_counter()
                results = list(pool.map(update, problems))
                times.append((time.perf_counter() - start) * 1000 / (RUNS * ROUNDS))
        assert all(np.isfinite(x).all() for x, _ in results)
        best[name] = min(times[1:])  # the first warms up
    print(json.dumps({
        "ms_per_round": round(best["plain"], 5), "tuned_ms_per_round": round(best["tuned"], 5),
        "threads": options.threads, "numpy": np.__version__,
    }))


if __name__ == "__main__":
    main()
