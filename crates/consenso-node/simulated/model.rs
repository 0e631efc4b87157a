//! Models of three protocols, small enough that every order of events is tried: returning after a
//! lost disk, masked labels, and agreements. They share no code with what they are models of; what
//! they say is that the rules are enough, and the tests of the code say that it follows the rules.
//! Each model is also run with a rule taken away, where it must find what goes wrong then.

use std::collections::BTreeSet;

/// Visits every state that can be reached; the first that is wrong, or how many there are.
fn explore<S: Clone + Ord>(
    start: S,
    next: impl Fn(&S) -> Vec<Result<S, String>>,
) -> Result<usize, String> {
    let (mut seen, mut open) = (BTreeSet::from([start.clone()]), vec![start]);
    while let Some(state) = open.pop() {
        for after in next(&state) {
            let after = after?;
            if seen.insert(after.clone()) {
                open.push(after);
            }
        }
        assert!(seen.len() < 3_000_000, "the model is too large");
    }
    eprintln!("{}: {} states, all of them hold", std::any::type_name::<S>(), seen.len());
    Ok(seen.len())
}

// ---- returning after a lost disk

const ROUNDS: usize = 6;

/// A site with one honest neighbour and one that lies, or several that do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Return {
    /// Lives so far: each ends with the loss of the disk.
    life: u8,
    drawn: usize,
    /// Rounds up to this one use no record.
    spared: usize,
    witness: usize,
    /// Rounds that the honest neighbour, and the liar, have.
    honest: usize,
    liar: usize,
    /// In which life a round with records reached somebody.
    reached: [u8; ROUNDS + 1],
}

/// How many rounds are spared beyond what neighbours prove, and whether a witness counts instead.
fn returns(beyond: usize, witnessed: bool) -> Result<usize, String> {
    let start = Return {
        life: 1,
        drawn: 0,
        spared: 0,
        witness: 0,
        honest: 0,
        liar: 0,
        reached: [0; ROUNDS + 1],
    };
    let reach = |state: &Return, round: usize| {
        let mut after = state.clone();
        if round > state.spared {
            match state.reached[round] {
                0 => after.reached[round] = state.life,
                life if life == state.life => {}
                _ => return Err(format!("round {round} was drawn twice")),
            }
        }
        Ok(after)
    };
    explore(start, |state| {
        let mut all = Vec::new();
        // An honest neighbour's round r − 1 comes after it has this site's round r − 2.
        if state.drawn < ROUNDS && state.honest + 2 > state.drawn {
            let drawn = state.drawn + 1;
            all.push(Ok(Return { drawn, witness: state.witness.max(drawn), ..state.clone() }));
        }
        if state.honest < state.drawn {
            let honest = state.honest + 1;
            all.push(reach(state, honest).map(|after| Return { honest, ..after }));
        }
        if state.liar < state.drawn {
            let liar = state.liar + 1;
            all.push(reach(state, liar).map(|after| Return { liar, ..after }));
        }
        if state.life < 3 {
            // The liar proves what it likes of what it has; messages on their way are lost.
            for proved in 0..=state.liar {
                let drawn = state.honest.max(proved);
                let until = if witnessed { state.witness } else { drawn + beyond };
                let spared = until.max(drawn).min(ROUNDS);
                let liar = state.liar.min(drawn);
                all.push(Ok(Return { life: state.life + 1, drawn, spared, liar, ..state.clone() }));
            }
        }
        all
    })
}

#[test]
fn two_spared_rounds_are_enough_after_a_lost_disk_and_one_is_not() {
    assert!(returns(2, false).unwrap() > 1000);
    assert!(returns(0, true).unwrap() > 1000, "a witness needs none");
    assert!(returns(1, false).is_err());
    assert!(returns(0, false).is_err());
}

// ---- masked labels

const AGENTS: u8 = 3;
const LAST: u8 = 2;

/// A vector under a label: who, which round, who was given up, and what the round before was added
/// up without, where somebody may have missed it.
type Vector = (u8, u8, u8, Option<u8>);

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Adding {
    /// Whom it gave up, as bits.
    gone: u8,
    sent: bool,
    here: BTreeSet<Vector>,
    /// Without whom each complete round was added up.
    done: Vec<u8>,
    /// Labels it drew noise for.
    drew: BTreeSet<(u8, u8)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    agents: [Adding; AGENTS as usize],
    sent: BTreeSet<Vector>,
    give_ups: u8,
}

/// Takes a vector in: the larger set is adopted, unless it has too many or the receiver in it.
fn takes(me: u8, agent: &Adding, vector: Vector, most: u32, labelled: bool) -> Option<Adding> {
    let (from, round, gone, before) = vector;
    let both = agent.gone | gone;
    let mine = agent.done.len() as u8 + 1;
    if agent.gone & 1 << from > 0 || both & 1 << me > 0 || both.count_ones() > most || from == me {
        return None;
    }
    if agent.here.contains(&vector) || mine > LAST {
        return None;
    }
    let mut after = agent.clone();
    if both != agent.gone {
        (after.gone, after.sent) = (both, false);
        after.here.retain(|known| known.2 == both);
    }
    // Somebody has completed the round that this one is in: it goes on from that.
    if let (Some(without), true) = (before, round == mine + 1) {
        after.done.push(without);
        after.sent = false;
    }
    if round == after.done.len() as u8 + 1 && (gone == after.gone || !labelled) {
        after.here.insert(vector);
    }
    Some(after)
}

fn labels(most: u32, labelled: bool) -> Result<usize, String> {
    let start = Labels { agents: Default::default(), sent: BTreeSet::new(), give_ups: 0 };
    explore(start, |state| {
        let mut all = Vec::new();
        for me in 0..AGENTS {
            let agent = &state.agents[me as usize];
            let round = agent.done.len() as u8 + 1;
            let mut with = |change: Adding, vector: Option<Vector>, give_ups: u8| {
                let mut after = state.clone();
                after.agents[me as usize] = change;
                after.sent.extend(vector);
                after.give_ups += give_ups;
                all.push(agree(&after).map(|()| after));
            };
            if round <= LAST && !agent.sent {
                let mut after = agent.clone();
                let before = (agent.gone > 0).then(|| agent.done.last().copied()).flatten();
                after.sent = true;
                after.drew.insert((round, agent.gone));
                let vector = (me, round, agent.gone, before);
                after.here.insert(vector);
                with(after, Some(vector), 0);
            }
            for &vector in &state.sent {
                if let Some(after) = takes(me, agent, vector, most, labelled) {
                    with(after, None, 0);
                }
            }
            for other in (0..AGENTS).filter(|&j| j != me && agent.gone & 1 << j == 0) {
                if round <= LAST && state.give_ups < 2 && agent.gone.count_ones() < most {
                    let mut after = agent.clone();
                    (after.gone, after.sent) = (agent.gone | 1 << other, false);
                    after.here.retain(|known| known.2 == after.gone);
                    with(after, None, 1);
                }
            }
            let whole = (0..AGENTS).filter(|j| agent.gone & 1 << j == 0).all(|j| {
                agent
                    .here
                    .iter()
                    .any(|v| (v.0, v.1) == (j, round) && (v.2 == agent.gone || !labelled))
            });
            if round <= LAST && agent.sent && whole {
                let mut after = agent.clone();
                after.done.push(agent.gone);
                after.sent = false;
                with(after, None, 0);
            }
        }
        all
    })
}

/// All that are left complete a round alike, and nobody has more charges than the claim is for.
fn agree(state: &Labels) -> Result<(), String> {
    for (a, one) in state.agents.iter().enumerate() {
        let charges: BTreeSet<u32> =
            one.drew.iter().map(|(round, gone)| u32::from(*round) + gone.count_ones()).collect();
        if charges.len() < one.drew.len() {
            return Err(format!("agent {a} drew two vectors under one number"));
        }
        for (b, other) in state.agents.iter().enumerate() {
            let apart = (one.gone | other.gone) & (1 << a | 1 << b) > 0;
            let differ = one.done.iter().zip(&other.done).any(|(x, y)| x != y);
            if !apart && differ {
                return Err(format!("agents {a} and {b} added up different sums"));
            }
        }
    }
    Ok(())
}

#[test]
fn all_that_are_left_add_up_the_same_sums_in_any_order_of_events() {
    assert!(labels(1, true).unwrap() > 1000);
    assert!(labels(0, true).unwrap() > 100);
    assert!(labels(1, false).is_err(), "vectors under different labels do not add up to one sum");
}

// ---- agreements

/// An edge between sites 0 and 2 from exchange `FROM` on; site 1 is no end.
const FROM: u8 = 2;
const EXCHANGES: u8 = 4;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    complete: u8,
    promised: bool,
    holds: bool,
    /// It learned of the agreement after the exchange from which it holds.
    late: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    sites: [Site; 3],
    signed: u8,
    withdrawals: u8,
    /// Exchanges that an end completed with the edge, as bits.
    with: [u8; 3],
}

/// Whether an end that signed waits for the agreement.
fn agreements(waits: bool) -> Result<usize, String> {
    let site = Site { complete: 0, promised: false, holds: false, late: false };
    let start = Edge { sites: [site; 3], signed: 0, withdrawals: 0, with: [0; 3] };
    explore(start, |state| {
        let mut all = Vec::new();
        for me in 0..3 {
            let (site, end) = (state.sites[me], me != 1);
            let mut with = |change: Site, signed: u8, withdrawn: u8, used: u8| {
                let mut after = state.clone();
                after.sites[me] = change;
                after.signed |= signed;
                after.withdrawals += withdrawn;
                after.with[me] |= used;
                all.push(one_edge(&after).map(|()| after));
            };
            if state.signed & 1 << me == 0 && site.complete < FROM {
                with(Site { promised: true, ..site }, 1 << me, 0, 0);
            }
            if site.promised && !site.holds && state.withdrawals == 0 {
                with(Site { promised: false, ..site }, 0, 1, 0);
            }
            // Applied here, or passed on by somebody for whom it holds.
            if state.signed == 0b111 && !site.holds {
                let late = end && site.complete >= FROM;
                with(Site { holds: true, promised: false, late, ..site }, 0, 0, 0);
            }
            let blocked = waits && end && site.promised && !site.holds && site.complete + 1 >= FROM;
            // An exchange is complete when all neighbours have sent theirs: 1 is everybody's.
            let sent = |j: usize| state.sites[j].complete >= site.complete;
            let near = if end { sent(1) } else { sent(0) && sent(2) };
            let edge = end && site.holds && !site.late && site.complete + 1 >= FROM;
            let other = state.sites[2 - me];
            let there = !edge || (other.holds && !other.late && sent(2 - me));
            if site.complete < EXCHANGES && !blocked && near && there {
                let number = site.complete + 1;
                let used = if edge { 1 << number } else { 0 };
                with(Site { complete: number, ..site }, 0, 0, used);
            }
        }
        all
    })
}

/// Both ends complete the same exchanges with the edge, and nobody is late who kept its promise.
fn one_edge(state: &Edge) -> Result<(), String> {
    let [one, _, other] = state.sites;
    for exchange in FROM..=one.complete.min(other.complete) {
        let uses = |end: usize| state.with[end] & 1 << exchange > 0;
        if uses(0) != uses(2) {
            return Err(format!("exchange {exchange} has the edge at one end alone"));
        }
    }
    match (one.late || other.late) && state.withdrawals == 0 {
        true => Err("an end that signed learned of the edge too late".into()),
        false => Ok(()),
    }
}

#[test]
fn an_edge_begins_at_both_ends_and_nobody_who_waits_is_late() {
    assert!(agreements(true).unwrap() > 100);
    assert!(agreements(false).is_err(), "an end that does not wait is late");
}
