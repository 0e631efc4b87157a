"""Every trust and task that a file can ask for, from Python."""

import numpy as np
import pytest

import consenso

pandas = pytest.importorskip("pandas")
BOUNDS = {"age": (0, 110)}


def records(n=900):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"age": rng.uniform(20, 90, n), "ward": pandas.Categorical(rng.choice(["e", "w"], n), ["e", "w"])})
    score = 0.05 * (X["age"] - 55) + (X["ward"] == "w")
    ill = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return X, ill, rng.poisson(np.exp(0.02 * (X["age"] - 20))), np.array(["a", "b", "c", "d"])[np.arange(n) % 4]


@pytest.mark.parametrize(
    "how, word",
    [
        ({"trust": "correlated", "colluders": 1}, "any 1 of 4"), ({"trust": "shares", "colluders": 1}, "collu"),
        ({"trust": "masked", "colluders": 1, "drop_outs": 1}, "collu"), ({"algorithm": "auto"}, "every other"),
    ],
)
def test_every_trust_has_its_claim(how, word):
    X, ill, _, sites = records()
    clf = consenso.LogisticRegression(epsilon=4.0, bounds=BOUNDS, random_state=1, **how).fit(X, ill, sites=sites)
    assert clf.claim_.epsilon <= 4.0 and word in str(clf.claim_)
    assert clf.predict(X).shape == (900,)


def test_options_of_another_trust_are_refused():
    X, ill, _, sites = records(60)
    for how in ({"colluders": 1}, {"trust": "shares", "drop_outs": 1}, {"trust": "masked", "colluders": -1}):
        with pytest.raises(consenso.InputError, match="colluders|drop_outs"):
            consenso.LogisticRegression(bounds=BOUNDS, **how).fit(X, ill, sites=sites)


@pytest.mark.parametrize(
    "model",
    [
        consenso.PoissonRegressor(), consenso.NegativeBinomialRegressor(dispersion=0.5), consenso.GammaRegressor(),
        consenso.QuantileRegressor(quantile=0.5), consenso.Ridge(), consenso.HuberRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_families_by_the_names_people_know(model):
    X, _, count, sites = records()
    y = count + 0.1
    model.set_params(epsilon=6.0, bounds=BOUNDS, bounds_y=(0.1, 40), random_state=1).fit(X, y, sites=sites)
    said = model.predict(X)
    assert model.claim_.epsilon <= 6.0 and np.corrcoef(said, y)[0, 1] > 0.3 and (said >= 0.1).all()
    model.set_params(epsilon=None, bounds=None, bounds_y=None).fit(X, y)
    assert model.claim_ is None and np.corrcoef(model.predict(X), y)[0, 1] > 0.3


def test_a_probit_model_has_probabilities():
    X, ill, _, sites = records()
    clf = consenso.ProbitRegression(epsilon=6.0, bounds=BOUNDS, random_state=1).fit(X, ill, sites=sites)
    chance = clf.predict_proba(X)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[(chance[:, 1] > 0.5).astype(int)])


def test_records_of_one_person_are_protected_together():
    X, ill, _, sites = records()
    persons = np.arange(900) // 3
    one = consenso.LogisticRegression(epsilon=2.0, bounds=BOUNDS, random_state=1).fit(X, ill, sites=sites)
    all_of_them = consenso.LogisticRegression(epsilon=2.0, bounds=BOUNDS, records_per_person=3, random_state=1)
    all_of_them.fit(X, ill, sites=np.array(["a", "b"])[persons % 2], persons=persons)
    assert all_of_them.claim_.epsilon <= 2.0 and "person" in str(all_of_them.claim_) and "person" not in str(one.claim_)
    with pytest.raises(consenso.InputError, match="records_per_person"):
        consenso.LogisticRegression(bounds=BOUNDS).fit(X, ill, persons=persons)


def test_inference_is_a_frame():
    X, ill, _, sites = records(3000)
    found = consenso.LogisticRegression(epsilon=8.0, bounds=BOUNDS, inference=True, random_state=1).fit(X, ill, sites=sites).summary()
    frame = found.to_pandas()
    assert {"estimate", "std_error", "low", "high", "p"} <= set(frame.columns) and "age" in frame.index
    age = frame.loc["age"]
    assert age["low"] < age["estimate"] < age["high"] and "95 % interval" in found
    assert found.to_polars().shape[0] == len(frame)


def test_counts_have_intervals_for_new_records():
    X, _, count, sites = records()
    model = consenso.PoissonRegressor(epsilon=6.0, bounds=BOUNDS, bounds_y=(0, 40), random_state=1).fit(X, count, sites=sites)
    ends = model.predict_interval(X, level=0.9)
    inside = (ends[:, 0] <= count) & (count <= ends[:, 1])
    assert ends.shape == (900, 2) and (ends == np.round(ends)).all() and inside.mean() > 0.85
    with pytest.raises(consenso.InputError, match="level"):
        model.predict_interval(X, level=2.0)
    with pytest.raises(consenso.InputError, match="inference"):
        consenso.Ridge(bounds=BOUNDS, bounds_y=(0, 40)).fit(X, count, sites=sites).predict_interval(X)
