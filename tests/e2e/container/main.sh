#!/usr/bin/env bash
# Builds the static program and, with buildah, the Containerfile's image. Starts both, in an empty root directory and in
# the image, as a user without privileges, and calls them.
#
#     scripts/check container [--output FILE]    FILE: the image as an OCI archive
#
# Needs the musl target of Rust (`rustup target add x86_64-unknown-linux-musl`), musl-gcc (Debian: musl-tools) and, to change the root
# directory, root. Exits with 77 if they are missing; without buildah, the image is skipped with a line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
source tests/e2e/support/server.sh

output=''
[[ ${1:-} != --output ]] || output=$(realpath "$2")
target=$(uname -m)-unknown-linux-musl
skip() { echo "skipped: $*"; exit 77; }
step() { printf '    %s\n' "$*"; }
fail() { printf '    FAILED: %s\n' "$*"; exit 1; }
die() { cat "$WORK/server.log"; fail "$*"; }

[[ -d $(rustc --print target-libdir --target "$target" 2>/dev/null) ]] || skip "Rust's target $target is not installed"
[[ $(id -u) == 0 ]] || skip 'it needs root to change the root directory'

cargo build --locked --profile dist --target "$target" --bin conclave
directory=$(cargo metadata --format-version 1 --no-deps | json target_directory)
program=$directory/$target/dist/conclave
! readelf --program-headers "$program" | grep --quiet INTERP || fail 'the program is not static'
step "built the static program: $(du --human-readable --apparent-size "$program" | cut -f1)"

# Path in the Containerfile.
files=$PWD/target/container
rm -rf "$files"
mkdir -p "$files"/{conclave-data,conclave-backup,tmp}
install -D -m 755 "$program" "$files/usr/bin/conclave"
install -D -m 644 config/conclave.toml "$files/config/conclave.toml"

WORK=$(mktemp -d)
trap 'stop_server || true; rm -rf "$WORK"' EXIT

# calls NAME COMMAND...: starts a server with a command, creates a room with its own key, and stops the server.
calls() {
    local name=$1
    shift
    start_server "$@" dev --listen 127.0.0.1:0 --admin 127.0.0.1:0
    curl -fsS -o /dev/null -H "authorization: Bearer $KEY" -H 'content-type: application/json' "$API/v1/rooms" \
        -d '{"name": "standup"}' || die "$name answers no request"
    stop_server || true
    step "$name: a room is created"
}

cp -r "$files" "$WORK/root"
chown -R 65532:65532 "$WORK/root/conclave-data" "$WORK/root/tmp"
calls 'in an empty root directory' chroot --userspec 65532:65532 "$WORK/root" /usr/bin/conclave

command -v buildah >/dev/null || { step 'image: skipped, buildah is not installed'; exit 0; }
store=(--storage-driver vfs --root "$WORK/storage" --runroot "$WORK/run")
buildah "${store[@]}" build --isolation chroot --build-arg PROGRAM=prebuilt --tag conclave . >"$WORK/build.log" 2>&1 ||
    { cat "$WORK/build.log"; fail 'the image is not built'; }
container=$(buildah "${store[@]}" from localhost/conclave)
if ! buildah "${store[@]}" run --isolation chroot "$container" -- conclave --version >"$WORK/version" 2>"$WORK/log"; then
    step "image: built, but this machine does not run it: $(tail -1 "$WORK/log")"
else
    calls 'in the image' buildah "${store[@]}" run --isolation chroot "$container" -- conclave
fi
if [[ $output ]]; then
    rm -f "$output"
    buildah "${store[@]}" push --quiet localhost/conclave "oci-archive:$output:conclave:$(cut -d ' ' -f 2 "$WORK/version")"
    step "wrote $(basename "$output")"
fi
