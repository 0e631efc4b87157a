//! What is wrong with a question.

/// Why a question cannot be answered, with the number of the `[[query]]` and the key at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("query {}: {key}: {message}", .query + 1)]
pub struct QuestionError {
    /// Which question, from 0.
    pub query: usize,
    /// The key at fault.
    pub key: &'static str,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl QuestionError {
    pub(crate) fn new(query: usize, key: &'static str, message: impl Into<String>) -> Self {
        Self { query, key, message: message.into() }
    }
}
