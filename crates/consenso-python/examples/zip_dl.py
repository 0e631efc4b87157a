"""Zip-DL on the board, with an account of ours.

    python zip_dl.py                 runs it on the two-class problems of `quick` and writes zip_dl.json
    python zip_dl.py --account       prints what one noise costs by both accounts, and checks ours

Zip-DL (Biswas, Frey, Gaudel, Kermarrec, Lerévérend, Pires, Sharma and Taïani, PETS 2025): after a gradient step agent a sends x + Z_v to
every neighbour v, with Gaussian Z whose weighted sum over its neighbours and itself is zero, so that the mean of all models has no noise.

Who sees all messages of agent a, and leaves the protocol as it likes, knows all but Z_a, the noise that a keeps for itself. What a goes
on with is W_aa (x + Z_a) + Σ_v W_av (what others sent) = x + (a function of messages), for W_aa Z_a = -Σ_v W_av Z_v. So the model before
noise is a deterministic function of the records and of messages; given the same messages, two data sets that differ in one record have
models that are at most δ_t apart, δ_t = c δ_(t-1) + γΔ, where Δ is how far one record moves a gradient and c how far a gradient step
x - γ∇f(x) of a convex function can stretch distances: max(|1 - γm|, |1 - γM|) for γ up to 2/M. A round shows x + Z_v for all v but a
itself, Gaussian with the covariance γ²ς²C, so it is μ_t-GDP with μ_t² = δ_t² 1ᵀC⁻¹1/(γς)², whatever was sent before, and rounds
compose: μ² = Σ_t μ_t². The noise is never mixed into what is kept, so that a record is shown again in every later round: that is the
price of noise that cancels.
"""

import math
import sys

import numpy as np


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def mu_for(epsilon, delta):
    """The largest μ whose GDP curve is below (ε, δ)."""
    spent = lambda mu: phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    low, high = 1e-6, 100.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


def weights(agents, edges):
    """Metropolis weights."""
    degree = np.bincount(np.array(edges).ravel(), minlength=agents)
    w = np.zeros((agents, agents))
    for a, b in edges:
        w[a, b] = w[b, a] = 1 / (1 + max(degree[a], degree[b]))
    return w + np.diag(1 - w.sum(axis=1))


def correlation(w, a):
    """Z = A·Y for the closed neighbourhood of a, itself first: Z_v = Y_v - Σ_j W_aj Y_j/(d W_av)."""
    around = [a] + [v for v in np.flatnonzero(w[a]) if v != a]
    part = w[a, around]
    return around, np.eye(len(part)) - np.outer(1 / (len(part) * part), part)


def shown(w, a):
    """1ᵀC⁻¹1 of what others see in a round, for Y of variance 1."""
    _, mixing = correlation(w, a)
    covariance = (mixing @ mixing.T)[1:, 1:]
    return float(np.linalg.solve(covariance, np.ones(len(covariance))).sum())


def distances(stretch, rounds):
    """δ_t/(γΔ)."""
    found = [1.0]
    for _ in range(rounds - 1):
        found.append(stretch * found[-1] + 1.0)
    return np.array(found)


def needed(w, a, delta_gradient, budget, stretch, rounds):
    """ς of agent a: noise on a gradient that keeps μ over so many rounds."""
    return delta_gradient * math.sqrt(shown(w, a) * np.sum(distances(stretch, rounds) ** 2)) / budget


def zip_dl(task, rounds=30, step=2.0):
    rng, agents = np.random.default_rng(task.seed), len(task.sites)
    sites = [(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0), y) for x, y in task.sites]
    w, dim, m = weights(agents, task.edges), task.test_x.shape[1], task.regularization
    stretch = max(abs(1 - step * m), abs(1 - step * (0.25 + m)))
    noise = np.zeros(agents)
    if task.epsilon is not None:
        budget = mu_for(task.epsilon, task.delta)
        noise = [needed(w, a, 2.0 / len(y), budget, stretch, rounds) for a, (_, y) in enumerate(sites)]
    x = np.zeros((agents, dim))
    for _ in range(rounds):
        half = np.array([z - step * (rows.T @ (-y / (1 + np.exp(y * (rows @ z)))) / len(y) + m * z) for z, (rows, y) in zip(x, sites)])
        x = w @ half
        for a in range(agents):
            around, mixing = correlation(w, a)
            z = mixing @ rng.normal(size=(len(around), dim)) * step * noise[a]
            for v, row in zip(around, z):
                x[v] += w[v, a] * row
    return task.test_x @ x.mean(axis=0), 8 * dim * 2 * len(task.edges) * rounds


def published(w, a, v, gamma, smooth, noise, delta_gradient, delta, rounds):
    """ε of Theorem 5.9 against node v, as we read it, with the largest variances that its denominators can have."""
    agents = len(w)
    place = lambda i, j: i * agents + j
    correlated = np.zeros((agents**2, agents**2))
    for i in range(agents):
        around, mixing = correlation(w, i)
        rows = [place(i, j) for j in around]
        correlated[np.ix_(rows, rows)] = mixing
    send = np.zeros((agents**2, agents**2))
    for i in range(agents):
        for j in range(agents):
            send[place(i, j), place(j, i)] = w[i, j]
    gossip = np.kron(np.eye(agents), np.ones((agents, agents))) @ send
    fresh = gossip @ correlated @ correlated.T @ gossip.T * (gamma * noise) ** 2
    variance, total = np.zeros_like(fresh), 0.0
    neighbours = [u for u in np.flatnonzero(w[v]) if u != v]
    for t in range(rounds):
        for u in neighbours:
            if t > 0:
                total += ((2 + 4 * gamma**2 * smooth) ** t - 1) / variance[place(u, v), place(u, v)]
        variance = gossip @ variance @ gossip.T + fresh
    rho = 2 * gamma**2 * delta_gradient**2 / (smooth + 4 * gamma**2 * smooth**2) * total
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def exact(w, a, stretch, noise, delta_gradient, rounds):
    """μ of a quadratic, from the covariance of all that agent a shows in all rounds: what the account must not be below, and is."""
    step = 1.0
    _, mixing = correlation(w, a)
    d = len(mixing)
    mean, moved, kept = [], 0.0, np.zeros(rounds * d)
    rows = []
    for t in range(rounds):
        moved += step * delta_gradient
        base = kept.copy()
        for v in range(1, d):
            row = base.copy()
            row[t * d : (t + 1) * d] += step * noise * mixing[v]
            rows.append(row)
            mean.append(moved)
        # What the agent keeps: W_aa (x + Z_a), and W_av of what it hears, which tells nothing and is left out.
        own = w[a, a]
        kept = own * kept
        kept[t * d : (t + 1) * d] += own * step * noise * mixing[0]
        moved *= own
        moved, kept = stretch * moved, stretch * kept
    rows, mean = np.array(rows), np.array(mean)
    return math.sqrt(mean @ np.linalg.solve(rows @ rows.T, mean))


def spent(mu, delta):
    """ε of μ-GDP."""
    low, high = 1e-6, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if mu_for(middle, delta) >= mu else (middle, high)
    return high


def account():
    agents, records, rounds, gamma, m, delta = 10, 500, 50, 1.0, 1e-2, 1e-5
    w = weights(agents, [(i, (i + 1) % agents) for i in range(agents)])
    stretch, change = 1 - gamma * m, 2 / records
    noise = needed(w, 0, change, mu_for(1.0, delta), stretch, rounds)
    alone = change * math.sqrt(rounds) / mu_for(1.0, delta)
    print(f"{agents} agents of {records} records on a ring, {rounds} rounds, step 1, regularisation {m}, replaced records, δ = {delta}")
    print(f"ours, against everybody: ε = 1 at ς = {noise:.3f}; noise that does not cancel needs {alone:.4f}, {noise / alone:.0f} times less")
    for theirs in (1, 2, 5, 10, 20, rounds):
        of = published(w, 0, 1, gamma, 0.25 + m, noise, change, delta, theirs)
        ours = change / noise * math.sqrt(shown(w, 0) * np.sum(distances(stretch, theirs) ** 2))
        print(f"{theirs:3d} rounds with that noise: Theorem 5.9 against one neighbour ε = {of:.3g}, ours against everybody ε = {spent(ours, delta):.3g}")
    _, mixing = correlation(w, 0)
    alone = change / noise / math.sqrt(mixing[1] @ mixing[1])
    print(f"what the first message alone tells the neighbour who gets it: ε = {spent(alone, delta):.3g}")
    for a, spread in ((0, 1.0), (3, 0.9)):
        one = exact(w, a, spread, noise, change, 12)
        ours = change / noise * math.sqrt(shown(w, a) * np.sum(distances(spread, 12) ** 2))
        print(f"a quadratic stretched by {spread}: μ = {one:.9f} of its joint Gaussian law, {ours:.9f} by the account")
        assert abs(one / ours - 1) < 1e-6


if __name__ == "__main__":
    if "--account" in sys.argv:
        account()
    else:
        import consenso.benchmark

        method = consenso.benchmark.method(
            name="Zip-DL",
            about="noise that cancels over an agent's neighbours and itself; its account is in the script",
            source="https://doi.org/10.56553/popets-2025-0108",
        )(zip_dl)
        method.run("quick", "zip_dl.json", problems=["binary", "heart", "adult"])
