//! What can be wrong with a question put to the accountants.

/// A request the privacy engine refuses to answer, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// The text is not JSON.
    #[error("the events are not valid JSON: {message}")]
    Json {
        /// What the JSON reader said, with line and column.
        message: String,
    },
    /// The JSON is not an array of events.
    #[error("the events must be a JSON array of objects, found {found}")]
    NotAnArray {
        /// The kind of JSON value found instead.
        found: &'static str,
    },
    /// An entry of the array is not an object.
    #[error(
        "event {index}: expected an object such as {{\"mechanism\":\"laplace\",\"epsilon\":0.1}}, found {found}"
    )]
    NotAnObject {
        /// Position in the array, from 0.
        index: usize,
        /// The kind of JSON value found instead.
        found: &'static str,
    },
    /// An entry lacks a key its mechanism needs.
    #[error("event {index}: the key \"{key}\" is missing")]
    MissingKey {
        /// Position in the array, from 0.
        index: usize,
        /// The missing key.
        key: &'static str,
    },
    /// An entry has a key its mechanism does not know. Guessing what it meant could cost privacy.
    #[error("event {index}: the key \"{key}\" is not known for the mechanism \"{mechanism}\"")]
    UnknownKey {
        /// Position in the array, from 0.
        index: usize,
        /// The unknown key.
        key: String,
        /// The entry's mechanism.
        mechanism: String,
    },
    /// A mechanism nobody here can account for.
    #[error(
        "event {index}: the mechanism \"{mechanism}\" is not known (known: laplace, gaussian, pure, zcdp, \
         interval-laplace, interval-gaussian, post-processing)"
    )]
    UnknownMechanism {
        /// Position in the array, from 0.
        index: usize,
        /// The mechanism as written.
        mechanism: String,
    },
    /// Sampled releases whose records are replaced beside some whose records are added or removed.
    #[error(
        "event {index}: sampled releases of one composition have one neighbour relation, and an earlier one has another"
    )]
    MixedNeighbours {
        /// Position in the array, from 0.
        index: usize,
    },
    /// A neighbour relation under which nothing is known of sampled releases.
    #[error("nothing is known of sampled releases between the neighbours \"{neighbours}\"")]
    UnknownNeighbours {
        /// The relation.
        neighbours: crate::NeighbourRelation,
    },
    /// A value of an entry is out of range or of the wrong kind.
    #[error("event {index}: \"{key}\" must be {expected}, found {found}")]
    BadValue {
        /// Position in the array, from 0.
        index: usize,
        /// The key whose value is wrong.
        key: &'static str,
        /// What would be accepted.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// A parameter of a request is out of range.
    #[error("{name} must be {expected}, found {found}")]
    BadParameter {
        /// The parameter.
        name: &'static str,
        /// What would be accepted.
        expected: &'static str,
        /// What was found.
        found: f64,
    },
    /// Two lists that go together differ in length.
    #[error("{name} has {found} entries, expected {expected}")]
    BadLength {
        /// The list.
        name: &'static str,
        /// The length required.
        expected: usize,
        /// The length found.
        found: usize,
    },
    /// The budget is so small that no mechanism on offer meets it.
    #[error("no noise level meets ε = {epsilon} with δ = {delta}: {reason}")]
    Unreachable {
        /// The budget's ε.
        epsilon: f64,
        /// The budget's δ.
        delta: f64,
        /// What stands in the way.
        reason: &'static str,
    },
}

/// Checks that `epsilon` is a finite positive number.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<(), AccountingError> {
    check_positive("epsilon", epsilon)
}

/// Checks that `value` is a finite positive number.
pub(crate) fn check_positive(name: &'static str, value: f64) -> Result<(), AccountingError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(AccountingError::BadParameter { name, expected: "a finite number above 0", found: value })
}

/// Checks that `delta` lies strictly between 0 and 1.
pub(crate) fn check_delta(delta: f64) -> Result<(), AccountingError> {
    if delta > 0.0 && delta < 1.0 {
        return Ok(());
    }
    Err(AccountingError::BadParameter {
        name: "delta",
        expected: "strictly between 0 and 1",
        found: delta,
    })
}
