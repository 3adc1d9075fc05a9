"""Photos and features to learn, and the models that come of them without Ray."""

import io
import tarfile

import numpy as np
from PIL import Image

from gddsg.backbones import FeatureCache
from gddsg.data.dataset import FeatureDataset
from gddsg.data.feature_file import write_feature_file

SETTINGS = {"projection_dim": 50}


def pixels(seed, tint):
    colours = np.random.default_rng(seed).integers(0, 90, (20, 20, 3))
    colours[..., tint] += 120
    return Image.fromarray(colours.astype(np.uint8))


def png(seed, tint):
    content = io.BytesIO()
    pixels(seed, tint).save(content, "PNG")
    return content.getvalue()


def photo_folder(folder, each=9):
    for tint, name in enumerate(("red", "green", "blue")):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            (folder / name / f"{number:03}.png").write_bytes(png(1000 * tint + number, tint))
    return folder


def tar_shard(path, folder):
    with tarfile.open(path, "w") as archive:
        for number, photo in enumerate(sorted(folder.glob("*/*.png"))):
            for ending, content in ((".png", photo.read_bytes()), (".cls", photo.parent.name.encode() + b"\n")):
                entry = tarfile.TarInfo(f"{number:05}{ending}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return path


def parquet_photos(path, folder, **columns):
    import pyarrow
    import pyarrow.parquet

    photos = sorted(folder.glob("*/*.png"))
    images = [{"bytes": photo.read_bytes(), "path": photo.name} for photo in photos]
    table = {columns.get("image", "image"): images, columns.get("label", "label"): [one.parent.name for one in photos]}
    pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=10)
    return path


def features(n=300, dim=12, seed=0):
    random = np.random.default_rng(seed)
    labels = np.array(["owl", "fox", "elk"])[np.arange(n) % 3]
    centres = {"owl": 0.0, "fox": 3.0, "elk": 6.0}
    rows = random.normal(size=(n, dim)) + np.array([centres[label] for label in labels])[:, None]
    return rows.astype(np.float32), labels


def npz(path, rows, labels):
    classes = tuple(sorted(set(labels.tolist())))
    write_feature_file(FeatureDataset("some", rows, labels, rows[:1], labels[:1], classes), path)
    return path


def local_model(path, *folders):
    """By the engine of this program."""
    from tests.scale.tiny import NAME, load

    from gddsg.photos import PhotoClassifier
    from gddsg.photos.model_backbone import ModelBackbone

    with FeatureCache(None) as cache:
        classifier = PhotoClassifier(path, NAME, cache=cache, settings=SETTINGS)
        classifier._backbone = ModelBackbone(classifier.path, NAME, None, load=load)
        report = classifier.learn(*folders)
        return classifier.model, report
