"""Golden vectors: one full round of every algorithm, and the losses at given points.

    python rounds.py > rounds.json          (any Python 3 with numpy)

Written from the formulas alone (docs/paper.md sections 2 and 3), for one tiny problem, and independent of the Rust code: two
implementations agree or one is wrong. Numbers are printed so that they read back to the same double.

Arrays are nested lists: N x d for one vector an agent, N x b x d for features. Where a round is "uniform point of an interval + private
step + noise", a case also gives its parts:

    next_x = (1 - draw) * at_zero + draw * at_one + private_step + noise        (per agent and coordinate)
"""

import json
import sys

import numpy as np

N, D_FEATURES, B, MU = 5, 4, 6, 0.1
EDGES = [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)]  # degrees 1, 3, 2, 3, 1: connected, not regular


class Draws:
    """A fixed linear congruential generator (Knuth's MMIX), so the inputs do not depend on numpy's version."""

    def __init__(self, state):
        self.state = state

    def uniform(self, *shape):
        """Numbers in (0, 1) with four decimals, short enough to read."""
        values = []
        for _ in range(int(np.prod(shape))):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
            values.append(((self.state >> 33) % 9999 + 1) / 10000)
        return np.array(values).reshape(shape)

    def symmetric(self, *shape):
        return np.round(2 * self.uniform(*shape) - 1, 4)


# ---- losses: mean over the records, plus mu/2 |x|^2 -------------------------------------------------------------------


def sigmoid(t):
    return np.where(t >= 0, 1 / (1 + np.exp(-np.abs(t))), np.exp(-np.abs(t)) / (1 + np.exp(-np.abs(t))))


class Logistic:
    """log(1 + exp(-y z.x)), y = +-1"""

    curvature = 0.25

    def loss(self, x, z, y):
        return np.mean(np.logaddexp(0, -y * (z @ x)))

    def gradient(self, x, z, y):
        return z.T @ (-y * sigmoid(-y * (z @ x))) / len(y)

    def hessian(self, x, z, y):
        p = sigmoid(z @ x)
        return (z.T * (p * (1 - p))) @ z / len(y)


class Ridge:
    """(z.x - y)^2 / 2"""

    curvature = 1.0

    def loss(self, x, z, y):
        return np.mean((z @ x - y) ** 2) / 2

    def gradient(self, x, z, y):
        return z.T @ (z @ x - y) / len(y)

    def hessian(self, x, z, y):
        return z.T @ z / len(y)


class Huber:
    """r^2 / 2 for |r| <= delta, else delta (|r| - delta / 2), r = z.x - y"""

    curvature = 1.0

    def __init__(self, delta):
        self.delta = delta

    def loss(self, x, z, y):
        r = np.abs(z @ x - y)
        return np.mean(np.where(r <= self.delta, r**2 / 2, self.delta * (r - self.delta / 2)))

    def gradient(self, x, z, y):
        return z.T @ np.clip(z @ x - y, -self.delta, self.delta) / len(y)

    def hessian(self, x, z, y):
        return (z.T * (np.abs(z @ x - y) <= self.delta)) @ z / len(y)


class SquaredHinge:
    """u^2 / 2 for u = max(0, 1 - y z.x) <= clip, else clip (u - clip / 2)"""

    curvature = 1.0

    def __init__(self, clip):
        self.clip = clip

    def loss(self, x, z, y):
        u = np.maximum(0, 1 - y * (z @ x))
        return np.mean(np.where(u <= self.clip, u**2 / 2, self.clip * (u - self.clip / 2)))

    def gradient(self, x, z, y):
        return -z.T @ (y * np.clip(1 - y * (z @ x), 0, self.clip)) / len(y)

    def hessian(self, x, z, y):
        u = 1 - y * (z @ x)
        return (z.T * ((u > 0) & (u <= self.clip))) @ z / len(y)


class Softmax:
    """-log softmax(X z)[y]; x is class-major: x[c * d + l] multiplies feature l for class c"""

    curvature = 0.5

    def __init__(self, classes):
        self.classes = classes

    def probabilities(self, x, z):
        scores = z @ x.reshape(self.classes, -1).T
        scores = scores - scores.max(axis=1, keepdims=True)
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    def loss(self, x, z, y):
        return -np.mean(np.log(self.probabilities(x, z)[np.arange(len(y)), y.astype(int)]))

    def gradient(self, x, z, y):
        p = self.probabilities(x, z)
        p[np.arange(len(y)), y.astype(int)] -= 1
        return (p.T @ z).ravel() / len(y)

    def hessian(self, x, z, y):
        p = self.probabilities(x, z)
        total = 0
        for row, q in zip(z, p):
            total = total + np.kron(np.diag(q) - np.outer(q, q), np.outer(row, row))
        return total / len(y)


def objective(loss, x, z, y):
    return loss.loss(x, z, y) + MU / 2 * x @ x


def gradient(loss, x, z, y):
    return loss.gradient(x, z, y) + MU * x


def hessian(loss, x, z, y):
    return loss.hessian(x, z, y) + MU * np.eye(len(x))


def check_derivatives(loss, x, z, y):
    """Central differences: the formulas above against one another."""
    for k in range(len(x)):
        e = np.zeros(len(x))
        e[k] = 1e-5
        slope = (objective(loss, x + e, z, y) - objective(loss, x - e, z, y)) / 2e-5
        assert abs(slope - gradient(loss, x, z, y)[k]) < 1e-8
        bend = (gradient(loss, x + e, z, y) - gradient(loss, x - e, z, y)) / 2e-5
        assert np.abs(bend - hessian(loss, x, z, y)[k]).max() < 1e-8


# ---- the rounds -------------------------------------------------------------------------------------------------------

draws = Draws(2024)
FEATURES = draws.symmetric(N, B, D_FEATURES)
LABELS = np.where(draws.uniform(N, B) < 0.5, -1.0, 1.0)
X = draws.symmetric(N, D_FEATURES)
DUALS = draws.symmetric(N, D_FEATURES) / 2
DUALS[-1] = -DUALS[:-1].sum(axis=0)  # an invariant of every run that starts at zero
UNIFORM = draws.uniform(N, D_FEATURES)
NOISE = draws.symmetric(N, D_FEATURES) / 10

NEIGHBOURS = [sorted({b for a, b in EDGES if a == i} | {a for a, b in EDGES if b == i}) for i in range(N)]
DEGREES = [len(row) for row in NEIGHBOURS]
LOGISTIC = Logistic()


def grad(i, x):
    return gradient(LOGISTIC, x, FEATURES[i], LABELS[i])


def solve(i, q, r):
    """The x with grad f_i(x) + q x = r, by Newton to rounding."""
    x = np.zeros(D_FEATURES)
    for _ in range(100):
        residual = grad(i, x) + q * x - r
        if np.abs(residual).max() <= 1e-15 * (1 + np.abs(r).max()):
            break
        x = x - np.linalg.solve(hessian(LOGISTIC, x, FEATURES[i], LABELS[i]) + q * np.eye(D_FEATURES), residual)
    assert np.abs(grad(i, x) + q * x - r).max() <= 1e-14 * (1 + np.abs(r).max())
    return x


def neighbour_sum(i, x=X):
    return sum(x[j] for j in NEIGHBOURS[i])


def neighbour_mean(i):
    return neighbour_sum(i) / DEGREES[i]


def dual_step(step, x):
    return DUALS + step * np.array([neighbour_sum(i, x) - DEGREES[i] * x[i] for i in range(N)])


def interval_round(at_zero, at_one, private_step, draw, noise=NOISE):
    at_zero, at_one, private_step = (np.array(v) for v in (at_zero, at_one, private_step))
    next_x = (1 - draw) * at_zero + draw * at_one + private_step + noise
    return {"at_zero": at_zero, "at_one": at_one, "private_step": private_step, "next_x": next_x}


def case(name, formula, inputs, outputs):
    return {"name": name, "formula": formula, "inputs": inputs, "outputs": outputs}


def algorithm_1():
    zeta = 0.5
    first = "x+ = (1-s) x_i + (s/n_i) sum_j x_j - grad f_i(x_i)/D + dual_i/D + noise; dual+ = dual + zeta sum_j (x_j+ - x_i+)"
    exact = "x+ = argmin f_i(x) - x.dual_i + D/2 |x - v|^2 + noise, v = (1-s) x_i + (s/n_i) sum_j x_j; dual+ as first order"
    cases = []
    half = np.full_like(UNIFORM, 0.5)
    same, own = np.full(N, 10.0), np.array([8.0, 10.0, 12.0, 9.0, 11.0])
    for name, s, big_d in [("admm-first-order", UNIFORM, same), ("admm-first-order-fixed", half, same),
                           ("admm-first-order-penalty-per-agent", UNIFORM, own)]:
        parts = interval_round(
            [X[i] + DUALS[i] / big_d[i] for i in range(N)],
            [neighbour_mean(i) + DUALS[i] / big_d[i] for i in range(N)],
            [-grad(i, X[i]) / big_d[i] for i in range(N)], s)
        cases.append(case(name, first, {"penalty": big_d, "dual_step": zeta, "draw": s, "noise": NOISE, "x": X, "duals": DUALS},
                          {**parts, "next_duals": dual_step(zeta, parts["next_x"])}))
    for name, s in [("admm-exact", UNIFORM), ("admm-exact-fixed", half)]:
        v = np.array([(1 - s[i]) * X[i] + s[i] * neighbour_mean(i) for i in range(N)])
        minimiser = np.array([solve(i, same[i], same[i] * v[i] + DUALS[i]) for i in range(N)])
        next_x = minimiser + NOISE
        cases.append(case(name, exact, {"penalty": same, "dual_step": zeta, "draw": s, "noise": NOISE, "x": X, "duals": DUALS},
                          {"centre": v, "minimiser": minimiser, "next_x": next_x, "next_duals": dual_step(zeta, next_x)}))
    return cases


def algorithm_2():
    eta = 0.9
    mean = X.mean(axis=0)
    _, p, q = max((np.abs(X[p] - X[q]).sum(), p, q) for p in range(N) for q in range(p + 1, N))
    rest = sum(X[j] for j in range(N) if j not in (p, q)) / N
    step = [-eta * grad(i, mean) for i in range(N)]
    formula = "x+ = (2w/N) x_p + (2(1-w)/N) x_q + (1/N) sum of the others - eta grad f_i(mean) + noise; (p, q) farthest in l1, p < q"
    inputs = {"graph": "complete", "step": eta, "draw": UNIFORM, "noise": NOISE, "x": X}
    random = interval_round([rest + 2 / N * X[q]] * N, [rest + 2 / N * X[p]] * N, step, UNIFORM)
    fixed = interval_round([mean] * N, [mean] * N, step, np.full_like(UNIFORM, 0.5))
    return [
        case("gd-complete", formula, inputs, {"pair": [p, q], "mean": mean, **random}),
        case("gd-complete-fixed", "x+ = mean - eta grad f_i(mean) + noise", {**inputs, "draw": np.full_like(UNIFORM, 0.5)},
             {"mean": mean, **fixed}),
    ]


def algorithm_2_star():
    eta = 0.9
    low = [np.min([X[j] for j in NEIGHBOURS[i] + [i]], axis=0) for i in range(N)]
    high = [np.max([X[j] for j in NEIGHBOURS[i] + [i]], axis=0) for i in range(N)]
    step = [-eta * grad(i, X[i]) for i in range(N)]
    formula = "x+ = w min_{j in N_i and i} x_j + (1-w) max_{j in N_i and i} x_j - eta grad f_i(x_i) + noise, per coordinate"
    cases = []
    for name, w in [("gd-range", UNIFORM), ("gd-range-fixed", np.full_like(UNIFORM, 0.5))]:
        # w multiplies the minimum: a draw of 0 is the maximum.
        cases.append(case(name, formula, {"step": eta, "draw": w, "noise": NOISE, "x": X}, interval_round(high, low, step, w)))
    return cases


def metropolis():
    w = np.zeros((N, N))
    for a, b in EDGES:
        w[a, b] = w[b, a] = 1 / (1 + max(DEGREES[a], DEGREES[b]))
    return w + np.diag(1 - w.sum(axis=1))


def gradients(x):
    return np.array([grad(i, x[i]) for i in range(N)])


def non_private():
    w, eta, alpha, c = metropolis(), 0.9, 0.3, 0.5
    assert np.allclose(w, w.T) and np.allclose(w.sum(axis=0), 1)
    one = w @ X - alpha * gradients(X)
    z = (1 - eta * MU) * (w @ X)
    i_plus_w = np.eye(N) + w
    two = i_plus_w @ one - 0.5 * i_plus_w @ X - alpha * (gradients(one) - gradients(X))
    # grad f_i(x) + alpha_i + 2c sum_j (x - (x_i + x_j)/2) = 0
    admm = np.array([solve(i, 2 * c * DEGREES[i], c * (DEGREES[i] * X[i] + neighbour_sum(i)) - DUALS[i]) for i in range(N)])
    admm_duals = dual_step(-c, admm)  # + c sum_j (x_i+ - x_j+)
    return [
        case("dgd", "x+ = W x - eta grad f_i(x_i), W Metropolis", {"mixing": w, "step": eta, "x": X},
             {"next_x": w @ X - eta * gradients(X)}),
        case("decor", "z = (1 - eta mu) W x; x+ = z - eta grad of the data term at z (noise left out)", {"mixing": w, "step": eta, "x": X},
             {"next_x": z - eta * (gradients(z) - MU * z)}),
        case("muffliato", "z = (1 - eta mu) W x0; x1 = z - eta grad of the data term at z + noise; x2 = W x1",
             {"mixing": w, "step": eta, "noise": NOISE, "x": X},
             {"first_x": z - eta * (gradients(z) - MU * z) + NOISE, "second_x": w @ (z - eta * (gradients(z) - MU * z) + NOISE)}),
        case("extra", "x1 = W x0 - a grad(x0); x2 = (I+W) x1 - (I+W)/2 x0 - a (grad(x1) - grad(x0))",
             {"mixing": w, "step": alpha, "x": X}, {"first_x": one, "second_x": two}),
        case("consensus-admm", "x+ = argmin f_i(x) + x.dual_i + c sum_j |x - (x_i + x_j)/2|^2; dual+ = dual + c sum_j (x_i+ - x_j+)",
             {"penalty": c, "x": X, "duals": DUALS}, {"next_x": admm, "next_duals": admm_duals}),
    ]


def gradient_tracking():
    """The textbook form in x and y; noise k times NOISE is added to what round k adds up, so that y gets its change."""
    w, eta, x = metropolis(), 0.4, X.copy()
    y, before, rounds = gradients(x) + NOISE, gradients(x), []
    for k in range(1, 5):
        x = w @ x - eta * y
        rounds.append(x)
        now = gradients(x)
        y, before = w @ y + now - before + (k + 1) * NOISE - k * NOISE, now
    return [
        case("gradient-tracking", "x+ = W x - eta y; y+ = W y + grad(x+) - grad(x) + noise+ - noise, y0 = grad(x0) + noise",
             {"mixing": w, "step": eta, "noise": NOISE, "x": X}, {"rounds": rounds}),
    ]


def exact_methods():
    """Models of four rounds in the form of the papers; the noise of a message is NOISE in every round."""
    w, x0, rounds = metropolis(), X, 4
    half = (np.eye(N) + w) / 2

    def run(first, step):
        """The models after every round, from a state and what makes the next one of it."""
        models, state = [], first
        for k in range(rounds):
            state = step(k, state)
            models.append(state[0])
        return models

    def recursion(first_mixing):
        def step(k, state):
            x, before = state
            message = x - alpha * gradients(x) if k == 0 else 2 * x - before - alpha * (gradients(x) - gradients(before))
            return (first_mixing if k == 0 else half) @ (message + NOISE), x
        return step

    def diffusion(_, state):
        (x,) = state
        return (w @ (x - eta * gradients(x) + NOISE),)

    def dlm(_, state):
        x, dual = state
        away = lambda v: np.array([DEGREES[i] * v[i] - neighbour_sum(i, v) for i in range(N)])
        weight = (2 * c * np.array(DEGREES) + rho)[:, None]
        x = x - (gradients(x) + c * away(x) + dual) / weight + NOISE
        return x, dual + c * away(x)

    def led(_, state):
        x, y = state
        phi = x.copy()
        for _ in range(tau):
            phi = phi - alpha * gradients(phi) - beta * y
        phi = phi + NOISE
        x = w @ phi
        return x, y + phi - x

    def k_gt(_, state):
        x, correction = state
        end = x.copy()
        for _ in range(tau):
            end = end - alpha * (gradients(end) + correction)
        z = (x - end) / (tau * alpha) + NOISE
        return w @ (x - tau * alpha * z), correction - z + w @ z

    def tracking(k, state):
        x, y, before = state
        x = w @ (x - eta * y)
        # y has the noise of its own round alone: this round's comes in, the last one's goes out.
        return x, w @ y + gradients(x) - before + NOISE - NOISE, gradients(x)

    eta, alpha, c, rho, beta, cases = 0.4, 0.3, 0.5, 1.5, 0.4, []
    zero = np.zeros_like(X)
    common = {"mixing": w, "noise": NOISE, "x": X}
    cases.append(case("diffusion", "x+ = W (x - eta grad(x) + noise)", {**common, "step": eta}, {"rounds": run((x0,), diffusion)}))
    text = "x+ = (I+W)/2 (2 x - x_before - a (grad(x) - grad(x_before)) + noise), "
    cases.append(case("exact-diffusion", text + "x1 = (I+W)/2 (x0 - a grad(x0) + noise)", {**common, "step": alpha},
                      {"rounds": run((x0, x0), recursion(half))}))
    cases.append(case("nids", text + "x1 = x0 - a grad(x0) + noise", {**common, "step": alpha},
                      {"rounds": run((x0, x0), recursion(np.eye(N)))}))
    cases.append(case("dlm", "x+ = x - (grad(x) + c sum_j (x_i - x_j) + dual)/(2 c n_i + rho) + noise; dual+ = dual + c sum_j (x_i+ - x_j+)",
                      {**common, "penalty": c, "proximity": rho}, {"rounds": run((x0, zero), dlm)}))
    for tau in (1, 3):
        cases.append(case(f"led-{tau}", "phi: tau times phi - a grad(phi) - beta y from x, + noise; x+ = W phi; y+ = y + phi - x+",
                          {**common, "step": alpha, "dual_step": beta, "local_steps": tau}, {"rounds": run((x0, zero), led)}))
        cases.append(case(f"k-gt-{tau}", "z = (x - end of tau local steps)/(tau a) + noise; c+ = c - z + W z; x+ = W (x - tau a z)",
                          {**common, "step": alpha, "local_steps": tau}, {"rounds": run((x0, zero), k_gt)}))
    cases.append(case("atc-tracking", "x+ = W (x - eta y); y+ = W y + grad(x+) - grad(x) + noise+ - noise, y0 = grad(x0) + noise",
                      {**common, "step": eta}, {"rounds": run((x0, gradients(x0) + NOISE, gradients(x0)), tracking)}))
    return cases


LINKS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (3, 1)]  # from, to: strongly connected, hears and is heard differ


def pushed():
    """What everybody hands out adds up to one: agent j keeps 1/(1 + those who hear it) and sends as much to each of them."""
    out = [sum(a == j for a, _ in LINKS) for j in range(N)]
    p = np.diag([1 / (1 + o) for o in out])
    for a, b in LINKS:
        p[b, a] = 1 / (1 + out[a])
    assert np.allclose(p.sum(axis=0), 1) and not np.allclose(p.sum(axis=1), 1)
    return p


def directed_methods():
    """Models of four rounds over links that lead one way; the noise of a message is NOISE in every round."""
    p, eta, alpha = pushed(), 0.4, 0.3
    x, w, rounds = X.copy(), np.ones((N, 1)), []
    for _ in range(4):
        z = x / w
        x, w = p @ (x - eta * gradients(z) + NOISE), p @ w
        rounds.append(x / w)
    push_sum = case("push-sum", "x+ = P (x - eta grad(z) + noise); w+ = P w; z = x/w", {"links": LINKS, "shares": p, "step": eta,
                    "noise": NOISE, "x": X}, {"rounds": rounds})
    u, v, x, y, rounds = X.copy(), np.ones((N, 1)), X.copy(), gradients(X) + NOISE, []
    for _ in range(4):
        u, v = p @ (u - alpha * y), p @ v
        new = u / v
        y, x = p @ y + gradients(new) - gradients(x) + NOISE - NOISE, new
        rounds.append(x)
    text = "u+ = P (u - a y); v+ = P v; x+ = u+/v+; y+ = P y + grad(x+) - grad(x) + noise+ - noise, y0 = grad(x0) + noise"
    return [push_sum, case("push-diging", text, {"links": LINKS, "shares": p, "step": alpha, "noise": NOISE, "x": X}, {"rounds": rounds})]


def top_k(v, count):
    """The numbers of largest size of every row, zero elsewhere."""
    out = np.zeros_like(v)
    for row, kept in zip(v, out):
        largest = np.argsort(-np.abs(row), kind="stable")[:count]
        kept[largest] = row[largest]
    return out


def signs(v):
    return np.where(v < 0, -1, 1) * np.abs(v).mean(axis=1, keepdims=True)


def compressed_methods():
    """Models of four rounds with compressed messages; the noise of a message is NOISE in every round, before compression."""
    w, eta, gamma, alpha, cases = metropolis(), 0.4, 0.6, 0.5, []
    for name, compress in [("top-k", lambda v: top_k(v, 2)), ("sign", signs)]:
        x, copy, rounds = X.copy(), X.copy(), []
        for _ in range(4):
            half = x - eta * gradients(x) + NOISE
            copy = copy + compress(half - copy)
            x = half + gamma * (w @ copy - copy)
            rounds.append(x)
        cases.append(case(f"choco-{name}", "h = x - eta grad(x) + noise; c+ = c + C(h - c); x+ = h + gamma (W c+ - c+), c0 = x0",
                          {"mixing": w, "step": eta, "consensus_step": gamma, "noise": NOISE, "x": X}, {"rounds": rounds}))
        x, base, dual, rounds = X.copy(), np.zeros_like(X), np.zeros_like(X), []
        for _ in range(4):
            slope = gradients(x)
            y = x - eta * slope - eta * dual + NOISE
            sent = base + compress(y - base)
            base = (1 - alpha) * base + alpha * sent
            dual = dual + gamma / (2 * eta) * (sent - w @ sent)
            x = x - eta * slope + NOISE - eta * dual
            rounds.append(x)
        cases.append(case(f"lead-{name}", "y = x - eta grad(x) - eta d + noise; s = h + C(y - h); h+ = (1-a) h + a s; d+ = d + gamma/(2 eta) (s - W s); "
                          "x+ = x - eta grad(x) + noise - eta d+, h0 = d0 = 0",
                          {"mixing": w, "step": eta, "consensus_step": gamma, "memory_step": alpha, "noise": NOISE, "x": X}, {"rounds": rounds}))
    return cases


def more_exact_methods():
    """Aug-DGM has two exchanges per gradient, and its models after each; ProxSkip so many steps before an exchange as are said."""
    w, eta, alpha, beta, chi, steps = metropolis(), 0.4, 0.2, 0.3, 1.5, [2, 1, 3, 1]
    x, y, before, rounds = X.copy(), gradients(X) + NOISE, gradients(X), []
    for _ in range(3):
        rounds.append(x)
        x = w @ (x - eta * y)
        rounds.append(x)
        # The tracker has the noise of its own round alone: this one's comes in, the last one's goes out.
        y, before = w @ (y + gradients(x) - before + NOISE - NOISE), gradients(x)
    aug_dgm = case("aug-dgm", "x+ = W (x - eta y); y+ = W (y + grad(x+) - grad(x) + noise+ - noise), y0 = grad(x0) + noise",
                   {"mixing": w, "step": eta, "noise": NOISE, "x": X}, {"rounds": rounds})
    x, y, rounds = X.copy(), np.zeros_like(X), []
    for count in steps:
        z = x
        for _ in range(count):
            z = z - alpha * gradients(z) - y
        z = z + NOISE
        x = z - (z - w @ z) / (2 * chi)
        y = y + beta * (z - x)
        rounds.append(x)
    text = "z - a grad(z) - y so many times from x, + noise; x+ = z - (z - W z)/(2 chi); y+ = y + beta (z - x+)"
    return [aug_dgm, case("proxskip", text, {"mixing": w, "step": alpha, "dual_step": beta, "chi": chi, "steps": steps, "noise": NOISE, "x": X},
                          {"rounds": rounds})]


def sampled_and_accelerated():
    """GT-SVRG with the samples that are said, a full gradient in rounds 1 and 4; accelerated descent in phases of three rounds."""
    w, eta, q = metropolis(), 0.3, 0.5
    samples = [None, [[0, 2, 5], [1], [0, 1, 2, 3], [], [3, 4, 5]], [[1, 4], [0, 5], [2], [1, 2, 3], [0]], None,
               [[0, 1, 2], [3, 5], [4], [2], [1, 5]]]

    def sampled(i, x, drawn):
        """The sum over the sample divided by the expected number of draws, the regulariser whole."""
        z, y = FEATURES[i][drawn], LABELS[i][drawn]
        return z.T @ (-y * sigmoid(-y * (z @ x))) / (q * B) + MU * x

    x, tau, v, y, rounds = X.copy(), X.copy(), gradients(X), gradients(X) + NOISE, []
    for drawn in samples[1:] + [None]:
        x = w @ (x - eta * y)
        rounds.append(x)
        if drawn is None:
            tau, new = x, gradients(x)
        else:
            new = np.array([sampled(i, x[i], np.array(drawn[i], dtype=int)) - sampled(i, tau[i], np.array(drawn[i], dtype=int)) + grad(i, tau[i]) for i in range(N)])
        # The noise of a message is NOISE in every round: this one's comes in, the last one's goes out.
        y, v = w @ y + new - v + NOISE - NOISE, new
    text = "x+ = W (x - eta y); v = g_S(x) - g_S(tau) + grad(tau); y+ = W y + v+ - v + noise+ - noise, y0 = grad(x0) + noise"
    svrg = case("gt-svrg", text, {"mixing": w, "step": eta, "share": q, "period": 3, "samples": samples, "noise": NOISE, "x": X},
                {"rounds": rounds})
    move, ag, rounds, phase = X.copy(), X.copy(), [], 3
    for k in range(5):
        place = k % phase + 1
        alpha = 2 / (place + 1)
        middle = (1 - alpha) * ag + alpha * move
        move = w @ (move - place / 2 * eta * gradients(middle) + NOISE)
        ag = (1 - alpha) * ag + alpha * move
        rounds.append(ag)
        if place == phase:
            move = ag
    text = "v = (1-a) g + a u; u+ = W (u - k/2 eta grad(v) + noise); g+ = (1-a) g + a u+, a = 2/(k+1), k = 1, 2, 3, 1, 2; u = g after three rounds"
    return [svrg, case("accelerated", text, {"mixing": w, "step": eta, "phase": phase, "noise": NOISE, "x": X}, {"rounds": rounds})]


def private_push():
    """Push-sum with clipped slopes, and with compressed messages, over links that lead one way."""
    p, eta, gamma, first, decay, total, cases = pushed(), 0.4, 0.6, 0.8, 4.0, 5, []
    x, w, rounds, clips = X.copy(), np.ones((N, 1)), [], []
    for k in range(5):
        z, clip = x / w, first * decay ** (-k / total)
        clips.append(clip)
        slopes = np.array([sum(-y * min(sigmoid(-y * (row @ z[i])), clip) * row for row, y in zip(FEATURES[i], LABELS[i])) / B + MU * z[i]
                           for i in range(N)])
        x, w = p @ (x - eta * slopes + NOISE), p @ w
        rounds.append(x / w)
    cases.append(case("dyn-d2p", "push-sum with every record's slope at most c, c_k = c_1 rho^(-(k-1)/K)",
                      {"links": LINKS, "shares": p, "step": eta, "clips": clips, "noise": NOISE, "x": X}, {"rounds": rounds}))
    for name, compress in [("top-k", lambda v: top_k(v, 2)), ("sign", signs)]:
        x, w, copy, rounds = X.copy(), np.ones((N, 1)), X.copy(), []
        for _ in range(4):
            half = x - eta * gradients(x / w) + NOISE
            copy = copy + compress(half - copy)
            x = half + gamma * (p @ copy - copy)
            w = w + gamma * (p @ w - w)
            rounds.append(x / w)
        cases.append(case(f"dp-csgp-{name}", "h = x - eta grad(x/w) + noise; c+ = c + C(h - c); x+ = h + gamma (P c+ - c+); w+ = w + gamma (P w - w), c0 = x0",
                          {"links": LINKS, "shares": p, "step": eta, "consensus_step": gamma, "noise": NOISE, "x": X}, {"rounds": rounds}))
    return cases + [corrected_push()]


def corrected_push():
    """Push-sum with samples that are said, corrected by a table of the last gradient of every record."""
    p, eta, q, rounds = pushed(), 0.4, 0.5, []
    samples = [[[0, 1], [2], [], [3, 4, 5], [1]], [[0, 2, 5], [1], [0, 1, 2, 3], [], [3, 4, 5]], [[1, 4], [0, 5], [2], [1, 2, 3], [0]],
               [[0], [1, 2], [0, 4], [5], []], [[0, 1, 2], [3, 5], [4], [2], [1, 5]]]

    def of_record(i, r, z):
        return -LABELS[i][r] * sigmoid(-LABELS[i][r] * (FEATURES[i][r] @ z)) * FEATURES[i][r]

    x, w = X.copy(), np.ones((N, 1))
    last = [[of_record(i, r, X[i]) for r in range(B)] for i in range(N)]
    for sample in samples:
        z, v = x / w, []
        for i in range(N):
            mean = sum(last[i]) / B
            now = {r: of_record(i, r, z[i]) for r in sample[i]}
            v.append(mean + sum((now[r] - last[i][r] for r in now), np.zeros(D_FEATURES)) / (q * B) + MU * z[i])
            for r in now:
                last[i][r] = now[r]
        x, w = p @ (x - eta * np.array(v) + NOISE), p @ w
        rounds.append(x / w)
    return case("privsgp-vr", "push-sum with v = sum over the drawn of (g_r(z) - phi_r)/(q b) + mean phi, then phi_r = g_r(z); phi_r = g_r(x0) at first",
                {"links": LINKS, "shares": p, "step": eta, "share": q, "samples": samples, "noise": NOISE, "x": X}, {"rounds": rounds})


def coordinate_descent():
    """Every agent changes the same coordinate a round: at v = W x, all others held."""
    w, eta, order, x = metropolis(), 0.9, [2, 0, 3, 1, 1, 3], X.copy()
    rounds = []
    for l in order:
        v = w @ x
        step = v - eta * gradients(v) + NOISE
        x = x.copy()
        x[:, l] = step[:, l]
        rounds.append(x)
    v = w @ X
    pair = X.copy()
    pair[:, [0, 3]] = (v - eta * gradients(v) + NOISE)[:, [0, 3]]
    return [
        case("rcd", "x+[l] = (W x)[l] - eta grad f_i(W x)[l] + noise[l] for the round's l, x[l] elsewhere",
             {"mixing": w, "step": eta, "order": order, "noise": NOISE, "x": X}, {"rounds": rounds}),
        case("rcd-block", "the same with the coordinates 0 and 3 in one round",
             {"mixing": w, "step": eta, "block": [0, 3], "noise": NOISE, "x": X}, {"next_x": pair}),
    ]


def private_baselines():
    eta, theta, big_d, zeta, gamma, radius = 0.6, 0.5, 10.0, 0.5, 0.9, 0.5
    pp = np.array([solve(i, 2 * eta * DEGREES[i], eta * DEGREES[i] * X[i] + eta * neighbour_sum(i) + DUALS[i]
                         - 2 * eta * DEGREES[i] * NOISE[i]) for i in range(N)])
    dvp = np.array([solve(i, big_d, 0.5 * big_d * X[i] + 0.5 * big_d * neighbour_mean(i) + DUALS[i] + big_d * NOISE[i])
                    for i in range(N)])
    output = np.array([solve(i, big_d, 0.5 * big_d * X[i] + 0.5 * big_d * neighbour_mean(i) + DUALS[i]) for i in range(N)]) + NOISE
    w = metropolis()
    z = w @ (X + NOISE)
    pdop = z - gamma * gradients(z)
    ball = np.array([v * min(1.0, radius / np.linalg.norm(v)) for v in pdop])
    assert any(np.linalg.norm(v) > radius for v in pdop) and any(np.linalg.norm(v) < radius for v in pdop)
    return [
        case("penalty-perturbation", "grad f_i(x) + D x = eta n_i x_i + eta sum_j x_j + dual_i - D noise_i, D = 2 eta n_i; dual+ with theta",
             {"penalty": eta, "dual_step": theta, "noise": NOISE, "x": X, "duals": DUALS},
             {"next_x": pp, "next_duals": dual_step(theta, pp)}),
        case("dual-variable-perturbation", "grad f_i(x) + D x = D/2 x_i + D/(2 n_i) sum_j x_j + dual_i + D noise_i; dual+ with zeta",
             {"penalty": big_d, "dual_step": zeta, "noise": NOISE, "x": X, "duals": DUALS},
             {"next_x": dvp, "next_duals": dual_step(zeta, dvp)}),
        case("output-admm", "x+ = (the x with grad f_i(x) + D x = D/2 x_i + D/(2 n_i) sum_j x_j + dual_i) + noise_i; dual+ with zeta",
             {"penalty": big_d, "dual_step": zeta, "noise": NOISE, "x": X, "duals": DUALS},
             {"next_x": output, "next_duals": dual_step(zeta, output)}),
        case("pdop", "y = x + noise; z = W y; x+ = z - gamma grad f_i(z)", {"mixing": w, "step": gamma, "noise": NOISE, "x": X},
             {"mixed": z, "next_x": pdop}),
        case("pdop-ball", "as pdop, then the nearest point of the l2 ball", {"mixing": w, "step": gamma, "noise": NOISE, "x": X, "radius": radius},
             {"mixed": z, "next_x": ball}),
    ]


# ---- objectives at given points ---------------------------------------------------------------------------------------


def losses():
    more = Draws(7)
    targets = more.symmetric(N, B)
    classes = np.floor(more.uniform(N, B) * 3)
    entries = []
    for name, loss, y, dim, parameters in [
        ("logistic", Logistic(), LABELS, D_FEATURES, {}),
        ("ridge", Ridge(), targets, D_FEATURES, {}),
        ("huber", Huber(0.5), targets, D_FEATURES, {"delta": 0.5}),
        ("softmax", Softmax(3), classes, 3 * D_FEATURES, {"classes": 3}),
        ("squared-hinge", SquaredHinge(1.2), LABELS, D_FEATURES, {"clip": 1.2}),
    ]:
        points = more.symmetric(N, dim)
        entry = {"name": name, "formula": type(loss).__doc__, "parameters": parameters, "labels": y, "x": points,
                 "objective": [], "gradient": [], "hessian_largest": [], "hessian_smallest": [], "smoothness": []}
        for i in range(N):
            z = FEATURES[i]
            check_derivatives(loss, points[i], z, y[i])
            spectrum = np.linalg.eigvalsh(hessian(loss, points[i], z, y[i]))
            entry["objective"].append(objective(loss, points[i], z, y[i]))
            entry["gradient"].append(gradient(loss, points[i], z, y[i]))
            entry["hessian_largest"].append(spectrum[-1])
            entry["hessian_smallest"].append(spectrum[0])
            # A bound on the Hessian over all x: the link's largest curvature times the largest eigenvalue of Z'Z/b, plus mu.
            bound = loss.curvature * np.linalg.eigvalsh(z.T @ z / B)[-1] + MU
            assert spectrum[-1] <= bound + 1e-12
            entry["smoothness"].append(bound)
        entries.append(entry)
    return entries


def plain(value):
    """Numpy to nested lists of Python numbers, whose repr reads back to the same double."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(list(value))
    return value.item() if isinstance(value, np.generic) else value


def rows(value, indent=0):
    """JSON with a row of numbers a line, so that a difference is readable."""
    pad = "  " * (indent + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(k)}: {rows(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner) + "\n" + "  " * indent + "}" if inner else "{}"
    if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
        return "[\n" + ",\n".join(pad + rows(v, indent + 1) for v in value) + "\n" + "  " * indent + "]"
    return json.dumps(value)


def main():
    cases = algorithm_1() + algorithm_2() + algorithm_2_star() + non_private() + gradient_tracking() + exact_methods() + directed_methods() + compressed_methods() + more_exact_methods() + sampled_and_accelerated() + private_push() + coordinate_descent() + private_baselines()
    for entry in cases:
        if "next_duals" in entry["outputs"]:
            assert np.abs(entry["outputs"]["next_duals"].sum(axis=0)).max() < 1e-14, entry["name"]
    document = {
        "problem": {"agents": N, "dim": D_FEATURES, "records": B, "regularization": MU, "loss": "logistic", "edges": EDGES,
                    "features": FEATURES, "labels": LABELS},
        "cases": cases,
        "losses": losses(),
    }
    sys.stdout.write(rows(plain(document)) + "\n")


if __name__ == "__main__":
    main()
