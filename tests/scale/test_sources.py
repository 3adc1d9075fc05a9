import io
import tarfile

import fsspec
import numpy as np
import pytest
from tests.scale.samples import features, npz, parquet_photos, photo_folder, tar_shard

from gddsg.errors import DataError
from gddsg.scale.sizes import Sizes
from gddsg.scale.sources import Columns, open_sources

SIZES = Sizes(photos=4, rows=50, units=2)


def contents(sources):
    photos = [photo for piece in sources.photos for photo in piece.photos()]
    return sorted((photo.label, photo.read()) for photo in photos)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photo_folder(tmp_path_factory.mktemp("photos") / "p", 5)


@pytest.fixture(scope="module")
def expected(folder):
    return sorted((path.parent.name, path.read_bytes()) for path in folder.glob("*/*.png"))


@pytest.fixture
def memory(request):
    place = f"/{request.node.name.replace('[', '-').replace(']', '')}"
    yield place
    fsspec.filesystem("memory").rm(place, recursive=True)


def test_every_kind_of_photos_holds_the_same(folder, expected, tmp_path):
    for source in (folder, tar_shard(tmp_path / "a.tar", folder), parquet_photos(tmp_path / "a.parquet", folder)):
        for name in (str(source), f"file://{source}"):
            assert contents(open_sources([name], SIZES)) == expected, name


@pytest.mark.parametrize("kind", ["folder", "tar", "parquet"])
def test_other_file_systems(kind, folder, expected, tmp_path, memory):
    store = fsspec.filesystem("memory")
    if kind == "folder":
        store.put(str(folder), memory, recursive=True)
    else:
        path = (tar_shard if kind == "tar" else parquet_photos)(tmp_path / f"a.{kind}", folder)
        store.mkdirs(memory, exist_ok=True)
        store.put(str(path), f"{memory}/{path.name}")
    assert contents(open_sources([f"memory:/{memory}"], SIZES)) == expected
    if kind != "folder":
        assert contents(open_sources([f"memory:/{memory}/*.{kind}"], SIZES)) == expected


def rows_of(sources):
    read = [piece.read() for piece in sources.features]
    return np.concatenate([rows for rows, _ in read]), [label for _, labels in read for label in labels]


@pytest.mark.parametrize("compressed", [False, True])
def test_feature_files_come_in_ranges(tmp_path, compressed):
    rows, labels = features(120)
    path = tmp_path / "f.npz"
    (np.savez_compressed if compressed else np.savez)(path, train_features=rows, train_labels=labels)
    sources = open_sources([path], SIZES)
    assert sources.rows == 120
    assert [piece.rows for piece in sources.features] == [50, 50, 20]
    found, names = rows_of(open_sources([path], SIZES))
    assert np.array_equal(found, rows)
    assert names == labels.tolist()


def test_coded_features_and_numbered_classes(tmp_path):
    from gddsg.data.feature_file import feature_file

    path = tmp_path / "f.npz"
    codes = np.random.default_rng(0).integers(0, 256, (60, 5), dtype=np.uint8)
    numbers, scale = np.arange(60) % 2, np.array([1, 2, 3, 4, 5], np.float32)
    np.savez(
        path,
        train_codes=codes,
        test_codes=codes,
        scale=scale,
        train_labels=numbers,
        test_labels=numbers,
        classes=["a", "b"],
    )
    found, names = rows_of(open_sources([path], SIZES))
    assert np.array_equal(found, feature_file(path).train_features)
    assert names == ["ab"[number] for number in numbers]


def test_parquet_features(tmp_path):
    import pyarrow
    import pyarrow.parquet

    rows, labels = features(70)
    table = pyarrow.table({"embedding": list(rows.astype(np.float64)), "species": labels.tolist()})
    pyarrow.parquet.write_table(table, tmp_path / "f.parquet", row_group_size=40)
    with pytest.raises(DataError, match=r"has the columns 'embedding', 'species'; expected a column for labels"):
        open_sources([tmp_path / "f.parquet"], SIZES)
    found, names = rows_of(open_sources([tmp_path / "f.parquet"], SIZES, Columns(labels="species")))
    assert np.array_equal(found, rows)
    assert names == labels.tolist()
    with pytest.raises(DataError, match="a column 'nothing'"):
        open_sources([tmp_path / "f.parquet"], SIZES, Columns("nothing", "species"))
    with pytest.raises(DataError, match="of type string"):
        open_sources([tmp_path / "f.parquet"], SIZES, Columns("species", "species"))


def test_names_that_lead_nowhere(tmp_path, folder):
    (tmp_path / "notes.txt").write_text("no photo")
    for names, message in (
        ([], "No source was given"),
        ([tmp_path / "nothing"], "cannot be found"),
        ([tmp_path / "notes.txt"], "unknown kind"),
        ([str(tmp_path / "*.tar")], "no file at all"),
        (["nowhere://x"], "no such kind of address"),
        ([folder, npz(tmp_path / "f.npz", *features(30))], "models of their own"),
    ):
        with pytest.raises(DataError, match=message):
            open_sources(names, SIZES)


@pytest.mark.parametrize("ending", ["npz", "parquet", "tar"])
def test_damaged_files_are_named(tmp_path, ending):
    path = tmp_path / f"broken.{ending}"
    path.write_bytes(b"PK not at all" * 100)
    with pytest.raises(DataError, match=r"broken\.\w+ is damaged"):
        contents(open_sources([path], SIZES))


def test_an_image_in_a_shard_needs_a_label(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("0001.png")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
    with pytest.raises(DataError, match=r"'0001\.png' has no label. Expected one in 0001\.cls or 0001\.txt"):
        contents(open_sources([tmp_path / "a.tar"], SIZES))
