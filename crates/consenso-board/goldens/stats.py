"""Writes stats.json: critical values and Friedman's test as scipy computes them.

    pip install scipy && python stats.py > stats.json
"""

import json

import numpy as np
from scipy.stats import friedmanchisquare, studentized_range

rng = np.random.default_rng(7)
blocks = [
    rng.normal(size=(12, 4)) + [0.0, 0.3, 0.6, 2.0],
    rng.normal(size=(30, 7)) + 0.4 * np.arange(7),
    # With ties within blocks.
    rng.integers(0, 3, size=(9, 5)).astype(float),
]


def friedman(rows):
    chi2, p = friedmanchisquare(*rows.T)
    return {"blocks": rows.tolist(), "chi2": chi2, "p": p}


print(json.dumps({
    "studentized_range": [{"k": k, "q": float(studentized_range.ppf(0.95, k, np.inf))} for k in range(2, 31)],
    "friedman": [friedman(rows) for rows in blocks],
}))
