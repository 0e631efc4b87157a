"""A method of one's own on the board: every site perturbs the mean of its labelled rows once, and all average."""

import numpy as np
import consenso.benchmark


@consenso.benchmark.method(name="One noised mean", about="each site releases its mean of y·x once, with Gaussian noise", source="examples/benchmark_method.py")
def one_mean(task):
    rng = np.random.default_rng(task.seed)
    total = np.zeros(task.test_x.shape[1])
    for x, y in task.sites:
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        mean = (y[:, None] * x / np.maximum(norm, 1.0)).mean(axis=0)
        if task.epsilon is not None:
            # One record moves the mean by at most 2/n; ρ-zCDP is (ρ + 2√(ρ·ln 1/δ), δ)-DP, whatever ε is.
            log = np.log(1.0 / task.delta)
            rho = (np.sqrt(task.epsilon + log) - np.sqrt(log)) ** 2
            mean += rng.normal(size=mean.size) * 2.0 / len(y) / np.sqrt(2.0 * rho)
        total += mean
    return task.test_x @ total, 8 * total.size * 2 * len(task.edges)


if __name__ == "__main__":
    one_mean.run("quick", "one_mean.json", problems=["binary", "heart", "adult"])
