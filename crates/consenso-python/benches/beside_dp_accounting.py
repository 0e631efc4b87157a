"""ε of random compositions beside Google's dp-accounting, and the time of accounting and noise beside OpenDP and autodp.

    pip install dp-accounting opendp autodp
    python benches/beside_dp_accounting.py [--program FILE] [compositions] [seed]

With --program ours is the command `consenso privacy` in this file, where the Python package is not installed; its times
have the start of a process in them, and noise is left out.

Every ε here must be at least the truth: dp-accounting's pessimistic estimate bounds it from above, its optimistic one
from below. The script fails where ours is below the optimistic one, or more than 0.1 % above the pessimistic one.
A fifth as many compositions again have releases of secret samples, with the same bounds.

Times are of the processor, all threads added up, so that a busy machine changes them little.
"""

import json
import logging
import resource
import subprocess
import sys
import time

import numpy as np


class Program:
    """The part of ``consenso.dp`` that the command line has."""

    def __init__(self, file):
        self.file = file

    def _said(self, *words, text=None):
        done = subprocess.run([self.file, "privacy", *words, "--json"], input=text, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def compose(self, events, delta):
        return self._said("compose", "--events", "-", "--delta", repr(delta), text=json.dumps(events))

    def calibrate(self, epsilon, delta, rounds, dim, sensitivity_l1, sensitivity_l2, mechanism):
        words = ["--epsilon", repr(epsilon), "--delta", repr(delta), "--rounds", str(rounds), "--dim", str(dim)]
        words += ["--sensitivity-l1", repr(sensitivity_l1), "--sensitivity-l2", repr(sensitivity_l2)]
        return self._said("calibrate", *words, "--mechanism", mechanism)


if "--program" in sys.argv:
    place = sys.argv.index("--program")
    dp = Program(sys.argv[place + 1])
    OPTIMIZED = True
    del sys.argv[place : place + 2]
else:
    from consenso import _core, dp

    OPTIMIZED = _core.OPTIMIZED


def processor():
    """Seconds that this process and those it started have computed."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def composition(rng, sampled):
    """One to four kinds of releases, up to a thousand each, whose ε is neither tiny nor huge; of secret samples if asked."""
    events = []
    for _ in range(rng.integers(1, 5)):
        count = int(10 ** rng.uniform(0, 3))
        size = float(10 ** rng.uniform(-1.5, 0.2) / np.sqrt(count))
        key = rng.choice(["laplace", "gaussian"])
        events.append({"mechanism": str(key), "epsilon" if key == "laplace" else "mu": size, "count": count})
        if sampled:
            # As much larger as the sample is small, so that what is found is no rounding error.
            rate = float(10 ** rng.uniform(-2, -0.3))
            events[-1] |= {"sampling": rate, "epsilon" if key == "laplace" else "mu": min(size / rate, 1.0)}
    return events, float(10 ** rng.uniform(-9, -4))


def theirs(events, delta, interval):
    """dp-accounting's ε, pessimistic and optimistic, on this grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    ends = []
    for pessimistic in (True, False):
        total = None
        for event in events:
            laplace = event["mechanism"] == "laplace"
            make = pld.from_laplace_mechanism if laplace else pld.from_gaussian_mechanism
            one = make(
                1 / event["epsilon" if laplace else "mu"],
                pessimistic_estimate=pessimistic,
                value_discretization_interval=interval,
                sampling_prob=event.get("sampling", 1.0),
            )
            one = one.self_compose(event["count"])
            total = one if total is None else total.compose(one)
        ends.append(total.get_epsilon_for_delta(delta))
    return ends


def exact(events, delta):
    """The true ε of Gaussian releases alone, by their closed form (Balle and Wang 2018); nothing for others."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    if any(event["mechanism"] != "gaussian" or "sampling" in event for event in events):
        return None
    mu = np.sqrt(sum(event["count"] * event["mu"] ** 2 for event in events))

    def excess(epsilon):
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return first + np.log1p(-np.exp(second - first)) - np.log(delta)

    return brentq(excess, 0.0, 100.0 * (mu + mu**2), xtol=1e-12, rtol=1e-14)


def agreement(compositions, seed, sampled=False):
    rng = np.random.default_rng(seed)
    ours_took = theirs_took = 0.0
    below, above, widest = 0, 0, 0.0
    gaps, known = [], []
    for _ in range(compositions):
        events, delta = composition(rng, sampled)
        began = processor()
        ours = dp.compose(events, delta)["best"]["epsilon"]
        ours_took += processor() - began
        began = processor()
        upper, lower = theirs(events, delta, 1e-4)
        theirs_took += (processor() - began) / 2
        below += ours < lower * (1 - 1e-9) - 1e-12
        above += ours > upper * 1.001 + 1e-12
        gaps.append(ours / upper - 1)
        truth = exact(events, delta)
        if truth is not None:
            known.append(ours / truth - 1)
        widest = max(widest, upper / lower - 1 if lower > 0 else 0.0)
    gaps = np.array(gaps)
    print(
        f"── {compositions} compositions{' of samples' if sampled else ''}: ε of consenso over dp-accounting's pessimistic one: "
        f"{1 + gaps.min():.5f} to {1 + gaps.max():.5f}, median {1 + np.median(gaps):.5f}"
    )
    print(
        f"── below dp-accounting's optimistic ε: {below}; more than 0.1 % above its pessimistic one: {above}; "
        f"its two are up to {100 * widest:.2g} % apart"
    )
    print(
        f"── {1e3 * ours_took / compositions:.2f} ms a composition, dp-accounting {1e3 * theirs_took / compositions:.0f} ms"
        f" (grid 1e-4, {'optimised' if OPTIMIZED else 'NOT optimised: times mean nothing'})"
    )
    if known:
        print(f"── {len(known)} of them have a closed form: ours over it less 1 is {min(known):.1e} to {max(known):.1e}")
    return below == 0 and above == 0 and all(gap >= -1e-10 for gap in known)


def seconds(work, times=5):
    took = []
    for _ in range(times):
        began = processor()
        work()
        took.append(processor() - began)
    return min(took)


def noise():
    """Nanoseconds a number of exact noise, beside OpenDP's."""
    if isinstance(dp, Program):
        raise ImportError("the command line hands out no noise")
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    count = 20_000
    zeros = [0.0] * count
    space = opendp.vector_domain(opendp.atom_domain(T=float, nan=False))
    for name, metric, ours, make in (
        ("laplace", opendp.l1_distance(T=float), dp.laplace, opendp.m.make_laplace),
        ("gaussian", opendp.l2_distance(T=float), dp.gaussian, opendp.m.make_gaussian),
    ):
        draw = make(space, metric, scale=1.0)
        array = np.zeros(count)
        mine, other = seconds(lambda: ours(array, 1.0)), seconds(lambda: draw(zeros), 2)  # noqa: B023
        print(f"── exact {name} noise: {1e9 * mine / count:.0f} ns a number, OpenDP {1e9 * other / count:.0f} ns")


LAPLACE = {"mechanism": "laplace", "epsilon": 0.01, "count": 1400}
GAUSSIAN = {"mechanism": "gaussian", "mu": 0.02, "count": 1000}
SAMPLED = {"mechanism": "gaussian", "mu": 1.0, "sampling": 0.01, "count": 1000}
DELTA = 1e-6


def opendp_epsilon(event):
    """OpenDP's ε: zCDP of the Gaussian releases, converted; the sum of the Laplace ones; none of Poisson samples."""
    import opendp.prelude as opendp

    if "sampling" in event:
        return None
    opendp.enable_features("contrib")
    space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
    if event["mechanism"] == "laplace":
        return event["count"] * opendp.m.make_laplace(*space, scale=1 / event["epsilon"]).map(1.0)
    # The zCDP cost of n releases of μ is that of one of μ√n.
    one = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale=1 / event["mu"]))
    return one.map(event["count"] ** 0.5).epsilon(DELTA)


def dp_accounting_epsilon(event):
    from dp_accounting.pld import privacy_loss_distribution as pld

    key, make = ("epsilon", pld.from_laplace_mechanism) if event["mechanism"] == "laplace" else ("mu", pld.from_gaussian_mechanism)
    one = make(1 / event[key], value_discretization_interval=1e-4, sampling_prob=event.get("sampling", 1.0))
    return one.self_compose(event["count"]).get_epsilon_for_delta(DELTA)


def autodp_epsilon(event):
    """Autodp's ε by Rényi."""
    from autodp import rdp_acct, rdp_bank

    accountant = rdp_acct.anaRDPacct()
    if "sampling" in event:
        accountant.compose_poisson_subsampled_mechanisms(
            lambda x: rdp_bank.RDP_gaussian({"sigma": 1 / event["mu"]}, x), event["sampling"], event["count"]
        )
    elif event["mechanism"] == "laplace":
        accountant.compose_mechanism(lambda x: rdp_bank.RDP_laplace({"b": 1 / event["epsilon"]}, x), event["count"])
    else:
        accountant.compose_mechanism(lambda x: rdp_bank.RDP_gaussian({"sigma": 1 / event["mu"]}, x), event["count"])
    return accountant.get_eps(DELTA)


def table():
    """ε of two schedules by every library, with its time: the smaller the better, for all are upper bounds."""
    libraries = {
        "consenso-dp": lambda event: dp.compose([event], DELTA)["best"]["epsilon"],
        "OpenDP": opendp_epsilon,
        "dp-accounting": dp_accounting_epsilon,
        "autodp": autodp_epsilon,
    }
    print("| ε, and ms to find it | " + " | ".join(libraries) + " |\n|---|" + "---|" * len(libraries))
    for event in (LAPLACE, GAUSSIAN, SAMPLED):
        cells = []
        for find in libraries.values():
            try:
                epsilon = find(event)
            except ImportError as error:
                cells.append(f"left out: {error}")
                continue
            if epsilon is None:
                cells.append("–")
                continue
            took = seconds(lambda: find(event), 3)  # noqa: B023
            cells.append(f"{epsilon:.5f}, {1e3 * took:.3g} ms")
        each = event.get("epsilon", event.get("mu"))
        drawn = f", each record drawn with probability {event['sampling']}" if "sampling" in event else ""
        print(f"| {event['count']:,} {event['mechanism']} releases of {each}{drawn} | " + " | ".join(cells) + " |")


def calibration():
    """The time to find the noise that 1,400 releases may have within (1, 1e-6), beside dp-accounting."""
    import dp_accounting
    from dp_accounting import pld

    for kind in ("gaussian", "laplace"):
        ours = seconds(lambda: dp.calibrate(1.0, DELTA, 1400, 1, sensitivity_l2=1.0, sensitivity_l1=1.0, mechanism=kind))  # noqa: B023
        found = dp.calibrate(1.0, DELTA, 1400, 1, sensitivity_l2=1.0, sensitivity_l1=1.0, mechanism=kind)["multiplier"]
        event = dp_accounting.GaussianDpEvent if kind == "gaussian" else dp_accounting.LaplaceDpEvent
        began = processor()
        other = dp_accounting.calibrate_dp_mechanism(
            pld.PLDAccountant,
            lambda scale: dp_accounting.SelfComposedDpEvent(event(scale), 1400),  # noqa: B023
            1.0,
            DELTA,
            dp_accounting.LowerEndpointAndGuess(found / 2, found),
            tol=1e-3 * found,
        )
        took = processor() - began
        print(f"── {kind} noise for 1,400 releases: {found:.4g} in {1e3 * ours:.2g} ms; dp-accounting {other:.4g} in {took:.2g} s")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # its optimistic estimate has no connect-the-dots, and it says so each time
    asked = [int(word) for word in sys.argv[1:]]
    count, seed = (*asked, *(500, 1)[len(asked) :])
    agreed = agreement(count, seed)
    agreed &= agreement(count // 5, seed, sampled=True)
    for part in (noise, table, calibration):
        try:
            part()
        except ImportError as error:
            print(f"── {part.__name__}: left out: {error}")
    sys.exit(0 if agreed else 1)
