//! What `cargo xtask fuzz` kept: its targets compile, and what they promise holds in every build.

use std::path::Path;

#[expect(unreachable_pub, reason = "they are the fuzzer's own")]
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

#[test]
fn inputs_that_fuzzing_kept_hold_whatever_reads_them() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in targets::all() {
        let files = std::fs::read_dir(corpora.join(target.name)).expect("a corpus");
        let kept = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        let all: Vec<Vec<u8>> = kept.chain((target.seeds)()).collect();
        assert!(all.len() > 10 && target.words.iter().all(|word| !word.is_empty()));
        all.iter().for_each(|bytes| (target.run)(bytes));
    }
}
