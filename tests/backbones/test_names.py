"""The grammar of names: parts, sizes, layers, folders."""

import pytest

from gddsg.backbones import resolve_name, spell_out
from gddsg.backbones.names import EMBEDDED, HYBRID, PRESETS, PartName, split_name
from gddsg.backbones.trust import is_trusted, trust
from gddsg.errors import BackboneError

LITE = "efficientnet-lite0"


@pytest.mark.parametrize(
    ("name", "full"),
    [
        (f"{LITE}@288", f"{LITE}@288"),
        (f"{LITE}@0288", f"{LITE}@288"),
        (f"{LITE}@224", LITE),
        ("efficientnet-lite1@240", "efficientnet-lite1"),
        ("efficientnet-lite2@260", "efficientnet-lite2"),
        ("efficientnet-lite2@224", "efficientnet-lite2@224"),
        (f"{LITE}@224/layers4", f"{LITE}/layers4"),
        (f"{LITE}@288/layers04", f"{LITE}@288/layers4"),
        ("hybrid-vit@224", "hybrid-vit"),
        (f"hybrid-vit+{LITE}@288", f"hybrid-vit+{LITE}@288"),
        ("vit-b16@384", "hf:google/vit-base-patch16-224-in21k@384"),
        ("hf:a/b@384/layers2", "hf:a/b@384/layers2"),
        ("resnet18@288+vit-b16", "hf:microsoft/resnet-18@288+hf:google/vit-base-patch16-224-in21k"),
        (f"{LITE}@288+efficientnet-lite2@260", f"{LITE}@288+efficientnet-lite2"),
    ],
)
def test_every_backbone_is_written_in_one_way(name, full):
    assert resolve_name(name) == full
    assert resolve_name(full) == full
    assert spell_out(name) == full


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"{LITE}@288/layers4", [PartName(LITE, 288, 4)]),
        (f"{LITE}+efficientnet-lite2", [PartName(LITE), PartName("efficientnet-lite2")]),
        (f"hf:a/b@96+timm:c+{LITE}/layers2", [PartName("hf:a/b", 96), PartName("timm:c"), PartName(LITE, None, 2)]),
        ("hf:/data/c++/net", [PartName("hf:/data/c++/net")]),
        ("hf:/data/a+b@96", [PartName("hf:/data/a+b", 96)]),
        ("hf:/data/a+b+hf:/data/c+d", [PartName("hf:/data/a+b"), PartName("hf:/data/c+d")]),
        (f"hf:mine+{LITE}s", [PartName(f"hf:mine+{LITE}s")]),
        (f"hf:mine+{LITE}", [PartName("hf:mine"), PartName(LITE)]),
        (f"hf:mine+{LITE}/", [PartName(f"hf:mine+{LITE}/")]),
        ("hf:mine+hybrid-vit", [PartName("hf:mine"), PartName("hybrid-vit")]),
        ("hf:mine+hybrid-vit/", [PartName("hf:mine+hybrid-vit/")]),
        ("hf:net@288/", [PartName("hf:net@288/")]),
        ("hf:net@288/@96", [PartName("hf:net@288/", 96)]),
        ("hf:layers4/@96", [PartName("hf:layers4/", 96)]),
        ("hf:net@v1.0", [PartName("hf:net@v1.0")]),
        ("hf:net@2.0", [PartName("hf:net@2.0")]),
        ("hf:me@home/net", [PartName("hf:me@home/net")]),
    ],
)
def test_a_name_is_divided_only_where_another_begins(name, parts):
    assert split_name(name) == tuple(parts)
    assert split_name(spell_out(name)) == tuple(parts)


def test_pixels_are_known_without_the_network_where_they_can_be():
    name = f"{LITE}+efficientnet-lite2@300+vit-b16@384+resnet18"
    assert [part.pixels for part in split_name(name)] == [224, 300, 384, None]
    assert [part.source for part in split_name(name)] == ["", "", "hf", "hf"]


@pytest.mark.parametrize("pixels", ["0", "31", "1025", "99999", "9" * 500])
@pytest.mark.parametrize("network", [*EMBEDDED, HYBRID, *PRESETS, "hf:a/b", "timm:c", "resnet9000"])
def test_a_size_out_of_range(network, pixels):
    for name in (f"{network}@{pixels}", f"{LITE}+{network}@{pixels}/layers2", f"{network}@{pixels}+{LITE}"):
        with pytest.raises(
            BackboneError, match="expected an input size from 32 to 1024 pixels, such as @288"
        ) as caught:
            resolve_name(name)
        assert len(str(caught.value)) < 250
        assert ("a slash at its end" in str(caught.value)) == network.startswith("hf:")


@pytest.mark.parametrize(
    "end", ["@288@300", "@288@288", "/layers2@288", "/layers2@288/layers2", "@288/layers2/layers2"]
)
def test_a_size_and_layers_are_asked_for_once_and_in_one_order(end):
    with pytest.raises(BackboneError, match=r"twice, or for layers before the size.*efficientnet-lite0@288/layers4"):
        resolve_name(f"{LITE}{end}")


@pytest.mark.parametrize(
    "name",
    [
        *(f"{LITE}{end}" for end in ("@", "@big", "@28.8", "@-288", "@٢٨٨", "@288\n", "+", "+resnet9000", "+hf:")),
        *("", "+", "@288", f"+{LITE}", f"{LITE}++{LITE}@96", f"{LITE} + efficientnet-lite2"),
        *(f"{LITE}+hf:{'x' * 1000}", f"{LITE}+hf:a\x1b[2Jb"),
    ],
)
def test_other_slips_are_shown_how_names_are_written(name):
    with pytest.raises(
        BackboneError, match=r"There is no backbone.*put @288 behind its name.*put \+ between"
    ) as caught:
        resolve_name(name)
    assert str(caught.value).isprintable()


def test_a_part_comes_once():
    with pytest.raises(BackboneError, match="asks for one backbone twice"):
        resolve_name(f"{LITE}+efficientnet-lite2+{LITE}@224")
    assert resolve_name(f"{LITE}+{LITE}@288") == f"{LITE}+{LITE}@288"


def test_a_file_cannot_ask_for_any_number_of_networks():
    names = [f"{LITE}@{32 * n}" for n in range(1, 10)]
    assert resolve_name("+".join(names[:8]))
    with pytest.raises(BackboneError, match="has 9 parts; expected 8 at most"):
        resolve_name("+".join(names))


def test_the_user_must_have_agreed_to_every_part_from_outside(tmp_path, monkeypatch):
    monkeypatch.setenv("GDDSG_CACHE", str(tmp_path / "cache"))
    assert is_trusted(f"{LITE}@288+efficientnet-lite2")
    trust("hf:a/b@96")
    assert is_trusted(f"hf:a/b+{LITE}")
    assert is_trusted("hf:a/b@128/layers2")
    assert not is_trusted("hf:a/b+timm:c")
    assert not is_trusted(f"{LITE}+hf:a/c")
    trust(f"{LITE}+timm:c+hf:a/c@96")
    assert is_trusted("hf:a/b+timm:c+hf:a/c")
