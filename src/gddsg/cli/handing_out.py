"""The commands that hand something out: export, features, demo, cache."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gddsg.cli.common import Device, ModelFile, Strict, app, open_classifier, print_skipped
from gddsg.cli.console import AsJson, busy, counted, out, print_json, progress_bar
from gddsg.cli.streams import work_is_done


@app.command(epilog="Example:  gddsg export animals.gddsg --onnx animals.onnx")
def export(
    model: ModelFile,
    onnx: Annotated[Path, typer.Option(help="File to write: features in, probabilities out.")],
    photos: Annotated[
        bool, typer.Option("--photos", help="Photos in, with the embedded backbone in the file.")
    ] = False,
) -> None:
    """Write the model as an ONNX network, checked to give the same probabilities."""
    from gddsg.export import check_photo_export, export_onnx, export_photo_onnx

    what = "features"
    with open_classifier(model, device="cpu") as classifier, busy("Exporting"):
        learnt = classifier.model
        if photos:
            check_photo_export((learnt.settings.backbone or "unknown@").rpartition("@")[0])
            network = classifier.backbone
            gap = export_photo_onnx(learnt, network, onnx)
            _, height, width = network.preprocess.shape
            what = f"photos of {width} × {height} pixels"
        else:
            gap = export_onnx(learnt, onnx)
    work_is_done()
    out.print(f"{onnx}: {what} to probabilities; largest difference to the model {gap:.1e}.")


@app.command(epilog="Example:  gddsg features photos/ --out photos.npz")
def features(
    source: Annotated[Path, typer.Argument(help="Folder of photos, one class a folder; or a list.", metavar="FOLDER")],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="Feature file to write, .npz.")],
    backbone: Annotated[
        str | None, typer.Option(help="efficientnet-lite0, vit-b16, hf:NAME, …; that of a new model unless named.")
    ] = None,
    device: Device = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Write the features of photos to a file, for `gddsg bench run --features` or a program of yours.

    FOLDER with train/ and test/ keeps this division; else a fifth of the photos of each class become test photos.
    """
    from gddsg.backbones import load_backbone
    from gddsg.backbones.feature_cache import FeatureCache
    from gddsg.photos import write_features

    with FeatureCache() as kept, progress_bar("Embedding") as progress:
        network = None if backbone is None else load_backbone(backbone, device)
        report = write_features(source, file, network, kept, device=device, strict=strict, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
        return
    out.print(
        f"{file}: {report.feature_dim} features of each of {counted(report.train + report.test, 'photo')} "
        f"({report.train} for training, {report.test} for the test) of "
        f"{counted(len(report.classes), 'class', 'classes')}, by {report.backbone}."
    )
    print_skipped(report.skipped)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to put pictures and the model.")] = Path("demo"),
) -> None:
    """Learn letters, digits and Greek in two opposite orders, end in the same model, forget one, predict some."""
    from gddsg.demo import run

    run(folder, out)
    work_is_done()


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all features.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or clear the features of photos that were embedded before.

    They are in your cache folder, or where the variable GDDSG_CACHE says, and
    take up to 4096 MB, or what GDDSG_CACHE_MB says; the oldest go first.
    """
    from gddsg.backbones.feature_cache import FeatureCache
    from gddsg.errors import DataError

    with FeatureCache() as features:
        sizes = features.sizes()
        deleted = features.clear() if clear else 0
        if features.trouble:
            raise DataError(f"The cache does not work: {features.trouble}")
        if clear:
            work_is_done()
            out.print(f"Deleted {counted(deleted, 'vector')} from {features.path}.")
        elif as_json:
            print_json({"path": str(features.path), "backbones": [asdict(size) for size in sizes]})
        else:
            for size in sizes:
                out.print(f"{size.backbone}: {counted(size.vectors, 'vector')}, {size.size / 1e6:.1f} MB")
            out.print(f"{counted(sum(s.vectors for s in sizes), 'vector')} in {features.path}")
