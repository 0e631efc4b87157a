"""Records inside PyPI packages as CSV files with public schemas, and what other programs reach on the same split.

    python utility.py FOLDER BUNDLED [SCHOOL]

Writes FOLDER/NAME/{train,test}.csv and schema.toml, and one JSON line per set and method to FOLDER/others.jsonl as it is made: lines that are there
already are not made again. Sets of FOLDER that others wrote and the records in BUNDLED are judged too. Ranges of the schemas are wider than the
records, as a codebook's are; sites are drawn with very unequal shares from a fixed seed. SCHOOL is `school.mat`, pupils of 139 schools (the examination
scores of the Inner London Education Authority, as the literature on learning several tasks at once has them). Nothing here is tuned.
"""

import hashlib
import io
import json
import pathlib
import sys
import tomllib
import warnings

import numpy as np
import pandas as pd
import zstandard

warnings.filterwarnings("ignore")
EPSILONS = (0.5, 1.0, 3.0)


def sets():
    import sklearn.datasets as sk
    import statsmodels.api as sm

    for name, task, sites in (
        ("breast_cancer", "binary", 4),
        ("wine", "classes", 3),
        ("digits", "classes", 5),
        ("diabetes", "regression", 4),
    ):
        data = getattr(sk, f"load_{name}")(as_frame=True)
        frame = data.data.copy()
        frame.columns = [str(c).replace(" ", "_").replace("/", "_") for c in frame.columns]
        yield name.replace("_", "-"), task, frame, data.target.to_numpy(), (), sites
    fair = sm.datasets.fair.load_pandas().data
    columns = fair.drop(columns="affairs")
    yield "fair", "binary", columns, (fair.affairs > 0).astype(int).to_numpy(), ("occupation", "occupation_husb"), 12
    anes = sm.datasets.anes96.load_pandas().data
    columns = anes[["TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income"]]
    yield "anes96", "binary", columns, anes.vote.astype(int).to_numpy(), (), 6
    rand = sm.datasets.randhie.load_pandas().data
    yield "randhie", "regression", rand.drop(columns="mdvis"), np.minimum(rand.mdvis, 20.0).to_numpy(), (), 20
    star = sm.datasets.star98.load_pandas().data
    # No default was chosen by modechoice; iris and engel led to changes.
    choice = sm.datasets.modechoice.load_pandas().data
    yield "modechoice", "binary", choice[["mode", "ttme", "invc", "invt", "gc", "hinc", "psize"]].astype({"mode": int}), choice.choice.astype(int).to_numpy(), ("mode",), 5
    iris = sk.load_iris(as_frame=True)
    columns = iris.data.copy()
    columns.columns = [str(c).replace(" ", "_") for c in columns.columns]
    yield "iris", "classes", columns, iris.target.to_numpy(), (), 3
    engel = sm.datasets.engel.load_pandas().data
    yield "engel", "regression", engel[["income"]], engel.foodexp.to_numpy(), (), 4
    yield "star98", "regression", star.iloc[:, 2:14], (star.NABOVE / (star.NABOVE + star.NBELOW)).to_numpy(), (), 5


def wide(values):
    low, high = float(np.min(values)), float(np.max(values))
    room = max(high - low, 1e-3)
    return low - 0.1 * room, high + 0.3 * room


def schema(frame, y, task, categories):
    lines = ["reviewed = true"]
    for name in frame.columns:
        lines += ["[[column]]", f'name = "{name}"']
        if name in categories:
            levels = ", ".join(f'"{v}"' for v in sorted(frame[name].astype(str).unique()))
            lines += ['kind = "categorical"', f"categories = [{levels}]"]
        else:
            low, high = wide(frame[name])
            lines += ['kind = "numeric"', f"min = {low!r}", f"max = {high!r}"]
    lines += ["[[column]]", 'name = "the_site"', 'kind = "site"', "[[column]]", 'name = "the_label"', 'kind = "label"']
    if task == "regression":
        low, high = wide(y)
        lines += [f"min = {low!r}", f"max = {high!r}"]
    else:
        levels = ", ".join(f'"{v}"' for v in sorted(set(y.tolist())))
        lines += [f"classes = [{levels}]"]
    return "\n".join(lines) + "\n"


def matrices(frame, test, categories):
    both = pd.get_dummies(pd.concat([frame, test]).astype({c: str for c in categories}), columns=list(categories))
    both = both.to_numpy(dtype=float)
    return both[: len(frame)], both[len(frame) :]


def score(task, y, found):
    """Figures of scores (binary: log-odds), class probabilities, or predicted numbers."""
    from sklearn.metrics import log_loss, roc_auc_score

    if task == "regression":
        return {"r2": 1 - ((y - found) ** 2).sum() / ((y - y.mean()) ** 2).sum()}
    if task == "classes":
        classes, probabilities = found
        told = classes[probabilities.argmax(1)]
        return {"accuracy": float((told == y).mean()), "log_loss": log_loss(y, probabilities, labels=classes)}
    likely = 1 / (1 + np.exp(-np.clip(found, -500, 500)))
    return {
        "auc": roc_auc_score(y, found),
        "accuracy": float(((found > 0) == (y > 0)).mean()),
        "log_loss": log_loss(y, np.clip(likely, 1e-15, 1 - 1e-15)),
    }


def told(task, model, x):
    if task == "regression":
        return model.predict(x)
    return model.decision_function(x) if task == "binary" else (model.classes_, model.predict_proba(x))


def plain(task, x, y, xt, yt):
    from sklearn.linear_model import LinearRegression, LogisticRegression

    centre, width = x.mean(0), x.std(0) + 1e-9
    x, xt = (x - centre) / width, (xt - centre) / width
    model = LinearRegression() if task == "regression" else LogisticRegression(max_iter=500)
    return score(task, yt, told(task, model.fit(x, y), xt))


def central(task, frame, y, test, yt, categories, ranges, epsilon):
    """diffprivlib, which trusts a curator with all records: rows scaled by the public ranges, and to unit norm for classes, as it asks."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    scaled = []
    for part in (frame, test):
        part = part.copy()
        for name in frame.columns:
            if name not in categories:
                low, high = ranges[name]
                part[name] = ((part[name] - low) / (high - low)).clip(0, 1)
        scaled.append(part)
    x, xt = matrices(*scaled, categories)
    if task != "regression":
        x, xt = (m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-9) for m in (x, xt))
    found = []
    for seed in range(5):
        if task == "regression":
            bounds = {"bounds_X": (0.0, 1.0), "bounds_y": ranges[None]}
            model = LinearRegression(epsilon=epsilon, random_state=seed, **bounds)
        else:
            model = LogisticRegression(epsilon=epsilon, data_norm=1.0, max_iter=300, random_state=seed)
        found.append(score(task, yt, told(task, model.fit(x, y), xt)))
    return {key: float(np.mean([f[key] for f in found])) for key in found[0]}


def by_schema(folder):
    """A set that lies in files already: (task, training frame, labels, test frame, labels, categories, ranges)."""
    known = tomllib.loads((folder / "schema.toml").read_text())
    columns = {c["name"]: c for c in known["column"]}
    label = next(c for c in known["column"] if c["kind"] == "label")
    categories = tuple(n for n, c in columns.items() if c["kind"] == "categorical")
    ranges = {n: (c["min"], c["max"]) for n, c in columns.items() if c["kind"] == "numeric"}
    task = "regression" if "min" in label else "binary" if len(label["classes"]) == 2 else "classes"
    parts = []
    for part in ("train", "test"):
        table = pd.read_csv(folder / f"{part}.csv")
        y = table[label["name"]]
        if task == "regression":
            ranges[None] = (label["min"], label["max"])
        else:
            y = y.astype(str).map({str(c): k for k, c in enumerate(label["classes"])})
        parts += [table[[n for n in columns if n in ranges or n in categories]], y.to_numpy()]
    return task, *parts, categories, ranges


def adult(bundled):
    names = "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain capital-loss hours-per-week native-country income"
    # The ranges of the bundled schema.
    ranges = {"age": (17, 90), "fnlwgt": (12285, 1490400), "education-num": (1, 16), "capital-gain": (0, 99999), "capital-loss": (0, 4356), "hours-per-week": (1, 99)}
    parts = []
    for file in ("adult.data.zst", "adult.test.zst"):
        text = zstandard.open(bundled / file, "rt").read()
        lines = "\n".join(line.rstrip(".") for line in text.splitlines() if line and not line.startswith("|"))
        table = pd.read_csv(io.StringIO(lines), header=None, names=names.split(), skipinitialspace=True, na_values="?").dropna()
        parts += [table.drop(columns="income"), (table.income == ">50K").astype(int).to_numpy()]
    return "binary", *parts, tuple(c for c in parts[0].columns if c not in ranges), ranges


def heart(bundled):
    """FLamby's patients and split; columns are numbered as in the files."""
    split = pd.read_csv(bundled / "heart" / "flamby-split.csv")
    ranges = {0: (20, 90), 3: (80, 200), 4: (0, 600), 7: (60, 220), 9: (-3, 7)}
    parts = []
    for part in ("train", "test"):
        rows = []
        for centre in ("cleveland", "hungarian", "switzerland", "va"):
            lines = [line.split(",") for line in (bundled / "heart" / f"processed.{centre}.data").read_text().splitlines() if line.strip()]
            rows += [lines[row] for row in split[(split.centre == centre) & (split.part == part)].row]
        table = pd.DataFrame([[float(row[c]) for c in (*range(10), 13)] for row in rows], columns=[*range(10), 13])
        parts += [table[list(range(10))], (table[13] > 0).astype(int).to_numpy()]
    return "binary", *parts, (1, 2, 5, 6, 8), ranges


def school(path):
    """Pupils of 139 schools: columns of two values are categories, the score is a number within 0 and 70."""
    from scipy.io import loadmat

    parts = loadmat(path)
    x, y = ([np.asarray(block, float) for block in parts[key].ravel()] for key in ("X", "Y"))
    x = [a if len(a) == b.size else a.T for a, b in zip(x, y)]
    values, scores = np.vstack(x), np.concatenate([b.ravel() for b in y])
    names = [c for c in range(values.shape[1]) if len(np.unique(values[:, c])) > 1]
    frame = pd.DataFrame({f"c{c}": values[:, c] for c in names})
    categories = tuple(c for c in frame.columns if frame[c].nunique() == 2)
    for name in categories:
        frame[name] = (frame[name] == frame[name].max()).astype(int)
    return frame, scores, categories, np.repeat(np.arange(len(y)), [b.size for b in y])


def exported(folder, pupils=None):
    """Writes the sets of the packages, and says what is in them."""
    own = [(*s, None) for s in sets()]
    if pupils:
        frame, y, categories, site = school(pupils)
        own.append(("school", "regression", frame, y, categories, len(set(site)), site))
    for name, task, frame, y, categories, sites, given in own:
        rng = np.random.default_rng(1)
        site = rng.choice(sites, size=len(y), p=rng.dirichlet(np.ones(sites)))
        site[:sites] = np.arange(sites)
        held = rng.random(len(y)) < 0.25
        if given is None:
            held[:sites] = False
        else:
            site = given
            held[np.unique(site, return_index=True)[1]] = False
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "schema.toml").write_text(schema(frame, y, task, categories))
        table = frame.assign(the_site=[f"s{s}" for s in site], the_label=y)
        table[~held].to_csv(place / "train.csv", index=False)
        table[held].to_csv(place / "test.csv", index=False)
        ranges = {c: wide(frame[c]) for c in frame.columns if c not in categories}
        ranges[None] = wide(y)
        facts = {"made": "here", "sites": sites, "records": int((~held).sum())}
        yield name, facts, (task, frame[~held], y[~held], frame[held], y[held], categories, ranges)


def everything(folder, bundled, pupils=None):
    yield "adult", {}, adult(bundled)
    yield "heart", {}, heart(bundled)
    for name in ("synthetic", "five-classes", "long-tailed"):
        if (folder / name / "schema.toml").exists():
            yield name, {}, by_schema(folder / name)
    yield from exported(folder, pupils)


def main(folder, bundled, pupils=None):
    notes = folder / "others.jsonl"
    stamp = json.dumps({"program": hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()})
    lines = notes.read_text().splitlines() if notes.exists() else []
    if lines[:1] != [stamp]:
        lines = [stamp]
    # A line that a stop cut off is made again.
    lines = [line for line in lines if line.endswith("}")]
    notes.write_text("\n".join(lines) + "\n")
    done = {(d.get("set"), d.get("epsilon", 0)) for d in map(json.loads, lines)}
    for name, facts, (task, frame, y, test, yt, categories, ranges) in everything(folder, bundled, pupils):
        x, xt = matrices(frame, test, categories)
        for epsilon in (0, *EPSILONS):
            if (name, epsilon) in done:
                continue
            print(f"{name}, {f'diffprivlib at ε = {epsilon}' if epsilon else 'scikit-learn'}", file=sys.stderr, flush=True)
            try:
                if epsilon == 0:
                    line = {"method": "plain", "task": task, **facts, **plain(task, x, y, xt, yt)}
                else:
                    line = {"method": "central", "epsilon": epsilon, **central(task, frame, y, test, yt, categories, ranges, epsilon)}
            except ImportError:
                break
            with notes.open("a") as out:
                out.write(json.dumps({"set": name, **line}) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:4])
