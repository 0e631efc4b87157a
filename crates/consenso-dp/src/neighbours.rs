//! Which data sets a claim makes indistinguishable.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which data sets count as neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbourRelation {
    /// One record replaced by any other; the rigorous default. For the logistic loss
    /// `B_q = 2R_q/b`.
    #[default]
    ReplaceOne,
    /// One record added or removed, the announced numbers of records staying as they are: they are
    /// public, and not covered. The mean is over the records there are, so that the others' weight
    /// changes too: `B_q = 2R_q/b`.
    AddRemove,
    /// One record's contribution set to zero, the number of records public and unchanged.
    /// `B_q = R_q/b`.
    ZeroOut,
    /// The paper's convention, `B_∞ = 1/b`: half of what replace-one needs (docs/paper.md, erratum
    /// 3).
    Paper,
}

impl NeighbourRelation {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReplaceOne => "replace-one",
            Self::AddRemove => "add-remove",
            Self::ZeroOut => "zero-out",
            Self::Paper => "paper",
        }
    }

    /// What it means, in a sentence's part.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ReplaceOne => "one record replaced by any other",
            Self::AddRemove => {
                "one record added or removed, the mean being over the records there are and the announced number of records, which is not covered, \
                 staying as it is"
            }
            Self::ZeroOut => {
                "one record's contribution set to zero, the number of records public and unchanged"
            }
            Self::Paper => {
                "the paper's convention (B∞ = 1/b), half of what replacing a record needs"
            }
        }
    }
}

impl fmt::Display for NeighbourRelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
