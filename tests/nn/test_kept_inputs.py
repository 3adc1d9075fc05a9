"""Inputs that are kept: the same as computed anew, each computed once, and no more of them than there is room for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from tests.nn.toy_training import images_and_targets

from gddsg.data.images import Images
from gddsg.nn.kept_inputs import KeptInputs


class Counting:
    """Mean colours of images, and how many were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, images):
        self.asked.append(len(images))
        return torch.from_numpy(images.pixels(4).mean((1, 2)).astype(np.float32))


def filled(kept, images):
    inputs = torch.full((len(images), 3), torch.nan)
    kept.fill(inputs, images)
    return inputs


def test_an_image_is_computed_once_wherever_it_stands():
    images, _ = images_and_targets()
    compute, plain = Counting(), Counting()
    kept = KeptInputs(compute, at_once=4)
    assert torch.equal(filled(kept, images[:10]), plain(images[:10]))
    assert compute.asked == [4, 4, 2]
    some = images[[12, 3, 7]]
    assert torch.equal(filled(kept, some), plain(some))
    assert compute.asked == [4, 4, 2, 1]


def test_the_same_image_is_known_by_its_pixels_alone():
    images, _ = images_and_targets()
    compute = Counting()
    kept = KeptInputs(compute, at_once=64)
    before = filled(kept, images)
    assert torch.equal(filled(kept, images.bare()), before)
    assert compute.asked == [len(images)]


def test_what_was_given_out_can_be_written_to():
    images, _ = images_and_targets()
    kept = KeptInputs(Counting(), at_once=64)
    first = filled(kept, images)
    before = first.clone()
    first.zero_()
    assert torch.equal(filled(kept, images), before)


def test_those_wanted_least_lately_make_room():
    pixels = np.arange(5, dtype=np.uint8)[:, None, None, None].repeat(4, 1).repeat(4, 2).repeat(3, 3)
    images = Images.of(pixels)
    compute = Counting()
    kept = KeptInputs(compute, at_once=1, most_bytes=3 * 12)  # three numbers of four bytes each
    for row in (0, 1, 2, 0, 3, 0, 1):  # 3 takes the place of 1, which then takes that of 2
        assert filled(kept, images[[row]])[0].tolist() == [row] * 3
    assert len(compute.asked) == 5


def test_without_room_nothing_is_kept_and_all_is_right():
    images, _ = images_and_targets()
    compute = Counting()
    kept = KeptInputs(compute, at_once=64, most_bytes=0)
    assert torch.equal(filled(kept, images), filled(kept, images))
    assert compute.asked == [len(images)] * 2


def test_threads_share_what_is_kept():
    images, _ = images_and_targets()
    kept, expected = KeptInputs(Counting(), at_once=3, most_bytes=100), Counting()(images)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: filled(kept, images), range(40)))
    assert all(torch.equal(one, expected) for one in found)
