//! What a node tells whoever watches it: where it stands, and what is around it.

use super::{Neighbour, Node};
use crate::progress::{Link, Watched};
use crate::surroundings::Surroundings;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// How often the state is told to whoever watches.
const NEWS: Duration = Duration::from_millis(20);

/// How often certificate, pins and disk are looked at.
const AROUND: Duration = Duration::from_secs(5);

/// Days before its end at which a site speaks of its certificate.
const ENDS_SOON: f64 = 14.0;

/// Where a node's state is told, and what was told last.
pub(super) struct Reporter {
    pub(super) progress: Watched,
    reported: Option<Instant>,
    around: (Instant, Surroundings),
    /// What was last said of this site's own certificate.
    certificate: Option<&'static str>,
}

impl Reporter {
    pub(super) fn new(progress: Watched, around: Surroundings) -> Self {
        Self { progress, reported: None, around: (Instant::now(), around), certificate: None }
    }

    /// Whether the state has not been told for a while.
    pub(super) fn is_due(&self) -> bool {
        self.reported.is_none_or(|before| before.elapsed() >= NEWS)
    }
}

impl Node {
    pub(super) fn report(&mut self) {
        self.reporter.reported = Some(Instant::now());
        let (looked, around) = &self.reporter.around;
        if looked.elapsed() >= AROUND {
            self.reporter.around = (Instant::now(), around.again(&self.shared.folder.path));
            self.mind_the_pins();
            self.mind_the_certificate();
        }
        let around = self.reporter.around.1;
        let without: Vec<u32> = self.agent.away().into_iter().map(|a| a.0).collect();
        let links = self.links_by_neighbour(&without);
        let waiting = self.waited_for();
        let claim = self.plan.claim.as_ref();
        let (seconds, done) = (self.course.seconds(), self.course.is_done());
        let since_round = if done { 0.0 } else { self.course.released_at.elapsed().as_secs_f64() };
        let count =
            |is: fn(&Neighbour) -> bool| self.neighbours.values().filter(|n| is(n)).count() as u32;
        let equivocations = count(|n| n.banned.is_some());
        let ahead = count(|n| n.suspected.is_some() || n.ahead.is_some());
        let (agreements, awaits) = (self.agreed.held.len() as u32, self.agreed.waits.is_some());
        self.reporter.progress.set(|p| {
            (p.equivocations, p.ahead, p.absent) = (equivocations, ahead, without.len() as u32);
            (p.agreements, p.awaits_agreement) = (agreements, awaits);
            p.site.clone_from(&self.shared.folder.site.name);
            p.round = self.agent.rounds_in(self.agent.exchanges()).0;
            p.released = self.agent.begun_in(self.releases.last()).0;
            p.rounds = self.agent.rounds_in(self.agent.last()).0;
            p.refusals = self.shared.audit.refusals();
            (p.waiting, p.since_round, p.around) = (waiting, since_round, around);
            p.convergence = self.agent.convergence();
            p.budget = claim.map(|c| c.epsilon);
            p.epsilon = claim.map(|c| self.releases.epsilon(c.delta.max(1e-12)).min(c.epsilon));
            p.neighbours = links;
            if !p.finished {
                p.seconds = seconds;
            }
        });
    }

    fn links_by_neighbour(&self, without: &[u32]) -> Vec<Link> {
        let link = |(j, n): (&u32, &Neighbour)| Link {
            name: n.name.clone(),
            up: n.is_linked(),
            heard: self.agent.begun_in(n.heard).0,
            without: without.contains(j),
        };
        self.neighbours.iter().map(link).collect()
    }

    /// Whom and what this site waits for, with the seconds.
    fn waited_for(&self) -> Vec<(String, f64)> {
        let awaited = if self.course.is_done() { Vec::new() } else { self.agent.awaited() };
        let sites = awaited
            .iter()
            .map(|j| &self.neighbours[j])
            .map(|n| (n.name.clone(), n.lost.unwrap_or(n.spoke).elapsed().as_secs_f64()));
        let signed = self.agreed.waits.iter().map(|(since, promised)| {
            let what = format!("agreement {} ({})", promised.number, promised.change);
            (what, since.elapsed().as_secs_f64())
        });
        sites.chain(signed).collect()
    }

    /// Says once that this site's own certificate ends soon, or has ended: neighbours say no more
    /// than that they do not believe it.
    pub(super) fn mind_the_certificate(&mut self) {
        let days = self.reporter.around.1.certificate_days;
        let now = match days {
            Some(days) if days <= 0.0 => Some("certificate-expired"),
            Some(days) if days < ENDS_SOON => Some("certificate-ends"),
            _ => None,
        };
        if let (Some(event), true) = (now, now != self.reporter.certificate) {
            let help = "put a new certificate.pem in place; it is read for the next connection, without a restart";
            self.audit(event, json!({ "days": days, "whose": "this site's own", "help": help }));
        }
        self.reporter.certificate = now;
    }
}
