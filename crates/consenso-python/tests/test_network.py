"""The command line, real sites and models of one's own, from Python."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import consenso

STUDY = """
name = "three"
seed = 3
runs = 1
[data]
source = "logistic"
agents = 3
records_per_agent = 100
dim = 3
[graph]
kind = "complete"
[privacy]
epsilon = 1.0
delta = 1e-6
[[algorithm]]
kind = "dgd"
rounds = 20
"""


def test_the_command_line_comes_along(tmp_path):
    explained = consenso.cli("privacy", "explain", "--epsilon", "1")
    assert explained["epsilon"] == 1.0
    with pytest.raises(consenso.InputError, match="cannot be read"):
        consenso.cli("run", tmp_path / "none.toml")
    script = subprocess.run([sys.executable, "-m", "consenso", "--version"], capture_output=True, text=True)
    assert script.returncode == 0 and "consenso" in script.stdout


def test_sites_bring_their_frames_after_the_network_was_made(two_files):
    pandas = pytest.importorskip("pandas")
    (two_files / "study.toml").write_text(
        'name = "later"\nruns = 1\n[data]\npath = "records.csv"\nschema = "schema.toml"\n[graph]\nkind = "complete"\n'
        '[privacy]\nepsilon = 2.0\ndelta = 1e-6\n[[algorithm]]\nkind = "dgd"\n'
    )
    (two_files / "records.csv").write_text("age,ill\n1,no\n2,yes\n")
    with pytest.raises(consenso.InputError, match="--records"):
        consenso.network(two_files / "none", ["a", "b"], two_files / "study.toml")
    sites = consenso.network(two_files / "net", ["a", "b"], two_files / "study.toml", records=[2000, 2000])
    for name, site in zip("ab", sites):
        site.records(pandas.read_csv(two_files / f"{name}.csv"))
    results = {}
    threads = [threading.Thread(target=lambda s=s: results.update({s.folder.name: s.run()})) for s in sites]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(results) == ["a", "b"]
    (two_files / "model.json").write_text(json.dumps(sites[0].model()))
    found = consenso.load_model(two_files / "model.json").predict(pandas.DataFrame({"age": [5.0, 95.0]}))
    assert [str(v) for v in np.asarray(found).ravel()] == ["no", "yes"]


def test_three_sites_on_this_machine(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    sites = consenso.network(tmp_path / "net", ["a", "b", "c"], tmp_path / "study.toml")
    rounds, results = [], {}

    def run(site):
        results[site.folder.name] = site.run(on_round=lambda state: rounds.append(state["round"]))

    threads = [threading.Thread(target=run, args=(site,)) for site in sites]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(results) == ["a", "b", "c"] and max(rounds) >= 20
    audit = sites[0].audit()
    assert audit["holds"] and audit["remaining"]["epsilon"] == 0.0
    weights = [site.model()["weights"] for site in sites]
    np.testing.assert_allclose(weights[0], weights[1], atol=1.0)
    assert sites[1].status()
    with pytest.raises(consenso.InputError, match="site.toml"):
        consenso.Site(tmp_path)


def test_records_of_a_site_come_from_a_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "site.toml").write_text('name = "a"\n')
    site = consenso.Site(tmp_path)
    path = site.records(pandas.DataFrame({"age": [1, 2], "ill": ["yes", "no"]}))
    assert path.read_text() == "age,ill\n1,yes\n2,no\n"
    with pytest.raises(consenso.InputError):
        site.records([1, 2])


HIDDEN = 6


def gradients(x, X, y):
    """Of a network with one hidden layer and the logistic loss."""
    hidden, out = x[: 3 * HIDDEN].reshape(HIDDEN, 3), x[3 * HIDDEN :]
    a = np.tanh(X @ hidden.T)
    slope = -y / (1 + np.exp(y * (a @ out)))
    inner = (slope[:, None] * out * (1 - a**2))[:, :, None] * X[:, None, :]
    return np.concatenate([inner.reshape(len(X), 3 * HIDDEN), slope[:, None] * a], axis=1)


def test_a_model_of_ones_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    X[:, 2] = 1.0
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)  # no linear model tells
    problem = consenso.CustomProblem(gradients, dim=4 * HIDDEN, clip=1.0)
    start = rng.normal(size=4 * HIDDEN)
    sites = np.arange(6000) % 3
    fit = problem.fit(X, y, sites=sites, epsilon=8.0, rounds=200, start=start, random_state=1)
    hidden, out = fit.model_[: 3 * HIDDEN].reshape(HIDDEN, 3), fit.model_[3 * HIDDEN :]
    assert np.mean(np.sign(np.tanh(X @ hidden.T) @ out) == y) > 0.85
    assert fit.claim_["epsilon"] <= 8.0 and fit.claim_["neighbours"] == "replace-one" and "seeded" in fit.claim_["sampler"]
    again = problem.fit(X, y, sites=sites, epsilon=8.0, rounds=200, start=start, random_state=1)
    np.testing.assert_array_equal(fit.model_, again.model_)
    for bad in (
        lambda: problem.fit(X, y[:-1]),
        lambda: problem.fit(X, y, epsilon=-1.0),
        lambda: problem.fit(X, y, rounds=0),
        lambda: consenso.CustomProblem(lambda x, X, y: X, dim=2, clip=1.0).fit(X, y),
        lambda: consenso.CustomProblem(gradients, dim=24, clip=0),
    ):
        with pytest.raises(ValueError):
            bad()


def test_the_gate_clips_what_a_callable_returns_and_ends_with_its_budget():
    """Two data sets that differ in one wild gradient: sums without noise differ by at most two clips."""
    quiet = consenso._core.Gate(None, 1e-6, 1, 2, 0.5, 3, 0, 0)
    rows = np.array([[1.0, 0.0], [0.0, 0.1], [0.0, 0.0]])
    np.testing.assert_allclose(quiet.release(rows), [1.0, 0.1])
    spreads = []
    for wild in ([1e100, 0.0], [-1e100, 0.0], [np.nan, 1.0]):
        gate = consenso._core.Gate(50.0, 1e-6, 1, 2, 0.5, 3, 0, 0)
        spreads.append(gate.release(np.array([[0.0, 0.1], wild, [0.0, 0.0]])))
    # The same seed draws the same noise up to the grid.
    assert np.abs(spreads[0] - spreads[1] - [1.0, 0.0]).max() < 0.01
    assert np.abs(spreads[0] - spreads[2] - [0.5, 0.0]).max() < 0.01
    with pytest.raises(consenso.ConsensoError, match="spent"):
        gate.release(rows)


def test_no_record_counts_for_more_than_its_clip_however_small_numbers_are():
    """Squares of numbers below 1e-162 are zero: a row of them counted 1e30 times as much as it may, or failed for its size."""
    for clip in (1e-320, 1e-200, 1e-163, 1.0, 1e200):
        for size in (1e-310, 1e-170, 1e-163, 1.0, 1e150, 1e300):
            sums = []
            for row in ([size, size], [-size, -size], [0.0, 0.0]):
                gate = consenso._core.Gate(50.0, 1e-6, 1, 2, clip, 2, 7, 0)
                sums.append(gate.release(np.array([row, [0.0, 0.0]])) / clip)
            # The same seed draws the same noise up to the grid.
            moved = np.hypot(*(sums[0] - sums[1]))
            assert moved <= 2.02, (clip, size, moved)
            if size > 1e3 * clip and clip > 1e-300:
                assert moved > 1.98 and np.hypot(*(sums[0] - sums[2])) > 0.98, (clip, size)


def test_a_callable_that_looks_at_other_records_is_found_out_or_kept_from_them():
    """Batch normalisation: one record moves the gradients of all, which no noise for one record hides."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)

    def normalised(x, X, y):
        z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-3)
        return (z @ x - y)[:, None] * z

    def ordered(x, X, y):
        return (X @ x - y)[:, None] * X * np.linspace(0, 1, len(X))[:, None]

    def plain(x, X, y):
        return (X @ x - y)[:, None] * X

    calls = []

    def late(x, X, y):
        calls.append(len(X))
        return plain(x, X, y) if len(calls) <= 12 else normalised(x, X, y)

    how = {"epsilon": 2.0, "rounds": 30, "sites": np.arange(400) % 2, "random_state": 1}
    for wrong in (normalised, ordered, late):
        budget = consenso.BudgetAccountant(9.0, 1e-5, rule="sum")
        with pytest.raises(consenso.InputError, match="one record at a time"):
            consenso.CustomProblem(wrong, dim=2, clip=1.0).fit(X, y, accountant=budget, **how)
        assert budget.spent == ((0.0, 0.0) if wrong is not late else pytest.approx((2.0, 1e-6), rel=1e-9))
    fit = consenso.CustomProblem(plain, dim=2, clip=1.0).fit(X, y, **how)
    alone = consenso.CustomProblem(plain, dim=2, clip=1.0, isolate=True).fit(X, y, **how)
    np.testing.assert_allclose(fit.model_, alone.model_)
    assert "not proved" in fit.claim_["caveats"][-1] and "remembers nothing" in alone.claim_["caveats"][-1]
    # Row by row batch normalisation sees one record: nothing else moves its gradient.
    consenso.CustomProblem(normalised, dim=2, clip=1.0, isolate=True).fit(X, y, **how)
    consenso.CustomProblem(normalised, dim=2, clip=1.0).fit(X, y, **{**how, "epsilon": None})


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_a_long_run():
    long = {
        "name": "long", "runs": 1, "graph": {"kind": "ring"}, "algorithm": [{"kind": "dgd", "rounds": 1000000, "step": 0.1}],
        "data": {"source": "logistic", "agents": 4, "records_per_agent": 3000, "dim": 5},
    }
    # Whoever starts tests in the background has them ignore the signal, which children inherit.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; import consenso; print('go', flush=True); consenso.run({long!r})"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "go\n"
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert "KeyboardInterrupt" in err
    finally:
        child.kill()


def test_runs_with_real_noise_are_booked_beside_the_records(two_files):
    tmp_path = two_files
    (tmp_path / "e.toml").write_text(
        'name = "e"\nruns = 1\n[data]\npath = "*.csv"\nschema = "schema.toml"\n'
        '[graph]\nkind = "complete"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = "dgd"\n'
    )
    record = consenso.run(tmp_path / "e.toml", entropy="os", out=tmp_path / "out")
    assert record.rows()[0]["epsilon"] <= 1.0
    assert list(tmp_path.glob("*ledger*")) and (tmp_path / "out/models").is_dir()
    text = json.dumps(record.data)
    assert "central_optimum" not in text and "local_only" not in text


def test_a_fitted_model_goes_to_the_command_line_and_back(tmp_path):
    pytest.importorskip("sklearn")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"age": rng.uniform(18, 90, 5000).round(1), "dose": rng.uniform(0, 10, 5000).round(2)})
    ill = np.where(0.06 * (frame.age - 55) + 0.4 * (frame.dose - 5) + rng.logistic(size=5000) > 0, "yes", "no")
    sites = np.array(["big", "small"])[(rng.random(5000) < 0.05).astype(int)]
    clf = consenso.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=([0, 0], [120, 1000]), random_state=2)
    clf.fit(frame, ill, sites=sites)
    assert clf.score(frame, ill) > 0.7, "a range a hundred times too wide is scouted"
    assert any("scouts" in caveat for caveat in clf.claim_["caveats"])
    clf.save_model(tmp_path / "model.json")
    model = consenso.load_model(tmp_path / "model.json")
    assert model.predict(frame) == list(clf.predict(frame))
    probability = np.array([p["yes"] for p in model.predict_proba(frame)])
    np.testing.assert_allclose(probability, clf.predict_proba(frame)[:, 1], rtol=1e-9)
    labelled = frame.assign(label=ill)
    assert model.metrics(labelled)["accuracy"] == clf.score(frame, ill)
    target = 2.0 * frame.age + 5.0 * frame.dose + rng.normal(size=5000)
    for kind in (consenso.Ridge, consenso.HuberRegressor):
        ridge = kind(epsilon=1.0, bounds=([0, 0], [120, 1000]), bounds_y=(0, 400), random_state=2).fit(frame, target, sites=sites)
        assert ridge.score(frame, target) > 0.7, kind
        ridge.save_model(tmp_path / "ridge.json")
        answers = np.array([float(p) for p in consenso.load_model(tmp_path / "ridge.json").predict(frame)])
        np.testing.assert_allclose(answers, ridge.predict(frame), rtol=1e-9)
    with pytest.raises(consenso.InputError, match="no file"):
        consenso.LogisticRegression(epsilon=None).fit(frame, ill).save_model(tmp_path / "none.json")


def test_a_model_of_ones_own_trains_on_secret_batches():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, -2.0]
    seen = []

    def gradients(x, X, y):
        seen.append(len(X))
        return (X @ x - y)[:, None] * X

    problem = consenso.CustomProblem(gradients, dim=2, clip=1.0)
    how = {"sites": np.arange(3000) % 2, "epsilon": 2.0, "rounds": 60, "learning_rate": 0.1, "random_state": 1}
    whole = problem.fit(X, y, **how)
    seen.clear()
    budget = consenso.BudgetAccountant(3.0, 1e-5)
    part = problem.fit(X, y, batch=0.1, accountant=budget, **how)
    drawn = [n for n in seen if 1 < n < 1500]
    assert len(drawn) == 120 and len(set(drawn)) > 20, "a fresh sample for every site and round"
    assert abs(np.mean(drawn) - 150) < 6 * np.sqrt(150 / 120)
    assert part.claim_["epsilon"] <= 2.0 and part.claim_["method"] == "pld"
    assert part.claim_["sigma"] < whole.claim_["sigma"], "less noise on a sum of fewer records"
    assert any("sampling" in caveat for caveat in part.claim_["caveats"])
    assert budget.spent == pytest.approx((part.claim_["epsilon"], 1e-6), rel=1e-6)
    assert np.abs(part.model_ - [1.0, -2.0]).max() < 0.5
    again = problem.fit(X, y, batch=0.1, **how)
    assert (again.model_ == part.model_).all(), "a seed decides the samples, too"
    for bad in (0.0, 1.5, "x"):
        with pytest.raises(consenso.InputError, match="batch"):
            problem.fit(X, y, batch=bad, **how)
