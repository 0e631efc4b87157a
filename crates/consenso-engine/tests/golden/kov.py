"""Golden (ε, δ) of Kairouz–Oh–Viswanath composition in exact rational arithmetic.

    python kov.py > kov.json

Homogeneous: δ(ε) = Σ_l C(k,l) (e^{(k−l)ε₀} − e^{ε + l ε₀})₊ / (1 + e^{ε₀})^k, with E = e^{ε₀} and F = e^ε taken as the
exact rational values of 40-digit decimals; δ is exact for those, so each case is (ε₀, k, δ) ↦ ε to about 1e-15.
Numerators over one common denominator keep the integers free of greatest common divisors.
Heterogeneous: the same sum over all subsets, for a few mechanisms.
"""

import json
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import product
from math import comb

getcontext().prec = 40


def exp(x):
    return Fraction(x.exp())


def homogeneous(epsilon0, k, epsilon):
    scale = 10**40
    e, f = (int(exp(Decimal(x)) * scale) for x in (epsilon0, epsilon))
    # powers[l] = (e/scale)^l as a numerator over scale^k
    powers = [scale**k]
    for _ in range(k):
        powers.append(powers[-1] // scale * e)  # exact: scale divides powers[l] for l < k
    total = sum(comb(k, l) * max(powers[k - l] * scale - f * powers[l], 0) for l in range(k + 1))
    return total / (scale * (scale + e) ** k)


def heterogeneous(epsilons, epsilon):
    es, f = [exp(Decimal(x)) for x in epsilons], exp(Decimal(epsilon))
    total, norm = Fraction(0), Fraction(1)
    for e in es:
        norm *= 1 + e
    for answers in product([0, 1], repeat=len(es)):
        p = q = Fraction(1)
        for e, truthful in zip(es, answers):
            p *= e if truthful else 1
            q *= 1 if truthful else e
        total += max(p - f * q, 0)
    return float(total / norm)


out = []
for epsilon0, k, epsilon in [
    (0.01, 1400, 1.6395), (0.01, 1400, 0.5), (0.1, 100, 4.0), (0.1, 101, 3.05), (1.0, 1, 0.25), (1.0, 2, 1.5),
    (0.5, 30, 9.7), (2.0, 12, 17.0), (0.001, 500, 0.11), (0.03, 10, 0.2999),
]:
    events = [{"mechanism": "pure", "epsilon": epsilon0, "count": k}]
    out.append({"events": events, "epsilon": epsilon, "delta": homogeneous(epsilon0, k, epsilon)})
for epsilons, epsilon in [
    ([0.1, 0.2], 0.15), ([0.7, 0.31, 0.123], 0.9), ([0.02 * i for i in range(1, 13)], 1.1),
    ([0.5, 0.25, 0.125, 0.0625, 0.3, 0.3, 0.2, 0.1], 1.45),
]:
    events = [{"mechanism": "pure", "epsilon": e, "count": 1} for e in epsilons]
    out.append({"events": events, "epsilon": epsilon, "delta": heterogeneous(epsilons, epsilon)})
print(json.dumps(out, indent=1))
