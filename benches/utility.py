"""Records inside PyPI packages as CSV files with public schemas, and what other programs reach on the same split.

    python utility.py FOLDER

Writes FOLDER/NAME/{train,test}.csv and schema.toml, and prints one JSON line per set and method. Ranges of the schemas are
wider than the records, as a codebook's are; sites are drawn with very unequal shares from a fixed seed. Nothing here is tuned.
"""

import json
import pathlib
import sys
import warnings

import numpy as np
import pandas as pd

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
    # Sets that nobody looked at while defaults were made: their figures are read once.
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
    if task == "regression":
        return 1 - ((y - found) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    if task == "classes":
        return float((found == y).mean())
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(y, found)


def plain(task, x, y, xt, yt):
    from sklearn.linear_model import LinearRegression, LogisticRegression

    centre, width = x.mean(0), x.std(0) + 1e-9
    x, xt = (x - centre) / width, (xt - centre) / width
    if task == "regression":
        return score(task, yt, LinearRegression().fit(x, y).predict(xt))
    model = LogisticRegression(max_iter=500).fit(x, y)
    return score(task, yt, model.decision_function(xt) if task == "binary" else model.predict(xt))


def central(task, frame, y, test, yt, categories, epsilon):
    """diffprivlib, which trusts a curator with all records: rows scaled by the public ranges, unit norm, as it asks."""
    from diffprivlib.models import LogisticRegression

    if task == "regression":
        return None
    scaled = []
    for part in (frame, test):
        part = part.copy()
        for name in frame.columns:
            if name not in categories:
                low, high = wide(frame[name])
                part[name] = ((part[name] - low) / (high - low)).clip(0, 1)
        scaled.append(part)
    x, xt = matrices(*scaled, categories)
    x, xt = (m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-9) for m in (x, xt))
    found = []
    for seed in range(5):
        model = LogisticRegression(epsilon=epsilon, data_norm=1.0, max_iter=300, random_state=seed).fit(x, y)
        found.append(score(task, yt, model.decision_function(xt) if task == "binary" else model.predict(xt)))
    return float(np.mean(found))


def say(**line):
    print(json.dumps(line), flush=True)


def main(folder):
    for name, task, frame, y, categories, sites in sets():
        rng = np.random.default_rng(1)
        site = rng.choice(sites, size=len(y), p=rng.dirichlet(np.ones(sites)))
        site[:sites] = np.arange(sites)
        held = rng.random(len(y)) < 0.25
        held[:sites] = False
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "schema.toml").write_text(schema(frame, y, task, categories))
        table = frame.assign(the_site=[f"s{s}" for s in site], the_label=y)
        table[~held].to_csv(place / "train.csv", index=False)
        table[held].to_csv(place / "test.csv", index=False)
        x, xt = matrices(frame[~held], frame[held], categories)
        say(set=name, task=task, sites=sites, records=int((~held).sum()), method="plain", value=plain(task, x, y[~held], xt, y[held]))
        for epsilon in EPSILONS:
            try:
                value = central(task, frame[~held], y[~held], frame[held], y[held], categories, epsilon)
            except ImportError:
                break
            if value is not None:
                say(set=name, task=task, method="central", epsilon=epsilon, value=value)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
