#!/usr/bin/env python3
"""Makes intervals.json: in which interval the label of a record lies, by statsmodels and scipy. Shares no code with Consenso.

    pip install numpy scipy statsmodels==0.15.0 && python3 intervals.py > intervals.json

`fits`: of the records of glm.json, the first 20, with the robust covariance of statsmodels' fit. `laws`: for a margin and its deviation.
An interval's ends are quantiles of the label's law mixed over the margin's normal error: for counts the smallest that reach (1 - level)/2
and (1 + level)/2."""
import json
import pathlib

import numpy as np
import statsmodels.api as sm
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq


def cdf(law, parameter, margin, deviation, y):
    def at(m):
        mean = np.exp(m)
        if law == "poisson":
            return stats.poisson.cdf(y, mean)
        if law == "negative-binomial":
            return stats.nbinom.cdf(y, 1 / parameter, 1 / (1 + parameter * mean))
        return stats.gamma.cdf(y, parameter, scale=mean / parameter)

    if deviation == 0:
        return at(margin)
    return quad(lambda t: at(margin + deviation * t) * stats.norm.pdf(t), -8, 8, epsabs=1e-10, limit=400, points=[-2, 0, 2])[0]


def quantile(law, parameter, margin, deviation, p):
    def below(y):
        return cdf(law, parameter, margin, deviation, y)

    if law == "gamma":
        return brentq(lambda y: below(y) - p, 1e-12, 1e4 * np.exp(margin), xtol=1e-12)
    y = 0
    while below(y) < p:
        y += 1
    return float(y)


def interval(law, parameter, margin, deviation, level):
    return [quantile(law, parameter, margin, deviation, p) for p in (0.5 - level / 2, 0.5 + level / 2)]


glm = json.loads((pathlib.Path(__file__).parent / "glm.json").read_text())
ward, sex = np.array(glm["ward"]), np.array(glm["sex"])
X = np.column_stack([glm["age"], glm["dose"], ward == "b", ward == "c", sex == "m", np.ones(len(ward))]).astype(float)
exposure = np.array(glm["exposure"])
F, out = sm.families, {"level": 0.9, "fits": {}, "laws": []}
for name, family, parameter in [
    ("poisson", F.Poisson(), 0), ("exposure", F.Poisson(), 0), ("negative-binomial", F.NegativeBinomial(alpha=0.5), 0.5), ("ridge", F.Gaussian(), 0),
]:
    y = np.array(glm["fits"][name]["labels"])
    more = {"exposure": exposure} if name == "exposure" else {}
    fit = sm.GLM(y, X, family=family, **more).fit(cov_type="HC0", tol=1e-12, maxiter=200)
    rows = []
    for i in range(20):
        margin = X[i] @ fit.params + (np.log(exposure[i]) if more else 0)
        deviation = np.sqrt(X[i] @ fit.cov_params() @ X[i])
        if name == "ridge":
            half = stats.norm.ppf(0.95) * np.hypot(np.sqrt(np.mean((y - X @ fit.params) ** 2)), deviation)
            rows.append([margin - half, margin + half])
        else:
            rows.append(interval("poisson" if more else name, parameter, margin, deviation, 0.9))
    out["fits"][name] = rows
for law, parameter in [("poisson", 0), ("negative-binomial", 0.02), ("negative-binomial", 2.5), ("gamma", 0.6), ("gamma", 4.0)]:
    for margin in [-2.0, 0.3, 4.0]:
        for deviation in [0.0, 0.1, 0.7]:
            ends = interval(law, parameter, margin, deviation, 0.9)
            out["laws"].append({"law": law, "parameter": parameter, "margin": margin, "deviation": deviation, "ends": ends})
print(json.dumps(out))
