"""Times dp-accounting on the tasks of `crates/consenso-engine/examples/bench_accounting.rs`; one JSON line a task.

    python -m venv venv && venv/bin/pip install dp-accounting==0.6.0 && venv/bin/python benches/accounting.py

The grid (`value_discretization_interval`) is dp-accounting's own default, 1e-4, unless a task says otherwise.
"""

import json
import statistics
import time

import dp_accounting
from dp_accounting import pld as pld_accounting
from dp_accounting.pld import privacy_loss_distribution as pld

DELTA = 1e-6


def report(name, task, runs=3):
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        value = task()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"task": name, "value": value, "seconds": statistics.median(seconds)}), flush=True)


def homogeneous():
    return pld.from_laplace_mechanism(100.0).self_compose(1400).get_epsilon_for_delta(DELTA)


def distinct(epsilons):
    """Pairwise, which is faster than one after another: the kindest way to use it."""
    parts = [pld.from_laplace_mechanism(1.0 / epsilon) for epsilon in epsilons]
    while len(parts) > 1:
        parts = [a.compose(b) for a, b in zip(parts[::2], parts[1::2])] + (parts[-1:] if len(parts) % 2 else [])
    return parts[0].get_epsilon_for_delta(DELTA)


def calibrated(event, bracket):
    """The noise multiplier, relative to a sensitivity of 0.01, for 1,400 rounds at (1, 1e-6)."""
    multiplier = dp_accounting.calibrate_dp_mechanism(
        pld_accounting.PLDAccountant,
        lambda noise: dp_accounting.SelfComposedDpEvent(event(noise), 1400),
        1.0,
        DELTA,
        dp_accounting.LowerEndpointAndGuess(*bracket),
        tol=1e-3 * bracket[1],
    )
    return multiplier * 0.01


report("pld-laplace-1400", homogeneous)
report("pld-laplace-1400-distinct", lambda: distinct([0.002 * 1.02 ** (k / 14) for k in range(1400)]), runs=1)
report("pld-laplace-1400-linear", lambda: distinct([0.005 + 0.00001 * k for k in range(1400)]), runs=1)
report("calibrate-gaussian-1400", lambda: calibrated(dp_accounting.GaussianDpEvent, (1.0, 180.0)), runs=1)
report("calibrate-laplace-1400", lambda: calibrated(dp_accounting.LaplaceDpEvent, (1.0, 160.0)), runs=1)
