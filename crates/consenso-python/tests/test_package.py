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
        assert recall(private(prevalence=0.027, **options)) > 0.5 > 0.1 > recall(private(**options)), options
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
    assert budget.spent == pytest.approx((4.0, 4e-6))
    with pytest.raises(consenso.BudgetSpent, match="limit"), consenso.BudgetAccountant(3.5, 1e-5) as small:
        search.fit(X, y)
    assert small.spent[0] == 3.0
    own = consenso.BudgetAccountant(1.0, 1e-6)
    private(epsilon=1.0, accountant=own).fit(X, y)
    with pytest.raises(consenso.BudgetSpent):
        private(epsilon=1.0, accountant=own).fit(X, y)
    with pytest.raises(consenso.InputError):
        pickle.dumps(own)


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
    with consenso.BudgetAccountant(9.0, 1e-5) as budget, parallel_config(backend="threading"):
        search.fit(X, y)
    assert budget.spent == pytest.approx((4.0, 4e-6))
    search.fit(X, y)  # nobody counts
    with consenso.BudgetAccountant(9.0, 1e-5):
        kept = pickle.loads(pickle.dumps(private()))
        sklearn.clone(kept).fit(X, y)  # the same process


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
