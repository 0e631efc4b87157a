//! Why a node cannot start or go on.

use crate::agreement::AgreementError;
use crate::claim::AuditError;
use crate::folder::FolderError;
use crate::identity::IdentityError;
use crate::store::StoreError;
use consenso_engine::ConfigError;
use consenso_engine::agent::{AbsenceError, AddNeighbourError, RejoinError, RestoreError};
use consenso_engine::gate::Round;
use consenso_ledger::LedgerError;

/// Why a node cannot start or go on. The state on disk is as of the last round in every case.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The folder is not as it should be.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The durable state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The experiment does not fit the site.
    #[error("{0}")]
    Experiment(String),
    /// The experiment gives this site no agent.
    #[error(transparent)]
    Unfit(#[from] ConfigError),
    /// The algorithm cannot go on without a neighbour.
    #[error(transparent)]
    Absence(#[from] AbsenceError),
    /// The algorithm's claim does not stand with another neighbour.
    #[error(transparent)]
    Join(#[from] AddNeighbourError),
    /// The algorithm's state cannot be had from what was released.
    #[error(transparent)]
    Rejoin(#[from] RejoinError),
    /// An agreement cannot hold here.
    #[error(transparent)]
    Agreement(#[from] AgreementError),
    /// The ledger's charges cannot be added up.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The ledger that stays with the records does not let the study in, or cannot be used.
    #[error("{}{}", .0, help(.0))]
    Records(LedgerError),
    /// The checkpoint does not fit the experiment.
    #[error("{}{}", .0, restore_help(.0))]
    Restore(#[from] RestoreError),
    /// Another process runs this site.
    #[error("{0}: another process runs this site")]
    Running(String),
    /// The durable state is gone, but the site has run before.
    #[error(
        "{0}: the audit log shows that this site has run, but its ledger (state.db) is missing\n  help: restore it; if it is lost for good, `consenso node rejoin` puts back what neighbours have of it"
    )]
    LedgerMissing(String),
    /// The durable state is older than what the site has done.
    #[error(
        "{0}: the audit log shows releases that the ledger (state.db) does not know: it is an old copy, or was damaged\n  help: restore the newest; an older one would charge and draw again what was sent already"
    )]
    LedgerOld(String),
    /// A neighbour has what this site does not know to have sent.
    #[error(
        "{peer} says that it has exchange {have} of this site, whose ledger (state.db) ends with exchange {released}: {peer} does not tell the truth, or the folder is an old copy\n  help: if state.db is the newest there is, ask {peer} for its audit log, which holds the hash of what it received; never go back to an older copy. A witness (site.toml) settles it"
    )]
    Forgot {
        /// Who.
        peer: String,
        /// What it has.
        have: u32,
        /// The last release here.
        released: u32,
    },
    /// A neighbour has a release that this site signed and its ledger does not know.
    #[error(
        "{peer} has exchange {have} of this site, signed with this site's key, and the ledger (state.db) ends with exchange {released}: the folder is an old copy\n  help: restore the newest; an older one would charge and draw again what was sent already. If there is none, `consenso node rejoin` brings this one up to date from what neighbours have"
    )]
    OldCopy {
        /// Who has it.
        peer: String,
        /// The exchange.
        have: u32,
        /// The last release here.
        released: u32,
    },
    /// The operating system says no.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        cause: std::io::Error,
    },
    /// Too few sites are left to go on with.
    #[error(
        "{names} not heard of for {seconds:.0} s, and without them {left} of the {least} sites that least_sites asks for are left; the state is kept, and a new start goes on from round {round}"
    )]
    Alone {
        /// Who is away.
        names: String,
        /// For how long.
        seconds: f64,
        /// How many are left, this site included.
        left: usize,
        /// How many there must be.
        least: usize,
        /// Where the run stands.
        round: Round,
    },
    /// The model that came out is none.
    #[error(
        "{what}; the longest vector came from {peer} ({largest:.3e} in round {round}), and nothing is written as a model\n  help: a neighbour that lies or diverges ruins an average; a constraint set, or mixing = \"trimmed\" in the experiment, bounds what one can do"
    )]
    OutOfRange {
        /// What is wrong with it.
        what: String,
        /// Whose vectors were longest.
        peer: String,
        /// The largest number in them.
        largest: f64,
        /// When it came.
        round: u32,
    },
    /// A site that lost its disk was not answered by all neighbours.
    #[error(
        "{names} did not answer within {seconds:.0} s: nothing was restored\n  help: start them (`consenso node run`) and ask again; `--without NAME` restores from the others' word alone"
    )]
    Unanswered {
        /// Who.
        names: String,
        /// How long they were waited for.
        seconds: f64,
    },
    /// What a neighbour says of this site's releases cannot be.
    #[error(
        "{site}: {what}; nothing was restored\n  help: ask {site} for its audit log, which has this site's signatures; `--without {site}` restores from the others' word alone"
    )]
    Contradicted {
        /// Who.
        site: String,
        /// What it said.
        what: String,
    },
    /// The site's own signer does not sign.
    #[error(
        "this site's signer has not signed for {seconds:.0} s ({reason}), and neighbours wait for its releases; the state is kept, and a new start goes on from round {round}"
    )]
    Signer {
        /// What it says.
        reason: String,
        /// For how long.
        seconds: f64,
        /// Where the run stands.
        round: Round,
    },
    /// An agreement that this site signed, and waits for, holds nowhere.
    #[error(
        "agreement {number} ({change}), which this site signed, has not come for {seconds:.0} s, and without it or its withdrawal round {round} cannot end; the state is kept\n  help: consenso network change apply SITE_DIR FILE, where somebody has it with all signatures; or consenso network change withdraw SITE_DIR, if nobody will apply it"
    )]
    Unapplied {
        /// Its number.
        number: u32,
        /// What it changes.
        change: String,
        /// For how long.
        seconds: f64,
        /// Where the run stands.
        round: Round,
    },
    /// A secret-shared round cannot be what its shares add up to.
    #[error("{0}")]
    Shares(String),
    /// Neighbours are away.
    #[error(
        "{names} not heard of for {seconds:.0} s; the state is kept, and a new start goes on from round {round}"
    )]
    Away {
        /// Who.
        names: String,
        /// For how long.
        seconds: f64,
        /// Where the run stands.
        round: Round,
    },
}

// Not as its source: the message holds it already.
impl From<LedgerError> for NodeError {
    fn from(error: LedgerError) -> Self {
        Self::Records(error)
    }
}

/// What to do about a checkpoint that does not fit.
fn restore_help(error: &RestoreError) -> &'static str {
    match error {
        RestoreError::Shape { what: "the ledger" } => {
            "\n  help: the study was begun by another version of consenso, which kept its account (accounting = \"filter\") in another way. Nothing was released by this start, and what \
             was charged stays charged: finish the study with the version that began it, or give it up with `consenso node abandon` and begin another"
        }
        _ => {
            "\n  help: the study was begun by another version of consenso, or the folder's files are not of one time: finish it with the version that began it, or restore the folder"
        }
    }
}

/// What to do about the records' ledger.
fn help(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::Changed { .. } => {
            "\n  help: start once with --edited-records same (what was spent stays spent) or --edited-records other (other people's records)"
        }
        LedgerError::File { .. } => {
            "\n  help: the ledger of spent privacy stays beside the records; where that folder cannot be written, name another: ledger = \"…\" in site.toml"
        }
        _ => "",
    }
}

impl NodeError {
    /// Whether it says something of neighbours, from what they sent or did not send, that other
    /// neighbours should know.
    pub(crate) fn is_about_others(&self) -> bool {
        matches!(
            self,
            Self::Away { .. } | Self::Alone { .. } | Self::OutOfRange { .. } | Self::Shares(_)
        )
    }

    /// Whether the user must mend something before another start can work.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            // Others may come back, or tell the truth next time.
            Self::Away { .. }
            | Self::Alone { .. }
            | Self::Signer { .. }
            | Self::Unapplied { .. }
            | Self::Forgot { .. }
            | Self::OutOfRange { .. } => false,
            Self::Shares(_) | Self::Unanswered { .. } | Self::Contradicted { .. } => false,
            Self::System { .. } | Self::Store(StoreError::Database { .. }) => false,
            Self::Store(StoreError::File { cause, .. }) => {
                cause.kind() != std::io::ErrorKind::StorageFull
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter's account has another shape since Σ μ² is added up: whoever updates in the middle
    /// of a study is told what to do.
    #[test]
    fn a_study_begun_by_another_version_says_how_it_can_end() {
        let said = NodeError::from(RestoreError::Shape { what: "the ledger" }).to_string();
        for part in ["begun by another version", "Nothing was released", "node abandon"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
