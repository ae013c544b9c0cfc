#!/usr/bin/env bash
# Builds the Debian package, installs it, calls the server, upgrades it with its data, removes it and purges it.
#
#     scripts/check package            on a machine of its own, such as a container: it installs system-wide
#
# Needs root, dpkg, and cargo-deb (`cargo install --locked cargo-deb`). It changes the machine, so it runs only if CI is set,
# or with --here. Where systemd does not run, the server is started as its user, by the unit's command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
source tests/e2e/support/server.sh

[[ ${CI:-} || ${1:-} == --here ]] || { echo 'it installs a package on this machine: confirm with --here'; exit 2; }
[[ $(id -u) == 0 ]] || { echo 'it needs root'; exit 2; }
[[ ! -e /usr/bin/conclave && ! -e /etc/conclave ]] || { echo 'conclave is installed on this machine'; exit 2; }

output=$PWD/target/package/check
rm -rf "$output"
mkdir -p "$output"
step() { printf '    %s\n' "$*"; }
fail() { printf '    FAILED: %s\n' "$*"; exit 1; }
run_as_conclave() { runuser -u conclave -- conclave --config /etc/conclave/conclave.toml --data /var/lib/conclave "$@"; }
die() { cat "$WORK/server.log"; fail "$*"; }

WORK=$output
start() { start_server runuser -u conclave -- conclave serve --config /etc/conclave/conclave.toml --data /var/lib/conclave; }
# runuser forwards SIGTERM, and ends with the server.
stop() { stop_server || true; }
remove() {
    stop
    dpkg --purge conclave >/dev/null 2>&1 || true
}
trap remove EXIT

scripts/release --output "$output" >"$output/release.log" 2>&1 || { cat "$output/release.log"; fail 'release'; }
(cd "$output" && sha256sum --quiet --check SHA256SUMS) || fail 'a checksum'
# The upgrade: the same program with another version number.
for version in 1.0.0-1 1.0.0-2; do
    cargo deb --quiet --profile dist --no-build --deb-version "$version" --output "$output/$version.deb" >/dev/null
done
step "built $(du -h "$output/1.0.0-1.deb" | cut -f1)"

dpkg --install "$output/1.0.0-1.deb" >"$output/install.log" 2>&1 || { cat "$output/install.log"; fail 'install'; }
[[ $(stat -c '%U %a' /var/lib/conclave) == 'conclave 700' ]] || fail 'the data directory is not private'
[[ -f /lib/systemd/system/conclave.service || -f /usr/lib/systemd/system/conclave.service ]] || fail 'no unit'
if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify /lib/systemd/system/conclave.service || fail 'the unit is not valid'
fi
run_as_conclave check >"$output/check.log" || { cat "$output/check.log"; fail 'conclave check'; }
[[ -f /usr/share/man/man1/conclave-serve.1.gz ]] || fail 'no manual'
bash -c 'source /usr/share/bash-completion/completions/conclave && complete -p conclave' >/dev/null || fail 'no completion'
step 'installed: user, data directory, unit, manual, completion, conclave check'

project=$(run_as_conclave project create --name acme --json | json project_id)
key=$(run_as_conclave key create "$project" --json | json key)
call() { curl -fsS -o /dev/null -w '%{http_code}' -H "authorization: Bearer $key" -H 'content-type: application/json' "$@"; }
start
[[ $(call "$API/v1/rooms" -d '{"name": "standup"}') == 201 ]] || fail 'a room is created'
step 'called: a room is created'

stop
echo '# changed by the administrator' >>/etc/conclave/conclave.toml
dpkg --install "$output/1.0.0-2.deb" >"$output/upgrade.log" 2>&1 </dev/null || { cat "$output/upgrade.log"; fail 'upgrade'; }
grep -q 'changed by the administrator' /etc/conclave/conclave.toml || fail 'the upgrade replaced the settings'
start
[[ $(call "$API/v1/rooms/standup") == 200 ]] || fail 'the room is there after the upgrade'
step 'upgraded: settings and records are kept'

stop
dpkg --remove conclave >/dev/null 2>&1
[[ ! -e /usr/bin/conclave && -f /var/lib/conclave/conclave.db ]] || fail 'a removal keeps the data, and nothing else'
dpkg --purge conclave >/dev/null 2>&1
[[ ! -e /var/lib/conclave && ! -e /etc/conclave ]] || fail 'a purge deletes the data'
! getent passwd conclave >/dev/null || fail 'a purge deletes the user'
step 'removed, with the data kept; purged, with nothing left'
