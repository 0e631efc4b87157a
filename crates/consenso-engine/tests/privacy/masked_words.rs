//! Words of a neighbour in masked sums that are believed, and what they cannot change: the noise of
//! an honest agent's next vector (`docs/what-a-neighbour-can-do.md`).

use crate::masked::{code, players};
use consenso_engine::gate::{MaskLabel, Round};
use consenso_engine::graph::Graph;
use consenso_engine::random::Seed;
use consenso_engine::sharing::{
    MaskedAgent, MaskedEffect, MaskedMessage, MaskedRefusal, ShareError,
};
use std::sync::Arc;

fn agents(graph: &Arc<Graph>, most: usize) -> Vec<MaskedAgent> {
    let all = players(graph, most, 0.01, &Seed::from(11)).into_iter().enumerate();
    let agent = |(i, player)| {
        MaskedAgent::masked(i as u32, code(graph.agents()), Arc::clone(graph), most, player)
            .expect("sums")
    };
    all.map(agent).collect()
}

fn next_message(agent: &mut MaskedAgent) -> Option<MaskedMessage> {
    while let Some(effect) = agent.poll().ok()? {
        if let MaskedEffect::Send(message) = effect {
            return Some(message);
        }
    }
    None
}

/// Since when somebody is gone is told in reports; the next vector is the same, word by word.
#[test]
fn a_wrong_word_about_since_when_somebody_is_gone_changes_a_report_only() {
    let graph = Arc::new(Graph::complete(5).unwrap());
    let told = |since: u32| {
        let mut agent = agents(&graph, 1).swap_remove(0);
        next_message(&mut agent).expect("a first vector");
        let label = MaskLabel::new(Round(2), [4]);
        let vectors = vec![(1, vec![7; 3].into())];
        let lie = MaskedMessage::received(1, label, vec![Round(since)], 1, None, vectors);
        agent.handle(&lie).expect("one may drop out");
        let next = next_message(&mut agent).expect("the round begins again without the fifth");
        assert_eq!((next.label().round(), next.label().dropped()), (Round(1), &[4][..]));
        (next.vectors().to_vec(), agent.away())
    };
    let (truly, falsely) = (told(1), told(2));
    assert_eq!(truly.0, falsely.0, "the same vector with the same noise");
    assert_eq!((&truly.1[..], &falsely.1[..]), (&[(4, Round(1))][..], &[(4, Round(2))][..]));
}

/// A relay that changes somebody's vector on its way changes no noise: the receiver's vector of the
/// round has left before, and the two versions end its run.
#[test]
fn a_vector_that_a_relay_changed_ends_the_run_and_changes_no_noise() {
    let graph = Arc::new(Graph::ring(4).unwrap());
    let sent_by_first = |forged: bool| {
        let mut agents = agents(&graph, 0);
        let mut sent: Vec<MaskedMessage> = Vec::new();
        let mut failed = None;
        for _ in 0..2 {
            let out: Vec<MaskedMessage> = agents.iter_mut().filter_map(next_message).collect();
            for message in &out {
                for &to in graph.neighbours(message.from() as usize) {
                    let change = |(whose, words): &(u32, Arc<[u64]>)| match forged && *whose == 2 {
                        true => (*whose, words.iter().map(|w| w.wrapping_add(1 << 30)).collect()),
                        false => (*whose, Arc::clone(words)),
                    };
                    let told = match (message.from(), to, message.hop()) {
                        // Agent 1 passes on what agent 2 sent, and changes it.
                        (1, 0, 2) => MaskedMessage::received(
                            1,
                            message.label().clone(),
                            message.since().to_vec(),
                            2,
                            message.before().map(Into::into),
                            message.vectors().iter().map(change).collect(),
                        ),
                        _ => message.clone(),
                    };
                    agents[to as usize].handle(&told).expect("well-formed");
                }
            }
            sent.extend(out.into_iter().filter(|m| m.from() == 0));
        }
        match agents[0].poll() {
            Err(error) => failed = Some(error),
            Ok(_) => sent.extend(next_message(&mut agents[0])),
        }
        (sent, failed)
    };
    let (honest, no_failure) = sent_by_first(false);
    let (attacked, failure) = sent_by_first(true);
    assert_eq!(no_failure, None);
    let two = ShareError::TwoVersions { of: 2, by: 3, round: Round(1) };
    assert_eq!(failure, Some(two), "and it sends nothing more");
    assert_eq!(attacked[..], honest[..attacked.len()], "what it had sent is the same");
}

/// Who holds a vector back, or brings another, spoiled the sum of whoever had no other way to it.
#[test]
fn a_relay_passes_on_exactly_what_it_must_have_heard_of() {
    let graph = Arc::new(Graph::path(4).unwrap());
    let mut agents = agents(&graph, 0);
    let first: Vec<MaskedMessage> = agents.iter_mut().filter_map(next_message).collect();
    for message in &first {
        for &to in graph.neighbours(message.from() as usize) {
            agents[to as usize].handle(message).expect("a vector of its own");
        }
    }
    let second: Vec<MaskedMessage> = agents.iter_mut().filter_map(next_message).collect();
    let passed = &second[1];
    let whose: Vec<u32> = passed.vectors().iter().map(|v| v.0).collect();
    assert_eq!((passed.hop(), &whose[..]), (2, &[0, 2][..]));
    let with = |vectors: Vec<(u32, Arc<[u64]>)>| {
        MaskedMessage::received(1, passed.label().clone(), Vec::new(), 2, None, vectors)
    };
    let fewer = with(passed.vectors()[..1].to_vec());
    let none = with(Vec::new());
    let mut more = passed.vectors().to_vec();
    more.push((3, vec![7; 3].into()));
    for lie in [fewer, none, with(more)] {
        let refused = agents[0].handle(&lie).unwrap_err();
        assert!(
            matches!(&refused, MaskedRefusal::Shape { what, .. } if what.contains("passes on"))
        );
    }
    agents[0].handle(passed).expect("what an honest one passes on");
}
