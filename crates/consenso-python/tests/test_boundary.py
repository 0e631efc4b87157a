"""What crosses the border between Python and Rust: arrays, frames, progress, signals, records, and whatever is wrong."""

import io
import json
import os
import pickle
import runpy
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import consenso
from consenso import _arrow, _core, _progress
from consenso.datasets import load_adult

pytest.importorskip("sklearn")
HERE = Path(__file__).parent


def blobs(n=900, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 3)) + 2.0 * np.eye(3)[y], y


def private(**kw):
    return consenso.LogisticRegression(**{"epsilon": 4.0, "bounds": (-4, 8), "random_state": 1, **kw})


class OnlyArrow:
    """What a library that nobody has heard of would give."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_arrays_are_read_where_they_are(monkeypatch):
    X, y = blobs()
    handed, real = [], _core.fit
    monkeypatch.setattr(_core, "fit", lambda options, rows, *rest: handed.append(rows) or real(options, rows, *rest))
    before = X.copy()
    for sites in (None, np.arange(len(X)) % 3):
        for options in ({}, {"trust": "local", "rounds": 5}, {"epsilon": None, "bounds": None, "rounds": 5}):
            private(**options).fit(X, y, sites=sites)
    assert [rows.ctypes.data for rows in handed] == [X.ctypes.data] * 6
    np.testing.assert_array_equal(X, before)
    X.setflags(write=False)
    private().fit(X, y)


def test_the_order_of_rows_among_sites_is_all_that_counts():
    X, y = blobs()
    sites = np.array(["c", "a", "b"])[np.arange(len(X)) % 3]
    order = np.argsort(sites, kind="stable")
    for options in ({}, {"rounds": 5}):
        shuffled, sorted_ = private(**options).fit(X, y, sites=sites), private(**options).fit(X[order], y[order], sites=sites[order])
        np.testing.assert_array_equal(shuffled.coef_, sorted_.coef_)


def test_every_kind_of_frame():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    scipy = pytest.importorskip("scipy.sparse")
    X, y = blobs()
    hospital = np.array(["north", "south"])[np.arange(len(X)) % 2]
    columns = {name: X[:, i] for i, name in enumerate("abc")}
    frame, table = polars.DataFrame(columns), pyarrow.table(columns)
    expected = private().fit(X, y, sites=hospital)
    for data, sites, labels in (
        (np.asfortranarray(X), list(hospital), list(y)),
        (pandas.DataFrame(columns), pandas.Series(hospital, dtype="category"), pandas.Series(y)),
        (frame, polars.Series("hospital", hospital), polars.Series(y)),
        (table, pyarrow.array(hospital), pyarrow.array(y)),
        (OnlyArrow(frame), pyarrow.chunked_array([hospital]), y),
        (OnlyArrow(pyarrow.concat_tables([table[:400], table[400:]])), hospital, y),
        (scipy.csr_matrix(X), hospital, y),
    ):
        clf = private().fit(data, labels, sites=sites)
        np.testing.assert_array_equal(clf.coef_, expected.coef_, err_msg=str(type(data)))
        np.testing.assert_array_equal(clf.predict(data), expected.predict(X))
        if hasattr(data, "__arrow_c_stream__"):
            assert list(clf.feature_names_in_) == ["a", "b", "c"], type(data)
    with pytest.raises(ValueError, match="not those of the fit"):
        clf = private().fit(OnlyArrow(table), y)
        clf.predict(OnlyArrow(table.select(["c", "b", "a"])))
    for sites in ([None] * len(X), polars.Series([None, "a"] * (len(X) // 2))):
        with pytest.raises(ValueError, match="no site"):
            private().fit(X, y, sites=sites)


def test_arrow_streams():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({
        "wide": pyarrow.array([1, None, 3, 4], pyarrow.int16()), "bit": pyarrow.array([True, False, None, True]),
        "half": pyarrow.array([0.5, 1.5, 2.5, None], pyarrow.float32()), "none": pyarrow.nulls(4),
    })
    names, found = _arrow.columns(OnlyArrow(table[1:]))
    assert names == ["wide", "bit", "half", "none"]
    np.testing.assert_array_equal(found[:, :3], [[np.nan, 0, 1.5], [3, np.nan, 2.5], [4, 1, np.nan]])
    assert np.isnan(found[:, 3]).all() and _arrow.columns(OnlyArrow(table[:0]))[1].shape == (0, 4)
    for column in (pyarrow.array(["a"]), pyarrow.array(["a"]).dictionary_encode(), pyarrow.array([[1.0]])):
        with pytest.raises(consenso.InputError, match='column "x"'):
            _arrow.columns(OnlyArrow(pyarrow.table({"x": column})))
    with pytest.raises(consenso.InputError, match="not a table"):
        _arrow.columns(OnlyArrow(pyarrow.chunked_array([[1.0]])))
    with pytest.raises(ValueError, match="NaN"):
        private().fit(OnlyArrow(table), [0, 1, 0, 1])


def test_what_a_record_of_real_noise_gives_away():
    X, y = blobs()
    clf = private(random_state=None).fit(X, y)
    shared, everything = json.dumps(clf.record_), json.dumps(clf.private_record_)
    for exact in ("central_optimum", '"curve"', '"objective":'):
        assert exact not in shared and exact in everything, exact
    # A private fit does not even compute what the records could give at best; one without privacy does.
    algorithm = clf.private_record_["algorithms"][0]
    assert algorithm["objective"] is None and not algorithm["curve"]
    plain = consenso.LogisticRegression(epsilon=None, rounds=20).fit(X, y).private_record_["algorithms"][0]
    assert plain["objective"] > 0 and plain["curve"]
    loaded = pickle.loads(pickle.dumps(clf))
    assert not hasattr(loaded, "private_record_") and loaded.record_ == clf.record_
    assert private().fit(X, y).record_["kind"] == "seeded"


def test_joblib_keeps_a_model(tmp_path):
    joblib = pytest.importorskip("joblib")
    X, y = blobs()
    clf = private().fit(X, y)
    joblib.dump(clf, tmp_path / "clf.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "clf.joblib").predict(X), clf.predict(X))


def test_fit_and_the_command_line_give_the_same_bits(tmp_path):
    bench = runpy.run_path(str(HERE.parent / "benches/command_line.py"))
    adult = load_adult()
    data, target, sites = adult.data[:2000], adult.target[:2000], np.array([f"site-{i % 4}" for i in range(2000)])
    clf = consenso.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=adult.bounds, random_state=5).fit(data, target, sites=sites)
    bench["write_study"](tmp_path, data, target, sites, adult.bounds, adult.feature_names, 5)
    consenso.cli("run", tmp_path / "study.toml", "--out", tmp_path / "out")
    (model,) = (tmp_path / "out/models").glob("*.json")
    assert json.loads(model.read_text())["weights"] == clf._file["weights"]


class Handle:
    def __init__(self):
        self.shown = []

    def update(self, html):
        self.shown.append(html.data)


def test_progress_is_drawn_and_can_be_switched_off(monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    X, y = blobs()
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    slow = {"rounds": 20000, "epsilon": None, "bounds": None}
    private(**slow).fit(X, y, sites=np.arange(900) % 2)
    assert out.getvalue() == "", "this is neither a terminal nor a notebook"
    private(**slow, progress=True).fit(X, y, sites=np.arange(900) % 2)
    assert "LogisticRegression: dgd" in out.getvalue() and "20000 rounds" in out.getvalue() and out.getvalue().endswith("\r")
    handle = Handle()
    monkeypatch.setattr(_progress, "_notebook", lambda: lambda: handle)
    private(**slow).fit(X, y, sites=np.arange(900) % 2)
    assert 'max="20000"' in handle.shown[-2] and handle.shown[-1] == ""
    shown = len(handle.shown)
    private(**slow, progress=False).fit(X, y, sites=np.arange(900) % 2)
    assert len(handle.shown) == shown


LONG = """
import sys, threading, time, numpy as np, consenso
X = np.random.default_rng(0).normal(size=(4000, 8)); y = (X[:, 0] > 0).astype(int)
count = [0]
def other():
    while True:
        count[0] += 1
        time.sleep(0.01)
threading.Thread(target=other, daemon=True).start()
clf = consenso.LogisticRegression(epsilon=None, rounds=1_000_000)
print("go", flush=True)
before = count[0]
try:
    clf.fit(X, y, sites=np.arange(4000) % 4)
except KeyboardInterrupt:
    print("stopped", count[0] - before, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_a_long_fit_while_other_threads_run():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "go\n"
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        word, counted = out.split()
        assert word == "stopped" and int(counted) >= 10, "the interpreter's lock was held"
    finally:
        child.kill()


SWEEP = {
    "name": "sweep", "runs": 2, "graph": {"kind": "ring"}, "privacy": {"epsilon": 1.0, "delta": 1e-6},
    "data": {"source": "logistic", "agents": 4, "records_per_agent": 200, "dim": 4},
    "algorithm": [{"kind": "dgd", "rounds": 10}], "sweep": {"epsilon": [0.5, 2.0]},
}


def test_a_sweep_on_a_process_pool_is_that_of_one_process():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    one = consenso.run(SWEEP)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        many = consenso.run(SWEEP, executor=pool).result(timeout=300)
        bad = pool.submit(consenso.run, SWEEP, algorithm__0__kind="dgdd")
        with pytest.raises(consenso.InputError, match="kind"):
            bad.result(timeout=300)
    strip = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
    assert strip(many.rows()) == strip(one.rows()) and many.models == one.models
    assert [row["budget"] for row in one.rows()] == [0.5, 1.0, 2.0]
    assert len(one.plot.frontier().lines) == 1 and len(one.plot.convergence().lines) == 1 and one.plot.privacy().patches
    assert pytest.importorskip("polars").DataFrame(one.rows()).equals(one.to_polars())
    assert one.to_pandas().shape == (3, len(one.rows()[0]))
    page = one._repr_html_()
    assert "<svg" in page and one.algorithms[0]["epsilon"]["statement"][:20] in page
    assert one.table().count("\n") == 4 and r"\hline" in one.table("latex")


def test_the_example_of_a_network_on_adult():
    example = runpy.run_path(str(HERE.parent / "examples/two_layer_network.py"))
    right, fit = example["main"](records=600, rounds=3)
    assert fit.claim_["epsilon"] <= 4.0 and 0.0 <= right <= 1.0
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(6, 5)), np.array([1.0, -1.0] * 3)
    x = rng.normal(size=6 * example["HIDDEN"])
    numeric = example["by_numpy"](5)(x, X, y)
    name, gradients = example["gradients_of"](5)
    np.testing.assert_allclose(np.asarray(gradients(x, X, y)), numeric, rtol=1e-5, err_msg=name)


def test_bundled_records():
    adult = load_adult()
    assert adult.data.shape == (30162, 14) and adult.test_data.shape == (15060, 14) and set(adult.target) == {0.0, 1.0}
    assert (adult.data >= adult.bounds[0]).all() and (adult.data <= adult.bounds[1]).all()
    hot = adult.one_hot(adult.data)
    assert hot.min() >= 0.0 and hot.max() <= 1.0 and (hot.sum(axis=1) >= 8.0).all()


hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

ESTIMATORS = [consenso.LogisticRegression, consenso.LinearSVC, consenso.Ridge, consenso.HuberRegressor]
WILD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.floats(), max_size=4),
    st.tuples(st.floats(), st.floats()), st.tuples(st.lists(st.floats(), max_size=4), st.lists(st.floats(), max_size=4)), st.binary(max_size=3),
)
OPTIONS = ["epsilon", "delta", "bounds", "data_norm", "graph", "algorithm", "trust", "rounds", "regularization", "neighbours", "random_state", "bounds_y"]
CELLS = st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf, 1e-300])


@hypothesis.given(
    estimator=st.sampled_from(ESTIMATORS), name=st.sampled_from(OPTIONS), value=WILD,
    rows=st.integers(0, 6), columns=st.integers(0, 3), cells=st.lists(CELLS, min_size=18, max_size=18),
    labels=st.lists(st.sampled_from([0, 1, 2, -1.5, np.nan, np.inf]), min_size=6, max_size=6),
    sites=st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "", None, np.nan]), min_size=0, max_size=7)),
    dtype=st.sampled_from([np.float64, np.float32, np.complex128, object, "U4"]),
)
@hypothesis.settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@pytest.mark.filterwarnings("ignore")
def test_whatever_is_given_ends_in_a_model_or_an_exception(estimator, name, value, rows, columns, cells, labels, sites, dtype):
    options = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "bounds_y": (-1.0, 1.0), "random_state": 0, "rounds": 3, name: value}
    if estimator not in (consenso.Ridge, consenso.HuberRegressor):
        options.pop("bounds_y", None)
    # A model of a million rounds is no mistake, and would take its time.
    hypothesis.assume(not (isinstance(options["rounds"], int) and options["rounds"] > 100))
    X = np.array(cells[: rows * columns], dtype=np.float64).reshape(rows, columns)
    try:
        model = estimator(**options).fit(X.astype(dtype), labels[:rows], sites=sites)
    except (ValueError, TypeError, consenso.ConsensoError) as error:
        assert "please report it" not in str(error)
    else:
        assert np.isfinite(model.coef_).all()
        assert model.claim_ is None or model.claim_["epsilon"] <= options["epsilon"]


@hypothesis.given(values=st.lists(st.floats(), max_size=5), scale=WILD, seed=WILD, kind=st.sampled_from(["laplace", "gaussian"]))
@hypothesis.settings(max_examples=80, deadline=None, derandomize=True)
def test_noise_of_whatever_is_given(values, scale, seed, kind):
    try:
        assert getattr(consenso.noise, kind)(values, scale, seed=seed).shape == (len(values),)
    except (ValueError, TypeError):
        pass


def test_the_api_page_is_that_of_the_docstrings():
    api = runpy.run_path(str(HERE.parent / "api.py"))
    assert api["PAGE"].read_text(encoding="utf-8") == api["page"](), "cargo xtask python --docs writes it again"


FORKED = """
import numpy as np, consenso
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
experiment = {
    "name": "small", "seed": 3, "runs": 2, "data": {"source": "logistic", "agents": 3, "records_per_agent": 40, "dim": 3},
    "graph": {"kind": "complete"}, "privacy": {"epsilon": 2.0, "delta": 1e-6}, "algorithm": [{"kind": "dgd", "rounds": 5}],
}
here = consenso.run(experiment, progress=False)
consenso.noise.laplace(np.zeros(100_000), 1.0)
with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
    there = consenso.run(experiment, executor=pool).result(timeout=60)
    many = pool.submit(consenso.noise.laplace, np.zeros(100_000), 1.0, seed=1).result(timeout=60)
assert there.models == here.models
assert (many == consenso.noise.laplace(np.zeros(100_000), 1.0, seed=1)).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_has_threads_of_its_own():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=120)


def test_a_fit_reads_the_rows_where_they_are():
    """Encoded records and their division among sites take the room of two inputs or three; one more copy would show."""
    found = runpy.run_path(str(HERE.parent / "benches" / "memory.py"))["measured"]("data_norm", 150_000)
    assert 0.5 < found < 2.9, f"{found:.2f} times the input"
