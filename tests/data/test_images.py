"""Images are picked without being looked at, decoded when asked, and augmented as the generator says."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gddsg.data import ImageDataset, Images, Photo
from gddsg.errors import InputError, InputTypeError, PhotoError


def gradient(height=40, width=60):
    """Red grows to the right, green downwards."""
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([columns * 255 // (width - 1), rows * 255 // (height - 1), rows * 0 + 90], axis=2).astype(np.uint8)


@pytest.fixture
def photos(tmp_path):
    """Three photos in files, of different shapes, and one in memory."""
    shapes = [(40, 60), (60, 40), (30, 30)]
    for number, shape in enumerate(shapes):
        Image.fromarray(gradient(*shape)).save(tmp_path / f"{number}.png")
    files = [Photo.of_file(tmp_path / f"{number}.png", "cat") for number in range(3)]
    return [*files, Photo.of_pixels(gradient(20, 30), "dog", "memory/3")]


def numbered(n=10):
    """Images that tell their number by their colour."""
    return Images.of(np.arange(n, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 6, 3), dtype=np.uint8) * 10)


def colours(images):
    return (images.pixels(4)[:, 0, 0, 0] // 10).tolist()


@pytest.mark.parametrize("rows", [[3, 1, 1], np.array([3, 1, 1]), slice(2, 9, 3), np.arange(10) % 4 == 0, [], [-1, 0]])
def test_rows_are_picked_as_from_an_array(rows):
    assert (
        colours(numbered()[rows])
        == np.arange(10)[np.array(rows, dtype=int) if isinstance(rows, list) else rows].tolist()
    )
    assert (
        colours(numbered()[::-1][rows])
        == np.arange(10)[::-1][np.array(rows, dtype=int) if isinstance(rows, list) else rows].tolist()
    )
    assert np.array_equal(numbered().pixels(4, rows), numbered()[rows].pixels(4))


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    images = Images.of([Photo.of_file(tmp_path / f"{number}.png") for number in range(5)])  # no such files
    assert len(images) == 5
    some = images[[3, 4]]
    assert len(some) == 2
    with pytest.raises(PhotoError, match=r"3\.png"):
        some.pixels(8)


def test_a_damaged_photo_is_named(photos, tmp_path):
    (tmp_path / "1.png").write_bytes(Path(photos[1].path).read_bytes()[:100])
    images = Images.of(photos)
    for ask in (lambda: images.pixels(8), lambda: images.augmented(8, np.random.default_rng(0))):
        with pytest.raises(PhotoError, match=r"1\.png: damaged"):
            ask()
    assert images.pixels(8, [0, 2, 3]).shape == (3, 8, 8, 3)


def test_the_test_transform_is_the_central_square(photos):
    made = Images.of(photos).pixels(20)
    assert made.dtype == np.uint8
    assert made.shape == (4, 20, 20, 3)
    wide, tall = made[0].astype(int), made[1].astype(int)
    # of the wide one a third is cut off at the sides, nothing above and below; of the tall one the other way round
    np.testing.assert_allclose(wide[0, [0, -1], 0], [255 / 6, 255 * 5 / 6], atol=8)
    np.testing.assert_allclose(wide[[0, -1], 0, 1], [0, 255], atol=8)
    np.testing.assert_allclose(tall[[0, -1], 0, 1], [255 / 6, 255 * 5 / 6], atol=8)
    zoomed = Images.of(photos).pixels(20, crop=0.5)[2].astype(int)
    np.testing.assert_allclose(zoomed[0, [0, -1], 0], [255 / 4, 255 * 3 / 4], atol=10)


def test_an_image_of_the_size_asked_for_is_left_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    np.testing.assert_array_equal(Images.of(pixels).pixels(16), pixels)


def test_the_same_generator_gives_the_same_pixels_whatever_the_shapes(photos):
    images = Images.of(photos)
    first = images.augmented(16, np.random.default_rng(3))
    np.testing.assert_array_equal(images.augmented(16, np.random.default_rng(3)), first)
    assert (images.augmented(16, np.random.default_rng(4)) != first).any()
    # another image in front changes nothing about those behind it
    other = Images.of([photos[2], *photos[1:]])
    np.testing.assert_array_equal(other.augmented(16, np.random.default_rng(3))[1:], first[1:])
    generator = np.random.default_rng(3)
    batches = [images.augmented(16, generator, rows) for rows in ([0, 1], [2, 3])]
    np.testing.assert_array_equal(np.concatenate(batches), first)


def test_what_another_looks_at_is_skipped(photos):
    images = Images.of(photos)
    one, other = np.random.default_rng(0), np.random.default_rng(0)
    images.skip(2, other)
    np.testing.assert_array_equal(images.augmented(8, one)[2:], images[2:].augmented(8, other))
    assert one.random() == other.random()


def test_a_digest_knows_every_image_and_its_place(photos, monkeypatch):
    images, pixels = Images.of(photos), np.stack([gradient(), gradient()[::-1]])
    with monkeypatch.context() as patch:
        patch.setattr(Photo, "image", lambda *_: pytest.fail("nothing has to be decoded"))
        found = images.digest()
    assert found == Images.of(photos).digest() == images.bare().digest()
    assert len({found, images[::-1].digest(), images[:3].digest(), images[[0, 1, 2, 2]].digest()}) == 4
    other = pixels.copy()
    other[1, 5, 5, 0] ^= 1
    digests = [Images.of(array).digest() for array in (pixels, other, pixels[::-1], pixels.reshape(2, 60, 40, 3))]
    assert len(set(digests)) == 4
    assert Images.of(pixels)[[1, 0]].digest() == digests[2]


def test_augmented_parts_lie_within_the_limits():
    """Colours tell where a part was cut: red from left to right, green from top to bottom."""
    images = Images.of(np.repeat(gradient(100, 100)[None], 400, axis=0))
    made = images.augmented(32, np.random.default_rng(0), scale=(0.2, 0.5)).astype(float)
    across = made[:, 16, -1, 0] - made[:, 16, 0, 0]
    down = made[:, -1, 16, 1] - made[:, 0, 16, 1]
    mirrored = across < 0
    assert 0.4 < mirrored.mean() < 0.6
    assert (down > 0).all()
    areas, shapes = np.abs(across) * down / 255**2, np.abs(across) / down
    assert 0.17 < areas.min() < 0.25
    assert 0.43 < areas.max() < 0.53
    assert 0.7 < shapes.min() < 0.8
    assert 1.25 < shapes.max() < 1.43
    assert not (images.augmented(32, np.random.default_rng(0), flip=0).astype(float)[:, 16, 0, 0] > 250).any()


def test_a_panorama_that_no_draw_fits_is_cut_in_the_middle():
    images = Images.of(gradient(10, 400)[None])
    made = images.augmented(32, np.random.default_rng(0), scale=(1.0, 1.0), flip=0.0).astype(int)[0]
    assert abs(made[16, 16, 0] - 127) < 8
    assert made[0, 0, 1] < 30
    assert made[-1, 0, 1] > 225


def test_images_cannot_be_changed():
    pixels = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    images = Images.of(pixels)
    pixels[:] = 255
    assert not images.pixels(4).any()
    with pytest.raises(ValueError, match="read-only"):
        images.source[:] = 1
    made = images.pixels(4)
    made[:] = 9  # what was handed out is the caller's own
    assert not images.pixels(4).any()


def test_a_pickle_holds_the_chosen_rows_alone(photos):
    many = Images.of(np.zeros((500, 8, 8, 3), dtype=np.uint8))
    assert len(pickle.dumps(many[:5])) < 3000
    for images in (numbered()[[7, 2]], Images.of(photos)[[3, 0]]):
        copy = pickle.loads(pickle.dumps(images))
        np.testing.assert_array_equal(copy.pixels(8), images.pixels(8))


def test_bare_images_look_the_same_and_lead_nowhere(photos):
    for images in (numbered()[[7, 2]], Images.of(photos)[[3, 0]]):
        bare = images.bare()
        np.testing.assert_array_equal(bare.pixels(8), images.pixels(8))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(bare)).pixels(8), images.pixels(8))
        np.testing.assert_array_equal(bare.bare()[[1]].pixels(8), images[[1]].pixels(8))
        assert len(bare.source) == 2
        assert bare.rows.tolist() == [0, 1]
    (in_memory, in_a_file), behind = bare.source, photos[0]
    assert {(photo.name, photo.label, photo.path) for photo in bare.source} == {("a photo", "", None)}
    assert not np.shares_memory(in_memory.pixels, photos[3].pixels)
    content = in_a_file.read()
    assert (content, in_a_file.size()) == (behind.read(), behind.size())
    assert in_a_file.decoded_bytes(content, 8) == behind.decoded_bytes(content, 8)


def test_a_bare_photo_that_is_damaged_is_named_all_the_same(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    with pytest.raises(PhotoError, match=r"broken\.jpg"):
        Images.of([Photo.of_file(tmp_path / "broken.jpg", "cat")]).bare().pixels(8)


def test_images_are_made_of_what_holds_images(photos):
    images = Images.of(photos)
    assert Images.of(images) is images
    assert "4 of photos" in repr(images)
    assert len(Images.of([])) == 0
    assert Images.of([]).pixels(8).shape == (0, 8, 8, 3)
    for wrong in ("photo.jpg", [1, 2], None, ["a.jpg"]):
        with pytest.raises(InputTypeError, match="expected images"):
            Images.of(wrong)
    for pixels in (np.zeros((3, 8, 8), np.uint8), np.zeros((3, 8, 8, 3)), np.zeros((3, 0, 8, 3), np.uint8)):
        with pytest.raises(InputError, match="uint8"):
            Images.of(pixels)


@pytest.mark.parametrize(
    "ask",
    [
        lambda images: images[3],
        lambda images: images[[[1, 2]]],
        lambda images: images.pixels(0),
        lambda images: images.pixels(8.5),
        lambda images: images.pixels(8, crop=0),
        lambda images: images.augmented(8, np.random.default_rng(0), scale=(0.5, 0.1)),
        lambda images: images.augmented(8, np.random.default_rng(0), ratio=(0, 1)),
        lambda images: images.augmented(8, np.random.default_rng(0), flip=2),
    ],
)
def test_what_makes_no_sense_is_refused(ask):
    with pytest.raises(InputError, match="expected"):
        ask(numbered())


def test_a_data_set_of_photos_gives_inputs_and_labels(photos):
    data = ImageDataset("pets", tuple(photos), tuple(photos[2:]))
    assert data.train_labels.tolist() == ["cat", "cat", "cat", "dog"]
    assert data.test_labels.tolist() == ["cat", "dog"]
    assert data.train_inputs is data.train_inputs
    np.testing.assert_array_equal(data.test_inputs.pixels(8), data.train_inputs[2:].pixels(8))
