"""What a fit of two million rows of ten numbers takes, by this package and by scikit-learn, as JSON lines.

    pip install numpy scikit-learn
    python benches/fit.py [array|frame|scikit-learn] [ROWS]

Without a name each is measured in a process of its own. Every line has the seconds on the clock, those of the processor (all threads),
the most memory that the process had, in bytes, and how much of that came with the fit, as a multiple of the rows that are given.
`array` is a private fit of a numpy array, `frame` one of a pandas frame under bounds by column; both have 40 sites, a complete graph
and ε = 1. Importing does not count.
"""

import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

COLUMNS, SITES = 10, 40


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def records(rows):
    """Normal columns and a label that they foretell, made in place: no second copy counts towards the peak."""
    draw = np.random.default_rng(1)
    X = np.empty((rows, COLUMNS))
    y = np.empty(rows)
    for start in range(0, rows, 1 << 16):
        block = X[start : start + (1 << 16)]
        draw.standard_normal(out=block)
        y[start : start + (1 << 16)] = block @ np.linspace(-1, 1, COLUMNS) + draw.standard_normal(len(block)) > 0
    sites = np.arange(rows) * SITES // rows
    return X, y, sites


def measured(name, rows):
    if name == "scikit-learn":
        from sklearn.linear_model import LogisticRegression as Model
    else:
        from consenso import LogisticRegression as Model
    X, y, sites = records(rows)
    given = X.nbytes
    if name == "frame":
        import pandas

        X = pandas.DataFrame(X, columns=[f"x{i + 1}" for i in range(COLUMNS)])
    before = peak()
    clock, processor = time.perf_counter(), time.process_time()
    if name == "scikit-learn":
        Model().fit(X, y)
    else:
        bounds = (-5.0, 5.0) if name == "array" else {column: (-5.0, 5.0) for column in X}
        with warnings.catch_warnings():
            # A value in a million lies beyond five deviations.
            warnings.simplefilter("ignore")
            Model(epsilon=1.0, delta=1e-6, bounds=bounds, random_state=1).fit(X, y, sites)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    line = {"name": f"{name}, fit", "wall": clock, "processor": processor, "peak": peak(), "beyond": (peak() - before) / given}
    print(json.dumps(line), flush=True)


def main():
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000
    if len(sys.argv) > 1 and sys.argv[1] != "all":
        return measured(sys.argv[1], rows)
    for name in ("scikit-learn", "array", "frame"):
        subprocess.run([sys.executable, __file__, name, str(rows)], check=True)


if __name__ == "__main__":
    main()
