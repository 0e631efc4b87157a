//! What `--help` says is part of the interface.

use crate::Place;

#[test]
fn help_texts() {
    let place = Place::new("help");
    let commands: [&[&str]; 22] = [
        &[],
        &["run"],
        &["plan"],
        &["reproduce"],
        &["data"],
        &["data", "info"],
        &["data", "check"],
        &["data", "schema"],
        &["privacy"],
        &["privacy", "gamma"],
        &["privacy", "loss"],
        &["privacy", "compose"],
        &["privacy", "calibrate"],
        &["network"],
        &["network", "new"],
        &["network", "up"],
        &["network", "change"],
        &["network", "change", "propose"],
        &["network", "change", "apply"],
        &["node"],
        &["node", "init"],
        &["node", "run"],
    ];
    for words in commands {
        let answer = place.consenso(&[words, &["--help"]].concat());
        assert_eq!(answer.code, 0);
        assert!(!answer.stdout.contains('\u{1b}'), "colour where there is no terminal");
        insta::assert_snapshot!(
            ["consenso"].iter().chain(words).copied().collect::<Vec<_>>().join("-"),
            answer.stdout
        );
    }
    let run = place.consenso(&["run", "--help"]).stdout;
    assert_eq!(place.consenso(&["help", "run"]).stdout, run);
}

#[test]
fn version() {
    let answer = Place::new("version").consenso(&["--version"]);
    assert_eq!(answer.stdout, format!("consenso {}\n", env!("CARGO_PKG_VERSION")));
}
