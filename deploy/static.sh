#!/bin/sh
# deploy/static.sh TARGET: the program as one file without a library, in target/TARGET/dist/consenso.
# TARGET is x86_64-unknown-linux-musl or aarch64-unknown-linux-musl, on a machine of either kind.
#
# Rust brings the C library and a linker (`rustup target add TARGET`). The C of two dependencies
# (SQLite, ring) is compiled by zig: pip install ziglang cargo-zigbuild. Addresses in tables are
# packed (RELR: 0.4 MB less); on x86_64 the program may still lie at any address in memory.
set -eu
target=$1
arch=${target%%-*}
cd "$(dirname "$0")/.."
tools=$PWD/target/zig-$arch
mkdir -p "$tools"
# cargo-zigbuild drops the arguments that zig does not know.
printf '#!/bin/sh\nexec cargo-zigbuild zig cc -- -target %s-linux-musl "$@"\n' "$arch" > "$tools/cc"
printf '#!/bin/sh\nexec cargo-zigbuild zig ar -- "$@"\n' > "$tools/ar"
chmod +x "$tools/cc" "$tools/ar"
# What other systems have in libdl is in musl's libc; an empty archive for those who ask for it.
printf '!<arch>\n' > "$tools/libdl.a"
name=$(echo "$target" | tr - _)
upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
export "CC_$name=$tools/cc" "AR_$name=$tools/ar"
# Nothing unwinds through C, so its tables for that can go (70 kB of SQLite's).
export "CFLAGS_$name=-fno-unwind-tables -fno-asynchronous-unwind-tables"
export "CARGO_TARGET_${upper}_RUSTFLAGS=-C linker=rust-lld -C link-self-contained=yes -L native=$tools -C link-arg=--pack-dyn-relocs=relr"
# SQLite without what a ledger does not use: full-text and range indices, JSON, extensions that are
# loaded when it runs (a static program cannot), statistics for large tables.
export LIBSQLITE3_FLAGS="-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE -USQLITE_ENABLE_DBSTAT_VTAB -USQLITE_ENABLE_STAT4 -USQLITE_SOUNDEX -USQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_JSON -DSQLITE_OMIT_DEPRECATED -DSQLITE_OMIT_PROGRESS_CALLBACK"
# Functions with the same code are one in the end (what a pointer to a function equals is nobody's
# business here: Rust promises nothing of it, and SQLite asks nothing of it).
cargo rustc --profile dist -p consenso-cli --bin consenso --target "$target" -- \
    -C link-arg=--icf=all
