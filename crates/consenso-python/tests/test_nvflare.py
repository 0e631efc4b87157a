"""The example of an NVFlare filter, as NVFlare applies it to results; skipped where NVFlare is not installed."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import consenso

pytest.importorskip("nvflare")
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable  # noqa: E402
from nvflare.apis.fl_constant import FilterKey, ReturnCode  # noqa: E402
from nvflare.apis.fl_context import FLContext  # noqa: E402
from nvflare.apis.shareable import Shareable, make_reply  # noqa: E402
from nvflare.apis.utils.task_utils import apply_filters  # noqa: E402

EXAMPLE = Path(__file__).parents[1] / "examples" / "nvflare_filter.py"
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "rounds": 3, "clip": 1.0}


def made(**rest):
    return runpy.run_path(str(EXAMPLE))["PrivateUpdates"](**BUDGET, **rest)


def leaves(private, result):
    """What a site sends of this result, by NVFlare's own function."""
    filters = {"train" + FilterKey.DELIMITER + FilterKey.OUT: [private]}
    return apply_filters("task_result_filters", result, FLContext(), filters, "train", FilterKey.OUT)


def trained(by, kind=DataKind.WEIGHT_DIFF):
    data = {"layer": np.full((5, 8), by, dtype=np.float32), "bias": np.full(10, by)}
    meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: 12, MetaKey.INITIAL_METRICS: {"val_loss": 0.123}}
    result = DXO(kind, data, meta).to_shareable()
    result.set_return_code(ReturnCode.OK)
    result.set_header("contribution_round", 4)
    result.set_header("train_accuracy", 0.9876)
    result["logits"] = [0.5]
    return result


def test_a_site_sends_clipped_noised_and_charged_updates():
    budget = consenso.BudgetAccountant(2.0, 1e-6)
    private = made(accountant=budget)
    for _ in range(3):
        reply = leaves(private, trained(1e6))
        found = from_shareable(reply)
        assert found.data_kind == DataKind.WEIGHT_DIFF and found.meta == {MetaKey.NUM_STEPS_CURRENT_ROUND: 12}
        assert found.data["layer"].dtype == np.float32 and found.data["layer"].shape == (5, 8)
        # A huge update is clipped to 1 and drowned in noise of some units.
        assert 1.0 < max(np.abs(array).max() for array in found.data.values()) < 100.0
        # Nothing else of the result goes along.
        assert set(reply) == {"__headers__", "DXO"} and reply.get_header("contribution_round") == 4
        assert reply.get_header("train_accuracy") is None and reply.get_return_code() == ReturnCode.OK
    assert private.claim.epsilon <= 2.0 and 0 < budget.spent[0] <= 2.0
    with pytest.raises(consenso.ConsensoError, match="spent"):
        leaves(private, trained(0.0))
    with pytest.raises(consenso.BudgetSpent):
        leaves(made(accountant=budget), trained(0.0))


def test_what_is_no_update_does_not_leave():
    private = made()
    for kind in (DataKind.WEIGHTS, DataKind.METRICS):
        with pytest.raises(ValueError, match="only differences of weights"):
            leaves(private, trained(1.0, kind))
    with pytest.raises(ValueError, match="not a valid DXO"):
        leaves(private, Shareable({"weights": [1.0]}))
    coded = DXO(DataKind.WEIGHT_DIFF, {"layer": np.arange(4)}).to_shareable()
    with pytest.raises(ValueError, match="floating-point"):
        leaves(private, coded)
    # An error goes on alone, and nothing of this was charged.
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    failed["trace"] = "age 57 is out of range"
    assert set(leaves(private, failed)) == {"__headers__"} and private.claim is None
    leaves(private, trained(1.0))
    with pytest.raises(ValueError, match="arrays of the first one"):
        leaves(private, DXO(DataKind.WEIGHT_DIFF, {"layer": np.zeros(3)}).to_shareable())


def test_a_site_that_is_started_again_does_not_begin_anew(tmp_path):
    ledger = str(tmp_path / "budget.ledger")
    leaves(made(ledger=ledger), trained(1.0))
    with pytest.raises(consenso.BudgetSpent):
        leaves(made(ledger=ledger), trained(1.0))
