"""Golden values: where the paper's figures end up, by another program on records of its own.

    python figures.py > figures.json          (any Python 3 with numpy; about a minute)

Appendix E from the formulas alone (docs/paper.md sections 2 to 4 and 6): d = 14, b = 100, mu = 1, K = 100, D = 10, zeta = 0.5, noise rate 1.02^k, B = 1/b, on
random unit rows of positive numbers with three quarters negative labels, like Adult in the paper's encoding: noise decides these
figures, not the records. Each value comes with the standard deviation of a mean over 10 runs, which is what an experiment gives.

"start" is the standard deviation of the point all agents start from: from zero the first round has no interval, and
Algorithm 2*, whose steps are largest then, pays for it.
"""

import json
import sys

import numpy as np

D_FEATURES, B_RECORDS, MU, K, SENSITIVITY = 14, 100, 1.0, 100, 0.01
rng = np.random.default_rng(20)


def random_graph(n, edges):
    """Uniform among connected graphs, by rejection."""
    pairs = [(i, j) for i in range(n) for j in range(i)]
    while True:
        a = np.zeros((n, n))
        for k in rng.choice(len(pairs), edges, replace=False):
            i, j = pairs[k]
            a[i, j] = a[j, i] = 1
        if np.linalg.eigvalsh(np.diag(a.sum(1)) - a)[1] > 1e-9:
            return a


def records(n):
    z = np.abs(rng.normal(size=(n, B_RECORDS, D_FEATURES))) + 0.3
    z /= np.linalg.norm(z, axis=2, keepdims=True)
    return z, np.where(rng.random((n, B_RECORDS)) < 0.75, -1.0, 1.0)


def gradient(x, z, y):
    margin = y * np.einsum("nbd,nd->nb", z, x)
    return np.einsum("nbd,nb->nd", z, -y / (1 + np.exp(margin))) / B_RECORDS + MU * x


def optimum(z, y):
    x = np.zeros(D_FEATURES)
    for _ in range(300):
        x = x - 0.7 * gradient(np.tile(x, (len(z), 1)), z, y).mean(0)
    return x


def log_density(x, width, rate):
    """log of the density of U[0, width] + Laplace, up to a constant of the width."""
    with np.errstate(all="ignore"):
        inside = np.log(-np.expm1(-rate * x) - np.expm1(-rate * (width - x)))
        outside = -rate * np.where(x < 0, -x, x - width) + np.log(-np.expm1(-rate * width))
    mixed = np.where((x >= 0) & (x <= width), inside, outside)
    return np.where(width < 1e-12, -rate * np.abs(x), mixed)


def realised(x, width, rate, shift):
    """Theorem 2.2, summed over the coordinates of an agent."""
    here = log_density(x, width, rate)
    both = [np.abs(here - log_density(x + t, width, rate)) for t in (-shift, shift)]
    return np.maximum(*both).sum(1)


def algorithm_1(a, z, y, x):
    degree, big_d, zeta = a.sum(1)[:, None], 10.0, 0.5
    dual, loss = np.zeros_like(x), np.zeros(len(x))
    for k in range(1, K + 1):
        rate, s, mean = 1.02**k, rng.random(x.shape), a @ x / degree
        noise = rng.laplace(scale=1 / rate, size=x.shape)
        point = (1 - s) * x + s * mean
        loss += realised(point - np.minimum(x, mean) + noise, np.abs(x - mean), rate, SENSITIVITY / big_d)
        x = point - gradient(x, z, y) / big_d + dual / big_d + noise
        dual = dual + zeta * (a @ x - degree * x)
    return x, loss.mean()


def algorithm_2_star(a, z, y, x):
    near, loss = (a + np.eye(len(x)))[:, :, None] > 0, np.zeros(len(x))
    for k in range(1, K + 1):
        rate, step = 1.02**k, 0.93**k
        low, high = np.where(near, x[None], np.inf).min(1), np.where(near, x[None], -np.inf).max(1)
        point, noise = rng.random(x.shape) * (high - low), rng.laplace(scale=1 / rate, size=x.shape)
        loss += realised(point + noise, high - low, rate, step * SENSITIVITY)
        x = low + point - step * gradient(x, z, y) + noise
    return x, loss.mean()


def pdop(a, z, y, sent):
    degree = a.sum(1)
    w = a / (1 + np.maximum(degree[:, None], degree[None]))
    w = w + np.diag(1 - w.sum(1))
    for k in range(1, K + 1):
        mixed = w @ sent
        x = mixed - 0.9**k * gradient(mixed, z, y)
        sent = x + rng.laplace(scale=1.02**-k, size=x.shape)
    return x, sum(D_FEATURES * 0.9**k * 1.02**k * SENSITIVITY for k in range(1, K + 1))


def summary(values):
    return {"mean": round(float(np.mean(values)), 4), "deviation": round(float(np.std(values) / np.sqrt(10)), 4)}


def main():
    cases = []
    for n, edges, runs in [(10, 20, 100), (10, 40, 100)]:
        for start in (0.0, 1.0):
            errors = {"admm": [], "gd-star": [], "pdop": []}
            losses = {"admm": [], "gd-star": [], "pdop": []}
            for _ in range(runs):
                a, (z, y) = random_graph(n, edges), records(n)
                best = optimum(z, y)
                for kind, play in [("admm", algorithm_1), ("gd-star", algorithm_2_star), ("pdop", pdop)]:
                    x, loss = play(a, z, y, start * rng.normal(size=(n, D_FEATURES)))
                    errors[kind].append(np.log(np.linalg.norm(x - best, axis=1) / D_FEATURES).mean())
                    losses[kind].append(loss)
            for kind in errors:
                cases.append({"kind": kind, "agents": n, "edges": edges, "start": start, "log_error": summary(errors[kind]),
                              "epsilon": summary(losses[kind])})
    sys.stdout.write("[\n" + ",\n".join("  " + json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
