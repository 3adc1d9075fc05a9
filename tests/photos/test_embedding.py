"""Photos are embedded within limits of memory: a photo that is too large is left out, and the others go on."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from tiny_backbone import Means

from gddsg.data.photo import MAX_FILE_BYTES, Photo
from gddsg.photos import embedding as module
from gddsg.photos.embedding import embed_photos
from gddsg.photos.threads import Room


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    for i in range(40):
        Image.fromarray(random.integers(0, 256, (20 + i, 30, 3), dtype=np.uint8)).save(tmp_path / f"{i:02}.png")
    return [Photo.of_file(path) for path in sorted(tmp_path.iterdir())]


def test_a_huge_file_is_skipped_and_the_others_are_embedded(photos, tmp_path):
    with (tmp_path / "05a.png").open("wb") as file:
        file.truncate(30_000_000_000)
    embedded = embed_photos([*photos[:5], Photo.of_file(tmp_path / "05a.png"), *photos[5:]], Means())
    assert [photo.name for photo in embedded.photos] == [photo.name for photo in photos]
    (left_out,) = embedded.skipped
    assert left_out.name == str(tmp_path / "05a.png")
    for part in ("30,000,000,000 bytes", f"at most {MAX_FILE_BYTES:,}", "make a smaller copy"):
        assert part in left_out.reason


@pytest.mark.parametrize("threads", [1, 4])
def test_little_room_changes_no_feature(photos, threads, monkeypatch):
    expected = embed_photos(photos, Means())
    monkeypatch.setattr(module, "available_cores", lambda: threads)
    monkeypatch.setattr(module, "_CONTENTS", Room(max(photo.size() for photo in photos)))
    monkeypatch.setattr(module, "_IMAGES", Room(max(photo.decoded_bytes(photo.read(), 32) for photo in photos)))
    found = embed_photos(photos, Means())
    np.testing.assert_array_equal(found.features, expected.features)
    assert found.samples == expected.samples
    assert not found.skipped


def test_photos_for_which_there_is_no_room_are_skipped_with_the_reason(photos, monkeypatch):
    sizes = [photo.size() for photo in photos]
    monkeypatch.setattr(module, "_CONTENTS", Room(sorted(sizes)[20]))
    embedded = embed_photos(photos, Means())
    assert len(embedded.photos) == sum(size <= sorted(sizes)[20] for size in sizes)
    assert all("bytes of memory, and at most" in one.reason for one in embedded.skipped)
    assert len(embedded.photos) + len(embedded.skipped) == len(photos)


def test_contents_held_by_all_threads_stay_within_the_room(photos, monkeypatch):
    limit = 3 * max(photo.size() for photo in photos)
    room = Room(limit)
    held = []

    class Watched(Means):
        def embed(self, images):
            held.append(limit - room._free)
            return super().embed(images)

    monkeypatch.setattr(module, "_CONTENTS", room)
    monkeypatch.setattr(module, "available_cores", lambda: 4)
    embed_photos(photos, Watched())
    assert 0 < max(held) <= limit
    assert room._free == limit


def test_no_memory_for_one_photo_leaves_out_that_one(photos, monkeypatch):
    class Narrow(Means):
        def __init__(self):
            super().__init__()
            self.preprocess, whole = Means.preprocess, Means.preprocess

            class Failing(type(whole)):
                def __call__(self, image):
                    if image.size == (30, 27):
                        raise MemoryError
                    return super().__call__(image)

            self.preprocess = Failing((16, 16))

    embedded = embed_photos(photos, Narrow())
    assert len(embedded.photos) == len(photos) - 1
    (left_out,) = embedded.skipped
    assert left_out.name == photos[7].name
    assert "not enough memory" in left_out.reason


PEAK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tiny_backbone import Means
from gddsg.data.photo import Photo
from gddsg.photos import embedding

def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

threads = int(sys.argv[2])
embedding.available_cores, embedding._READ_AT_ONCE = lambda: threads, 1
found = embedding.embed_photos([Photo.of_file(Path(sys.argv[3]))] * 6, Means())
print(len(found.photos), memory("VmHWM"))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("mode", ["I;16", "RGBA"])
def test_the_peak_of_the_largest_photos(mode, threads, tmp_path, request):
    path = tmp_path / "bomb.png"
    Image.new(mode, (13_370, 13_380)).save(path)
    folder = request.path.parent
    run = subprocess.run(
        [sys.executable, "-c", PEAK, folder, str(threads), path], capture_output=True, text=True, check=True
    )
    embedded, peak = map(int, run.stdout.split())
    assert embedded == 6
    assert peak < 1_500_000_000
