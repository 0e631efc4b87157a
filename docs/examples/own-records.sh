#!/bin/sh
# From an export of a hospital's system to a model: semicolons, decimal commas, Latin-1 text, missing values, dates.
# The records of klinik.csv are made up. CI runs this script (crates/consenso-cli/tests/cli/own_records.rs).
#   CONSENSO=path/to/consenso docs/examples/own-records.sh FOLDER
set -eu
consenso=${CONSENSO:-consenso}
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:?a folder to work in}"

# 0. Every fifth record is kept for testing: nothing below looks at it before the model is finished.
LC_ALL=C awk 'NR == 1 || NR % 5 != 0' "$here/klinik.csv" > training.csv
LC_ALL=C awk 'NR == 1 || NR % 5 == 0' "$here/klinik.csv" > test.csv

# 1. Draft the schema. Everything about the file is found out but its encoding, which has to be named.
"$consenso" data schema training.csv --label Wiederaufnahme --positive ja --encoding latin-1 --out draft.toml

# 2. The review, the one step done by hand: ranges that are public without the records, what becomes of missing values.
sed -e 's/^reviewed = false/reviewed = true/' \
    -e '/^name = "Alter"/,/^max/{s/^min.*/min = 0/;s/^max.*/max = 110/;}' \
    -e '/^name = "Größe_BMI"/,/^max/{s/^min.*/min = 10/;s/^max.*/max = 60\nmissing = { impute = 25 }\nindicator = true/;}' \
    -e '/^name = "Kosten"/,/^max/{s/^min.*/min = 0/;s/^max.*/max = 50000/;}' \
    -e '/^name = "Aufnahme"/,/^max/{s/^min.*/min = "2015-01-01"/;s/^max.*/max = "2025-12-31"/;}' \
    draft.toml > schema.toml
"$consenso" data check training.csv --schema schema.toml

# 3. Train among four sites under a budget; the record has the figures on the test records.
#    (Without a file of test records, hold_out = 0.2 keeps a fifth of the records back.)
cat > klinik.toml <<END
name = "klinik"
runs = 1
[data]
path = "training.csv"
schema = "schema.toml"
agents = 4
test = "test.csv"
[graph]
kind = "complete"
[privacy]
epsilon = 5.0
delta = 1e-4
[[algorithm]]
kind = "dgd"
rounds = 20
END
"$consenso" run klinik.toml --out run --json > run.json

# 4. Apply the model to records it has not seen; those that have the label are judged, those that miss a value are counted.
"$consenso" predict run test.csv --proba --out predictions.csv --json > predict.json
