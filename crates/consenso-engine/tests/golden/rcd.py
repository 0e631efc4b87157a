"""Golden (ε, δ) of coordinate descent: c uses of the busiest coordinate are √c·μ-GDP, μ = η·B^c/σ, B^c = 2·L·R₂/b.

    python rcd.py > rcd.json          (any Python 3 with mpmath)

δ(ε) = Φ(√c·μ/2 − ε/(√c·μ)) − e^ε·Φ(−√c·μ/2 − ε/(√c·μ)) is inverted with 40 digits.
"""

import json

import mpmath as mp

mp.mp.dps = 40


def epsilon(mu, delta):
    profile = lambda e: mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) - delta
    low, high = mp.mpf(0), mu * mu + 20 * mu + 1
    assert profile(low) > 0 > profile(high)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > 0 else (low, middle)
    return high


def main():
    cases = []
    for records, slope, step, sigma, delta in [(50, 1, "0.8", "0.2", "1e-6"), (30, "0.5", "3.2", "0.4", "1e-5")]:
        bound = 2 * mp.mpf(slope) / records
        mu = mp.mpf(step) * bound / mp.mpf(sigma)
        uses = {str(c): float(epsilon(mp.sqrt(c) * mu, mp.mpf(delta))) for c in range(1, 25)}
        cases.append({"records": records, "slope": float(slope), "step": float(step), "sigma": float(sigma),
                      "delta": float(delta), "mu_of_one": float(mu), "epsilon_by_uses": uses})
    print(json.dumps(cases, indent=1))


main()
