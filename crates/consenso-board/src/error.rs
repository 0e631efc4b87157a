//! What can be wrong with a board or a result.

/// What is wrong with a board file, a claimed result, or a file that a board needs.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The file is not what its format asks for.
    #[error("{file}{}: {message}", line.map_or_else(String::new, |line| format!(":{line}")))]
    Form {
        /// The file.
        file: String,
        /// Its line, if it is known.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// A key has a value that means nothing here.
    #[error("{file}: {key}: {message}{}", help.as_ref().map_or_else(String::new, |help| format!("\n  help: {help}")))]
    Key {
        /// The file.
        file: String,
        /// The key, as `problem.2.data`.
        key: String,
        /// What is wrong.
        message: String,
        /// What to do.
        help: Option<String>,
    },
}

impl BoardError {
    pub(crate) fn key(file: &str, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Key { file: file.into(), key: key.into(), message: message.into(), help: None }
    }

    pub(crate) fn help(self, text: impl Into<String>) -> Self {
        match self {
            Self::Key { file, key, message, .. } => {
                Self::Key { file, key, message, help: Some(text.into()) }
            }
            other => other,
        }
    }
}
