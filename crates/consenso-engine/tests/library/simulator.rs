//! One state machine, two drivers: the transcript is the same bit for bit whatever the threads, the
//! faults and the order of arrival.

use crate::common;

use common::Door;
use consenso_engine::agent::{
    AbsenceError, AddNeighbourError, Agent, Checkpoint, Effect, Message, Player, Refusal,
    RestoreError, Timetable,
};
use consenso_engine::data::{Synthetic, SyntheticTask};
use consenso_engine::gate::{Batches, Noise, Round, StopReason};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::problem::{LocalObjective, Loss, Objective};
use consenso_engine::protocol::{
    Accelerated, Admm, Aggregation, AtcTracking, AugDgm, Choco, Compressor, ConsensusAdmm,
    CoordinateDescent, CoordinateOrder, Decor, Dgd, Diffusion, Dlm, DpCsgp,
    DualVariablePerturbation, DynD2p, ExactDiffusion, Extra, GradientDescent, GradientTracking,
    GtSvrg, KINDS, Lead, Led, MixRule, Muffliato, NeighbourhoodDescent, Nids, OutputAdmm, Pdop,
    PenaltyPerturbation, PrivSgpVr, Protocol, ProxSkip, PushDiging, PushSum, Schedule,
};
use consenso_engine::random::Seed;
use consenso_engine::simulate::{Delays, Faults, Lockstep, NetworkCut, Traffic, over_messages};
use std::sync::Arc;

/// Records of an agent, where the number is told to its gate.
const RECORDS: usize = 8;

/// Everything a run needs but its driver.
struct Setting {
    locals: Vec<LocalObjective>,
    graph: Arc<Graph>,
    mixing: Arc<Mixing>,
    protocol: Arc<dyn Protocol>,
    timetable: Timetable,
    door: Door,
    seed: Seed,
    mix: MixRule,
    /// The chance of a record to be drawn for a round.
    batch: Option<f64>,
}

/// What two drivers must agree on: every release by round and agent, and every model, as bits.
#[derive(Debug, PartialEq)]
struct Outcome {
    transcript: Vec<(u32, u32, Vec<u64>)>,
    models: Vec<Vec<u64>>,
}

/// Both kinds of noise in one run.
fn noise(round: u32) -> Noise {
    if round.is_multiple_of(2) {
        Noise::Gaussian { sigma: 0.1 }
    } else {
        Noise::Laplace { scale: 0.1 }
    }
}

fn bits(x: &[f64]) -> Vec<u64> {
    assert!(x.iter().all(|x| x.is_finite()));
    x.iter().map(|x| x.to_bits()).collect()
}

impl Setting {
    fn new(
        protocol: Arc<dyn Protocol>,
        agents: usize,
        records: usize,
        dim: usize,
        timetable: Timetable,
    ) -> Self {
        let seed = Seed::from(2024);
        let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
        let mut synthetic = Synthetic::new(SyntheticTask::Logistic, agents, records, dim);
        synthetic.heterogeneity = 0.5;
        let data = synthetic.generate(&seed).expect("valid");
        let graph = if protocol.kind() == "gd" {
            Graph::complete(agents).expect("a graph")
        } else {
            Graph::random(agents, 2 * agents - 3, &seed).expect("a graph")
        };
        Self {
            locals: data
                .into_iter()
                .map(|records| LocalObjective::new(objective, records))
                .collect(),
            mixing: Arc::new(Mixing::metropolis(&graph)),
            graph: Arc::new(graph),
            protocol,
            timetable,
            door: Door::Noisy { noise, budget: None },
            seed,
            mix: MixRule::Average,
            batch: None,
        }
    }

    fn players(&self) -> Vec<Player> {
        let all =
            common::players(&self.locals, &self.protocol, &self.timetable, self.door, &self.seed);
        let batches = self.batch.map(|rate| Batches { rate, records: RECORDS });
        let drawing = |player: Player| {
            let gate = player.gate().clone().with_batches(batches);
            let (local, protocol) = (player.local().clone(), Arc::clone(&self.protocol));
            Player::new(local, protocol, Arc::new(self.timetable.clone()), gate)
                .with_mixing(self.mix)
        };
        all.into_iter().map(drawing).collect()
    }

    fn agents(&self) -> Vec<Agent> {
        let agent = |(i, player)| Agent::new(i as u32, &self.graph, &self.mixing, player);
        self.players().into_iter().enumerate().map(agent).collect()
    }

    fn lockstep(&self) -> Outcome {
        let mut run =
            Lockstep::new(self.players(), Arc::clone(&self.graph), Arc::clone(&self.mixing));
        let mut transcript = Vec::new();
        for round in 1..=self.timetable.exchanges() {
            run.advance();
            assert_eq!(run.round(), round);
            transcript.extend(
                run.rows().chunks(run.dim()).zip(0..).map(|(row, i)| (round, i, bits(row))),
            );
        }
        Outcome { transcript, models: run.finish().iter().map(|m| bits(m)).collect() }
    }

    fn messages(&self, faults: &Faults, network: u64) -> (Outcome, Traffic) {
        let neighbours = |i: usize| self.graph.neighbours(i).to_vec();
        let (agents, traffic) =
            over_messages(self.agents(), neighbours, faults, &Seed::from(network))
                .expect("the faults heal");
        let reason = if let Door::Noisy { budget: Some(_), .. } = self.door {
            StopReason::BudgetSpent
        } else {
            StopReason::Finished
        };
        assert!(traffic.stopped.iter().all(|&stopped| stopped == reason));
        assert!(agents.iter().all(|agent| agent.exchanges() == self.timetable.exchanges()));
        let transcript =
            traffic.transcript.iter().map(|m| (m.round(), m.from(), bits(m.values()))).collect();
        let models = agents.iter().map(|agent| bits(agent.model().expect("done"))).collect();
        (Outcome { transcript, models }, traffic)
    }

    /// One copy of every message to every neighbour.
    fn fewest_deliveries(&self) -> u64 {
        2 * self.graph.edges() as u64 * u64::from(self.timetable.exchanges())
    }
}

fn protocols() -> Vec<Arc<dyn Protocol>> {
    let step = || Some(Schedule::power(0.9));
    let admm = |exact, aggregation| Admm {
        penalty: Some(4.0),
        dual_step: Some(0.1),
        exact,
        aggregation,
        ..Admm::default()
    };
    vec![
        Arc::new(admm(false, Aggregation::Random)),
        Arc::new(admm(false, Aggregation::Fixed)),
        Arc::new(admm(true, Aggregation::Random)),
        Arc::new(GradientDescent { step: step(), aggregation: Aggregation::Random }),
        Arc::new(GradientDescent { step: step(), aggregation: Aggregation::Fixed }),
        Arc::new(NeighbourhoodDescent { step: step(), aggregation: Aggregation::Random }),
        Arc::new(Decor { step: step(), ..Decor::default() }),
        Arc::new(NeighbourhoodDescent { step: step(), aggregation: Aggregation::Fixed }),
        Arc::new(Dgd { step: step(), ..Dgd::default() }),
        Arc::new(Muffliato::new(0.9, 2)),
        Arc::new(Extra { step: Some(0.3) }),
        Arc::new(GradientTracking { step: step() }),
        Arc::new(AtcTracking { step: Some(0.2), local_steps: 2 }),
        Arc::new(Diffusion { step: step() }),
        Arc::new(ExactDiffusion { step: Some(0.3) }),
        Arc::new(Nids { step: Some(0.3) }),
        Arc::new(Dlm { penalty: Some(0.3), proximity: Some(2.0) }),
        Arc::new(Led { step: Some(0.2), dual_step: Some(0.3), local_steps: 2 }),
        Arc::new(PushSum { step: step() }),
        Arc::new(PushDiging { step: Some(0.2) }),
        Arc::new(Choco { step: step(), consensus_step: Some(0.4), ..Choco::default() }),
        Arc::new(Lead {
            step: Some(0.3),
            consensus_step: Some(0.4),
            memory_step: Some(0.4),
            compression: Compressor::Sign,
            ..Lead::default()
        }),
        Arc::new(AugDgm::new(0.3)),
        Arc::new(ProxSkip {
            step: Some(0.2),
            dual_step: Some(0.3),
            probability: Some(0.5),
            ..ProxSkip::default()
        }),
        Arc::new(GtSvrg::new(0.2, 0.3, 3)),
        Arc::new(Accelerated { step: Some(0.3), phase: Some(4) }),
        Arc::new(DynD2p::new(Schedule::power(0.9), 1.0, 3.0, 7)),
        Arc::new(DpCsgp { step: step(), consensus_step: Some(0.4), ..DpCsgp::default() }),
        Arc::new(PrivSgpVr::new(Schedule::power(0.9), RECORDS)),
        Arc::new(ConsensusAdmm { penalty: Some(0.3) }),
        Arc::new(PenaltyPerturbation {
            penalty: Some(Schedule::geometric(0.4, 1.1)),
            dual_step: Some(0.1),
        }),
        Arc::new(DualVariablePerturbation { penalty: Some(4.0), dual_step: Some(0.1) }),
        Arc::new(OutputAdmm { penalty: Some(4.0), dual_step: Some(0.1) }),
        Arc::new(Pdop { step: step() }),
        Arc::new(CoordinateDescent::new(0.9, CoordinateOrder::Shuffle, 1, 1)),
        Arc::new(CoordinateDescent::new(0.9, CoordinateOrder::Random, 1, 2)),
    ]
}

fn timetables() -> [Timetable; 3] {
    [
        Timetable { rounds: 7, tail_from: 7, gossip: 0 },
        Timetable { rounds: 7, tail_from: 3, gossip: 0 },
        Timetable { rounds: 7, tail_from: 3, gossip: 4 },
    ]
}

fn faults() -> [(&'static str, Faults); 5] {
    let cut = |from, until, split| NetworkCut { from, until, split };
    let delay = (1.0, 50.0);
    [
        ("none", Faults::default()),
        ("delay", Faults { delay, ..Faults::default() }),
        (
            "loss and duplication",
            Faults { delay, loss: 0.4, duplication: 0.5, retry_after: 7.0, ..Faults::default() },
        ),
        (
            "partition and repair",
            Faults {
                delay,
                retry_after: 20.0,
                partitions: vec![cut(30.0, 400.0, 2), cut(60.0, 300.0, 4)],
                ..Faults::default()
            },
        ),
        (
            "everything",
            Faults {
                delay: (0.0, 500.0),
                loss: 0.6,
                duplication: 0.9,
                retry_after: 1.0,
                partitions: vec![cut(0.0, 900.0, 1)],
            },
        ),
    ]
}

#[test]
fn every_algorithm_is_tested() {
    let tested = protocols();
    // The other kind of problem has its own test of the same in tests/linear.rs.
    let mut consensus = KINDS.iter().filter(|&&kind| kind != "linear-admm");
    assert!(consensus.all(|kind| tested.iter().any(|p| p.kind() == *kind)));
}

#[test]
fn messages_and_lockstep_agree_bit_for_bit() {
    for protocol in protocols() {
        for timetable in timetables() {
            let mut setting = Setting::new(Arc::clone(&protocol), 6, 8, 3, timetable);
            let noisy = |budget| Door::Noisy { noise, budget };
            let doors = [noisy(None), Door::Open, noisy(Some(4))];
            // Every door with averaging and gossip; one is enough without.
            let doors = if setting.timetable.gossip > 0 { &doors[..] } else { &doors[..1] };
            for door in doors {
                setting.door = *door;
                agree(&setting);
            }
        }
    }
}

/// Samples are drawn from a stream of the agent and the round, whoever drives it.
#[test]
fn batches_are_the_same_over_messages_and_in_lockstep() {
    for protocol in protocols().into_iter().filter(|p| p.capabilities().batches) {
        let [_, _, timetable] = timetables();
        let mut setting = Setting::new(protocol, 6, RECORDS, 3, timetable);
        let whole = setting.lockstep();
        setting.batch = Some(0.3);
        agree(&setting);
        assert_ne!(setting.lockstep().transcript, whole.transcript, "some records are left out");
        if setting.protocol.parts().remembering.is_some() {
            // What is remembered and what has changed add up to the gradient but for rounding.
            continue;
        }
        setting.batch = Some(1.0);
        assert_eq!(setting.lockstep().transcript, whole.transcript, "all records are drawn");
    }
}

fn agree(setting: &Setting) {
    let want = setting.lockstep();
    assert_eq!(want.transcript.len(), 6 * setting.timetable.exchanges() as usize);
    for (name, faults) in faults() {
        for network in [1, 2, 3] {
            let (got, traffic) = setting.messages(&faults, network);
            assert_eq!(
                got, want,
                "{:?}, {:?}, {:?}, {name}, network {network}",
                setting.protocol, setting.timetable, setting.door
            );
            let extra = traffic.delivered - setting.fewest_deliveries();
            assert_eq!(extra > 0, faults.duplication > 0.0, "{name}: {extra} duplicates");
            assert_eq!(traffic.lost > 0, faults.retry_after > 0.0, "{name}: {} lost", traffic.lost);
        }
    }
}

/// Robust rules are functions of the rows alone, so both drivers agree on them too; and they are
/// other functions than the average.
#[test]
fn robust_mixing_is_the_same_in_both_worlds() {
    let timetable = Timetable { rounds: 12, tail_from: 8, gossip: 2 };
    let dgd = || Arc::new(Dgd { step: Some(Schedule::Constant(0.5)), ..Dgd::default() });
    let mut outcomes = Vec::new();
    for mix in [
        MixRule::Average,
        MixRule::Clipped { liars: 1, clip: None },
        MixRule::Clipped { liars: 1, clip: Some(0.05) },
        MixRule::Trimmed { liars: 1 },
        MixRule::Median,
    ] {
        let setting = Setting { mix, ..Setting::new(dgd(), 6, 12, 4, timetable.clone()) };
        agree(&setting);
        outcomes.push(setting.lockstep());
    }
    for (i, one) in outcomes.iter().enumerate() {
        assert!(outcomes[..i].iter().all(|other| other != one), "rule {i}");
    }
}

/// Agents that mix older vectors: what each mixed is written down, and played again from that it is
/// the same, bit for bit.
#[test]
fn what_was_mixed_late_can_be_played_again() {
    let timetable = Timetable { rounds: 40, tail_from: 20, gossip: 3 };
    let setting = Setting::new(
        Arc::new(Dgd { step: Some(Schedule::Constant(0.3)), ..Dgd::default() }),
        6,
        12,
        3,
        timetable,
    );
    for (staleness, delay) in [(1, (1.0, 5.0)), (4, (0.0, 30.0)), (9, (0.0, 500.0))] {
        let stale = || setting.players().into_iter().map(|p| p.with_staleness(staleness));
        let agents = stale()
            .zip(0..)
            .map(|(p, i)| Agent::new(i, &setting.graph, &setting.mixing, p))
            .collect();
        let neighbours = |i: usize| setting.graph.neighbours(i).to_vec();
        let faults =
            Faults { delay, loss: 0.2, duplication: 0.2, retry_after: 9.0, ..Faults::default() };
        let (agents, traffic) = over_messages(agents, neighbours, &faults, &Seed::from(5)).unwrap();
        let oldest = traffic.ages.iter().flatten().copied().max().unwrap();
        assert!(oldest > 0 && oldest <= staleness, "{oldest}");
        let mut run = Lockstep::new(
            stale().collect(),
            Arc::clone(&setting.graph),
            Arc::clone(&setting.mixing),
        );
        for (sent, ages) in traffic.transcript.chunks(6).zip(traffic.ages.chunks(6)) {
            run.advance_with(ages);
            for (message, row) in sent.iter().zip(run.rows().chunks(run.dim())) {
                assert_eq!(bits(message.values()), bits(row), "round {}", message.round());
            }
        }
        let models: Vec<_> = run.finish().iter().map(|m| bits(m)).collect();
        assert_eq!(models, agents.iter().map(|a| bits(a.model().unwrap())).collect::<Vec<_>>());
        // Mixing alone is of one round.
        let mixing = traffic.transcript.iter().zip(&traffic.ages).filter(|(m, _)| m.round() > 41);
        assert!(mixing.flat_map(|(_, ages)| ages).all(|age| *age == 0));
    }
}

/// Delays move nobody from the point where agents without them end.
#[test]
fn older_vectors_slow_descent_down_and_do_not_lead_it_elsewhere() {
    let timetable = Timetable { rounds: 3000, tail_from: 3000, gossip: 0 };
    let mut setting = Setting::new(
        Arc::new(Dgd { step: Some(Schedule::Constant(0.2)), ..Dgd::default() }),
        6,
        12,
        3,
        timetable,
    );
    setting.door = Door::Open;
    let want = setting.lockstep().models;
    let value = |m: &[u64]| m.iter().map(|b| f64::from_bits(*b)).collect::<Vec<f64>>();
    for staleness in [1, 5, 20] {
        let players = setting.players().into_iter().map(|p| p.with_staleness(staleness)).collect();
        let delays = Delays {
            message: 3.0,
            slow: vec![(0, setting.graph.neighbours(0)[0])],
            factor: 9.0,
            jitter: 1.0,
        };
        let mut run =
            Lockstep::new(players, Arc::clone(&setting.graph), Arc::clone(&setting.mixing))
                .delayed(delays, &Seed::from(8));
        let mut early = 0.0f64;
        for round in 1..=setting.timetable.exchanges() {
            run.advance();
            if round == 30 {
                early = run.rows()[..3]
                    .iter()
                    .zip(value(&want[0]))
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f64::max);
            }
        }
        for (model, want) in run.finish().iter().zip(&want) {
            for (got, want) in model.iter().zip(value(want)) {
                assert!((got - want).abs() < 1e-9, "staleness {staleness}: {got} {want}");
            }
        }
        assert!(early > 1e-3, "thirty rounds are not enough: {early}");
    }
}

/// The faults do happen: the virtual time and the traffic differ by network, and the outcome does
/// not.
#[test]
fn networks_differ_and_outcomes_do_not() {
    let setting = Setting::new(Arc::clone(&protocols()[0]), 6, 8, 3, timetables()[2].clone());
    let [.., (_, faults)] = faults();
    let ((first, one), (second, two)) =
        (setting.messages(&faults, 1), setting.messages(&faults, 2));
    assert_eq!(first, second);
    assert_ne!((one.milliseconds, one.lost), (two.milliseconds, two.lost));
    assert!(one.milliseconds > 900.0, "nobody got past the partition of agent 0");
}

/// Another seed, another transcript: the equalities above compare something.
#[test]
fn the_seed_matters() {
    let mut setting = Setting::new(Arc::clone(&protocols()[0]), 6, 8, 3, timetables()[0].clone());
    let first = setting.lockstep();
    setting.seed = Seed::from(2025);
    let second = setting.lockstep();
    assert!(first.transcript.iter().zip(&second.transcript).all(|(a, b)| a != b));
}

/// Large enough that the lockstep driver hands agents to several threads.
#[test]
fn threads_do_not_change_a_bit() {
    for protocol in protocols() {
        let setting =
            Setting::new(protocol, 48, 500, 17, Timetable { rounds: 4, tail_from: 2, gossip: 1 });
        let with = |threads: usize| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| setting.lockstep())
        };
        let one = with(1);
        assert_eq!(one, with(2), "{:?}", setting.protocol);
        assert_eq!(one, setting.messages(&Faults::default(), 1).0, "{:?}", setting.protocol);
    }
}

#[test]
fn a_partition_for_ever_is_an_error_not_a_hang() {
    let setting = Setting::new(Arc::clone(&protocols()[0]), 4, 3, 2, timetables()[0].clone());
    let cut = NetworkCut { from: 0.0, until: f64::INFINITY, split: 2 };
    let faults = Faults { retry_after: 1.0, partitions: vec![cut], ..Faults::default() };
    let neighbours = |i: usize| setting.graph.neighbours(i).to_vec();
    let error =
        over_messages(setting.agents(), neighbours, &faults, &Seed::from(1)).expect_err("cut off");
    assert!(error.to_string().contains("could not reach"), "{error}");
}

/// Gossip after the last round brings every agent to the network's mean model.
#[test]
fn gossip_brings_agents_to_the_mean_of_their_tails() {
    let mut setting = Setting::new(Arc::clone(&protocols()[0]), 6, 8, 3, timetables()[1].clone());
    let values = |model: &[u64]| model.iter().map(|&b| f64::from_bits(b)).collect::<Vec<_>>();
    let outcome = setting.lockstep();
    // The tail of agent 2, by its definition.
    let releases = outcome.transcript.iter().filter(|(round, from, _)| *from == 2 && *round >= 3);
    let tail = releases.fold(vec![0.0; 3], |sum, (.., x)| {
        values(x).iter().zip(sum).map(|(x, s)| s + x / 5.0).collect()
    });
    values(&outcome.models[2])
        .iter()
        .zip(&tail)
        .for_each(|(got, want)| assert!((got - want).abs() < 1e-14));
    let mean = |l: usize| outcome.models.iter().map(|m| values(m)[l]).sum::<f64>() / 6.0;
    setting.timetable.gossip = 200;
    for model in setting.lockstep().models {
        values(&model).iter().enumerate().for_each(|(l, x)| assert!((x - mean(l)).abs() < 1e-12));
    }
}

// ---- the agent among messages
// -----------------------------------------------------------------------------------------

/// Agent 1 of a path of three, its two neighbours, and what they send in the rounds of a whole run.
fn path_of_three() -> (Setting, Vec<Message>) {
    let mut setting = Setting::new(
        Arc::clone(&protocols()[0]),
        3,
        5,
        2,
        Timetable { rounds: 4, tail_from: 2, gossip: 1 },
    );
    setting.graph = Arc::new(Graph::path(3).expect("a graph"));
    setting.mixing = Arc::new(Mixing::metropolis(&setting.graph));
    let traffic = setting.messages(&Faults::default(), 1).1;
    (setting, traffic.transcript)
}

fn sent(transcript: &[Message], from: u32, round: u32) -> Message {
    transcript.iter().find(|m| (m.from(), m.round()) == (from, round)).expect("sent").clone()
}

/// Polls until nothing is left to do; a charge must stand before every message.
fn drain(agent: &mut Agent) -> Vec<Effect> {
    let effects: Vec<Effect> = std::iter::from_fn(|| agent.poll()).collect();
    for (k, effect) in effects.iter().enumerate() {
        if let Effect::Send(message) = effect {
            let charged = matches!(effects[k - 1], Effect::Charge { exchange, .. } if exchange == message.round());
            assert!(charged, "a message left before its charge");
        }
    }
    effects
}

/// Hands over a message that must be refused, and checks that nothing whatever changed.
fn refused(agent: &mut Agent, message: &Message) -> Refusal {
    let before = format!("{agent:?}");
    let refusal = agent.handle(message).expect_err("must be refused");
    assert_eq!(format!("{agent:?}"), before, "a refused message left a trace");
    assert_eq!(agent.poll(), None, "a refused message had an effect");
    refusal
}

#[test]
fn bad_messages_are_refused_and_change_nothing() {
    let (setting, transcript) = path_of_three();
    let mut agent = setting.agents().swap_remove(1);
    assert_eq!(drain(&mut agent).len(), 2);
    let message = |from, round, values: &[f64]| Message::received(from, round, values);
    for from in [1, 3, u32::MAX] {
        assert_eq!(
            refused(&mut agent, &message(from, 1, &[0.0, 0.0])),
            Refusal::Stranger { from, agent: 1 }
        );
    }
    for values in [&[][..], &[1.0], &[1.0, 2.0, 3.0]] {
        let want = Refusal::Dimension { from: 0, round: 1, got: values.len(), want: 2 };
        assert_eq!(refused(&mut agent, &message(0, 1, values)), want);
    }
    for (values, index) in
        [([f64::NAN, 0.0], 0), ([0.0, f64::INFINITY], 1), ([1.0, f64::NEG_INFINITY], 1)]
    {
        assert_eq!(
            refused(&mut agent, &message(2, 1, &values)),
            Refusal::NotFinite { from: 2, round: 1, index }
        );
    }
    for round in [0, 3, 4, u32::MAX] {
        let want = Refusal::OutOfTurn { from: 2, round, expected: 1 };
        assert_eq!(refused(&mut agent, &message(2, round, &[0.0, 0.0])), want);
    }
    // A neighbour's next two rounds can be on their way, in either order; each only once, or the
    // same again.
    let (first, second) = (sent(&transcript, 0, 1), sent(&transcript, 0, 2));
    for message in [&second, &first, &second, &first] {
        assert_eq!(agent.handle(message), Ok(()));
    }
    for honest in [&first, &second] {
        let forged =
            message(0, honest.round(), &[honest.values()[0], honest.values()[1].next_up()]);
        assert_eq!(
            refused(&mut agent, &forged),
            Refusal::Equivocation { from: 0, round: honest.round() }
        );
    }
    // The round is complete with the other neighbour's message; what it said is remembered for one
    // more round.
    assert_eq!(agent.handle(&sent(&transcript, 2, 1)), Ok(()));
    let effects = drain(&mut agent);
    assert!(matches!(effects[0], Effect::Charge { exchange: 2, .. }));
    assert_eq!(effects[1..], [Effect::Send(sent(&transcript, 1, 2))]);
    assert_eq!(agent.handle(&first), Ok(()), "a late duplicate");
    assert_eq!(
        refused(&mut agent, &message(0, 1, &[9.0, 9.0])),
        Refusal::Equivocation { from: 0, round: 1 }
    );
    let want = Refusal::OutOfTurn { from: 2, round: 4, expected: 2 };
    assert_eq!(refused(&mut agent, &message(2, 4, &[0.0, 0.0])), want);
}

/// An agent that was sent rubbish all along ends with the very model of one that was not.
#[test]
fn refusals_and_duplicates_leave_the_model_alone() {
    let (setting, transcript) = path_of_three();
    let last = setting.timetable.exchanges();
    let play = |hostile: bool| {
        let mut agent = setting.agents().swap_remove(1);
        let mut effects = drain(&mut agent);
        for round in 1..=last {
            for from in [0, 2] {
                let honest = sent(&transcript, from, round);
                if hostile {
                    let rubbish = [
                        Message::received(7, round, honest.values()),
                        Message::received(from, round, [f64::NAN; 2]),
                        Message::received(from, round, [0.0; 9]),
                        Message::received(from, round + 2, honest.values()),
                    ];
                    assert!(rubbish.iter().all(|m| agent.handle(m).is_err()));
                    assert_eq!(agent.handle(&honest), Ok(()));
                }
                assert_eq!(agent.handle(&honest), Ok(()));
            }
            effects.extend(drain(&mut agent));
        }
        assert_eq!(effects.last(), Some(&Effect::Done(StopReason::Finished)));
        // Nothing comes after the last exchange: a round beyond it is nobody's.
        let beyond = Message::received(0, last + 1, sent(&transcript, 0, last).values());
        let want = Refusal::OutOfTurn { from: 0, round: last + 1, expected: last + 1 };
        assert_eq!(refused(&mut agent, &beyond), want);
        assert_eq!(agent.handle(&sent(&transcript, 0, last)), Ok(()), "a late duplicate");
        (bits(agent.model().expect("done")), effects)
    };
    assert_eq!(play(false), play(true));
}

// ---- across processes
// -------------------------------------------------------------------------------------------------

/// A fresh agent in the place of one that was killed, from the bytes that were on disk.
fn reborn(setting: &Setting, id: usize, killed: &Agent) -> Agent {
    let bytes = postcard::to_stdvec(&killed.checkpoint()).expect("serialises");
    let saved: Checkpoint = postcard::from_bytes(&bytes).expect("the same bytes");
    let mut agent = setting.agents().swap_remove(id);
    agent.restore(&saved).expect("its own checkpoint");
    assert_eq!(agent.checkpoint(), killed.checkpoint());
    agent
}

/// Every agent is killed right after every charge, before its message left, and after its last
/// exchange.
fn killed_at_every_charge(setting: &Setting) -> Outcome {
    let mut agents = setting.agents();
    let mut transcript: Vec<Message> = Vec::new();
    let mut mail: std::collections::VecDeque<(usize, Message)> = Default::default();
    loop {
        for (id, agent) in agents.iter_mut().enumerate() {
            while let Some(effect) = agent.poll() {
                match effect {
                    Effect::Charge { .. } => *agent = reborn(setting, id, agent),
                    Effect::Done(_) => *agent = reborn(setting, id, agent),
                    Effect::Send(message) => {
                        let to = setting.graph.neighbours(id);
                        mail.extend(to.iter().map(|&j| (j as usize, message.clone())));
                        transcript.push(message);
                    }
                }
            }
        }
        let Some((to, message)) = mail.pop_front() else { break };
        agents[to].handle(&message).expect("an honest message");
        // What it forgets of a round it has not completed is sent again.
        for &from in setting.graph.neighbours(to) {
            let last = transcript.iter().rfind(|m| m.from() == from).expect("sent");
            agents[to].handle(last).expect("a resend");
        }
    }
    transcript.sort_by_key(|m| (m.round(), m.from()));
    Outcome {
        transcript: transcript.iter().map(|m| (m.round(), m.from(), bits(m.values()))).collect(),
        models: agents.iter().map(|agent| bits(agent.model().expect("done"))).collect(),
    }
}

#[test]
fn agents_killed_at_every_charge_release_the_same_bits() {
    for protocol in protocols() {
        let [_, _, timetable] = timetables();
        let mut setting = Setting::new(Arc::clone(&protocol), 4, 5, 3, timetable);
        for budget in [None, Some(4)] {
            setting.door = Door::Noisy { noise, budget };
            assert_eq!(killed_at_every_charge(&setting), setting.lockstep(), "{}", protocol.kind());
        }
    }
}

#[test]
fn a_checkpoint_of_another_agent_or_experiment_is_refused() {
    let short = Timetable { rounds: 4, tail_from: 2, gossip: 1 };
    let setting = |protocol: usize, dim, timetable: &Timetable| {
        Setting::new(Arc::clone(&protocols()[protocol]), 3, 5, dim, timetable.clone())
    };
    let here = setting(0, 2, &short);
    let mut agents = here.agents();
    // Before an average begins, a checkpoint has none that could be of another shape.
    for _ in 0..short.tail_from + 1 {
        let sent: Vec<Effect> = agents.iter_mut().flat_map(drain).collect();
        for message in
            sent.iter().filter_map(|e| if let Effect::Send(m) = e { Some(m) } else { None })
        {
            for &to in here.graph.neighbours(message.from() as usize) {
                agents[to as usize].handle(message).expect("an honest message");
            }
        }
    }
    drain(&mut agents[1]);
    let saved = agents[1].checkpoint();
    assert_eq!(agents[0].restore(&saved), Err(RestoreError::Agent { agent: 0, found: 1 }));
    let last = Timetable { rounds: 4, tail_from: 4, gossip: 1 };
    for other in [setting(0, 3, &short), setting(7, 2, &short), setting(0, 2, &last)] {
        let refused = other.agents()[1].restore(&saved);
        assert!(matches!(refused, Err(RestoreError::Shape { .. })), "{refused:?}");
    }
    let mut unpaid = setting(0, 2, &short);
    unpaid.door = Door::Noisy { noise, budget: Some(4) };
    let mut fresh = unpaid.agents();
    drain(&mut fresh[1]);
    let charged = fresh[1].checkpoint();
    let refused = here.agents()[1].restore(&charged);
    assert_eq!(refused, Err(RestoreError::Shape { what: "the ledger" }));
    assert!(
        !format!("{saved:?}").contains('.'),
        "numbers of a checkpoint are the agent's own: {saved:?}"
    );
}

#[test]
fn an_agent_goes_on_without_a_neighbour_as_if_the_edge_were_gone() {
    let timetable = Timetable { rounds: 4, tail_from: 2, gossip: 1 };
    let mut setting = Setting::new(
        Arc::new(Dgd { step: Some(Schedule::Constant(0.5)), ..Dgd::default() }),
        3,
        5,
        2,
        timetable,
    );
    setting.graph = Arc::new(Graph::path(3).expect("a graph"));
    setting.mixing = Arc::new(Mixing::metropolis(&setting.graph));
    let transcript = setting.messages(&Faults::default(), 1).1.transcript;
    let mut agent = setting.agents().swap_remove(1);
    drain(&mut agent);
    agent.handle(&sent(&transcript, 0, 1)).unwrap();
    assert_eq!(agent.awaited(), [2]);
    assert_eq!(agent.go_without(7), Err(AbsenceError::Stranger { from: 7, agent: 1 }));
    agent.go_without(2).unwrap();
    assert_eq!(agent.away(), [(2, Round(1))]);
    let alone = drain(&mut agent);
    assert!(matches!(alone[0], Effect::Charge { exchange: 2, .. }));
    // The same release by an agent whose absent neighbour sent the agent's own vector back.
    let mut twin = setting.agents().swap_remove(1);
    let Effect::Send(own) = drain(&mut twin).swap_remove(1) else { panic!("a message") };
    twin.handle(&sent(&transcript, 0, 1)).unwrap();
    twin.handle(&Message::received(2, 1, own.values())).unwrap();
    assert_eq!(drain(&mut twin), alone);
    // It survives a restart, and a late message of the one who was away changes nothing.
    let mut restarted = reborn(&setting, 1, &agent);
    assert_eq!(restarted.away(), [(2, Round(1))]);
    assert!(matches!(restarted.poll(), Some(Effect::Send(_))), "what was charged is sent again");
    restarted.handle(&sent(&transcript, 0, 2)).unwrap();
    agent.handle(&sent(&transcript, 0, 2)).unwrap();
    agent.handle(&sent(&transcript, 2, 2)).unwrap();
    assert_eq!(drain(&mut restarted), drain(&mut agent));
    // ADMM's duals balance over every edge, so it must wait.
    let admm = path_of_three().0;
    let refused = admm.agents()[1].go_without(2);
    assert_eq!(refused, Err(AbsenceError::Needed { kind: "admm" }));
}

/// A path of three whose ends become neighbours in exchange 3: from then on it is the complete
/// graph of three.
#[test]
fn an_edge_that_is_added_counts_from_its_exchange_on_and_not_before() {
    const FROM: u32 = 3;
    let timetable = Timetable { rounds: 6, tail_from: 2, gossip: 1 };
    let mut setting = Setting::new(
        Arc::new(Dgd { step: Some(Schedule::Constant(0.5)), ..Dgd::default() }),
        3,
        5,
        2,
        timetable,
    );
    let on = |setting: &mut Setting, graph: Graph| {
        setting.graph = Arc::new(graph);
        setting.mixing = Arc::new(Mixing::metropolis(&setting.graph));
    };
    on(&mut setting, Graph::path(3).expect("a graph"));
    let before = setting.messages(&Faults::default(), 1).1.transcript;
    let joined = || {
        let mut agents = setting.agents();
        agents[0].join(2, 1.0 / 3.0, FROM).unwrap();
        agents[2].join(0, 1.0 / 3.0, FROM).unwrap();
        agents
    };
    let others = |i: usize| (0..3).filter(|j| *j != i as u32).collect();
    let (ended, traffic) =
        over_messages(joined(), others, &Faults::default(), &Seed::from(1)).unwrap();
    let after = traffic.transcript;
    for round in 1..=7 {
        for agent in 0..3 {
            let changed =
                sent(&before, agent, round).values() != sent(&after, agent, round).values();
            // The middle has no new neighbour, and hears of it a round later.
            let first = if agent == 1 { FROM + 2 } else { FROM + 1 };
            assert_eq!(changed, round >= first, "agent {agent}, round {round}");
        }
    }
    // Disturbed or restarted after every round it is the same, bit for bit.
    let faults = Faults { loss: 0.2, duplication: 0.2, ..Faults::default() };
    for network in 2..6 {
        let (_, again) = over_messages(joined(), others, &faults, &Seed::from(network)).unwrap();
        assert_eq!(again.transcript, after);
    }
    let mut agent = joined().swap_remove(0);
    let mut made = drain(&mut agent);
    for round in 1..=7 {
        let mut fresh = joined().swap_remove(0);
        fresh.restore(&agent.checkpoint()).unwrap();
        assert!(matches!(fresh.poll(), Some(Effect::Send(m)) if m == sent(&after, 0, round)));
        agent = fresh;
        assert_eq!(agent.awaited().len(), if round < FROM { 1 } else { 2 }, "{round}");
        // The new neighbour's may come in first, and before the edge begins it does not matter.
        for from in [2, 1] {
            agent.handle(&sent(&after, from, round)).unwrap();
        }
        made.extend(drain(&mut agent));
    }
    assert_eq!(made.iter().filter(|e| matches!(e, Effect::Charge { .. })).count(), 7);
    assert_eq!(agent.model(), ended[0].model());
    // The complete graph from the start, whose new neighbour sends the agent's own vector until the
    // edge begins: the same up to rounding.
    on(&mut setting, Graph::complete(3).expect("a graph"));
    let mut twin = setting.agents().swap_remove(0);
    for round in 1..=7 {
        let Some(Effect::Send(own)) = drain(&mut twin).pop() else { panic!("a message") };
        let expected = sent(&after, 0, round);
        let apart = own.values().iter().zip(expected.values()).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f64::max) < 1e-9, "round {round}: {own:?} {expected:?}");
        twin.handle(&sent(&after, 1, round)).unwrap();
        let other = if round < FROM {
            own.values().to_vec()
        } else {
            sent(&after, 2, round).values().to_vec()
        };
        twin.handle(&Message::received(2, round, other)).unwrap();
    }
}

#[test]
fn an_edge_is_refused_where_the_claim_would_not_stand() {
    let timetable = Timetable { rounds: 4, tail_from: 4, gossip: 1 };
    for protocol in protocols() {
        let kind = protocol.kind();
        let mut setting = Setting::new(protocol, 3, 5, 2, timetable.clone());
        if kind != "gd" {
            setting.graph = Arc::new(Graph::path(3).expect("a graph"));
            setting.mixing = Arc::new(Mixing::metropolis(&setting.graph));
        }
        let mut agent = setting.agents().swap_remove(0);
        let joined = agent.may_join();
        assert_eq!(
            joined.is_ok(),
            ["dgd", "rcd", "muffliato"].contains(&kind),
            "{kind}: {joined:?}"
        );
        if joined.is_err() {
            continue;
        }
        for (neighbour, weight, from) in
            [(0, 0.1, 1), (1, 0.1, 1), (2, 0.7, 1), (2, 0.0, 1), (2, 0.1, 6)]
        {
            assert!(agent.join(neighbour, weight, from).is_err(), "{neighbour} {weight} {from}");
        }
        agent.join(2, 0.1, 2).unwrap();
        assert_eq!(agent.join(2, 0.1, 2), Err(AddNeighbourError::Known { from: 2, agent: 0 }));
    }
}
