//! Whom a privacy claim protects from.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who is assumed to look at a run, and at what. A claim names one; a budget may ask for one.
///
/// In an experiment file: `adversary = "local"`, `adversary = "one-node"` or
/// `adversary = { colluders = 3, eavesdropper = true }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Every other agent colludes and sees every vector on every link: the most that can be feared.
    #[default]
    Local,
    /// Each single other agent by itself: what it receives and what it knows of its own.
    OneNode,
    /// Any so many agents who pool all they see and know.
    #[serde(untagged)]
    Colluders(Coalition),
}

/// A number of agents who pool all they see and know, fixed before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalition {
    /// How many.
    pub colluders: usize,
    /// Whether they also read all that passes on every link, theirs or not.
    #[serde(default)]
    pub eavesdropper: bool,
}

impl Adversary {
    /// Any `colluders` agents.
    #[must_use]
    pub fn coalition(colluders: usize, eavesdropper: bool) -> Self {
        Self::Colluders(Coalition { colluders, eavesdropper })
    }

    /// The adversary of a claim in the words that ledgers have from before there was a type;
    /// `None` for other words.
    ///
    /// These words never change: they are what stands in ledgers. What a claim says today may.
    #[must_use]
    pub fn from_words(words: &str) -> Option<Self> {
        if words == "every other agent colludes and sees every exchanged vector" {
            return Some(Self::Local);
        }
        let (begins, eavesdropper) = match words.strip_prefix("any ") {
            Some(rest) if rest.contains(" and somebody reads every message on every link") => {
                (rest, true)
            }
            _ => (words.strip_prefix("up to ").filter(|w| w.contains(" agents collude, "))?, false),
        };
        let colluders = begins.split(' ').next()?.parse().ok()?;
        Some(Self::coalition(colluders, eavesdropper))
    }

    /// Whether a claim against this adversary, among `agents` agents, also holds against `other`:
    /// whether whatever `other` sees, this one sees.
    #[must_use]
    pub fn covers(self, other: Self, agents: usize) -> bool {
        let size = |a: Self| match a {
            Self::Local => (agents.saturating_sub(1), true),
            Self::OneNode => (1, false),
            Self::Colluders(c) => (c.colluders, c.eavesdropper),
        };
        let (mine, theirs) = (size(self), size(other));
        // Whoever all the others are sees every link at its own ends already.
        let hears = mine.1 || !theirs.1 || mine.0 + 1 >= agents;
        mine.0 >= theirs.0.min(agents.saturating_sub(1)) && hears
    }
}

impl fmt::Display for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::OneNode => f.write_str("one-node"),
            Self::Colluders(Coalition { colluders, eavesdropper }) => {
                write!(f, "{colluders} colluders")?;
                if *eavesdropper {
                    f.write_str(" and an eavesdropper on every link")
                } else {
                    Ok(())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_covers_whoever_sees_less() {
        let c = Adversary::coalition;
        assert!(
            Adversary::Local.covers(c(5, true), 10)
                && Adversary::Local.covers(Adversary::OneNode, 10)
        );
        assert!(c(3, true).covers(c(3, false), 10) && c(3, false).covers(Adversary::OneNode, 10));
        assert!(!c(3, false).covers(c(1, true), 10) && !c(3, true).covers(c(4, false), 10));
        assert!(
            !c(8, true).covers(Adversary::Local, 10) && c(9, false).covers(Adversary::Local, 10)
        );
        assert!(
            !Adversary::OneNode.covers(Adversary::Local, 10)
                && Adversary::OneNode.covers(Adversary::Local, 2)
        );
        assert!(!c(0, true).covers(Adversary::OneNode, 10));
    }

    /// Rewording a claim would have locked people out of their ledgers.
    #[test]
    fn the_words_of_old_ledgers_are_read() {
        let masks = "any 3 of 10 agents, fixed before the run, pool all they know and leave the protocol as they like, and somebody reads every message on every \
             link, while up to 1 agent drops out; all others follow the protocol and keep the secrets of their edges";
        let shares = "up to 2 of 7 agents collude, pool all they see and subtract their own noise; all follow the protocol";
        for (words, adversary) in [
            ("every other agent colludes and sees every exchanged vector", Some(Adversary::Local)),
            (masks, Some(Adversary::coalition(3, true))),
            (shares, Some(Adversary::coalition(2, false))),
            ("two colluders", None),
            ("any agent at all", None),
        ] {
            assert_eq!(Adversary::from_words(words), adversary, "{words}");
        }
    }

    #[test]
    fn files_write_it_in_three_ways() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct File {
            adversary: Adversary,
        }
        for (text, adversary) in [
            ("adversary = \"local\"", Adversary::Local),
            ("adversary = \"one-node\"", Adversary::OneNode),
            ("adversary = { colluders = 2 }", Adversary::coalition(2, false)),
            ("adversary = { colluders = 2, eavesdropper = true }", Adversary::coalition(2, true)),
        ] {
            let file: File = toml::from_str(text).unwrap();
            assert_eq!(file.adversary, adversary);
            assert_eq!(toml::from_str::<File>(&toml::to_string(&file).unwrap()).unwrap(), file);
            let json = serde_json::to_string(&adversary).unwrap();
            assert_eq!(serde_json::from_str::<Adversary>(&json).unwrap(), adversary);
        }
        assert!(toml::from_str::<File>("adversary = \"nobody\"").is_err());
    }
}
