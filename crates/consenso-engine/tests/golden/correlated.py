"""Golden values of correlated noise: what a coalition leaves hidden, and the noise a budget needs.

    python correlated.py > correlated.json          (any Python 3 with numpy)

Written from the formula alone, independent of the Rust code. Without the coalition A, agent i is hidden by a Gaussian of variance
1 / [(sigma^2 I + cor^2 L_H)^-1]_ii; `resistance` is sigma^2 times that inverse entry, the worst over all coalitions of c agents and all
agents outside. `sigma` is the least own deviation that keeps K steps of sensitivity s within (epsilon, delta).
"""

import itertools
import json
import math

import numpy as np


def resistance(n, edges, coalition, r):
    honest = [v for v in range(n) if v not in coalition]
    at = {v: k for k, v in enumerate(honest)}
    m = np.eye(len(honest))
    for a, b in edges:
        if a in at and b in at:
            d = np.zeros(len(honest))
            d[at[a]], d[at[b]] = 1, -1
            m += r * np.outer(d, d)
    return np.linalg.inv(m).diagonal().max()


def delta_of(mu, epsilon):
    cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)


def mu_for(epsilon, delta):
    low, high = 1e-6, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low


GRAPHS = {
    "ring of 8": (8, [(i, (i + 1) % 8) for i in range(8)]),
    "complete of 6": (6, list(itertools.combinations(range(6), 2))),
    "two triangles and a bridge": (6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]),
    "circulant of 20 with steps 1 and 3": (20, [(i, (i + s) % 20) for i in range(20) for s in (1, 3)]),
}

cases = []
for name, (n, edges) in GRAPHS.items():
    for c in (0, 1, 2):
        for correlation in (0.5, 3.0, 20.0):
            worst = max(resistance(n, edges, a, correlation**2) for a in itertools.combinations(range(n), c))
            epsilon, delta, rounds, s = 0.5, 1e-6, 50, 0.02
            sigma = s * math.sqrt(rounds * worst) / mu_for(epsilon, delta)
            cases.append({"graph": name, "agents": n, "edges": edges, "colluders": c, "correlation": correlation,
                          "resistance": worst, "epsilon": epsilon, "delta": delta, "rounds": rounds,
                          "sensitivity": s, "sigma": sigma})
print(json.dumps(cases, indent=1))
