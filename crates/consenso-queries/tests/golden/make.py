"""Makes golden.json: records and what textbook formulas say of them, by numpy alone.

    python3 make.py > golden.json

Kaplan-Meier, log-rank, Pearson's chi-squared, Mann-Whitney, restricted means and Pearson's correlation are written out
here from their definitions on single records; the crate works on binned sums and shares no code with this.
"""

import json

import numpy as np

rng = np.random.default_rng(32)
n = 3000
arm = rng.integers(0, 2, n)
sex = (rng.random(n) < 0.4 + 0.1 * arm).astype(int)
age = np.clip(rng.normal(50 + 4 * sex, 15, n), 0, 100)
death = rng.exponential(np.where(arm == 1, 9.0, 5.0))
end = rng.uniform(0, 10, n)
time, dead = np.minimum(death, end), (death <= end).astype(int)
score = np.clip(0.4 + 0.15 * dead + rng.normal(0, 0.15, n), 0, 1)


def kaplan_meier(t, d, at):
    s = 1.0
    for u in np.unique(t[(d == 1) & (t <= at)]):
        s *= 1 - ((t == u) & (d == 1)).sum() / (t >= u).sum()
    return s


def restricted(t, d, horizon):
    area, s, last = 0.0, 1.0, 0.0
    for u in np.unique(t[(d == 1) & (t <= horizon)]):
        area += s * (u - last)
        s *= 1 - ((t == u) & (d == 1)).sum() / (t >= u).sum()
        last = u
    return area + s * (horizon - last)


def log_rank(t, d, g):
    o = e = v = 0.0
    for u in np.unique(t[d == 1]):
        risk, risk1 = (t >= u).sum(), ((t >= u) & (g == 0)).sum()
        events = ((t == u) & (d == 1)).sum()
        o += ((t == u) & (d == 1) & (g == 0)).sum()
        e += events * risk1 / risk
        if risk > 1:
            v += events * risk1 / risk * (1 - risk1 / risk) * (risk - events) / (risk - 1)
    return (o - e) ** 2 / v


def chi_squared(a, b):
    table = np.array([[((a == i) & (b == j)).sum() for j in range(2)] for i in range(2)], float)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / table.sum()
    return ((table - expected) ** 2 / expected).sum()


positive, negative = score[dead == 1], score[dead == 0]
wins = (positive[:, None] > negative[None, :]).mean() + 0.5 * (positive[:, None] == negative[None, :]).mean()
spread = lambda x: x.std()
by_sex = [age[sex == s] for s in (0, 1)]
print(
    json.dumps(
        {
            "records": [[round(float(a), 6), round(float(t), 6), round(float(c), 6), int(s), int(g), int(d)] for a, t, c, s, g, d in zip(age, time, score, sex, arm, dead)],
            "mean": [float(x.mean()) for x in by_sex],
            "sd": [float(spread(x)) for x in by_sex],
            "difference": float((by_sex[0].mean() - by_sex[1].mean()) / np.sqrt((by_sex[0].var() + by_sex[1].var()) / 2)),
            "quartiles": [float(q) for q in np.quantile(age, [0.25, 0.5, 0.75], method="inverted_cdf")],
            "survival": [[kaplan_meier(time[arm == g], dead[arm == g], t) for t in (2.5, 5.0, 7.5)] for g in (0, 1)],
            "restricted": [restricted(time[arm == g], dead[arm == g], 7.5) for g in (0, 1)],
            "log_rank": log_rank(time, dead, arm),
            "chi_squared": chi_squared(sex, arm),
            "auc": float(wins),
            "correlation": float(np.corrcoef(age, score)[0, 1]),
        }
    )
)
