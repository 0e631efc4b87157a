"""Makes flamby-split.csv: which patients FLamby (Ogier du Terrail et al., 2022) trains and tests on, by centre and row of the file.

Its rule for Heart Disease: leave out slope, ca and thal, then patients with a missing value; the rest of each centre goes through
scikit-learn's train_test_split, stratified by illness where both classes have more than two patients (not Switzerland, which has one
healthy patient left). Made with scikit-learn 1.9.1; run beside the four files:  python3 flamby_split.py
"""
from sklearn.model_selection import train_test_split

with open("flamby-split.csv", "w") as out:
    out.write("centre,row,part\n")
    for centre in ["cleveland", "hungarian", "switzerland", "va"]:
        rows = [line.strip().split(",") for line in open(f"processed.{centre}.data") if line.strip()]
        kept = [i for i, r in enumerate(rows) if "?" not in r[:10] + r[13:]]
        ill = [int(float(rows[i][13])) > 0 for i in kept]
        enough = min(sum(ill), len(ill) - sum(ill)) > 2
        train, test = train_test_split(
            kept, test_size=1.0 - 0.66, train_size=0.66, random_state=43, stratify=ill if enough else None
        )
        parts = {**{i: "train" for i in train}, **{i: "test" for i in test}}
        for i in sorted(parts):
            out.write(f"{centre},{i},{parts[i]}\n")
        print(centre, len(train), len(test))
