//! Loading: encodings by hand, every bad input with its message and line, drafts, LIBSVM,
//! summaries.

use consenso_engine::data::{
    Column, DataError, Dataset, DraftOptions, Encoder, Encoding, Format, Kind, Label, Schema,
    SchemaError, Summary, Table, TextEncoding, Unknown, csv, libsvm,
};
use consenso_study::{SchemaFile as _, bundled, packed};

const SCHEMA: &str = r#"
reviewed = true

[[column]]
name = "age"
kind = "numeric"
min = 20
max = 60

[[column]]
name = "colour"
kind = "categorical"
categories = ["red", "green", "blue"]

[[column]]
name = "note"
kind = "ignored"

[[column]]
name = "ill"
kind = "label"
classes = ["yes", "no"]
positive = "yes"
"#;

fn schema() -> Schema {
    Schema::from_toml(SCHEMA).expect("valid")
}

fn read(text: &str) -> Result<Table, DataError> {
    csv::read(text.as_bytes(), "site.csv", &schema())
}

fn message(text: &str) -> String {
    read(text).expect_err("bad input").to_string()
}

fn encoded(table: &Table, encoding: Encoding) -> Vec<Vec<f64>> {
    let records = Encoder::new(table.schema(), encoding).expect("fits").encode_table(table);
    (0..records.len()).map(|row| records.row(row).to_vec()).collect()
}

fn assert_close(mine: &[f64], wanted: &[f64]) {
    assert_eq!(mine.len(), wanted.len());
    assert!(
        mine.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-14),
        "{mine:?} is not {wanted:?}"
    );
}

/// Rows whose columns are scouted later have a byte a category, in memory and wherever they are
/// written to; what they say is the table's to the last bit.
#[test]
fn rows_that_wait_for_a_standard_keep_a_category_in_a_byte() {
    let mut text = "age,colour,note,ill\n".to_owned();
    for row in 0..1000 {
        let (age, colour) = (20 + row * 7 % 41, ["red", "green", "blue"][row * 5 % 3]);
        text += &format!("{age},{colour},-,{}\n", if row % 4 == 0 { "yes" } else { "no" });
    }
    let table = read(&text).expect("good");
    let encoder = Encoder::new(table.schema(), Encoding::Scouted).expect("fits");
    let records = encoder.encode_table(&table);
    // A number and an eighth of one, as codes are counted, and the label.
    assert_eq!((records.stored(), records.row_bytes()), (9 * 1000 / 8, Some(8 + 1 + 8)));
    assert_eq!(encoder.row_bytes(table.schema()), 8 + 1 + 8);
    for row in 0..records.len() {
        let [age, colour] = table.row(row)[..] else { panic!("two features") };
        assert_eq!(records.row(row), [(age - 20.0) / 40.0, colour]);
    }
    let (some, mut bytes) = (records.select(&[7, 1, 999]), Vec::new());
    (0..3).for_each(|row| some.write_row(row, &mut bytes));
    let mut back = some.like(3);
    for start in [0, 17, 34] {
        assert_eq!(back.read_row(&bytes[start..]), Some(17));
    }
    assert_eq!(back, some);
}

#[test]
fn one_hot_by_hand() {
    let table = read("age,colour,note,ill\n40,green,a,yes\n20,blue,,no\n").expect("valid");
    let rows = encoded(&table, Encoding::OneHot);
    // 40 is halfway from 20 to 60; then green; then the bias: norm √(1/4 + 1 + 1) = 3/2.
    assert_close(&rows[0], &[1.0 / 3.0, 0.0, 2.0 / 3.0, 0.0, 2.0 / 3.0]);
    let half = 0.5_f64.sqrt();
    assert_close(&rows[1], &[0.0, 0.0, 0.0, half, half]);
    assert_eq!(table.labels(), [1.0, -1.0], "`positive` decides, not the order");
    let encoder = Encoder::new(&schema(), Encoding::OneHot).expect("fits");
    assert_eq!(encoder.features(), ["age", "colour=red", "colour=green", "colour=blue", "bias"]);
    let bounds = encoder.bounds();
    assert!(bounds.is_public() && bounds.l2() == 1.0);
    assert!((bounds.l1() - 3_f64.sqrt()).abs() < 1e-15 && (bounds.linf() - half).abs() < 1e-14);
}

#[test]
fn paper_by_hand() {
    let table = read("age,colour,note,ill\n30,green,a,yes\n60,red,b,no\n").expect("valid");
    let rows = encoded(&table, Encoding::Paper);
    // 30/60 and code 1 of 0, 1, 2: (1/2, 1/2).
    assert_close(&rows[0], &[0.5_f64.sqrt(), 0.5_f64.sqrt()]);
    assert_close(&rows[1], &[1.0, 0.0]);
}

#[test]
fn numeric_by_hand() {
    let text = "reviewed = true\n[[column]]\nname='a'\nkind='numeric'\nmin=-3\nmax=1\n[[column]]\nname='b'\nkind='numeric'\n\
                min=2\nmax=4\n[[column]]\nname='y'\nkind='label'\nmin=0\nmax=1\n";
    let schema = Schema::from_toml(text).expect("valid");
    let table =
        csv::read("a,b,y\n-3,4,0.5\n0.25,9,7\n".as_bytes(), "n.csv", &schema).expect("valid");
    assert_eq!(encoded(&table, Encoding::Numeric), [[-3.0, 4.0], [0.25, 4.0]]);
    assert_eq!(table.labels(), [0.5, 1.0]);
    assert_eq!((table.report().clamped["b"], table.report().clamped["y"]), (1, 1));
    let bounds = Encoder::new(&schema, Encoding::Numeric).expect("fits").bounds();
    assert_eq!(bounds.linf(), 4.0);
    assert!(
        bounds.l1() >= 7.0
            && bounds.l1() < 7.0 + 1e-13
            && bounds.l2() >= 5.0
            && bounds.l2() < 5.0 + 1e-13
    );
    let error =
        Encoder::new(&self::schema(), Encoding::Numeric).expect_err("a category").to_string();
    assert_eq!(
        error,
        "the encoding \"numeric\" cannot take the categorical column \"colour\"; use \"one-hot\", or mark the column as \"ignored\""
    );
}

#[test]
fn files_are_read_as_people_write_them() {
    let wanted =
        encoded(&read("age,colour,note,ill\n40,green,a,yes\n").expect("valid"), Encoding::OneHot);
    for text in [
        "age,colour,note,ill\r\n40,green,a,yes\r\n",   // CRLF
        "\u{feff}age,colour,note,ill\n40,green,a,yes", // a byte order mark; no newline at the end
        " age , colour,note,ill \n 40 ,\tgreen,a, yes \n\n  \n", // spaces and blank lines
        "ill,note,colour,age\nyes,\"a, \"\"b\"\"\nc\",green,40.0\n", // another order; quotes, a comma and a newline inside
        "age,colour,note,ill\n4e1,green,?,yes\n", // an ignored column may be missing
    ] {
        assert_eq!(encoded(&read(text).expect(text), Encoding::OneHot), wanted, "{text:?}");
    }
    let headerless = SCHEMA.replace(
        "reviewed = true",
        "reviewed = true\nheader = false\ndelimiter = ';'\ncomment = '|'\nmissing = ['NA']",
    );
    let headerless = Schema::from_toml(&headerless).expect("valid");
    let table =
        csv::read("| made by hand\n40;green;a;yes\n30;NA;;no\n".as_bytes(), "s.csv", &headerless)
            .expect("valid");
    assert_eq!(encoded(&table, Encoding::OneHot), wanted);
    assert_eq!((table.report().dropped_missing, table.report().missing["colour"]), (1, 1));
}

const CLINIC: &str = r#"
reviewed = true
missing = ["", "k.A."]
[[column]]
name = "größe"
kind = "numeric"
min = 0
max = 10
missing = { impute = 5 }
indicator = true
[[column]]
name = "aufnahme"
kind = "date"
format = "DD.MM.YYYY"
origin = "2020-01-01"
min = "2020-01-01"
max = "2029-12-31"
[[column]]
name = "station"
kind = "categorical"
categories = ["süd", "nord"]
missing = "category"
[[column]]
name = "kosten"
kind = "numeric"
min = 0
max = 10000
missing = "category"
missing_words = ["offen"]
[[column]]
name = "patient"
kind = "person"
records = 2
[[column]]
name = "krank"
kind = "label"
classes = ["ja", "nein"]
positive = "ja"
prevalence = 0.2
"#;
const CLINIC_FILE: &str = "größe;aufnahme;station;kosten;patient;krank\r\n1,5;31.01.2020;süd;1.234,56;A;ja\r\n;1.2.2020;;offen;B;nein\r\n\
                           2,25;01.01.2020;nord;7;A;nein\r\n3;02.01.2020;nord;8;A;ja\r\n4;k.A.;nord;9;C;ja\r\n";

/// What an export from Excel in Germany looks like, in each of the encodings it may have: the same
/// records, and all that is missing as the schema says.
#[test]
fn a_german_export_is_read_as_it_is() {
    let schema = Schema::from_toml(CLINIC).expect("valid");
    let latin = CLINIC_FILE.chars().map(|c| u8::try_from(c).expect("Latin-1")).collect::<Vec<u8>>();
    let wide: Vec<u8> = CLINIC_FILE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe][..], &wide].concat();
    let by_name = |encoding| Format { encoding: Some(encoding), ..schema.format().clone() };
    let tabs = CLINIC_FILE.replace(';', "\t");
    for (bytes, format, named) in [
        (CLINIC_FILE.as_bytes(), schema.format().clone(), "utf-8 text, semicolons"),
        (&latin, by_name(TextEncoding::Latin1), "latin-1 text, semicolons"),
        (&latin, by_name(TextEncoding::Windows1252), "windows-1252 text, semicolons"),
        (&marked, schema.format().clone(), "utf-16 text, semicolons"),
        (tabs.as_bytes(), schema.format().clone(), "utf-8 text, tabs"),
    ] {
        let table = csv::read_as(bytes, "klinik.csv", &schema, &format).expect(named);
        let reading = table.reading().expect("CSV").to_string();
        assert!(
            reading.starts_with(named) && reading.contains("decimal comma, '.' between thousands"),
            "{reading}"
        );
        let features: Vec<&str> = schema.features().map(|column| column.name.as_str()).collect();
        assert_eq!(
            features,
            ["größe", "größe=missing", "aufnahme", "station", "kosten", "kosten=missing"]
        );
        assert_eq!(&*table.row(0), [1.5, 0.0, 30.0, 0.0, 1234.56, 0.0]);
        assert_eq!(
            &*table.row(1),
            [5.0, 1.0, 31.0, 2.0, 5000.0, 1.0],
            "imputed, and categories of their own"
        );
        assert_eq!(&*table.row(2), [2.25, 0.0, 0.0, 1.0, 7.0, 0.0]);
        assert_eq!(
            (table.labels(), table.persons(), table.row_numbers()),
            (&[1.0, -1.0, -1.0][..], &[0, 1, 0][..], &[0, 1, 2][..])
        );
        let report = table.report();
        assert_eq!(
            (report.dropped_missing, report.dropped_person, report.imputed["größe"]),
            (1, 1, 1)
        );
        assert_eq!(report.missing["kosten"], 1);
    }
    let encoder = Encoder::new(&schema, Encoding::OneHot).expect("fits");
    assert_eq!(encoder.features()[3..6], ["station=süd", "station=nord", "station=(missing)"]);
    let label = schema.columns().last().expect("label");
    assert_eq!(label.known.prevalence.as_deref(), Some(&[0.8, 0.2][..]));
    let again = Schema::from_toml(&schema.to_toml()).expect("valid");
    assert_eq!(again, schema, "{}", schema.to_toml());
    let json = serde_json::to_string(&schema).expect("JSON");
    assert_eq!(serde_json::from_str::<Schema>(&json).expect("valid"), schema);
}

#[test]
fn new_records_need_no_label() {
    let schema = Schema::from_toml(CLINIC).expect("valid");
    let text = "aufnahme,größe,station,kosten,note\n31.01.2020,1.5,nord,,x\n,1,süd,3,y\n01.01.2020,,süd,3,z\n";
    let table =
        csv::read_unlabelled(text.as_bytes(), "new.csv", &schema, schema.format(), Unknown::Error)
            .expect("valid");
    assert!(table.labels().iter().all(|label| label.is_nan()) && table.persons().is_empty());
    assert_eq!((table.row_numbers(), table.report().dropped_missing), (&[0, 2][..], 1));
    assert!(csv::read(text.as_bytes(), "new.csv", &schema).is_err());
}

#[test]
fn one_unknown_category_does_not_end_a_prediction_if_somebody_says_so() {
    let column = |name: &str, words: &[&str]| {
        let categories = words.iter().map(|&word| word.to_owned()).collect();
        Column::new(name, Kind::Categorical { categories })
    };
    let label = Kind::Label(Label::Classes(vec!["no".into(), "yes".into()]));
    let columns = || vec![column("ward", &["east", "west", "Other"]), column("sex", &["f", "m"])];
    let schema = |mut columns: Vec<Column>| {
        columns.push(Column::new("ill", label.clone()));
        Schema::new(columns, Format::default(), true).expect("valid")
    };
    let all = schema(columns());
    let read = |text: &str, schema: &Schema, unknown| {
        csv::read_unlabelled(text.as_bytes(), "new.csv", schema, schema.format(), unknown)
    };
    let text = "ward,sex\neast,f\nsouth,m\n";
    let refused = read(text, &all, Unknown::Error).expect_err("not declared").to_string();
    assert!(refused.contains("new.csv:3") && refused.contains("--unknown ignore"), "{refused}");
    let other = read(text, &all, Unknown::Other).expect("valid");
    assert_eq!((other.row(1)[0], other.report().unknown["ward"]), (2.0, 1));
    let ignored = read(text, &all, Unknown::Ignore).expect("valid");
    let encoder = Encoder::new(&all, Encoding::OneHot).expect("fits");
    let records = encoder.encode_table(&ignored);
    let zeros = records.row(1)[..3].to_vec();
    assert_eq!(zeros, [0.0; 3], "the column says nothing");
    assert!(records.row(1)[4] > 0.5 && records.row(0)[0] > 0.5);
    // The same row as if that column alone were gone: nothing else has moved.
    let only = read("sex\nm\n", &schema(vec![column("sex", &["f", "m"])]), Unknown::Error);
    let alone = Encoder::new(only.as_ref().expect("valid").schema(), Encoding::OneHot);
    let alone = alone.expect("fits").encode_table(&only.expect("valid"));
    let rest: Vec<f64> = records.row(1)[3..].to_vec();
    rest.iter().zip(alone.row(0).iter()).for_each(|(a, b)| assert!((a - b).abs() < 1e-14));
    let none = schema(vec![column("ward", &["east"]), column("sex", &["f", "m"])]);
    let refused = read(text, &none, Unknown::Other).expect_err("nothing to be").to_string();
    assert!(refused.contains("called \"other\""), "{refused}");
    assert!(csv::read("ward,sex,ill\nsouth,m,no\n".as_bytes(), "t.csv", &all).is_err());
}

#[test]
fn compressed_files_are_unpacked() {
    let wanted = read("age,colour,note,ill\n40,green,a,yes\n").expect("valid");
    let text = b"age,colour,note,ill\n40,green,a,yes\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text).expect("memory");
    let gz = packed.finish().expect("memory");
    // Two frames one after the other, as `cat a.zst b.zst` makes them.
    let frame = |part: &[u8]| {
        ruzstd::encoding::compress_to_vec(part, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let zst = [frame(&text[..20]), frame(&text[20..])].concat();
    for (bytes, named) in [(gz, "gzip"), (zst, "zstd")] {
        let unread =
            csv::read(&bytes[..], "site.csv", &schema()).expect_err("still packed").to_string();
        assert!(unread.contains(named) && unread.contains("unpack it"), "{unread}");
        let read = |bytes: &[u8]| {
            packed::read_csv(bytes.to_vec(), "site.csv", &schema(), &Format::default())
        };
        let table = read(&bytes).expect(named);
        assert_eq!(table.row(0), wanted.row(0));
        assert_eq!(table.reading().and_then(|reading| reading.compression), Some(named));
        let cut = read(&bytes[..bytes.len() - 9]).expect_err("cut off").to_string();
        assert!(cut.starts_with("site.csv: cannot be read"), "{cut}");
    }
}

#[test]
fn what_cannot_be_read_says_what_the_schema_could_say() {
    let schema = |more: &str| {
        Schema::from_toml(&SCHEMA.replace("reviewed = true", &format!("reviewed = true\n{more}")))
            .expect(more)
    };
    let message = |more: &str, cell: &str| {
        let text = format!("age;colour;note;ill\n{cell};red;a;no\n");
        csv::read(text.as_bytes(), "s.csv", &schema(more)).expect_err(cell).to_string()
    };
    assert!(
        message("", "1,234").contains("`decimal = \",\"` or `thousands = \",\"`"),
        "{}",
        message("", "1,234")
    );
    assert!(message("decimal = '.'", "40,5").contains("a decimal comma needs `decimal = \",\"`"));
    assert!(
        message("decimal = ','", "40.5").contains("without that line"),
        "{}",
        message("decimal = ','", "40.5")
    );
    assert!(message("", "N/A").contains("add \"N/A\" to `missing`"));
    for (more, wanted) in [
        ("decimal = ';'", "`decimal` must be \".\" or \",\", not ';'"),
        ("decimal = ','\nthousands = ','", "`thousands` must be"),
        ("quote = 'x'", "`quote` must be"),
        ("encoding = 'ebcdic'", "ebcdic"),
    ] {
        let text = SCHEMA.replace("reviewed = true", &format!("reviewed = true\n{more}"));
        let error = Schema::from_toml(&text).expect_err(more).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    for (from, to, wanted) in [
        (
            "impute = 5 }",
            "impute = 11 }",
            "column[0] \"größe\": `missing` impute = 11 lies outside the declared range",
        ),
        ("missing = { impute = 5 }\n", "", "`indicator` needs missing = \"category\""),
        ("DD.MM.YYYY", "DD.MM", "`format` = \"DD.MM\" needs YYYY"),
        ("origin = \"2020-01-01\"\n", "", "kind = \"date\" needs the key `origin`"),
        ("min = \"2020-01-01\"", "min = \"2020-02-30\"", "`min` = \"2020-02-30\" is not a date"),
        ("records = 2", "records = 0", "`records` must be at least 1"),
        ("prevalence = 0.2", "prevalence = 1.2", "`prevalence` must be shares"),
        ("prevalence = 0.2", "prevalence = [0.1, 0.2, 0.7]", "lists 3 shares for 2 classes"),
        ("max = 10\n", "max = 10\nmean = 12\n", "`mean` = 12 lies outside"),
        ("max = 10\n", "max = 10\nsd = 6\n", "`sd` = 6 must be positive and at most half"),
        ("max = 10\n", "max = 10\nstep = 3\n", "`step` = 3 must be positive, and `max` so many"),
        (
            "missing = \"category\"\nmissing_words",
            "missing = \"guess\"\nmissing_words",
            "missing = \"drop\", \"category\" or { impute",
        ),
    ] {
        assert!(CLINIC.contains(from), "{from}");
        let error = Schema::from_toml(&CLINIC.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// How far apart values are is public knowledge that a file keeps.
#[test]
fn a_step_is_written_as_it_was_read() {
    let stepped = CLINIC.replacen("max = 10\n", "max = 10\nstep = 0.5\n", 1);
    let schema = Schema::from_toml(&stepped).expect("valid");
    assert_eq!(schema.columns()[0].known.step, Some(0.5));
    let written = schema.to_toml();
    assert!(written.contains("step = 0.5\n"), "{written}");
    assert_eq!(Schema::from_toml(&written).expect("valid"), schema);
}

#[test]
fn integers_beyond_what_numbers_tell_apart_are_counted() {
    let schema = Schema::from_toml(&SCHEMA.replace("max = 60", "max = 1e18")).expect("valid");
    let rows =
        "age,colour,note,ill\n9007199254740993,red,,no\n9007199254740991,red,,no\n9e17,red,,no\n";
    let table = csv::read(rows.as_bytes(), "s.csv", &schema).expect("valid");
    assert_eq!(table.report().inexact["age"], 1, "2^53 + 1 reads as 2^53");
}

#[test]
fn missing_is_dropped_and_out_of_range_is_clamped_and_both_are_counted() {
    let table =
        read("age,colour,note,ill\n?,red,,yes\n10,red,,yes\n61,,,no\n99,blue,,no\n30,blue,,?\n")
            .expect("valid");
    let report = table.report();
    assert_eq!((table.len(), report.rows, report.dropped_missing), (2, 2, 3));
    assert_eq!((report.missing["age"], report.missing["colour"], report.missing["ill"]), (1, 1, 1));
    assert!(!report.missing.contains_key("note"));
    assert_eq!(report.clamped["age"], 2, "dropped records are not counted");
    assert_eq!((&*table.row(0), &*table.row(1)), (&[20.0, 0.0][..], &[60.0, 2.0][..]));
}

#[test]
fn bad_files_are_named_with_line_column_and_remedy() {
    let header = "age,colour,note,ill\n";
    let cases = [
        ("", "site.csv: holds no record; a file needs one record a line after its header"),
        (header, "site.csv: holds no record; a file needs one record a line after its header"),
        (
            "age,colour,note,ill\n?,red,,no\n,red,,no\n",
            "site.csv: each of its 2 records misses a value, so none is left; mark columns that are often missing as \"ignored\"",
        ),
        (
            "age,color,note,ill\n",
            "site.csv:1: the header has no column \"colour\"; did you mean \"color\"?",
        ),
        (
            "age,colour,note,ill,ward\n",
            "site.csv:1: the schema has no column \"ward\"; declare it, with kind = \"ignored\" if it is not to be used",
        ),
        ("age,colour,note,ill,age\n", "site.csv:1: the header names \"age\" twice"),
        (
            "age,colour,note,ill\n40,red,a,no\n\n40,red,no\n",
            "site.csv:4: 3 cells where 4 are expected; check the delimiter (',') and unquoted text",
        ),
        (
            "age,colour,note,ill\r\n40,red,\"a\r\nb\",no\r\n\r\n4O,red,a,no\r\n",
            "site.csv:5: column \"age\" holds \"4O\", which is not a number; write it as 1234.5, or as ? if it is missing",
        ),
        (
            "age,colour,note,ill\n40,red,a,no\nNaN,red,a,no",
            "site.csv:3: column \"age\" holds \"NaN\", which is not finite; write ? if it is missing",
        ),
        (
            "age,colour,note,ill\n-inf,red,a,no\n",
            "site.csv:2: column \"age\" holds \"-inf\", which is not finite; write ? if it is missing",
        ),
        (
            "age,colour,note,ill\n40,gren,a,no\n",
            "site.csv:2: column \"colour\" holds \"gren\", which is not among its 3 declared categories; did you mean \"green\"?",
        ),
        (
            "age,colour,note,ill\n40,violet,a,no\n",
            "site.csv:2: column \"colour\" holds \"violet\", which is not among its 3 declared categories",
        ),
        (
            "age,colour,note,ill\n40,red,a,YES\n",
            "site.csv:2: the label \"YES\" is not one of the declared classes [\"no\", \"yes\"]; did you mean \"yes\"?",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(message(text), wanted);
    }
    let latin = csv::read(&b"age,colour,note,ill\n40,gr\xfcn,a,no\n"[..], "l.csv", &schema())
        .expect_err("not UTF-8");
    let latin = latin.to_string();
    assert!(
        latin.starts_with("l.csv:2: column \"colour\" is not UTF-8 text; save the file as UTF-8"),
        "{latin}"
    );
    assert!(latin.contains("--encoding"), "{latin}");
    let long = message(&format!("{header}{},red,a,no\n", "x".repeat(10_000)));
    assert!(long.len() < 300, "a message stays short");
}

#[test]
fn training_on_one_class_is_refused_but_a_file_of_one_class_is_a_file() {
    let one = |name| {
        csv::read("age,colour,note,ill\n40,red,,no\n50,red,,no\n".as_bytes(), name, &schema())
            .expect("valid")
    };
    let data = Dataset::new(vec![one("a.csv"), one("b.csv")], None, Encoding::OneHot);
    let error = data.expect("one class").at_least_two_classes().expect_err("one class").to_string();
    assert_eq!(
        error,
        "a.csv, b.csv: all 4 records have the label \"no\"; training needs records of at least two classes"
    );
    let other = read("age,colour,note,ill\n40,red,,yes\n").expect("valid");
    let data = Dataset::new(vec![one("a.csv"), other.clone()], Some(&other), Encoding::OneHot)
        .expect("two classes");
    assert_eq!(
        (data.train().len(), data.test().map(consenso_engine::data::Records::len)),
        (3, Some(1))
    );
    let adult = csv::read("age\n1\n".as_bytes(), "x", &bundled::adult_schema().expect("valid"));
    assert!(adult.is_err());
    assert!(matches!(
        Dataset::new(Vec::new(), None, Encoding::OneHot),
        Err(DataError::Empty { .. })
    ));
}

#[test]
fn a_failing_reader_is_an_error() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk on fire"))
        }
    }
    let error = csv::read(Broken, "site.csv", &schema()).expect_err("broken").to_string();
    assert_eq!(error, "site.csv: cannot be read: disk on fire");
    assert!(matches!(libsvm::read(Broken, "a", None), Err(DataError::Read { .. })));
}

#[test]
fn bad_schemas_name_the_key() {
    let message = |from: &str, to: &str| {
        assert!(SCHEMA.contains(from), "{from}");
        Schema::from_toml(&SCHEMA.replacen(from, to, 1)).expect_err(to).to_string()
    };
    let cases = [
        ("min = 20\n", "", "column[0] \"age\": kind = \"numeric\" needs the key `min`"),
        (
            "min = 20",
            "min = 60",
            "column[0] \"age\": `min` = 60 and `max` = 60 must be finite, min < max",
        ),
        (
            "min = 20",
            "min = nan",
            "column[0] \"age\": `min` = NaN and `max` = 60 must be finite, min < max",
        ),
        (
            "kind = \"ignored\"",
            "kind = \"ignored\"\nmin = 1",
            "column[2] \"note\": the key `min` has no meaning for kind = \"ignored\"; remove it",
        ),
        ("name = \"note\"", "name = \"age\"", "column[2]: the name \"age\" is used twice"),
        ("\"blue\"]", "\"red\"]", "column[1] \"colour\": `categories` lists \"red\" twice"),
        (
            "[\"red\", \"green\", \"blue\"]",
            "[]",
            "column[1] \"colour\": `categories` needs at least 1 entries and has 0",
        ),
        (
            "positive = \"yes\"",
            "positive = \"maybe\"",
            "column[3] \"ill\": `positive` = \"maybe\" is not one of `classes` = [\"yes\", \"no\"]",
        ),
        (
            "classes = [\"yes\", \"no\"]",
            "classes = [\"yes\", \"no\", \"so\"]",
            "column[3] \"ill\": `positive` needs exactly two classes and there are 3; remove it",
        ),
        (
            "classes = [\"yes\", \"no\"]\npositive = \"yes\"",
            "",
            "column[3] \"ill\": kind = \"label\" needs the key `classes`, or `min` and `max` for regression",
        ),
        (
            "kind = \"ignored\"",
            "kind = \"label\"\nmin = 0\nmax = 1",
            "the schema has 2 label columns: declare exactly one [[column]] with kind = \"label\"",
        ),
        (
            "reviewed = true",
            "reviewed = true\ndelimiter = 'é'",
            "`delimiter` must be one ASCII character other than a quote or a line end, not 'é'",
        ),
        (
            "\"red\"",
            "\"?\"",
            "column[1] \"colour\": `categories` lists \"?\", which no cell can hold: cells are trimmed and [\"?\", \"\"] mean missing",
        ),
    ];
    for (from, to, wanted) in cases {
        assert_eq!(message(from, to), wanted);
    }
    for (from, to, named) in [
        ("min = 20", "minimum = 20", "`minimum`"),
        ("reviewed = true", "", "`reviewed`"),
        ("kind = \"ignored\"", "kind = \"skip\"", "`skip`"),
        ("min = 20", "min = \"a\"", "min = \"a\""),
    ] {
        assert!(message(from, to).contains(named), "{}", message(from, to));
    }
    assert_eq!(Schema::from_toml("reviewed = true"), Err(SchemaError::NoFeature));
}

#[test]
fn a_draft_says_so_and_carries_no_claim() {
    let text = "age,city,constant,ill\n30,Rome,5,0\n41.5,Oslo,5,1\n?,Rome,5,1\n";
    let draft =
        Schema::draft(text.as_bytes(), "site.csv", &DraftOptions::default()).expect("valid");
    let kinds: Vec<&Kind> = draft.columns().iter().map(|column| &column.kind).collect();
    assert_eq!(kinds[0], &Kind::Numeric { min: 30.0, max: 41.5 });
    assert_eq!(
        kinds[1],
        &Kind::Categorical { categories: vec!["Oslo".to_owned(), "Rome".to_owned()] }
    );
    assert_eq!(kinds[2], &Kind::Ignored);
    assert_eq!(kinds[3], &Kind::Label(Label::Classes(vec!["0".to_owned(), "1".to_owned()])));
    let written = draft.to_toml();
    assert!(
        written.starts_with("# DRAFT: REVIEW BEFORE USE.\n")
            && written.contains("\nreviewed = false\n"),
        "{written}"
    );
    let again = Schema::from_toml(&written).expect("valid");
    assert_eq!(again, draft);
    let table = csv::read(text.as_bytes(), "site.csv", &again).expect("valid");
    for encoding in [Encoding::OneHot, Encoding::Paper] {
        assert!(!Encoder::new(&again, encoding).expect("fits").bounds().is_public());
    }
    let data = Dataset::new(vec![table], None, Encoding::OneHot).expect("valid");
    assert!(!data.bounds().is_public());
    let reviewed =
        Schema::from_toml(&written.replace("reviewed = false", "reviewed = true")).expect("valid");
    assert!(Encoder::new(&reviewed, Encoding::OneHot).expect("fits").bounds().is_public());
}

#[test]
fn drafts_take_a_label_a_site_and_no_header() {
    let options = DraftOptions {
        label: Some("dose".to_owned()),
        site: Some("ward".to_owned()),
        ..DraftOptions::default()
    };
    let rows: String = (0..30).map(|i| format!("{}.5,w{},{i}\n", i * 2, i % 3)).collect();
    let draft =
        Schema::draft(format!("dose,ward,x\n{rows}").as_bytes(), "d.csv", &options).expect("valid");
    assert_eq!(draft.columns()[0].kind, Kind::Label(Label::Range { min: 0.5, max: 58.5 }));
    assert_eq!(draft.columns()[1].kind, Kind::Site);
    let error = Schema::draft("doze,ward,x\n1,a,2\n".as_bytes(), "d.csv", &options)
        .expect_err("no dose")
        .to_string();
    assert_eq!(error, "d.csv: has no column \"dose\"; did you mean \"doze\"?");
    let format = Format { header: false, ..Format::default() };
    let draft = Schema::draft(
        "1,a\n2,b\n".as_bytes(),
        "h.csv",
        &DraftOptions { format, ..DraftOptions::default() },
    );
    assert_eq!(draft.expect("valid").columns()[0].name, "column-1");
    for empty in ["", "a,b\n"] {
        let error = Schema::draft(empty.as_bytes(), "e.csv", &DraftOptions::default());
        assert!(matches!(error, Err(DataError::Empty { .. })), "{error:?}");
    }
}

#[test]
fn libsvm_is_sparse_with_indices_from_one() {
    let text = "+1 1:0.5 3:-2 # a comment\n\n-1 2:1e0\n1.0 3:4\n";
    let table = libsvm::read(text.as_bytes(), "a.svm", None).expect("valid");
    assert_eq!((table.len(), table.labels()), (3, &[1.0, -1.0, 1.0][..]));
    assert_eq!((&*table.row(0), &*table.row(1)), (&[0.5, 0.0, -2.0][..], &[0.0, 1.0, 0.0][..]));
    assert!(!table.schema().is_reviewed(), "ranges taken from the records are not public");
    let schema = "reviewed = true\n[[column]]\nname='a'\nkind='numeric'\nmin=0\nmax=1\n[[column]]\nname='b'\nkind='numeric'\n\
                  min=1\nmax=2\n[[column]]\nname='y'\nkind='label'\nclasses=['-1','1']\n";
    let schema = Schema::from_toml(schema).expect("valid");
    let table =
        libsvm::read("+1 1:3\n-1 2:1.5\n".as_bytes(), "a.svm", Some(&schema)).expect("valid");
    assert_eq!(
        (&*table.row(0), &*table.row(1)),
        (&[1.0, 1.0][..], &[0.0, 1.5][..]),
        "an absent 0 is clamped as well"
    );
    let error = libsvm::read("1 1:1\n-1 3:1\n".as_bytes(), "a.svm", Some(&schema))
        .expect_err("too far")
        .to_string();
    assert_eq!(error, "a.svm:2: index 3 is beyond the 2 features of the schema");
}

/// The same records as CSV, with every zero written out, and as LIBSVM: the same counts, and the
/// same rows up to the last digit.
#[test]
fn libsvm_and_csv_of_the_same_records_agree() {
    let column = |name: &str, min: f64, max: f64| {
        format!("[[column]]\nname='{name}'\nkind='numeric'\nmin={min:.1}\nmax={max:.1}\n")
    };
    for (low, second) in [(0.0, 0.0), (-2.0, 0.0), (0.0, 1.0)] {
        let text = format!(
            "reviewed = true\n{}{}{}[[column]]\nname='y'\nkind='label'\nclasses=['-1','1']\n",
            column("a", low, 1.0),
            column("b", second, 2.0),
            column("c", 0.0, 4.0)
        );
        let schema = Schema::from_toml(&text).expect("valid");
        let sparse = "1 1:0.5 3:9\n-1\n1 2:1.5\n-1 1:? 2:1\n-1 2:1 3:0.25\n";
        let dense = "a,b,c,y\n0.5,0,9,1\n0,0,0,-1\n0,1.5,0,1\n?,1,0,-1\n0,1,0.25,-1\n";
        let sparse = libsvm::read(sparse.as_bytes(), "a", Some(&schema)).expect("valid");
        let dense = csv::read(dense.as_bytes(), "a", &schema).expect("valid");
        assert_eq!(Summary::of(&sparse), Summary::of(&dense));
        assert!((0..4).all(|row| sparse.row(row) == dense.row(row)));
        for encoding in [Encoding::OneHot, Encoding::Paper, Encoding::Numeric] {
            let encoder = Encoder::new(&schema, encoding).expect("numbers only");
            let [sparse, dense] = [&sparse, &dense].map(|table| encoder.encode_table(table));
            assert_eq!(sparse.labels(), dense.labels());
            for (s, d) in (0..4).flat_map(|row| sparse.row(row).into_iter().zip(dense.row(row))) {
                assert!((s - d).abs() <= 1e-15, "{encoding}: {s} {d}");
            }
        }
        // Files of both kinds make one data set, in either order.
        for tables in [[sparse.clone(), dense.clone()], [dense, sparse]] {
            let both = Dataset::new(tables.into(), None, Encoding::Paper).expect("one schema");
            assert_eq!(both.train().len(), 8);
            assert!((0..4).all(|row| {
                let pair = both.train().row(row).into_iter().zip(both.train().row(row + 4));
                pair.into_iter().all(|(a, b)| (a - b).abs() <= 1e-15)
            }));
        }
    }
}

/// What is kept is what is listed: 3,000 records of 100,000 features are 60,000 numbers, not 300
/// million.
#[test]
fn a_wide_libsvm_file_takes_memory_for_what_it_lists() {
    let (rows, features, listed) = (3_000, 100_000, 20);
    let mut text = String::new();
    for row in 0..rows {
        text.push_str(if row % 2 == 0 { "1" } else { "-1" });
        for k in 0..listed {
            // Increasing, different in every row, and reaching the last feature.
            let index = k * (features / listed) + (row * 37) % (features / listed) + 1;
            text.push_str(&format!(" {index}:{}", 1 + (row + k) % 3));
        }
        text.push('\n');
    }
    let table = libsvm::read(text.as_bytes(), "wide.svm", None).expect("valid");
    for (encoding, more) in [(Encoding::OneHot, 1), (Encoding::Paper, 0)] {
        let data = Dataset::new(vec![table.clone()], None, encoding).expect("valid");
        assert!(data.dim() > 99_000, "{}", data.dim());
        assert!(data.train().stored() <= rows * (listed + more), "{}", data.train().stored());
        let square: f64 = data.train().entries(7).map(|(_, z)| z * z).sum();
        assert!(square <= 1.0 && square > 1.0 - 1e-10, "{square}");
    }
}

#[test]
fn bad_libsvm_is_named_with_its_line() {
    let cases = [
        ("", "a.svm: holds no record; a file needs one record a line"),
        ("1 1:1\n-1 0:1\n", "a.svm:2: \"0:1\" is not `index:value` with an index from 1 up"),
        ("1 1:1\n-1 1;1\n", "a.svm:2: \"1;1\" is not `index:value` with an index from 1 up"),
        (
            "1 2:1 2:1\n",
            "a.svm:1: index 2 does not come after the one before it; indices must increase along a line",
        ),
        (
            "1 99999999999:1\n",
            "a.svm:1: index 99999999999 is beyond the 1000000 features accepted without a schema",
        ),
        (
            "1 1:1\n-1 1:x\n",
            "a.svm:2: column \"f1\" holds \"x\", which is not a number; write it as 1234.5, or as ? if it is missing",
        ),
        (
            "1 1:1\n-1 1:inf\n",
            "a.svm:2: column \"f1\" holds \"inf\", which is not finite; write ? if it is missing",
        ),
    ];
    for (text, wanted) in cases {
        let error =
            libsvm::read(text.as_bytes(), "a.svm", None).expect_err("bad input").to_string();
        assert_eq!(error, wanted);
    }
    assert!(libsvm::read("nan 1:1\n0.5 1:2\n0.7 1:3\n".as_bytes(), "a.svm", None).is_err());
}

#[test]
fn a_summary_holds_what_data_info_prints() {
    let table =
        read("age,colour,note,ill\n10,red,,yes\n40,red,,no\n50,blue,,no\n?,red,,no\n45,red,,no\n")
            .expect("valid");
    let summary = Summary::of(&table);
    assert_eq!((summary.rows, summary.dropped_missing, summary.reviewed), (4, 1, true));
    let age = &summary.columns[0];
    assert_eq!(
        (age.declared, age.observed, age.clamped, age.missing),
        (Some((20.0, 60.0)), Some((10.0, 50.0)), 1, 1)
    );
    assert_eq!(summary.columns[1].unused, ["green"]);
    let shares: Vec<(&str, u64, f64)> =
        summary.classes.iter().map(|c| (c.name.as_str(), c.count, c.share)).collect();
    assert_eq!(shares, [("no", 3, 0.75), ("yes", 1, 0.25)]);
    let encodings: Vec<(&str, usize)> =
        summary.encodings.iter().map(|e| (e.encoding.name(), e.dim)).collect();
    assert_eq!(encodings, [("one-hot", 5), ("paper", 2)]);
    let replace_one = summary.encodings[0].replace_one;
    assert!(replace_one[1] >= 0.5 && replace_one[1] < 0.5 + 1e-15, "2·1/4");
    assert_eq!(summary.remarks.len(), 2, "{:?}", summary.remarks);
    let json = serde_json::to_value(&summary).expect("serialisable");
    assert_eq!(json["encodings"][0]["encoding"], "one-hot");
    let mut names = Vec::new();
    json["columns"].as_array().expect("columns").iter().for_each(|c| names.push(c["kind"].clone()));
    assert_eq!(names, ["numeric", "categorical", "ignored", "label"]);
}

/// Two sites that export differently: one draft, which says what deserves a look and what each site
/// lacks.
#[test]
fn a_draft_from_several_files_warns() {
    use consenso_engine::data::Draft;
    use std::fmt::Write as _;
    let (mut north, mut south) = (
        "nr;city;lab;when;rare;code;note;extra;ill\n".to_owned(),
        "nr,city,lab,when,rare,code,note,ill\n".to_owned(),
    );
    for i in 0..120_u64 {
        let lab = if i % 40 == 7 { "<0,1".to_owned() } else { format!("{},{}", i % 9, i % 7) };
        let (code, rare) = (9_007_199_254_740_993 + 2 * i, u8::from(i == 60));
        let (day, month, ill) = (1 + i % 28, 1 + i % 12, if i % 3 == 0 { "yes" } else { "no" });
        let empty = if i % 4 == 0 { "" } else { "x" };
        let _ = writeln!(
            north,
            "{i};Köln;{lab};{day:02}.{month:02}.2021;{rare};{code};n{i};{empty};{ill}"
        );
        let (i, lab) = (i + 120, lab.replace(',', "."));
        let city = if i % 2 == 0 { "Oslo" } else { "Bergen" };
        let _ = writeln!(south, "{i},{city},{lab},{day:02}.{month:02}.2022,0,{code}1,n{i},{ill}");
    }
    let files =
        || [("north.csv".to_owned(), north.as_bytes()), ("south.csv".to_owned(), south.as_bytes())];
    let options = DraftOptions { positive: Some("yes".to_owned()), ..DraftOptions::default() };
    let draft = Draft::of(files(), &options).expect("valid");
    let warnings = draft.warnings().join("\n");
    for wanted in [
        "column \"nr\": its values count the records: it looks like a row identifier",
        "column \"city\": north.csv has no record with \"Bergen\", \"Oslo\"",
        "column \"city\": south.csv has no record with \"Köln\"",
        "column \"lab\": numbers, but for \"<0,1\" (3), \"<0.1\" (3)",
        "column \"when\": dates (DD.MM.YYYY)",
        "column \"rare\": 99.6 % of the records hold \"0\"",
        "column \"code\": every record has a number of its own",
        "column \"note\": every record has a text of its own",
        "column \"extra\": not in south.csv, so it is drafted as ignored",
    ] {
        assert!(warnings.contains(wanted), "{wanted:?} is not in\n{warnings}");
    }
    assert!(!warnings.contains("which class"), "it was said");
    let schema = draft.schema();
    let kinds: Vec<&str> = schema.columns().iter().map(Column::kind_name).collect();
    assert_eq!(
        kinds,
        [
            "ignored",
            "categorical",
            "numeric",
            "date",
            "numeric",
            "ignored",
            "ignored",
            "ignored",
            "label"
        ]
    );
    assert_eq!(schema.label(), &Label::Classes(vec!["no".to_owned(), "yes".to_owned()]));
    assert_eq!(
        (schema.format().delimiter, schema.format().decimal),
        (None, None),
        "the files differ"
    );
    let text = consenso_study::schema::drafted(&draft);
    assert!(
        text.contains("# min and max are those of the records")
            && text.contains("perhaps 0 to 1? If they can be whole numbers only: step = 1."),
        "{text}"
    );
    // Each file is read under the one schema as it is written.
    let again = Schema::from_toml(&text).expect("valid");
    assert_eq!(&again, schema);
    let tables = files().map(|(name, bytes)| csv::read(bytes, &name, &again).expect(&name));
    assert_eq!(
        tables[0].row(1)[1..3],
        tables[1].row(1)[1..3]
            .iter()
            .map(|v| if *v > 8000.0 { v - 365.0 } else { *v })
            .collect::<Vec<_>>()[..]
    );
    assert_eq!((tables[0].len(), tables[1].len()), (117, 117));
    let other = DraftOptions { positive: Some("maybe".to_owned()), ..DraftOptions::default() };
    assert!(Draft::of(files(), &other).expect_err("no such class").to_string().contains("maybe"));
}

#[test]
fn many_categories_are_ignored_and_missing_shares_are_said() {
    use consenso_engine::data::Draft;
    let rows: String = (0..240)
        .map(|i| {
            format!(
                "c{},{},{}\n",
                i % 110,
                if i % 3 == 0 { "NA".to_owned() } else { i.to_string() },
                i % 2
            )
        })
        .collect();
    let text = format!("town,dose,ill\n{rows}");
    let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &DraftOptions::default())
        .expect("valid");
    let warnings = draft.warnings().join("\n");
    assert!(warnings.contains("column \"town\": 110 different texts, more than 100"), "{warnings}");
    assert!(warnings.contains("column \"dose\": numbers, but for \"NA\" (80)"), "{warnings}");
    assert!(warnings.contains("33 % of its values are missing"), "{warnings}");
    assert!(
        warnings.contains("which class is to be found? \"1\" is taken as positive"),
        "{warnings}"
    );
}
