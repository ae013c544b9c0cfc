# Server functions for checks in shell, to be sourced. The check sets WORK, a folder, and defines die MESSAGE, which ends it.

SERVER_PID='' API='' ADMIN='' KEY='' PROJECT=''

# json PATH < document: prints the value at a dotted path. Numbers index lists, # is the length, missing values are empty.
json() {
    python3 -c '
import json, sys
try:
    value = json.load(sys.stdin)
except ValueError:
    sys.exit("not JSON")
for part in sys.argv[1].split("."):
    if part == "#":
        value = len(value)
    elif isinstance(value, list):
        value = value[int(part)] if int(part) < len(value) else None
    else:
        value = value.get(part) if value is not None else None
print("" if value is None else value if isinstance(value, str) else json.dumps(value))
' "$1"
}

# within SECONDS COMMAND...: repeats the command until it succeeds; fails after the time.
within() {
    local until=$((SECONDS + $1))
    shift
    while ! "$@"; do
        ((SECONDS < until)) || return 1
        sleep 0.1
    done
}

# start_server COMMAND...: starts a server in $WORK, and waits until it is ready. Its log is $WORK/server.log. The caller sets the
# variables of settings.
start_server() {
    : >"$WORK/ready"
    (
        cd "$WORK"
        unset CONCLAVE_BIN
        exec "$@"
    ) >>"$WORK/ready" 2>>"$WORK/server.log" &
    SERVER_PID=$!
    within 30 server_is_ready || die 'the server did not become ready'
    API=$(json api <"$WORK/ready") ADMIN=$(json admin <"$WORK/ready")
    KEY=$(json api_key <"$WORK/ready") PROJECT=$(json project_id <"$WORK/ready")
}

server_is_ready() {
    kill -0 "$SERVER_PID" 2>/dev/null || die 'the server exited during its start'
    grep -q '"ready":true' "$WORK/ready"
}

# kill_server: kills the server, if any, and hides the shell's message about it.
kill_server() {
    [[ -z $SERVER_PID ]] || { kill -KILL "$SERVER_PID" && wait "$SERVER_PID"; } 2>/dev/null || true
    SERVER_PID=''
}

# stop_server: stops the server, if any, and returns its status.
stop_server() {
    local status=0
    [[ -z $SERVER_PID ]] || { kill -TERM "$SERVER_PID" && wait "$SERVER_PID"; } || status=$?
    SERVER_PID=''
    return "$status"
}
