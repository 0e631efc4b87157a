"""Applies a model file to a CSV with nothing but Python:  python3 apply_model.py model.json records.csv

Prints the probability of the positive class (or the number, or one probability a class) of every record, one a line. The ten lines in
the middle are all there is to it; missing values and dates follow the rules of the schema and are left to `consenso predict`.
"""
import csv, json, math, sys

model = json.load(open(sys.argv[1]))
columns = [c for c in model["schema"]["column"] if c["kind"] in ("numeric", "categorical")]
names = [c["name"] for c in model["schema"]["column"]]
file = csv.reader(open(sys.argv[2]))
header = next(file) if model["schema"].get("header", True) else names

for cells in file:
    record, row = dict(zip(header, (cell.strip() for cell in cells))), []
    for column, part in zip(columns, model["encoder"]["columns"]):
        text = record[column["name"]]
        code = column["categories"].index(text) if "categories" in column else min(max(float(text), column["min"]), column["max"])
        if part["kind"] == "one-of":
            row += [float(k == code) for k in range(part["count"])]
        elif part["kind"] == "standardised":
            row.append(min(max(((code - part["min"]) / part["width"] - part["centre"]) / part["scale"], -part["limit"]), part["limit"]))
        elif part["kind"] == "levels":
            p, floor = part["shares"], part["floor"]
            if len(p) == 2:
                row.append(((2 * code - 1) - (2 * p[1] - 1)) / math.sqrt(4 * p[1] * (1 - p[1]) + floor))
            elif len(p) > 2:
                row += [((k == code) - q) / math.sqrt(q * (1 - q) + floor) for k, q in enumerate(p)]
        else:
            row.append(code / part["scale"] if part["kind"] == "scaled" else (code - part["min"]) / part["width"])
    row += [1.0] if model["encoder"]["bias"] else []
    norm = math.sqrt(sum(z * z for z in row)) if model["encoder"]["unit_rows"] else 1.0
    weights, d = model["weights"], len(row)
    scores = [sum(w * z for w, z in zip(weights[k : k + d], row)) / (norm or 1.0) for k in range(0, len(weights), d)]
    if not model.get("classes"):
        log = any(c.get("transform") == "log" for c in model["schema"]["column"])
        print(math.exp(scores[0]) if log else scores[0])
    elif len(scores) == 1:
        print(1 / (1 + math.exp(-scores[0])))
    else:
        powers = [math.exp(s - max(scores)) for s in scores]
        print(*(p / sum(powers) for p in powers))
