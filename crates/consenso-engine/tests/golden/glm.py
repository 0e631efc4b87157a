#!/usr/bin/env python3
"""Makes glm.json: made-up records and what statsmodels says of them. Shares no code with Consenso.

    pip install numpy statsmodels==0.15.0 && python3 glm.py > glm.json

Estimates are maximum-likelihood; standard errors are HC0 (robust); `model_errors` those of the information. Columns: age, dose, ward (reference a), sex (reference f)."""
import json
import numpy as np
import statsmodels.api as sm

rng = np.random.default_rng(30)
n = 600
age = np.round(rng.uniform(20, 90, n), 1)
dose = np.round(rng.normal(0.6, 0.5, n).clip(-1, 3), 3)
ward = rng.choice(3, n, p=[0.5, 0.3, 0.2])
sex = rng.integers(0, 2, n)
exposure = np.round(rng.uniform(0.5, 4, n), 2)
X = np.column_stack([age, dose, ward == 1, ward == 2, sex, np.ones(n)]).astype(float)
eta = 0.02 * (age - 50) + 0.5 * dose - 0.4 * (ward == 1) + 0.3 * (ward == 2) + 0.25 * sex
labels = {
    "logistic": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
    "probit": (rng.random(n) < 0.5 * (1 + np.vectorize(__import__("math").erf)(0.7 * eta))).astype(int),
    "ridge": np.round(eta + rng.normal(0, 0.8, n), 4),
    "poisson": rng.poisson(np.exp(0.5 * eta + 0.3)),
    "exposure": rng.poisson(exposure * np.exp(0.5 * eta - 0.2)),
    "negative-binomial": rng.poisson(np.exp(0.5 * eta + 0.3) * rng.gamma(2.0, 0.5, n)),
    "gamma": np.round(np.exp(0.5 * eta + 1) * rng.gamma(3.0, 1 / 3, n), 4).clip(0.01),
}
F = sm.families
family = {
    "logistic": F.Binomial(), "probit": F.Binomial(F.links.Probit()), "ridge": F.Gaussian(), "poisson": F.Poisson(),
    "exposure": F.Poisson(), "negative-binomial": F.NegativeBinomial(alpha=0.5), "gamma": F.Gamma(F.links.Log()),
}
out = {"age": age.tolist(), "dose": dose.tolist(), "ward": ["abc"[w] for w in ward], "sex": ["fm"[s] for s in sex], "exposure": exposure.tolist(),
       "names": ["age", "dose", "ward=b", "ward=c", "sex=m", "bias"], "fits": {}}
for name, y in labels.items():
    more = {"exposure": exposure} if name == "exposure" else {}
    fit = sm.GLM(y, X, family=family[name], **more).fit(cov_type="HC0", tol=1e-12, maxiter=200)
    plain = sm.GLM(y, X, family=family[name], **more).fit(tol=1e-12, maxiter=200)
    out["fits"][name] = {"labels": np.asarray(y).tolist(), "estimates": fit.params.tolist(), "errors": fit.bse.tolist(), "model_errors": plain.bse.tolist(), "deviance": fit.deviance / n}
print(json.dumps(out))
