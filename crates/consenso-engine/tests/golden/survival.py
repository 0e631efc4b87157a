#!/usr/bin/env python3
"""Makes survival.json: made-up times until an event and ordered classes, and what lifelines and statsmodels say of them. Shares no code
with Consenso.

    pip install numpy lifelines==0.30.3 statsmodels==0.15.0 && python3 survival.py > survival.json

`cox`: lifelines' partial likelihood. `pieces`: hazards that are constant within each interval, as statsmodels' Poisson model of records
that are split at the intervals' ends, with standard errors that are robust by person. `ordinal`: statsmodels' cumulative logit; its standard
errors are robust (HC0), from scores by complex steps."""
import json
import numpy as np
import pandas as pd
import statsmodels.api as sm
from lifelines import CoxPHFitter
from lifelines.utils import concordance_index
from statsmodels.miscmodels.ordinal_model import OrderedModel

rng = np.random.default_rng(31)
n, longest = 600, 60.0
age = np.round(rng.uniform(20, 90, n), 1)
dose = np.round(rng.normal(0.6, 0.5, n).clip(-1, 3), 3)
ward = rng.choice(3, n, p=[0.5, 0.3, 0.2])
sex = rng.integers(0, 2, n)
names = ["age", "dose", "ward=b", "ward=c", "sex=m"]
X = np.column_stack([age, dose, ward == 1, ward == 2, sex]).astype(float)
eta = 0.02 * (age - 50) + 0.5 * dose - 0.4 * (ward == 1) + 0.3 * (ward == 2) + 0.25 * sex
died = 40 * (rng.exponential(size=n) / np.exp(eta)) ** (1 / 1.2)
lost = np.minimum(longest, rng.exponential(90, n))
time = np.round(np.minimum(died, lost), 6).clip(1e-3)
event = (died <= lost).astype(int)

frame = pd.DataFrame(X, columns=names).assign(T=time, E=event)
cox = CoxPHFitter().fit(frame, "T", "E", fit_options={"precision": 1e-12})

cuts = np.array([5.0, 12.0, 20.0, 32.0, 45.0, 60.0])
starts = np.r_[0, cuts[:-1]]
rows, y, exposure, person = [], [], [], []
for j in range(n):
    for k in range(len(cuts)):
        if time[j] > starts[k]:
            rows.append(np.r_[X[j], np.arange(len(cuts)) == k])
            exposure.append(min(time[j], cuts[k]) - starts[k])
            y.append(float(event[j] and time[j] <= cuts[k]))
            person.append(j)
fit = sm.GLM(np.array(y), np.array(rows), family=sm.families.Poisson(), exposure=np.array(exposure)).fit(
    tol=1e-13, maxiter=200, cov_type="cluster", cov_kwds={"groups": np.array(person), "use_correction": False})

noisy = eta + rng.logistic(size=n)
classes = (noisy > -0.5).astype(int) + (noisy > 0.4) + (noisy > 1.6)
ordered = OrderedModel(classes, X, distr="logit").fit(method="bfgs", gtol=1e-9, maxiter=2000, disp=False)
thresholds = ordered.model.transform_threshold_params(ordered.params)[1:-1]
theta = np.r_[ordered.params[:5], thresholds]


def scores(theta):
    """Derivatives of every record's log-likelihood, by complex steps."""
    out = np.zeros((n, len(theta)))
    for l in range(len(theta)):
        t = theta.astype(complex)
        t[l] += 1e-30j
        below = np.c_[np.zeros(n), 1 / (1 + np.exp(-(t[None, 5:] - (X @ t[:5])[:, None]))), np.ones(n)]
        p = below[np.arange(n), classes + 1] - below[np.arange(n), classes]
        out[:, l] = np.log(p).imag / 1e-30
    return out


for _ in range(3):
    step = 1e-5
    H = np.array([(scores(theta + step * e).sum(0) - scores(theta - step * e).sum(0)) / (2 * step) for e in np.eye(len(theta))])
    theta = theta - np.linalg.solve(H, scores(theta).sum(0))
S = scores(theta)
covariance = np.linalg.inv(H) @ (S.T @ S) @ np.linalg.inv(H)
assert np.abs(theta[:5] - ordered.params[:5]).max() < 1e-4

print(json.dumps({
    "age": age.tolist(), "dose": dose.tolist(), "ward": ["abc"[w] for w in ward], "sex": ["fm"[s] for s in sex],
    "time": time.tolist(), "event": event.tolist(), "class": classes.tolist(), "longest": longest, "names": names, "cuts": cuts.tolist(),
    "cox": cox.params_.tolist(), "c_index": concordance_index(time, -cox.predict_log_partial_hazard(frame).values, event),
    "pieces": {"estimates": fit.params.tolist(), "errors": fit.bse.tolist()},
    "ordinal": {"estimates": theta.tolist(), "errors": np.sqrt(np.diag(covariance)).tolist()},
}))
