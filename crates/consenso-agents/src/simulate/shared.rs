//! The secret-shared exchange in lockstep: every share is made and added, none is kept. Masked sums
//! likewise.

use super::DropOut;
use crate::agent::Player;
use crate::gate::{DraftScratch, MaskLabel, Round};
use crate::graph::Graph;
use crate::sharing::{FixedPoint, MeanView, ShareError, add, remaining, revealed};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What agents exchange when only sums are revealed.
#[derive(Debug)]
pub(super) struct SumsOnly {
    code: FixedPoint,
    sights: Vec<MeanView>,
    /// Each agent's own vector of this round.
    own: Vec<f64>,
    /// What the last round revealed; nothing before the first.
    revealed: Vec<f64>,
    work: Work,
    /// Where vectors are masked instead of shared.
    masks: Option<Masking>,
}

/// Who drops out of masked sums, and who did.
#[derive(Debug)]
struct Masking {
    graph: Arc<Graph>,
    most: usize,
    coming: Vec<DropOut>,
    gone: BTreeSet<u32>,
}

impl Masking {
    /// The label under which the next round is added up, with everybody gone who drops out in it.
    fn label(&mut self, round: u32) -> Result<MaskLabel, ShareError> {
        let now = self.coming.iter().filter(|d| d.round == round).map(|d| d.agent);
        let before = self.gone.len();
        self.gone.extend(now);
        if self.gone.len() > before {
            remaining(&self.graph, &self.gone, self.most, Round(round))?;
        }
        Ok(MaskLabel::new(Round(round), self.gone.iter().copied()))
    }
}

/// Scratch of one thread.
#[derive(Debug)]
struct Work {
    draft: DraftScratch,
    /// N shares of one agent.
    words: Vec<u64>,
    /// s_j of the agents this thread has played, receiver by receiver.
    sums: Vec<u64>,
}

impl Work {
    fn new(words: usize) -> Self {
        Self { draft: DraftScratch::default(), words: vec![0; words], sums: vec![0; words] }
    }
}

impl SumsOnly {
    pub(super) fn new(
        code: FixedPoint,
        players: &[Player],
        rows: &[f64],
        dim: usize,
    ) -> Result<Self, ShareError> {
        let sight = |(agent, (player, start)): (usize, (&Player, &[f64]))| {
            let protocol = player.protocol();
            let refused = ShareError::NeedsRows { kind: protocol.kind() };
            MeanView::new(agent, players.len(), protocol, start).ok_or(refused)
        };
        let each = players.iter().zip(rows.chunks_exact(dim)).enumerate();
        let sights: Vec<MeanView> = each.map(sight).collect::<Result<_, _>>()?;
        let words = sights.iter().map(|s| s.revealed().len()).sum();
        let (own, revealed) = (rows.to_vec(), Vec::new());
        Ok(Self { code, sights, own, revealed, work: Work::new(words), masks: None })
    }

    /// What changes from round to round: everybody's own vector, and what the last round revealed.
    pub(super) fn state(&self) -> (Vec<f64>, Vec<f64>) {
        (self.own.clone(), self.revealed.clone())
    }

    /// Goes on from such a state; false when it is of another exchange.
    pub(super) fn resume(&mut self, round: u32, own: &[f64], revealed: &[f64]) -> bool {
        let dim = self.own.len() / self.sights.len().max(1);
        let length = self.sights.first().map_or(0, |s| s.revealed().len());
        // Where somebody dropped out, agents are at different rounds.
        let died = |masks: &Masking| masks.coming.iter().any(|d| d.round <= round);
        if self.masks.as_ref().is_some_and(died)
            || own.len() != self.own.len()
            || !(revealed.is_empty() || revealed.len() == length)
        {
            return false;
        }
        self.own.copy_from_slice(own);
        self.revealed = revealed.to_vec();
        if !revealed.is_empty() {
            for (sight, own) in self.sights.iter_mut().zip(own.chunks_exact(dim)) {
                sight.reveal(own, revealed);
            }
        }
        true
    }

    /// Masks instead of shares; `coming` says who drops out when, of whom at most `most` may.
    pub(super) fn masked(mut self, graph: Arc<Graph>, most: usize, coming: Vec<DropOut>) -> Self {
        self.masks = Some(Masking { graph, most, coming, gone: BTreeSet::new() });
        self.work = Work::new(self.work.words.len() / self.sights.len().max(1));
        self
    }

    /// Both exchanges of a round; `rows` becomes what each agent goes on from. After an error
    /// nothing was revealed.
    pub(super) fn advance(
        &mut self,
        players: &mut [Player],
        round: u32,
        grain: usize,
        rows: &mut [f64],
    ) -> Result<(), ShareError> {
        let Self { code, sights, own, work, revealed: last, masks } = self;
        let (code, dim, n) = (*code, rows.len() / players.len(), players.len());
        let label = masks.as_mut().map(|masks| masks.label(round + 1)).transpose()?;
        let here = |agent: usize| label.as_ref().is_none_or(|label| !label.gave_up(agent as u32));
        let play = |work: &mut Work,
                    player: &mut Player,
                    sight: &MeanView,
                    own: &mut [f64]|
         -> Result<(), ShareError> {
            if let Some(label) = &label {
                if !label.gave_up(sight.agent() as u32) {
                    let neighbourhood = sight.neighbourhood(round);
                    player.mask(
                        &neighbourhood,
                        label,
                        false,
                        &mut work.draft,
                        &code,
                        own,
                        &mut work.words,
                    )?;
                    add(&mut work.sums, &work.words);
                }
                return Ok(());
            }
            player.share(
                &sight.neighbourhood(round),
                &mut work.draft,
                &code,
                own,
                &mut work.words,
            )?;
            // Share j goes to agent j, who adds it to those it holds.
            add(&mut work.sums, &work.words);
            Ok(())
        };
        work.sums.fill(0);
        let all_words = work.sums.len();
        if n <= grain {
            for ((player, sight), own) in
                players.iter_mut().zip(&*sights).zip(own.chunks_exact_mut(dim))
            {
                play(work, player, sight, own)?;
            }
        } else {
            let all = players
                .par_iter_mut()
                .zip(&*sights)
                .zip(own.par_chunks_exact_mut(dim))
                .with_min_len(grain);
            // Modular sums are the same in any order.
            let threads = all.try_fold(
                || Work::new(all_words),
                |mut work, ((player, sight), own)| -> Result<Work, ShareError> {
                    play(&mut work, player, sight, own)?;
                    Ok(work)
                },
            );
            let sums =
                threads.map(|work: Result<Work, ShareError>| work.map(|w| w.sums)).try_reduce(
                    || vec![0; all_words],
                    |mut a, b| {
                        add(&mut a, &b);
                        Ok(a)
                    },
                )?;
            work.sums.copy_from_slice(&sums);
        }
        // Everybody adds what everybody sent.
        let length = if label.is_some() { all_words } else { all_words / n };
        let (total, sums) = work.sums.split_at_mut(length);
        for sum in sums.chunks_exact(length) {
            add(total, sum);
        }
        let members = n - label.as_ref().map_or(0, |label| label.dropped().len());
        let set = players[0].gate().constraint();
        let revealed = revealed(&code, sights[0].needs(), set, total, members);
        let all = sights
            .iter_mut()
            .zip(own.chunks_exact(dim))
            .zip(rows.chunks_exact_mut(dim))
            .enumerate();
        for (_, ((sight, own), row)) in all.filter(|(agent, _)| here(*agent)) {
            sight.reveal(own, &revealed);
            row.copy_from_slice(sight.own());
        }
        *last = revealed;
        Ok(())
    }

    pub(super) fn finish(&self, players: &mut [Player], round: u32) -> Vec<Vec<f64>> {
        let gone =
            |agent: usize| self.masks.as_ref().is_some_and(|m| m.gone.contains(&(agent as u32)));
        let finish = |(player, sight): (&mut Player, &MeanView)| {
            if !gone(sight.agent()) {
                return player.finish(&sight.neighbourhood(round));
            }
            // Where it stood when it died.
            let mut model = vec![0.0; player.local().dim()];
            player.current_model(&sight.neighbourhood(round), &mut model);
            model
        };
        players.iter_mut().zip(&self.sights).map(finish).collect()
    }
}
