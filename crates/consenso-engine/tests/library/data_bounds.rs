//! No row that follows a schema, whatever its values, beats the bounds computed from the schema
//! alone.

use consenso_engine::data::{Column, Encoder, Encoding, Format, Kind, Label, Schema};
use proptest::prelude::*;

/// Σ z_j² − 1 in twice the working precision.
fn norm_squared_less_one(row: &[f64]) -> f64 {
    let (mut high, mut low) = (-1.0_f64, 0.0_f64);
    for &value in row {
        let product = value * value;
        let sum = high + product;
        let part = sum - high;
        low += (high - (sum - part)) + (product - part) + value.mul_add(value, -product);
        high = sum;
    }
    high + low
}

fn column() -> impl Strategy<Value = Kind> {
    let number = (-8..8_i32, -1e3..1e3_f64, 1e-3..1e3_f64).prop_map(|(exponent, low, width)| {
        let scale = 10_f64.powi(exponent);
        Kind::Numeric { min: low * scale, max: (low + width) * scale }
    });
    let category = (1_usize..6).prop_map(|count| Kind::Categorical {
        categories: (0..count).map(|code| format!("c{code}")).collect(),
    });
    prop_oneof![number, category]
}

/// A value of the column from a uniform position: its ends are as likely as the inside.
fn value(kind: &Kind, position: f64) -> f64 {
    match kind {
        Kind::Numeric { min, max } if position < 0.25 => *min,
        Kind::Numeric { max, .. } if position > 0.75 => *max,
        Kind::Numeric { min, max } => {
            (min + (max - min) * (2.0 * position - 0.5)).clamp(*min, *max)
        }
        Kind::Categorical { categories } => {
            (position * categories.len() as f64).floor().min(categories.len() as f64 - 1.0)
        }
        _ => unreachable!("features only"),
    }
}

fn schema(kinds: &[Kind]) -> Schema {
    let label = Kind::Label(Label::Classes(vec!["no".to_owned(), "yes".to_owned()]));
    let columns = kinds.iter().chain([&label]).enumerate();
    let columns =
        columns.map(|(index, kind)| Column::new(format!("c{index}"), kind.clone())).collect();
    Schema::new(columns, Format::default(), true).expect("sound")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bounds_hold(
        kinds in proptest::collection::vec(column(), 1..12),
        positions in proptest::collection::vec(0.0..1.0_f64, 12 * 8),
    ) {
        let schema = schema(&kinds);
        for encoding in [Encoding::OneHot, Encoding::Paper, Encoding::Numeric] {
            let Ok(encoder) = Encoder::new(&schema, encoding) else { continue };
            let bounds = encoder.bounds();
            for positions in positions.chunks(12) {
                let values: Vec<f64> = kinds.iter().zip(positions).map(|(kind, &at)| value(kind, at)).collect();
                let mut row = vec![0.0; encoder.dim()];
                encoder.encode(&values, &mut row);
                let l1: f64 = row.iter().map(|v| v.abs()).sum();
                prop_assert!(l1 <= bounds.l1(), "{encoding}: l1 {l1} > {}", bounds.l1());
                let linf = row.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
                prop_assert!(linf <= bounds.linf(), "{encoding}: linf {linf} > {}", bounds.linf());
                if encoding == Encoding::Numeric {
                    let l2 = row.iter().map(|v| v * v).sum::<f64>().sqrt();
                    prop_assert!(l2 <= bounds.l2(), "l2 {l2} > {}", bounds.l2());
                } else {
                    prop_assert!(norm_squared_less_one(&row) <= 0.0, "{encoding}: beyond 1 by {}", norm_squared_less_one(&row));
                }
            }
        }
    }

    #[test]
    fn bounds_are_not_loose(kinds in proptest::collection::vec(column(), 1..12)) {
        // The row with every number at its largest meets the one-hot l1 bound; no bound could be
        // smaller.
        let encoder = Encoder::new(&schema(&kinds), Encoding::OneHot).unwrap();
        let values: Vec<f64> = kinds.iter().map(|kind| value(kind, 0.99)).collect();
        let mut row = vec![0.0; encoder.dim()];
        encoder.encode(&values, &mut row);
        prop_assert!(row.iter().sum::<f64>() > encoder.bounds().l1() * (1.0 - 1e-12));
        // And the one with every number at its smallest the l∞ bound.
        let values: Vec<f64> = kinds.iter().map(|kind| value(kind, 0.0)).collect();
        let mut row = vec![0.0; encoder.dim()];
        encoder.encode(&values, &mut row);
        prop_assert!(row[encoder.dim() - 1] > encoder.bounds().linf() * (1.0 - 1e-12));
    }
}

#[test]
fn extreme_ranges_neither_overflow_nor_underflow() {
    for (min, max) in [(0.0, 1e300), (-1e300, 1e-300), (0.0, 1e-300), (1e-310, 2e-310)] {
        let schema = schema(&[Kind::Numeric { min, max }, Kind::Numeric { min, max }]);
        for encoding in [Encoding::OneHot, Encoding::Paper] {
            let encoder = Encoder::new(&schema, encoding).expect("fits");
            for values in [[min, max], [max, max], [min, min], [max / 3.0 + min / 3.0, max]] {
                let mut row = vec![0.0; encoder.dim()];
                encoder.encode(&values.map(|v| v.clamp(min, max)), &mut row);
                let beyond = norm_squared_less_one(&row);
                assert!(
                    beyond <= 0.0 && (beyond > -1e-12 || row.iter().all(|v| *v == 0.0)),
                    "{min} {max} {row:?}"
                );
            }
        }
        let bounds = Encoder::new(&schema, Encoding::Numeric).expect("fits").bounds();
        assert!(bounds.l2().is_finite() && bounds.l2() >= max.max(-min), "{bounds:?}");
    }
}
