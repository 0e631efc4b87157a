"""Times until an event, personal models, and questions about frames."""

import pickle

import numpy as np
import pytest

import consenso
from consenso import InputError

pandas = pytest.importorskip("pandas")
pytest.importorskip("sklearn")


def records(n=2400):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"age": rng.integers(30, 90, n), "ward": pandas.Categorical(rng.choice(["e", "w"], n), ["e", "w"])})
    time = rng.exponential(1 / (0.02 * np.exp(0.03 * (X["age"] - 60) + 0.5 * (X["ward"] == "w"))))
    return X, np.minimum(time, 60).round(1), np.asarray(time < 60), rng.choice(list("abcd"), n)


def model(**how):
    return consenso.CoxPHSurvivalAnalysis(**{"epsilon": 6.0, "bounds": {"age": (0, 110)}, "longest": 60, "cuts": [12, 24, 60], "random_state": 1, **how})


def test_hazards_are_found_under_a_budget_with_intervals():
    X, months, died, sites = records()
    fitted = model().fit(X, (months, died), sites=sites)
    rows = {row["feature"]: row for row in fitted.summary().rows}
    assert fitted.claim_.epsilon <= 6.0
    assert rows["age"]["low"] < 0.03 < rows["age"]["high"] and rows["ward=w"]["low"] < 0.5 < rows["ward=w"]["high"]
    assert fitted.times_.tolist() == [12, 24, 60]
    curves = fitted.predict_survival_function(X[:50])
    assert curves.shape == (50, 3) and (np.diff(curves, axis=1) < 0).all() and (curves > 0).all()
    assert fitted.score(X, (months, died)) > 0.6
    assert (pickle.loads(pickle.dumps(fitted)).predict(X) == fitted.predict(X)).all()


def test_times_and_events_come_in_three_ways():
    X, months, died, _ = records(600)
    first = model().fit(X, (months, died)).coef_
    structured = np.array(list(zip(died, months)), dtype=[("event", bool), ("time", float)])
    assert (model().fit(X, structured).coef_ == first).all()
    assert (model().fit(X, pandas.DataFrame({"months": months, "died": died})).coef_ == first).all()
    for y in (None, months, (months, died, died), (months, months), (-months, died)):
        with pytest.raises(InputError):
            model().fit(X, y)
    with pytest.raises(InputError, match="longest"):
        model(longest=None).fit(X, (months, died))


def test_harrells_c_of_a_small_example():
    from consenso._survival import concordance

    times, events = np.array([1.0, 2.0, 3.0, 3.0]), np.array([True, False, True, False])
    # Pairs: 1 before 2, 3, 3'; 3 before 3' (not seen). Risks agree in three of four, one of them half.
    assert concordance(times, events, np.array([4.0, 5.0, 1.0, 1.0])) == pytest.approx((0 + 1 + 1 + 0.5) / 4)


def test_personal_models_answer_for_their_sites_and_stay_here():
    rng = np.random.default_rng(1)
    n = 3000
    X = pandas.DataFrame({"age": rng.uniform(20, 90, n)})
    sites = np.array(["north", "south"])[np.arange(n) % 2]
    score = 0.05 * (X["age"] - 55) + np.where(sites == "north", 1.5, -1.5)
    ill = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    clf = consenso.LogisticRegression(epsilon=6.0, bounds={"age": (0, 110)}, models="personal", random_state=1).fit(X, ill, sites=sites)
    shared, north, south = (clf.predict_proba(X[:20], site=site)[:, 1] for site in (None, "north", "south"))
    assert (north > shared).all() and (shared > south).all()
    own = [clf.predict(X[sites == site], site=site) == ill[sites == site] for site in ("north", "south")]
    assert np.concatenate(own).mean() > clf.score(X, ill) + 0.02
    handed_on = pickle.loads(pickle.dumps(clf))
    assert (handed_on.predict(X) == clf.predict(X)).all()
    with pytest.raises(InputError, match="do not leave the process"):
        handed_on.predict(X, site="north")
    with pytest.raises(InputError, match="none of"):
        clf.predict(X, site="east")
    with pytest.raises(InputError, match="models="):
        consenso.LogisticRegression(bounds={"age": (0, 110)}, models="own").fit(X, ill)
    # The shared model is what it is without personal ones: nothing is spent on them.
    plain = consenso.LogisticRegression(epsilon=6.0, bounds={"age": (0, 110)}, random_state=1).fit(X, ill, sites=sites)
    assert (plain.coef_ == clf.coef_).all() and plain.claim_.epsilon == clf.claim_.epsilon


def test_questions_about_a_frame():
    X, months, died, sites = records()
    frame = X.assign(died=died)
    found = consenso.ask(frame, "mean age by ward", "count by died", sites=sites, schema={"age": (0, 110)}, epsilon=4.0, seed=1)
    mean = found[(found["kind"] == "mean") & found["group"].astype(str).str.contains("e")].iloc[0]
    assert mean["low"] < X["age"][X["ward"] == "e"].mean() < mean["high"]
    assert found.attrs["claim"].epsilon <= 4.0 and "replace" in str(found.attrs["claim"])
    exact = consenso.ask(frame, "mean age", sites=sites)
    assert exact["estimate"].iloc[0] == pytest.approx(X["age"].mean()) and "claim" not in exact.attrs
    with pytest.raises(InputError, match="height"):
        consenso.ask(frame, "mean height", epsilon=1.0)
    with pytest.raises(InputError, match="no question"):
        consenso.ask(frame, epsilon=1.0)
    with pytest.raises(InputError, match="in the frame, and nothing public is said of it"):
        consenso.ask(frame, "mean age", epsilon=1.0)
    # A schema has a label, which nobody asks for here; what noise could have made is no number.
    table = consenso.ask(frame.iloc[:60], "summary", schema={"age": (0, 110)}, epsilon=0.5, seed=1)
    assert set(table["column"]) == {"age", "ward", "died"} and set(table["question"]) == {"summary"}
    assert table["below_noise"].any() and (table["estimate"].isna() == table["below_noise"]).all()
    with pytest.raises(InputError, match="belong to a frame"):
        consenso.ask("adult", "mean age", sites=sites)
    with consenso.BudgetAccountant(epsilon=1.0, delta=1e-5, equal_records="people") as budget:
        consenso.ask(frame, "mean age", sites=sites, schema={"age": (0, 110)}, epsilon=0.9)
        with pytest.raises(consenso.BudgetSpent):
            consenso.ask(frame, "mean age", sites=sites, schema={"age": (0, 110)}, epsilon=0.9)
    assert 0 < budget.spent[0] < 1.0


def test_questions_survive_sites_that_die_and_whole_numbers_stay_whole():
    X, _, _, sites = records()
    whole = {"age": {"min": 0, "max": 110, "step": 1}}
    frame = X.assign(age=X["age"].round())

    def noise(**drop_outs):
        asked = consenso.ask(frame, "mean age", sites=sites, schema=whole, epsilon=2.0, seed=1, exchange="masked", **drop_outs)
        return asked["noise"].iloc[0]

    # The budget pays for a second try, of fewer sites.
    assert noise(drop_outs=1) > 1.4 * noise()
    with pytest.raises(InputError, match="masked"):
        consenso.ask(frame, "mean age", sites=sites, schema=whole, epsilon=2.0, drop_outs=1)
    quartiles = consenso.ask(frame, "quantiles age", sites=sites, schema=whole, epsilon=2.0)
    assert (quartiles["estimate"] % 1 == 0).all() and (quartiles["noise"] > 0).all()
    with pytest.raises(InputError, match="step"):
        consenso.ask(frame, "quantiles age", sites=sites, schema={"age": {"min": 0, "max": 110, "step": 7}}, epsilon=2.0)


def test_a_card_has_claim_columns_and_coefficients():
    X, months, died, sites = records(900)
    for fitted in (model().fit(X, (months, died), sites=sites), consenso.Ridge(epsilon=4.0, bounds={"age": (0, 110)}, bounds_y=(0, 60)).fit(X, months, sites=sites)):
        card = fitted.card()
        assert "What it cost" in card and "every other agent" in card and "age: numeric from 0 to 110" in card and "ward=w" in card
        assert card._repr_html_().count("<table") == 4
    assert "nothing is protected" in consenso.LogisticRegression(epsilon=None).fit(X[["age"]], died).card()
