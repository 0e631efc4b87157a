//! Why something that was asked for cannot be done.

use std::fmt;

/// What is refused and why, with the key that is at fault where there is one: whoever knows the file finds its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    key: Option<String>,
    message: String,
}

impl Fault {
    /// A fault of what `key` says; dots lead into tables, as in `privacy.delta`.
    pub(crate) fn at(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: Some(key.into()), message: message.into() }
    }

    /// A fault that no single key is to blame for.
    pub(crate) fn of(why: impl fmt::Display) -> Self {
        Self { key: None, message: why.to_string() }
    }

    /// The fault of a text that begins with its key.
    pub(crate) fn says(text: String) -> Self {
        let key = text.split([' ', ':']).next().map(str::to_owned);
        Self { key, message: text }
    }

    /// Returns the key at fault, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
