//! The bundled UCI Adult data.

use std::io::Read as _;

use consenso_engine::data::{
    Column, DataError, Dataset, Encoder, Encoding, Format, Kind, Label, Schema, Table, csv,
};
use ruzstd::decoding::StreamingDecoder;

/// UCI Adult, bundled: see `data/ATTRIBUTION.md`.
const ADULT_TRAIN: &[u8] = include_bytes!("../../data/adult.data.zst");
const ADULT_TEST: &[u8] = include_bytes!("../../data/adult.test.zst");

/// Returns the schema of the UCI Adult data (Becker and Kohavi, 1996), from its public
/// documentation: 14 features, the label `income` with `>50K` positive. Categories are those of
/// `adult.names`, in alphabetical order.
///
/// # Errors
/// None: a test reads it.
pub fn adult_schema() -> Result<Schema, DataError> {
    let columns = ADULT.iter().map(|(name, domain)| Column::new(*name, domain.kind())).collect();
    let format =
        Format { header: false, delimiter: Some(','), comment: Some('|'), ..Format::default() };
    Ok(Schema::new(columns, format, true)?)
}

/// Returns the bundled UCI Adult data before encoding: training and test records.
///
/// # Errors
/// None: a test reads them.
pub fn adult_tables() -> Result<(Table, Table), DataError> {
    let schema = adult_schema()?;
    let train = csv::read(unpacked(ADULT_TRAIN, "adult.data")?.as_bytes(), "adult.data", &schema)?;
    // The test file writes its labels with a full stop at the end.
    let test = unpacked(ADULT_TEST, "adult.test")?.replace(".\n", "\n");
    let test = csv::read(test.as_bytes(), "adult.test", &schema)?;
    Ok((train, test))
}

fn unpacked(packed: &[u8], file: &str) -> Result<String, DataError> {
    let read = |source| DataError::Read { file: file.to_owned(), source };
    let mut decoder = StreamingDecoder::new(packed).map_err(|e| read(std::io::Error::other(e)))?;
    let mut text = String::new();
    decoder.read_to_string(&mut text).map_err(read)?;
    Ok(text)
}

/// Returns the bundled UCI Adult data: 30,162 training and 15,060 test records (those without a
/// missing value), predicting an income above 50,000 dollars.
///
/// # Errors
/// [`DataError::NotNumeric`] for [`Encoding::Numeric`]: Adult has categories.
pub fn adult(encoding: Encoding) -> Result<Dataset, DataError> {
    Encoder::new(&adult_schema()?, encoding)?;
    let (train, test) = adult_tables()?;
    Dataset::new(vec![train], Some(&test), encoding)
}

enum Domain {
    Number(f64, f64),
    OneOf(&'static [&'static str]),
    Income(&'static [&'static str]),
}

impl Domain {
    fn kind(&self) -> Kind {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match self {
            Self::Number(min, max) => Kind::Numeric { min: *min, max: *max },
            Self::OneOf(names) => Kind::Categorical { categories: owned(names) },
            Self::Income(names) => Kind::Label(Label::Classes(owned(names))),
        }
    }
}

// Alphabetical: the integer codes of the `paper` encoding are then those of the usual label
// encoders, and reproduce the distance log(‖x*‖/d) = −4.30 of the zero model that an independent
// check of the paper found.
#[rustfmt::skip]
const ADULT: [(&str, Domain); 15] = [
    ("age", Domain::Number(17.0, 90.0)),
    ("workclass", Domain::OneOf(&[
        "Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov",
        "Without-pay",
    ])),
    ("fnlwgt", Domain::Number(12_285.0, 1_490_400.0)),
    ("education", Domain::OneOf(&[
        "10th", "11th", "12th", "1st-4th", "5th-6th", "7th-8th", "9th", "Assoc-acdm", "Assoc-voc", "Bachelors",
        "Doctorate", "HS-grad", "Masters", "Preschool", "Prof-school", "Some-college",
    ])),
    ("education-num", Domain::Number(1.0, 16.0)),
    ("marital-status", Domain::OneOf(&[
        "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Never-married", "Separated",
        "Widowed",
    ])),
    ("occupation", Domain::OneOf(&[
        "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing", "Handlers-cleaners",
        "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty", "Protective-serv", "Sales",
        "Tech-support", "Transport-moving",
    ])),
    ("relationship", Domain::OneOf(&[
        "Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife",
    ])),
    ("race", Domain::OneOf(&["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"])),
    ("sex", Domain::OneOf(&["Female", "Male"])),
    ("capital-gain", Domain::Number(0.0, 99_999.0)),
    ("capital-loss", Domain::Number(0.0, 4_356.0)),
    ("hours-per-week", Domain::Number(1.0, 99.0)),
    ("native-country", Domain::OneOf(&[
        "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador", "England",
        "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary",
        "India", "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua",
        "Outlying-US(Guam-USVI-etc)", "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South",
        "Taiwan", "Thailand", "Trinadad&Tobago", "United-States", "Vietnam", "Yugoslavia",
    ])),
    ("income", Domain::Income(&["<=50K", ">50K"])),
];
