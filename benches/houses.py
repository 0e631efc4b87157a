"""California housing as the anchor of 256 agents on a hypercube: records, schema and experiment.

    python benches/houses.py housing.csv DIR && consenso run DIR/houses.toml

housing.csv is the table of 20,640 blocks with the columns longitude, latitude, housing_median_age, total_rooms, total_bedrooms,
population, households, median_income and median_house_value, as many courses pass it on; it is not bundled. Blocks without a
number of bedrooms are left out, and a block is dear where its value is above the median.
"""

import csv
import pathlib
import random
import statistics
import sys

# Round ranges that need no look at the records; what lies outside is clamped.
RANGES = {"income": (0, 16), "age": (0, 60), "rooms": (0, 15), "bedrooms": (0, 5), "population": (0, 6000), "occupants": (0, 10),
          "latitude": (32, 42), "longitude": (-125, -114)}
EXPERIMENT = """name = "houses"
runs = 5
seed = 1
[data]
path = "houses.csv"
schema = "schema.toml"
encoding = "one-hot"
agents = 256
hold_out = 0.2
[objective]
loss = "logistic"
regularization = 1e-3
[graph]
kind = "hypercube"
[privacy]
epsilon = 10.0
delta = 1e-5
"""


def blocks(path):
    """Eight columns and the value of every block that has them all."""
    lines = pathlib.Path(path).read_text().lstrip("b'").splitlines()
    for row in csv.DictReader(lines):
        try:
            n = {key: float(value) for key, value in row.items() if key != "ocean_proximity"}
        except (TypeError, ValueError):
            continue
        homes = n["households"]
        columns = [n["median_income"], n["housing_median_age"], n["total_rooms"] / homes, n["total_bedrooms"] / homes, n["population"],
                   n["population"] / homes, n["latitude"], n["longitude"]]
        yield columns, n["median_house_value"]


def main():
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(blocks(source))
    median = statistics.median(value for _, value in rows)
    random.Random(1).shuffle(rows)
    records = [",".join([*RANGES, "dear"])]
    records += [",".join(f"{x:.4f}" for x in columns) + (",yes" if value > median else ",no") for columns, value in rows]
    (folder / "houses.csv").write_text("\n".join(records) + "\n")
    column = "[[column]]\nname = \"{}\"\nkind = \"numeric\"\nmin = {}\nmax = {}\n"
    schema = "reviewed = true\n" + "".join(column.format(name, *span) for name, span in RANGES.items())
    (folder / "schema.toml").write_text(schema + "[[column]]\nname = \"dear\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n")
    kinds = ["dgd", "muffliato", "decor"]
    (folder / "houses.toml").write_text(EXPERIMENT + "".join(f"[[algorithm]]\nkind = \"{kind}\"\n" for kind in kinds))


if __name__ == "__main__":
    main()
