//! The report: well-formed, escaped, whole whatever the numbers are, and axes that a reader can
//! use.

use crate::html;
use crate::made_up;

use consenso_engine::record::{Record, Spread, SweepPoint};
use consenso_study::report::{
    Axis, Figure, Point, Reference, Scale, Series, figures, report_html, ticks,
};
use html::{chart_data, well_formed, without_scripts};
use proptest::prelude::*;

/// Attributes of the elements whose tag starts with `start`.
fn attributes<'a>(text: &'a str, start: &str, name: &str) -> Vec<&'a str> {
    let key = format!(" {name}=\"");
    let value = |tag: &'a str| {
        let tag = &tag[..tag.find('>').expect("an end")];
        tag.split(key.as_str()).nth(1).map(|rest| &rest[..rest.find('"').expect("a quote")])
    };
    text.match_indices(start).filter_map(|(at, _)| value(&text[at..])).collect()
}

fn chart(scale: Scale, series: Vec<Series>) -> Figure {
    Figure {
        title: "A figure".into(),
        description: "To look at.".into(),
        x: Axis::new("round", Scale::Whole),
        y: Axis::new("value (units)", scale),
        series,
        lines: Vec::new(),
    }
}

fn line(values: &[f64]) -> Series {
    let points = values.iter().enumerate().map(|(k, &v)| Point::from((k as f64, v))).collect();
    Series::new("line", 0, points)
}

/// No number that a renderer would stumble over.
fn all_numbers_finite(svg: &str) {
    for name in ["d", "x", "y", "cx", "cy", "width", "height", "viewBox"] {
        for value in attributes(svg, "<", name) {
            let lower = value.to_lowercase();
            assert!(!lower.contains("nan") && !lower.contains("inf"), "{name}=\"{value}\"");
        }
    }
}

#[test]
fn the_page_is_well_formed_and_self_contained() {
    let page = report_html(&made_up::record());
    well_formed(&page);
    // Links to the page's own sections lead nowhere else.
    let read = without_scripts(&page).replace(" href=\"#", " to=\"#");
    assert!(
        ["<link", "<img", "url(", " src=", " href=", "http:", "https:"]
            .iter()
            .all(|door| !read.contains(door))
    );
    assert!(read.contains("default-src 'none'"), "the browser is told to fetch nothing");
    assert!(page.contains("uPlot 1.6.32") && page.contains("Copyright (c) 2022 Leon Sorokin"));
    assert!(
        page.contains("The above copyright notice and this permission notice shall be included")
    );
    assert!(!page.contains("<script src"));
    assert!(page.contains("consenso run experiment.toml --seed 7"));
    assert!(page.contains("records_per_agent = 3000"));
    assert!(page.contains("the step size is above the certified range"));
    assert_eq!(page.matches("role=\"img\"").count(), 5);
}

/// The chart a reader plays with shows what the still figure shows.
#[test]
fn every_figure_has_its_numbers() {
    let record = made_up::record();
    let charts = chart_data(&report_html(&record));
    let figures = figures(&record);
    assert_eq!(charts.len(), figures.len());
    for (chart, (_, figure)) in charts.iter().zip(&figures) {
        assert_eq!(chart["title"], figure.title);
        assert_eq!(chart["series"].as_array().expect("series").len(), figure.series.len());
        for (columns, series) in
            chart["series"].as_array().expect("series").iter().zip(&figure.series)
        {
            assert_eq!(columns["label"], series.label);
            let (shown, drawn) = (columns["mean"].as_array().expect("means"), &series.points);
            assert_eq!(shown.len(), drawn.len());
            for (shown, drawn) in shown.iter().zip(drawn) {
                let shown = shown.as_f64().expect("finite");
                assert!(
                    (shown - drawn.mean).abs() <= 1e-5 * drawn.mean.abs(),
                    "{shown} for {}",
                    drawn.mean
                );
            }
        }
    }
}

#[test]
fn every_private_algorithm_has_its_claim_and_its_stamp() {
    let mut record = made_up::record();
    let page = report_html(&record);
    let stamp = "seeded simulation: these figures hold only for a run on OS entropy";
    assert_eq!(page.matches("<article class=\"claim\">").count(), 3);
    assert_eq!(page.matches(stamp).count(), 3);
    assert_eq!(page.matches("no privacy claim").count(), 1);
    assert!(page.contains("ε = 0.999, δ = 10⁻⁶"));
    assert!(page.contains("not valid</span>") && page.contains("no pure ε in this norm"));
    assert!(page.contains("every other agent colludes"));
    assert!(page.contains("Lines end with the last round that used records"));
    let e = record.algorithms[0].epsilon.as_mut().expect("private");
    (e.seeded, e.statement) = (false, "One sentence.".into());
    assert_eq!(report_html(&record).matches(stamp).count(), 2);
    for algorithm in &mut record.algorithms {
        algorithm.epsilon = None;
    }
    let page = report_html(&record);
    assert!(page.contains("No privacy claim") && !page.contains("<article"));
}

#[test]
fn a_claim_is_printed_rounded_up() {
    let mut record = made_up::record();
    let e = record.algorithms[0].epsilon.as_mut().expect("private");
    e.claim = 0.731_000_1;
    e.bounds = serde_json::json!({ "pld": 0.731_000_1, "rdp": 4.440_01 });
    let page = report_html(&record);
    assert!(
        page.contains("ε = 0.732, δ")
            && page.contains("<td>0.732</td>")
            && page.contains("<td>4.45</td>")
    );
    assert!(!page.contains("0.731"));
}

#[test]
fn hostile_text_stays_text() {
    let evil = "<script>alert(\"x\")</script>&'\u{0}";
    let mut record = made_up::record();
    record.name = evil.into();
    record.version = evil.into();
    record.warnings = vec![evil.into()];
    record.resolved = evil.into();
    let problem = &mut record.problem;
    for text in [&mut problem.source, &mut problem.encoding, &mut problem.loss, &mut problem.graph]
    {
        *text = evil.into();
    }
    for algorithm in &mut record.algorithms {
        for text in [&mut algorithm.kind, &mut algorithm.label, &mut algorithm.noise] {
            *text = evil.into();
        }
        algorithm.parameters = serde_json::json!({ evil: evil });
        if let Some(e) = &mut algorithm.epsilon {
            (e.method, e.statement) = (evil.into(), evil.into());
            e.bounds = serde_json::json!({ evil: evil });
        }
    }
    let page = report_html(&record);
    well_formed(&page);
    assert!(
        !without_scripts(&page).contains("<script")
            && !page.contains("<script>alert")
            && !page.contains('\u{0}')
    );
    assert_eq!(chart_data(&page).len(), 5);
    for (_, figure) in figures(&record) {
        well_formed(&figure.to_svg());
        assert!(!figure.to_svg().contains("<script"));
    }
}

/// What a diverged, an interrupted or an empty run leaves behind.
#[test]
fn no_number_breaks_the_page() {
    let mut empty = made_up::record();
    empty.algorithms.clear();
    empty.runs = 0;
    empty.interrupted = true;
    well_formed(&report_html(&empty));
    assert!(
        report_html(&empty).contains("0 of 10 runs were finished") && figures(&empty).is_empty()
    );

    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -f64::MAX, 0.0, 5e-324] {
        let record = spoiled(bad);
        let page = report_html(&record);
        well_formed(&page);
        assert!(!without_scripts(&page).contains("NaN"), "{bad}");
        all_numbers_finite(&without_scripts(&page));
        chart_data(&page);
        for (name, figure) in figures(&record) {
            let svg = figure.to_svg();
            well_formed(&svg);
            all_numbers_finite(&svg);
            assert!(
                attributes(&svg, "<path class=\"fig-s", "d").len() >= 4,
                "{name}: other lines are still there"
            );
        }
    }
}

fn spoiled(bad: f64) -> Record {
    let all = Spread { min: bad, mean: bad, max: bad };
    let mut record = made_up::record();
    let algorithm = &mut record.algorithms[1];
    algorithm.diverged = true;
    (algorithm.objective, algorithm.optimum_gap, algorithm.log_error) = (bad, bad, bad);
    algorithm.per_agent_accuracy = Some(all);
    for at in algorithm.curve.iter_mut().skip(100) {
        (at.objective, at.log_error, at.disagreement) = (all, all, all);
        (at.test_accuracy, at.epsilon_worst, at.epsilon_realised) =
            (Some(all), Some(bad), Some(all));
    }
    record
}

#[test]
fn a_figure_survives_every_kind_of_line() {
    let nan = f64::NAN;
    let cases: [&[f64]; 9] = [
        &[],
        &[3.0],
        &[2.0, 2.0, 2.0],
        &[0.0, 0.0],
        &[nan, nan],
        &[1.0, nan, 2.0, 3.0, f64::INFINITY, 0.5],
        &[-1.0, -2.0],
        &[1e-320, 1e300],
        &[-1e308, 1e308],
    ];
    for values in cases {
        for scale in [Scale::Linear, Scale::Whole, Scale::Log] {
            let svg = chart(scale, vec![line(values)]).to_svg();
            well_formed(&svg);
            all_numbers_finite(&svg);
            assert!(
                svg.contains("viewBox") && svg.contains("role=\"img\"") && svg.contains("<desc>")
            );
        }
    }
    assert!(chart(Scale::Linear, Vec::new()).to_svg().contains("no finite values"));
    assert!(chart(Scale::Log, vec![line(&[-1.0, 0.0])]).to_svg().contains("no finite values"));
}

#[test]
fn gaps_break_a_line_and_lone_points_are_dots() {
    let nan = f64::NAN;
    let rest: Vec<f64> = (0..30).map(f64::from).collect();
    let svg = chart(Scale::Linear, vec![line(&[&[1.0, 2.0, nan, 3.0, nan], &rest[..]].concat())])
        .to_svg();
    // Two pieces and the legend's swatch.
    assert_eq!(attributes(&svg, "<path class=\"fig-s0", "d").len(), 3);
    assert_eq!(attributes(&svg, "<circle", "cx").len(), 1);
}

#[test]
fn lines_of_few_points_show_them_each_in_its_own_shape() {
    let lines = (0..4).map(|k| Series::new("line", k, line(&[1.0, 2.0, 3.0]).points)).collect();
    let svg = chart(Scale::Linear, lines).to_svg();
    // Three points and the legend's.
    assert_eq!(attributes(&svg, "<circle", "cx").len(), 4);
    for (colour, corners) in [(1, 4), (2, 3), (3, 4)] {
        let marks = attributes(&svg, &format!("<path class=\"fig-f{colour}"), "d");
        assert_eq!(marks.len(), 4);
        assert!(marks.iter().all(|d| d.matches(['M', 'L']).count() == corners));
    }
}

#[test]
fn long_lines_are_thinned_and_keep_their_extremes() {
    let mut values: Vec<f64> = (0..50_000).map(|k| (f64::from(k) * 0.7).sin()).collect();
    values[31_007] = 40.0;
    let svg = chart(Scale::Linear, vec![line(&values)]).to_svg();
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
    let highest = coordinates(attributes(&svg, "<path class=\"fig-s0", "d")[0])
        .map(|(_, y)| y)
        .fold(1e9, f64::min);
    assert!(highest < 12.0, "the spike is drawn near the top: {highest}");
}

fn coordinates(d: &str) -> impl Iterator<Item = (f64, f64)> {
    d.trim_start_matches('M').split('L').map(|pair| {
        let (x, y) = pair.split_once(' ').expect("a pair");
        (x.parse().expect("x"), y.parse().expect("y"))
    })
}

/// Half an em a character is what a narrow font needs: less room than that would be clipped
/// everywhere.
#[test]
fn long_texts_stay_on_the_paper() {
    let long = "an unusually long name that somebody gave to this thing ".repeat(4);
    let unbroken = "W".repeat(200);
    for text in [long.as_str(), unbroken.as_str()] {
        let mut figure = chart(Scale::Linear, vec![line(&[1.0, 2.0]), line(&[2.0, 3.0])]);
        (figure.title, figure.x.label, figure.y.label) = (text.into(), text.into(), text.into());
        figure.series.iter_mut().for_each(|series| series.label = text.into());
        figure.lines = vec![
            Reference { label: text.into(), value: 1.5 },
            Reference { label: text.into(), value: 1.51 },
        ];
        let svg = figure.to_svg();
        well_formed(&svg);
        for element in svg.split("<text").skip(1) {
            let (tag, rest) = element.split_once('>').expect("a tag");
            let number = |name: &str| -> f64 {
                attributes(&format!("<{tag}>"), "<", name)[0].parse().expect("a number")
            };
            let content = rest.split('<').next().expect("text");
            if !tag.contains("text-anchor") {
                let end = number("x") + 0.5 * number("font-size") * content.chars().count() as f64;
                assert!(end <= 520.0, "{content:.30} ends at {end}");
            }
        }
    }
}

#[test]
fn equal_references_share_a_label() {
    let mut figure = chart(Scale::Linear, vec![line(&[70.0, 80.0])]);
    let reference = |label: &str, value| Reference { label: label.into(), value };
    figure.lines =
        vec![reference("majority", 75.4), reference("zero", 75.4), reference("far", f64::NAN)];
    let svg = figure.to_svg();
    assert!(svg.contains("majority = zero") && !svg.contains("far"));
}

#[test]
fn figures_of_a_run() {
    let record = made_up::record();
    let drawn = figures(&record);
    let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["objective-gap", "log-error", "test-accuracy", "disagreement", "privacy-loss"]
    );
    let mut open = record;
    for algorithm in &mut open.algorithms {
        algorithm.epsilon = None;
        for at in &mut algorithm.curve {
            (at.epsilon_worst, at.epsilon_realised, at.test_accuracy) = (None, None, None);
        }
    }
    let drawn = figures(&open);
    let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["objective-gap", "log-error", "disagreement"]);
}

#[test]
fn a_sweep_is_drawn_against_its_budget() {
    let mut record = made_up::record();
    let point = |agents: usize, epsilon: f64| {
        let Record { mut algorithms, baselines, .. } = made_up::record();
        for (k, a) in algorithms.iter_mut().enumerate() {
            let mean = 0.75 + 0.01 * k as f64 + 0.02 * epsilon.log10();
            (a.test_accuracy, a.per_agent_accuracy) =
                (Some(mean), Some(Spread { min: mean - 0.01, mean, max: mean + 0.01 }));
        }
        SweepPoint { agents, dim: 3, epsilon: Some(epsilon), runs: 2, algorithms, baselines }
    };
    record.sweep = [10, 100].iter().flat_map(|&n| [0.1, 1.0, 10.0].map(|e| point(n, e))).collect();
    let drawn = figures(&record);
    assert_eq!(drawn.len(), 7);
    let (name, frontier) = &drawn[1];
    assert_eq!(
        (name.as_str(), frontier.series.len(), frontier.lines.len()),
        ("frontier-100", 4, 3)
    );
    let line: Vec<(f64, f64)> = frontier.series[2].points.iter().map(|p| (p.x, p.mean)).collect();
    for ((x, y), (want_x, want_y)) in line.iter().zip([(0.1, 75.0), (1.0, 77.0), (10.0, 79.0)]) {
        assert!((x - want_x).abs() < 1e-12 && (y - want_y).abs() < 1e-9);
    }
    let page = report_html(&record);
    well_formed(&page);
    assert!(
        page.contains("Accuracy by budget")
            && page.contains("id=\"frontier-10\"")
            && page.contains("ε = 0.1")
    );
    record.algorithms[0].findings = vec!["learned nothing: R² = -0.2".into()];
    let page = report_html(&record);
    well_formed(&page);
    assert!(page.contains("learned nothing: R² = -0.2."), "the page says what the terminal says");
}

#[test]
fn a_small_figure() {
    let points = |shift: f64| {
        (0..4).map(move |k| {
            let mean = 10f64.powi(-k) + shift;
            Point { x: f64::from(k), low: 0.5 * mean, mean, high: 2.0 * mean }
        })
    };
    let mut figure = chart(
        Scale::Log,
        vec![
            Series::new("ADMM", 0, points(0.0).collect()),
            Series::new("A & B", 1, points(0.01).collect()),
        ],
    );
    figure.lines = vec![Reference { label: "zero model".into(), value: 0.7 }];
    // A line an element, so that a change shows where it is.
    insta::assert_snapshot!(figure.to_svg().replace("><", ">\n<"));
}

/// 1, 2 or 5 times a power of ten, up to the rounding of the difference.
fn nice(step: f64, magnitude: f64) -> bool {
    let mantissa = step / 10f64.powf((step * 1.001).log10().floor());
    let slack = 1e-6 + 4.0 * f64::EPSILON * magnitude / step;
    [1.0, 2.0, 5.0].iter().any(|m| (mantissa - m).abs() <= 10.0 * slack)
}

proptest! {
    #[test]
    fn linear_ticks_are_few_nice_and_inside(centre in -1e6..1e6f64, exponent in -6.0..12.0f64) {
        let half = 10f64.powf(exponent);
        let (low, high) = (centre - half, centre + half);
        let ticks = ticks::linear(low, high);
        prop_assert!((3..=12).contains(&ticks.len()), "{ticks:?}");
        prop_assert!(ticks.iter().all(|t| (low..=high).contains(t)));
        for pair in ticks.windows(2) {
            prop_assert!(nice(pair[1] - pair[0], low.abs().max(high.abs())), "{ticks:?}");
        }
    }

    #[test]
    fn whole_ticks_are_whole(low in 0u32..1000, width in 1u32..100_000) {
        let ticks = ticks::whole(f64::from(low), f64::from(low + width));
        prop_assert!((2..=12).contains(&ticks.len()), "{ticks:?}");
        prop_assert!(ticks.iter().all(|t| t.fract() == 0.0));
    }

    #[test]
    fn log_ticks_are_few_and_inside(exponent in -200.0..200.0f64, decades in 0.01..80.0f64) {
        let (low, high) = (10f64.powf(exponent), 10f64.powf(exponent + decades));
        let ticks::Ticks { major, minor } = ticks::log(low, high);
        prop_assert!((3..=12).contains(&major.len()), "{major:?}");
        prop_assert!(major.iter().chain(&minor).all(|t| (low..=high).contains(t)));
        prop_assert!(major.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_point_is_drawn_inside_the_frame(values in prop::collection::vec(-1e9..1e9f64, 2..40), log: bool) {
        let values: Vec<f64> = values.iter().map(|v| if log { v.abs() + 1e3 } else { *v }).collect();
        let svg = chart(if log { Scale::Log } else { Scale::Linear }, vec![line(&values)]).to_svg();
        let inner = svg.find("overflow=\"hidden\"").map(|at| svg[..at].rfind('<').expect("a tag")).expect("a frame");
        let width: f64 = attributes(&svg[inner..], "<svg", "width")[0].parse().expect("width");
        let height: f64 = attributes(&svg[inner..], "<svg", "height")[0].parse().expect("height");
        let drawn: Vec<_> = coordinates(attributes(&svg, "<path class=\"fig-s0", "d")[0]).collect();
        prop_assert_eq!(drawn.len(), values.len());
        prop_assert!(drawn.iter().all(|(x, y)| (0.0..=width).contains(x) && (0.0..=height).contains(y)));
        // Higher values are drawn higher.
        for k in 1..values.len() {
            prop_assert!((values[k] - values[k - 1]) * (drawn[k].1 - drawn[k - 1].1) <= 1e-12);
        }
    }
}

#[test]
fn ticks_refuse_what_is_no_range() {
    for (low, high) in
        [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, 1.0 + 1e-15)]
    {
        assert!(ticks::linear(low, high).is_empty());
    }
    for (low, high) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
        assert!(ticks::log(low, high).major.is_empty());
    }
}
