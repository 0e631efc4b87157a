"""What pandas, polars and scikit-learn take for what `consenso data schema` and `consenso run` do, as JSON lines.

    pip install pandas polars scikit-learn
    python benches/files.py TABLE.csv

TABLE.csv is the table that `cargo xtask bench files` writes. Importing a library does not count. Every line has the seconds on
the clock, those of the processor (all threads), and the most memory that the process had so far, in bytes.
"""

import json
import resource
import sys
import time


def measured(name, work):
    """Prints what a piece of work took, and gives what it made."""
    clock, processor = time.perf_counter(), time.process_time()
    made = work()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"name": name, "wall": clock, "processor": processor, "peak": peak}), flush=True)
    return made


def fit(table):
    """Logistic regression as most people begin: numbers standardised, categories one column a level."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rows, labels = table.drop(columns="ill"), table["ill"]
    words = list(rows.select_dtypes(exclude="number"))
    numbers = [name for name in rows if name not in words]
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), words))
    return make_pipeline(columns, LogisticRegression(max_iter=200)).fit(rows, labels)


def main():
    import pandas
    import polars
    import sklearn.linear_model  # noqa: F401  (importing it does not count)

    measured("polars.read_csv", lambda: polars.read_csv(sys.argv[1]))
    table = measured("pandas.read_csv", lambda: pandas.read_csv(sys.argv[1]))
    measured("scikit-learn, LogisticRegression", lambda: fit(table))


if __name__ == "__main__":
    main()
