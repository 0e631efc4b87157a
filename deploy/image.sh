#!/bin/sh
# deploy/image.sh PROGRAM VERSION FILE.oci.tar: an OCI image with a static program and nothing else.
#
# One layer: the program, a user without rights, and an empty folder /work that is theirs. No shell,
# no package manager. Loads with `podman load -i FILE` or `skopeo copy oci-archive:FILE …`.
# The layer is then unpacked and its program run once: as that user, on a root that nobody can write.
set -eu
program=$1 version=$2 file=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
layer=$place/layer oci=$place/oci
# The program says which machine it is for (e_machine of its ELF header).
case $(od -An -tx1 -j18 -N1 "$program" | tr -d ' ') in
    3e) arch=amd64 machine=x86_64 ;;
    b7) arch=arm64 machine=aarch64 ;;
    *) echo "image: $program is no program for x86_64 or aarch64" >&2; exit 1 ;;
esac
mkdir -p "$layer/usr/bin" "$layer/etc" "$layer/work" "$layer/tmp" "$oci/blobs/sha256"
cp "$program" "$layer/usr/bin/consenso"
chmod 755 "$layer/usr/bin/consenso"
chmod 1777 "$layer/tmp"
echo 'consenso:x:65532:65532::/work:/nologin' > "$layer/etc/passwd"
echo 'consenso:x:65532:' > "$layer/etc/group"

# The same bytes from the same program, whenever and by whomever it is made.
pack() { tar --sort=name --mtime=@0 --owner="$3" --group="$3" --numeric-owner -C "$1" -cf "$2" .; }
digest() { sha256sum "$1" | cut -d' ' -f1; }
size() { wc -c < "$1" | tr -d ' '; }
blob() { sum=$(digest "$1"); mv "$1" "$oci/blobs/sha256/$sum"; echo "$sum"; }

pack "$layer" "$place/layer.tar" 65532
layer_size=$(size "$place/layer.tar")
layer_sum=$(blob "$place/layer.tar")
printf '{"architecture":"%s","os":"linux","config":{"User":"65532:65532","WorkingDir":"/work","Entrypoint":["/usr/bin/consenso"],"Cmd":["--help"],"Volumes":{"/work":{}},"Labels":{"org.opencontainers.image.title":"consenso","org.opencontainers.image.version":"%s","org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created_by":"deploy/image.sh"}]}' \
    "$arch" "$version" "$layer_sum" > "$place/config.json"
config_size=$(size "$place/config.json")
config_sum=$(blob "$place/config.json")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' \
    "$config_sum" "$config_size" "$layer_sum" "$layer_size" > "$place/manifest.json"
manifest_size=$(size "$place/manifest.json")
manifest_sum=$(blob "$place/manifest.json")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"org.opencontainers.image.ref.name":"consenso:%s"}}]}' \
    "$manifest_sum" "$manifest_size" "$version" > "$oci/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' > "$oci/oci-layout"
pack "$oci" "$file" 0
echo "image: $(size "$file") bytes, manifest sha256:$manifest_sum"

# Once through, from the blobs: a first model as nobody, on a root that cannot be written.
root=$place/root
mkdir "$root"
tar -xf "$oci/blobs/sha256/$layer_sum" -C "$root"
if [ "$(uname -m)" != "$machine" ]; then
    echo "image: not run: it is for $machine"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v unshare > /dev/null; then
    echo "image: not run: that needs root and unshare, or a container engine"
    exit 0
fi
unshare --mount --net sh -eu -c '
    mount --bind "$0" "$0" && mount -t tmpfs -o mode=0700,uid=65532,gid=65532 work "$0/work"
    mount -o remount,ro,bind "$0"
    # As an engine starts it: its root, its folder, its user. (chroot would begin in the root.)
    inside() { unshare --root="$root" --wd=/work --setgid 65532 --setuid 65532 /usr/bin/consenso "$@"; }
    root=$0
    inside doctor > /dev/null
    began=$(date +%s%N)
    inside run --set runs=1 > /dev/null
    test -s "$root/work/runs/adult-7/report.html"
    echo "image: $((($(date +%s%N) - began) / 1000000)) ms to a first model, with nothing else there"
    if inside run --set runs=1 --out /etc/run 2> /dev/null; then
        echo "image: the root can be written" >&2; exit 1
    fi' "$root"
echo "image: its program trained a first model as user 65532 on a read-only root"
