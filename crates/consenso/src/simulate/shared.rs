//! The secret-shared exchange in lockstep: every share is made and added, none is kept.

use crate::agent::Player;
use crate::gate::Draft;
use crate::sharing::{FixedPoint, ShareError, Sight, add, revealed};
use rayon::prelude::*;

/// What agents exchange when only sums are revealed.
#[derive(Debug)]
pub(super) struct Exchange {
    code: FixedPoint,
    sights: Vec<Sight>,
    /// Each agent's own vector of this round.
    own: Vec<f64>,
    work: Work,
}

/// Scratch of one thread.
#[derive(Debug)]
struct Work {
    draft: Draft,
    /// N shares of one agent.
    words: Vec<u64>,
    /// s_j of the agents this thread has played, receiver by receiver.
    sums: Vec<u64>,
}

impl Work {
    fn new(words: usize) -> Self {
        Self { draft: Draft::default(), words: vec![0; words], sums: vec![0; words] }
    }
}

impl Exchange {
    pub(super) fn new(
        code: FixedPoint,
        players: &[Player],
        rows: &[f64],
        dim: usize,
    ) -> Result<Self, ShareError> {
        let sight = |(agent, (player, start)): (usize, (&Player, &[f64]))| {
            let protocol = player.protocol();
            let refused = ShareError::NeedsRows { kind: protocol.kind() };
            Sight::new(agent, players.len(), protocol, start).ok_or(refused)
        };
        let each = players.iter().zip(rows.chunks_exact(dim)).enumerate();
        let sights: Vec<Sight> = each.map(sight).collect::<Result<_, _>>()?;
        let words = sights.iter().map(|s| s.revealed().len()).sum();
        Ok(Self { code, sights, own: rows.to_vec(), work: Work::new(words) })
    }

    /// Both exchanges of a round; `rows` becomes what each agent goes on from. After an error nothing was revealed.
    pub(super) fn advance(
        &mut self,
        players: &mut [Player],
        round: u32,
        grain: usize,
        rows: &mut [f64],
    ) -> Result<(), ShareError> {
        let Self { code, sights, own, work } = self;
        let (code, dim, n) = (*code, rows.len() / players.len(), players.len());
        let play = |work: &mut Work,
                    player: &mut Player,
                    sight: &Sight,
                    own: &mut [f64]|
         -> Result<(), ShareError> {
            player.share(&sight.seat(round), &mut work.draft, &code, own, &mut work.words)?;
            // Share j goes to agent j, who adds it to those it holds.
            add(&mut work.sums, &work.words);
            Ok(())
        };
        work.sums.fill(0);
        let all_words = work.sums.len();
        if n <= grain {
            for ((player, sight), own) in players.iter_mut().zip(&*sights).zip(own.chunks_exact_mut(dim)) {
                play(work, player, sight, own)?;
            }
        } else {
            let all =
                players.par_iter_mut().zip(&*sights).zip(own.par_chunks_exact_mut(dim)).with_min_len(grain);
            // Modular sums are the same in any order.
            let threads = all.try_fold(
                || Work::new(all_words),
                |mut work, ((player, sight), own)| -> Result<Work, ShareError> {
                    play(&mut work, player, sight, own)?;
                    Ok(work)
                },
            );
            let sums = threads.map(|work: Result<Work, ShareError>| work.map(|w| w.sums)).try_reduce(
                || vec![0; all_words],
                |mut a, b| {
                    add(&mut a, &b);
                    Ok(a)
                },
            )?;
            work.sums.copy_from_slice(&sums);
        }
        // Everybody adds what everybody sent.
        let length = all_words / n;
        let (total, sums) = work.sums.split_at_mut(length);
        for sum in sums.chunks_exact(length) {
            add(total, sum);
        }
        let revealed = revealed(&code, sights[0].needs(), players[0].gate().constraint(), total);
        for ((sight, own), row) in
            sights.iter_mut().zip(own.chunks_exact(dim)).zip(rows.chunks_exact_mut(dim))
        {
            sight.reveal(own, &revealed);
            row.copy_from_slice(sight.own());
        }
        Ok(())
    }

    pub(super) fn finish(&self, players: &mut [Player], round: u32) -> Vec<Vec<f64>> {
        players
            .iter_mut()
            .zip(&self.sights)
            .map(|(player, sight)| player.finish(&sight.seat(round)))
            .collect()
    }
}
