//! The rules of a ledger, over every storage there is, and folders and ledgers for the tests of
//! others.

use super::*;
use crate::storage::memory::{Memory, Tables};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Source};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes with the test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "consenso-store-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.0, 4)
    }

    /// Changes the database behind everybody's back.
    pub(crate) fn edit(&self, sql: &str) {
        rusqlite::Connection::open(self.0.join(FILE)).unwrap().execute_batch(sql).unwrap();
    }

    /// The files as they are now, as a crash leaves them.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for part in [FILE, "state.db-wal"].iter().filter(|part| self.0.join(part).exists()) {
            std::fs::copy(self.0.join(part), copy.0.join(part)).unwrap();
        }
        copy
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A ledger that can be opened again and again, whatever it lies on.
enum Ground {
    Disk(Place),
    Memory(Memory),
}

impl Ground {
    /// One on each storage.
    fn all() -> [Self; 2] {
        [Self::Disk(Place::new()), Self::Memory(Memory::new(Path::new("memory")))]
    }

    fn storage(&self) -> Box<dyn Storage> {
        match self {
            Self::Disk(place) => Box::new(Sqlite::open(&place.0, 4).unwrap()),
            Self::Memory(memory) => Box::new(memory.clone()),
        }
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::on(self.storage())
    }

    fn look(&self) -> Result<Store, StoreError> {
        match self {
            Self::Disk(place) => Store::look(&place.0),
            Self::Memory(memory) => Store::verified(Box::new(memory.clone())),
        }
    }

    /// A new one on the same storage.
    fn empty(&self) -> Self {
        match self {
            Self::Disk(_) => Self::Disk(Place::new()),
            Self::Memory(_) => Self::Memory(Memory::new(Path::new("memory"))),
        }
    }

    fn copy(&self) -> Self {
        match self {
            Self::Disk(place) => Self::Disk(place.copy()),
            Self::Memory(memory) => Self::Memory(memory.copy()),
        }
    }

    /// Changes what is kept behind the ledger's back: the same change in SQL and in memory.
    fn edit(&self, sql: &str, change: impl FnOnce(&mut Tables)) {
        match self {
            Self::Disk(place) => place.edit(sql),
            Self::Memory(memory) => change(&mut memory.tables()),
        }
    }

    /// Puts other words into a row.
    fn reword(&self, number: i64, from: &str, to: &str) {
        let sql = format!(
            "UPDATE ledger SET body = replace(body, '{from}', '{to}') WHERE number = {number}"
        );
        self.edit(&sql, |tables| {
            let line = tables.lines.get_mut(&number).unwrap();
            line.body = line.body.replace(from, to);
        });
    }
}

pub(crate) fn site() -> consenso_engine::experiment::Site {
    let text = "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 9\ndim = 4\n\
                [graph]\nkind = \"path\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 5\n";
    let spec: ExperimentSpec = toml::from_str(text).unwrap();
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    let inputs = Inputs {
        file: "small".into(),
        text: text.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    };
    Experiment::check(inputs).unwrap().site(0).unwrap()
}

pub(crate) fn opening(study: u8, epsilon: Option<f64>, budget: Option<(f64, f64)>) -> StudyStart {
    let claim = site().plan.claim.unwrap();
    let claim = epsilon.map(|epsilon| Claim { epsilon, delta: 1e-6, ..claim });
    StudyStart {
        site: "a".into(),
        experiment: [study; 32],
        graph: [1; 32],
        claim,
        cost: None,
        seeded: false,
        rule: None,
        budget,
        announced: None,
        records: 9,
        unprotected: false,
        answers: None,
    }
}

/// The ledger with three releases of one study.
pub(crate) fn filled(mut store: Store) -> Store {
    let study = store.begin(&opening(1, Some(1.0), None)).unwrap();
    let checkpoint = site().agent.checkpoint();
    for round in 1..=3u32 {
        let (bytes, mixed) = ([round as u8; 40], MixedRounds::default());
        store
            .release(study.number, round, &bytes, ChargeRow::new(), mixed, checkpoint.clone())
            .unwrap();
    }
    store
}

/// A ledger of so many releases, written in few commits.
pub(crate) fn long(mut store: Store, releases: u32, batch: u32) -> Store {
    let study = store.begin(&opening(1, Some(1.0), None)).unwrap().number;
    let event =
        consenso_engine::privacy::Event::once(consenso_engine::privacy::Mechanism::Gaussian {
            mu: 1e-4,
        });
    let charge = ChargeRow::from([("l2".to_owned(), event)]);
    let checkpoint = site().agent.checkpoint();
    let mut from = 1;
    while from <= releases {
        let until = releases.min(from + batch - 1);
        let row = |round: u32| {
            let blake3 = Hex(&blake3(&round.to_le_bytes())).to_string();
            (study, Entry::Release { round, blake3, charge: charge.clone(), ages: Vec::new() })
        };
        let rows: Vec<(i64, Entry)> = (from..=until).map(row).collect();
        store.append(&rows, Vec::new(), Some((study, checkpoint.clone()))).unwrap();
        store.releases += rows.len() as u64;
        from = until + 1;
    }
    store
}

/// A crash in the middle of a commit leaves nothing of it: no message without its charge, no state
/// of rows that are not there.
#[test]
fn a_commit_is_kept_whole_or_not_at_all() {
    for ground in Ground::all() {
        drop(filled(ground.open().unwrap()));
        let mut storage = ground.storage();
        let line = |number| Line { number, study: 1, body: "{}".into(), hash: vec![7; 32] };
        // Row 5 is there already, so all of it is refused.
        let refused = storage.commit(&Commit {
            lines: vec![line(6), line(5)],
            mark: Some((vec![1], [1; 32])),
            outbox: vec![Outgoing { slot: 0, study: 1, round: 4, bytes: &[4; 40] }],
            checkpoint: Some(Saved { study: 1, head: [7; 32], bytes: vec![7] }),
            logged: Some((6, 100)),
        });
        assert!(refused.is_err());
        drop(storage);
        let store = ground.open().unwrap();
        assert_eq!((store.rows, store.logged()), (5, (0, 0)));
        assert_eq!(store.outbox(1).unwrap(), [(2, vec![2; 40]), (3, vec![3; 40])]);
        assert_eq!(store.checkpoint(1).unwrap().unwrap(), site().agent.checkpoint());
        assert!(store.storage.mark().is_none());
    }
}

/// The hashes of old ledgers stay what they are, byte for byte: this one was computed by hashlib
/// from the bodies as written here.
#[test]
fn the_chain_is_what_it_always_was() {
    let bodies = [
        r#"{"kind":"budget","site":"a","limit":[1.0,1e-6],"rule":"sum","time":"2026-01-01T00:00:00Z"}"#,
        r#"{"kind":"release","round":1,"blake3":"00","charge":{}}"#,
    ];
    for ground in Ground::all() {
        let mut store = ground.open().unwrap();
        let entries: Vec<(i64, Entry)> = (0..)
            .zip(bodies)
            .map(|(study, body)| (study, serde_json::from_str(body).unwrap()))
            .collect();
        let state = Some((1, site().agent.checkpoint()));
        store.append(&entries, Vec::new(), state).unwrap();
        let mut kept = Vec::new();
        store
            .storage
            .lines(0, &mut |line| {
                kept.push(line.body);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(kept, bodies);
        assert_eq!(
            Hex(store.head()).to_string(),
            "2ca4e8b55aa410ff893a6510ef8f4d8bfd44aec21d765f44af7872781fd63d68"
        );
    }
}

#[test]
fn what_was_kept_is_there_after_a_restart() {
    for place in Ground::all() {
        drop(filled(place.open().unwrap()));
        let mut store = place.open().unwrap();
        let study = store.begin(&opening(1, Some(1.0), None)).unwrap();
        assert_eq!(study.checkpoint.unwrap(), site().agent.checkpoint());
        // A neighbour can be one round behind, so two rounds are kept, the same bytes.
        assert_eq!(store.outbox(study.number).unwrap(), [(2, vec![2; 40]), (3, vec![3; 40])]);
        assert_eq!(store.rows().unwrap().len(), 5);
        assert_eq!(place.look().unwrap().head(), store.head());
    }
}

#[test]
fn an_edited_ledger_is_found() {
    type Change = fn(&mut Tables);
    let edits: [(&str, Change); 10] = [
        (
            "UPDATE ledger SET body = replace(body, '\"round\":2', '\"round\":9') WHERE number = 4",
            |t| {
                let line = t.lines.get_mut(&4).unwrap();
                line.body = line.body.replace("\"round\":2", "\"round\":9");
            },
        ),
        ("DELETE FROM ledger WHERE number = 4", |t| drop(t.lines.remove(&4))),
        ("DELETE FROM ledger WHERE number = 5", |t| drop(t.lines.remove(&5))),
        ("DELETE FROM ledger", |t| t.lines.clear()),
        ("DELETE FROM checkpoint", |t| t.checkpoints.clear()),
        ("UPDATE ledger SET study = 2 WHERE number = 5", |t| {
            t.lines.get_mut(&5).unwrap().study = 2;
        }),
        ("UPDATE ledger SET hash = zeroblob(32) WHERE number = 5", |t| {
            t.lines.get_mut(&5).unwrap().hash = vec![0; 32];
        }),
        ("INSERT INTO ledger SELECT 6, study, body, hash FROM ledger WHERE number = 5", |t| {
            let line = Line { number: 6, ..t.lines[&5].clone() };
            t.lines.insert(6, line);
        }),
        ("UPDATE ledger SET number = 7 WHERE number = 5", |t| {
            let line = t.lines.remove(&5).unwrap();
            t.lines.insert(7, Line { number: 7, ..line });
        }),
        ("UPDATE ledger SET body = 12 WHERE number = 1", |t| {
            t.lines.get_mut(&1).unwrap().body = "12".into();
        }),
    ];
    for (sql, change) in edits {
        for place in Ground::all() {
            drop(filled(place.open().unwrap()));
            place.edit(sql, change);
            let found = place.open().map(drop).unwrap_err();
            assert!(matches!(found, StoreError::Broken { .. }), "{sql}: {found}");
        }
    }
    for place in Ground::all() {
        drop(filled(place.open().unwrap()));
        place.edit("UPDATE outbox SET bytes = zeroblob(40) WHERE round = 3", |t| {
            t.outbox.values_mut().filter(|sent| sent.1 == 3).for_each(|sent| sent.2 = vec![0; 40]);
        });
        let refused = place.open().unwrap().outbox(1).unwrap_err().to_string();
        assert!(refused.contains("round 3 is not the one that was charged"), "{refused}");
    }
}

#[test]
fn a_budget_is_for_the_records_whatever_is_run() {
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        store.begin(&opening(1, Some(0.5), Some((1.0, 1e-5)))).unwrap();
        // The same study again is the same study; another one counts on top, whatever limit it
        // brings.
        store.begin(&opening(1, Some(0.5), None)).unwrap();
        store.begin(&opening(2, Some(0.4), Some((9.0, 0.1)))).unwrap();
        drop(store);
        let mut store = place.open().unwrap();
        let refused = store.begin(&opening(3, Some(0.2), Some((9.0, 0.1)))).unwrap_err();
        assert!(
            matches!(refused, StoreError::OverBudget { limit, spent, .. } if limit == 1.0 && spent == 0.9),
            "{refused}"
        );
        let refused = store.begin(&opening(3, None, None)).unwrap_err();
        assert!(matches!(refused, StoreError::Unprotected(_)), "{refused}");
        store.begin(&opening(3, Some(0.1), None)).unwrap();
    }
}

#[test]
fn a_study_goes_on_only_as_what_was_reserved_for_it() {
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        store.begin(&opening(1, Some(0.5), Some((9.0, 0.1)))).unwrap();
        let seeded = StudyStart { seeded: true, ..opening(1, Some(0.5), None) };
        for (now, reason) in [
            (opening(1, Some(0.6), None), "costs more than was reserved"),
            (
                StudyStart { unprotected: true, ..opening(1, None, None) },
                "costs more than was reserved",
            ),
            (seeded, "noise that everybody knows"),
        ] {
            let refused = store.begin(&now).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        // What costs less, after an accountant became sharper, may go on.
        assert_eq!(store.begin(&opening(1, Some(0.4), None)).unwrap().number, 1);
        assert_eq!(store.rows().unwrap().len(), 2);
    }
}

#[test]
fn records_used_without_protection_cannot_be_protected_later() {
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        let open = |study| StudyStart { unprotected: true, ..opening(study, None, None) };
        store.begin(&open(1)).unwrap();
        store.begin(&open(2)).unwrap();
        // Without the site's own word a study that claims nothing does not even go on.
        assert!(matches!(store.begin(&opening(2, None, None)), Err(StoreError::Unprotected(_))));
        assert!(matches!(
            store.begin(&opening(3, Some(0.1), None)),
            Err(StoreError::Unprotected(_))
        ));
    }
}

/// The first study made no claim, and the operator's budget was dropped.
#[test]
fn a_study_without_a_claim_cannot_switch_off_a_sites_budget() {
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        let budget = Some((1.0, 1e-5));
        for open in
            [opening(1, None, budget), StudyStart { unprotected: true, ..opening(1, None, budget) }]
        {
            let refused = store.begin(&open).unwrap_err();
            assert!(refused.to_string().contains("this site has a budget"), "{refused}");
        }
        let refused = store.begin(&opening(1, None, None)).unwrap_err();
        assert!(refused.to_string().contains("unprotected = true in site.toml"), "{refused}");
        assert!(store.is_empty(), "nothing was begun");
        // A budget that is lowered later holds too.
        store.begin(&opening(1, Some(0.4), budget)).unwrap();
        let refused = store.begin(&opening(2, Some(0.4), Some((0.5, 1e-5)))).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { limit: 0.5, .. }), "{refused}");
    }
}

/// ε = 99206891854 was taken for a budget, and audited as "within the claim".
#[test]
fn a_study_with_a_careless_claim_needs_the_operators_word() {
    for place in Ground::all() {
        for (epsilon, delta, records) in
            [(99_206_891_854.0, 1e-6, 9), (10.1, 1e-6, 9), (1.0, 0.2, 9)]
        {
            let mut store = place.empty().open().unwrap();
            let mut open = StudyStart { records, ..opening(1, Some(epsilon), None) };
            open.announced = Some((epsilon, delta));
            let refused = store.begin(&open).unwrap_err();
            assert!(
                matches!(refused, StoreError::NoBudget { .. })
                    && refused.to_string().contains("budget = {"),
                "{refused}"
            );
            open.budget = Some((epsilon, delta));
            store.begin(&open).unwrap();
        }
    }
}

/// Σ μ² holds for studies chosen by looking, and is far below Σ ε.
#[test]
fn gaussian_studies_are_added_up_as_gaussian_ones() {
    use consenso_engine::privacy::gdp;
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        let mu = gdp::mu_for(0.5, 1e-6).unwrap();
        let open = |study, rule| StudyStart {
            cost: Some(StudyCost::gaussian(0.5, 1e-6, mu)),
            rule,
            ..opening(study, Some(0.5), Some((1.6, 1e-5)))
        };
        (1..=10).for_each(|study| drop(store.begin(&open(study, None)).unwrap()));
        let standing = books::standing(&store.rows().unwrap()).unwrap();
        assert_eq!(
            (standing.rule, standing.sum.epsilon.round(), standing.entropy),
            (Rule::Gaussian, 5.0, "os")
        );
        assert!((1.5..1.55).contains(&standing.spent.epsilon), "{standing:?}");
        assert!((0.2..0.5).contains(&standing.remaining.epsilon), "{standing:?}");
        let refused = store.begin(&open(11, None)).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { limit: 1.6, .. }), "{refused}");
        // What has no μ cannot be added, and is told how it could have been.
        let refused = store.begin(&opening(12, Some(0.01), None)).unwrap_err().to_string();
        assert!(refused.contains("rule = \"sum\""), "{refused}");
        let mut sums = place.empty().open().unwrap();
        (1..=3).for_each(|study| drop(sums.begin(&open(study, Some(Rule::Sum))).unwrap()));
        let refused = sums.begin(&open(4, None)).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { spent: 1.5, .. }), "{refused}");
    }
}

#[test]
fn claims_that_cannot_be_added_are_not_mixed() {
    use consenso_engine::privacy::NeighbourRelation;
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        store.begin(&opening(1, Some(0.1), Some((1.0, 1e-5)))).unwrap();
        let other = |change: &dyn Fn(&mut Claim)| {
            let mut open = opening(2, Some(0.1), None);
            change(open.claim.as_mut().unwrap());
            open
        };
        let seeded = StudyStart { seeded: true, ..opening(2, Some(0.1), None) };
        for (open, reason) in [
            (
                other(&|c| c.neighbours = NeighbourRelation::ZeroOut),
                "claims about different changes do not add up",
            ),
            (
                other(&|c| {
                    c.adversary = "two colluding agents".into();
                    c.against = consenso_engine::privacy::Adversary::coalition(2, true);
                }),
                "against different adversaries do not add up",
            ),
            (seeded, "seeded studies are for public records"),
        ] {
            let refused = store.begin(&open).unwrap_err();
            assert!(matches!(refused, StoreError::Mixed(_)), "{refused}");
            assert!(refused.to_string().contains(reason), "{refused}");
        }
        let mut store = place.empty().open().unwrap();
        store
            .begin(&StudyStart { seeded: true, ..opening(1, Some(0.1), Some((1.0, 1e-5))) })
            .unwrap();
        let refused = store.begin(&opening(2, Some(0.1), None)).unwrap_err();
        assert!(refused.to_string().contains("holds seeded studies"), "{refused}");
    }
}

#[test]
fn a_ledger_behind_its_witness_does_not_start() {
    for place in Ground::all() {
        let elsewhere = Place::new();
        let witness = elsewhere.0.join("witness");
        let checkpoint = site().agent.checkpoint();
        let mut store = filled(place.open().unwrap());
        store.witnessed_by(Some(&witness)).unwrap();
        let before = place.copy();
        store
            .release(1, 4, &[4; 40], ChargeRow::new(), MixedRounds::default(), checkpoint.clone())
            .unwrap();
        let after = place.copy();
        // The newest copy starts, and so does one whose last release the witness had no time to
        // see.
        after.open().unwrap().witnessed_by(Some(&witness)).unwrap();
        drop(store);
        let refused = before.open().unwrap().witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(
            refused.contains("seen 4 releases, and the ledger (state.db) has 3: it is an old"),
            "{refused}"
        );
        let mut ahead = after.open().unwrap();
        ahead
            .release(1, 5, &[5; 40], ChargeRow::new(), MixedRounds::default(), checkpoint.clone())
            .unwrap();
        ahead.witnessed_by(Some(&witness)).unwrap();
        // Not without one once there was one, and not with another ledger's.
        let refused = after.open().unwrap().witnessed_by(None).unwrap_err().to_string();
        assert!(refused.contains("site.toml has no `witness`"), "{refused}");
        let other = place.empty();
        let mut store = filled(other.open().unwrap());
        (4..9).for_each(|round| {
            store
                .release(
                    1,
                    round,
                    &[9; 40],
                    ChargeRow::new(),
                    MixedRounds::default(),
                    checkpoint.clone(),
                )
                .unwrap();
        });
        let refused = store.witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(refused.contains("the witness of another ledger"), "{refused}");
        std::fs::remove_file(&witness).unwrap();
        let mut store = after.open().unwrap();
        let refused = store.witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(refused.contains("is its disk mounted?"), "{refused}");
        store.new_witness(&witness).unwrap();
        drop(store);
        after.open().unwrap().witnessed_by(Some(&witness)).unwrap();
    }
}

/// A turned bit of the state made another model, and nobody knew.
#[test]
fn a_damaged_checkpoint_is_found_and_one_of_before_is_read() {
    let place = Memory::new(std::path::Path::new("rot"));
    drop(filled(Store::on(Box::new(place.clone())).unwrap()));
    let read = || Store::on(Box::new(place.clone())).unwrap().checkpoint(1);
    let kept = place.tables().checkpoints[&1].bytes.clone();
    assert_eq!(read().unwrap().unwrap(), site().agent.checkpoint());
    for at in 0..kept.len() {
        let mut bytes = kept.clone();
        bytes[at] ^= 1 << (at % 8);
        place.tables().checkpoints.get_mut(&1).unwrap().bytes = bytes;
        assert!(matches!(read(), Err(StoreError::Broken { .. })), "byte {at}");
    }
    place.tables().checkpoints.get_mut(&1).unwrap().bytes = kept[12..].to_vec();
    assert_eq!(read().unwrap().unwrap(), site().agent.checkpoint());
}

/// A site that lost its disk in its second study had the releases of the first counted as rounds of
/// it, and used no record any more.
#[test]
fn a_witness_counts_the_rounds_of_each_study() {
    for place in Ground::all() {
        let elsewhere = Place::new();
        let witness = elsewhere.0.join("witness");
        let seen = || crate::witness::Witness::open(&witness).unwrap().seen();
        let mut store = place.open().unwrap();
        store.witnessed_by(Some(&witness)).unwrap();
        let checkpoint = site().agent.checkpoint();
        for (study, rounds) in [(1, 7), (2, 3)] {
            let opened = store.begin(&opening(study, Some(0.4), Some((1.0, 1e-5)))).unwrap();
            store.witnessed_by(Some(&witness)).unwrap();
            assert_eq!((seen().study, seen().round), ([study; 32], 0));
            for round in 1..=rounds {
                let (bytes, mixed) = ([round as u8; 40], MixedRounds::default());
                store
                    .release(
                        opened.number,
                        round,
                        &bytes,
                        ChargeRow::new(),
                        mixed,
                        checkpoint.clone(),
                    )
                    .unwrap();
            }
            assert_eq!((seen().study, seen().round), ([study; 32], rounds));
        }
        assert_eq!(seen().releases, 10);
    }
}

/// A, then B, then A again: A goes on, and is not paid for twice.
#[test]
fn any_study_goes_on_where_it_stood() {
    for place in Ground::all() {
        let mut store = place.open().unwrap();
        let checkpoint = site().agent.checkpoint();
        let limit = Some((1.0, 1e-5));
        for study in [1, 2, 1, 2] {
            let found = store.begin(&opening(study, Some(0.5), limit)).unwrap();
            assert_eq!(found.number, i64::from(study));
            let round = store.outbox(found.number).unwrap().last().map_or(2, |sent| sent.0 + 1);
            store
                .release(
                    found.number,
                    round,
                    &[10 * study + round as u8; 40],
                    ChargeRow::new(),
                    MixedRounds::default(),
                    checkpoint.clone(),
                )
                .unwrap();
        }
        drop(store);
        let store = place.open().unwrap();
        assert_eq!(store.outbox(1).unwrap(), [(2, vec![12; 40]), (3, vec![13; 40])]);
        assert_eq!(store.outbox(2).unwrap(), [(2, vec![22; 40]), (3, vec![23; 40])]);
        drop(store);
        // The rows of one study cannot be cut off behind the other's.
        place.edit("DELETE FROM ledger WHERE number = 7", |t| drop(t.lines.remove(&7)));
        assert!(matches!(place.open(), Err(StoreError::Broken { .. })));
    }
}

#[test]
fn a_long_ledger_is_read_from_its_last_mark_on() {
    for place in Ground::all() {
        drop(long(place.open().unwrap(), 2600, 300));
        let store = place.open().unwrap();
        assert!(store.marked >= 2000 && store.rows == 2602, "{} of {}", store.marked, store.rows);
        let mut all = Mark::default();
        store.scan(|row| all.see(row.number, row.study, &row.entry, row.hash)).unwrap();
        assert_eq!(format!("{all:?}"), format!("{:?}", store.mark), "as if all had been read");
        assert_eq!((store.releases, store.head), (2600, all.head));
        let kinds: Vec<i64> = store.headings().unwrap().iter().map(|row| row.number).collect();
        assert_eq!(kinds, [1, 2]);
        let told = store.spent(1).epsilon(1e-6);
        assert!(told > 0.0 && told < 0.1, "{told}");
        drop(store);
        // What lies before the mark was checked when it was written; an audit checks it again.
        place.reword(7, "0.0001", "0.0002");
        drop(place.open().unwrap());
        assert!(place.look().unwrap_err().to_string().contains("row 7"));
        place.reword(7, "0.0002", "0.0001");
        drop(place.look().unwrap());
        // Budgets and studies decide what may be released: they are looked at in every start.
        place.reword(1, "limit", "limits");
        assert!(place.open().unwrap().headings().is_err());
        place.reword(1, "limits", "limit");
        place.reword(2601, "0.0001", "0.0002");
        assert!(place.open().unwrap_err().to_string().contains("row 2601"));
        place.edit("DELETE FROM ledger WHERE number >= 2601", |t| {
            t.lines.retain(|number, _| *number < 2601);
        });
        assert!(place.open().unwrap_err().to_string().contains("edited or damaged"));
    }
}
