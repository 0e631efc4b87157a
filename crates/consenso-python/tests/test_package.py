"""What a data scientist would try first, and what must never work."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import consenso
from consenso import accounting, noise

sklearn = pytest.importorskip("sklearn")
from joblib import parallel_config  # noqa: E402
from sklearn.ensemble import BaggingClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402


def blobs(n=3000, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.normal(size=(n, 3)) + 3.0 * np.eye(3)[y % 3] * (1 + y[:, None] // 3)
    return X, y


def private(**kw):
    return consenso.LogisticRegression(**{"epsilon": 4.0, "bounds": (-4, 8), "random_state": 1, **kw})


def gaussian_fits(epsilon, delta, fits, at):
    """ε at ``at`` of so many fits that are each a Gaussian mechanism of (ε, δ), by SciPy's normal law: μ adds in squares."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    tail = lambda mu, e: norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)  # noqa: E731
    mu = brentq(lambda m: tail(m, epsilon) - delta, 1e-6, 50) * np.sqrt(fits)
    return brentq(lambda e: tail(mu, e) - at, 0, 100)


def test_sites_fit_one_model_under_a_claim():
    X, y = blobs()
    sites = np.array(["A", "B", "C"])[np.arange(len(X)) % 3]
    clf = private().fit(X, y, sites=sites)
    assert clf.score(X, y) > 0.85
    assert clf.claim_["epsilon"] <= 4.0 and clf.claim_["neighbours"] == "replace-one"
    assert "seeded" in str(clf.claim_)
    assert clf.site_coefs_.shape == (3, 1, 3) and list(clf.sites_) == ["A", "B", "C"]
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)
    again = private().fit(X, y, sites=sites)
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    fresh = private(random_state=None).fit(X, y, sites=sites)
    assert "seeded" not in str(fresh.claim_) and not np.array_equal(fresh.coef_, clf.coef_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(X), clf.predict(X))


def test_several_classes_and_regression():
    X, y = blobs(classes=3)
    clf = private(epsilon=8.0).fit(X, np.array(["a", "b", "c"])[y])
    assert clf.predict_proba(X).shape == (len(X), 3) and clf.score(X, np.array(["a", "b", "c"])[y]) > 0.7
    target = X @ [1.0, -2.0, 0.5] + 1.0
    for model in (consenso.Ridge, consenso.HuberRegressor):
        assert model(epsilon=None).fit(X, target).score(X, target) > 0.95
        noisy = model(epsilon=8.0, bounds=(-4, 8), bounds_y=(-15, 15)).fit(X, target)
        assert noisy.claim_["epsilon"] <= 8.0 and noisy.score(X, target) > 0.3


def test_a_rare_class_is_heard_by_its_public_share():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(8000, 3))
    y = (X[:, 0] + rng.logistic(size=8000) > 4.0).astype(int)
    assert 0.02 < y.mean() < 0.08
    recall = lambda clf: clf.fit(X, y).predict(X)[y == 1].mean()  # noqa: E731
    for options in ({"epsilon": None, "bounds": None}, {"epsilon": 8.0}):
        weighted = private(prevalence=0.027, class_weights="balanced", **options)
        assert recall(weighted) > 0.5 > 0.1 > recall(private(**options)), options
    # What is known of the share alone weighs nothing, as in a schema file.
    assert recall(private(prevalence=0.027, epsilon=8.0)) < 0.1
    assert recall(private(class_weights=(0.5, 18.0), epsilon=None, bounds=None)) > 0.5
    for bad in (0.0, 1.0, -1, "x", float("nan")):
        with pytest.raises(ValueError, match="prevalence"):
            private(prevalence=bad).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        private(prevalence=0.3).fit(*blobs(classes=3))


def test_secret_shares():
    X, y = blobs()
    clf = private(trust="shares").fit(X, y, sites=np.arange(len(X)) % 4)
    assert clf.score(X, y) > 0.85 and "collu" in str(clf.claim_)


def test_a_search_is_charged_and_refused():
    X, y = blobs(600)
    search = GridSearchCV(private(epsilon=1.0), {"regularization": [1e-3, 1e-2]}, cv=2, refit=False, error_score="raise")
    with consenso.BudgetAccountant(epsilon=4.0, delta=1e-5) as budget:
        search.fit(X, y)
    assert budget.spent == (pytest.approx(gaussian_fits(1.0, 1e-6, 4, 1e-5), rel=1e-3), 1e-5)
    with pytest.raises(consenso.BudgetSpent, match="limit"), consenso.BudgetAccountant(3.5, 1e-5, rule="sum") as small:
        search.fit(X, y)
    assert small.spent == pytest.approx((3.0, 3e-6))
    own = consenso.BudgetAccountant(1.0, 1e-6)
    private(epsilon=1.0, accountant=own).fit(X, y)
    with pytest.raises(consenso.BudgetSpent):
        private(epsilon=1.0, accountant=own).fit(X, y)
    with pytest.raises(consenso.InputError):
        pickle.dumps(own)


def test_copies_of_a_record_are_not_charged_as_one():
    X, y = blobs(300)
    bagged = BaggingClassifier(private(epsilon=1.0), n_estimators=2, random_state=3)
    with pytest.raises(consenso.InputError, match="records are equal"), consenso.BudgetAccountant(9.0, 1e-5) as budget:
        bagged.fit(X, y)
    assert budget.spent == (0.0, 0.0)
    with consenso.BudgetAccountant(9.0, 1e-5, rule="sum") as budget:
        sklearn.clone(bagged).set_params(bootstrap=False).fit(X, y)
    assert budget.spent == pytest.approx((2.0, 2e-6))
    twice = np.repeat(np.arange(150), 2)
    charged = consenso.BudgetAccountant(9.0, 1e-5, equal_records="charge", rule="sum")
    private(epsilon=1.0, accountant=charged).fit(X[twice], y[twice])
    # (2ε, δ + e^ε·δ): what an (ε, δ) for one record is for two.
    assert charged.spent == pytest.approx((2.0, 1e-6 * (1 + np.e)))
    doubled = consenso.BudgetAccountant(9.0, 1e-6, equal_records="charge")
    private(epsilon=1.0, accountant=doubled).fit(X[twice], y[twice])
    # Two records of one person are 2μ-GDP: as four fits.
    assert doubled.spent[0] == pytest.approx(gaussian_fits(1.0, 1e-6, 4, 1e-6), rel=1e-3)
    people = consenso.BudgetAccountant(9.0, 1e-5, equal_records="people", rule="sum")
    private(epsilon=1.0, accountant=people).fit(X[twice], y[twice])
    assert people.spent == pytest.approx((1.0, 1e-6))
    with pytest.raises(consenso.InputError, match="equal_records"):
        consenso.BudgetAccountant(1.0, equal_records="some")


def test_bad_noise_and_bad_steps_say_what_to_give():
    for values, scale, text in (
        ([1.0, np.nan], 1.0, "finite"), ([np.inf], 1.0, "finite"), ([1.0], 0.0, "positive"), ([1.0], "x", "positive"), (["a"], 1.0, "numbers"),
        ([1e20], 1e-9, "2\\^53"),
    ):
        for draw in (noise.laplace, noise.gaussian):
            with pytest.raises(consenso.InputError, match=text):
                draw(values, scale)
    X, y = blobs(60)
    with pytest.raises(consenso.InputError, match="learning_rate"):
        consenso.CustomProblem(lambda x, X, y: X, dim=3, clip=1.0).fit(X, y, rounds=1, learning_rate="x")


def test_without_scikit_learn_the_estimators_say_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None\nimport consenso\nconsenso.noise.laplace([0.0], 1.0)\nconsenso.Ridge"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "consenso.Ridge is a scikit-learn estimator: pip install" in done.stderr


def test_a_search_in_other_processes_is_refused_and_not_forgotten():
    X, y = blobs(600)
    how = {"cv": 2, "refit": False, "n_jobs": 2, "error_score": "raise"}
    grid = {"logisticregression__regularization": [1e-3, 1e-2]}
    search = GridSearchCV(make_pipeline(FunctionTransformer(), private(epsilon=1.0)), grid, **how)
    with pytest.raises(consenso.InputError, match="another process"), consenso.BudgetAccountant(9.0, 1e-5) as budget:
        search.fit(X, y)
    assert budget.spent == (0.0, 0.0)
    with consenso.BudgetAccountant(9.0, 1e-5, rule="sum") as budget, parallel_config(backend="threading"):
        search.fit(X, y)
    assert budget.spent == pytest.approx((4.0, 4e-6))
    search.fit(X, y)  # nobody counts
    with consenso.BudgetAccountant(9.0, 1e-5):
        kept = pickle.loads(pickle.dumps(private()))
        sklearn.clone(kept).fit(X, y)  # the same process


def test_ten_fits_cost_what_the_ledger_says_and_not_their_sum():
    X, y = blobs(300)
    budget = consenso.BudgetAccountant(3.53, 1e-6)
    for _ in range(10):
        private(epsilon=1.0, accountant=budget).fit(X, y)
    assert budget.spent[0] == pytest.approx(gaussian_fits(1.0, 1e-6, 10, 1e-6), rel=1e-3) and budget.spent[0] <= 3.53
    with pytest.raises(consenso.BudgetSpent, match="limit"):
        private(epsilon=1.0, accountant=budget).fit(X, y)
    with pytest.raises(consenso.InputError, match="no such cost|BudgetSpent|limit|known as"):
        try:
            budget.spend(0.01, 1e-9)
        except consenso.BudgetSpent as error:
            raise consenso.InputError(str(error)) from None


def test_a_budget_in_a_file_is_shared_by_processes_and_is_the_ledgers_own(tmp_path):
    X, y = blobs(300)
    place = tmp_path / "ledger" / "budget.jsonl"
    how = {"cv": 2, "refit": False, "n_jobs": 2, "error_score": "raise"}
    search = GridSearchCV(private(epsilon=1.0, random_state=None), {"regularization": [1e-3, 1e-2]}, **how)
    with consenso.BudgetAccountant(9.0, 1e-6, path=place) as budget:
        search.fit(X, y)
    assert budget.spent[0] == pytest.approx(gaussian_fits(1.0, 1e-6, 4, 1e-6), rel=1e-3)
    entries = [json.loads(line) for line in place.read_text().splitlines()]
    assert [e["entry"] for e in entries] == ["records", "limit", "study", "study", "study", "study"]
    assert all(len(e["hash"]) == 64 for e in entries)
    # Opened again, by whoever: what was spent stays spent, and the limit can be lowered only.
    again = consenso.BudgetAccountant(2.2, 1e-6, path=place)
    with pytest.raises(consenso.BudgetSpent):
        private(epsilon=1.0, random_state=None, accountant=again).fit(X, y)
    with pytest.raises(consenso.InputError, match="never raised"):
        consenso.BudgetAccountant(99.0, 1e-6, path=place).spend(0.1, 0.0)
    with pytest.raises(consenso.InputError, match="seed"):
        private(epsilon=1.0, accountant=again).fit(X, y)
    place.write_text(place.read_text().replace("LogisticRegression", "Ridge", 1))
    with pytest.raises(consenso.InputError, match="edited or damaged"):
        again.spent


def test_what_a_claim_does_not_cover_is_warned_of():
    from sklearn.preprocessing import StandardScaler

    from consenso import preprocessing

    X, y = blobs(600)
    with pytest.warns(UserWarning, match="StandardScaler.*learns exact figures"):
        make_pipeline(StandardScaler(), private(bounds=(-4, 4))).fit(X, y)
    with pytest.warns(UserWarning, match="draws records with replacement"):
        BaggingClassifier(private(epsilon=1.0), n_estimators=1).fit(X, y)
    import warnings

    with warnings.catch_warnings(), consenso.BudgetAccountant(9.0, 1e-5, equal_records="people") as budget:
        warnings.simplefilter("error", UserWarning)
        scaler = preprocessing.StandardScaler(epsilon=2.0, bounds=(-4, 8), random_state=3)
        pipeline = make_pipeline(scaler, private(epsilon=1.0, bounds=(-5, 5))).fit(X, y)
        make_pipeline(preprocessing.KBinsDiscretizer(4, epsilon=1.0, bounds=(-4, 8)), private(epsilon=1.0, bounds=(0, 1))).fit(X, y)
    assert pipeline.score(X, y) > 0.8 and json.loads(budget._budget.standing())["studies"] == 4
    np.testing.assert_allclose(scaler.mean_, X.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(scaler.scale_, X.std(axis=0), atol=0.5)
    assert scaler.claim_.epsilon <= 2.0 and "seeded" in str(scaler.claim_.explain())
    bins = preprocessing.KBinsDiscretizer(4, epsilon=8.0, bounds=(-4, 8), encode="ordinal").fit(X)
    assert np.bincount(bins.transform(X)[:, 0].astype(int)).min() > 75
    with pytest.raises(consenso.InputError, match="bounds"):
        preprocessing.StandardScaler().fit(X)


def test_a_claim_is_an_object_that_still_reads_as_a_dict():
    X, y = blobs(300)
    claim = private(epsilon=1.0).fit(X, y).claim_
    assert isinstance(claim, consenso.Claim) and claim["epsilon"] == claim.epsilon <= 1.0
    assert claim["neighbours"] == claim.relation == "replace-one" and claim.transcripts == 1
    assert set(claim) >= {"epsilon", "delta", "method", "neighbours", "adversary", "caveats", "statement"}
    with pytest.raises(AttributeError):
        claim.epsilon = 0.1
    assert "factor of at most 2.7" in claim.explain() and "<table>" in claim._repr_html_()
    assert json.loads(json.dumps(claim.to_dict()))["delta"] == 1e-6
    assert pickle.loads(pickle.dumps(claim)) == claim
    assert {"LogisticRegression", "PoissonRegressor", "preprocessing", "Claim"} <= set(dir(consenso))


def test_numbers_are_written_as_people_write_them():
    from consenso._format import round_up

    assert [round_up(v, 4) for v in (10.0, 1e4, 0.5, 1.00001, 123456.0, 1e-9, 0.0)] == ["10", "10000", "0.5", "1.001", "123500", "1.001e-9", "0"]


REGRESSION = {
    "name": "line", "runs": 1, "graph": {"kind": "complete"}, "privacy": {"epsilon": 4.0, "delta": 1e-6},
    "data": {"source": "ridge", "agents": 3, "records_per_agent": 400, "dim": 3, "hold_out": 0.2}, "objective": {"loss": "ridge", "clip": 1.0},
    "algorithm": [{"kind": "dgd", "rounds": 20}], "sweep": {"epsilon": [1.0, 4.0]},
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_fork_does_not_spend_what_its_parent_cannot_see():
    with consenso.BudgetAccountant(9.0, 1e-5) as budget:
        child = os.fork()
        if child == 0:
            try:
                budget.spend(1.0, 1e-6)
            except consenso.InputError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        budget.spend(1.0, 1e-6)
    assert budget.spent == (1.0, 1e-6)


def test_bounds_reach_the_model_file_as_they_were_given(tmp_path):
    X, y = blobs(600)
    bounds = ([-4.1, -3.7, 0.1 - 4], [7.3, 1e3 / 3, 9.1])
    private(bounds=bounds).fit(X, y).save_model(tmp_path / "model.json")
    columns = json.loads((tmp_path / "model.json").read_text())["schema"]["column"]
    assert [(c["min"], c["max"]) for c in columns if c["kind"] == "numeric"] == list(zip(*bounds))


def test_pipelines_frames_and_sparse():
    pandas = pytest.importorskip("pandas")
    scipy = pytest.importorskip("scipy.sparse")
    X, y = blobs(600)
    pipeline = make_pipeline(FunctionTransformer(np.tanh), private(bounds=(-1, 1)))
    assert pipeline.fit(X, y).score(X, y) > 0.5
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    a, b, c = (private().fit(data, y) for data in (X, frame, scipy.csr_matrix(X)))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.coef_, c.coef_)
    assert list(b.feature_names_in_) == ["a", "b", "c"]


BAD = [
    ({"bounds": None}, "bounds are missing"),
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 2.0}, "delta"),
    ({"bounds": ([0, 0], [1, 1, 1])}, "bounds"),
    ({"bounds": (1, 0)}, "bounds"),
    ({"bounds": (0, float("inf"))}, "bounds"),
    ({"bounds": 3}, "bounds"),
    ({"data_norm": -1}, "data_norm"),
    ({"graph": "regular:x"}, "graph"),
    ({"graph": "webb"}, "webb"),
    ({"algorithm": "dgdd"}, "dgd"),
    ({"trust": "everybody"}, "trust"),
    ({"rounds": 0}, "rounds"),
    ({"regularization": -1}, "regularization"),
    ({"random_state": "x"}, "random_state"),
    ({"neighbours": "mine"}, "mine"),
]


@pytest.mark.parametrize("options, text", BAD)
def test_bad_options_are_exceptions(options, text):
    X, y = blobs(60)
    with pytest.raises(ValueError, match=text):
        private(**options).fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_numbers_are_exceptions(value):
    X, y = blobs(60)
    X[3, 1] = value
    with pytest.raises(ValueError):
        private().fit(X, y)


def test_bad_data_are_exceptions():
    X, y = blobs(60)
    for bad in (
        lambda: private().fit(X, np.zeros(60)),
        lambda: private().fit(X, y, sites=np.arange(59)),
        lambda: private().fit(X[:0], y[:0]),
        lambda: private().fit(X[:, 0], y),
        lambda: private().fit([["a"]] * 60, y),
        lambda: private().fit(np.array([["a"]] * 60, dtype=object), y),
        lambda: private().fit(X, y, sites=np.full(60, np.nan)),
        lambda: consenso.Ridge(bounds=(-4, 8)).fit(X, y),
        lambda: private().fit(X, y).predict(X[:, :2]),
    ):
        with pytest.raises(ValueError):
            bad()


def test_accounting():
    events = [{"mechanism": "laplace", "epsilon": 0.01, "count": 1400}, {"mechanism": "gaussian", "mu": 0.02, "count": 1000}]
    found = accounting.compose(events, 1e-6)
    assert found["best"]["epsilon"] <= min(v for k, v in found.items() if isinstance(v, float) and k != "delta")
    accountant = accounting.Accountant(1e-6).laplace(0.01, 1400).gaussian(0.02, 1000)
    assert accountant.epsilon() == found["best"]["epsilon"]
    assert "is kept" in accountant.explain(10.0) and "NOT" in accountant.explain(0.1)
    plan = accounting.calibrate(1.0, 1e-6, 200, 106, sensitivity_l2=6.7e-4)
    assert plan["spent"]["epsilon"] <= 1.0
    assert accounting.gamma(0.1, 10, 0.01)["exact"] <= 1.0
    assert accounting.loss(0.1, 10, 0.01, 0.05)["loss"] <= accounting.loss(0.1, 10, 0.01, 0.05)["worst"]
    assert accounting.renyi(0.1, 10, 0.01, 8) > 0
    for bad in (
        lambda: accounting.compose([{"mechanism": "magic"}], 1e-6),
        lambda: accounting.compose(events, -1.0),
        lambda: accounting.calibrate(1.0, 1e-6, 0, 1, sensitivity_l2=1.0),
        lambda: accounting.calibrate(1.0, 1e-6, 1, 1),
        lambda: accounting.gamma(-1, 1, 1),
    ):
        with pytest.raises(consenso.InputError):
            bad()


def test_noise():
    zeros = np.zeros((400, 500))
    for draw, sigma in ((noise.laplace, np.sqrt(2.0)), (noise.gaussian, 1.0)):
        sample = draw(zeros, 1.0)
        assert sample.shape == zeros.shape
        # 200,000 draws: seven standard errors.
        assert abs(sample.mean()) < 7 * sigma / np.sqrt(zeros.size)
        assert abs(sample.std() / sigma - 1) < 0.02
        np.testing.assert_array_equal(draw([1.0, 2.0], 0.5, seed=3), draw([1.0, 2.0], 0.5, seed=3))
        assert not np.array_equal(draw(zeros, 1.0), sample)
        for bad in (lambda: draw(zeros, -1.0), lambda: draw([np.nan], 1.0), lambda: draw(["x"], 1.0), lambda: draw([1.0], 1.0, seed=-1)):
            with pytest.raises(consenso.InputError):
                bad()


SMALL = {
    "name": "small", "runs": 2, "graph": {"kind": "ring"}, "privacy": {"epsilon": 1.0, "delta": 1e-6},
    "data": {"source": "logistic", "agents": 4, "records_per_agent": 300, "dim": 5},
    "algorithm": [{"kind": "dgd", "rounds": 20}],
}


def test_experiments(tmp_path):
    record = consenso.run(SMALL)
    assert record.rows()[0]["epsilon"] <= 1.0 and len(record.models[0]["agents"]) == 4
    same = consenso.run(SMALL)
    assert same.models == record.models
    assert consenso.run(SMALL, algorithm__0__rounds=10, privacy=None).rows()[0]["epsilon"] is None
    assert "dgd" in record.table() and "tabular" in record.table("latex") and "<svg" in record._repr_html_()
    assert len(record.to_pandas()) == 1
    assert "adult" in consenso.built_in()
    with pytest.raises(consenso.InputError, match="agents"):
        consenso.run(SMALL, data__agents=None)
    with pytest.raises(consenso.InputError, match="cannot be read"):
        consenso.run(tmp_path / "none.toml")
    with pytest.raises(consenso.InputError, match="kind"):
        consenso.run(SMALL, algorithm__0__kind="dgdd")


def test_an_experiment_of_files(two_files):
    tmp_path = two_files
    (tmp_path / "e.toml").write_text(
        'name = "e"\nruns = 1\n[data]\npath = "*.csv"\nschema = "schema.toml"\nhold_out = 0.2\n'
        '[graph]\nkind = "complete"\n[[algorithm]]\nkind = "dgd"\n'
    )
    assert consenso.run(tmp_path / "e.toml").rows()[0]["test_accuracy"] > 0.9


def test_other_executors():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        futures = [consenso.run(SMALL, executor=pool, seed=seed) for seed in (1, 2)]
    assert futures[0].result().models != futures[1].result().models


def test_importing_is_quick_and_does_without_scikit_learn():
    code = "import sys, time; t = time.process_time(); import consenso; print(time.process_time() - t, 'sklearn' in sys.modules)"
    took, loaded = min(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    )
    assert loaded == "False" and float(took) < 1.0


def test_a_frontier_of_a_regression_is_not_empty():
    pytest.importorskip("matplotlib").use("Agg")
    record = consenso.run(REGRESSION)
    rows = record.rows()
    assert all(row["r2"] is not None and row["rmse"] > 0 for row in rows)
    axes = record.plot.frontier()
    assert len(axes.lines) == 1 and axes.get_ylabel() == "test R²"
    assert "r2" in record.table() and {"r2", "rmse", "mae"} <= set(record.to_pandas().columns)
    # Without records for tests the objective is what there is.
    for row in record.data["algorithms"]:
        row["metrics"] = None
    record.data["sweep"] = None
    axes = record.plot.frontier()
    assert len(axes.lines) == 1 and axes.get_ylabel() == "objective of the training records" and "objective" in record.table()
    assert "1 algorithm," in repr(record)
