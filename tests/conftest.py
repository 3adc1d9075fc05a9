"""What all tests share."""

import os
from importlib.util import find_spec

import pytest
import torch

# Programs that are run by themselves; and Ray, which has no wheels for every system and every Python.
collect_ignore = ["install/uses", *([] if find_spec("ray") else ["scale", "bench/test_on_ray.py"])]

# Some tests import ONNX Runtime themselves; whoever runs them shall not be reported on.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def pytest_runtest_setup(item):
    """Leave out what other systems have no way of doing."""
    if os.name != "posix" and item.get_closest_marker("posix"):
        pytest.skip("signals, limits, terminals and permissions are those of POSIX")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The matrices of these tests are small: threads would only wait for each other, for minutes on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory):
    """The user's cache is left alone; all workers share one, so that the backbone is exported once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "gddsg-cache"
    before = os.environ.get("GDDSG_CACHE")
    os.environ["GDDSG_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["GDDSG_CACHE"]
    else:
        os.environ["GDDSG_CACHE"] = before


@pytest.fixture
def own_cache(tmp_path, monkeypatch, shared_cache):
    """A cache of the test's own, empty but for the exported backbone."""
    folder = tmp_path / "own-cache"
    folder.mkdir()
    for network in shared_cache.glob("*.network"):
        (folder / network.name).symlink_to(network)
    monkeypatch.setenv("GDDSG_CACHE", str(folder))
    return folder
