"""Pre-training of a hybrid ViT: its loss, its lessons, what a kill leaves, and what it refuses."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch

from gddsg.backbones import load_backbone
from gddsg.backbones.stem import Stem
from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError
from gddsg.files import locked
from gddsg.nn import lessons as lessons_module
from gddsg.nn.distillation import Plan, Student, new_vit, pretrain
from gddsg.nn.lessons import Lessons
from gddsg.nn.training import Recipe, watching
from gddsg.nn.training_data import Batch

SMALL = Plan(epochs=4, batch_size=8, blocks=2, width=64, rate=2e-3)


def photo(i, label):
    noise = np.random.default_rng(i).integers(-60, 60, (6, 6, 3))
    pixels = np.clip((60 if label == "a" else 190) + noise, 0, 255).astype(np.uint8)
    return Photo.of_pixels(pixels.repeat(4, 0).repeat(4, 1), label, f"{label}/{i}")


@pytest.fixture(scope="module")
def photos():
    return [photo(i, "ab"[i % 2]) for i in range(40)]


@pytest.fixture(scope="module")
def stem(shared_cache):
    return Stem("cpu", shared_cache)


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
    """A whole pre-training: what it told, and what came of it."""
    losses, told = [], []
    out = tmp_path_factory.mktemp("pretrained") / "vit"
    with watching(lambda progress: losses.append(progress.loss)):
        found = pretrain(photos, out, SMALL, about="squares", tell=lambda *far: told.append(far))
    return found, losses, told


# ---------------------------------------------------------------- what comes of it


def test_the_loss_falls(made):
    found, losses, told = made
    assert len(losses) == 4 * 5
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert told == [(40, 40)]
    assert found.skipped == ()


def test_the_folder_opens_as_a_backbone(made, photos):
    found, *_ = made
    backbone = load_backbone(f"hf:{found.folder}", "cpu")
    assert backbone.feature_dim == 64
    features = backbone.embed(np.stack([backbone.preprocess(one.image(b"", 0)) for one in photos[:6]]))
    assert np.isfinite(features).all()
    assert not found.folder.with_name("vit.training").exists()


def test_the_card_says_how_it_was_made(made):
    found, *_ = made
    card = (found.folder / "README.md").read_text()
    for part in ("40 photos (squares)", "2 blocks of width 64", "of 2 classes", "4 epochs", "Apache", "0.002"):
        assert part in card
    assert found.origin.photos == 40
    assert 0 <= found.origin.agreement <= 1
    assert str(found.folder) not in card


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(made, photos, tmp_path):
    before = torch.get_rng_state()
    again = pretrain(photos, tmp_path / "again", SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert weights(again.folder) == weights(made[0].folder)
    other = pretrain(photos, tmp_path / "other", Plan(1, 8, 2, 64, seed=1))
    assert weights(other.folder) != weights(again.folder)


def weights(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


# ---------------------------------------------------------------- killed in between


class Killed(BaseException):
    pass


def test_a_run_killed_while_training_goes_on(made, photos, tmp_path, monkeypatch):
    def kill(progress):
        if progress.step == 13:  # in the third epoch
            raise Killed

    with pytest.raises(Killed), watching(kill):
        pretrain(photos, tmp_path / "vit", SMALL)
    assert not (tmp_path / "vit").exists()
    steps = []
    monkeypatch.setattr(Lessons, "_rows", None)  # no map is computed again
    with watching(lambda progress: steps.append(progress.step)):
        pretrain(photos, tmp_path / "vit", SMALL)
    assert steps == list(range(11, 21))
    assert weights(tmp_path / "vit") == weights(made[0].folder)
    assert [path.name for path in tmp_path.iterdir()] == ["vit"]


def test_lessons_killed_in_a_row_go_on_before_it(photos, stem, tmp_path, monkeypatch):
    monkeypatch.setattr(lessons_module, "_AT_ONCE", 8)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for folder in (whole, torn):
        folder.mkdir()
    some = photos[:24]
    Lessons(whole, some, stem).fill()

    def kill(done, total):
        if done == 16:
            raise Killed

    with pytest.raises(Killed):
        Lessons(torn, some, stem).fill(kill)
    with (torn / "maps.f2").open("ab") as file:  # torn in the middle of a row, after some that have no targets
        file.write(b"x" * 50_000)
    told = []
    Lessons(torn, some, stem).fill(lambda *far: told.append(far))
    assert told == [(24, 24)]
    for name in ("maps.f2", "targets.f2"):
        assert (torn / name).read_bytes() == (whole / name).read_bytes()


def test_lessons_of_other_photos_are_not_used(photos, stem, tmp_path):
    Lessons(tmp_path, photos[:3], stem).fill()
    first = (tmp_path / "maps.f2").read_bytes()
    Lessons(tmp_path, photos[3:5], stem).fill()
    second = (tmp_path / "maps.f2").read_bytes()
    assert len(second) == 2 * 320 * 49 * 2
    assert second != first[: len(second)]


# ---------------------------------------------------------------- lessons and loss against formulas


def test_lessons_are_maps_logits_and_roots(photos, stem, tmp_path):
    lessons = Lessons(tmp_path, photos[:5], stem)
    lessons.fill()
    samples = lessons.samples("cpu")
    assert (len(samples), samples.classes) == (5, 2)
    rows = np.array([3, 0])
    lite = load_backbone("efficientnet-lite0", "cpu")
    features = lite.embed(np.stack([lite.preprocess(photos[i].image(b"", 0)) for i in rows]))
    fc = stem.network.state_dict()
    logits = features @ fc["_fc.weight"].numpy().T + fc["_fc.bias"].numpy()
    batch = samples.batch(rows, np.random.default_rng(0))
    np.testing.assert_allclose(batch.targets[:, :1000], logits, atol=0.02)
    np.testing.assert_allclose(batch.targets[:, 1000:2280], np.sqrt(features), atol=2e-3)
    assert batch.targets[:, 2280].tolist() == [1, 0]
    assert samples.predicted(rows).tolist() == logits.argmax(axis=1).tolist()


def test_half_of_the_maps_are_mirrored_left_and_right(photos, stem, tmp_path):
    lessons = Lessons(tmp_path, photos[:8], stem)
    lessons.fill()
    samples = lessons.samples("cpu")
    rows = np.arange(8)
    plain, seen = samples.maps(rows), set()
    for _ in range(4):
        random = np.random.default_rng(len(seen))
        for map_, own in zip(samples.batch(rows, random).inputs, plain, strict=True):
            mirrored = not torch.equal(map_, own)
            assert torch.equal(map_, own[:, :, torch.arange(6, -1, -1)] if mirrored else own)
            seen.add(mirrored)
    assert seen == {False, True}


@pytest.mark.parametrize("classes", [1, 3])
def test_the_loss_by_hand(classes):
    torch.manual_seed(0)
    student = Student(new_vit(1, 64), classes).double()
    maps, roots = torch.randn(4, 320, 7, 7).double(), torch.rand(4, 1280).double()
    theirs = 3 * torch.randn(4, 1000).double()
    labels = torch.tensor([0, 2, 1, 0]).double()[:, None] % classes
    with torch.no_grad():
        found = student.loss(Batch(maps, torch.cat([theirs, roots, labels], dim=1), np.arange(4)))
        token = student.vit(maps).last_hidden_state[:, 0]
        p, q = theirs.softmax(1), student.to_logits(token).softmax(1)
        expected = (p * (p / q).log()).sum() / 4 + 3 * ((student.to_roots(token) - roots) ** 2).mean()
        if classes > 1:
            chosen = student.to_labels(token).softmax(1)[torch.arange(4), labels[:, 0].long()]
            expected -= 0.5 * chosen.log().mean()
    torch.testing.assert_close(found, expected)


def test_photos_of_one_class_have_no_labels_to_learn(tmp_path):
    one = [photo(i, "a") for i in range(32)]
    found = pretrain(one, tmp_path / "vit", Plan(1, 16, 1, 64))
    assert found.origin.classes == 1
    assert "cross-entropy" not in (found.folder / "README.md").read_text()


def test_the_rate_warms_up_and_falls_to_zero():
    recipe = Recipe(10, 8, 2.0, schedule="warm-cosine")
    assert recipe.rate_in(0) == 0
    assert recipe.rate_in(0, 0.25) == pytest.approx(1.0)
    assert recipe.rate_in(0, 0.5) == pytest.approx(2.0)
    assert recipe.rate_in(5, 0.25) == pytest.approx(1.0)
    assert recipe.rate_in(9, 1 - 1e-9) == pytest.approx(0, abs=1e-6)
    assert Recipe(10, 8, 2.0, schedule="cosine").rate_in(5, 0.9) == pytest.approx(1.0)  # by the epoch alone


def test_gradients_are_shortened(photos, tmp_path):
    """With SGD and a tiny limit no step is longer than rate × limit, whatever the loss."""
    from gddsg.nn.training import train

    class Two:
        device = torch.device("cpu")

        def __len__(self):
            return 2

        def batch(self, rows, random, mine):
            return Batch(torch.ones(len(rows)), torch.ones(len(rows)), rows)

        def digest(self):
            return b""

    one, other = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    train(lambda batch: 300 * one.sum() + 400 * other.sum(), [one, other], Two(), Recipe(1, 2, 1.0, clip=0.5), [0])
    moved = torch.cat([one, other]).detach()
    assert float(moved.norm()) == pytest.approx(0.5, rel=1e-4)
    assert float(moved[2] / moved[0]) == pytest.approx(4 / 3, rel=1e-4)


# ---------------------------------------------------------------- what it refuses


def test_too_few_photos(photos, tmp_path):
    with pytest.raises(DataError, match=r"31 photos to learn from; expected 32 at least"):
        pretrain(photos[:31], tmp_path / "vit", SMALL)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def with_damaged(photos, tmp_path):
    path = tmp_path / "broken.jpg"
    path.write_bytes(b"no photo")
    return [*photos[:33], Photo.of_file(path, "a"), Photo.of_file(tmp_path / "gone.jpg", "b")]


def test_photos_that_cannot_be_read_are_left_out_and_told(with_damaged, tmp_path):
    found = pretrain(with_damaged, tmp_path / "vit", Plan(1, 16, 1, 64))
    assert [one.name.rpartition("/")[2] for one in found.skipped] == ["broken.jpg", "gone.jpg"]
    assert all(one.reason for one in found.skipped)
    assert found.origin.photos == 33


def test_photos_that_cannot_be_read_are_errors_if_strict_or_too_many(with_damaged, tmp_path):
    with pytest.raises(DataError, match=r"2 photos cannot be read, the first of them .*broken.jpg"):
        pretrain(with_damaged, tmp_path / "vit", SMALL, strict=True)
    with pytest.raises(DataError, match=r"31 photos to learn from \(2 photos could not be read\)"):
        pretrain(with_damaged[2:], tmp_path / "vit", SMALL)
    assert not (tmp_path / "vit").exists()


def test_nothing_is_overwritten_unless_told(made, photos, tmp_path):
    out = tmp_path / "vit"
    out.mkdir()
    (out / "diary.txt").write_text("mine")
    for overwrite, remedy in ((False, "say --overwrite"), (True, "has to be a hybrid ViT")):
        with pytest.raises(InputError, match=remedy):
            pretrain(photos, out, SMALL, overwrite=overwrite)
    assert (out / "diary.txt").read_text() == "mine"
    (out / "stem.json").write_text(json.dumps({}))
    pretrain(photos, out, Plan(1, 16, 1, 64), overwrite=True)
    assert not (out / "diary.txt").exists()
    assert load_backbone(f"hf:{out}", "cpu").feature_dim == 64
    assert [path.name for path in tmp_path.iterdir()] == ["vit"]


def test_two_processes_do_not_train_for_one_folder(photos, tmp_path):
    with (
        locked(tmp_path / "vit.training"),
        pytest.raises(InputError, match="Another process is training"),
    ):
        pretrain(photos, tmp_path / "vit", SMALL)


@pytest.mark.parametrize(("blocks", "width"), [(0, 64), (2, 100), (2, 0)])
def test_shapes_that_make_no_sense(photos, tmp_path, blocks, width):
    with pytest.raises(InputError, match="multiple of 64"):
        pretrain(photos, tmp_path / "vit", Plan(1, 8, blocks, width))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_rate_that_makes_no_sense(photos, tmp_path, rate):
    with pytest.raises(InputError, match="rate="):
        pretrain(photos, tmp_path / "vit", Plan(1, 8, 1, 64, rate=rate))
    assert not list(tmp_path.iterdir())


def test_no_folder_to_write_into(photos, tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        pretrain(photos, tmp_path / "a" / "b", SMALL)
