"""Differential privacy alone, and under the names of dp-accounting."""

import math

import numpy as np
import pytest

from consenso import dp, dp_accounting as names


def test_float32_comes_back_as_float32_and_is_the_rounded_release():
    values = np.linspace(-1, 1, 7, dtype=np.float32)
    for draw in (dp.laplace, dp.gaussian):
        released = draw(values, 0.5, seed=3)
        assert released.dtype == np.float32 and released.shape == values.shape
        wide = draw(values.astype(np.float64), 0.5, seed=3)
        assert wide.dtype == np.float64 and np.array_equal(released, wide.astype(np.float32))


def test_a_delta_is_one_at_which_the_epsilon_is_kept():
    events = [{"mechanism": "gaussian", "mu": 0.05, "count": 100}, {"mechanism": "laplace", "epsilon": 0.02, "count": 50}]
    found = dp.delta(events, 1.0)
    assert dp.compose(events, found)["best"]["epsilon"] <= 1.0
    assert dp.compose(events, found * 0.999)["best"]["epsilon"] > 1.0
    assert dp.delta([{"mechanism": "laplace", "epsilon": 0.1}], 0.1 * (1 + 1e-9)) < 1e-290
    assert dp.delta([{"mechanism": "gaussian", "mu": 90.0}], 0.0) == 1.0


def test_what_an_epsilon_means():
    found = dp.explain(1.0, 1e-6)
    assert 2.718 < found["odds"] < 2.719
    # Twenty times δ, and not δ: the chance that Gaussian noise lets odds grow beyond e^ε.
    assert 1.9e-5 < found["gaussian"]["beyond_odds"] < 2.1e-5
    with pytest.raises(dp.InputError, match="must be a number"):
        dp.explain(-1.0)


def test_a_picture_of_the_best_attacker():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = dp.roc(1.0, 1e-6)
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert set(lines) == {"any mechanism", "Gaussian noise", "a coin"}
    assert all(0 <= np.min(y) and np.max(y) <= 1 for y in lines.values())


def test_names_of_dp_accounting():
    event = names.ComposedDpEvent(
        [names.SelfComposedDpEvent(names.LaplaceDpEvent(100.0), 1400), names.NoOpDpEvent(), names.GaussianDpEvent(50.0)]
    )
    accountant = names.pld.PLDAccountant()
    accountant.compose(event)
    direct = dp.Accountant(1e-6).laplace(0.01, 1400).gaussian(0.02)
    assert direct.epsilon() <= accountant.get_epsilon(1e-6) <= direct.epsilon() * (1 + 1e-9)
    assert accountant.get_epsilon(accountant.get_delta(2.0)) <= 2.0
    assert names.pld.PLDAccountant().get_epsilon(1e-6) == 0.0


def test_what_is_not_covered_is_refused_and_adds_nothing():
    accountant = names.rdp.RdpAccountant().compose(names.GaussianDpEvent(1.0))
    before = accountant.get_epsilon(1e-6)
    for event in (
        names.PoissonSampledDpEvent(0.1, names.NoOpDpEvent()), names.UnsupportedDpEvent(), names.ZCDpEvent(0.1, xi=0.1),
        names.SampledWithoutReplacementDpEvent(100, 10, names.GaussianDpEvent(1.0)),
    ):
        assert not accountant.supports(event)
        with pytest.raises(names.UnsupportedEventError):
            accountant.compose(event)
    assert accountant.get_epsilon(1e-6) == before


def test_what_is_not_protected_has_no_epsilon():
    for event in (names.NonPrivateDpEvent(), names.GaussianDpEvent(0.0), names.PoissonSampledDpEvent(0.1, names.LaplaceDpEvent(0))):
        accountant = names.pld.PLDAccountant().compose(names.GaussianDpEvent(1.0)).compose(event)
        assert accountant.get_epsilon(1e-6) == math.inf and accountant.get_delta(9.0) == 1.0
    for bad in (names.GaussianDpEvent(-1.0), names.GaussianDpEvent(math.nan), names.SelfComposedDpEvent(names.NoOpDpEvent(), -1)):
        with pytest.raises(ValueError):
            names.pld.PLDAccountant().compose(bad)


def test_modules_and_relations_have_the_names_that_scripts_import():
    from consenso.dp_accounting import dp_event, mechanism_calibration, privacy_accountant
    from consenso.dp_accounting.pld import pld_privacy_accountant
    from consenso.dp_accounting.rdp import rdp_privacy_accountant

    relation = privacy_accountant.NeighboringRelation
    accountant = rdp_privacy_accountant.RdpAccountant([2.0, 8.0], relation.REPLACE_SPECIAL)
    assert accountant.neighboring_relation is relation.REPLACE_SPECIAL and isinstance(accountant.ledger, dp_event.NoOpDpEvent)
    accountant.compose(dp_event.ZCDpEvent(0.01), 3).compose(dp_event.ZCDpEvent(0.01))
    assert accountant.ledger == dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(0.01), 4)
    rho = dp.compose([{"mechanism": "zcdp", "rho": 0.04}], 1e-6)["best"]["epsilon"]
    assert math.isclose(accountant.get_epsilon(1e-6), rho, rel_tol=1e-9)
    epsilon, order = accountant.get_epsilon_and_optimal_order(1e-6)
    assert epsilon == accountant.get_epsilon(1e-6) and math.isnan(order)
    assert pld_privacy_accountant.PLDAccountant is names.PLDAccountant
    with pytest.raises(ValueError, match="ADD_OR_REMOVE_ONE"):
        names.PLDAccountant("REPLACE_ONE")
    with pytest.raises(mechanism_calibration.NonEmptyAccountantError):
        names.calibrate_dp_mechanism(lambda: accountant, names.GaussianDpEvent, 1.0, 1e-6)


def test_a_whole_number_of_steps_is_the_most_that_a_budget_has():
    def steps(count):
        return names.SelfComposedDpEvent(names.PoissonSampledDpEvent(0.05, names.GaussianDpEvent(2.0)), count)

    bracket = names.LowerEndpointAndGuess(1, 64)
    found = names.calibrate_dp_mechanism(names.pld.PLDAccountant, steps, 1.0, 1e-5, bracket, discrete=True)
    spent = [names.pld.PLDAccountant().compose(steps(count)).get_epsilon(1e-5) for count in (found, found + 1)]
    assert isinstance(found, int) and spent[0] <= 1.0 < spent[1]
    with pytest.raises(ValueError, match="keep"):
        names.calibrate_dp_mechanism(names.pld.PLDAccountant, steps, 1.0, 1e-5, names.ExplicitBracketInterval(1, 2), True)


def test_calibrated_noise_keeps_the_budget():
    found = names.calibrate_dp_mechanism(
        names.pld.PLDAccountant, lambda m: names.SelfComposedDpEvent(names.GaussianDpEvent(m), 100), 1.0, 1e-6
    )
    spent = names.pld.PLDAccountant().compose(names.GaussianDpEvent(found), 100).get_epsilon(1e-6)
    assert spent <= 1.0 and math.isclose(spent, 1.0, rel_tol=1e-3)


def test_sampled_releases_cost_less_and_their_relation_counts():
    whole = dp.Accountant(1e-6).gaussian(0.5, 200).epsilon()
    part = dp.Accountant(1e-6).gaussian(0.5, 200, sampling=0.1).epsilon()
    # Google's dp-accounting 0.6.0: crates/consenso-engine/tests/golden/sampled.json.
    assert part < whole and math.isclose(part, 3.805876, rel_tol=1e-3) and part > 3.80587
    replaced = dp.Accountant(1e-6).gaussian(0.5, 200, sampling=0.1, neighbours="replace-one").epsilon()
    assert replaced < part, "a contribution is half as long"
    event = names.SelfComposedDpEvent(names.PoissonSampledDpEvent(0.1, names.GaussianDpEvent(2.0)), 200)
    same = names.pld.PLDAccountant().compose(event).get_epsilon(1e-6)
    assert math.isclose(same, part, rel_tol=1e-6)
    with pytest.raises(names.UnsupportedEventError):
        names.pld.PLDAccountant(neighboring_relation=names.NeighboringRelation.REPLACE_ONE).compose(event)
    with pytest.raises(dp.InputError):
        dp.compose([{"mechanism": "zcdp", "rho": 0.1, "sampling": 0.1}], 1e-6)


def test_noise_is_calibrated_for_rounds_that_draw_records():
    whole = dp.calibrate(1.0, 1e-6, 100, 3, sensitivity_l2=1.0, mechanism="gaussian")
    part = dp.calibrate(1.0, 1e-6, 100, 3, sensitivity_l2=1.0, mechanism="gaussian", sampling=0.05)
    assert part["multiplier"] < whole["multiplier"] and part["spent"]["epsilon"] <= 1.0
    with pytest.raises(dp.InputError):
        dp.calibrate(1.0, 1e-6, 100, 3, sensitivity_l2=1.0, sampling=1.5)
