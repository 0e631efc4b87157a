"""How much memory a fit takes beside a float64 array of its own size: the rows are read where numpy has them, and no copy is made on the way.

python benches/memory.py [MEGABYTES]
"""

import resource
import sys
import time

import numpy as np
import sklearn.utils.validation  # noqa: F401  what the fit imports is not what it takes

import consenso


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main():
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    rows = int(megabytes * 1e6 / 8 / 20)
    rng = np.random.default_rng(0)
    X = np.empty((rows, 20))
    for block in range(0, rows, 100_000):
        X[block : block + 100_000] = rng.random(size=X[block : block + 100_000].shape)
    y = (X[:, 0] > 0.5).astype(float)
    handed = []
    real = consenso._core.fit
    consenso._core.fit = lambda options, array, *rest: handed.append(array.ctypes.data) or real(options, array, *rest)
    before, began = peak(), time.perf_counter()
    clf = consenso.LogisticRegression(epsilon=1.0, bounds=(0.0, 1.0), random_state=0, progress=False)
    clf.fit(X, y, sites=np.arange(rows) // (rows // 10 + 1))
    took = time.perf_counter() - began
    grown = peak() - before
    same = handed == [X.ctypes.data]
    print(f"── {X.nbytes / 1e6:.0f} MB: handed over {'where they are' if same else 'AS A COPY'}; the fit grew by {grown:.0f} MB, "
          f"{grown * 1e6 / X.nbytes:.2f} times the array, in {took:.1f} s")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
