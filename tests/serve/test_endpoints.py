"""Every endpoint, as a client meets it."""

import io
import json
from itertools import pairwise

import numpy as np
from tests.serve.samples import files, photo_bytes

from gddsg.onnx_runtime import open_session
from gddsg.store import read_model


def test_an_empty_studio_answers(client):
    assert client.get("/healthz").json() == {"status": "ok", "classes": 0}
    found = client.get("/v1/model").json()
    assert (found["classes"], found["photos"], found["groups"], found["edges"]) == (0, 0, [], [])
    assert client.get("/v1/classes").json() == {"revision": client.get("/v1/model").json()["revision"], "classes": []}
    assert client.get("/v1/advice").json() == {"advice": []}
    assert client.post("/v1/predict", files=files("red", 1)).status_code == 409


def test_teaching_says_what_was_learnt(client, tmp_path):
    found = client.post("/v1/classes/red/images", files=[*files("red"), ("files", ("a.txt", b"words"))]).json()
    assert (found["class"], found["learnt"], found["known"], found["photos"], found["created"]) == (
        "red",
        6,
        0,
        6,
        True,
    )
    assert [one["name"] for one in found["skipped"]] == ["a.txt"]
    again = client.post("/v1/classes/red/images", files=files("red", 7)).json()
    assert (again["learnt"], again["known"], again["photos"], again["created"]) == (1, 6, 7, False)
    assert read_model(tmp_path / "m.gddsg").cards["red"].count == 7


def test_the_model_tells_about_itself(taught):
    found = taught.get("/v1/model").json()
    assert (found["classes"], found["photos"], found["backbone"], found["image_size"]) == (3, 18, "means", 16)
    assert sorted(name for group in found["groups"] for name in group) == ["blue", "green", "red"]
    assert (found["feature_dim"], found["file"], found["rights"]) == (24, "m.gddsg", "teach")
    assert [one["name"] for one in taught.get("/v1/classes").json()["classes"]] == ["blue", "green", "red"]
    assert taught.get("/v1/classes/red").json()["photos"] == 6
    assert taught.get("/v1/classes/rad").status_code == 404
    assert "'red'" in taught.get("/v1/classes/rad").json()["error"]["message"]


def test_photos_are_predicted_with_reasons(taught):
    found = taught.post("/v1/predict?top=2&why=true", files=[*files("red", 2, 50), ("files", ("x.png", b"x"))]).json()
    assert [one["label"] for one in found["predictions"]] == ["red", "red"]
    assert [one["name"] for one in found["skipped"]] == ["x.png"]
    one = found["predictions"][0]
    assert len(one["top"]) == 2
    assert one["top"][0] == {"label": "red", "probability": one["probability"]}
    assert {rival["label"] for rival in one["why"]["rivals"]} == {"green", "blue"}
    assert found["revision"] == taught.get("/v1/model").json()["revision"]


def test_strange_photos_are_unknown(taught):
    found = taught.post("/v1/predict?reject=0.5", json={"features": [[-50.0] * 24]}).json()["predictions"][0]
    assert (found["label"], found["unknown"]) == ("unknown", True)


def test_features_are_predicted_as_json_and_as_npy(taught, studio):
    row = studio.current().model.cards["green"].centroid.numpy().astype(np.float32)
    as_json = taught.post("/v1/predict", json={"features": [row.tolist()]}).json()
    file = io.BytesIO()
    np.save(file, row[None])
    as_npy = taught.post("/v1/predict", content=file.getvalue(), headers={"Content-Type": "application/x-npy"}).json()
    assert as_json == as_npy
    assert as_json["predictions"][0]["label"] == "green"


def test_forget_undo_and_rename(taught):
    before = taught.get("/v1/model").json()["revision"]
    found = taught.delete("/v1/classes/red").json()
    assert (found["forgotten"], found["undo_seconds"]) == ("red", 60)
    assert taught.get("/v1/classes/red").status_code == 404
    assert taught.post(f"/v1/undo/{found['undo']}").json() == {"restored": "red"}
    assert taught.get("/v1/model").json()["revision"] == before
    assert taught.patch("/v1/classes/red", json={"name": "dark red"}).json()["name"] == "dark red"
    assert taught.get("/v1/classes/dark%20red").json()["photos"] == 6
    assert taught.post("/v1/undo/nonsense").status_code == 410


def test_the_last_class_can_be_forgotten_and_another_taught(client):
    client.post("/v1/classes/red/images", files=files("red"))
    assert client.delete("/v1/classes/red").status_code == 200
    assert client.get("/v1/model").json()["classes"] == 0
    assert client.post("/v1/classes/blue/images", files=files("blue")).json()["created"]


def events_of(client, job):
    with client.stream("GET", f"/v1/jobs/{job}/events") as stream:
        lines = list(stream.iter_lines())
    return [
        (a.removeprefix("event: "), json.loads(b.removeprefix("data: ")))
        for a, b in pairwise(lines)
        if a.startswith("event: ")
    ]


def test_evaluation_is_a_job_with_events(taught):
    parts = [("files", (f"held-out/{c}/{i}.png", photo_bytes(c, 70 + i))) for c in ("red", "green") for i in range(3)]
    job = taught.post("/v1/evaluate", files=parts)
    assert job.status_code == 202
    name, last = events_of(taught, job.json()["job"])[-1]
    assert (name, last["state"], last["result"]["accuracy"], last["result"]["photos"]) == ("done", "done", 1.0, 6)
    assert taught.get(f"/v1/jobs/{job.json()['job']}").json() == last
    assert taught.get("/v1/jobs/none").status_code == 404


def test_teaching_as_a_job(client):
    job = client.post("/v1/classes/red/images", files=files("red"), headers={"Prefer": "respond-async"})
    assert job.status_code == 202
    name, last = events_of(client, job.json()["job"])[-1]
    assert (name, last["result"]["learnt"]) == ("done", 6)


def test_exports(taught, tmp_path):
    (tmp_path / "copy.gddsg").write_bytes(taught.get("/v1/export/model").content)
    assert read_model(tmp_path / "copy.gddsg").labels == ("blue", "green", "red")
    session = open_session(taught.get("/v1/export/onnx").content, threads=1)
    assert session.get_inputs()[0].name == "features"


def test_metrics_count_requests_by_route(taught):
    taught.post("/v1/predict", files=files("red", 2, 50))
    text = taught.get("/metrics").text
    assert 'gddsg_requests_total{method="POST",route="/v1/classes/{name:path}/images",status="200"} 3.0' in text
    assert 'gddsg_predictions_total{kind="photo"} 2.0' in text
    assert "gddsg_classes 3.0" in text
    assert "gddsg_photos_learnt_total 18.0" in text


def test_the_page_and_the_document_of_the_service(client):
    assert client.get("/").headers["content-type"].startswith("text/html")
    document = client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/evaluate", "/v1/model", "/healthz"} <= set(document["paths"])
