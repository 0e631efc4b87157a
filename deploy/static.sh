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
export "CARGO_TARGET_${upper}_RUSTFLAGS=-C linker=rust-lld -C link-self-contained=yes -L native=$tools -C link-arg=--pack-dyn-relocs=relr"
cargo build --profile dist -p consenso-cli --target "$target"
