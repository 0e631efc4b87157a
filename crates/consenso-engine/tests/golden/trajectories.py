"""Golden trajectories: what decent-bench 0.3.0 computes on the problem of rounds.json, without noise.

    pip install decent-bench==0.3.0          (Python 3.13)
    python trajectories.py > trajectories.json

The algorithms, the Metropolis weights and the logistic cost are decent-bench's own; from rounds.json come the records, the
edges and where everybody starts. Models of all agents after some of 200 rounds.
"""

import json
import pathlib
import sys

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms import p2p
from decent_bench.costs import L2RegularizerCost, LogisticRegressionCost
from decent_bench.networks import P2PNetwork

iop.set_backend("numpy")
ROUNDS = [1, 2, 3, 5, 10, 20, 50, 100, 200]
GOLDEN = json.loads((pathlib.Path(__file__).parent / "rounds.json").read_text())
PROBLEM = GOLDEN["problem"]
START = next(case for case in GOLDEN["cases"] if case["name"] == "dgd")["inputs"]["x"]


def network(complete):
    mu = PROBLEM["regularization"]
    agents = []
    for rows, labels in zip(PROBLEM["features"], PROBLEM["labels"]):
        data = [(iop.from_numpy(np.array(z)), iop.from_numpy(np.array([float(y > 0)]))) for z, y in zip(rows, labels)]
        agents.append(Agent(LogisticRegressionCost(data) + mu * L2RegularizerCost((PROBLEM["dim"],))))
    graph = nx.complete_graph(PROBLEM["agents"])
    if not complete:
        graph = nx.Graph()
        graph.add_nodes_from(range(PROBLEM["agents"]))
        graph.add_edges_from(PROBLEM["edges"])
    return P2PNetwork(graph, agents), agents


def trajectory(make, complete=False, shift=0):
    net, agents = network(complete)
    algorithm = make({a: iop.from_numpy(np.array(x)) for a, x in zip(agents, START)})
    algorithm.run(net, ROUNDS[-1] + shift)
    return [[np.asarray(iop.to_numpy(a._x_history[k + shift])).tolist() for a in agents] for k in ROUNDS]


class Dlm(p2p.DLM):
    """Of 0.3.0 the sum of messages is added up inside the first of them, which is the sender's own state: so it diverges."""

    def _sum_messages(self, i):
        first, *others = i.messages().values()
        return sum(others, iop.copy(first))


CASES = {
    "dgd": lambda x0: p2p.DGD(step_size=0.1, x0=x0),
    "diffusion": lambda x0: p2p.ATC(step_size=0.1, x0=x0),
    "extra": lambda x0: p2p.EXTRA(step_size=0.3, x0=x0),
    "atc-tracking": lambda x0: p2p.ATC_Tracking(step_size=0.3, x0=x0),
    "nids": lambda x0: p2p.NIDS(step_size=0.3, x0=x0),
    "exact-diffusion": lambda x0: p2p.ED(step_size=0.3, x0=x0),
    "led": lambda x0: p2p.LED(step_size=0.1, aux_step_size=0.2, num_local_steps=3, x0=x0),
    "k-gt": lambda x0: p2p.KGT(step_size=0.1, aux_step_size=1.0, num_local_steps=3, x0=x0),
    "aug-dgm": lambda x0: p2p.AugDGM(step_size=0.3, x0=x0),
    "proxskip": lambda x0: p2p.ProxSkip(step_size=0.1, aux_step_size=0.5, comm_probability=1.0, x0=x0),
    # One step length for all agents: 1/(2 c n_i + rho) on a graph where n_i = 4. Its first iteration only exchanges.
    "dlm": (lambda x0: Dlm(step_size=1 / (2 * 0.1 * 4 + 1.0), penalty=0.1, x0=x0), True, 1),
}


def main():
    entries = {}
    for name, make in CASES.items():
        entries[name] = trajectory(*make) if isinstance(make, tuple) else trajectory(make)
    text = json.dumps({"rounds": ROUNDS, "trajectories": entries})
    sys.stdout.write(text.replace("]], [[", "]],\n [[").replace(', "', ',\n "') + "\n")


if __name__ == "__main__":
    main()
