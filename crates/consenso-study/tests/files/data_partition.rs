//! Partitions: disjoint, of the promised sizes, a function of the seed; errors that say what would
//! help.

use consenso_engine::data::partition::{dirichlet, equal};
use consenso_engine::data::{
    Dataset, Encoding, Partition, PartitionError, RecordKeys, Records, Schema, Shard, csv,
};
use consenso_engine::random::Seed;
use consenso_study::{SchemaFile as _, bundled};
use proptest::prelude::*;

/// Whether no row is given twice, and none that does not exist; how many are given.
fn disjoint(shards: &[Vec<usize>], rows: usize) -> Option<usize> {
    let mut taken = vec![false; rows];
    let all: Vec<usize> = shards.iter().flatten().copied().collect();
    all.iter().all(|&row| !std::mem::replace(&mut taken[row], true)).then_some(all.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equal_shares_cover_all_rows_once(rows in 1_usize..500, agents in 1_usize..40, seed: u64) {
        prop_assume!(agents <= rows);
        let shards = equal(rows, agents, None, &Seed::from(seed)).unwrap();
        prop_assert_eq!(shards.len(), agents);
        prop_assert_eq!(disjoint(&shards, rows), Some(rows));
        let sizes = || shards.iter().map(Vec::len);
        prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        prop_assert_eq!(&shards, &equal(rows, agents, None, &Seed::from(seed)).unwrap());
    }

    #[test]
    fn fixed_shares_have_their_size(agents in 1_usize..20, size in 1_usize..30, spare in 0_usize..50, seed: u64) {
        let rows = agents * size + spare;
        let shards = equal(rows, agents, Some(size), &Seed::from(seed)).unwrap();
        prop_assert!(shards.len() == agents && shards.iter().all(|shard| shard.len() == size));
        prop_assert_eq!(disjoint(&shards, rows), Some(agents * size));
    }

    #[test]
    fn dirichlet_covers_all_rows_once(
        classes in proptest::collection::vec(0_usize..4, 60..400),
        agents in 1_usize..6,
        alpha in 0.3_f64..50.0,
        seed: u64,
    ) {
        let shards = dirichlet(&classes, agents, alpha, &Seed::from(seed)).unwrap();
        prop_assert!(shards.len() == agents && shards.iter().all(|shard| !shard.is_empty()));
        prop_assert_eq!(disjoint(&shards, classes.len()), Some(classes.len()));
        prop_assert_eq!(&shards, &dirichlet(&classes, agents, alpha, &Seed::from(seed)).unwrap());
    }
}

#[test]
fn another_seed_gives_another_partition() {
    let of = |seed| equal(1000, 10, Some(50), &Seed::from(seed)).expect("possible");
    assert_ne!(of(1), of(2));
    let classes: Vec<usize> = (0..1000).map(|row| row % 3).collect();
    let of = |seed| dirichlet(&classes, 5, 0.5, &Seed::from(seed)).expect("possible");
    assert_ne!(of(1), of(2));
}

#[test]
fn alpha_controls_the_skew() {
    let classes: Vec<usize> = (0..10_000).map(|row| row % 2).collect();
    let skew = |alpha| {
        let shards = dirichlet(&classes, 5, alpha, &Seed::from(1)).expect("possible");
        let share = |rows: &Vec<usize>| {
            rows.iter().filter(|&&row| classes[row] == 1).count() as f64 / rows.len() as f64
        };
        shards.iter().map(|rows| (share(rows) - 0.5).abs()).fold(0.0, f64::max)
    };
    assert!(skew(1e4) < 0.05, "{}", skew(1e4));
    assert!(skew(0.2) > 0.3, "{}", skew(0.2));
}

#[test]
fn errors_say_what_would_help() {
    let text = |error: PartitionError| error.to_string();
    let seed = Seed::from(0);
    let error = equal(30_162, 100, Some(3000), &seed).expect_err("too many");
    assert_eq!(
        text(error),
        "100 agents of 3000 records need 300000 records and there are 30162; use at most 10 agents or 301 records an agent"
    );
    assert!(matches!(
        equal(3, 4, None, &seed),
        Err(PartitionError::TooFewRecords { agents: 4, rows: 3, .. })
    ));
    assert!(matches!(equal(3, 0, None, &seed), Err(PartitionError::NoAgent)));
    assert!(matches!(equal(3, 1, Some(0), &seed), Err(PartitionError::NoRecords)));
    assert!(matches!(
        equal(usize::MAX, usize::MAX, Some(2), &seed),
        Err(PartitionError::TooFewRecords { .. })
    ));
    assert!(matches!(dirichlet(&[0, 1], 1, f64::NAN, &seed), Err(PartitionError::Alpha { .. })));
    let error = dirichlet(&vec![0; 50], 50, 0.01, &seed).expect_err("one agent gets nearly all");
    assert!(
        text(error)
            .ends_with("of 50 gets no record; use a larger `dirichlet` than 0.01 or fewer agents")
    );
}

#[test]
fn adult_by_occupation_is_one_agent_an_occupation() {
    let data = bundled::adult(Encoding::Paper).expect("adult");
    let by =
        |column: &str| data.partition(&Partition::By { column: column.to_owned() }, &Seed::from(0));
    let shards = by("occupation").expect("a column");
    assert_eq!(shards.len(), 14);
    let armed = shards.iter().find(|shard| shard.name == "Armed-Forces").expect("present");
    assert_eq!(armed.rows.len(), 9);
    let rows: Vec<Vec<usize>> = shards.iter().map(|shard| shard.rows.clone()).collect();
    assert_eq!(disjoint(&rows, data.train().len()), Some(data.train().len()));
    assert_eq!(
        by("workclass").expect("a column").len(),
        7,
        "nobody who never worked has an occupation"
    );
    let error = by("salary").expect_err("no such column").to_string();
    assert!(
        error.starts_with(
            "no column \"salary\" divides the records into groups; there are [\"workclass\""
        ),
        "{error}"
    );
}

#[test]
fn adult_in_equal_shares_and_by_label_skew() {
    let data = bundled::adult(Encoding::Paper).expect("adult");
    let partition = Partition::Equal { agents: 10, records_per_agent: Some(3000) };
    let shards = data.partition(&partition, &Seed::from(7)).expect("possible");
    assert!(shards.iter().all(|Shard { rows, .. }| rows.len() == 3000));
    assert_eq!(shards[3].name, "agent-3");
    let records = data.train().select(&shards[0].rows);
    assert_eq!((records.len(), records.row(5)), (3000, data.train().row(shards[0].rows[5])));
    let partition = Partition::Dirichlet { agents: 10, alpha: 0.3 };
    let shards = data.partition(&partition, &Seed::from(7)).expect("possible");
    assert_eq!(shards.iter().map(|shard| shard.rows.len()).sum::<usize>(), 30_162);
}

const SITES: &str = r#"
reviewed = true
[[column]]
name = "x"
kind = "numeric"
min = 0
max = 10
[[column]]
name = "clinic"
kind = "site"
[[column]]
name = "y"
kind = "label"
classes = ["no", "yes"]
"#;

#[test]
fn sites_and_files_are_partitions() {
    let schema = Schema::from_toml(SITES).expect("valid");
    let read = |text: &str, name| csv::read(text.as_bytes(), name, &schema).expect("valid");
    let tables = vec![
        read("x,clinic,y\n1,north,no\n2,south,yes\n3,north,no\n", "a.csv"),
        read("x,clinic,y\n4,south,no\n", "b.csv"),
    ];
    let data = Dataset::new(tables, None, Encoding::OneHot).expect("valid");
    let by = |column: &str| {
        data.partition(&Partition::By { column: column.to_owned() }, &Seed::from(0)).expect("known")
    };
    let shard = |name: &str, rows: &[usize]| Shard { name: name.to_owned(), rows: rows.to_vec() };
    assert_eq!(by("clinic"), [shard("north", &[0, 2]), shard("south", &[1, 3])]);
    assert_eq!(by("file"), [shard("a.csv", &[0, 1, 2]), shard("b.csv", &[3])]);
    assert_eq!(data.report().rows, 4);
}

#[test]
fn held_out_records_leave_the_training_set() {
    let train = bundled::adult_tables().expect("adult").0;
    let data = Dataset::new(vec![train], None, Encoding::Paper).expect("adult");
    let rows = data.train().len();
    let split =
        data.clone().hold_out(0.25, RecordKeys::Position, None, &Seed::from(1)).expect("possible");
    let test = split.test().expect("held out");
    assert_eq!((test.len(), split.train().len()), (7541, rows - 7541));
    assert!(split.groupings().iter().all(|grouping| grouping.codes.len() == split.train().len()));
    let row_sum =
        |records: &consenso_engine::data::Records, row| records.row(row).iter().sum::<f64>();
    let sum = |records| {
        (0..consenso_engine::data::Records::len(records))
            .map(|row| row_sum(records, row))
            .sum::<f64>()
    };
    assert!(
        (sum(test) + sum(split.train()) - sum(data.train())).abs() < 1e-6,
        "every record is on one side"
    );
    assert_eq!(
        split,
        data.clone().hold_out(0.25, RecordKeys::Position, None, &Seed::from(1)).expect("possible")
    );
    assert!(
        data.clone().hold_out(1.0, RecordKeys::Position, None, &Seed::from(1)).is_err()
            && data.hold_out(f64::NAN, RecordKeys::Position, None, &Seed::from(1)).is_err()
    );
    assert!(
        split
            .hold_out(0.5, RecordKeys::Position, None, &Seed::from(1))
            .expect_err("twice")
            .to_string()
            .contains("7541 test records already")
    );
}

/// Of records that may be more or fewer, which are held out is decided for each by itself.
#[test]
fn a_removed_record_moves_no_other_in_or_out_of_a_hold_out() {
    let schema = Schema::from_toml(SITES).expect("valid");
    let line = |k: usize| {
        let clinic = ["north", "south"][k / 3 % 2];
        format!("{},{clinic},{}\n", k * 7 % 11, ["no", "yes"][k % 2])
    };
    let lines: Vec<String> = (0..120).map(line).collect();
    let held = |lines: &[String]| {
        let text = format!("x,clinic,y\n{}", lines.concat());
        let table = csv::read(text.as_bytes(), "a.csv", &schema).expect("valid");
        let data = Dataset::new(vec![table], None, Encoding::OneHot).expect("valid");
        let split = data
            .hold_out(0.3, RecordKeys::Content, Some("clinic"), &Seed::from(4))
            .expect("possible");
        let clinics = split.grouping("clinic").expect("known").clone();
        let text = |records: &Records, row: usize| {
            format!("{:?} {}", records.row(row), records.labels()[row])
        };
        let mut all: Vec<String> = (0..split.train().len())
            .map(|row| {
                let clinic = &clinics.names[clinics.codes[row] as usize];
                format!("train {clinic} {}", text(split.train(), row))
            })
            .collect();
        let test = split.test().expect("held out");
        all.extend((0..test.len()).map(|row| format!("test {}", text(test, row))));
        all.sort_unstable();
        (all, test.len())
    };
    let (whole, test) = held(&lines);
    assert!((15..=60).contains(&test), "{test} of 120, where 36 are expected");
    for gone in [0, 1, 50, 119] {
        let mut fewer = lines.clone();
        fewer.remove(gone);
        let (rest, _) = held(&fewer);
        let mut left = rest.into_iter().peekable();
        let missing = whole.iter().filter(|record| left.next_if_eq(*record).is_none()).count();
        assert_eq!((missing, left.next()), (1, None), "without line {gone}");
    }
}
