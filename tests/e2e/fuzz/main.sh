#!/usr/bin/env bash
# Fuzzes each target, or a named target, one after the other. A finding ends the run with an error; tests/fuzz/README.md
# describes the next steps. Needs cargo-fuzz and a C++ compiler.
#
# Usage: scripts/check fuzz [--seconds N] [TARGET]     N applies to each target, 60 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

seconds=60
if [[ ${1:-} == --seconds ]]; then
    seconds=$2
    shift 2
fi
# No sanitizer: the code is safe Rust, and without one the stable compiler suffices.
cargo fuzz build --fuzz-dir tests/fuzz --sanitizer none "$@"
read -ra targets <<<"${*:-$(cargo fuzz list --fuzz-dir tests/fuzz | tr '\n' ' ')}"
# In memory where possible: the databases are thrown away.
[[ ! -w /dev/shm ]] || export TMPDIR=/dev/shm
for target in "${targets[@]}"; do
    echo "--- $target: $seconds s"
    # RUST_LOG: otherwise the app logs each rejected webhook.
    RUST_LOG=off cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none "$target" -- \
        -max_total_time="$seconds" -max_len=8192 -rss_limit_mb=4096 -timeout=30 -print_final_stats=1 -verbosity=0
done
