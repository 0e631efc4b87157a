#!/usr/bin/env python3
"""Golden values for the bundled Adult data, made independently of the Rust code: python3 adult.py > adult.json

Only the standard library. Categories are read from the table below, which follows the data's documentation (adult.names), sorted;
the two encodings are written from their definition in docs/paper.md section 6 and 7.
"""
import gzip
import json
import math
import pathlib

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"

NAMES = """
workclass: Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked.
education: Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool.
marital-status: Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse.
occupation: Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces.
relationship: Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried.
race: White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black.
sex: Female, Male.
native-country: United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands.
"""
CATEGORIES = {}
for line in NAMES.strip().splitlines():
    name, values = line.split(":", 1)
    CATEGORIES[name] = sorted(v.strip() for v in values.strip().rstrip(".").split(","))
RANGES = {
    "age": (17, 90), "fnlwgt": (12285, 1490400), "education-num": (1, 16),
    "capital-gain": (0, 99999), "capital-loss": (0, 4356), "hours-per-week": (1, 99),
}
ORDER = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
         "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"]


def load(name):
    rows = []
    for line in gzip.open(DATA / name, "rt", encoding="ascii"):
        cells = [cell.strip() for cell in line.strip().split(",")]
        if len(cells) == 15 and "?" not in cells:
            rows.append(cells)
    return rows


def unit(row):
    norm = math.sqrt(math.fsum(v * v for v in row))
    return [v / norm for v in row]


def paper(cells):
    row = []
    for name, cell in zip(ORDER, cells):
        if name in RANGES:
            row.append(float(cell) / RANGES[name][1])
        else:
            row.append(CATEGORIES[name].index(cell) / (len(CATEGORIES[name]) - 1))
    return unit(row)


def one_hot(cells):
    row = []
    for name, cell in zip(ORDER, cells):
        if name in RANGES:
            low, high = RANGES[name]
            row.append((float(cell) - low) / (high - low))
        else:
            row += [1.0 if cell == category else 0.0 for category in CATEGORIES[name]]
    return unit(row + [1.0])


def label(cells):
    return {"<=50K": -1.0, ">50K": 1.0}[cells[14].rstrip(".")]


def describe(rows, encode):
    encoded = [encode(cells) for cells in rows]
    picked = [0, 1, 2, len(rows) // 2, len(rows) - 1]
    return {
        "dim": len(encoded[0]),
        "rows": [{"index": i, "label": label(rows[i]), "values": encoded[i]} for i in picked],
        "column_sums": [math.fsum(column) for column in zip(*encoded)],
        # A sum that notices if two rows change places.
        "weighted_sum": math.fsum((i + 1) * v * (j + 1) for i, row in enumerate(encoded) for j, v in enumerate(row)),
    }


def main():
    out = {}
    for name in ("adult.data", "adult.test"):
        rows = load(name + ".gz")
        out[name] = {
            "rows": len(rows),
            "positive": sum(label(cells) > 0 for cells in rows),
            "paper": describe(rows, paper),
            "one-hot": describe(rows, one_hot),
        }
    print(json.dumps(out, indent=1))


main()
