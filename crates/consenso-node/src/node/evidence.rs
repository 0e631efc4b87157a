//! What neighbours sent, kept to compare it, to prove it, and to give it back.

use super::origins::TrustedKeys;
use crate::equivocation::Watch;
use crate::release_cache::ReleaseCache;

/// What is remembered of neighbours' messages beyond the round that they are for.
pub(super) struct Evidence {
    /// What neighbours that are neighbours of each other were sent.
    pub(super) watch: Watch,
    /// The last round whose releases were compared with neighbours.
    pub(super) compared: u32,
    /// Keys of sites whose vectors others pass on.
    pub(super) trusted: TrustedKeys,
    /// The last releases of neighbours, should one of them lose its disk.
    pub(super) held: Option<ReleaseCache>,
}

impl Evidence {
    pub(super) fn new(watch: Watch, held: Option<ReleaseCache>) -> Self {
        Self { watch, compared: 0, trusted: TrustedKeys::new(), held }
    }
}
