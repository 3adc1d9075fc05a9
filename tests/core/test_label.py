"""Labels that differ stay apart, or are refused."""

import numpy as np
import pytest
import torch

from gddsg.core.by_class import rows_by_class
from gddsg.core.label import checked_label
from gddsg.errors import InputError


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ("cat", "cat"),
        ("", ""),
        (np.str_("cat"), "cat"),
        (7, 7),
        (np.int8(7), 7),
        (7.0, 7),
        (True, 1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2.0**53 - 1, 2**53 - 1),
    ],
)
def test_labels_become_plain(given, label):
    assert checked_label(given) == label
    assert type(checked_label(given)) is type(label)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("a\0", "NUL"),
        ("a\0b", "NUL"),
        (2**63, r"2\^63 - 1"),
        (-(2**63) - 1, r"2\^63 - 1"),
        (10**400, r"2\^63 - 1"),
        (2.0**53, "integers"),
        (1.5, "neither a whole number nor a str"),
        (float("nan"), "neither a whole number nor a str"),
        (b"cat", "neither a whole number nor a str"),
        (None, "neither a whole number nor a str"),
        ((1,), "neither a whole number nor a str"),
    ],
)
def test_labels_that_could_be_mistaken_are_refused(label, message):
    with pytest.raises(InputError, match=message):
        checked_label(label)


def test_rows_of_labels_that_an_array_would_merge_stay_apart():
    found = rows_by_class(torch.arange(3.0)[:, None], ["a", "a\0", "a"])
    assert [(label, rows.flatten().tolist()) for label, rows in found] == [("a", [0.0, 2.0]), ("a\0", [1.0])]
