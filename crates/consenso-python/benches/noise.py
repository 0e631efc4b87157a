"""Nanoseconds of one core a sample of exact noise."""

import time

import numpy as np

import consenso


def main():
    zeros = np.zeros(2_000_000)
    for name in ("laplace", "gaussian"):
        draw = getattr(consenso.noise, name)
        best = min(_seconds(lambda: draw(zeros, 1.0)) for _ in range(5))  # noqa: B023
        print(f"── noise.{name}: {best / len(zeros) * 1e9:.1f} ns a sample")


def _seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
