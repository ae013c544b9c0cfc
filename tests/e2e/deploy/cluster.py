"""Two servers on a throw-away PostgreSQL, whose metrics of the lease and of proxied requests have values."""

import itertools
import threading
from contextlib import contextmanager

from ..support import cluster

# Seconds between requests through the standby.
PAUSE = 0.5


def is_metric(name):
    """Returns whether a metric exists only on PostgreSQL."""
    return name.startswith(("conclave_lease_", "conclave_cluster_"))


@contextmanager
def running(program, folder):
    """Yields the admin addresses of both servers. The standby receives requests meanwhile."""
    # PostgreSQL's user must reach its directory.
    folder.chmod(0o755)
    postgres, nodes, is_over = cluster.Postgres(folder), [], threading.Event()
    try:
        database, config = folder / "database.url", folder / "cluster.toml"
        postgres.create_database(database)
        # All settings are environment variables.
        config.touch()
        nodes = [cluster.Node(program, folder, name, database) for name in cluster.NODES[:2]]
        cluster.start_nodes(nodes, config)
        project = nodes[0].run(config, "project", "create", "--name", "cluster")["project_id"]
        key = nodes[0].run(config, "key", "create", project)["key"]

        def call():
            for number in itertools.count():
                cluster.create_room(nodes[1].api, key, f"room-{number}")
                if is_over.wait(PAUSE):
                    return

        calls = threading.Thread(target=call)
        calls.start()
        try:
            yield [f"127.0.0.1:{node.admin}" for node in nodes]
        finally:
            is_over.set()
            calls.join()
    finally:
        for node in nodes:
            node.stop()
        postgres.stop()
