"""Frames as they are: categories, booleans, dates and missing values, as the command line reads them from files."""

import csv
import datetime
import json
import pickle
import warnings

import numpy as np
import pytest

import consenso
from consenso import InputError, Schema
from consenso._frames import Frame

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

WARDS = ["east", "west", "north", "Other"]
SCHEMA = """reviewed = true
delimiter = ";"

[[column]]
name = "age"
kind = "numeric"
min = 0
max = 110
missing = { impute = 50 }
indicator = true

[[column]]
name = "ward"
kind = "categorical"
categories = ["east", "west", "north", "Other"]

[[column]]
name = "smokes"
kind = "categorical"
categories = ["no", "yes"]

[[column]]
name = "admitted"
kind = "date"
format = "DD.MM.YYYY"
origin = "2015-01-01"
min = "2015-01-01"
max = "2025-12-31"

[[column]]
name = "ill"
kind = "label"
classes = ["no", "yes"]
"""


def records(rows=600, seed=3):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 95, rows).round(2)
    ward = rng.choice(WARDS, rows, p=[0.4, 0.3, 0.2, 0.1])
    smokes = rng.random(rows) < 0.4
    day = [datetime.date(2015, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 4000, rows)]
    score = 0.05 * (age - 50) + np.where(ward == "west", 1.5, -0.5) + 1.2 * smokes
    ill = rng.random(rows) < 1 / (1 + np.exp(-score))
    known = rng.random(rows) > 0.05
    return {
        "age": [float(a) if k else None for a, k in zip(age, known)], "ward": list(map(str, ward)), "smokes": smokes.tolist(), "admitted": day,
        "ill": ["yes" if i else "no" for i in ill], "hospital": [f"site-{i % 3}" for i in range(rows)],
    }


def write_files(folder, data, seed):
    """One file a site, as a hospital would export it: semicolons, decimal points, days first."""
    (folder / "schema.toml").write_text(SCHEMA)
    for site in sorted(set(data["hospital"])):
        with open(folder / f"{site}.csv", "w", newline="") as out:
            rows = csv.writer(out, delimiter=";")
            rows.writerow(["age", "ward", "smokes", "admitted", "ill"])
            for age, ward, smokes, day, ill, own in zip(*data.values()):
                if own == site:
                    rows.writerow(["" if age is None else repr(age), ward, "yes" if smokes else "no", day.strftime("%d.%m.%Y"), ill])
    (folder / "study.toml").write_text(
        f'name = "s"\nseed = {seed}\nruns = 1\ndata = {{ path = "site-*.csv", schema = "schema.toml" }}\n'
        'graph = { kind = "complete" }\nprivacy = { epsilon = 3.0, delta = 1e-6 }\nalgorithm = [{ kind = "dgd" }]\n'
    )


def frames(data):
    """The same records in every library, without label and site."""
    columns = {k: v for k, v in data.items() if k not in ("ill", "hospital")}
    frame = pandas.DataFrame(columns)
    dated = frame.assign(admitted=pandas.to_datetime(frame["admitted"]), ward=pandas.Categorical(frame["ward"], WARDS))
    return [frame, dated, polars.DataFrame(columns), pyarrow.table(columns), pyarrow.table({**columns, "ward": pyarrow.array(columns["ward"]).dictionary_encode()})]


def model(folder):
    (found,) = (folder / "out/models").glob("*.json")
    return json.loads(found.read_text())


def test_a_frame_and_a_file_give_the_same_bits(tmp_path):
    data = records()
    write_files(tmp_path, data, 5)
    consenso.cli("run", tmp_path / "study.toml", "--out", tmp_path / "out")
    expected = model(tmp_path)
    for X in frames(data):
        clf = consenso.LogisticRegression(epsilon=3.0, schema=tmp_path / "schema.toml", random_state=5)
        clf.fit(X, data["ill"], sites=data["hospital"])
        assert clf._file["weights"] == expected["weights"], type(X)
        assert clf._file["features"] == expected["features"]
    assert list(clf.classes_) == ["no", "yes"] and clf.claim_.epsilon <= 3.0
    # New records: the same answers as the command line's.
    consenso.cli("predict", tmp_path / "out", tmp_path / "site-0.csv", "--proba", "--out", tmp_path / "said.csv")
    with open(tmp_path / "said.csv", newline="") as said:
        said = list(csv.DictReader(said))
    X = frames(data)[0][np.array(data["hospital"]) == "site-0"]
    assert list(clf.predict(X)) == [row["prediction"] for row in said]
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], [float(row["probability"]) for row in said], rtol=1e-12)
    # What the coefficients say is what the model does, on records within what was scouted.
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(X), clf.predict(X))
    clf.save_model(tmp_path / "model.json")
    assert consenso.load_model(tmp_path / "model.json").file["classes"] == ["no", "yes"]


def test_columns_and_their_text_give_the_same_bits(monkeypatch):
    """Frames are read as they are where that can be; the text that a file would have is the other way."""
    data = records(600)
    draw = np.random.default_rng(2)
    data["visits"] = draw.integers(-9, 12, 600).tolist()
    data["dose"] = [float(d) if k else None for d, k in zip(draw.normal(size=600), draw.random(600) > 0.1)]
    data["grade"] = draw.integers(1, 4, 600).tolist()
    said = {
        "age": {"min": 0, "max": 110, "missing": {"impute": 40}}, "ward": WARDS, "smokes": ["False", "True"], "admitted": ("2015-01-01", "2025-12-31"),
        "visits": {"min": 0, "max": 9, "missing": {"impute": 1}, "missing_words": ["-9"]}, "dose": {"min": -1, "max": 1, "missing": {"impute": 0}}, "grade": ["1", "2", "3"],
    }
    how = {"epsilon": 3.0, "bounds": said, "random_state": 4}
    direct = Frame.table
    for X in frames(data):
        ways = []
        for way in (direct, lambda *_: None):
            monkeypatch.setattr(Frame, "table", way)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clf = consenso.LogisticRegression(**how).fit(X, data["ill"], sites=data["hospital"])
            ways.append((clf.coef_.tolist(), clf.decision_function(X.slice(0, 5) if hasattr(X, "slice") else X.head(5)).tolist()))
        assert ways[0] == ways[1], type(X)
        monkeypatch.setattr(Frame, "table", direct)
        read = []
        monkeypatch.setattr(Frame, "table", lambda *given: read.append(direct(*given)) or read[-1])
        consenso.LogisticRegression(**how).fit(X, data["ill"], sites=data["hospital"])
        assert read[0] is not None, type(X)


def test_coefficients_are_in_the_units_of_the_columns():
    data = records(2000)
    frame = pandas.DataFrame({"age": np.clip(np.nan_to_num(np.array(data["age"], dtype=float), nan=50.0), 40, 60), "ward": pandas.Categorical(data["ward"], WARDS), "smokes": data["smokes"]})
    clf = consenso.LogisticRegression(epsilon=8.0, bounds={"age": (0, 110)}, random_state=1).fit(frame, data["ill"])
    assert list(clf.feature_names_out_) == ["age", *(f"ward={w}" for w in WARDS), "smokes=True"]
    row = np.concatenate([frame[["age"]].to_numpy(), np.array(data["ward"])[:, None] == np.array(WARDS), frame[["smokes"]].to_numpy()], axis=1).astype(float)
    np.testing.assert_allclose(row @ clf.coef_[0] + clf.intercept_[0], clf.decision_function(frame), rtol=1e-9, atol=1e-9)
    assert clf.coef_[0, 5] > 0 and clf.score(frame, np.array(data["ill"])) > 0.6
    assert "ward=west" in clf.summary() and clf.summary().to_pandas().loc["smokes=True", "estimate"] > 0


def test_a_category_dtype_carries_its_levels_and_strings_say_what_to_write():
    data = records(300)
    frame = pandas.DataFrame({"age": np.nan_to_num(np.array(data["age"], dtype=float)), "ward": data["ward"]})
    fit = lambda X, **how: consenso.LogisticRegression(random_state=0, **how).fit(X, data["ill"])  # noqa: E731
    with pytest.raises(InputError, match=r'column "ward" holds text.*bounds=\{"ward"'):
        fit(frame, bounds={"age": (0, 110)})
    with pytest.raises(InputError, match='bounds of "age" are missing'):
        fit(frame, bounds={"ward": WARDS})
    typed = frame.assign(ward=pandas.Categorical(frame["ward"], WARDS))
    named = fit(frame, bounds={"age": (0, 110), "ward": WARDS})
    for other in (fit(typed, bounds={"age": (0, 110)}), fit(typed, bounds=(0, 110)), fit(frame, schema={"age": (0, 110), "ward": WARDS})):
        np.testing.assert_array_equal(other.coef_, named.coef_)
    enum = polars.DataFrame({"age": frame["age"].to_numpy(), "ward": polars.Series(data["ward"], dtype=polars.Enum(WARDS))})
    np.testing.assert_array_equal(fit(enum, bounds=(0, 110)).coef_, named.coef_)
    codes = frame.assign(ward=[WARDS.index(w) for w in data["ward"]])
    coded = fit(codes, bounds={"age": (0, 110), "ward": ["0", "1", "2", "3"]}, categorical_features=["ward"])
    np.testing.assert_array_equal(coded.coef_, named.coef_)
    with pytest.raises(InputError, match="no column 'wards'"):
        fit(frame, categorical_features=["wards"])
    with pytest.raises(InputError, match="leave those out"):
        fit(frame, schema={"age": (0, 110), "ward": WARDS}, bounds=(0, 110))
    # Without a budget nothing has to be public.
    plain = fit(frame, epsilon=None, rounds=20)
    assert plain.claim_ is None and len(plain.feature_names_out_) == 5


def test_unknown_categories_by_policy(tmp_path):
    data = records(300)
    typed = pandas.DataFrame({"age": np.nan_to_num(np.array(data["age"], dtype=float)), "ward": pandas.Categorical(data["ward"], WARDS)})
    new = pandas.DataFrame({"age": [40.0, 40.0], "ward": ["south", "Other"]})
    fit = lambda unknown: consenso.LogisticRegression(bounds={"age": (0, 110)}, random_state=0, unknown=unknown).fit(typed, data["ill"])  # noqa: E731
    with pytest.raises(InputError, match='holds "south"'):
        fit("error").predict(new)
    scores = fit("other").decision_function(new)
    assert scores[0] == scores[1]
    ignored = fit("ignore").decision_function(new)
    assert ignored[0] != ignored[1] and np.isfinite(ignored).all()
    with pytest.raises(InputError, match="unknown='some'"):
        fit("some")
    # In a fit: "other" is that category, and what is ignored counts as missing.
    odd = typed.assign(ward=["south", *data["ward"][1:]])
    how = {"bounds": {"age": (0, 110), "ward": WARDS}, "random_state": 0}
    with pytest.raises(InputError, match="south"):
        consenso.LogisticRegression(**how).fit(odd, data["ill"])
    for unknown, same in (("other", typed.assign(ward=["Other", *data["ward"][1:]])), ("ignore", typed.assign(ward=[None, *data["ward"][1:]]))):
        one = consenso.LogisticRegression(unknown=unknown, **how).fit(odd, data["ill"])
        np.testing.assert_array_equal(one.coef_, consenso.LogisticRegression(**how).fit(same, data["ill"]).coef_)


def test_the_command_line_predicts_past_an_unknown_category_and_keeps_ids(tmp_path):
    data = records(300)
    typed = pandas.DataFrame({"age": np.nan_to_num(np.array(data["age"], dtype=float)), "ward": pandas.Categorical(data["ward"], WARDS)})
    clf = consenso.LogisticRegression(bounds={"age": (0, 110)}, random_state=0).fit(typed, data["ill"])
    clf.save_model(tmp_path / "model.json")
    (tmp_path / "new.csv").write_text('id,age,ward\n"a,1",40,south\nb2,40,Other\n')
    with pytest.raises(InputError, match="--unknown ignore"):
        consenso.cli("predict", tmp_path / "model.json", tmp_path / "new.csv")
    said = consenso.cli("predict", tmp_path / "model.json", tmp_path / "new.csv", "--unknown", "ignore", "--keep", "id", "--out", tmp_path / "out.csv")
    assert [row["kept"]["id"] for row in said["rows"]] == ["a,1", "b2"] and said["unknown"] == {"ward": 1}
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "row,id,prediction"
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith('1,"a,1",')
    with pytest.raises(InputError, match='no column "name"'):
        consenso.cli("predict", tmp_path / "model.json", tmp_path / "new.csv", "--unknown", "other", "--keep", "name")


def test_a_draft_prints_what_must_be_reviewed_and_no_claim_rests_on_it(capsys, tmp_path):
    data = records(300)
    frame = frames(data)[1].drop(columns="admitted")
    schema = Schema.draft(frame)
    shown = capsys.readouterr().out
    assert "Review before use" in shown and "age: numeric from" in shown and "ward: categorical, 4 categories" in shown
    with pytest.raises(InputError, match="the schema is a draft"):
        consenso.LogisticRegression(schema=schema).fit(frame, data["ill"])
    schema["age"].update(min=0, max=110)
    schema["age"]["missing"] = {"impute": 50}
    schema.reviewed = True
    assert schema.features() == ["age", "ward", "smokes"] and "Reviewed" in str(schema)
    schema.save(tmp_path / "schema.toml")
    assert Schema(tmp_path / "schema.toml").columns == schema.columns
    clf = consenso.LogisticRegression(schema=tmp_path / "schema.toml", random_state=0).fit(frame, data["ill"])
    assert clf.claim_.epsilon <= 1.0 and clf.predict(frame).shape == (300,)
    labelled = Schema.draft(frame.assign(ill=data["ill"]), label="ill", show=False)
    assert labelled.find("label")["classes"] == ["no", "yes"]
    for wrong in (3, {"a": 3}, tmp_path / "none.toml"):
        with pytest.raises(InputError):
            Schema(wrong)


def test_what_is_missing_is_named():
    data = records(300)
    frame = pandas.DataFrame({"age": data["age"], "ward": pandas.Categorical(data["ward"], WARDS)})
    clf = consenso.LogisticRegression(bounds={"age": (0, 110)}, random_state=0).fit(frame, data["ill"])
    with pytest.raises(InputError, match="no value of \"age\".*impute"):
        clf.predict(frame)
    with pytest.raises(InputError, match='no column "ward"'):
        clf.predict(frame[["age"]])
    with pytest.raises(InputError, match="two columns"):
        Frame.of(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_one_file_with_a_site_column_is_divided_as_the_command_line_does(tmp_path):
    data = records(400)
    frame = pandas.DataFrame({"hospital": data["hospital"], "age": np.nan_to_num(np.array(data["age"], dtype=float)), "ward": data["ward"]})
    schema = {
        "reviewed": True,
        "column": [
            {"name": "hospital", "kind": "site"}, {"name": "age", "kind": "numeric", "min": 0, "max": 110},
            {"name": "ward", "kind": "categorical", "categories": WARDS}, {"name": "ill", "kind": "label", "classes": ["no", "yes"]},
        ],
    }
    clf = consenso.LogisticRegression(schema=schema, random_state=2).fit(frame, data["ill"])
    assert len(clf.sites_) == 3
    Schema(schema).save(tmp_path / "schema.toml")
    frame.assign(ill=data["ill"]).to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "study.toml").write_text(
        'name = "s"\nseed = 2\nruns = 1\ndata = { path = "all.csv", schema = "schema.toml", partition = { by = "hospital" } }\n'
        'graph = { kind = "complete" }\nprivacy = { epsilon = 1.0, delta = 1e-6 }\nalgorithm = [{ kind = "dgd" }]\n'
    )
    consenso.cli("run", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert model(tmp_path)["weights"] == clf._file["weights"]


def test_a_column_is_described_in_short():
    data = records(300)
    frame = pandas.DataFrame({
        "age": data["age"], "ward": pandas.Series(data["ward"]).replace("south", None),
        "admitted": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.arange(300) % 250, "D"),
    })
    said = {
        "age": {"min": 0, "max": 110, "missing": {"impute": 40}}, "ward": {"categories": WARDS, "missing": "category"},
        "admitted": ("2020-01-01", "2020-12-31"),
    }
    how = {"epsilon": 2.0, "random_state": 3}
    clf = consenso.LogisticRegression(bounds=said, **how).fit(frame, data["ill"])
    whole = {
        "age": {"kind": "numeric", **said["age"]}, "ward": {"kind": "categorical", **said["ward"]},
        "admitted": {"kind": "date", "origin": "2020-01-01", "min": "2020-01-01", "max": "2020-12-31"},
    }
    for other in (whole, {**said, "admitted": [pandas.Timestamp("2020-01-01"), np.datetime64("2020-12-31")]}):
        np.testing.assert_array_equal(clf.coef_, consenso.LogisticRegression(bounds=other, **how).fit(frame, data["ill"]).coef_)
    assert str(clf.schema_["admitted"]["max"]) == "2020-12-31" and "date from 2020-01-01 to 2020-12-31" in str(clf.schema_)
    # Two texts in a list are categories, whatever they look like.
    assert consenso.Schema({"day": ["2020-01-01", "2020-01-02"]})["day"]["kind"] == "categorical"
    assert "numeric from 0 to 25\n" in str(consenso.Schema({"hours": (0.0, 25.0), "ward": ["a", "b"]}))
    with pytest.raises(InputError, match=r'give bounds=\{"admitted": \("2015-01-01", "2025-12-31"\)\}'):
        consenso.LogisticRegression(bounds={"age": (0, 110), "ward": WARDS}, **how).fit(frame, data["ill"])


def test_whoever_cannot_be_predicted_is_named_with_the_way_out():
    data = records(300)
    typed = pandas.DataFrame({"age": np.nan_to_num(np.array(data["age"], dtype=float)), "ward": pandas.Categorical(data["ward"], WARDS)})
    clf = consenso.LogisticRegression(bounds={"age": (0, 110)}, random_state=0).fit(typed, data["ill"])
    with pytest.raises(InputError, match=r'row 2 has no value of "age", and'):
        clf.predict(pandas.DataFrame({"age": [40, None], "ward": ["east", "east"]}))
    # Nobody at all is no other case.
    with pytest.raises(InputError, match=r'row 1 has no value of "age" and "ward", and'):
        clf.predict(pandas.DataFrame({"age": [np.nan], "ward": [None]}))
    with pytest.raises(InputError, match='unknown="ignore" predicts without this column'):
        clf.predict(pandas.DataFrame({"age": [40], "ward": ["moon"]}))
    # What noise alone does to a weight is known of frames, too, and a claim fits on a line.
    assert clf.coef_noise_.shape == clf.coef_.shape and (clf.coef_noise_ > 0).all() and " ± " in clf.summary()
    assert len(repr(clf.claim_)) < 250 and repr(clf.claim_).startswith("Claim(epsilon=1, delta=1e-06")


def test_what_was_dropped_or_clamped_is_said():
    data = records(300)
    typed = pandas.DataFrame({"age": np.nan_to_num(np.array(data["age"], dtype=float), nan=50), "ward": pandas.Categorical(data["ward"], WARDS)})
    with pytest.warns(UserWarning, match=r'values of column "age" were outside its declared range and clamped .* widen the range') as caught:
        consenso.LogisticRegression(bounds={"age": (0, 10)}, random_state=0).fit(typed, data["ill"])
    # The line at fault is the one that called fit.
    assert [w.filename for w in caught if "clamped" in str(w.message)] == [__file__]
    gaps = typed.assign(age=typed["age"].where(typed["age"] > 40))
    with pytest.warns(UserWarning, match="of 300 records miss a value and were dropped"):
        consenso.LogisticRegression(bounds={"age": (0, 110)}, random_state=0).fit(gaps, data["ill"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consenso.LogisticRegression(bounds={"age": {"min": 0, "max": 110, "missing": {"impute": 40}}}, random_state=0).fit(gaps, data["ill"])
