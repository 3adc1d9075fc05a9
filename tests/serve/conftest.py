"""A studio of a tiny backbone."""

import pytest
from starlette.testclient import TestClient
from tests.photos.tiny_backbone import Means
from tests.serve.samples import files

from gddsg.backbones.feature_cache import FeatureCache
from gddsg.photos import model_backbone
from gddsg.serve.app import create_app
from gddsg.serve.studio import Studio


@pytest.fixture
def means(monkeypatch):
    backbone = Means()
    monkeypatch.setattr(model_backbone, "load_backbone", lambda name, device=None: backbone)
    return backbone


@pytest.fixture
def make_studio(tmp_path, means):
    """Makes studios of one model file, and closes those that are still open."""
    made = []

    def make(**options):
        cache = FeatureCache(tmp_path / "cache")
        settings = {"projection_dim": 64}
        studio = Studio(tmp_path / "m.gddsg", cache=cache, settings=settings, **options)
        made.append(studio)
        return studio

    yield make
    for studio in made:
        if not studio.closed:
            studio.close()


@pytest.fixture
def studio(make_studio):
    return make_studio()


@pytest.fixture
def client(studio):
    with TestClient(create_app(studio), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def taught(client):
    """The same, with three classes."""
    for colour in ("red", "green", "blue"):
        assert client.post(f"/v1/classes/{colour}/images", files=files(colour)).status_code == 200
    return client


class Clock:
    now = 1e9

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()
