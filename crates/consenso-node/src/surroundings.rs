//! What a site needs around it to go on: a certificate that holds, room on the disk, and budget.
//! Nothing here depends on the records.

use crate::books;
use crate::clock;
use crate::identity::{self, CERTIFICATE};
use crate::store::{Entry, Row};
use serde::Serialize;
use std::path::Path;

/// Where a site stands apart from its rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Surroundings {
    /// Days until the site's certificate ends; below 0 after that.
    pub certificate_days: Option<f64>,
    /// Bytes that may still be written to the disk of the site's folder.
    pub free_bytes: Option<u64>,
    /// ε that all studies of these records together may cost.
    pub total: Option<f64>,
    /// ε that is left for the next study.
    pub remaining: Option<f64>,
    /// Studies in the ledger.
    pub studies: u32,
}

impl Surroundings {
    /// Looks around a site's folder; `rows` are its ledger's.
    #[must_use]
    pub fn look(folder: &Path, rows: &[Row]) -> Self {
        let standing = books::standing(rows);
        Self {
            total: standing.as_ref().map(|s| s.limit.epsilon),
            remaining: standing.as_ref().map(|s| s.remaining.epsilon),
            studies: rows.iter().filter(|row| matches!(row.entry, Entry::Study { .. })).count()
                as u32,
            ..Self::default()
        }
        .again(folder)
    }

    /// Looks again at the certificate and the disk, not at the ledger.
    #[must_use]
    pub fn again(self, folder: &Path) -> Self {
        let end = identity::certificates(&folder.join(CERTIFICATE))
            .ok()
            .and_then(|all| Some(identity::dates(all.first()?)?.1));
        let room = rustix::fs::statvfs(folder).ok();
        Self {
            certificate_days: end.map(|end| (end - clock::now() as i64) as f64 / 86_400.0),
            free_bytes: room.map(|r| r.f_bavail.saturating_mul(r.f_frsize)),
            ..self
        }
    }
}
