"""Reference values for the interval mixtures, to 30 digits and more, from the definitions only.

    python mixture.py points  > mixture_points.csv    # 10^4 log densities and realised losses
    python mixture.py costs   > mixture_costs.csv     # gamma (exact, printed, bound) and Renyi costs
    python mixture.py gauss   > mixture_gauss.csv     # the same costs with Gaussian noise

Needs mpmath. Nothing here shares a formula with the library: densities are the textbook ones at high
precision, divergences are the integral of p^a q^(1-a), gamma is E[max over t = +s, -s].
"""
import random
import sys

from mpmath import mp, mpf, exp, log, quad, erfc, erf, sqrt, fabs, inf, pi

mp.dps = 110


def short(x):
    return float("%.6g" % x)


def text(x, digits=18):
    return mp.nstr(x, digits, min_fixed=0, max_fixed=0)


def density(omega, beta, x):
    """U[0, omega] + Laplace of rate beta."""
    if omega == 0:
        return beta / 2 * exp(-beta * fabs(x))
    if x < 0:
        return exp(beta * x) * (1 - exp(-beta * omega)) / (2 * omega)
    if x > omega:
        return density(omega, beta, omega - x)
    return (2 - exp(-beta * x) - exp(-beta * (omega - x))) / (2 * omega)


def loss(omega, beta, s, x):
    at = log(density(omega, beta, x))
    return max(fabs(at - log(density(omega, beta, x - t))) for t in (s, -s))


def log_uniform(rng, low, high):
    return short(10 ** rng.uniform(low, high))


def points(count=10_000):
    rng = random.Random(20240601)
    print("omega,beta,shift,x,log_density,loss")
    for k in range(count):
        beta = log_uniform(rng, -2, 3)
        omega = 0.0 if k % 50 == 0 else short(log_uniform(rng, -9, 6 if k % 3 else 1) / beta)
        s = short(log_uniform(rng, -9, 1) / beta)
        kind = k % 5
        if kind == 0:  # outside
            x = -log_uniform(rng, -6, 1.5) / beta if rng.random() < 0.5 else omega + log_uniform(rng, -6, 1.5) / beta
        elif kind == 1:  # about one shift from an end
            x = s * rng.uniform(0, 3) if rng.random() < 0.5 else omega - s * rng.uniform(0, 3)
        else:  # anywhere inside, at most 60 noise scales from an end
            r = min(omega / 2, 60 / beta) * (rng.random() if kind < 4 else log_uniform(rng, -6, 0))
            x = r if rng.random() < 0.5 else omega - r
        x = short(x)
        o, b, t, y = map(mpf, (omega, beta, s, x))
        print(",".join(map(repr, (omega, beta, s, x))), text(log(density(o, b, y))), text(loss(o, b, t, y)), sep=",")


def graded(start, end, step):
    """Break points doubling away from both ends."""
    cuts, d = [start], step
    while 2 * d < end - start:
        cuts += [start + d, end - d]
        d *= 2
    return sorted(set(cuts + [end]))


def pieces(f, cuts, step):
    total, size = mpf(0), mpf(0)
    for a, b in zip(cuts, cuts[1:]):
        if b > a:
            value, error = quad(f, graded(a, b, step), error=True, method="gauss-legendre")
            total += value
            size += error
    assert size < mpf(10) ** -42 * (fabs(total) + 1), (size, total)
    return total


def gammas(u, v):
    """Noise scale 1: E[loss]/v, the printed closed form, the Jensen bound."""
    p = lambda x: density(u, mpf(1), x)
    cuts = sorted({mpf(0), min(v, u / 2), u / 2})
    outside = p(mpf(0))  # mass of one tail: e^x from p(0)
    rise = lambda x: log(p(x)) - log(p(x - v))
    step = min(mpf(1) / 2, u / 4)
    exact = 2 * (outside * v + pieces(lambda x: p(x) * rise(x), cuts, step)) / v
    bound = log(2 * (outside * exp(v) + pieces(lambda x: p(x) * exp(rise(x)), cuts, step))) / v
    if u <= v:
        return exact, None, bound
    half = (u - v) / 2
    mass = pieces(p, [mpf(0), half], step)
    moved = pieces(p, [v, v + half], step)
    return exact, log(exp(v) * (1 - 2 * mass) + 2 * moved) / v, bound


def renyi(u, v, a):
    p = lambda x: density(u, mpf(1), x)
    f = lambda x: exp(a * log(p(x)) + (1 - a) * log(p(x - v)))
    cuts = sorted({mpf(0), v, u, u + v})
    tails = (p(mpf(0)) if u else mpf(1) / 2)
    total = tails * (exp((a - 1) * v) + exp(-a * v))
    # The peak at an end is as narrow as 1/sqrt(a) (or 1/a where both arguments are outside).
    step = min(mpf(1) / 2, 1 / sqrt(a), 1 / a if v > u else mpf(1))
    return log(total + pieces(f, cuts, step)) / (a - 1)


def pairs(rng, count):
    for k in range(count):
        u = log_uniform(rng, -6, 6) if k % 2 else log_uniform(rng, -1.5, 1.5)
        v = log_uniform(rng, -9, 1) if k % 3 else log_uniform(rng, -3, 0)
        yield u, v


def costs():
    rng = random.Random(20240602)
    mp.dps = 60
    print("u,v,order,gamma,printed,bound,renyi")
    fixed = [(1.0, 0.1), (1.0, 0.002), (10.0, 0.01), (1.2, 0.001), (5.0, 0.5), (0.0, 0.1), (0.0, 10.0),
             (1e6, 10.0), (1e6, 1e-9), (1e-6, 1e-9), (1e-6, 10.0)]
    for index, (u, v) in enumerate(fixed + list(pairs(rng, 289))):
        a = 1 + log_uniform(rng, -4, 4) if index % 2 else 1 + log_uniform(rng, -1, 2)
        a = short(a) if a > 1.001 else a
        uu, vv = mpf(u), mpf(v)
        g = gammas(uu, vv) if u else (mpf(1), None, mpf(1))
        row = [text(x) if x is not None else "" for x in (*g, renyi(uu, vv, mpf(a)))]
        print(repr(u), repr(v), repr(a), *row, sep=",", flush=True)


def gauss_density(u, x):
    if u == 0:
        return exp(-x * x / 2) / sqrt(2 * pi)
    root = sqrt(mpf(2))
    if x > u / 2:
        x = u - x
    if x < 0:
        return (erfc(-x / root) - erfc((u - x) / root)) / (2 * u)
    return (erf(x / root) + erf((u - x) / root)) / (2 * u)


def gauss():
    """Noise N(0,1): log density and loss at x, Renyi cost and Fisher information."""
    rng = random.Random(20240603)
    mp.dps = 45
    print("u,v,order,x,log_density,loss,renyi,fisher")
    for index in range(60):
        u = log_uniform(rng, -3, 1.5) if index % 3 else log_uniform(rng, 1, 3)
        v = log_uniform(rng, -6, 0.5)
        a = short(1 + log_uniform(rng, -2, 1.5))
        if index % 4 == 0:
            a = short(1 + log_uniform(rng, 0, 3))
            v = short(v / 10)
        # Within 8 deviations of an end: deeper inside, no reasonable precision resolves the loss.
        x = short(rng.choice([-1, 1]) * rng.uniform(-6, min(8, u / 2)) + rng.choice([0, u]))
        uu, vv, aa, xx = map(mpf, (u, v, a, x))
        p = lambda y: gauss_density(uu, y)
        mp.dps = 110
        l = max(fabs(log(p(xx)) - log(p(xx - t))) for t in (vv, -vv))
        f = lambda y: exp(aa * log(p(y)) + (1 - aa) * log(p(y - vv)))
        reach = aa * vv + 12
        inner = [mpf(c) for c in ([0, u] if u < 60 else [0, 30, u - 30, u])]
        lows = [inner[0] - reach + reach * k / 6 for k in range(6)]
        highs = [inner[-1] + reach * k / 6 for k in range(1, 7)]
        grid = []
        cuts = lows + inner + highs
        for lo, hi in zip(cuts, cuts[1:]):
            n = max(1, int((hi - lo) / 4)) if hi - lo < 100 else 1
            grid += [lo + (hi - lo) * k / n for k in range(n)]
        grid.append(cuts[-1])
        mp.dps = 45 + int(reach * reach / 4.6)  # erf differences in the far tail
        total, error = quad(f, grid, error=True, method="gauss-legendre", maxdegree=5)
        assert error < mpf(10) ** -20 * total, (u, v, a, error)
        slope = lambda y: (exp(-y * y / 2) - exp(-(uu - y) ** 2 / 2)) / sqrt(2 * pi) / uu
        info, error = quad(lambda y: slope(y) ** 2 / p(y), grid, error=True, method="gauss-legendre", maxdegree=5)
        mp.dps = 45
        row = (log(p(xx)), l, log(total) / (aa - 1), info)
        print(repr(u), repr(v), repr(a), repr(x), *map(text, row), sep=",", flush=True)


if __name__ == "__main__":
    {"points": points, "costs": costs, "gauss": gauss}[sys.argv[1]]()
