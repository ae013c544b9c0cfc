# Sections of a check, for .ci/run and scripts/nightly to source: each has a log, a duration and a result. A section is a command; it has
# passed with the status 0, and is skipped with 77, having said what is missing. No section reads the standard input.
#
# A section that runs in real time may fail because of the machine that it runs on. `realtime` repeats such a failure once, alone. If the
# second attempt passes, the section is flaky, and the outputs of both are kept in $FLAKY_LOGS. That fails a check only if STRICT is set.

STARTED=$SECONDS
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/conclave-sections.XXXXXX")
# Outputs of the real-time sections that have failed at first, of the last check.
FLAKY_LOGS=${CARGO_TARGET_DIR:-$PWD/target}/flaky/$(basename "$0")
rm -rf "$FLAKY_LOGS"
# Whether a flaky section fails the check.
STRICT=''
NAMES=() FAILED=() FLAKY=()
declare -A TOOK RESULT PID
# Nothing that was started runs on when the check ends early.
trap 'for pid in "${PID[@]}"; do kill -- "-$pid" 2>/dev/null || true; done; rm -rf "$LOGS"' EXIT
trap 'exit 130' INT TERM
# Each section in the background is a process group.
set -m

header() { printf '\n=== [%4d s] %s\n' $((SECONDS - STARTED)) "$*"; }

log_of() { printf '%s/%s' "$LOGS" "${1//[^a-zA-Z0-9]/-}"; }

# record NAME STATUS SECONDS: notes how a section has ended.
record() {
    local name=$1 status=$2
    TOOK[$name]=$3
    case $status in
        0) RESULT[$name]=passed ;;
        77) RESULT[$name]=skipped ;;
        *) RESULT[$name]="FAILED ($status)" FAILED+=("$name") ;;
    esac
}

# run NAME COMMAND...: runs a section, and prints its output meanwhile.
run() {
    local name=$1 status=0 begun=$SECONDS
    shift
    header "$name"
    NAMES+=("$name")
    "$@" </dev/null 2>&1 | tee "$(log_of "$name")" || status=${PIPESTATUS[0]}
    record "$name" "$status" $((SECONDS - begun))
}

# realtime NAME COMMAND...: runs a section with a result that depends on time, and if it fails once more. Nothing may run beside it.
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

# timed COMMAND...: runs `cargo test`, and notes how long each test takes. `end` prints the slowest.
timed() { "$@" 2>&1 | .ci/test-times "$LOGS/test-times"; }

# skip NAME REASON: notes a section that cannot be run here.
skip() {
    header "$1: skipped, $2"
    NAMES+=("$1")
    record "$1" 77 0
}

# start NAME [--after OTHER] COMMAND...: begins a section beside others, or once another one in the background has ended.
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

# finish NAME...: waits for sections in the background, and prints their output.
finish() {
    local name log status took
    for name in "$@"; do
        log=$(log_of "$name")
        wait "${PID[$name]}" || true
        unset "PID[$name]"
        # Absent if it was killed.
        [[ -e $log.status ]] || echo '137 0' >"$log.status"
        read -r status took <"$log.status"
        header "$name, after $took s"
        cat "$log"
        record "$name" "$status" "$took"
    done
}

# end: prints how the output of each failed section ended, the slowest tests, then all sections, and ends the check. Who has only the end
# of a long output sees what failed.
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

# stop_if_failed: ends a check in which a failure makes what follows worthless.
stop_if_failed() { ((${#FAILED[@]} == 0)) || end; }

# install PACKAGE...: installs packages of the system.
install() {
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo)
    echo "installing: $*"
    "${as_root[@]+"${as_root[@]}"}" apt-get update &&
        "${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get install -y "$@"
}

# has_postgres: whether a PostgreSQL is installed. Its server is in no folder of PATH.
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; }

# has_program NAME: whether a program is installed; `postgres` stands for those of its server.
has_program() { if [[ $1 == postgres ]]; then has_postgres; else command -v "$1" >/dev/null; fi; }

# install_missing PROGRAM=PACKAGE...: installs the packages of programs that are not there. Says so if it cannot; what needs them is skipped.
install_missing() {
    local missing=() pair
    for pair in "$@"; do has_program "${pair%%=*}" || missing+=("${pair#*=}"); done
    if ((${#missing[@]} == 0)); then
        echo 'everything is installed'
    else
        # One that this system has not must not keep the others away.
        install "${missing[@]}" || for pair in "${missing[@]}"; do install "$pair" || echo "not installed: $pair"; done
    fi
}
