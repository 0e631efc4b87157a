//! Estimates against textbook formulas on single records, intervals against their promise.

use consenso_queries::{
    Answer, Answered, Columns, Plan, Question, QuestionnaireFacts, Released, answer,
};
use consenso_tables::{Column, Format, Kind, Label, Records, Schema};
use serde_json::Value;
use std::collections::BTreeMap;

/// How `tests/golden/make.py`, which knows nothing of bins and shares, computed the same numbers.
const GOLDEN: &str = include_str!("golden/golden.json");

fn columns() -> Columns {
    let number = |name: &str, max: f64| Column::new(name, Kind::Numeric { min: 0.0, max });
    let words = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let levels =
        |name: &str, all: &[&str]| Column::new(name, Kind::Categorical { categories: words(all) });
    let label = Column::new("dead", Kind::Label(Label::Classes(words(&["no", "yes"]))));
    let all = vec![
        number("age", 100.0),
        number("time", 10.0),
        number("score", 1.0),
        levels("sex", &["f", "m"]),
        levels("arm", &["a", "b"]),
        label,
    ];
    Columns::of(&Schema::new(all, Format::default(), true).unwrap())
}

/// Raw records: numbers as parts of their range.
fn records(all: &[[f64; 6]]) -> Records {
    let mut records = Records::with_capacity(5, all.len());
    for [age, time, score, sex, arm, dead] in all {
        records.push(&[age / 100.0, time / 10.0, *score, *sex, *arm], 2.0 * dead - 1.0);
    }
    records
}

fn golden() -> (Vec<[f64; 6]>, Value) {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let rows = golden["records"].as_array().unwrap().iter();
    let row = |r: &Value| -> [f64; 6] { std::array::from_fn(|k| r[k].as_f64().unwrap()) };
    (rows.map(row).collect(), golden)
}

fn plan(questions: &[&str], records: usize, sampling: bool) -> Plan {
    let questions: Vec<Question> = questions
        .iter()
        .enumerate()
        .map(|(k, text)| Question::from_phrase(text, k).unwrap())
        .collect();
    let request = QuestionnaireFacts {
        sites: vec!["all".into()],
        counts: vec![records],
        level: 0.95,
        sampling,
        about: Some(4.2),
        ..QuestionnaireFacts::default()
    };
    Plan::new(&questions, &columns(), &request).unwrap()
}

/// Normal numbers from a seed.
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn draw(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

fn ask(plan: &Plan, sum: &[f64], sigma: f64, normal: &mut Normal) -> Vec<Answered> {
    let noised: Vec<f64> = sum.iter().map(|s| s + sigma * normal.draw()).collect();
    answer(plan, &Released::of(plan, &noised, std::slice::from_ref(&noised), [sigma, sigma]))
}

fn found<'a>(answered: &'a Answered, what: &str) -> Vec<&'a Answer> {
    answered.answers.iter().filter(|a| a.what == what).collect()
}

#[test]
fn without_noise_answers_are_those_of_textbook_formulas() {
    let (rows, golden) = golden();
    let plan = plan(
        &[
            "mean age by sex",
            "quantiles age",
            "survival time dead by arm horizon=7.5",
            "crosstab sex arm",
            "roc score dead",
            "correlation age score",
            "summary age by sex",
        ],
        rows.len(),
        false,
    );
    let sum = plan.totals(&records(&rows), 0);
    let answers = ask(&plan, &sum, 0.0, &mut Normal(1));
    let near = |a: f64, b: &Value, by: f64, what: &str| {
        let b = b.as_f64().unwrap();
        assert!((a - b).abs() <= by, "{what}: {a}, and numpy says {b}");
    };
    for g in 0..2 {
        near(found(&answers[0], "mean")[g].estimate, &golden["mean"][g], 1e-6, "mean");
        near(found(&answers[0], "sd")[g].estimate, &golden["sd"][g], 1e-6, "sd");
        let curve: Vec<&Answer> = found(&answers[2], "survival");
        for (k, at) in [2.5, 5.0, 7.5].into_iter().enumerate() {
            let group = ["a", "b"][g];
            let point = curve
                .iter()
                .find(|a| a.group.as_deref() == Some(group) && a.at == Some(at))
                .unwrap();
            near(point.estimate, &golden["survival"][g][k], 0.004, "survival");
        }
        let area = found(&answers[2], "restricted mean")[g].estimate;
        near(area, &golden["restricted"][g], 0.02, "restricted mean");
    }
    for (k, a) in answers[1].answers.iter().enumerate() {
        near(a.estimate, &golden["quartiles"][k], 0.4, "quartile");
    }
    let log_rank = golden["log_rank"].as_f64().unwrap();
    near(answers[2].tests[0].statistic, &golden["log_rank"], 0.03 * log_rank, "log-rank");
    near(answers[3].tests[0].statistic, &golden["chi_squared"], 1e-3, "chi-squared");
    assert_eq!(answers[3].tests[0].df, 1);
    near(found(&answers[4], "auc")[0].estimate, &golden["auc"], 0.003, "AUC");
    near(found(&answers[5], "correlation")[0].estimate, &golden["correlation"], 1e-6, "r");
    near(found(&answers[6], "difference")[0].estimate, &golden["difference"], 1e-6, "difference");
}

/// How often intervals of one sort of answer hold the truth, and how large errors are beside what
/// the answers say of their noise.
#[derive(Debug, Default)]
struct Tally {
    covered: f64,
    all: f64,
    squares: f64,
    shown: f64,
}

impl Tally {
    fn add(&mut self, answer: &Answer, truth: f64) {
        self.all += 1.0;
        self.covered += f64::from(u8::from(answer.low <= truth && truth <= answer.high));
        if !answer.below_noise {
            self.squares += ((answer.estimate - truth) / answer.noise).powi(2);
            self.shown += 1.0;
        }
    }

    fn share(&self) -> f64 {
        self.covered / self.all
    }

    fn size(&self) -> f64 {
        (self.squares / self.shown).sqrt()
    }
}

/// Asks a question over and over, about the golden records under noise: by what is answered.
fn coverage(question: &str, draws: usize) -> BTreeMap<&'static str, Tally> {
    let (rows, _) = golden();
    let plan = plan(&[question], rows.len(), false);
    let sum = plan.totals(&records(&rows), 0);
    let truth = ask(&plan, &sum, 0.0, &mut Normal(1));
    let (mut tallies, mut normal) = (BTreeMap::<_, Tally>::new(), Normal(7));
    for _ in 0..draws {
        // ε = 1 at δ = 10^−6 has σ = 4.2 where one record moves the vector by 1.
        let answers = ask(&plan, &sum, 4.2, &mut normal);
        for (a, t) in answers[0].answers.iter().zip(&truth[0].answers) {
            let exact = a.noise == 0.0 && !a.below_noise;
            if a.what != "component" && !exact && !t.below_noise {
                tallies.entry(a.what).or_default().add(a, t.estimate);
            }
        }
    }
    tallies
}

/// Intervals promise 95 %, of every sort of answer. What chance does to 2,000 draws is 0.5 % of
/// them, to 800 of a curve's many answers less.
#[expect(clippy::print_stdout, reason = "what was found, for whoever asks for it")]
fn as_promised(questions: &[&str], draws: usize) {
    for question in questions {
        for (what, tally) in coverage(question, draws) {
            let (share, size) = (tally.share(), tally.size());
            println!("{question}: {what} {share:.3}, errors {size:.2} times the noise");
            assert!((0.93..=0.97).contains(&share), "{question}: {what} {share}");
            assert!((0.7..1.3).contains(&size), "{question}: {what} {size}");
        }
    }
}

#[test]
fn intervals_of_sums_cover_as_often_as_they_promise() {
    as_promised(
        &[
            "count by sex",
            "share dead by sex",
            "mean age",
            "mean age by sex",
            "sum age by arm",
            "histogram age bins=8",
            "crosstab sex arm",
            "summary age sex by arm",
            "correlation age score time",
        ],
        2000,
    );
}

/// What is known of a curve holds whatever the noise: it does not rise, and lies in its interval.
#[test]
fn curves_fall_and_lie_in_their_intervals() {
    let (rows, _) = golden();
    for question in ["roc score dead", "survival time dead by arm"] {
        let plan = plan(&[question], rows.len(), false);
        let sum = plan.totals(&records(&rows), 0);
        let mut normal = Normal(13);
        for _ in 0..20 {
            let answers = &ask(&plan, &sum, 40.0, &mut normal)[0].answers;
            assert!(answers.iter().all(|a| a.low <= a.estimate && a.estimate <= a.high));
            for pair in answers.windows(2).filter(|pair| !pair[1].below_noise) {
                let same = pair[0].what == pair[1].what && pair[0].group == pair[1].group;
                let falls = pair[0].at < pair[1].at && pair[0].estimate >= pair[1].estimate;
                assert!(!same || falls, "{question}: {pair:?}");
            }
        }
    }
}

/// Intervals of quantiles end at bins' ends, so that they cover a little more.
#[test]
#[ignore = "a minute: cargo xtask soak"]
fn intervals_of_curves_cover_as_often_as_they_promise() {
    as_promised(&["survival time dead by arm horizon=5", "roc score dead"], 800);
    // Up to here noise decides whether anything is said, and then anything is possible.
    for (question, what) in [
        ("quantiles age", "quantile"),
        ("survival time dead by arm horizon=7.5", "restricted mean"),
    ] {
        let share = coverage(question, 800)[what].share();
        println!("{question}: {share:.3}");
        assert!(share > 0.93, "{question}: {share}");
    }
}

/// Φ by Simpson's rule, which knows nothing of the library's.
fn phi(x: f64) -> f64 {
    let f = |t: f64| (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
    let (from, n) = (-9.0, 4000);
    let h = (x - from) / f64::from(n);
    let inner = |k: i32| f64::from(if k % 2 == 0 { 2 } else { 4 }) * f(from + h * f64::from(k));
    h / 3.0 * (f(from) + (1..n).map(inner).sum::<f64>() + f(x))
}

/// Records of a population that is known: ages normal around 50 with a deviation of 12, 40 % men, a
/// score that tells men from women and knows ages, deaths at a rate of 1/8.
fn drawn(n: usize, normal: &mut Normal) -> Vec<[f64; 6]> {
    let one = |normal: &mut Normal| {
        let (z, e) = (normal.draw(), normal.draw());
        let man = f64::from(u8::from(normal.uniform() < 0.4));
        let score = 0.45 + 0.15 * man + 0.15 * (0.6 * z + 0.8 * e);
        let (death, end) = (-8.0 * normal.uniform().ln(), 10.0 * normal.uniform());
        let dead = f64::from(u8::from(death < end));
        let arm = f64::from(u8::from(normal.uniform() < 0.5));
        [(50.0 + 12.0 * z).clamp(0.0, 100.0), death.min(end), score.clamp(0.0, 1.0), man, arm, dead]
    };
    (0..n).map(|_| one(normal)).collect()
}

/// What the population says, where it does: AUC and rates of two normal laws a deviation apart, the
/// curve of a constant hazard.
fn of_population(n: f64, answer: &Answer) -> Option<f64> {
    let level = answer.level.as_deref();
    let share = |group: &str| if group == "m" { 0.4 } else { 0.6 };
    let below = |threshold: f64, mean: f64| phi((threshold - mean) / 0.15);
    Some(match answer.what {
        "count" => match level {
            Some(bar) => {
                let ends = bar.trim_matches(['[', ']', ')']).split_once(", ")?;
                let end = |text: &str| text.parse::<f64>().unwrap();
                n * (phi((end(ends.1) - 50.0) / 12.0) - phi((end(ends.0) - 50.0) / 12.0))
            }
            None => n * share(answer.group.as_deref()?),
        },
        "share" => share(level?),
        "mean" => 50.0,
        "sd" => 12.0,
        "sum" => 50.0 * n,
        "quantile" => {
            50.0 + 12.0 * [-0.674_489_75, 0.0, 0.674_489_75][(4.0 * answer.q?) as usize - 1]
        }
        "correlation" => 0.15 * 0.6 / (0.0225 + 0.24 * 0.0225f64).sqrt(),
        "survival" => (answer.at? <= 4.0).then(|| (-answer.at.unwrap() / 8.0).exp())?,
        "restricted mean" => 8.0 * (1.0 - (-answer.at? / 8.0).exp()),
        "auc" => phi(std::f64::consts::FRAC_1_SQRT_2),
        "true positive rate" => 1.0 - below(answer.at?, 0.6),
        "false positive rate" => 1.0 - below(answer.at?, 0.45),
        _ => return None,
    })
}

/// With `sampling` intervals hold what is true of the population that records were drawn from.
#[test]
#[ignore = "a minute: cargo xtask soak"]
fn intervals_with_sampling_cover_the_population() {
    let n = 1500;
    for question in [
        "count by sex",
        "share sex",
        "mean age",
        "mean age by sex",
        "sum age",
        "histogram age cuts=40,60",
        "quantiles age",
        "correlation age score",
        "survival time dead by arm horizon=4",
        "roc score sex",
    ] {
        let plan = plan(&[question], n, true);
        let (mut tallies, mut normal) = (BTreeMap::<_, Tally>::new(), Normal(11));
        for _ in 0..600 {
            let sum = plan.totals(&records(&drawn(n, &mut normal)), 0);
            for a in &ask(&plan, &sum, 4.2, &mut normal)[0].answers {
                if let Some(truth) = of_population(n as f64, a) {
                    tallies.entry(a.what).or_default().add(a, truth);
                }
            }
        }
        for (what, tally) in tallies {
            println!("{question}: {what} {:.3}", tally.share());
            // Intervals of quantiles end where bins do.
            let most = if what == "quantile" { 0.99 } else { 0.97 };
            assert!((0.93..=most).contains(&tally.share()), "{question}: {what} {tally:?}");
        }
    }
}

/// Where groups are alike, tests that know the noise reject in 5 % of all draws, and a test that
/// took the noise for records would not.
#[test]
#[ignore = "a minute: cargo xtask soak"]
fn tests_of_what_is_true_reject_as_often_as_they_say() {
    let mut normal = Normal(3);
    let (mut rejected, mut survival) = (0, 0);
    for _ in 0..1000 {
        let rows: Vec<[f64; 6]> = (0..1500)
            .map(|_| {
                let death = -8.0 * normal.uniform().ln();
                let end = 10.0 * normal.uniform();
                let half = |x: f64| f64::from(u8::from(x < 0.5));
                let dead = f64::from(u8::from(death < end));
                [50.0, death.min(end), 0.5, half(normal.uniform()), half(normal.uniform()), dead]
            })
            .collect();
        let plan = plan(&["crosstab sex arm", "survival time dead by arm"], rows.len(), false);
        let sum = plan.totals(&records(&rows), 0);
        let answers = ask(&plan, &sum, 4.2, &mut normal);
        rejected += usize::from(answers[0].tests[0].p < 0.05);
        survival += usize::from(answers[1].tests[0].p < 0.05);
    }
    // 50 are expected, give or take 7.
    println!("chi-squared {rejected}, log-rank {survival} of 1000");
    assert!((30..=70).contains(&rejected) && (30..=70).contains(&survival));
}

/// What the plan expects is what noise does.
#[test]
fn the_plan_expects_the_error_that_is_measured() {
    let (rows, _) = golden();
    for question in [
        "count by sex",
        "mean age",
        "sum age",
        "share dead",
        "share sex by arm",
        "crosstab sex arm",
        "histogram age",
    ] {
        let plan = plan(&[question], rows.len(), false);
        let expected = plan.expected([4.2, 4.2])[0][0].noise;
        let sum = plan.totals(&records(&rows), 0);
        let truth = ask(&plan, &sum, 0.0, &mut Normal(1));
        let (mut squares, mut all, mut normal) = (0.0, 0.0, Normal(5));
        for _ in 0..300 {
            let answers = ask(&plan, &sum, 4.2, &mut normal);
            let kept = answers[0].answers.iter().zip(&truth[0].answers).filter(|(a, t)| {
                a.what != "sd" && t.estimate > 200.0 || a.what == "mean" || a.what == "share"
            });
            for (a, t) in kept {
                squares += (a.estimate - t.estimate).powi(2);
                all += 1.0;
            }
        }
        let measured = (squares / f64::max(all, 1.0)).sqrt();
        assert!((measured / expected - 1.0).abs() < 0.2, "{question}: {measured} for {expected}");
    }
}

/// A cell that noise could have made is not shown as a number.
#[test]
fn small_cells_are_below_noise_and_never_a_number() {
    let mut rows = vec![[50.0, 1.0, 0.5, 0.0, 0.0, 0.0]; 2_000];
    rows.extend(vec![[50.0, 1.0, 0.5, 1.0, 0.0, 0.0]; 3]);
    let plan = plan(&["count by sex"], rows.len(), false);
    let sum = plan.totals(&records(&rows), 0);
    let mut normal = Normal(9);
    let mut shown = 0;
    for _ in 0..200 {
        let answers = ask(&plan, &sum, 4.2, &mut normal);
        let small = &answers[0].answers[1];
        assert!(small.low <= 3.0 || small.low > 0.0);
        shown += usize::from(!small.below_noise);
        let text = consenso_queries::text(&answers);
        assert_eq!(text.contains("below noise"), small.below_noise, "{text}");
    }
    assert!(shown < 25, "noise passes for records in {shown} of 200");
}

/// Bins are as fine as noise leaves something to see in: few where it is large, many where it is
/// small, by public numbers alone. What `plan` expects of quantiles is what is measured.
#[test]
fn bins_follow_the_noise_and_the_plan_knows_what_they_cost() {
    let mut age = Column::new("age", Kind::Numeric { min: 0.0, max: 100.0 });
    (age.known.mean, age.known.sd) = (Some(50.0), Some(15.0));
    let words = ["no", "yes"].map(str::to_owned).to_vec();
    let label = Column::new("dead", Kind::Label(Label::Classes(words)));
    let schema = Schema::new(vec![age, label], Format::default(), true).unwrap();
    let mut normal = Normal(21);
    let mut ages: Vec<f64> =
        (0..5000).map(|_| (50.0 + 15.0 * normal.draw()).clamp(0.0, 100.0)).collect();
    ages.sort_by(f64::total_cmp);
    let mut rows = Records::with_capacity(1, ages.len());
    ages.iter().for_each(|age| rows.push(&[age / 100.0], 1.0));
    let quartiles = [ages[1249], ages[2499], ages[3749]];
    let question = Question::from_phrase("quantiles age", 0).unwrap();
    let mut widths = Vec::new();
    for sigma in [60.0, 8.0, 2.5] {
        let request = QuestionnaireFacts {
            sites: vec!["all".into()],
            counts: vec![ages.len()],
            level: 0.95,
            about: Some(sigma),
            ..QuestionnaireFacts::default()
        };
        let plan = Plan::new(std::slice::from_ref(&question), &Columns::of(&schema), &request);
        let plan = plan.unwrap();
        widths.push(plan.width());
        let expected = &plan.expected([sigma, sigma])[0];
        let sum = plan.totals(&rows, 0);
        let (mut off, mut covered) = (0.0, 0.0);
        for _ in 0..150 {
            let answers = ask(&plan, &sum, sigma, &mut normal);
            for (a, exact) in answers[0].answers.iter().zip(quartiles) {
                off += (a.estimate - exact).abs() / 450.0;
                covered += f64::from(u8::from(a.low <= exact && exact <= a.high)) / 450.0;
            }
        }
        let plan = expected.iter().map(|e| e.error).sum::<f64>() / 3.0;
        assert!((off / plan - 1.0).abs() < 0.2, "σ = {sigma}: {off} for {plan}");
        assert!(covered > 0.93, "σ = {sigma}: {covered}");
    }
    assert!(widths[0] < widths[1] && widths[1] < widths[2], "{widths:?}");
}

/// Whole years, where the schema says that they are: quantiles are whole, hold what they promise,
/// and `plan` is right on average over where they lie among equal ages; for each of them what is
/// measured lies in the range that it prints.
#[test]
fn quantiles_of_whole_numbers_are_whole_and_the_plan_says_how_far_they_may_be_off() {
    let mut age = Column::new("age", Kind::Numeric { min: 0.0, max: 100.0 });
    (age.known.mean, age.known.sd, age.known.step) = (Some(50.0), Some(15.0), Some(1.0));
    let words = ["no", "yes"].map(str::to_owned).to_vec();
    let label = Column::new("dead", Kind::Label(Label::Classes(words)));
    let schema = Schema::new(vec![age, label], Format::default(), true).unwrap();
    let question = Question::from_phrase("quantiles age", 0).unwrap();
    let (n, mut normal) = (4000, Normal(31));
    for sigma in [2.0, 8.0, 30.0, 120.0] {
        let request = QuestionnaireFacts {
            sites: vec!["all".into()],
            counts: vec![n],
            level: 0.95,
            about: Some(sigma),
            ..QuestionnaireFacts::default()
        };
        let plan = Plan::new(std::slice::from_ref(&question), &Columns::of(&schema), &request);
        let plan = plan.unwrap();
        assert_eq!(plan.width(), 101);
        let expected = &plan.expected([sigma, sigma])[0];
        let (mut off, mut covered, mut all) = (0.0, 0.0, 0.0);
        let mut shown = String::new();
        for population in 0..300 {
            // The same law a part of a year on: its quantiles lie elsewhere among equal ages.
            let shift = f64::from(population) / 300.0;
            let draw = |normal: &mut Normal| (49.5 + shift + 15.0 * normal.draw()).round();
            let mut ages: Vec<f64> = (0..n).map(|_| draw(&mut normal).clamp(0.0, 100.0)).collect();
            ages.sort_by(f64::total_cmp);
            let mut rows = Records::with_capacity(1, n);
            ages.iter().for_each(|age| rows.push(&[age / 100.0], 1.0));
            let sum = plan.totals(&rows, 0);
            let exact = [ages[999], ages[1999], ages[2999]];
            let mut errors = [0.0; 3];
            for _ in 0..8 {
                let answers = ask(&plan, &sum, sigma, &mut normal);
                shown = consenso_queries::text(&answers);
                for ((a, exact), error) in answers[0].answers.iter().zip(exact).zip(&mut errors) {
                    assert!(a.estimate.fract() == 0.0 && a.noise > 0.0, "{a:?}");
                    *error += (a.estimate - exact).abs() / 8.0;
                    covered += f64::from(u8::from(a.low <= exact && exact <= a.high));
                    all += 1.0;
                }
            }
            for (error, e) in errors.iter().zip(expected) {
                let [least, most] = e.range.unwrap();
                // What chance does to 8 draws of an error that is mostly 0 or 1.
                let chance = 5.0 * (0.25f64 * most.max(1.0) / 8.0).sqrt();
                assert!(*error > least - chance && *error < most + chance, "{error}: {e:?}");
            }
            off += errors.iter().sum::<f64>() / 900.0;
        }
        assert!(!shown.contains(".0"), "{shown}");
        let plan = expected.iter().map(|e| e.error).sum::<f64>() / 3.0;
        println!("σ = {sigma}: {off:.3} measured, {plan:.3} expected, covered {}", covered / all);
        assert!((off / plan - 1.0).abs() < 0.2, "σ = {sigma}: {off} for {plan}");
        assert!(covered / all > 0.95, "σ = {sigma}: {}", covered / all);
    }
}
