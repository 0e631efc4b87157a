"""a9a, the anchor of 16 agents on a ring, made from UCI's Adult: LIBSVM files, schema and experiment.

    zstd -d crates/consenso-study/data/adult.data.zst -o adult.data
    zstd -d crates/consenso-study/data/adult.test.zst -o adult.test
    python benches/a9a.py adult.data adult.test DIR && consenso run DIR/a9a.toml

LIBSVM's a9a is Adult with every number cut at the quintiles of the training records and every category a column of its own: 123
columns of 0 and 1 (Platt, 1998). A value that is missing has no column. The counts that are known of the file are checked here.
"""

import pathlib
import sys

# Where each number is cut: the first value of every part but the first one.
CUTS = {"age": (26, 33, 41, 50), "fnlwgt": (106648, 158662, 196338, 259873), "education-num": (9, 10, 11, 13),
        "capital-gain": (1,), "capital-loss": (1,), "hours-per-week": (35, 40, 41, 48)}
# Categories in the order of adult.names.
CATEGORIES = {
    "workclass": "Private,Self-emp-not-inc,Self-emp-inc,Federal-gov,Local-gov,State-gov,Without-pay,Never-worked",
    "education": "Bachelors,Some-college,11th,HS-grad,Prof-school,Assoc-acdm,Assoc-voc,9th,7th-8th,12th,Masters,1st-4th,10th,Doctorate,"
                 "5th-6th,Preschool",
    "marital-status": "Married-civ-spouse,Divorced,Never-married,Separated,Widowed,Married-spouse-absent,Married-AF-spouse",
    "occupation": "Tech-support,Craft-repair,Other-service,Sales,Exec-managerial,Prof-specialty,Handlers-cleaners,Machine-op-inspct,"
                  "Adm-clerical,Farming-fishing,Transport-moving,Priv-house-serv,Protective-serv,Armed-Forces",
    "relationship": "Wife,Own-child,Husband,Not-in-family,Other-relative,Unmarried",
    "race": "White,Asian-Pac-Islander,Amer-Indian-Eskimo,Other,Black",
    "sex": "Female,Male",
    "native-country": "United-States,Cambodia,England,Puerto-Rico,Canada,Germany,Outlying-US(Guam-USVI-etc),India,Japan,Greece,South,"
                      "China,Cuba,Iran,Honduras,Philippines,Italy,Poland,Jamaica,Vietnam,Mexico,Portugal,Ireland,France,"
                      "Dominican-Republic,Laos,Ecuador,Taiwan,Haiti,Columbia,Hungary,Guatemala,Nicaragua,Scotland,Thailand,Yugoslavia,"
                      "El-Salvador,Trinadad&Tobago,Peru,Hong,Holand-Netherlands",
}
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
           "capital-gain", "capital-loss", "hours-per-week", "native-country"]
# Records, of them above 50K, and ones in the file.
KNOWN = {"a9a": (32561, 7841, 451592), "a9a.t": (16281, 3846, 225731)}
EXPERIMENT = """name = "a9a"
runs = 3
seed = 1
[data]
path = "a9a"
test = "a9a.t"
schema = "schema.toml"
encoding = "one-hot"
agents = 16
[objective]
loss = "logistic"
regularization = 1e-3
[graph]
kind = "ring"
[privacy]
epsilon = 3.0
delta = 1e-5
"""


def parts(column):
    return len(CUTS[column]) + 1 if column in CUTS else CATEGORIES[column].count(",") + 1


def records(path):
    """The label and the columns that are 1 of every record, from 1."""
    for line in pathlib.Path(path).read_text().splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 15:
            continue
        first, ones = 1, []
        for column, cell in zip(COLUMNS, cells):
            if column in CUTS:
                ones.append(first + sum(float(cell) >= cut for cut in CUTS[column]))
            elif cell != "?":
                ones.append(first + CATEGORIES[column].split(",").index(cell))
            first += parts(column)
        yield ">50K" in cells[-1], ones


def main():
    train, test, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in (("a9a", train), ("a9a.t", test)):
        rows = list(records(path))
        found = (len(rows), sum(rich for rich, _ in rows), sum(len(ones) for _, ones in rows))
        assert found == KNOWN[name], f"{path}: {found} records, labels and ones, not {KNOWN[name]}"
        lines = ["{} {}".format("+1" if rich else "-1", " ".join(f"{one}:1" for one in ones)) for rich, ones in rows]
        (folder / name).write_text("\n".join(lines) + "\n")
    total = sum(parts(column) for column in COLUMNS)
    assert total == 123
    column = "[[column]]\nname = \"x{}\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n"
    schema = "reviewed = true\n" + "".join(column.format(k) for k in range(1, total + 1))
    (folder / "schema.toml").write_text(schema + "[[column]]\nname = \"label\"\nkind = \"label\"\nclasses = [\"-1\", \"1\"]\n")
    kinds = ["dgd", "decor"]
    (folder / "a9a.toml").write_text(EXPERIMENT + "".join(f"[[algorithm]]\nkind = \"{kind}\"\n" for kind in kinds))


if __name__ == "__main__":
    main()
