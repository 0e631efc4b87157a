"""The same workload here and in decent-bench: processor time of a round of DGD and EXTRA, in one run.

    pip install decent-bench==0.3.0          (Python 3.13)
    python benches/beside_decent_bench.py [target/release/consenso]

100 agents of 100 records with 14 features on a ring, logistic loss, 1,000 rounds. Both sides take the difference between a long
run and a short one, so that starting up, reading records and finding the optimum do not count; decent-bench evaluates nothing
here. Processor time, not wall time: on a busy machine it changes little.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms import p2p
from decent_bench.costs import L2RegularizerCost, LogisticRegressionCost
from decent_bench.networks import P2PNetwork

AGENTS, RECORDS, DIM, SHORT, LONG = 100, 100, 14, 10, 1010
FILE = """
name = "speed"
runs = 1
seed = 1
[data]
source = "logistic"
agents = {agents}
records_per_agent = {records}
dim = {dim}
[graph]
kind = "ring"
[objective]
regularization = 1e-3
[[algorithm]]
kind = "{kind}"
step = 0.1
rounds = {rounds}
"""


def here(command, kind, rounds):
    """Processor seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "speed.toml"
        file.write_text(FILE.format(agents=AGENTS, records=RECORDS, dim=DIM, kind=kind, rounds=rounds))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([command, "run", file, "--out", folder + "/out", "--json"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def there(make, rounds):
    """Processor seconds of a run of decent-bench."""
    rng = np.random.default_rng(1)
    truth, agents = rng.normal(size=DIM), []
    for _ in range(AGENTS):
        rows = rng.normal(size=(RECORDS, DIM))
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        labels = rng.random(RECORDS) < 1 / (1 + np.exp(-rows @ truth))
        data = [(iop.from_numpy(z), iop.from_numpy(np.array([float(y)]))) for z, y in zip(rows, labels)]
        agents.append(Agent(LogisticRegressionCost(data) + 1e-3 * L2RegularizerCost((DIM,))))
    network = P2PNetwork(nx.cycle_graph(AGENTS), agents)
    start = time.process_time()
    make().run(network, rounds)
    return time.process_time() - start


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "target/release/consenso"
    iop.set_backend("numpy")
    methods = {"dgd": lambda: p2p.DGD(step_size=0.1), "extra": lambda: p2p.EXTRA(step_size=0.1)}
    rounds = LONG - SHORT
    for kind, make in methods.items():
        ours = (here(command, kind, LONG) - here(command, kind, SHORT)) / rounds
        theirs = (there(make, LONG) - there(make, SHORT)) / rounds
        print(f"{kind}: decent-bench {1e3 * theirs:.2f} ms of processor time a round, here {1e3 * ours:.3f}: {theirs / ours:.0f} times")


if __name__ == "__main__":
    main()
