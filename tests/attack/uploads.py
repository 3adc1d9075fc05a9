"""Damaged photos, forms and features, sent to a service that must go on answering."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.attack.counts import Counts
from tests.photos.tiny_backbone import Means

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP")


def attack_uploads(n: int, seed: int, folder: Path) -> Counts:
    """Send ``n`` mutated bodies to teach, predict and evaluate; nothing but an orderly answer may come back."""
    from starlette.testclient import TestClient

    from gddsg.photos import model_backbone
    from gddsg.serve.app import create_app
    from gddsg.serve.studio import Studio

    model_backbone.load_backbone = lambda name, device=None: Means()  # type: ignore[assignment]
    studio = Studio(folder / "m.gddsg", settings={"projection_dim": 32}, keep_photos=True)
    draw, counts = random.Random(seed), Counts()
    with TestClient(create_app(studio), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        for label in ("a", "b"):
            parts = [("files", (f"{i}.png", _photo(draw, "PNG"))) for i in range(4)]
            assert client.post(f"/v1/classes/{label}/images", files=parts).status_code == 200
        for number in range(n):
            path, body, kind = _request(draw)
            answer = client.post(path, content=body, headers={"Content-Type": kind})
            fault = _fault(answer)
            counts.tried += 1
            counts.outcomes[f"status {answer.status_code}"] += 1
            if fault:
                counts.failures.append(f"{number}: {path} {kind}: {fault}")
        alive = client.post("/v1/predict", files=[("files", ("a.png", _photo(draw, "PNG")))])
        if alive.status_code != 200:
            counts.failures.append(f"in the end: {alive.status_code} {alive.text[:300]}")
    return counts


def _fault(answer: Any) -> str:
    """What is wrong with an answer."""
    if answer.status_code in (200, 202):
        return ""
    if answer.status_code >= 500 and answer.status_code != 503:
        return f"{answer.status_code} {answer.text[:300]}"
    try:
        return "" if set(answer.json()["error"]) == {"code", "message", "hint"} else "an error of another form"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} without an error in JSON"


def _request(draw: random.Random) -> tuple[str, bytes, str]:
    """A path, a mutated body and what it is said to be."""
    target = draw.random()
    if target < 0.2:
        kind, body = ("application/x-npy", _npy(draw)) if draw.random() < 0.5 else ("application/json", _json(draw))
        return "/v1/predict", _mutated(body, draw), kind
    path = draw.choice(
        ["/v1/predict?why=true", "/v1/classes/a/images", f"/v1/classes/{draw.randrange(5)}/images", "/v1/evaluate"]
    )
    photos = [_mutated(_photo(draw, draw.choice(_FORMATS)), draw) for _ in range(draw.randint(1, 2))]
    body = _form(photos, "b0undary", draw)
    if draw.random() < 0.3:
        body = _mutated(body, draw)
    kind = "multipart/form-data; boundary=b0undary"
    return path, body, kind if draw.random() < 0.95 else _mutated(kind.encode(), draw).decode("ascii", "ignore").strip()


def _form(photos: list[bytes], boundary: str, draw: random.Random) -> bytes:
    out = b""
    for place, content in enumerate(photos):
        name = draw.choice([f"a/{place}.jpg", "../../x.png", "x" * 300, "", "a\\b.png", "é.png"])
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        out += head.encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


def _photo(draw: random.Random, kind: str) -> bytes:
    pixels = np.random.default_rng(draw.randrange(2**32)).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def _npy(draw: random.Random) -> bytes:
    out = io.BytesIO()
    np.save(out, np.random.default_rng(draw.randrange(2**32)).random((2, Means.feature_dim), dtype=np.float32))
    return out.getvalue()


def _json(draw: random.Random) -> bytes:
    row = ", ".join(str(draw.choice([0, 1.5, -2, 1e38, 1e300, "null"])) for _ in range(Means.feature_dim))
    return f'{{"features": [[{row}]]}}'.encode()


def _mutated(content: bytes, draw: random.Random) -> bytes:
    """Some bytes changed, cut, doubled or put in."""
    found = bytearray(content)
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(found) + 1)
        kind = draw.randrange(4)
        if kind == 0 and place < len(found):
            found[place] = draw.randrange(256)
        elif kind == 1:
            del found[place : place + draw.randint(1, 40)]
        elif kind == 2:
            found[place:place] = found[place : place + draw.randint(1, 40)]
        else:
            found[place:place] = draw.randbytes(draw.randint(1, 8))
    return bytes(found)
