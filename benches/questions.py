"""Answers under noise beside a curator: `cargo xtask bench questions`.

Means, quartiles, cells of a table and survival curves of Adult by occupation, of the heart records by
centre and of simulated times, at two budgets: mean absolute error of

- consenso with sums in secret (`exchange = "masked"`, one colluder) and without (`plain`),
- the same mechanism with a curator, who has all records (one site),
- OpenDP's Gaussian noise, calibrated by OpenDP to the same (ε, δ), for means and cells,
- diffprivlib at the same ε (which is pure) for all,

under replacing one record, with how often 95 % intervals of the first cover, what `consenso plan`
expects of the error, and between which it says that this lies. Usage: questions.py CONSENSO REPOSITORY FOLDER [DRAWS]
"""

import csv
import json
import math
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import diffprivlib.tools as diffpriv
import numpy as np
import opendp.prelude as dp
import zstandard

dp.enable_features("contrib")
CONSENSO, ROOT, PLACE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
DRAWS = int(sys.argv[4]) if len(sys.argv) > 4 else 200
DELTA = 1e-6
# What is told to `plan`: means and standard deviations near those of the records (ages of Adult, of
# the heart study, simulated times), by their range.
KNOWN = {(17, 90): (39, 13), (20, 90): (54, 9), (0, 12): (4.5, 3.5)}
DATA = ROOT / "crates" / "consenso-study" / "data"


def adult():
    """Age, sex and race by occupation, without records that miss the occupation."""
    sites = {}
    with zstandard.open(DATA / "adult.data.zst", "rt") as lines:
        for line in lines:
            cells = [c.strip() for c in line.split(",")]
            if len(cells) == 15 and cells[6] != "?":
                row = (float(cells[0]), cells[9], cells[8])
                sites.setdefault(cells[6], []).append(row)
    return "adult by occupation", sites, (17, 90), "crosstab sex race"


def heart():
    """Age, sex and chest pain by centre."""
    sites = {}
    for centre in ["cleveland", "hungarian", "switzerland", "va"]:
        for line in open(DATA / "heart" / f"processed.{centre}.data"):
            cells = line.strip().split(",")
            if "?" not in (cells[0], cells[1], cells[2]):
                row = (float(cells[0]), "fm"[int(float(cells[1]))], "p" + str(int(float(cells[2]))))
                sites.setdefault(centre, []).append(row)
    return "heart by centre", sites, (20, 90), "crosstab sex race"


def times():
    """6,000 simulated persons in ten sites and two arms: a time, an event, an arm."""
    rng, sites = np.random.default_rng(11), {}
    for k in range(6000):
        arm = int(rng.integers(2))
        event, lost = rng.exponential(8.0 if arm else 5.0), rng.uniform(2.0, 20.0)
        row = (min(event, lost, 12.0), "yes" if event <= min(lost, 12.0) else "no", "ab"[arm])
        sites.setdefault(f"s{k % 10}", []).append(row)
    return "simulated times", sites, (0, 12), "survival number sex by race"


def write(folder, sites, bounds):
    """One file per site, one with all records, and a schema."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for site in sites.values() for row in site]
    for name, part in [*sites.items(), ("../" + folder.name + "-all", rows)]:
        with open(folder / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["number", "sex", "race", "y"])
            table.writerows([*row, "no" if k % 2 else "yes"] for k, row in enumerate(part))
    quoted = lambda at: json.dumps(sorted({row[at] for row in rows}))
    # What is known from elsewhere, in whole years or halves: `consenso plan` turns ranks into the
    # unit of the column with it. Of times an earlier trial of the same design would say as much.
    known = "\nmean = {}\nsd = {}".format(*KNOWN[bounds])
    # Ages are whole years.
    known += "" if bounds[0] == 0 else "\nstep = 1"
    shares = "\nshares = [0.3, 0.7]" if bounds[0] == 0 else ""
    column = '[[column]]\nname = "{}"\nkind = "{}"\n{}\n'.format
    (folder / "schema.toml").write_text(
        "reviewed = true\n"
        + column("number", "numeric", f"min = {bounds[0]}\nmax = {bounds[1]}{known}")
        + column("sex", "categorical", f"categories = {quoted(1)}{shares}")
        + column("race", "categorical", f"categories = {quoted(2)}")
        + column("y", "label", 'classes = ["no", "yes"]')
    )
    return rows


def study(folder, trust, epsilon):
    """A study file of these records: all in one place for a curator."""
    where = f"../{folder.name}-all.csv" if trust == "curator" else "*.csv"
    agents = "agents = 1\n" if trust == "curator" else ""
    budget = f"[privacy]\nepsilon = {epsilon}\ndelta = {DELTA}\n" if epsilon else ""
    masked = '[questions]\nexchange = "masked"\ncolluders = 1\n' if trust == "masked" else ""
    path = folder / f"{trust}-{epsilon}.toml"
    path.write_text(
        f'name = "bench"\n[data]\npath = "{where}"\nschema = "schema.toml"\n{agents}'
        f'[graph]\nkind = "complete"\n{budget}{masked}'
    )
    return path


def expected(path, question):
    """The mean absolute error that `consenso plan` expects of the answers, and its range."""
    kind, *names = question.split()
    columns = {"mean": "column", "quantiles": "column", "survival": "column"}
    table = {"kind": kind}
    if kind == "crosstab":
        table["columns"] = names
    else:
        table[columns[kind]] = names[0]
    if len(names) > 1 and names[1].startswith("q="):
        table["q"] = [float(q) for q in names[1][2:].split(",")]
    if kind == "survival":
        table |= {"event": names[1], "by": names[3]}
    words = "\n".join(f"{k} = {json.dumps(v)}" for k, v in table.items())
    asked = path.with_suffix(".plan.toml")
    asked.write_text(f"{path.read_text()}[[query]]\n{words}\n")
    found = [e for q in run(["plan", asked])["queries"] for e in q["expected"]]
    ends = [e.get("range", [e["error"]] * 2) for e in found]
    return float(np.mean([e["error"] for e in found])), *np.mean(ends, axis=0).tolist()


def run(words):
    out = subprocess.run([CONSENSO, *map(str, words), "--json"], capture_output=True, check=True)
    return json.loads(out.stdout)


def ask(path, question, draws):
    """The answers of so many draws of the noise."""
    one = lambda seed: run(["ask", path, question, "--seed", seed])["queries"][0]["answers"]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(1, draws + 1)))


def key(answer):
    return tuple(str(answer.get(k)) for k in ("group", "what", "level", "q", "at"))


def compare(draws, exact, kinds):
    """Mean absolute error, share of intervals that cover, and mean deviation that they claim."""
    errors, covered, noise = [], [], []
    for answers in draws:
        for answer in answers:
            true = exact.get(key(answer))
            if answer["what"] in kinds and true is not None and not answer["below_noise"]:
                errors.append(answer["estimate"] - true)
                covered.append(answer["low"] - 1e-9 <= true <= answer["high"] + 1e-9)
                noise.append(answer["noise"])
    return float(np.mean(np.abs(errors))), float(np.mean(covered)), float(np.mean(noise))


def gaussian(length, sensitivity, epsilon):
    """OpenDP's noise for a vector that one record moves by so much in l2."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def make(scale):
        plain = dp.m.make_gaussian(*space, scale=scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(plain), DELTA)

    within = lambda scale: make(scale).map(sensitivity)[0] <= epsilon
    scale = dp.binary_search(within, bounds=(sensitivity, 1000.0 * sensitivity))
    noise = make(scale)
    return lambda: np.array(noise([0.0] * length))


def cells(rows, levels):
    table = np.zeros((len(levels[0]), len(levels[1])))
    for row in rows:
        table[levels[0].index(row[1]), levels[1].index(row[2])] += 1
    return table


def curve(histogram):
    """Survival after every sixteenth of the range, as consenso does it, by arm."""
    out = []
    for arm in range(2):
        lost, events = np.maximum(histogram[:, 0, arm], 0), np.maximum(histogram[:, 1, arm], 0)
        risk = np.cumsum((lost + events)[::-1])[::-1] - 0.5 * lost
        hazard = np.cumsum(events / np.maximum(risk, 1.0))
        out.append(np.exp(-hazard)[7::8])
    return np.array(out)


def peers(rows, bounds, question, epsilon, exact, draws):
    """What OpenDP and diffprivlib err by: mean, quartiles, cells or curve."""
    numbers = np.array([row[0] for row in rows])
    levels = [sorted({row[at] for row in rows}) for at in (1, 2)]
    width, n = bounds[1] - bounds[0], len(rows)
    codes = np.array([[row[0], levels[0].index(row[1]), levels[1].index(row[2])] for row in rows])
    found = {}
    if question.startswith("mean"):
        noise = gaussian(1, width / n, epsilon)
        found["opendp"] = [abs(noise()[0]) for _ in range(draws)]
        one = lambda: diffpriv.mean(numbers, epsilon=epsilon, bounds=bounds) - numbers.mean()
        found["diffprivlib"] = [abs(one()) for _ in range(draws)]
    elif question.startswith("quantiles"):
        true = np.array([exact[k] for k in exact])
        wanted = [float(key[3]) for key in exact]
        one = lambda: diffpriv.quantile(numbers, wanted, epsilon=epsilon, bounds=bounds)
        found["diffprivlib"] = [np.abs(one() - true).mean() for _ in range(draws)]
    elif question.startswith("crosstab"):
        table = cells(rows, levels)
        noise = gaussian(table.size, math.sqrt(2.0), epsilon)
        found["opendp"] = [np.abs(noise()).mean() for _ in range(draws)]
        bins = [np.arange(len(level) + 1) - 0.5 for level in levels]
        # diffprivlib adds or removes a record; replacing one is both.
        one = lambda: diffpriv.histogramdd(codes[:, 1:], epsilon=epsilon / 2, bins=bins)[0]
        found["diffprivlib"] = [np.abs(one() - table).mean() for _ in range(draws)]
    else:
        edges = [np.linspace(*bounds, 129), np.arange(3) - 0.5, np.arange(3) - 0.5]
        true = curve(np.histogramdd(codes, bins=edges)[0])
        one = lambda: curve(diffpriv.histogramdd(codes, epsilon=epsilon / 2, bins=edges)[0])
        found["diffprivlib"] = [np.abs(one() - true)[:, 7].mean() for _ in range(draws)]
    return {name: float(np.mean(errors)) for name, errors in found.items()}


def main():
    for name, sites, bounds, table in (adult(), heart(), times()):
        folder = PLACE / name.replace(" ", "-")
        rows = write(folder, sites, bounds)
        survival = table.startswith("survival")
        # Quartiles are three draws of where a quantile lies among equal ages; twentieths are many.
        many = "quantiles number q=" + ",".join(str(k / 20) for k in range(1, 20))
        usual = ["mean number", "quantiles number", many, table]
        questions = [table] if survival else usual
        for question in questions:
            answers = run(["ask", study(folder, "exact", None), question])["queries"][0]["answers"]
            kinds = {"mean", "quantile", "count", "survival"}
            # Curves end where too few are left to say anything: the middle is compared, of which
            # `plan` speaks.
            keep = lambda a: a["what"] in kinds and (not survival or a["at"] == 0.5 * bounds[1])
            exact = {key(a): a["estimate"] for a in answers if keep(a)}
            if question.startswith("quantiles"):
                ages = np.sort([row[0] for row in rows])
                q = lambda k: float(ages[math.ceil(float(k[3]) * len(ages)) - 1])
                exact = {k: q(k) for k in exact}
            for epsilon in (0.5, 1.0):
                line = {"records": name, "question": question, "epsilon": epsilon}
                for trust in ("masked", "plain", "curator"):
                    path = study(folder, trust, epsilon)
                    found = ask(path, question, DRAWS)
                    line[trust], coverage, noise = compare(found, exact, kinds)
                    if trust == "masked":
                        line["coverage"] = coverage
                        # A normal error's mean size is √(2/π) of its deviation.
                        line["claimed"] = noise * math.sqrt(2 / math.pi)
                        line["expected"], line["least"], line["most"] = expected(path, question)
                line |= peers(rows, bounds, question, epsilon, exact, DRAWS)
                print(json.dumps(line), flush=True)


main()
