//! The reproduction: verdicts follow their rules, every table has the columns it documents, the
//! page is whole.

use crate::html;
use crate::made_up;

use consenso_engine::record::{AlgorithmRecord, PublishedRecord, Record, Spread};
use consenso_paper::{Cell, Finding, Part, Reproduction, Verdict, experiments, paper_html};
use consenso_study::experiment::built_in;
use html::{chart_data, well_formed};

/// An algorithm of a kind that ends at `log_error` and cost `epsilon` as the paper counts.
fn algorithm(kind: &str, label: &str, log_error: f64, epsilon: f64) -> AlgorithmRecord {
    let mut a = made_up::record().algorithms.swap_remove(0);
    (a.kind, a.label, a.log_error) = (kind.into(), label.into(), log_error);
    a.parameters = serde_json::json!({ "penalty": 10.0 });
    let last = a.curve.last_mut().expect("a curve");
    last.log_error = Spread { min: log_error - 0.1, mean: log_error, max: log_error + 0.1 };
    let spread = Spread { min: epsilon, mean: epsilon, max: epsilon };
    last.epsilon_published = Some(spread);
    a.published =
        Some(PublishedRecord { epsilon: spread, delta: None, formula: "as printed".into() });
    let e = a.epsilon.as_mut().expect("private");
    (e.realised_mean, e.paper_worst_case) = (Some(epsilon), Some(4.46));
    a
}

fn record(name: &str, algorithms: Vec<AlgorithmRecord>) -> Record {
    let mut record = made_up::record();
    (record.name, record.algorithms, record.problem.regularization) =
        (name.into(), algorithms, 1.0);
    record.baselines.zero_model.log_error = -4.3;
    record
}

/// What docs/paper.md section 6 has, with every experiment of the paper.
fn whole() -> Reproduction {
    let fixed = |mut a: AlgorithmRecord| {
        a.parameters = serde_json::json!({ "aggregation": "fixed" });
        a
    };
    let private = || {
        vec![
            algorithm("pp", "PP", -2.39, 4.37),
            algorithm("dvp", "DVP", -2.72, 4.74),
            algorithm("output-admm", "P-ADMM", -2.63, 4.5),
            algorithm("admm", "Algorithm 1", -2.65, 3.27),
        ]
    };
    let gradient = vec![
        algorithm("pdop", "PDOP", -1.2, 1.57),
        algorithm("gd-star", "Algorithm 2*", -0.69, 0.54),
        algorithm("admm", "Algorithm 1", -2.66, 3.2),
    ];
    let twins = |kind: &str, random: f64| {
        vec![algorithm(kind, "random", random, 1.0), fixed(algorithm(kind, "fixed", -8.0, 1.0))]
    };
    let mut printed = algorithm("admm", "as printed", 25.0, 1.0);
    printed.parameters = serde_json::json!({ "printed_dual_sign": true });
    let records = vec![
        record("paper-2a", private()),
        record("paper-dual-sign", vec![algorithm("admm", "mended", -16.0, 1.0), printed]),
        record("paper-b", private()),
        record("paper-c", gradient),
        record("paper-d1", twins("admm", -7.99)),
        record("paper-d1-gd", twins("gd", -7.3)),
        record("paper-d2", twins("admm", -8.02)),
        record("paper-d2-gd", twins("gd", -7.7)),
        made_up::record(),
    ];
    Reproduction::new(&Part::ALL, records)
}

fn finding(reproduction: &Reproduction, claim: &str) -> Finding {
    let found = reproduction.findings().into_iter().find(|f| f.claim.contains(claim));
    found.unwrap_or_else(|| panic!("no finding about {claim}"))
}

#[test]
fn every_figure_draws_from_experiments_that_exist() {
    for name in experiments(&Part::ALL) {
        let text = built_in(name).unwrap_or_else(|| panic!("{name} is not built in"));
        assert!(text.contains(&format!("name = \"{name}\"")));
        assert!(text.contains("seed = 8") || name == "adult", "one seed for the paper's");
    }
    assert!(experiments(&[Part::One]).is_empty());
    assert_eq!(Part::named("b"), Some(Part::B));
    assert_eq!(Part::named("A"), None);
}

#[test]
fn verdicts_follow_their_rules() {
    let whole = whole();
    for (claim, verdict) in [
        ("Larger ω", Verdict::Reproduced),
        ("almost as accurate as prior", Verdict::Reproduced),
        ("by 30 % on average", Verdict::Reproduced),
        ("30 % of the privacy that PDOP loses", Verdict::Reproduced),
        ("almost the same utility loss", Verdict::Not),
        ("and loses more privacy", Verdict::Reproduced),
        ("cost Algorithm 1 no accuracy", Verdict::Reproduced),
        ("cost Algorithm 2 no accuracy", Verdict::Not),
    ] {
        assert_eq!(finding(&whole, claim).verdict, verdict, "{claim}");
    }
    assert_eq!(whole.findings().len(), 9);
    assert_eq!(whole.worse_than_zero(), (11, 11));
}

/// The other side of every rule.
#[test]
fn verdicts_change_where_the_rules_say() {
    let reduction = |realised: f64| {
        let one = algorithm("admm", "Algorithm 1", -2.65, realised);
        let reproduction = Reproduction::new(&[Part::Two], vec![record("paper-2a", vec![one])]);
        finding(&reproduction, "by 30 %").verdict
    };
    // 4.46 is the worst case: 25 % and 15 % of it are where the verdict changes.
    assert_eq!(
        [3.34, 3.35, 3.79, 3.80].map(reduction),
        [Verdict::Reproduced, Verdict::Partly, Verdict::Partly, Verdict::Not]
    );
    let share = |own: f64| {
        let both = vec![
            algorithm("pdop", "PDOP", -1.2, 1.0),
            algorithm("gd-star", "Algorithm 2*", -1.1, own),
        ];
        let reproduction = Reproduction::new(&[Part::C], vec![record("paper-c", both)]);
        finding(&reproduction, "30 % of the privacy").verdict
    };
    assert_eq!(
        [0.34, 0.36, 0.64, 0.66].map(share),
        [Verdict::Reproduced, Verdict::Partly, Verdict::Partly, Verdict::Not]
    );
    let accuracy = |own: f64| {
        let both =
            vec![algorithm("dvp", "DVP", -2.72, 4.7), algorithm("admm", "Algorithm 1", own, 3.3)];
        let reproduction = Reproduction::new(&[Part::Two], vec![record("paper-2a", both)]);
        finding(&reproduction, "almost as accurate").verdict
    };
    assert_eq!(
        [-2.6, -2.5, -2.2].map(accuracy),
        [Verdict::Reproduced, Verdict::Partly, Verdict::Not]
    );
}

#[test]
fn values_are_held_against_the_independent_program() {
    let checks = whole().reference_checks();
    assert_eq!(checks.len(), 16);
    assert!(checks.iter().filter(|c| c.experiment == "paper-2a").all(|c| c.agrees), "{checks:#?}");
    let far = record("paper-2a", vec![algorithm("dvp", "DVP", -2.4, 5.2)]);
    let checks = Reproduction::new(&[Part::Two], vec![far]).reference_checks();
    assert_eq!(checks.len(), 2);
    assert!(checks.iter().all(|check| !check.agrees));
}

/// Reads a CSV as another program would.
fn cells(csv: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
    reader
        .records()
        .map(|row| row.expect("as many cells as columns").iter().map(str::to_owned).collect())
        .collect()
}

#[test]
fn every_table_has_the_columns_it_documents() {
    let whole = whole();
    let (tables, guide) = (whole.tables(), whole.data_guide());
    for figure in whole.figures() {
        assert!(
            tables.iter().any(|table| table.name == figure.name),
            "{} has no data",
            figure.name
        );
    }
    for table in &tables {
        let rows = cells(&table.to_csv());
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(rows[0], names, "{}", table.name);
        assert!(rows.len() > 1, "{} is empty", table.name);
        assert!(guide.contains(&format!("## {}.csv", table.name)));
        for column in &table.columns {
            assert!(!column.meaning.is_empty());
            assert!(guide.contains(&format!("- `{}`: {}", column.name, column.meaning)));
        }
        for (row, written) in table.rows.iter().zip(&rows[1..]) {
            for (cell, text) in row.iter().zip(written) {
                match cell {
                    Cell::Number(value) => assert_eq!(text.parse::<f64>().ok(), Some(*value)),
                    Cell::Text(words) => assert_eq!(words, text),
                    Cell::Empty => assert_eq!(text, ""),
                }
            }
        }
    }
    let columns = |name: &str| -> Vec<&str> {
        let table = tables.iter().find(|table| table.name == name).expect(name);
        table.columns.iter().map(|column| column.name).collect()
    };
    assert_eq!(columns("figure-2a"), ["curve", "round", "mean", "min", "max"]);
    assert_eq!(columns("figure-1"), ["curve", "omega", "mean", "min", "max"]);
    assert_eq!(
        columns("gamma"),
        ["shift", "beta", "omega", "gamma_exact", "gamma_printed", "gamma_bound"]
    );
    assert_eq!(
        columns("findings"),
        ["figure", "claim", "paper", "measured", "value", "verdict", "rule"]
    );
}

/// Theorem 2.3 against docs/paper.md section 4's check values, which are on the grid.
#[test]
fn figure_1_has_the_exact_gamma() {
    let reproduction = Reproduction::new(&[Part::One], Vec::new());
    let at = |shift: f64, beta: f64, omega: f64| {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let found = reproduction
            .gamma
            .iter()
            .find(|p| near(p.shift, shift) && near(p.beta, beta) && near(p.omega, omega));
        *found.expect("on the grid")
    };
    for (point, exact, printed, bound) in [
        (at(0.01, 10.0, 0.1), 0.821_708_34, 0.798_386_68, 0.825_875_01),
        (at(0.001, 2.0, 0.5), 0.787_663_45, 0.787_107_67, 0.787_769_04),
        (at(0.001, 10.0, 1.0), 0.199_346_41, 0.199_454_94, 0.199_844_73),
    ] {
        assert!((point.exact - exact).abs() < 1e-8 && (point.bound - bound).abs() < 1e-8);
        assert!((point.printed.expect("ω > s") - printed).abs() < 1e-8);
    }
    assert!(reproduction.gamma.iter().all(|p| p.bound >= p.exact));
    assert!(
        reproduction.gamma.iter().any(|p| p.printed.is_some_and(|printed| printed < p.exact)),
        "erratum 2"
    );
}

#[test]
fn the_page_shows_every_figure_with_its_claim() {
    let whole = whole();
    let page = paper_html(&whole);
    well_formed(&page);
    let figures = whole.figures();
    assert_eq!(chart_data(&page).len(), figures.len());
    for figure in &figures {
        assert_eq!(
            page.matches(&format!("<figure class=\"chart\" id=\"{}\">", figure.name)).count(),
            1,
            "{}",
            figure.name
        );
        well_formed(&figure.figure.to_svg());
    }
    for finding in whole.findings() {
        assert!(
            figures.iter().any(|figure| figure.name == finding.figure),
            "{} is nowhere",
            finding.figure
        );
        assert!(page.contains(&format!("href=\"#{}\"", finding.figure)));
    }
    assert!(page.contains("better than every one of the 11 private results"));
    assert!(page.contains("consenso reproduce all --seed 7"));
    assert!(page.contains("log error 25.0 with the printed sign, −16.0 with the other"));
    assert!(
        page.contains("4.46")
            && page.contains("id=\"accounting\"")
            && page.contains("id=\"useful\"")
    );
    for (verdict, least) in [("verdict reproduced", 7), ("verdict not", 2)] {
        assert!(page.matches(verdict).count() >= least);
    }
}

#[test]
fn the_page_of_one_figure_is_whole() {
    for part in Part::ALL {
        let all = whole();
        let records: Vec<Record> = all
            .records
            .into_iter()
            .filter(|r| part.experiments().contains(&r.name.as_str()))
            .collect();
        let reproduction = Reproduction::new(&[part], records);
        let page = paper_html(&reproduction);
        well_formed(&page);
        assert!(
            !reproduction.figures().is_empty() && !reproduction.findings().is_empty(),
            "{part:?}"
        );
        assert!(page.contains(&format!("consenso reproduce {}", part.name())));
        assert!(!page.contains("id=\"useful\""));
    }
    // A run that was stopped before anything was done.
    well_formed(&paper_html(&Reproduction::new(&[Part::Two], Vec::new())));
}

#[test]
fn the_table_of_findings() {
    let table =
        whole().tables().into_iter().find(|table| table.name == "findings").expect("findings");
    insta::assert_snapshot!(table.to_csv());
}
