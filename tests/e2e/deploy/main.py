"""Checks the files in deploy/: Prometheus with the alerts, the Grafana dashboard, the compose file, the Kubernetes manifests.

    scripts/check deploy            checks everything
    scripts/check deploy --quick    without the compose file, Kubernetes and the pages

Prometheus runs with deploy/prometheus/prometheus.yml and scrapes a real server under a load of calls, with TLS, TURN, backups, a webhook
receiver, a recording with its upload and a broadcast; and a cluster of two servers. Every expression of every panel must have data, and
every metric must exist in the server. promtool tests the alerts.
The parsers of Compose and Kubernetes read the files (main.go, built by Go), and `conclave check` their settings. The
commands in docs/deployment.md and docs/running.md run with stand-ins for programs that would change this machine (pages.py).
Needs Prometheus with promtool (Debian: prometheus), openssl, ffmpeg, and Go without --quick. Exits 0 only if everything held, and 77 if a
program is missing. Without PostgreSQL, the cluster's panels are named as not checked.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from ..support import preparation
from ..support.cluster import TOKEN
from ..support.settings import check_settings, environment
from ..support.telling import Telling
from . import dashboard, pages
from .dashboard import DEPLOY, known_metrics, metrics

# Environment variables of the compose file.
COMPOSE = {"CONCLAVE_DOMAIN": "meet.example.org", "CONCLAVE_ADDRESS": "192.0.2.1", "CONCLAVE_ADMIN_TOKEN": TOKEN}


def alerts():
    """The alerts load, pass their tests, and each has a test in which it fires and a test in which it does not."""
    folder = DEPLOY / "prometheus"
    for command in (["check", "config", "--syntax-only", folder / "prometheus.yml"], ["test", "rules", folder / "alerts.test.yaml"]):
        ended = subprocess.run(["promtool", *command], capture_output=True, text=True)
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    names = re.findall(r"alert: (\w+)", (folder / "alerts.yaml").read_text())
    tests = (folder / "alerts.test.yaml").read_text()
    untested = [name for name in names for kind in ("fires", "does not fire") if f"name: {name} {kind}\n" not in tests]
    assert not untested, f"not tested: {untested}"
    unknown = metrics((folder / "alerts.yaml").read_text()) - known_metrics()
    assert not unknown, f"no metrics of the server: {unknown}"
    return f"{len(names)} alerts"


def compose(program, validate, folder):
    file = DEPLOY / "compose.yaml"
    env = environment(COMPOSE)
    ended = subprocess.run([validate, "compose", file, "monitoring"], env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    values = dict(re.findall(r"^ {6}(CONCLAVE_\w+): \"?([^\"\n]+)", file.read_text(), re.MULTILINE))
    settings = {name: re.sub(r"\$\{(\w+).*\}", lambda found: COMPOSE[found.group(1)], value) for name, value in values.items()}
    assert len(settings) > 5, settings
    check_settings(program, folder, settings)
    provisioning()
    return f"{ended.stdout.strip()}; {len(settings)} settings"


def provisioning():
    """Grafana finds the dashboard and Prometheus at their paths in the compose file."""
    folder, text = DEPLOY / "grafana" / "provisioning", (DEPLOY / "compose.yaml").read_text()
    dashboards = re.search(r"path: (\S+)", (folder / "dashboards" / "conclave.yaml").read_text())[1]
    assert f"./grafana/conclave.json:{dashboards}/conclave.json:ro" in text, f"the dashboard is not in {dashboards}"
    host = re.search(r"url: http://(\w+):9090", (folder / "datasources" / "prometheus.yaml").read_text())[1]
    assert f"\n  {host}:\n" in text, f"there is no service {host}"


def kubernetes(program, validate, folder):
    ended = subprocess.run([validate, "kubernetes", DEPLOY / "kubernetes"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    settings = {"CONCLAVE_ADMIN__TOKEN": TOKEN}
    check_settings(program, folder, settings, "--config", DEPLOY / "kubernetes" / "conclave.toml")
    return ended.stdout.strip()


def in_folder(story):
    """Runs a scenario in its own folder."""
    with tempfile.TemporaryDirectory(prefix="conclave-deploy-") as folder:
        return story(Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the compose file, Kubernetes and the pages")
    is_quick = parser.parse_args().quick
    preparation.need(*([] if is_quick else ["go"]))
    validate = None if is_quick else preparation.validator()
    if not is_quick and not validate:
        preparation.skip("tests/e2e/deploy cannot be built")
    program, telling = preparation.program(), Telling()
    stories = [("the alerts of Prometheus", lambda _: alerts()), ("the dashboard of Grafana", lambda folder: dashboard.check(program, folder))]
    if validate:
        stories.append(("the commands of the pages", lambda folder: pages.check(program, validate, folder)))
        stories.append(("the compose file", lambda folder: compose(program, validate, folder)))
        stories.append(("the manifests of Kubernetes", lambda folder: kubernetes(program, validate, folder)))
    for title, story in stories:
        telling.tell(title, in_folder, story)
    return telling.end()

