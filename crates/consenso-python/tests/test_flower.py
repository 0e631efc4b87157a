"""The example of a Flower mod, on Flower's own messages; skipped where Flower is not installed."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import consenso

app = pytest.importorskip("flwr.app")
EXAMPLE = Path(__file__).parents[1] / "examples" / "flower_mod.py"


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch):
    """Messages are made by a task of a run; newer Flowers want to know which."""
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)


def told(values):
    record = app.ArrayRecord({"w": app.Array(np.asarray(values, dtype=np.float64))})
    return app.Message(app.RecordDict({"arrays": record}), dst_node_id=1, message_type="train")


def trained(by):
    def client(message, context):
        (record,) = message.content.array_records.values()
        reply = {"arrays": app.ArrayRecord({"w": app.Array(record["w"].numpy() + by)})}
        metrics = app.MetricRecord({"num-examples": 10, "train-loss": 0.123})
        return app.Message(app.RecordDict({**reply, "metrics": metrics}), reply_to=message)

    return client


def test_a_flower_client_sends_clipped_noised_and_charged_updates():
    budget = consenso.BudgetAccountant(2.0, 1e-6)
    mod = runpy.run_path(str(EXAMPLE))["private_updates"](2.0, 1e-6, rounds=3, clip=1.0, accountant=budget)
    context = app.Context(1, 1, {}, app.RecordDict(), {})
    model = np.zeros(50)
    for _ in range(3):
        reply = mod(told(model), context, trained(1e6))
        (arrays,) = reply.content.array_records.values()
        moved = arrays["w"].numpy() - model
        # A huge update is clipped to 1 and drowned in noise of some units.
        assert 1.0 < np.abs(moved).max() < 100.0
        assert dict(*reply.content.metric_records.values()) == {"num-examples": 10}
    assert mod.claim().epsilon <= 2.0 and 0 < budget.spent[0] <= 2.0
    with pytest.raises(consenso.ConsensoError, match="spent"):
        mod(told(model), context, trained(0.0))
    refused = runpy.run_path(str(EXAMPLE))["private_updates"](2.0, 1e-6, rounds=3, clip=1.0, accountant=budget)
    with pytest.raises(consenso.BudgetSpent):
        refused(told(model), context, trained(0.0))
