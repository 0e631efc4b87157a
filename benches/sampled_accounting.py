"""Compositions of sampled releases beside Google's dp-accounting: how far apart, and whether ours is ever too small.

    python -m venv venv && venv/bin/pip install dp-accounting==0.6.0
    venv/bin/python benches/sampled_accounting.py [target/release/consenso] [cases]

Random chances, noise, counts and δ; Gaussian and Laplace noise, for records that are added or removed and that are replaced.
dp-accounting gives an ε from above and one from below, on a grid finer than its default. It has no sampled Laplace noise for replaced
records: there its composition of two distributions over cells of the line gives the ε from below, which cells can only lower.
"""

import json
import logging
import math
import random
import subprocess
import sys

from dp_accounting import privacy_accountant
from dp_accounting.pld import privacy_loss_distribution as pld

REPLACE = privacy_accountant.NeighboringRelation.REPLACE_ONE
KINDS = ["gaussian", "gaussian, replaced", "laplace", "laplace, replaced"]


def ours(command, event, delta):
    answer = subprocess.run([command, "privacy", "compose", "--events", "-", "--delta", repr(delta), "--json"],
                            input=json.dumps([event]), capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)["pld"]


def laplace_above(x):
    return 0.5 * math.exp(-x) if x >= 0 else 1 - 0.5 * math.exp(x)


def between(low, high):
    """The mass of a cell, without cancellation in the tails."""
    return laplace_above(low) - laplace_above(high) if low >= 0 else laplace_above(-high) - laplace_above(-low)


def replaced_laplace(shift, rate, width=5e-4):
    """(1 − q)f(x) + q·f(x − h) against its mirror image, over cells of the line, with all that is kinked at a boundary.

    An ε from below is short of the truth by up to a step of the grid for every release, so that steps are small beside the largest loss.
    """
    grid = (math.log1p(rate * math.expm1(shift)) - math.log1p(rate * math.expm1(-shift))) / 10_000
    cells = math.ceil(shift / width)
    width, reach = shift / cells, math.ceil(40 / width)
    upper, lower = {}, {}
    edges = [-math.inf] + [k * width for k in range(-reach, reach + 1)] + [math.inf]
    for k, (a, b) in enumerate(zip(edges, edges[1:])):
        still = between(a, b)
        upper[k] = math.log((1 - rate) * still + rate * between(a - shift, b - shift))
        lower[k] = math.log((1 - rate) * still + rate * between(a + shift, b + shift))
    return pld.from_two_probability_mass_functions(lower, upper, pessimistic_estimate=False, value_discretization_interval=grid, symmetric=True)


def theirs(kind, size, rate, grid, above):
    more = {"value_discretization_interval": grid, "sampling_prob": rate, "pessimistic_estimate": above}
    if kind == "gaussian":
        return pld.from_gaussian_mechanism(1 / size, **more)
    if kind == "gaussian, replaced":
        return pld.from_gaussian_mechanism(2 / size, neighboring_relation=REPLACE, **more)
    if kind == "laplace":
        return pld.from_laplace_mechanism(1 / size, **more)
    return None if above else replaced_laplace(size / 2, rate)


def main():
    logging.disable(logging.WARNING)
    command = sys.argv[1] if len(sys.argv) > 1 else "target/release/consenso"
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    draw = random.Random(1)
    farthest, short = 0.0, 0
    for number in range(cases):
        kind = KINDS[number % len(KINDS)]
        rate, size = 10 ** draw.uniform(-3, -0.3), 10 ** draw.uniform(-0.7, 0.5)
        count, delta = int(10 ** draw.uniform(0.5, 3.3)), 10 ** draw.uniform(-9, -3)
        if kind == "laplace, replaced":
            count = min(count, 200)
        noise, relation = (kind.split(",") + [""])[:2]
        event = {"mechanism": noise, "mu" if noise == "gaussian" else "epsilon": size, "sampling": rate, "count": count}
        if relation:
            event["neighbours"] = "replace-one"
        found = ours(command, event, delta)
        grid = min(1e-4, max(2e-6, found / math.sqrt(count) / 2000))
        bounds = []
        for above in (False, True):
            one = theirs(kind, size, rate, grid, above)
            bounds.append(one.self_compose(count).get_epsilon_for_delta(delta) if one else math.nan)
        low, high = bounds
        beside = high if math.isfinite(high) else low
        relative = found / beside - 1 if beside > 0 else 0.0
        if found < low:
            short += 1
        farthest = max(farthest, abs(relative))
        print(f"{kind:18} {size:.4f} q {rate:.5f} x {count:5} δ {delta:.1e}: ours {found:.6f}, theirs {low:.6f} to {high:.6f}, {relative:+.1e}", flush=True)
    print(f"{cases} compositions: at most {farthest:.1e} apart; {short} below the ε from below")


if __name__ == "__main__":
    main()
