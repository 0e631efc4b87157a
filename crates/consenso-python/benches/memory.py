"""Peak memory of `fit` beside the size of its input, each in a process of its own. Float64 arrays in C order are read where they are: what a fit needs
beside them is the encoded records, twice while they are divided among sites.

Run by `cargo xtask python --release`, with the wheel in a clean environment; or by hand: python benches/memory.py [ROWS]
"""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

WAYS = {
    "bounds": {"epsilon": 1.0, "bounds": (0.0, 1.0)},
    "data_norm": {"epsilon": 1.0, "data_norm": 2.0, "rounds": 3},
    "no privacy": {"epsilon": None, "rounds": 3},
}
COLUMNS = 20


def peak():
    """The largest that this process has been, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux counts what the process was forked from in ru_maxrss.
        return 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def child(way, rows):
    """Prints how much more memory a fit takes than there was before it, as a multiple of the input."""
    import consenso

    rng = np.random.default_rng(0)
    make = lambda: consenso.LogisticRegression(random_state=0, progress=False, **WAYS[way])  # noqa: E731
    few = rng.random((500, COLUMNS))
    make().fit(few, few[:, 0] > 0.5)  # what is loaded once
    X = np.empty((rows, COLUMNS))
    for block in np.array_split(X, max(rows // 10_000, 1)):
        block[:] = rng.random(block.shape)
    y, sites = X[:, 0] > 0.5, np.arange(rows) % 5
    before = peak()
    make().fit(X, y, sites=sites)
    print((peak() - before) / X.nbytes)


def measured(way, rows):
    """The multiple, from a process that does nothing else."""
    command = [sys.executable, __file__, way, str(rows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    if len(sys.argv) == 3:
        child(sys.argv[1], int(sys.argv[2]))
        return 0
    rows = int(sys.argv[1]) if len(sys.argv) == 2 else 300_000
    most = 0.0
    for way in WAYS:
        found = measured(way, rows)
        most = max(most, found)
        print(f"── fit, {way}: {found:.2f} times its input of {rows * COLUMNS * 8 / 1e6:.0f} MB beside it (at most 4)")
    return 0 if most <= 4.0 else 1


if __name__ == "__main__":
    sys.exit(main())
