"""One Ray for all tests of this folder; they are in one group, so that one process has it."""

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests" / "photos")]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def worker_paths():
    """Workers are other processes, which find our modules by an environment variable."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
    yield
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@pytest.fixture(scope="session")
def running_ray(worker_paths):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    from gddsg.backbones.base import available_cores
    from gddsg.ray_session import ray_session

    with ray_session(None, available_cores()) as ray:
        yield ray
