"""Golden distances of a sum of rounded Gaussians from what it is compared with, in 40 digits.

    python distributed_noise.py > distributed_noise.json

q_j = floor(a_j + s Z_j + 1/2), Q = sum of m of them, by direct convolution of their probabilities. `function_of_sum` is the total variation
distance from floor(S + U_1 + ... + U_{m-1} + 1/2), S = sum a_j + s sqrt(m) Z, whose probabilities come from inverting the characteristic function
exp(i A t - m s^2 t^2 / 2) sinc(t/2)^m; `rounded_sum` is that from floor(S + 1/2), which falls as 1/s^2 only.
"""

import json

import mpmath as mp

mp.mp.dps = 40
HALF = mp.mpf(1) / 2
SHIFTS = [mp.mpf(x) for x in ("0.13", "0.41", "-0.27", "0.5", "0.02")]


def cell(k, mean, deviation):
    return mp.ncdf((k + HALF - mean) / deviation) - mp.ncdf((k - HALF - mean) / deviation)


def convolved(shifts, s, reach):
    total = {0: mp.mpf(1)}
    for a in shifts:
        one = {k: cell(k, a, s) for k in range(-reach, reach + 1)}
        more = {}
        for i, p in total.items():
            for k, other in one.items():
                more[i + k] = more.get(i + k, mp.mpf(0)) + p * other
        total = more
    return total


def case(m, s):
    s, shifts = mp.mpf(s), SHIFTS[:m]
    whole, wide = sum(shifts), s * mp.sqrt(m)
    reach = int(12 * s) + 3
    q = convolved(shifts, s, reach)

    def inverted(k):
        f = lambda t: mp.cos((whole - k) * t) * mp.exp(-m * s * s * t * t / 2) * mp.sinc(t / 2) ** m
        return mp.quad(f, mp.linspace(0, 14 / wide, 30)) / mp.pi

    keys = range(-m * reach, m * reach + 1)
    distance = lambda other: float(sum(abs(q[k] - other(k)) for k in keys) / 2)
    return {
        "m": m,
        "s": float(s),
        "function_of_sum": distance(inverted),
        "rounded_sum": distance(lambda k: cell(k, whole, wide)),
    }


cases = [(2, "0.4"), (2, "0.6"), (2, "1"), (2, "1.4"), (3, "0.5"), (3, "0.8"), (4, "0.5"), (4, "0.7"), (5, "0.5")]
print(json.dumps([case(m, s) for m, s in cases], indent=1))
