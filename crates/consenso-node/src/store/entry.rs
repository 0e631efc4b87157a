//! What the rows of a site's ledger say. Their text is hashed: a field that is added must be left
//! out where it says nothing.

use crate::decisions::DecidedBy;
use crate::frame::Digest;
use crate::spending::ChargeRow;
use consenso_engine::privacy::Claim;
use consenso_engine::privacy::studies::{Rule, StudyCost};
use serde::{Deserialize, Serialize};

/// What a row of the ledger says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry {
    /// The first row: what all studies of these records together may cost. `None`: nothing is
    /// protected here. Again where the site's own word has replaced that of the first study.
    Budget {
        /// Who owns the records.
        site: String,
        /// (ε, δ).
        limit: Option<(f64, f64)>,
        /// How studies are added up.
        #[serde(default = "sum_rule")]
        rule: Rule,
        /// Where it comes from; left out by earlier versions, whose limits are all for life.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<BudgetOrigin>,
        /// When.
        time: String,
    },
    /// From here on a witness elsewhere counts the releases.
    Witness {
        /// Where it is.
        path: String,
        /// When.
        time: String,
    },
    /// A study begins; its whole claim is reserved.
    Study {
        /// SHA-256 of what is run.
        experiment: String,
        /// SHA-256 of the graph.
        graph: String,
        /// What it will cost at most.
        claim: Option<Box<Claim>>,
        /// What that is beside other studies, where more than the claim is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<StudyCost>,
        /// Its name in the ledger that stays with the records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Whether the noise comes from a seed that everybody knows.
        seeded: bool,
        /// When.
        time: String,
    },
    /// A study of questions began because the site's operator let it.
    Answers {
        /// Whose word it was.
        by: DecidedBy,
        /// Hash of the line of `decisions.jsonl` that says so.
        decision: String,
        /// When it was decided.
        time: String,
    },
    /// A release was drawn and charged.
    Release {
        /// Its round.
        round: u32,
        /// BLAKE3 of the bytes sent.
        blake3: String,
        /// What it cost; empty for a function of releases alone.
        charge: ChargeRow,
        /// How many rounds old the neighbours' vectors were that it was made from, by agent number;
        /// left out where all were of the round before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ages: Vec<u32>,
    },
    /// The run goes on without a neighbour.
    Absent {
        /// The first round without it.
        round: u32,
        /// Its agent number.
        neighbour: u32,
        /// Its weight in the mix, which is the site's own from now on.
        weight: f64,
    },
    /// The study is over.
    Done {
        /// Exchanges made.
        round: u32,
        /// Why it ended.
        reason: String,
        /// SHA-256 of the model's numbers.
        model: String,
    },
    /// A neighbour has everything.
    Confirmed {
        /// Exchanges made.
        round: u32,
        /// Its agent number.
        neighbour: u32,
    },
    /// The state was lost, and what neighbours have of this site was put back: its last release,
    /// signed by itself.
    Restored {
        /// Exchanges that neighbours have.
        round: u32,
        /// Up to here there may have been more: these are charged, and use no record.
        until: u32,
        /// Who answered, by agent number.
        answered: Vec<u32>,
        /// When.
        time: String,
    },
    /// A neighbour has an exchange with this site's signature that this ledger does not have, or has
    /// otherwise: the folder is an old copy.
    Behind {
        /// The exchange.
        round: u32,
        /// Who has it, by agent number.
        neighbour: u32,
        /// When.
        time: String,
    },
    /// The sites agreed to change who takes part, and this site has taken it up.
    Changed {
        /// The agreement's number.
        number: u32,
        /// What changed, in words.
        change: String,
        /// Its whole text, with the signatures.
        agreement: String,
        /// Exchanges that this site had released.
        released: u32,
        /// When.
        time: String,
    },
    /// The study was given up: it counts for this much from here on.
    Abandoned {
        /// What its charged releases cost.
        cost: StudyCost,
        /// When.
        time: String,
    },
    /// Every neighbour has everything: nobody needs this site's messages any more.
    Settled {
        /// Exchanges made.
        round: u32,
    },
}

/// Where a site's limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetOrigin {
    /// `budget` in `site.toml`: for life. It can be lowered and never raised.
    Site,
    /// The first study, for want of a word of the site's own: until `site.toml` has a `budget`.
    Study,
}

fn sum_rule() -> Rule {
    Rule::Sum
}

/// One row of the ledger, read and checked.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number, from 1.
    pub number: i64,
    /// The study it belongs to; 0 for the budget.
    pub study: i64,
    /// What it says.
    pub entry: Entry,
    /// Hash of it and all before.
    pub hash: Digest,
}
