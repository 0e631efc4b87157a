#!/usr/bin/env python3
"""Makes stratified.json from survival.json: hazards whose baseline is another at every site, by pairs of records. Shares no code with Consenso.

    pip install numpy pandas statsmodels==0.15.0 && python3 stratified.py < survival.json > stratified.json

Site of record j is j mod 3. Places of a site are ordered by splitmix64 of their number plus one, and every two that follow each other are a
pair; `estimates` are statsmodels' Logit without an intercept of whoever came first less the other, `errors` its HC0 errors. `cox` is
statsmodels' partial likelihood with a stratum per site, which uses every pair: estimates lie around it."""
import json
import sys
import numpy as np
import statsmodels.api as sm

data = json.load(sys.stdin)
ward, sex = np.array(data["ward"]), np.array(data["sex"])
X = np.column_stack([data["age"], data["dose"], ward == "b", ward == "c", sex == "m"]).astype(float)
time, event = np.array(data["time"]), np.array(data["event"])
n, mask = len(time), (1 << 64) - 1


def mixed(place):
    x = ((place + 1) * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


rows = []
for site in range(3):
    own = np.arange(n)[np.arange(n) % 3 == site]
    order = sorted(range(len(own)), key=mixed)
    for a, b in zip(order[0 : len(own) // 2 * 2 : 2], order[1::2]):
        first, other = (own[a], own[b]) if time[own[a]] < time[own[b]] else (own[b], own[a])
        assert time[first] < time[other] or time[first] == data["longest"]
        if event[first] and time[first] < time[other]:
            rows.append(X[first] - X[other])
rows = np.array(rows)
sign = np.where(np.arange(len(rows)) % 2 == 0, 1.0, -1.0)
fit = sm.Logit(sign > 0, rows * sign[:, None]).fit(tol=1e-14, maxiter=100, disp=False, cov_type="HC0")
cox = sm.PHReg(time, X, status=event, strata=np.arange(n) % 3).fit()
assert np.all(np.abs(fit.params - cox.params) < 4 * fit.bse)
print(json.dumps({
    "names": data["names"], "pairs": len(rows), "estimates": fit.params.tolist(), "errors": fit.bse.tolist(),
    "cox": cox.params.tolist(), "cox_errors": cox.bse.tolist(),
}))
