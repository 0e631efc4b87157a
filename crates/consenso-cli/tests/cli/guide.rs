//! The commands of the guide, run in their order with the files of the guide.

use crate::Place;
use std::path::Path;
use std::process::Command;

fn chapter(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The blocks of a chapter that are marked as this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let begins = format!("```{language}\n");
    text.split(&begins)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// Runs a line as a reader would type it.
fn typed(place: &Place, line: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_consenso")).parent().unwrap();
    let paths = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(place.path("."));
    let output =
        shell.env("PATH", format!("{}:{paths}", program.display())).output().expect("a shell");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// What takes minutes, or installs something, is left out.
fn slow(line: &str) -> bool {
    line.starts_with("cargo ")
        || line == "consenso run"
        || line.starts_with("consenso run --set")
        || line == "consenso run --entropy os"
}

#[cfg(unix)]
#[test]
fn every_command_of_the_first_chapters_works() {
    let place = Place::new("guide");
    std::fs::create_dir_all(place.path("sites")).unwrap();
    let records = |shift: u32| {
        let one = |i: u32| {
            let (age, smoker) =
                (20 + (i * 37 + shift) % 70, ["no", "yes", "former"][((i + shift) % 3) as usize]);
            let ill = age + if smoker == "yes" { 20 } else { 0 } + (i * 7) % 23 > 75;
            format!("{age},{smoker},{}\n", if ill { "yes" } else { "no" })
        };
        "age,smoker,ill\n".to_owned() + &(0..120).map(one).collect::<String>()
    };
    for (shift, site) in ["a", "b", "c"].into_iter().enumerate() {
        place.write(&format!("sites/{site}.csv"), &records(11 * shift as u32));
    }
    place.write("new.csv", "age,smoker\n80,yes\n20,no\n");
    let own = chapter("your-own-records.md");
    let files = blocks(&own, "toml");
    let of = |begins: &str| {
        files.iter().find(|b| b.starts_with(begins)).unwrap_or_else(|| panic!("{begins}")).clone()
    };
    let mut done = 0;
    let chapters = [
        own.clone(),
        chapter("choosing-a-budget.md"),
        chapter("choosing-trust.md"),
        chapter("start.md"),
    ];
    for line in chapters
        .iter()
        .flat_map(|text| blocks(text, "sh"))
        .flat_map(|b| b.lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let command = line.split(" #").next().unwrap_or_default().trim();
        if command.is_empty() || command.starts_with('#') || slow(command) {
            continue;
        }
        typed(&place, command);
        done += 1;
        if command.contains("data schema") {
            // The review, and the experiment that the chapter goes on with.
            place
                .write("schema.toml", &of("reviewed = true"))
                .write("mine.toml", &of("name = \"ill\""));
        }
    }
    assert!(done >= 12, "{done} commands were found");
    assert_eq!(place.read("scored.csv").lines().nth(1), Some("1,yes"));
}
