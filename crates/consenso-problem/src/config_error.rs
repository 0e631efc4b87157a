//! Why something that was asked for cannot be done.

use std::fmt;

/// What is refused and why, with the key that is at fault where there is one: whoever knows the
/// file finds its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    key: Option<String>,
    message: String,
    /// What to do instead.
    help: Option<String>,
    claim: bool,
    /// Keys that `key` may have been meant to be, where it is none of them.
    known: &'static [&'static str],
}

impl ConfigError {
    /// Refuses what `key` says; dots lead into tables, as in `privacy.delta`.
    #[must_use]
    pub fn at(key: impl Into<String>, message: impl Into<String>) -> Self {
        let (key, message) = (Some(key.into()), message.into());
        Self { key, message, help: None, claim: false, known: &[] }
    }

    /// Refuses something that no single key is to blame for.
    #[must_use]
    pub fn of(why: impl fmt::Display) -> Self {
        Self { key: None, message: why.to_string(), help: None, claim: false, known: &[] }
    }

    /// Refuses to claim what no noise of this kind, or no theorem, can keep.
    pub fn no_claim(why: impl fmt::Display) -> Self {
        Self::of(why).refusing_claim()
    }

    /// What is asked for is well-formed, but nothing could be claimed of it.
    pub fn refusing_claim(self) -> Self {
        Self { claim: true, ..self }
    }

    /// Says what to do instead.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// What is refused and why, without what to do instead.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do instead, where it is not part of the message.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The key is unknown, and these are known in its place.
    pub fn among(self, known: &'static [&'static str]) -> Self {
        Self { known, ..self }
    }

    /// Keys that are known in place of an unknown one.
    pub fn known(&self) -> &'static [&'static str] {
        self.known
    }

    /// Returns the key at fault, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether what was asked for is well-formed, and only the promise that it asks for cannot be
    /// made: no noise keeps the budget, or nothing bounds what one record can change.
    #[must_use]
    pub fn refuses_claim(&self) -> bool {
        self.claim
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, ": {help}"))
    }
}

impl std::error::Error for ConfigError {}
