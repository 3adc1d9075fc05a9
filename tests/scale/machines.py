"""A cluster of two machines on this one, for runs in which something dies."""

from __future__ import annotations

import os
import random
import secrets
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gddsg.working_folder import working_folder

_STORE = 200_000_000  # bytes of each machine's objects


class Machines:
    """Two nodes, the second of which may go and come back.

    Parameters
    ----------
    folder : str
        Of Ray.
    """

    def __init__(self, folder: str) -> None:
        from ray.cluster_utils import Cluster

        # Ray notes the address there, and expects the folder to exist
        (Path(tempfile.gettempdir()) / "ray").mkdir(exist_ok=True)
        usual = {"num_cpus": 1, "object_store_memory": _STORE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={**usual, "temp_dir": folder})
        self._second = self._add()

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=_STORE)

    @property
    def address(self) -> str:
        """Of the cluster."""
        return str(self._cluster.address)

    def lose_node(self) -> None:
        """The second machine goes at once, with all that it was doing."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def replace_node(self) -> None:
        """The second machine goes, and another comes."""
        self.lose_node()
        self._second = self._add()

    def lose_worker(self, draw: random.Random) -> bool:
        """Kill one of the processes that work; False where there is none."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"ray::_Actor" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
            except OSError:
                continue
        if found:
            os.kill(draw.choice(found), signal.SIGKILL)
        return bool(found)

    def close(self) -> None:
        """End both."""
        self._cluster.shutdown()


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Machines that take work from nobody else, and are gone afterwards."""
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
    with working_folder() as folder:
        machines = Machines(str(folder))
        try:
            yield machines
        finally:
            machines.close()
