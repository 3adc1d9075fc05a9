"""The studio without HTTP: undo, other processes, pictures, advice."""

import json

import numpy as np
import pytest
from tests.serve.samples import photos

from gddsg.data.dataset import PhotoListing
from gddsg.data.photo import Photo
from gddsg.errors import DataError, UnknownClassError
from gddsg.photos import PhotoClassifier
from gddsg.serve.answers import Question
from gddsg.serve.faults import RequestError
from gddsg.serve.studio import THUMBNAILS_SHOWN
from gddsg.store import read_model


@pytest.fixture
def studio(make_studio, clock):
    studio = make_studio(clock=clock)
    for colour in ("red", "green"):
        studio.teach(colour, photos(colour))
    return studio


def test_what_was_forgotten_comes_back_bit_by_bit(studio, tmp_path):
    before = read_model(tmp_path / "m.gddsg").cards["red"].to_bytes()
    number = studio.forget("red")["undo"]
    assert "red" not in read_model(tmp_path / "m.gddsg").cards
    assert studio.undo(number) == {"restored": "red"}
    assert read_model(tmp_path / "m.gddsg").cards["red"].to_bytes() == before
    assert studio.undo(number) == {"restored": "red"}  # asked once more
    assert read_model(tmp_path / "m.gddsg").cards["red"].count == 6


def test_undo_is_over_after_a_minute_and_nothing_is_left(studio, clock):
    card = studio.current().model.cards["red"].to_bytes()
    number = studio.forget("red")["undo"]
    clock.now += 60
    with pytest.raises(RequestError) as refused:
        studio.undo(number)
    assert refused.value.status == 410
    studio.purge()
    assert card[200:400] not in studio.journal.path.read_bytes()


def test_undo_does_not_double_what_was_taught_again(studio, tmp_path):
    number = studio.forget("red")["undo"]
    studio.teach("crimson", photos("red", 2))
    with pytest.raises(RequestError) as refused:
        studio.undo(number)
    assert refused.value.status == 409
    studio.forget("crimson")
    assert studio.undo(number) == {"restored": "red"}
    assert read_model(tmp_path / "m.gddsg").labels == ("green", "red")


def test_undo_does_not_replace_a_class_of_the_same_name(studio):
    number = studio.forget("red")["undo"]
    studio.teach("red", photos("blue", 2))
    with pytest.raises(RequestError) as refused:
        studio.undo(number)
    assert refused.value.code == "taught_again"


def test_forgetting_and_renaming_again_count_as_done(studio):
    number = studio.forget("red")["undo"]
    assert studio.forget("red", again=True)["undo"] == number
    with pytest.raises(UnknownClassError, match="no class 'red'"):
        studio.forget("red")
    studio.rename("green", "lime")
    assert studio.rename("green", "lime", again=True)["name"] == "lime"
    with pytest.raises(UnknownClassError):
        studio.rename("green", "lime")


def test_what_another_process_learns_is_seen_at_once(studio, tmp_path, means):
    other = PhotoClassifier(tmp_path / "m.gddsg", cache=studio._cache)
    pixels = np.full((24, 24, 3), (40, 40, 200), dtype=np.uint8)
    other.learn_photos(PhotoListing((Photo.of_pixels(pixels, "blue", "a"), Photo.of_pixels(pixels + 3, "blue", "b"))))
    assert [one["name"] for one in studio.classes()["classes"]] == ["blue", "green", "red"]
    found = studio.ask(Question(tuple(photos("blue", 1)))).result(30)
    assert found.predictions[0].label == "blue"


def test_the_same_photo_as_two_classes_is_left_out(studio):
    found = studio.teach("pink", [*photos("red", 2), *photos("blue", 1)])
    assert (found["learnt"], [one["reason"] for one in found["skipped"]]) == (1, ["already learnt as 'red'"] * 2)
    with pytest.raises(DataError, match="No photo could be learnt"):
        studio.teach("rose", photos("red", 2))


def test_pictures_are_kept_only_where_they_may(make_studio, tmp_path):
    first = make_studio()
    first.teach("red", photos("red"))
    assert first.classes()["classes"][0]["thumbnails"] == []
    first.close()
    second = make_studio(keep_photos=True)
    second.teach("green", photos("green", 15))
    second.teach("red", photos("red", 8))
    green, red = second.classes()["classes"]
    assert (len(green["thumbnails"]), len(red["thumbnails"])) == (THUMBNAILS_SHOWN, 2)
    assert second.thumbnail(green["thumbnails"][0]).startswith(b"\xff\xd8")
    second.rename("green", "lime")
    assert second.describe_class("lime")["thumbnails"] == green["thumbnails"]
    second.close()
    third = make_studio()
    assert third.journal.thumbnail_samples() == frozenset()
    with pytest.raises(RequestError):
        third.thumbnail(green["thumbnails"][0])


def test_pictures_of_a_forgotten_class_go_when_undo_is_over(make_studio, clock):
    studio = make_studio(keep_photos=True, clock=clock)
    for colour in ("red", "green"):
        studio.teach(colour, photos(colour))
    studio.forget("red")
    studio.purge()
    assert len(studio.journal.thumbnail_samples()) == 12
    clock.now += 61
    studio.purge()
    assert len(studio.journal.thumbnail_samples()) == 6


def test_photos_unlike_their_class_are_told(studio):
    studio.teach("blue", photos("blue", 8))
    found = studio.teach("red", [*photos("red", 3, 40), *photos("blue", 1, 90)])
    assert [one["name"] for one in found["unlike"]] == ["blue 90.png"]
    assert found["unlike"][0]["probability"] < 0.05
    told = [one for one in studio.advice() if one.kind == "unlike"]
    assert (told[0].classes, "blue 90.png" in told[0].text) == (("red",), True)
    studio.forget("red")
    assert not [one for one in studio.advice() if one.kind == "unlike"]


def test_each_answer_is_of_one_model(studio):
    questions = [Question(tuple(photos("red", 1, 30 + i))) for i in range(20)]
    before = [studio.ask(one).result(60) for one in questions]
    futures = [studio.ask(one) for one in questions]
    studio.teach("blue", photos("blue"))
    after = [studio.ask(one).result(60) for one in questions]
    assert before[0].revision != after[0].revision
    for future, first, last in zip(futures, before, after, strict=True):
        found = future.result(60)
        expected = {first.revision: first, last.revision: last}[found.revision]
        assert dict(found.predictions[0].top) == pytest.approx(dict(expected.predictions[0].top))


def test_evaluation_counts_what_was_learnt(studio):
    labelled = [Photo.of_pixels(np.full((24, 24, 3), 7 * i, dtype=np.uint8), "grey", str(i)) for i in range(3)]
    found = studio.evaluate([*labelled], None, None)
    assert (found["photos"], found["accuracy"], found["unlearnt"]) == (3, 0.0, ["grey"])
    json.dumps(found, allow_nan=False)
