# Sections of a check, sourced by .ci/run and scripts/nightly: each has a log, a duration and a result. A section is a command. Status 0
# means passed, and 77 skipped, after a line with the missing program. No section reads standard input.
#
# A real-time section can fail because of a busy machine. `realtime` repeats a failure once, alone. If the second attempt passes, the
# section is flaky, and both outputs are kept in $FLAKY_LOGS. A flaky section fails the check only if STRICT is set.

STARTED=$SECONDS
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/conclave-sections.XXXXXX")
# Outputs of the last check's real-time sections that failed at first.
FLAKY_LOGS=${CARGO_TARGET_DIR:-$PWD/target}/flaky/$(basename "$0")
rm -rf "$FLAKY_LOGS"
# Whether flaky sections fail the check.
STRICT=''
NAMES=() FAILED=() FLAKY=()
declare -A TOOK RESULT PID
# Ends all started processes if the check ends early.
trap 'for pid in "${PID[@]}"; do kill -- "-$pid" 2>/dev/null || true; done; rm -rf "$LOGS"' EXIT
trap 'exit 130' INT TERM
# Job control: each background section is a process group, so that it can be killed as a whole.
set -m

header() { printf '\n=== [%4d s] %s\n' $((SECONDS - STARTED)) "$*"; }

log_of() { printf '%s/%s' "$LOGS" "${1//[^a-zA-Z0-9]/-}"; }

# record NAME STATUS SECONDS: records a section's result.
record() {
    local name=$1 status=$2
    TOOK[$name]=$3
    case $status in
        0) RESULT[$name]=passed ;;
        77) RESULT[$name]=skipped ;;
        *) RESULT[$name]="FAILED ($status)" FAILED+=("$name") ;;
    esac
}

# run NAME COMMAND...: runs a section with visible output.
run() {
    local name=$1 status=0 begun=$SECONDS
    shift
    header "$name"
    NAMES+=("$name")
    "$@" </dev/null 2>&1 | tee "$(log_of "$name")" || status=${PIPESTATUS[0]}
    record "$name" "$status" $((SECONDS - begun))
}

# realtime NAME COMMAND...: runs a section whose result depends on time, twice if it fails. Nothing may run beside it.
realtime() {
    local name=$1 status=0 begun=$SECONDS file
    run "$@"
    [[ ${RESULT[$name]} == FAILED* ]] || return 0
    file=$FLAKY_LOGS/$(basename "$(log_of "$name")")
    mkdir -p "$FLAKY_LOGS"
    mv "$(log_of "$name")" "$file.first.log"
    header "$name has failed, and is run once more"
    "${@:2}" </dev/null 2>&1 | tee "$(log_of "$name")" || status=${PIPESTATUS[0]}
    cp "$(log_of "$name")" "$file.second.log"
    TOOK[$name]=$((SECONDS - begun))
    ((status == 0)) || return 0
    unset 'FAILED[-1]'
    RESULT[$name]=flaky
    FLAKY+=("$name")
}

# timed COMMAND...: runs `cargo test` and records each test's duration. `end` prints the slowest.
timed() { "$@" 2>&1 | .ci/test-times "$LOGS/test-times"; }

# skip NAME REASON: records a section that cannot run here.
skip() {
    header "$1: skipped, $2"
    NAMES+=("$1")
    record "$1" 77 0
}

# start NAME [--after OTHER] COMMAND...: starts a section in the background, optionally after another background section.
# `finish NAME` prints its output.
start() {
    local name=$1 log other=''
    shift
    [[ $1 != --after ]] || { other=$(log_of "$2").status; shift 2; }
    log=$(log_of "$name")
    header "$name, beside others"
    NAMES+=("$name")
    {
        until [[ ! $other || -e $other ]]; do sleep 0.2; done
        status=0 begun=$SECONDS
        "$@" </dev/null >"$log" 2>&1 || status=$?
        echo "$status $((SECONDS - begun))" >"$log.status"
    } &
    PID[$name]=$!
}

# finish NAME...: waits for background sections and prints their output.
finish() {
    local name log status took
    for name in "$@"; do
        log=$(log_of "$name")
        wait "${PID[$name]}" || true
        unset "PID[$name]"
        # The status is absent if the section was killed.
        [[ -e $log.status ]] || echo '137 0' >"$log.status"
        read -r status took <"$log.status"
        header "$name, after $took s"
        cat "$log"
        record "$name" "$status" "$took"
    done
}

# end: prints the end of each failed section's output, the slowest tests, then all sections, and ends the check. The failures come last,
# so that the tail of a long log shows them.
end() {
    local name
    for name in "${FAILED[@]}"; do
        header "$name has failed; its output ended with"
        tail -n 40 "$(log_of "$name")"
    done
    for name in "${FLAKY[@]}"; do
        header "$name has failed at first; its output ended with"
        tail -n 40 "$FLAKY_LOGS/$(basename "$(log_of "$name")").first.log"
    done
    if [[ -s $LOGS/test-times ]]; then
        header 'the slowest tests'
        .ci/test-times --slowest 10 "$LOGS/test-times"
    fi
    header "${#NAMES[@]} sections, ${#FAILED[@]} failed, ${#FLAKY[@]} flaky"
    for name in "${NAMES[@]}"; do printf '%6s s  %-12s  %s\n' "${TOOK[$name]:-0}" "${RESULT[$name]:-not ended}" "$name"; done
    [[ ! -d $FLAKY_LOGS ]] || printf 'both outputs of what was run twice: %s\n' "$FLAKY_LOGS"
    ((${#FAILED[@]} == 0)) || exit 1
    [[ ! $STRICT ]] || ((${#FLAKY[@]} == 0)) || exit 1
    exit 0
}

# stop_if_failed: ends the check after a failure that would invalidate the following sections.
stop_if_failed() { ((${#FAILED[@]} == 0)) || end; }

# install PACKAGE...: installs system packages.
install() {
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo)
    echo "installing: $*"
    "${as_root[@]+"${as_root[@]}"}" apt-get update &&
        "${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get install -y "$@"
}

# has_postgres: whether a PostgreSQL is installed. Debian's server programs are not in PATH.
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; }

# has_program NAME: whether a program is installed; `postgres` stands for PostgreSQL's server programs.
has_program() { if [[ $1 == postgres ]]; then has_postgres; else command -v "$1" >/dev/null; fi; }

# install_missing PROGRAM=PACKAGE...: installs the packages of missing programs, or prints a line; checks that need them are skipped.
install_missing() {
    local missing=() pair
    for pair in "$@"; do has_program "${pair%%=*}" || missing+=("${pair#*=}"); done
    if ((${#missing[@]} == 0)); then
        echo 'everything is installed'
    else
        # apt installs nothing if one package is unknown, so each is also tried alone.
        install "${missing[@]}" || for pair in "${missing[@]}"; do install "$pair" || echo "not installed: $pair"; done
    fi
}
