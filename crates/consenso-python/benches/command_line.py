"""`fit` beside the command line: Adult (30,162 × 14), ten sites, one seed. The same bits, and how long each takes.

Run by `cargo xtask python --release`, with the wheel in a clean environment; or by hand: python benches/command_line.py
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import consenso
from consenso.datasets import load_adult

SITES, SEED = 10, 7
STUDY = """name = "ten-sites"
seed = {seed}
runs = 1
[data]
path = "site-*.csv"
schema = "schema.toml"
[graph]
kind = "complete"
[privacy]
epsilon = 1.0
delta = 1e-6
[[algorithm]]
kind = "dgd"
"""


def write_study(folder, data, target, sites, bounds, names, seed):
    """The files of the command line for what `fit` gets from memory."""
    columns = [
        f'[[column]]\nname = "{name}"\nkind = "numeric"\nmin = {low!r}\nmax = {high!r}\n' for name, low, high in zip(names, *bounds)
    ]
    label = '[[column]]\nname = "label"\nkind = "label"\nclasses = ["-1", "1"]\n'
    (folder / "schema.toml").write_text("reviewed = true\n" + "".join(columns) + label)
    for site in np.unique(sites):
        rows = zip(data[sites == site].tolist(), target[sites == site].tolist())
        lines = [",".join([*map(repr, row), "1" if y else "-1"]) for row, y in rows]
        (folder / f"{site}.csv").write_text(",".join([*names, "label"]) + "\n" + "\n".join(lines) + "\n")
    (folder / "study.toml").write_text(STUDY.format(seed=seed))


def main():
    adult = load_adult()
    sites = np.array([f"site-{i % SITES}" for i in range(len(adult.data))])
    clf = consenso.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=adult.bounds, random_state=SEED, progress=False)
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        write_study(folder, adult.data, adult.target, sites, adult.bounds, adult.feature_names, SEED)
        command = [sys.executable, "-m", "consenso", "run", "study.toml", "--out"]
        fits, runs = [], []
        for turn in range(3):
            began = time.perf_counter()
            clf.fit(adult.data, adult.target, sites=sites)
            fits.append(time.perf_counter() - began)
            began = time.perf_counter()
            subprocess.run([*command, f"out-{turn}"], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            runs.append(time.perf_counter() - began)
        (model,) = (folder / "out-0" / "models").glob("*.json")
        weights = json.loads(model.read_text())["weights"]
    clf.save_model(os.path.join(tempfile.mkdtemp(), "model.json"))
    same = clf._file["weights"] == weights
    score = clf.score(adult.test_data, adult.test_target)
    print(f"── fit: {min(fits):.2f} s, command line: {min(runs):.2f} s, ratio {min(fits) / min(runs):.2f} (at most 1.3)")
    print(f"── {len(weights)} weights, {'the same bits' if same else 'OTHER BITS'}; test accuracy {score:.4f}")
    return 0 if same and min(fits) <= 1.3 * min(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
