//! `consenso data`.

use crate::{Place, RECORDS, SCHEMA};

#[test]
fn info_describes_the_bundled_data() {
    let place = Place::new("info_adult");
    let value = place.consenso(&["data", "info", "adult", "--json"]).json();
    assert_eq!((&value["rows"], &value["reviewed"]), (&30162.into(), &true.into()));
    let one_hot = &value["encodings"][0];
    assert_eq!((&one_hot["encoding"], &one_hot["bounds"]["l2"]), (&"one-hot".into(), &1.0.into()));
    let text = place.consenso(&["data", "info", "adult"]).stdout;
    assert!(
        text.contains("hours-per-week") && text.contains(">50K") && text.contains("one-hot"),
        "{text}"
    );
}

#[test]
fn info_without_a_schema_says_that_it_was_drafted() {
    let place = Place::new("info_draft");
    place.write("records.csv", RECORDS);
    let answer = place.consenso(&["data", "info", "records.csv"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("computed from the records"), "{}", answer.stderr);
    assert!(answer.stdout.contains("NOT reviewed"), "{}", answer.stdout);
}

#[test]
fn check_points_at_the_first_problem() {
    let place = Place::new("check");
    place.write("schema.toml", SCHEMA).write("records.csv", RECORDS);
    place.write("bad.csv", &RECORDS.replace("72", "seventy"));
    let good = place
        .consenso(&["data", "check", "records.csv", "--schema", "schema.toml", "--json"])
        .json();
    assert_eq!(good["rows"], 6);
    let bad = place.consenso(&["data", "check", "bad.csv", "--schema", "schema.toml"]);
    bad.refused(&["bad.csv:5: column \"age\" holds \"seventy\""]);
    place
        .consenso(&["data", "check", "records.csv"])
        .refused(&["--schema", "consenso data schema records.csv"]);
    place
        .consenso(&["data", "check", "gone.csv", "--schema", "schema.toml"])
        .refused(&["gone.csv: cannot be read"]);
    place.write("schema.toml", "reviewed = true\n[[column]]\nname = \"x\"\nkind = \"nummeric\"\n");
    let bad = place.consenso(&["data", "check", "records.csv", "--schema", "schema.toml"]);
    bad.refused(&["schema.toml", "nummeric"]);
}

#[test]
fn a_drafted_schema_must_be_reviewed() {
    let place = Place::new("draft");
    place.write("records.csv", RECORDS);
    let draft =
        place.consenso(&["data", "schema", "records.csv", "--label", "ill", "--site", "ward"]);
    assert_eq!(draft.code, 0, "{}", draft.stderr);
    assert!(draft.stdout.contains("reviewed = false") && draft.stdout.contains("kind = \"site\""));
    assert!(draft.stderr.contains("review it before use"), "{}", draft.stderr);
    let written = place.consenso(&["data", "schema", "records.csv", "--out", "schema.toml"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let again = place.consenso(&["data", "schema", "records.csv", "--out", "schema.toml"]);
    again.refused(&["schema.toml", "nothing is written over"]);
    let checked = place
        .consenso(&["data", "check", "records.csv", "--schema", "schema.toml", "--json"])
        .json();
    assert_eq!(checked["reviewed"], false);
    place
        .consenso(&["data", "schema", "records.csv", "--label", "il"])
        .refused(&["did you mean \"ill\"?"]);
}

/// A workbook, a Parquet file and Arrow files hold the same records as the CSV they are read as,
/// also under a schema that was drafted from a file with semicolons and decimal commas.
#[cfg(any(feature = "xlsx", feature = "parquet", feature = "arrow"))]
#[test]
fn workbooks_and_files_of_columns_are_read_as_they_are() {
    let place = Place::new("sheets");
    place.write("records.csv", "ward,age,day,ill\n\"a, \"\"old\"\"\",40,2021-01-05,yes\nb,51.5,2021-02-06,no\nb,,2021-03-07,no\n\"a, \"\"old\"\"\",63,2021-04-08,yes\n");
    let draft = |file: &str| {
        let answer = place.consenso(&["data", "schema", file]);
        assert_eq!(answer.code, 0, "{file}: {}", answer.stderr);
        answer.stdout
    };
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/records");
    place.write("german.csv", "ward;age;day;ill\na;40,5;2021-01-05;yes\nb;51,5;2021-02-06;no\n");
    let german = draft("german.csv").replace("[\"a\", \"b\"]", "['a, \"old\"', \"b\"]");
    assert!(german.contains("decimal = \",\""), "{german}");
    place.write("german.toml", &german);
    let kinds = [
        (".xlsx", cfg!(feature = "xlsx")),
        (".parquet", cfg!(feature = "parquet")),
        ("-ms.parquet", cfg!(feature = "parquet")),
        ("-us.parquet", cfg!(feature = "parquet")),
        ("-ns.parquet", cfg!(feature = "parquet")),
        (".feather", cfg!(feature = "arrow")),
        (".arrows", cfg!(feature = "arrow")),
    ];
    for (kind, _) in kinds.into_iter().filter(|k| k.1) {
        let file = format!("{files}{kind}");
        assert_eq!(draft(&file), draft("records.csv"), "{kind}");
        let checked =
            place.consenso(&["data", "check", &file, "--schema", "german.toml", "--json"]).json();
        assert_eq!(
            (&checked["rows"], &checked["dropped_missing"]),
            (&3.into(), &1.into()),
            "{kind}: {checked}"
        );
    }
}
