//! The bundled Adult data against its documentation and against an independent encoder
//! (`golden/adult.py`).

use consenso_engine::data::{DataError, Encoding, Records, RowBounds, Schema};
use consenso_study::{SchemaFile as _, bundled};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/adult.json")).expect("golden file")
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs().max(1.0)
}

fn column_sums(records: &Records) -> Vec<f64> {
    let mut sums = vec![0.0; records.dim()];
    for row in 0..records.len() {
        sums.iter_mut().zip(records.row(row)).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn weighted_sum(records: &Records) -> f64 {
    let row_sum = |row: usize| -> f64 {
        records.row(row).iter().enumerate().map(|(j, value)| (j + 1) as f64 * value).sum::<f64>()
            * (row + 1) as f64
    };
    (0..records.len()).map(row_sum).sum()
}

fn agrees(records: &Records, golden: &Value) {
    assert_eq!(records.dim() as u64, golden["dim"]);
    for entry in golden["rows"].as_array().expect("rows") {
        let index = usize::try_from(entry["index"].as_u64().expect("index")).expect("index");
        assert_eq!(
            records.labels()[index],
            entry["label"].as_f64().expect("label"),
            "label of row {index}"
        );
        let values = entry["values"].as_array().expect("values");
        for (j, (mine, theirs)) in records.row(index).iter().zip(values).enumerate() {
            assert!(
                close(*mine, theirs.as_f64().expect("value"), 1e-13),
                "row {index}, feature {j}"
            );
        }
    }
    let sums = golden["column_sums"].as_array().expect("sums");
    for (j, (mine, theirs)) in column_sums(records).iter().zip(sums).enumerate() {
        assert!(close(*mine, theirs.as_f64().expect("sum"), 1e-11), "sum of feature {j}");
    }
    assert!(close(weighted_sum(records), golden["weighted_sum"].as_f64().expect("sum"), 1e-11));
}

#[test]
fn adult_has_the_documented_counts() {
    let data = bundled::adult(Encoding::OneHot).expect("adult");
    let test = data.test().expect("test records");
    assert_eq!((data.train().len(), test.len()), (30_162, 15_060));
    assert_eq!(data.report().dropped_missing, 32_561 - 30_162);
    assert_eq!(data.test_report().as_ref().expect("report").dropped_missing, 16_281 - 15_060);
    assert!(data.report().clamped.is_empty(), "the declared ranges cover the training data");
    assert!(data.test_report().as_ref().expect("report").clamped.is_empty());
    let majority = test.labels().iter().filter(|&&label| label < 0.0).count() as f64 / 15_060.0;
    assert!((majority - 0.7543).abs() < 5e-5, "majority {majority}");
    assert_eq!(data.classes(), ["<=50K", ">50K"]);
    // 6 numbers, 8 + 16 + 7 + 14 + 6 + 5 + 2 + 41 = 99 categories, the bias.
    assert_eq!((data.dim(), data.features().len()), (106, 106));
    assert_eq!((data.features()[0].as_str(), data.features()[105].as_str()), ("age", "bias"));
    assert_eq!(data.features()[1], "workclass=Federal-gov");
}

#[test]
fn adult_agrees_with_an_independent_encoder() {
    let golden = golden();
    for encoding in [Encoding::Paper, Encoding::OneHot] {
        let data = bundled::adult(encoding).expect("adult");
        let test = data.test().expect("test records");
        for (records, name) in [(data.train(), "adult.data"), (test, "adult.test")] {
            assert_eq!(records.len() as u64, golden[name]["rows"]);
            let positive = records.labels().iter().filter(|&&label| label > 0.0).count();
            assert_eq!(positive as u64, golden[name]["positive"]);
            agrees(records, &golden[name][encoding.name()]);
        }
    }
}

/// ‖z‖₂² in twice the working precision: two-product and two-sum, error below 10⁻³⁰.
fn exact_norm_squared(row: &[f64]) -> (f64, f64) {
    let (mut high, mut low) = (0.0_f64, 0.0_f64);
    for &value in row {
        let product = value * value;
        let sum = high + product;
        let virtual_part = sum - high;
        low += (high - (sum - virtual_part))
            + (product - virtual_part)
            + value.mul_add(value, -product);
        high = sum;
    }
    (high, low)
}

fn never_beaten(records: &Records, bounds: RowBounds) {
    for row in (0..records.len()).map(|row| records.row(row)) {
        let (high, low) = exact_norm_squared(&row);
        assert!((high - 1.0) + low <= 0.0, "‖z‖₂ > 1 by {}", (high - 1.0) + low);
        assert!((high - 1.0) + low > -1e-12, "rows are of unit norm");
        assert!(row.iter().map(|value| value.abs()).sum::<f64>() <= bounds.l1());
        assert!(row.iter().all(|value| value.abs() <= bounds.linf()));
    }
}

#[test]
fn no_adult_row_beats_the_public_bounds() {
    for encoding in [Encoding::Paper, Encoding::OneHot] {
        let data = bundled::adult(encoding).expect("adult");
        assert!(data.bounds().is_public() && data.bounds().l2() == 1.0);
        never_beaten(data.train(), data.bounds());
        never_beaten(data.test().expect("test"), data.bounds());
    }
}

#[test]
fn adult_bounds_are_the_tight_ones() {
    let bounds = bundled::adult(Encoding::OneHot).expect("adult").bounds();
    // Eight categories and the bias are 1 before scaling: none can exceed 1/3 after it.
    assert!((bounds.linf() - 1.0 / 3.0).abs() < 1e-14 && bounds.linf() >= 1.0 / 3.0);
    assert!((bounds.l1() - 15_f64.sqrt()).abs() < 1e-14 && bounds.l1() >= 15_f64.sqrt());
    let bounds = bundled::adult(Encoding::Paper).expect("adult").bounds();
    assert!((bounds.l1() - 14_f64.sqrt()).abs() < 1e-14 && bounds.linf() <= 1.0);
}

#[test]
fn adult_has_no_numeric_encoding() {
    let error = bundled::adult(Encoding::Numeric).expect_err("categories are not numbers");
    assert!(
        matches!(&error, DataError::NotNumeric { column, .. } if column == "workclass"),
        "{error}"
    );
}

#[test]
fn adult_schema_survives_a_round_trip_through_its_file() {
    let schema = bundled::adult_schema().expect("valid");
    let text = schema.to_toml();
    assert!(!text.starts_with('#'), "a reviewed schema carries no warning");
    assert_eq!(Schema::from_toml(&text).expect("valid"), schema);
}

#[test]
fn debug_shows_no_value() {
    let data = bundled::adult(Encoding::Paper).expect("adult");
    let text = format!("{data:?}");
    assert!(text.contains("Records(rows=30162, dim=14)") && text.len() < 3_000, "{text}");
}
