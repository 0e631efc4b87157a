"""Golden ε of privacy loss distributions, by Google's dp-accounting.

    python -m venv venv && venv/bin/pip install dp-accounting==0.6.0 && venv/bin/python pld.py > pld.json

Every value is pessimistic, from a grid much finer than its default, so it lies above the true ε by far less than the
tolerance of the test. (Randomised response is left out: there it rounds every loss up to the grid; see kov.py.) Each case records its grid and the seconds it took.
"""

import json
import math
import sys
import time

from dp_accounting.pld import privacy_loss_distribution as pld


def laplace(epsilon, count=1):
    return {"mechanism": "laplace", "epsilon": epsilon, "count": count}


def gaussian(mu, count=1):
    return {"mechanism": "gaussian", "mu": mu, "count": count}


def one(event, grid):
    if event["mechanism"] == "laplace":
        return pld.from_laplace_mechanism(1.0 / event["epsilon"], value_discretization_interval=grid)
    return pld.from_gaussian_mechanism(1.0 / event["mu"], value_discretization_interval=grid)


def compose(events, grid):
    parts = [one(event, grid).self_compose(event.get("count", 1)) for event in events]
    # Pairwise, so that the many short distributions meet before the long ones.
    while len(parts) > 1:
        parts = [a.compose(b) for a, b in zip(parts[::2], parts[1::2])] + (parts[-1:] if len(parts) % 2 else [])
    return parts[0]


# 1,400 distinct ε: geometric (ratio 1.02 to the power k/14, spanning 1.02^100) and linear.
geometric = [laplace(0.002 * 1.02 ** (k / 14)) for k in range(1400)]
linear = [laplace(0.005 + 0.00001 * k) for k in range(1400)]

CASES = [
    ("laplace 0.01 x 1400", [laplace(0.01, 1400)], [1e-6, 1e-9, 1e-3], 1e-5),
    ("laplace 0.1 x 100", [laplace(0.1, 100)], [1e-6], 1e-4),
    ("laplace 1 x 1", [laplace(1.0)], [1e-6, 1e-2], 1e-5),
    ("laplace 0.5 x 3", [laplace(0.5, 3)], [1e-6], 1e-5),
    ("laplace 2 x 10", [laplace(2.0, 10)], [1e-6], 1e-4),
    ("laplace geometric", geometric, [1e-6], 1e-5),
    ("laplace linear", linear, [1e-6], 1e-5),
    ("gaussian 0.02 x 1000", [gaussian(0.02, 1000)], [1e-6], 1e-5),
    ("gaussian 1 x 4", [gaussian(1.0, 4)], [1e-5], 1e-4),
    (
        "laplace and gaussian",
        [laplace(0.01, 1400), gaussian(0.02, 1000)],
        [1e-6],
        1e-5,
    ),
    (
        "a few of each",
        [laplace(0.3), laplace(0.05, 40), gaussian(0.1, 30), laplace(0.02, 100)],
        [1e-6, 1e-10],
        1e-5,
    ),
    ("three distinct laplace", [laplace(0.7), laplace(0.31), laplace(0.123)], [1e-6], 1e-5),
]


def main():
    out = []
    for name, events, deltas, grid in CASES:
        start = time.time()
        distribution = compose(events, grid)
        for delta in deltas:
            epsilon = distribution.get_epsilon_for_delta(delta)
            assert math.isfinite(epsilon)
            out.append({"name": name, "events": events, "delta": delta, "epsilon": epsilon, "grid": grid})
        print(name, [c["epsilon"] for c in out[-len(deltas) :]], round(time.time() - start, 2), "s", file=sys.stderr)
    print(json.dumps(out))


main()
