"""Who gets in, what every answer carries, and input that means harm."""

import io
import stat

import pytest
from PIL import Image
from starlette.testclient import TestClient
from tests.serve.samples import files

from gddsg.serve.app import create_app
from gddsg.serve.security import host_of, is_loopback, refuse_foreign_page
from gddsg.serve.tokens import Tokens, add_token, digest_token


@pytest.fixture
def with_tokens(studio):
    """A client without a token, and the headers of one that may read and of one that may teach."""
    headers = [
        {"Authorization": f"Bearer {add_token(studio.journal, name, rights)}"}
        for name, rights in (("rita", "read"), ("theo", "teach"))
    ]
    with TestClient(create_app(studio), base_url="http://127.0.0.1") as client:
        yield client, *headers


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_tokens_say_who_may_do_what(with_tokens):
    client, read, teach = with_tokens
    assert client.get("/healthz").status_code == 200
    assert client.get("/").status_code == 200
    for path in ("/v1/model", "/v1/classes", "/metrics", "/v1/audit", "/v1/export/model", "/v1/thumbnails/" + "0" * 16):
        answer = client.get(path)
        assert code_of(answer) == (401, "no_token"), path
        assert answer.headers["www-authenticate"] == "Bearer"
    assert code_of(client.get("/v1/model", headers={"Authorization": "Bearer wrong"})) == (401, "no_token")
    assert code_of(client.get("/v1/model", headers={"Authorization": "Basic YTpi"})) == (401, "no_token")
    assert client.get("/v1/model", headers=read).json()["rights"] == "read"
    assert client.get("/v1/model", headers=teach).json()["rights"] == "teach"
    assert code_of(client.post("/v1/classes/red/images", files=files("red"), headers=read)) == (403, "may_not_teach")
    assert client.post("/v1/classes/red/images", files=files("red"), headers=teach).status_code == 200
    for answer in (
        client.delete("/v1/classes/red", headers=read),
        client.patch("/v1/classes/red", json={"name": "x"}, headers=read),
        client.post("/v1/undo/abc", headers=read),
        client.get("/v1/audit", headers=read),
    ):
        assert code_of(answer) == (403, "may_not_teach")
    assert client.post("/v1/predict", files=files("red", 1), headers=read).status_code == 200
    entry = client.get("/v1/audit", headers=teach).json()["entries"][0]
    assert (entry["who"], entry["action"], entry["class"], entry["outcome"]) == ("theo", "teach", "red", "done")


def test_a_token_that_is_taken_back_is_refused_within_a_second(studio):
    now = [0.0]
    token = add_token(studio.journal, "rita", "read")
    tokens = Tokens(studio.journal, clock=lambda: now[0])
    assert tokens.find(token).name == "rita"
    studio.journal.remove_token("rita")
    assert not tokens.stale
    now[0] = 1.1
    assert tokens.stale
    tokens.refresh()
    assert tokens.find(token) is None


def test_only_digests_of_tokens_are_kept(studio):
    token = add_token(studio.journal, "rita", "read")
    content = studio.journal.path.read_bytes()
    assert token.encode() not in content
    assert digest_token(token) in content
    assert stat.S_IMODE(studio.journal.path.stat().st_mode) == 0o600


def test_a_service_for_other_machines_needs_a_token_even_if_there_is_none(studio):
    with TestClient(create_app(studio, loopback=False), base_url="http://127.0.0.1") as client:
        assert code_of(client.get("/v1/model")) == (401, "no_token")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "[::2]", "a@b"])
def test_foreign_hosts_are_refused(client, host):
    assert code_of(client.get("/v1/model", headers={"Host": host})) == (421, "foreign_host")
    assert code_of(client.get("/", headers={"Host": host})) == (421, "foreign_host")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"])
def test_names_of_this_machine_are_not(client, host):
    assert client.get("/v1/model", headers={"Host": host}).status_code == 200


def test_a_name_that_the_service_was_started_for_is_its_own(studio):
    with TestClient(create_app(studio, hosts=["Studio.example"]), base_url="http://studio.example") as client:
        assert client.get("/v1/model").status_code == 200


def test_pages_from_elsewhere_change_nothing(taught):
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        assert code_of(taught.delete("/v1/classes/red", headers=headers)) == (403, "foreign_page")
    refuse_foreign_page("GET", {"sec-fetch-site": "cross-site"})
    same = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1"}
    assert taught.delete("/v1/classes/red", headers=same).status_code == 200
    assert taught.delete("/v1/classes/blue", headers={"Origin": "http://127.0.0.1"}).status_code == 200


def test_other_origins_are_told_nothing(client):
    answer = client.options(
        "/v1/model", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"}
    )
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/v1/model", "/v1/nothing", "/healthz"])
def test_every_answer_has_a_strict_policy(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2F..%2Fetc%2Fpasswd",
        "a%2Fb",
        "a%5Cb",
        "%00",
        "a%0Ab",
        "%E2%80%AEx",
        "unknown",
        "%20",
        "x" * 201,
    ],
)
def test_names_that_no_class_gets(client, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    answer = client.post(f"/v1/classes/{name}/images", files=files("red"))
    assert answer.status_code in (404, 405, 422), answer.text
    assert client.get("/v1/classes").json()["classes"] == []
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b'\"", "キツネ", "x" * 200, "-rf", "C:", "a?b#c%d"])
def test_other_names_are_data(client, name):
    from urllib.parse import quote

    assert client.post(f"/v1/classes/{quote(name, safe='')}/images", files=files("red")).status_code in (200, 422)
    found = client.get("/v1/classes")
    assert found.headers["content-type"] == "application/json"
    if "/" not in name:
        assert [one["name"] for one in found.json()["classes"]] == [name]
        assert client.delete(f"/v1/classes/{quote(name, safe='')}").json()["forgotten"] == name


def test_twins_in_case_are_refused(taught):
    answer = taught.post("/v1/classes/RED/images", files=files("red", 2, 50))
    assert answer.status_code == 422
    assert "differ only in upper and lower case" in answer.json()["error"]["message"]
    assert taught.patch("/v1/classes/blue", json={"name": "Red"}).status_code == 422
    assert taught.patch("/v1/classes/red", json={"name": "Red"}).json()["name"] == "Red"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "<b>.png", "a\\b.png", "x" * 500])
def test_names_of_files_are_data(taught, name):
    found = taught.post("/v1/predict", files=[("files", (name, files("red", 1, 60)[0][1][1]))]).json()
    assert found["predictions"][0]["label"] == "red"
    assert len(found["predictions"][0]["name"]) <= 200


def bomb():
    """A PNG of a few kilobytes that claims 400 million pixels."""
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    return out.getvalue()


def test_decompression_bombs_are_left_out(taught):
    found = taught.post("/v1/predict", files=[("files", ("bomb.png", bomb())), *files("red", 1, 60)]).json()
    assert [one["label"] for one in found["predictions"]] == ["red"]
    assert "pixels" in found["skipped"][0]["reason"]
    answer = taught.post("/v1/classes/bomb/images", files=[("files", ("bomb.png", bomb()))])
    assert answer.status_code == 422


def test_a_key_of_another_request_is_refused_and_replays_change_nothing(taught):
    headers = {"Idempotency-Key": "one"}
    first = taught.post("/v1/classes/grey/images", files=files("grey"), headers=headers)
    again = taught.post("/v1/classes/grey/images", files=files("grey"), headers=headers)
    assert first.json() == again.json()
    assert first.json()["learnt"] == 6
    assert code_of(taught.post("/v1/classes/grey/images", files=files("grey", 7), headers=headers)) == (
        422,
        "key_reused",
    )
    assert code_of(taught.delete("/v1/classes/grey", headers=headers)) == (422, "key_reused")
    assert taught.get("/v1/classes/grey").json()["photos"] == 6
    assert code_of(taught.delete("/v1/classes/grey", headers={"Idempotency-Key": "x" * 201})) == (422, "bad_key")


def test_keys_of_clients_are_their_own(with_tokens, studio):
    client, _, teach = with_tokens
    other = {"Authorization": f"Bearer {add_token(studio.journal, 'tom', 'teach')}"}
    key = {"Idempotency-Key": "one"}
    assert client.post("/v1/classes/red/images", files=files("red"), headers=teach | key).json()["learnt"] == 6
    from time import sleep

    sleep(1.1)  # until the new token counts
    assert client.post("/v1/classes/red/images", files=files("red"), headers=other | key).json()["known"] == 6


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"nonsense"),
        (
            "multipart/form-data; boundary=b; charset=hex",
            b'--b\r\nContent-Disposition: form-data; name="files"\r\n\r\nx\r\n--b--',
        ),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\nx\r\n--b--"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nx',
        ),
        ("text/plain", b"x"),
        ("application/json", b"{"),
        ("application/json", b'{"features": "x"}'),
        ("application/json", b'{"features": [[NaN]]}'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"features": [[1e999]]}'),
        ("application/json", b'{"features": [[1], [1, 2]]}'),
        ("application/x-npy", b"\x93NUMPY"),
        ("application/x-npy", b"\x93NUMPY\x01\x00\x12\x00{'descr': '<f4', ("),
        (
            "application/x-npy",
            b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 24), }   \n",
        ),
        (
            "application/x-npy",
            b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (1, 24), }             \n",
        ),
    ],
)
def test_bodies_that_cannot_be_read_are_refused(taught, kind, body):
    answer = taught.post("/v1/predict", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (415, 422), answer.text
    assert set(answer.json()["error"]) == {"code", "message", "hint"}


@pytest.mark.parametrize(
    "path", ["/static/..%2f..%2fapp.py", "/static/%2e%2e/app.py", "/..%2f..%2fetc/passwd", "//etc/passwd"]
)
def test_nothing_outside_the_page_is_served(client, path):
    assert client.get(path).status_code in (404, 405)


def test_addresses():
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "studio.example")] == [False] * 4
    assert [host_of(header) for header in ("", "a:1", "[::1", "[::1]:1", "A.b")] == ["", "a", "", "::1", "a.b"]
