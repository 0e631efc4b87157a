"""OMOP and FHIR extracts as a table with a public schema."""

import csv

import pytest

import consenso
from consenso import clinical


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_omop_and_fhir_of_the_same_people_are_the_same_records(tmp_path):
    omop = clinical.from_omop(clinical.example_omop(tmp_path / "cdm"), condition=201826, as_of=2026, out=tmp_path / "a")
    fhir = clinical.from_fhir(
        [clinical.example_fhir(tmp_path / "all.ndjson")], condition="44054006", as_of=2026, out=tmp_path / "b"
    )
    assert rows(omop.records) == rows(fhir.records) and omop.persons == 300 and not omop.left_out
    assert {row["found"] for row in rows(omop.records)} == {"no", "yes"}
    assert omop.schema.read_text().split("\n", 1)[1] == fhir.schema.read_text().split("\n", 1)[1]


def test_the_schema_does_not_depend_on_the_records(tmp_path):
    texts = set()
    for seed, persons in ((1, 20), (2, 200)):
        cdm = clinical.example_omop(tmp_path / f"cdm{seed}", persons, seed)
        texts.add(clinical.from_omop(cdm, condition=201826, as_of=2026, out=tmp_path / f"out{seed}").schema.read_text())
    assert len(texts) == 1 and "reviewed = false" in texts.pop()


def test_the_program_reads_what_was_written(tmp_path):
    cdm = clinical.example_omop(tmp_path / "cdm")
    made = clinical.from_omop(cdm, condition=201826, as_of=2026, out=tmp_path / "out", measurements=["hba1c", "weight"])
    made.schema.write_text(made.schema.read_text().replace("reviewed = false", "reviewed = true"))
    found = consenso.cli("data", "check", str(made.records), "--schema", str(made.schema))
    assert "300" in str(found), found


def test_units_are_converted_or_left_out_and_the_last_value_counts(tmp_path):
    place = tmp_path / "cdm"
    place.mkdir()
    (place / "PERSON.csv").write_text("PERSON_ID,GENDER_CONCEPT_ID,YEAR_OF_BIRTH\n1,8532,1980\n2,0,\n")
    (place / "measurement.csv").write_text(
        "person_id,measurement_concept_id,measurement_date,value_as_number,unit_concept_id\n"
        "1,3025315,2024-01-01,200,8739\n1,3025315,2020-01-01,50,9529\n1,3004501,2024-01-01,5.5,8753\n"
    )
    (place / "condition_occurrence.csv").write_text("person_id,condition_concept_id\n")
    made = clinical.from_omop(place, condition=1, as_of=2026, out=tmp_path / "out")
    (row,) = rows(made.records)
    assert row["age"] == "46" and row["sex"] == "female" and abs(float(row["weight"]) - 90.718) < 1e-3
    assert row["glucose"] == "" and row["found"] == "no"
    assert made.left_out == {
        "persons without a year of birth": 1, "glucose: no number, or a unit that cannot be converted": 1,
    }


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(consenso.InputError, match="no person.csv"):
        clinical.from_omop(tmp_path, condition=1, as_of=2026, out=tmp_path / "out")
    (tmp_path / "person.csv").write_text("person_id,gender_concept_id\n")
    with pytest.raises(consenso.InputError, match="line 1: there is no column year_of_birth"):
        clinical.from_omop(tmp_path, condition=1, as_of=2026, out=tmp_path / "out")
    with pytest.raises(consenso.InputError, match="not known; there are weight"):
        clinical.from_omop(tmp_path, condition=1, as_of=2026, out=tmp_path / "out", measurements=["mood"])
    (tmp_path / "x.ndjson").write_text("{}\nno\n")
    with pytest.raises(consenso.InputError, match="line 2: this is no JSON"):
        clinical.from_fhir([tmp_path / "x.ndjson"], condition="1", as_of=2026, out=tmp_path / "out")
