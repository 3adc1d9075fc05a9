"""Rates and sizes."""

import pytest
from starlette.testclient import TestClient
from tests.serve.samples import files

from gddsg.serve.app import create_app
from gddsg.serve.faults import RequestError
from gddsg.serve.limits import Limits, Rate


def test_a_client_may_make_some_requests_at_once_and_then_so_many_a_second():
    now = [0.0]
    rate = Rate(2.0, 3.0, clock=lambda: now[0])
    for _ in range(3):
        rate.spend("anna")
    with pytest.raises(RequestError) as refused:
        rate.spend("anna")
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    rate.spend("bert")
    now[0] = 0.5
    rate.spend("anna")
    with pytest.raises(RequestError):
        rate.spend("anna")
    now[0] = 100.0
    for _ in range(3):
        rate.spend("anna")
    with pytest.raises(RequestError):
        rate.spend("anna")


@pytest.fixture
def small(studio):
    with TestClient(create_app(studio, limits=Limits(body_bytes=20_000, files=3, rows=2))) as client:
        client.base_url = "http://127.0.0.1"
        yield client


def test_a_body_that_announces_too_much_is_refused(small):
    answer = small.post("/v1/classes/red/images", files=[("files", ("a.png", b"x" * 30_000))])
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize("path", ["/v1/classes/red/images", "/v1/predict", "/v1/evaluate"])
def test_a_body_that_goes_on_and_on_is_ended(small, path):
    sent = []

    def endless():
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        for _ in range(1000):
            sent.append(1)
            yield b"x" * 1000

    answer = small.post(path, content=endless(), headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 413


def test_too_many_files_or_rows_are_refused(small):
    answer = small.post("/v1/classes/red/images", files=files("red", 4))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_multipart")
    assert small.post("/v1/classes/red/images", files=files("red", 3)).status_code == 200
    answer = small.post("/v1/predict", json={"features": [[0.0] * 24] * 3})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "rows")


def test_requests_together_hold_no_more_than_allowed(studio):
    with TestClient(create_app(studio, limits=Limits(held_bytes=5_000)), base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/classes/red/images", files=[("files", ("a.png", b"x" * 6_000))])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
    assert answer.headers["retry-after"] == "5"


def test_requests_by_token_are_limited_in_rate(studio):
    from gddsg.serve.tokens import add_token

    token = add_token(studio.journal, "anna", "read")
    app = create_app(studio, limits=Limits(rate=0.001, burst=2))
    with TestClient(app, base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}) as client:
        codes = [client.get("/v1/model").status_code for _ in range(4)]
        assert codes == [200, 200, 429, 429]
        assert int(client.get("/v1/model").headers["retry-after"]) >= 1
