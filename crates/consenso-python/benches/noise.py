"""Nanoseconds a sample of exact noise, on the clock and on the processors, beside numpy's floating-point noise in the same run."""

import time

import numpy as np

import consenso


def main():
    zeros, rng = np.zeros(2_000_000), np.random.default_rng()
    for name, plain in (("laplace", rng.laplace), ("gaussian", rng.normal)):
        draw = getattr(consenso.noise, name)
        exact = [_seconds(lambda: draw(zeros, 1.0)) for _ in range(9)]  # noqa: B023
        other = [_seconds(lambda: zeros + plain(0.0, 1.0, len(zeros))) for _ in range(9)]  # noqa: B023
        wall, busy, numpy = (min(column) / len(zeros) * 1e9 for column in (*zip(*exact), next(zip(*other))))
        print(f"── noise.{name}: {wall:.1f} ns a sample ({busy:.1f} ns of one core), numpy {numpy:.1f} ns: {wall / numpy:.2f} times as long")


def _seconds(work):
    began = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began[0], time.process_time() - began[1]


if __name__ == "__main__":
    main()
