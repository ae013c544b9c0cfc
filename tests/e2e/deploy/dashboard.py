"""The Grafana dashboard: Prometheus scrapes servers, and every expression of every panel has data."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack

from ..support import preparation
from ..support.cluster import TOKEN
from ..support.server import free_port
from ..support.telling import wait_for
from . import cluster
from .loaded import LoadedServer, receiver

DEPLOY = preparation.ROOT / "deploy"
DASHBOARD = DEPLOY / "grafana" / "conclave.json"
# Duration of the server's load, and the interval of rates, in seconds. Prometheus scrapes every second.
LOAD_SECONDS, RATE_SECONDS = 10, 5


class Prometheus:
    """Prometheus with the settings of deploy/, and other targets."""

    def __init__(self, folder, targets):
        self.port, self.targets = free_port(), len(targets)
        (folder / "token").write_text(TOKEN)
        settings = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        for ours, here in (
            ("/run/secrets/admin_token", str(folder / "token")), ('["conclave:8081"]', json.dumps(targets)), ("15s", "1s"),
            ("alerts.yaml", str(DEPLOY / "prometheus" / "alerts.yaml")),
        ):
            assert ours in settings, f"prometheus.yml has no {ours}"
            settings = settings.replace(ours, here)
        (folder / "prometheus.yml").write_text(settings)
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]
        self.log = folder / "prometheus.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def is_up(self):
        try:
            return len(self.get("query", query='up{job="conclave"} == 1')["result"]) == self.targets
        except OSError:
            return None

    def has_data(self, expression, since):
        """Returns whether an expression has had a value since a time."""
        found = self.get("query_range", query=expression, start=since, end=time.time(), step=1)["result"]
        return any(value != "NaN" for series in found for _, value in series["values"])

    def stop(self):
        self.process.terminate()
        self.process.wait()


def panels():
    """Returns the dashboard's panels, and their expressions with replaced variables."""
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)), "two panels have the same id"
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", f"{RATE_SECONDS}s")
            assert "$" not in expression, f"{panel['title']}: {expression} has an unknown variable"
            yield panel["title"], expression


def places():
    """Checks each panel's position: no two overlap, none is wider than the dashboard."""
    taken = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24 and (x, y) not in taken, f"{panel['title']} overlaps {taken.get((x, y), 'the edge')}"
                taken[x, y] = panel["title"]


def metrics(text):
    """Returns the metrics in an expression, without the suffixes of histograms."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bconclave_[a-z_]+", text)}


def known_metrics():
    """Returns the metrics defined in the server's sources."""
    sources = (path for folder in ("src", "actors", "db", "media") for path in (preparation.ROOT / folder).rglob("*.rs"))
    return {name for path in sources for name in re.findall(r'"(conclave_[a-z_]+)"', path.read_text())}


def check(program, folder):
    """Every panel has data while servers have calls. Returns a summary."""
    places()
    unknown = set().union(*(metrics(expression) for _, expression in panels())) - known_metrics()
    assert not unknown, f"no metrics of the server: {unknown}"
    unchecked = set()
    with ExitStack() as ends:
        server, hooks = LoadedServer(program, folder), receiver()
        ends.callback(server.stop)
        ends.callback(hooks.stop)
        targets = [server.ready["admin"].removeprefix("http://")]
        if preparation.postgres_programs():
            targets += ends.enter_context(cluster.running(program, folder))
        else:
            unchecked = {panel for panel in panels() if any(map(cluster.is_metric, metrics(panel[1])))}
        prometheus = Prometheus(folder, targets)
        ends.callback(prometheus.stop)
        server.request("POST", "/v1/webhook-endpoints", {"url": hooks.url})
        wait_for("Prometheus scrapes the servers", prometheus.is_up, 30)
        begun = time.time()
        with server.recording(folder):
            rooms = server.have_calls(LOAD_SECONDS)
        have_data(prometheus, set(panels()) - unchecked, begun)
    missing = f", without PostgreSQL not checked: {', '.join(sorted({title for title, _ in unchecked}))}" if unchecked else ""
    return f"{len(set(title for title, _ in panels()))} panels with {len(list(panels()))} expressions, {rooms} rooms{missing}"


def have_data(prometheus, empty, begun):
    # A rate needs two samples, and a delivery the next tick.
    def all_have_data():
        empty.difference_update({panel for panel in empty if prometheus.has_data(panel[1], begun)})
        return not empty

    try:
        wait_for("all panels have data", all_have_data, 15)
    except AssertionError as error:
        raise AssertionError(f"{error}: {sorted(empty)}") from error
    rules = (rule for group in prometheus.get("rules")["groups"] for rule in group["rules"])
    unhealthy = [rule["name"] for rule in rules if rule["health"] == "err"]
    assert not unhealthy, f"rules with errors: {unhealthy}"
