"""Golden ε of sampled releases, by Google's dp-accounting.

    python -m venv venv && venv/bin/pip install dp-accounting==0.6.0 && venv/bin/python sampled.py > sampled.json

Every value is pessimistic, from a grid finer than its default, so it lies above the true ε by far less than the
tolerance of the test. Replacing a record has twice the sensitivity of adding it: dp-accounting's sensitivity is that of
adding, ours that of what is said, hence the factor 2. It has no sampled Laplace noise for replaced records.
Each case records its grid and the seconds it took.
"""

import json
import math
import sys
import time

from dp_accounting import privacy_accountant
from dp_accounting.pld import privacy_loss_distribution as pld

REPLACE = privacy_accountant.NeighboringRelation.REPLACE_ONE


def laplace(epsilon, sampling, count=1):
    return {"mechanism": "laplace", "epsilon": epsilon, "sampling": sampling, "count": count}


def gaussian(mu, sampling, count=1, **more):
    return {"mechanism": "gaussian", "mu": mu, "sampling": sampling, "count": count, **more}


def plain(mu, count=1):
    return {"mechanism": "gaussian", "mu": mu, "count": count}


def one(event, grid):
    rate = event.get("sampling", 1.0)
    if event["mechanism"] == "laplace":
        return pld.from_laplace_mechanism(1.0 / event["epsilon"], value_discretization_interval=grid, sampling_prob=rate)
    if event.get("neighbours") == "replace-one":
        return pld.from_gaussian_mechanism(
            2.0 / event["mu"], value_discretization_interval=grid, sampling_prob=rate, neighboring_relation=REPLACE
        )
    return pld.from_gaussian_mechanism(1.0 / event["mu"], value_discretization_interval=grid, sampling_prob=rate)


def compose(events, grid):
    parts = [one(event, grid).self_compose(event.get("count", 1)) for event in events]
    result = parts[0]
    for part in parts[1:]:
        result = result.compose(part)
    return result


REPLACED = {"neighbours": "replace-one"}
CASES = [
    ("gaussian 1, 0.01 x 1000", [gaussian(1.0, 0.01, 1000)], [1e-5, 1e-9], 2e-5),
    ("gaussian 0.5, 0.1 x 200", [gaussian(0.5, 0.1, 200)], [1e-6, 1e-3], 1e-4),
    ("gaussian 0.9, 0.004 x 15000", [gaussian(0.9, 0.004, 15000)], [1e-5], 2e-5),
    ("gaussian 2, 0.001 x 100", [gaussian(2.0, 0.001, 100)], [1e-6], 2e-5),
    ("gaussian 0.1, 0.5 x 400", [gaussian(0.1, 0.5, 400)], [1e-6], 1e-4),
    ("gaussian 3, 0.2 x 1", [gaussian(3.0, 0.2)], [1e-6], 2e-4),
    ("gaussian 0.05, 0.01 x 5000", [gaussian(0.05, 0.01, 5000)], [1e-6], 1e-6),
    ("two rates", [gaussian(1.0, 0.01, 500), gaussian(0.5, 0.05, 100)], [1e-6], 2e-5),
    ("sampled beside whole", [gaussian(0.8, 0.02, 300), plain(0.1, 20)], [1e-6], 2e-5),
    ("laplace 1, 0.01 x 1000", [laplace(1.0, 0.01, 1000)], [1e-6], 1e-5),
    ("laplace 0.5, 0.2 x 30", [laplace(0.5, 0.2, 30)], [1e-6, 1e-2], 1e-5),
    ("laplace 3, 0.05 x 10", [laplace(3.0, 0.05, 10)], [1e-5], 1e-5),
    ("laplace and gaussian", [laplace(0.5, 0.1, 50), gaussian(0.7, 0.02, 200)], [1e-6], 1e-5),
    ("replaced 1, 0.01 x 1000", [gaussian(1.0, 0.01, 1000, **REPLACED)], [1e-5], 2e-5),
    ("replaced 2, 0.05 x 100", [gaussian(2.0, 0.05, 100, **REPLACED)], [1e-6, 1e-10], 1e-4),
    ("replaced 0.5, 0.3 x 40", [gaussian(0.5, 0.3, 40, **REPLACED)], [1e-6], 1e-4),
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
