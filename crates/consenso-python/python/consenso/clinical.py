"""Clinical records as files people have: a flat table and its public schema from an OMOP CDM extract or FHIR resources.

One row per person: age, sex, the last value of common measurements, and whether a condition was recorded. Which columns
there are, their ranges, usual values and levels stand in this file: they are public knowledge and nothing is taken from
the records, so that a claim can rest on the schema once somebody has read it.

>>> from consenso import clinical
>>> made = clinical.from_omop("extract", condition=201826, as_of=2026, out="site-a")   # doctest: +SKIP
>>> made.schema                                                                        # doctest: +SKIP
PosixPath('site-a/schema.toml')
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

from ._core import InputError

__all__ = ["MEASUREMENTS", "Made", "Measurement", "example_fhir", "example_omop", "from_fhir", "from_omop"]

PathLike = Union[str, Path]


@dataclass(frozen=True)
class Measurement:
    """A measurement that everybody makes: its codes, its unit, the range that instruments and bodies allow, a usual value."""

    name: str
    omop: int
    loinc: str
    unit: str
    low: float
    high: float
    usual: float


#: What a table can have. Ranges are physical or those of instruments, usual values those of a textbook.
MEASUREMENTS = (
    Measurement("weight", 3025315, "29463-7", "kg", 0.5, 300.0, 70.0),
    Measurement("height", 3036277, "8302-2", "cm", 30.0, 230.0, 168.0),
    Measurement("bmi", 3038553, "39156-5", "kg/m2", 8.0, 80.0, 25.0),
    Measurement("systolic", 3004249, "8480-6", "mm[Hg]", 40.0, 280.0, 125.0),
    Measurement("diastolic", 3012888, "8462-4", "mm[Hg]", 20.0, 180.0, 78.0),
    Measurement("heart_rate", 3027018, "8867-4", "/min", 20.0, 250.0, 75.0),
    Measurement("temperature", 3020891, "8310-5", "Cel", 30.0, 44.0, 36.8),
    Measurement("hba1c", 3004410, "4548-4", "%", 3.0, 20.0, 5.6),
    Measurement("glucose", 3004501, "2345-7", "mg/dL", 10.0, 1000.0, 100.0),
    Measurement("creatinine", 3016723, "2160-0", "mg/dL", 0.1, 25.0, 0.9),
    Measurement("haemoglobin", 3000963, "718-7", "g/dL", 2.0, 25.0, 14.0),
    Measurement("cholesterol", 3027114, "2093-3", "mg/dL", 40.0, 700.0, 190.0),
    Measurement("hdl", 3007070, "2085-9", "mg/dL", 5.0, 200.0, 52.0),
    Measurement("triglycerides", 3022192, "2571-8", "mg/dL", 10.0, 5000.0, 130.0),
)

#: Units of OMOP by the words of UCUM.
_UNITS = {9529: "kg", 8739: "[lb_av]", 8582: "cm", 9330: "[in_i]", 9531: "kg/m2", 8876: "mm[Hg]", 8541: "/min", 8483: "/min",
          586323: "Cel", 9289: "[degF]", 8554: "%", 8840: "mg/dL", 8753: "mmol/L", 8713: "g/dL"}
#: From another unit to the table's, by the measurement's name where it matters.
_CONVERT: dict[tuple[str, str], Callable[[float], float]] = {
    ("[lb_av]", "kg"): lambda x: x * 0.45359237,
    ("[in_i]", "cm"): lambda x: x * 2.54,
    ("[degF]", "Cel"): lambda x: (x - 32.0) / 1.8,
}
_SEXES = {8507: "male", 8532: "female"}


@dataclass
class Made:
    """What was written, and what was left out of it, for the operator alone: the counts are functions of the records."""

    records: Path
    schema: Path
    persons: int
    left_out: Counter[str] = field(default_factory=Counter)


def _chosen(names: Optional[Sequence[str]]) -> tuple[Measurement, ...]:
    known = {m.name: m for m in MEASUREMENTS}
    for name in names or ():
        if name not in known:
            raise InputError(f"measurements: {name!r} is not known; there are {', '.join(known)}")
    return tuple(known[name] for name in names) if names is not None else MEASUREMENTS


def _rows(folder: Path, table: str, needed: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of a table of the CDM, whatever the case of its name and of its columns."""
    files = [p for p in sorted(folder.glob("*")) if p.suffix.lower() in (".csv", ".tsv", ".txt") and p.stem.lower() == table]
    if not files:
        raise InputError(f"{folder}: there is no {table}.csv, which an extract of the OMOP CDM has")
    with files[0].open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        rows = csv.DictReader(file, delimiter="\t" if "\t" in first else ",")
        names = {name: name.strip().lower() for name in rows.fieldnames or []}
        for column in needed:
            if column not in names.values():
                raise InputError(f"{files[0]}: line 1: there is no column {column}")
        for row in rows:
            yield {names[key]: (value or "").strip() for key, value in row.items() if key in names}


def _number(text: Any) -> Optional[float]:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _value(measurement: Measurement, value: Optional[float], unit: Optional[str]) -> Optional[float]:
    """The value in the table's unit; nothing where the unit is another that cannot be converted."""
    if value is None or unit in (None, measurement.unit):
        return value
    convert = _CONVERT.get((unit or "", measurement.unit))
    return None if convert is None else convert(value)


def from_omop(
    folder: PathLike,
    *,
    condition: int,
    as_of: int,
    out: PathLike,
    measurements: Optional[Sequence[str]] = None,
) -> Made:
    """Write ``records.csv`` and ``schema.toml`` from a folder with person, measurement and condition_occurrence tables.

    Parameters
    ----------
    folder : path
        CSV files of the OMOP Common Data Model, version 5.
    condition : int
        Concept id of the condition to predict, such as 201826 (type 2 diabetes mellitus).
    as_of : int
        Year that ages are counted from: agreed among sites, not taken from the records.
    out : path
        Folder to write to; it must not exist yet.
    measurements : sequence of str, optional
        Names out of :data:`MEASUREMENTS`; all of them by default. Agreed among sites.
    """
    folder, chosen = Path(folder), _chosen(measurements)
    by_concept = {m.omop: m for m in chosen}
    left_out: Counter[str] = Counter()
    people: dict[str, dict[str, Any]] = {}
    for row in _rows(folder, "person", ["person_id", "gender_concept_id", "year_of_birth"]):
        born = _number(row["year_of_birth"])
        if born is None:
            left_out["persons without a year of birth"] += 1
            continue
        sex = _SEXES.get(int(_number(row["gender_concept_id"]) or 0), "other")
        people[row["person_id"]] = {"age": as_of - int(born), "sex": sex, "found": "no", "dates": {}}
    needed = ["person_id", "measurement_concept_id", "value_as_number"]
    for row in _rows(folder, "measurement", needed):
        measurement = by_concept.get(int(_number(row["measurement_concept_id"]) or 0))
        person = people.get(row["person_id"])
        if measurement is None or person is None:
            continue
        unit = _UNITS.get(int(_number(row.get("unit_concept_id")) or 0)) if _number(row.get("unit_concept_id")) else None
        value = _value(measurement, _number(row["value_as_number"]), unit)
        _keep(person, measurement, value, row.get("measurement_date", ""), left_out)
    for row in _rows(folder, "condition_occurrence", ["person_id", "condition_concept_id"]):
        if _number(row["condition_concept_id"]) == condition and row["person_id"] in people:
            people[row["person_id"]]["found"] = "yes"
    return _write(Path(out), people.values(), chosen, f"condition {condition} of OMOP", left_out)


def _keep(person: dict[str, Any], measurement: Measurement, value: Optional[float], date: str, left_out: Counter[str]) -> None:
    if value is None:
        left_out[f"{measurement.name}: no number, or a unit that cannot be converted"] += 1
    elif date >= person["dates"].get(measurement.name, ""):
        person[measurement.name], person["dates"][measurement.name] = value, date


def from_fhir(
    files: Iterable[PathLike],
    *,
    condition: str,
    as_of: int,
    out: PathLike,
    measurements: Optional[Sequence[str]] = None,
) -> Made:
    """Write ``records.csv`` and ``schema.toml`` from FHIR resources: NDJSON, one resource per line, or bundles.

    ``condition`` is a code of Condition, such as ``"44054006"`` (SNOMED CT, type 2 diabetes mellitus); otherwise as
    :func:`from_omop`. Patients, observations with a LOINC code and a quantity, and conditions are read, the rest is not.
    """
    chosen = _chosen(measurements)
    by_code = {m.loinc: m for m in chosen}
    left_out: Counter[str] = Counter()
    resources = [resource for file in files for resource in _resources(Path(file))]
    people: dict[str, dict[str, Any]] = {}
    for patient in (r for r in resources if r.get("resourceType") == "Patient"):
        born = _number(str(patient.get("birthDate", ""))[:4])
        if born is None:
            left_out["persons without a date of birth"] += 1
            continue
        sex = patient.get("gender")
        people[f"Patient/{patient.get('id')}"] = {
            "age": as_of - int(born), "sex": sex if sex in ("male", "female") else "other", "found": "no", "dates": {},
        }
    for resource in resources:
        person = people.get(str((resource.get("subject") or {}).get("reference", "")).replace("urn:uuid:", "Patient/"))
        if person is None:
            continue
        codes = [coding.get("code") for coding in (resource.get("code") or {}).get("coding", [])]
        if resource["resourceType"] == "Condition" and condition in codes:
            person["found"] = "yes"
        if resource["resourceType"] == "Observation":
            parts = [(codes, resource.get("valueQuantity"))]
            # Blood pressure is one observation with two components.
            for part in resource.get("component", []):
                inner = [coding.get("code") for coding in (part.get("code") or {}).get("coding", [])]
                parts.append((inner, part.get("valueQuantity")))
            for found, quantity in parts:
                for measurement in (by_code[code] for code in found if code in by_code):
                    value = _number((quantity or {}).get("value"))
                    value = _value(measurement, value, (quantity or {}).get("code") or (quantity or {}).get("unit"))
                    _keep(person, measurement, value, str(resource.get("effectiveDateTime", "")), left_out)
    return _write(Path(out), people.values(), chosen, f"condition {condition} of FHIR", left_out)


def _resources(file: Path) -> Iterator[dict[str, Any]]:
    text = file.read_text(encoding="utf-8-sig")
    lines = [text] if text.lstrip().startswith("{") and _is_json(text) else text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            resource = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{file}: line {number}: this is no JSON: {error}") from None
        if resource.get("resourceType") == "Bundle":
            for entry in resource.get("entry", []):
                inner = dict(entry.get("resource") or {})
                if str(entry.get("fullUrl", "")).startswith("urn:uuid:"):
                    inner.setdefault("id", entry["fullUrl"][len("urn:uuid:") :])
                yield inner
        else:
            yield resource


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _write(
    out: Path, people: Iterable[dict[str, Any]], chosen: Sequence[Measurement], what: str, left_out: Counter[str]
) -> Made:
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{out}: exists already, and nothing is written over") from None
    names = ["age", "sex", *(m.name for m in chosen), "found"]
    count = 0
    with (out / "records.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for person in people:
            writer.writerow([person.get(name, "") for name in names])
            count += 1
    (out / "schema.toml").write_text(_schema(chosen, what), encoding="utf-8")
    return Made(out / "records.csv", out / "schema.toml", count, left_out)


def _schema(chosen: Sequence[Measurement], what: str) -> str:
    """Public knowledge alone: the same file for every site, whatever its records."""
    parts = [
        f"# One row per person; found: {what}.\n"
        "# Nothing here was taken from records: ranges are those of bodies and instruments, usual values stand where none\n"
        "# was measured. Read it, change what your study knows better, then set reviewed = true.\n\n"
        'reviewed = false\nmissing = [""]\n\n'
        '[[column]]\nname = "age"\nkind = "numeric"\nmin = 0\nmax = 110\n\n'
        '[[column]]\nname = "sex"\nkind = "categorical"\ncategories = ["female", "male", "other"]\n'
    ]
    parts += [
        f'\n[[column]]  # {m.unit}\nname = "{m.name}"\nkind = "numeric"\nmin = {m.low}\nmax = {m.high}\n'
        f"missing = {{ impute = {m.usual} }}\nindicator = true\n"
        for m in chosen
    ]
    return "".join(parts) + '\n[[column]]\nname = "found"\nkind = "label"\nclasses = ["no", "yes"]\npositive = "yes"\n'


def _people(persons: int, seed: int) -> Iterator[tuple[int, int, bool, list[tuple[Measurement, float]]]]:
    """Made-up people: id, year of birth, whether they are ill, and what was measured."""
    rng = random.Random(seed)
    for person in range(1, persons + 1):
        born, ill = rng.randint(1935, 2004), rng.random() < 0.3
        values = []
        for m in MEASUREMENTS:
            if rng.random() < 0.8:
                shift = 1.25 if ill and m.name in ("hba1c", "glucose", "weight") else 1.0
                spread = {"temperature": 0.015, "height": 0.06}.get(m.name, 0.12)
                value = m.usual * shift * (1.0 + spread * rng.gauss(0, 1))
                values.append((m, round(min(max(value, m.low), m.high), 2)))
        yield person, born, ill, values


def example_omop(folder: PathLike, persons: int = 300, seed: int = 1) -> Path:
    """Write a made-up OMOP extract, some of whose people have condition 201826."""
    place = Path(folder)
    place.mkdir(parents=True)
    units = {name: concept for concept, name in reversed(_UNITS.items())}
    tables: dict[str, list[list[Any]]] = {
        "person": [["person_id", "gender_concept_id", "year_of_birth"]],
        "measurement": [["person_id", "measurement_concept_id", "measurement_date", "value_as_number", "unit_concept_id"]],
        "condition_occurrence": [["person_id", "condition_concept_id", "condition_start_date"]],
    }
    for person, born, ill, values in _people(persons, seed):
        tables["person"].append([person, 8507 if person % 2 else 8532, born])
        tables["measurement"] += [[person, m.omop, "2025-03-01", value, units[m.unit]] for m, value in values]
        if ill:
            tables["condition_occurrence"].append([person, 201826, "2024-05-01"])
    for name, rows in tables.items():
        with (place / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return place


def example_fhir(file: PathLike, persons: int = 300, seed: int = 1) -> Path:
    """Write made-up FHIR resources as NDJSON, some of whose people have condition 44054006."""
    lines: list[dict[str, Any]] = []
    for person, born, ill, values in _people(persons, seed):
        subject = {"reference": f"Patient/{person}"}
        gender = "male" if person % 2 else "female"
        lines.append({"resourceType": "Patient", "id": str(person), "birthDate": f"{born}-01-01", "gender": gender})
        for m, value in values:
            code = {"coding": [{"system": "http://loinc.org", "code": m.loinc}]}
            quantity = {"value": value, "unit": m.unit, "code": m.unit}
            lines.append({
                "resourceType": "Observation", "subject": subject, "code": code, "valueQuantity": quantity,
                "effectiveDateTime": "2025-03-01",
            })
        if ill:
            code = {"coding": [{"system": "http://snomed.info/sct", "code": "44054006"}]}
            lines.append({"resourceType": "Condition", "subject": subject, "code": code})
    path = Path(file)
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path
