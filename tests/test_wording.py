"""How messages put numbers, lists and names."""

import pytest

from gddsg.wording import counted, listed, similar_names

ANIMALS = ["001.Arctic_Fox", "Grey wolf", "Harbour Seal", "owl"]


@pytest.mark.parametrize(
    ("n", "noun", "text"), [(0, "photo", "0 photos"), (1, "class", "1 class"), (2, "class", "2 classes")]
)
def test_nouns_agree_with_numbers(n, noun, text):
    assert counted(n, noun) == text


def test_a_plural_of_its_own():
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def test_lists_say_how_much_they_leave_out():
    assert listed([]) == ""
    assert listed(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed([str(number) for number in range(40)]).endswith("'9' and 30 more")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("grey  wolf", ["Grey wolf"]),
        ("HARBOUR SEAL", ["Harbour Seal"]),
        ("arctic_fox", ["001.Arctic_Fox"]),
        ("fox", ["001.Arctic_Fox"]),  # a part of a name, far from the whole
        ("wombat", []),
        ("", []),
        (" ", []),
    ],
)
def test_the_names_that_may_have_been_meant(name, meant):
    assert similar_names(name, ANIMALS) == meant


def test_of_many_that_may_have_been_meant_a_few_are_named():
    assert len(similar_names("bird", [f"bird {number}" for number in range(100)])) == 3
