"""The split is seeded, stratified and stable; shared helpers say what is wrong."""

from pathlib import Path

import pytest

from gddsg.data.dataset import ImageDataset, not_found, refuse_missing, stratified_split
from gddsg.data.photo import Photo
from gddsg.errors import DataError, InputError


def photos_of(label, numbers):
    return [Photo.of_file(Path("photos") / label / f"{number}.jpg", label) for number in numbers]


def test_classes_are_the_sorted_labels_of_the_training_photos():
    dataset = ImageDataset("pets", (Photo("1", "dog"), Photo("2", "cat"), Photo("3", "dog")), (Photo("4", "hen"),))
    assert dataset.classes == ("cat", "dog")


def test_split_parts_every_class_near_the_share_and_loses_nothing():
    photos = photos_of("cat", range(500)) + photos_of("dog", range(300))
    train, test = stratified_split(photos, 0.25, seed=3)
    assert sorted(train + test, key=photos.index) == photos
    assert list(train) == sorted(train, key=photos.index)
    for label, n in (("cat", 500), ("dog", 300)):
        assert sum(photo.label == label for photo in test) == pytest.approx(n / 4, rel=0.25)


def test_split_depends_on_the_seed_alone_not_on_order_or_folder():
    photos = photos_of("cat", range(50))
    moved = [Photo.of_file(Path("elsewhere") / photo.path.name, photo.label) for photo in reversed(photos)]
    names = [{photo.path.name for photo in stratified_split(some, seed=1)[1]} for some in (photos, moved)]
    assert names[0] == names[1]
    assert stratified_split(photos, seed=1) != stratified_split(photos, seed=2)


def test_photos_added_later_leave_the_old_ones_where_they_are():
    train, test = stratified_split(photos_of("cat", range(40)))
    more_train, more_test = stratified_split(photos_of("cat", range(80)) + photos_of("dog", range(9)))
    assert set(train) < set(more_train)
    assert set(test) < set(more_test)


@pytest.mark.parametrize("share", [0.001, 0.999])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_classes_keep_a_training_and_if_possible_a_test_photo(n, share):
    for seed in range(20):
        train, test = stratified_split(photos_of("cat", range(n)), share, seed)
        assert len(train) >= 1
        assert len(test) >= min(1, n - 1)


def test_photos_of_the_same_name_in_one_class_can_be_parted():
    twins = [Photo.of_file(Path(folder) / "1.jpg", "cat") for folder in "ab"]
    assert [len(part) for part in stratified_split(twins)] == [1, 1]


def test_pixels_are_split_by_their_name():
    assert stratified_split([]) == ((), ())
    assert sum(map(len, stratified_split([Photo(f"cifar/{n}", "a") for n in range(5)]))) == 5


@pytest.mark.parametrize("share", [0, 1, -1, 2, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InputError, match="between 0 and 1"):
        stratified_split([], share)


def test_a_missing_data_set_names_layout_page_and_remedy():
    text = str(not_found("Birds", Path("here"), "images/\n", "https://birds", "Fetch it."))
    assert all(part in text for part in ("Birds", "here", "images/", "https://birds", "Fetch it."))


def test_missing_photos_are_counted_and_the_first_is_named(tmp_path):
    there = tmp_path / "1.jpg"
    there.touch()
    refuse_missing("Birds", (Photo.of_file(there),))
    with pytest.raises(DataError, match=r"1 of 2 photos is missing.*2\.jpg"):
        refuse_missing("Birds", (Photo.of_file(there), Photo.of_file(tmp_path / "2.jpg")))
    with pytest.raises(DataError, match="0 of 0"):
        refuse_missing("Birds", ())
