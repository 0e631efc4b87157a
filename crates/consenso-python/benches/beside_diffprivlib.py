"""Test accuracy on Adult at ε = 1 beside diffprivlib's central LogisticRegression, with who is trusted in each row.

`cargo xtask python --compare` makes both environments and runs this; by hand: python benches/beside_diffprivlib.py PYTHON_WITH_DIFFPRIVLIB [SEEDS]
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

SEEDS = range(int(sys.argv[2]) if len(sys.argv) > 2 else 5)

CENTRAL = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
found = {}
with np.load(sys.argv[1]) as data:
    for name in ("columns", "one-hot"):
        X, test = data[name], data[name + " test"]
        scores = []
        for seed in range(int(sys.argv[2])):
            clf = LogisticRegression(epsilon=1.0, data_norm=float(np.sqrt(14)), random_state=seed, max_iter=1000)
            clf.fit(X, data["y"])
            scores.append(float(clf.score(test, data["y test"])))
        found[name] = scores
print(json.dumps(found))
"""


def say(text):
    """What is done now, apart from the table."""
    print(f"── {text}", file=sys.stderr, flush=True)


def ours(X, y, test, y_test, **options):
    import consenso

    count = options.pop("sites")
    sites = np.arange(len(X)) % count
    scores, claim = [], None
    for seed in SEEDS:
        clf = consenso.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(0.0, 1.0), random_state=seed, progress=False, **options)
        scores.append(clf.fit(X, y, sites=sites).score(test, y_test))
        claim = clf.claim_
    assert claim["epsilon"] <= 1.0
    return scores


def main():
    from sklearn.linear_model import LogisticRegression

    from consenso.datasets import load_adult

    warnings.simplefilter("ignore")
    adult = load_adult()
    low, high = map(np.array, adult.bounds)
    data = {
        "columns": (adult.data - low) / (high - low), "columns test": (np.clip(adult.test_data, low, high) - low) / (high - low),
        "one-hot": adult.one_hot(adult.data), "one-hot test": adult.one_hot(adult.test_data),
        "y": adult.target, "y test": adult.test_target,
    }
    with tempfile.TemporaryDirectory() as room:
        file = Path(room) / "adult.npz"
        np.savez(file, **data)
        say(f"diffprivlib, {len(SEEDS)} seeds")
        command = [sys.argv[1], "-c", CENTRAL, str(file), str(len(SEEDS))]
        central = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    rows = [("diffprivlib 0.6.6, central", "one curator holds all records and is trusted; others see the model only", "1, 0", central)]
    for label, trust, budget, options in (
        ("consenso, 1 site", "the site trusts itself; others see every message", "1, 10⁻⁶", {"sites": 1}),
        ("consenso, 10 sites", "nobody: every other site may collude and sees every message", "1, 10⁻⁶", {"sites": 10}),
        (
            'consenso, 10 sites, `trust="shares"`', "enough sites do not collude; others see only sums", "1, 10⁻⁶",
            {"sites": 10, "trust": "shares"},
        ),
    ):
        say(f"{label}, {len(SEEDS)} seeds")
        found = {name: ours(data[name], data["y"], data[name + " test"], data["y test"], **options) for name in ("columns", "one-hot")}
        rows.append((label, trust, budget, found))
    open_ = {}
    for name in ("columns", "one-hot"):
        clf = LogisticRegression(max_iter=5000).fit(data[name], data["y"])
        open_[name] = [clf.score(data[name + " test"], data["y test"])]
    rows.append(("scikit-learn, no privacy", "one curator; the model may tell anything", "∞", open_))
    majority = float(np.mean(data["y test"] == 0))
    rows.append(("always the larger class", "", "0, 0", {"columns": [majority], "one-hot": [majority]}))

    def cell(scores):
        return f"{np.mean(scores):.3f}" + (f" ± {np.std(scores, ddof=1):.3f}" if len(scores) > 1 else "")

    print("| model | who is trusted | ε, δ | 14 columns | one-hot, 104 columns |".replace("104", str(data["one-hot"].shape[1])))
    print("|---|---|---|---|---|")
    for label, trust, budget, found in rows:
        print(f"| {label} | {trust} | {budget} | {cell(found['columns'])} | {cell(found['one-hot'])} |")


if __name__ == "__main__":
    main()
