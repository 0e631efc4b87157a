//! Categories of new records that the schema does not declare.

use std::fmt;

/// What becomes of a category that the schema does not declare, in records to predict.
///
/// Records to train on have no such choice: what a site reads must follow the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The file is refused, with the line and the category that may have been meant.
    #[default]
    Error,
    /// The column says nothing about this record: all of its features are zero, which is the
    /// average of a standardised column and none of the categories of a one-hot one.
    Ignore,
    /// It counts as the category that the schema declares as "other", however that is capitalised.
    Other,
}

impl Unknown {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Ignore, Self::Other];

    /// Its name on the command line and in Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Ignore => "ignore",
            Self::Other => "other",
        }
    }

    /// The value that stands for an unknown category in a table; `None` where it is refused.
    pub(super) fn stand_in(self, categories: &[String]) -> Option<f64> {
        match self {
            Self::Error => None,
            Self::Ignore => Some(f64::NAN),
            Self::Other => {
                let other = categories.iter().position(|name| name.eq_ignore_ascii_case("other"));
                other.map(|code| code as f64)
            }
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
