#!/usr/bin/env python3
"""Makes mixed.json: made-up records of sites that differ, and what statsmodels says of them. Shares no code with Consenso.

    pip install numpy statsmodels==0.15.0 && python3 mixed.py > mixed.json

`estimates` are least squares; `errors` are clustered by site, N/(N - 1) times (sites are a sample); `between` the standard deviations of a mixed model
(REML, MixedLM) with a random intercept and random slopes, `fixed` its coefficients. Columns: age, dose, intercept."""
import json
import numpy as np
import statsmodels.api as sm

rng = np.random.default_rng(5)
sites, each = 24, 80
n = sites * each
site = np.repeat(np.arange(sites), each)
age = np.round(rng.uniform(20, 90, n), 1)
dose = np.round(rng.normal(0.6, 0.5, n).clip(-1, 3), 3)
u = rng.normal(0, 1, (sites, 3)) * [0.03, 1.0, 0.8]
X = np.column_stack([age, dose, np.ones(n)])
y = np.round((X * (np.array([0.02, 0.5, -1.0]) + u[site])).sum(1) + rng.normal(0, 0.3, n), 4)
assert abs(y).max() < 20
fit = sm.OLS(y, X).fit()
scores = X * fit.resid[:, None]
sums = np.array([scores[site == s].sum(0) for s in range(sites)])
bread = np.linalg.inv(X.T @ X)
cluster = sm.OLS(y, X).fit(cov_type="cluster", cov_kwds={"groups": site, "use_correction": False})
own = np.sqrt(np.diag(bread @ (sums.T @ sums) @ bread))
assert np.allclose(own, cluster.bse)
# Sites differ in every direction beyond chance, so that nothing is cut off.
assert np.linalg.eigvalsh(sums.T @ sums * sites / (sites - 1) - scores.T @ scores).min() > 0
mixed = sm.MixedLM(y, X, groups=site, exog_re=X).fit(reml=True, method=["lbfgs", "powell"])
print(json.dumps({
    "site": site.tolist(), "age": age.tolist(), "dose": dose.tolist(), "y": y.tolist(), "names": ["age", "dose", "bias"],
    "estimates": fit.params.tolist(), "errors": (cluster.bse * np.sqrt(sites / (sites - 1))).tolist(),
    "between": np.sqrt(np.diag(mixed.cov_re)).tolist(), "fixed": mixed.fe_params.tolist(), "fixed_errors": mixed.bse_fe.tolist(),
}))
