//! Records of one's own under a claim: how they are divided, and what test records may be.

use super::division::partition;
use super::spec::{ExperimentSpec, PartitionSpec};
use crate::config_error::ConfigError;
use crate::data::{Dataset, RecordKeys, StablePartition};
use crate::privacy::NeighbourRelation;

impl ExperimentSpec {
    /// Whether the records are somebody's: neither bundled nor generated, and so not public.
    #[must_use]
    pub fn has_private_records(&self) -> bool {
        self.data.source.is_none()
    }

    /// The column whose groups are agents, or `file`; `None` where records are divided otherwise.
    #[must_use]
    pub fn divides_by(&self) -> Option<&str> {
        match &self.data.partition {
            Some(PartitionSpec::By(column)) => Some(column),
            Some(PartitionSpec::Dirichlet(_)) => None,
            None => self.data.agents.is_none().then_some("file"),
        }
    }

    /// By what somebody's records are divided and held out, so that the neighbours of `[privacy]`
    /// stay neighbours; `None` where nothing is claimed, or all records are public.
    #[must_use]
    pub fn record_keys(&self) -> Option<RecordKeys> {
        let privacy = self.privacy.filter(|_| self.has_private_records())?;
        Some(match privacy.neighbours {
            NeighbourRelation::AddRemove => RecordKeys::Content,
            NeighbourRelation::ReplaceOne
            | NeighbourRelation::ZeroOut
            | NeighbourRelation::Paper => RecordKeys::Position,
        })
    }
}

/// Refuses test records that were trained on, under noise that protects them: naming a file of them
/// declares it public, and what may be shared of a run holds exact figures of it. Under a seed,
/// where nothing may be shared, it is worth a note.
pub(super) fn check_test(
    spec: &ExperimentSpec,
    data: &Dataset,
    real_noise: bool,
) -> Result<Option<String>, ConfigError> {
    // Figures of records that are held out stay private.
    if spec.record_keys().is_none() || spec.data.hold_out.is_some() {
        return Ok(None);
    }
    let shared = data.shared_records().map_err(ConfigError::of)?;
    let Some(shared) = shared.filter(crate::data::SharedRecords::is_more_than_chance) else {
        return Ok(None);
    };
    let found = format!("{} of {} test records are training records", shared.found, shared.of);
    if !real_noise {
        return Ok(Some(format!("{found}: their figures say nothing about new records")));
    }
    Err(ConfigError::at(
        "test",
        format!(
            "{found}: test records are public, and a run shows exact figures of them; name records that nobody trains on, or set \
             hold_out = 0.2 instead, whose figures stay with you"
        ),
    )
    .refusing_claim())
}

/// Refuses to divide somebody's records in a way that does not map neighbours to neighbours, under
/// noise that protects them; under a seed, which protects nobody, it is worth a note.
pub(super) fn check_division(
    spec: &ExperimentSpec,
    data: &Dataset,
    real_noise: bool,
) -> Result<Option<String>, ConfigError> {
    let Some(keys) = spec.record_keys().filter(|_| data.elsewhere.is_none()) else {
        return Ok(None);
    };
    match StablePartition::new(partition(spec, data)?, keys, data) {
        Ok(_) => Ok(None),
        Err(unstable) if real_noise => {
            Err(ConfigError::at("partition", unstable.to_string()).refusing_claim())
        }
        Err(unstable) => Ok(Some(format!(
            "for a seeded run only, on records with noise of the operating system it is refused: {unstable}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::config_error::ConfigError;
    use crate::data::{Column, Dataset, Encoding, Format, Kind, Label, Schema, Table, csv};
    use crate::experiment::{Experiment, ExperimentSpec, Inputs, SpecError};
    use std::collections::BTreeMap;

    type Rows = Vec<([f64; 2], f64)>;

    fn table(rows: &[([f64; 2], f64)], name: &str) -> Table {
        let columns = vec![
            Column::new("x", Kind::Numeric { min: 0.0, max: 1.0 }),
            Column::new("ward", Kind::Categorical { categories: vec!["a".into(), "b".into()] }),
            Column::new("y", Kind::Label(Label::Classes(vec!["no".into(), "yes".into()]))),
        ];
        let schema = Schema::new(columns, Format::default(), true).unwrap();
        let mut text = String::from("x,ward,y\n");
        for ([x, ward], label) in rows {
            let ward = if *ward == 0.0 { "a" } else { "b" };
            text += &format!("{x},{ward},{}\n", if *label > 0.0 { "yes" } else { "no" });
        }
        csv::read(text.as_bytes(), name, &schema).unwrap()
    }

    fn rows(count: usize) -> Rows {
        let row = |k: usize| {
            let x = (k * 37 % 101) as f64 / 101.0;
            ([x, (k % 2) as f64], if k.is_multiple_of(3) { 1.0 } else { -1.0 })
        };
        (0..count).map(row).collect()
    }

    fn checked(
        data: &str,
        neighbours: &str,
        rows: &[([f64; 2], f64)],
        test: Option<&[([f64; 2], f64)]>,
        entropy: Option<[u8; 32]>,
    ) -> Result<Experiment, SpecError> {
        let text = format!(
            "name = \"own\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"one-hot\"\n{data}\n[graph]\nkind = \"complete\"\n\
             [privacy]\nepsilon = 2.0\ndelta = 1e-5\nneighbours = \"{neighbours}\"\n[[algorithm]]\nkind = \"dgd\"\nrounds = 3\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let test = test.map(|rows| table(rows, "test.csv"));
        let dataset =
            Dataset::new(vec![table(rows, "x.csv")], test.as_ref(), Encoding::OneHot).unwrap();
        let source = Box::new(dataset);
        Experiment::check(Inputs { file: "own".into(), text, spec, source, edges: None, entropy })
    }

    /// The records of every agent, by what they say.
    fn agents(experiment: &Experiment) -> Vec<BTreeMap<String, i32>> {
        let locals = experiment.locals(0).unwrap();
        let one = |local: &crate::problem::LocalObjective| {
            let records = local.mean_loss().unwrap().records();
            let mut counts = BTreeMap::new();
            for row in 0..records.len() {
                let key = format!("{:?} {}", records.row(row), records.labels()[row]);
                *counts.entry(key).or_insert(0) += 1;
            }
            counts
        };
        locals.iter().map(one).collect()
    }

    /// How many records differ between two divisions, and at how many agents.
    fn moved(a: &Experiment, b: &Experiment) -> (i32, usize) {
        let (mut records, mut touched) = (0, 0);
        for (one, other) in agents(a).iter().zip(&agents(b)) {
            let keys: std::collections::BTreeSet<&String> =
                one.keys().chain(other.keys()).collect();
            let count = |of: &BTreeMap<String, i32>, key| of.get(key).copied().unwrap_or(0);
            let differ: i32 =
                keys.iter().map(|&key| (count(one, key) - count(other, key)).abs()).sum();
            records += differ;
            touched += usize::from(differ > 0);
        }
        (records, touched)
    }

    #[test]
    fn a_changed_label_cannot_move_others_by_dirichlet_under_real_noise() {
        let skewed = "agents = 4\npartition = { dirichlet = 0.5 }";
        let refused = checked(skewed, "replace-one", &rows(400), None, Some([7; 32])).unwrap_err();
        assert!(refused.refuses_claim && refused.line.is_some(), "{refused}");
        assert!(refused.to_string().contains("divides by the labels"), "{refused}");
        // For science it goes on, and says so.
        let seeded = checked(skewed, "replace-one", &rows(400), None, None).unwrap();
        assert!(seeded.warnings().iter().any(|w| w.contains("seeded run only")));
    }

    #[test]
    fn sizes_of_a_features_groups_are_not_published_under_real_noise() {
        let by = "partition = { by = \"ward\" }";
        let refused = checked(by, "replace-one", &rows(40), None, Some([7; 32])).unwrap_err();
        assert!(refused.refuses_claim, "{refused}");
        assert!(refused.to_string().contains("kind \"site\""), "{refused}");
        assert!(checked(by, "replace-one", &rows(40), None, None).is_ok());
    }

    #[test]
    fn a_replaced_record_moves_no_other_record() {
        let (before, mut after) = (rows(60), rows(60));
        after[17] = ([0.5, 1.0], 1.0);
        let [a, b] = [&before, &after]
            .map(|rows| checked("agents = 4", "replace-one", rows, None, Some([7; 32])).unwrap());
        assert_eq!(moved(&a, &b), (2, 1), "one record out and one in, at one agent");
    }

    /// A share by position would hand nearly all records to other agents.
    #[test]
    fn an_added_or_removed_record_moves_no_other_record() {
        // Every record four times or so, so that equal ones are told apart by their number alone.
        let mut all = rows(101);
        all.extend(rows(90));
        all.extend(rows(80));
        let of =
            |rows: &Rows| checked("agents = 4", "add-remove", rows, None, Some([7; 32])).unwrap();
        let whole = of(&all);
        for gone in [0, 17, 100, 150, 270] {
            let mut fewer = all.clone();
            fewer.remove(gone);
            assert_eq!(moved(&whole, &of(&fewer)), (1, 1), "without record {gone}");
        }
        // All four have a fair share, and the seed decides.
        assert!(whole.records().iter().all(|&b| b > 271 / 8), "{:?}", whole.records());
        let fixed = "agents = 4\nrecords_per_agent = 10";
        let refused = checked(fixed, "add-remove", &all, None, Some([7; 32])).unwrap_err();
        assert!(refused.to_string().contains("another would take its place"), "{refused}");
    }

    /// As a folder would show it: test accuracy, and how many of each class there are.
    #[test]
    fn training_records_cannot_be_declared_public_test_records() {
        let train = rows(90);
        let mut shuffled = train.clone();
        shuffled.rotate_left(31);
        for test in [&train[..], &shuffled[..], &train[3..4], &train[20..50]] {
            let refused = checked("agents = 3", "replace-one", &train, Some(test), Some([7; 32]))
                .unwrap_err();
            assert!(refused.refuses_claim, "{refused}");
            assert!(refused.to_string().contains("are training records"), "{refused}");
        }
        let others: Rows = (0..50).map(|k| ([0.003 * k as f64, 0.0], -1.0)).collect();
        assert!(checked("agents = 3", "replace-one", &train, Some(&others), Some([7; 32])).is_ok());
    }

    /// Records of few values are equal by chance: that is no reason to refuse them.
    #[test]
    fn test_records_that_equal_training_records_by_chance_are_taken() {
        let few = |count: usize, from: usize| -> Rows {
            (from..from + count).map(|k| ([(k % 4) as f64 / 4.0, (k % 2) as f64], 1.0)).collect()
        };
        let taken =
            checked("agents = 3", "replace-one", &few(200, 0), Some(&few(60, 3)), Some([7; 32]));
        assert!(taken.is_ok(), "{:?}", taken.err().map(|e| e.to_string()));
    }

    /// A site with one positive record takes part; so does the neighbour without it.
    /// Data sets that `add-remove` calls neighbours differ in their true number of records, and
    /// announced numbers are public: the claim says that it does not cover them.
    #[test]
    fn a_claim_of_add_remove_says_that_announced_numbers_are_not_covered() {
        let said = |neighbours: &str| {
            let checked = checked("agents = 4", neighbours, &rows(80), None, Some([7; 32]));
            let claim = checked.unwrap().claim(0).unwrap();
            (claim.neighbours.meaning().to_owned(), claim.caveats.join("; "))
        };
        let (meaning, caveats) = said("add-remove");
        assert!(meaning.contains("announced number of records, which is not covered"), "{meaning}");
        for words in ["stands in record.json", "beyond that number", "knows whether a record was"] {
            assert!(caveats.contains(words), "{words:?} is not in {caveats}");
        }
        let (meaning, caveats) = said("replace-one");
        assert!(!meaning.contains("covered") && !caveats.contains("beyond that number"));
        assert!(caveats.contains("number of records is taken as public"), "{caveats}");
    }

    #[test]
    fn one_class_does_not_keep_anybody_from_starting_under_a_claim() {
        let all_no: Rows = rows(30).into_iter().map(|(x, _)| (x, -1.0)).collect();
        let mut one_yes = all_no.clone();
        one_yes[4].1 = 1.0;
        for rows in [&all_no, &one_yes] {
            assert!(checked("agents = 3", "replace-one", rows, None, Some([7; 32])).is_ok());
        }
        let note = checked("agents = 3", "replace-one", &all_no, None, None).unwrap();
        assert!(note.warnings().iter().any(|w| w.contains("label \"no\"")));
        let data = Dataset::new(vec![table(&all_no, "x.csv")], None, Encoding::OneHot).unwrap();
        let refused = data.at_least_two_classes().map_err(ConfigError::of).unwrap_err();
        assert!(refused.to_string().contains("all 30 records have the label \"no\""));
    }
}
