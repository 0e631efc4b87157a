"""Golden vectors: the central optimum of the problem of rounds.json for every loss.

    python optimum.py > optimum.json          (any Python 3 with numpy; imports rounds.py beside it)

x* minimises F(x) = (1/N) sum_i f_i(x). Dense Newton with the Hessians of rounds.py, halved until |grad F| falls, to rounding.
"""

import json

import numpy as np

import rounds


def minimise(loss, labels, dim):
    x = np.zeros(dim)

    def mean(f, x):
        return sum(f(loss, x, rounds.FEATURES[i], labels[i]) for i in range(rounds.N)) / rounds.N

    for _ in range(200):
        g = mean(rounds.gradient, x)
        step = np.linalg.solve(mean(rounds.hessian, x), g)
        t = 1.0
        while t > 1e-6 and np.linalg.norm(mean(rounds.gradient, x - t * step)) >= np.linalg.norm(g):
            t /= 2
        if t <= 1e-6:
            break
        x = x - t * step
    assert np.linalg.norm(mean(rounds.gradient, x)) < 1e-14
    return x, mean(rounds.objective, x)


def main():
    losses = {"logistic": rounds.Logistic(), "ridge": rounds.Ridge(), "huber": rounds.Huber(0.5), "softmax": rounds.Softmax(3),
              "squared-hinge": rounds.SquaredHinge(1.2)}
    out = {}
    for entry in rounds.losses():
        x, value = minimise(losses[entry["name"]], np.array(entry["labels"]), len(entry["x"][0]))
        out[entry["name"]] = {"x": x.tolist(), "value": float(value)}
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
