//! The bundled UCI Heart Disease data: four hospitals that really are four.

use consenso_engine::data::{Column, DataError, Dataset, Encoding, Kind, Schema, SchemaError, csv};

use crate::SchemaFile as _;

/// The centres, in the order of the agents, with their files as UCI has them.
const CENTRES: [(&str, &str); 4] = [
    ("cleveland", include_str!("../../data/heart/processed.cleveland.data")),
    ("hungarian", include_str!("../../data/heart/processed.hungarian.data")),
    ("switzerland", include_str!("../../data/heart/processed.switzerland.data")),
    ("va", include_str!("../../data/heart/processed.va.data")),
];

const SCHEMA: &str = include_str!("../../data/heart/schema.toml");

/// Which patients FLamby trains and tests on; `data/heart/flamby_split.py` made it.
const FLAMBY_SPLIT: &str = include_str!("../../data/heart/flamby-split.csv");

/// The accuracies FLamby published for differentially private federated averaging on its split:
/// `perf,e,d,seed`.
const FLAMBY_RESULTS: &str = include_str!("../../data/heart/flamby-dp-results.csv");

/// Names of the codes of each categorical column, by column: UCI writes numbers, some files as `1`,
/// others as `1.0`.
const NAMES: [(usize, &[(f64, &str)]); 8] = [
    (1, &[(0.0, "female"), (1.0, "male")]),
    (
        2,
        &[
            (1.0, "typical angina"),
            (2.0, "atypical angina"),
            (3.0, "non-anginal"),
            (4.0, "asymptomatic"),
        ],
    ),
    (5, &[(0.0, "no"), (1.0, "yes")]),
    (6, &[(0.0, "normal"), (1.0, "ST-T abnormality"), (2.0, "hypertrophy")]),
    (8, &[(0.0, "no"), (1.0, "yes")]),
    (10, &[(1.0, "up"), (2.0, "flat"), (3.0, "down")]),
    (11, &[(0.0, "0"), (1.0, "1"), (2.0, "2"), (3.0, "3")]),
    (12, &[(3.0, "normal"), (6.0, "fixed defect"), (7.0, "reversible defect")]),
];

/// What FLamby published for private federated averaging on its split at δ = 1e-4: ε, and the
/// accuracies of its seeds (mean over the four centres' test parts), by ε.
pub(crate) fn flamby_published() -> Vec<(f64, Vec<f64>)> {
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    for line in FLAMBY_RESULTS.lines().skip(1) {
        let cells: Vec<Option<f64>> = line.split(',').map(|cell| cell.parse().ok()).collect();
        let &[Some(accuracy), Some(epsilon), Some(delta), _] = &cells[..] else { continue };
        if delta != 1e-4 {
            continue;
        }
        match found.iter_mut().find(|f| f.0 == epsilon) {
            Some((_, accuracies)) => accuracies.push(accuracy),
            None => found.push((epsilon, vec![accuracy])),
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

/// Returns the schema of the bundled UCI Heart Disease data: 13 features, the label `ill`.
///
/// # Errors
/// None: a test reads it.
pub fn heart_schema() -> Result<Schema, SchemaError> {
    Schema::from_toml(SCHEMA)
}

/// Returns the bundled UCI Heart Disease data: 303, 294, 123 and 200 patients of four centres, each
/// a file and so an agent. Missing values follow declared rules; there are no test records, hold
/// some out.
///
/// # Errors
/// [`DataError::NotNumeric`] for [`Encoding::Numeric`]: there are categories.
pub fn heart(encoding: Encoding) -> Result<Dataset, DataError> {
    let schema = heart_schema()?;
    let read =
        |&(name, text): &(&str, &str)| csv::read(tidy(text, |_| true).as_bytes(), name, &schema);
    Dataset::new(CENTRES.iter().map(read).collect::<Result<_, _>>()?, None, encoding)
}

/// Returns the patients of FLamby's federated benchmark: without slope, vessels and thallium and
/// without patients with another value missing, 486 to train on and 254 to test on, by the split it
/// publishes.
///
/// # Errors
/// As [`heart`].
pub fn heart_flamby(encoding: Encoding) -> Result<Dataset, DataError> {
    let schema = flamby_schema()?;
    let part = |&(name, text): &(&str, &str), part: &str| {
        let rows: Vec<usize> =
            FLAMBY_SPLIT.lines().filter_map(|line| row_of(line, name, part)).collect();
        tidy(text, |row| rows.binary_search(&row).is_ok())
    };
    let train =
        |centre: &(&str, &str)| csv::read(part(centre, "train").as_bytes(), centre.0, &schema);
    let test: String = CENTRES.iter().map(|centre| part(centre, "test")).collect();
    let test = csv::read(test.as_bytes(), "test", &schema)?;
    // FLamby judges by the mean over the centres' test parts; no patient of its split lacks a
    // value, so none is dropped.
    let sites = CENTRES
        .iter()
        .zip(0..)
        .flat_map(|(centre, site)| std::iter::repeat_n(site, part(centre, "test").lines().count()));
    let data =
        Dataset::new(CENTRES.iter().map(train).collect::<Result<_, _>>()?, Some(&test), encoding)?;
    Ok(data.with_test_sites(sites.collect()))
}

/// As the whole schema, with what FLamby leaves out ignored and missing values dropped; a
/// cholesterol of 0 is a number there.
fn flamby_schema() -> Result<Schema, SchemaError> {
    let schema = heart_schema()?;
    let column = |column: &Column| {
        let ignored = ["st-slope", "coloured-vessels", "thallium"].contains(&column.name.as_str());
        let kind = match &column.kind {
            _ if ignored => Kind::Ignored,
            Kind::Numeric { max, .. } if column.name == "cholesterol" => {
                Kind::Numeric { min: 0.0, max: *max }
            }
            kind => kind.clone(),
        };
        Column::new(column.name.clone(), kind)
    };
    let columns = schema.columns().iter().filter(|c| !c.derived).map(column).collect();
    Schema::new(columns, schema.format().clone(), true)
}

/// The row of a line `centre,row,part` of the split, if it is of this centre and part.
fn row_of(line: &str, centre: &str, part: &str) -> Option<usize> {
    let mut cells = line.split(',');
    let of_centre = cells.next()? == centre;
    let row = cells.next()?.parse().ok();
    (of_centre && cells.next()? == part).then_some(row)?
}

/// The lines that are wanted, with categories by name, numbers written one way, and whether
/// somebody is ill instead of how much.
fn tidy(text: &str, wanted: impl Fn(usize) -> bool) -> String {
    let mut out = String::new();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    for (_, line) in lines.enumerate().filter(|(row, _)| wanted(*row)) {
        let cells: Vec<String> = line
            .split(',')
            .enumerate()
            .map(|(column, cell)| match cell.trim().parse::<f64>() {
                Ok(number) if column == 13 => if number > 0.0 { "yes" } else { "no" }.to_owned(),
                Ok(number) => {
                    name(column, number).map_or_else(|| number.to_string(), str::to_owned)
                }
                Err(_) => cell.trim().to_owned(),
            })
            .collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

fn name(column: usize, number: f64) -> Option<&'static str> {
    let names = NAMES.iter().find(|n| n.0 == column)?.1;
    names.iter().find(|n| n.0 == number).map(|n| n.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_centres_with_all_their_patients() {
        let data = heart(Encoding::OneHot).unwrap();
        let files = data.grouping("file").unwrap();
        assert_eq!(files.names, ["cleveland", "hungarian", "switzerland", "va"]);
        let of = |file: u32| files.codes.iter().filter(|&&code| code == file).count();
        assert_eq!([of(0), of(1), of(2), of(3)], [303, 294, 123, 200]);
        assert_eq!(
            data.train().labels().iter().filter(|&&y| y > 0.0).count(),
            139 + 106 + 115 + 149
        );
        assert_eq!((data.report().dropped_missing, data.bounds().is_public()), (0, true));
        // Switzerland has none, the veterans' hospital 49 zeros and 7 marks, Hungary 23.
        assert_eq!(data.report().imputed["cholesterol"], 123 + 49 + 7 + 23);
    }

    #[test]
    fn the_split_of_flamby_has_the_published_sizes() {
        let data = heart_flamby(Encoding::OneHot).unwrap();
        let files = data.grouping("file").unwrap();
        let of = |file: u32| files.codes.iter().filter(|&&code| code == file).count();
        assert_eq!([of(0), of(1), of(2), of(3)], [199, 172, 30, 85]);
        assert_eq!(data.test().unwrap().len(), 104 + 89 + 16 + 45);
        assert_eq!(data.report().dropped_missing, 0);
        // The published means at δ = 1e-4, to three digits.
        let mean = |(epsilon, a): (f64, Vec<f64>)| {
            (epsilon, (200.0 * a.iter().sum::<f64>()).round() as u32)
        };
        let published: Vec<(f64, u32)> = flamby_published().into_iter().map(mean).collect();
        assert_eq!(published, [(0.1, 606), (1.0, 685), (5.0, 704), (10.0, 700), (50.0, 702)]);
    }
}
