# What scripts/check-console and scripts/check-guide need, for them to source: Node.js, Chromium, playwright-core and axe-core, which
# are installed once, in target/check-console, and the program. Sets CHROMIUM, CONCLAVE_BIN and TOOLS, and ends with 77 if something is
# missing and cannot be installed.

PLAYWRIGHT=1.64.1 AXE=4.14.1
skip() { echo "skipped: $*"; exit 77; }

command -v node >/dev/null && command -v npm >/dev/null || skip 'Node.js is not installed'
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip 'Chromium is not installed'
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
TOOLS=$target/check-console/playwright-$PLAYWRIGHT-axe-$AXE
if [[ ! -e $TOOLS/installed ]]; then
    mkdir -p "$TOOLS"
    npm install --silent --no-save --no-audit --no-fund --prefix "$TOOLS" "playwright-core@$PLAYWRIGHT" "axe-core@$AXE" ||
        skip 'playwright-core and axe-core cannot be installed'
    touch "$TOOLS/installed"
fi
if [[ -z ${CONCLAVE_BIN:-} ]]; then
    cargo build --quiet --workspace --bins
    CONCLAVE_BIN=$target/debug/conclave
fi
CONCLAVE_BIN=$(realpath "$CONCLAVE_BIN")
export CHROMIUM CONCLAVE_BIN TOOLS
