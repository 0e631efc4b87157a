"""Golden values of exact noise: (words of the stream, y, width, scale, grid) -> grid integers.

    python noise.py > noise.json          (needs mpmath; deterministic)

Written from the definition in the rustdoc of `consenso::gate::exact`, not from the Rust code: at 700 bits, both ends of what
the drawn bits leave open are evaluated with mpmath's log, sin, cos and sqrt; where they differ, more words are consumed.
f64 values are stored as their 64 bits, so that no decimal conversion stands between the two programs.
"""

import json
import random
import struct

from mpmath import cos, floor, log, mp, mpf, pi, sin, sqrt

mp.prec = 700
rng = random.Random(20240917)
BATCH = 16


def bits_of(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


class Uniform:
    """A uniform real of which the first bits are known."""

    def __init__(self, value, length):
        self.value, self.length = value, length

    def extend(self, word):
        self.value, self.length = (self.value << 64) | word, self.length + 64

    def ends(self):
        scale = mpf(2) ** -self.length
        return mpf(self.value) * scale, mpf(self.value + 1) * scale


def hull(values):
    return min(values), max(values)


def laplace(radius, word):
    low, high = radius.ends()
    if low == 0:
        return None
    sign = -1 if word & 1 else 1
    return [hull([sign * -log(low), sign * -log(high)])]


def gaussian(radius, angle, word):
    low, high = radius.ends()
    if low == 0:
        return None
    r = [sqrt(-2 * log(low)), sqrt(-2 * log(high))]
    theta = [(v - mpf(1) / 2) * pi / 2 for v in angle.ends()]
    sign = -1 if word >> 63 else 1
    # cosine is not monotone across zero, but bits decide the sign of theta from the first one on
    pair = [[cos(t) for t in theta], [sin(t) for t in theta]]
    if word >> 62 & 1:
        pair.reverse()
    return [hull([sign * a * b for a in r for b in c]) for c in pair]


def steps(y, width, uniform, scale, noise, exponent):
    gamma = mpf(2) ** exponent
    ends = uniform.ends() if uniform else (mpf(0), mpf(0))
    low, high = (
        floor((mpf(y) + mpf(width) * u + mpf(scale) * n) / gamma + mpf(1) / 2) for u, n in zip(ends, noise)
    )
    return int(low) if low == high else None


def release(kind, scale, exponent, y, width, words):
    """The released integers and how many words they took."""
    words = iter(words)
    taken = 0

    def take():
        nonlocal taken
        taken += 1
        return next(words)

    out = []
    for start in range(0, len(y), BATCH):
        ys = y[start : start + BATCH]
        n = len(ys)
        pairs = (n + 1) // 2
        if kind == "laplace":
            groups = [[i] for i in range(n)]
            first = [(take(),) for _ in range(n)]
        else:
            groups = [[j, j + pairs] if j + pairs < n else [j] for j in range(pairs)]
            radii = [take() for _ in range(pairs)]
            first = list(zip(radii, [take() for _ in range(pairs)]))
        ws = width[start : start + BATCH] if width else [0.0] * n
        uniforms = [Uniform(take(), 64) if width else None for _ in range(n)]
        batch = [None] * n
        for group, word in zip(groups, first):
            radius = Uniform(word[0] >> 1, 63)
            angle = Uniform(word[1] & (2**62 - 1), 62) if len(word) == 2 else None
            while True:
                noise = laplace(radius, word[0]) if angle is None else gaussian(radius, angle, word[1])
                if noise:
                    for i, part in zip(group, noise):
                        if batch[i] is None:
                            batch[i] = steps(ys[i], ws[i], uniforms[i], scale, part, exponent)
                open_ = [i for i in group if batch[i] is None]
                if not open_:
                    break
                radius.extend(take())
                if angle:
                    angle.extend(take())
                for i in open_:
                    if uniforms[i]:
                        uniforms[i].extend(take())
        out += batch
    return out, taken


def case(kind, scale, exponent, y, width, words, why):
    q, taken = release(kind, scale, exponent, y, width, words)
    return {
        "why": why,
        "kind": kind,
        "scale": bits_of(scale),
        "exponent": exponent,
        "y": [bits_of(v) for v in y],
        "width": [bits_of(v) for v in width],
        "words": words[:taken],
        "q": q,
    }


def word():
    return rng.getrandbits(64)


def grid(scale):
    return int(floor(log(mpf(scale), 2))) - 10


def ordinary(kind):
    for scale in [0.7, 3e-5, 1e12, 1.0]:
        for n in [1, 2, 7, 17, 35]:
            for wide in [False, True]:
                y = [rng.gauss(0, 1) * scale * 10 for _ in range(n)]
                width = [rng.choice([0.0, rng.random() * scale, 30 * scale]) for _ in range(n)] if wide else []
                words = [word() for _ in range(4 * n + 40)]
                yield case(kind, scale, grid(scale), y, width, words, "ordinary")


def tails(kind):
    """First words with many leading zeros, or (near one) many leading ones."""
    for zeros in [20, 22, 23, 24, 25, 40, 62, 63, 64]:
        for flip in [0, 2**64 - 1]:
            first = (word() >> zeros) ^ flip
            words = [first] + [word() for _ in range(20)]
            yield case(kind, 1.0, -10, [0.125], [], words, f"tail {zeros} {'ones' if flip else 'zeros'}")


def near_jumps(kind):
    """y chosen so that the sum is closer to a jump than the fast path, or even the first words, can tell."""
    for i in range(120):
        scale = 1.0
        exponent = rng.choice([-10, -8, -30])
        wide = rng.random() < 0.5
        width = [0.75] if wide else []
        words = [word() for _ in range(40)]
        if kind == "laplace":
            noise = laplace(Uniform(words[0] >> 1, 63), words[0])[0]
        else:
            noise = gaussian(Uniform(words[0] >> 1, 63), Uniform(words[1] & (2**62 - 1), 62), words[1])[0]
        used = 1 if kind == "laplace" else 2
        u = mpf(words[used]) / 2**64 + mpf(2) ** -65 if wide else mpf(0)
        middle = (noise[0] + noise[1]) / 2 * scale + u * (width[0] if wide else 0)
        gamma = mpf(2) ** exponent
        # A jump close to the sum, so that y is small and its last bit far below the width of the unknown.
        jump = floor(middle / gamma) * gamma + gamma / 2
        y = float(jump - middle)
        yield case(kind, scale, exponent, [y], width, words, "near a jump")


cases = [c for kind in ["laplace", "gaussian"] for source in [ordinary, tails, near_jumps] for c in source(kind)]
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
