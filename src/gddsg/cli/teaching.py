"""The commands that change or make a model: learn, forget, rename, correct, merge, private."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gddsg.cli.common import (
    SHOWN,
    CaseSensitive,
    Device,
    ModelFile,
    Quality,
    Strict,
    TrustedBackbone,
    app,
    ask_for_trust,
    embedding,
    open_classifier,
    print_skipped,
    say_whom_we_wait_for,
)
from gddsg.cli.console import AsJson, counted, out, print_json, progress_bar
from gddsg.cli.streams import work_is_done
from gddsg.wording import joined

if TYPE_CHECKING:  # heavy: imported by the commands that need it
    from gddsg.photos import LearnReport


class Engine(StrEnum):
    """What does the work of learning."""

    LOCAL = "local"
    RAY = "ray"


@app.command(epilog="Examples:  gddsg learn pets.gddsg photos/   ·   gddsg learn pets.gddsg photos/cat photos/dog")
def learn(
    model: ModelFile,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of photos, one class a folder; or lists, path,label.csv. With --engine ray also Parquet "
            "files, tar shards and feature files (.npz), here or at addresses such as s3://.",
            metavar="FOLDER...",
        ),
    ],
    backbone: Annotated[
        str | None,
        typer.Option(
            help="For a new model, instead of a quality: efficientnet-lite0, vit-b16, hf:NAME, hf:FOLDER, timm:NAME, … "
            "at another size as NAME@288, several side by side as NAME+NAME. For an old one: its folder now, hf:FOLDER."
        ),
    ] = None,
    quality: Annotated[
        Quality | None,
        typer.Option(help="For a new model: the better, the longer a photo takes; good unless named."),
    ] = None,
    device: Device = None,
    strict: Strict = False,
    case_sensitive: CaseSensitive = False,
    projection_dim: Annotated[
        int | None, typer.Option(help="For a new model: M, width of the projection; 0: no heads.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Who works: this program, or workers on Ray.")] = Engine.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, with --engine ray; this machine alone unless named.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="With --engine ray: how many; one a machine or GPU unless named.", min=1)
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="With --engine ray: column of Parquet files with images or features.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="With --engine ray: column of Parquet files with labels.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn photos: new classes, or more photos of known ones. Safe to repeat: known photos are skipped.

    FOLDER holds one folder a class, or the photos of one class, or train/ and test/ (then train/ is learnt).
    """
    settings = {} if projection_dim is None else {"projection_dim": projection_dim}
    if engine is Engine.RAY:
        report = _learn_on_ray(
            model,
            sources,
            address=address,
            workers=workers,
            columns=(column, label_column),
            backbone=backbone,
            quality=None if quality is None else quality.value,
            device=device,
            settings=settings,
            strict=strict,
            case_sensitive=case_sensitive,
        )
    else:
        _refuse_without_ray(address=address, workers=workers, column=column, label_column=label_column)
        with (
            open_classifier(model, backbone, device, settings, quality) as classifier,
            embedding(classifier, "Learning") as progress,
        ):
            report = classifier.learn(*sources, strict=strict, case_sensitive=case_sensitive, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
    else:
        _print_learnt(report)


def _refuse_without_ray(**options: Any) -> None:
    """Options that the engine of this program knows nothing of."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise typer.BadParameter(
            f"{joined(given, len(given))} goes with --engine ray alone. Add that, or leave it out."
        )


def _learn_on_ray(
    model: Path, sources: list[str], columns: tuple[str | None, str | None], **options: Any
) -> LearnReport:
    from gddsg.ray_session import require_ray

    require_ray()  # before anything else is looked at
    from gddsg.scale import learn as learn_on_ray
    from gddsg.scale.sources import Columns

    with progress_bar("Looking at the sources") as update:

        def tell(done: int, total: int) -> None:
            update(done, total if done < total else None, "Embedding" if done < total else "Learning")

        return learn_on_ray(
            model,
            *sources,
            columns=Columns(*columns),
            progress=None if update is None else tell,
            on_wait=partial(say_whom_we_wait_for, model),
            ask=partial(ask_for_trust, model),
            **options,
        )


def _print_learnt(report: LearnReport) -> None:
    total = sum(report.learnt.values())
    new = f", {len(report.new_classes)} of them new" if report.new_classes else ""
    learnt = (
        f"{counted(total, 'photo')} of {counted(len(report.learnt), 'class', 'classes')}{new}" if total else "nothing"
    )
    out.print(f"Learnt {learnt}.")
    for what, newcomers in (("New:", True), ("More of:", False)):
        named = [f"{label} ({n})" for label, n in report.learnt.items() if (label in report.new_classes) == newcomers]
        if named:
            out.print(f"  {what} {joined(named[:SHOWN], len(named))}")
    if report.near_copies:
        copies = [f"{label} ({n})" for label, n in report.near_copies.items()]
        out.print(
            "Near copies of other photos, such as bursts and mirrored or edited ones, weigh no more than one photo: "
            f"{joined(copies[:SHOWN], len(copies))}."
        )
    if report.known:
        left_out = "was left out" if report.known == 1 else "were left out"
        out.print(f"{counted(report.known, 'photo')} had been learnt before and {left_out}.")
    print_skipped(report.skipped)


@app.command(epilog="Example:  gddsg forget animals.gddsg wolf")
def forget(
    model: ModelFile, classes: Annotated[list[str], typer.Argument(help="Names of classes.", metavar="CLASS...")]
) -> None:
    """Delete classes, as if they had never been learnt."""
    with open_classifier(model) as classifier:
        classifier.forget(*classes)
    work_is_done()
    out.print(f"Forgot {', '.join(classes)}.")


@app.command(epilog='Example:  gddsg rename animals.gddsg wolf "grey wolf"')
def rename(model: ModelFile, old: str, new: str) -> None:
    """Give a class another name."""
    with open_classifier(model) as classifier:
        classifier.rename(old, new)
    work_is_done()
    out.print(f"{old} is now called {new}.")


@app.command(epilog="Example:  gddsg correct animals.gddsg photos/fox/17.jpg wolf --photos photos/")
def correct(
    model: ModelFile,
    photo: Annotated[Path, typer.Argument(help="The photo, as it was learnt.", metavar="PHOTO")],
    name: Annotated[str, typer.Argument(help="The class it belongs to.", metavar="CLASS")],
    photos: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Where the other photos of its old class are, if no longer in the cache."),
    ] = None,
    case_sensitive: CaseSensitive = False,
    as_json: AsJson = False,
    backbone: TrustedBackbone = None,
    device: Device = None,
) -> None:
    """Move a photo that was learnt under the wrong class to another; its old class is learnt again without it."""
    with open_classifier(model, backbone, device) as classifier, embedding(classifier, "Correcting") as progress:
        report = classifier.correct(photo, name, photos=photos or (), case_sensitive=case_sensitive, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
    elif report.old == report.new:
        out.print(f"{photo} was learnt as {report.old} already; nothing was changed.")
    else:
        left = (
            f"{report.old} was learnt again from {counted(report.relearnt, 'photo')}"
            if report.relearnt
            else f"{report.old} had no other photo and is gone"
        )
        new = ", a new class" if report.new_class else ""
        out.print(f"{photo} belongs to {report.new}{new} now; {left}.")


@app.command(epilog="Example:  gddsg merge monday.gddsg tuesday.gddsg --into week.gddsg")
def merge(
    models: Annotated[list[Path], typer.Argument(help="Model files.", metavar="MODEL...")],
    into: Annotated[Path, typer.Option(help="File of the merged model.")],
) -> None:
    """Join what several models have learnt in a new file."""
    from gddsg.photos import merge_models

    merged = merge_models(models, into)
    work_is_done()
    out.print(f"{into} knows {counted(len(merged.labels), 'class', 'classes')}.")


@app.command(epilog="Example:  gddsg private photos.npz --epsilon 8 --delta 1e-5 --clip 12 --out site.gddsg")
def private(
    features: Annotated[Path, typer.Argument(help="Feature file, as `gddsg features` writes it.", metavar="FEATURES")],
    epsilon: Annotated[float, typer.Option(help="What may be spent: the smaller, the more private, the less exact.")],
    delta: Annotated[float, typer.Option(help="Chance that the promise fails: far below 1 over the photos, say 1e-5.")],
    clip: Annotated[
        float,
        typer.Option(
            help="Longer features are shortened to this length: a usual length of public photos, never of these."
        ),
    ],
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="File of the new model.")],
    backbone: Annotated[
        str | None, typer.Option(help="What made the features, for a model that looks at photos: efficientnet-lite0, …")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a model that may be handed out: its cards are noisy, under differential privacy.

    Protected is each photo by itself. Models of several places can be merged.
    """
    from gddsg.backbones import load_backbone
    from gddsg.photos.private import learn_privately

    made_by = None if backbone is None else load_backbone(backbone).identity
    report = learn_privately(features, model, epsilon=epsilon, delta=delta, clip=clip, backbone=made_by)
    work_is_done()
    if as_json:
        print_json(asdict(report))
        return
    out.print(
        f"{model}: {counted(report.samples, 'photo')} of {counted(report.classes, 'class', 'classes')}. Spent of each: "
        f"epsilon {report.epsilon:g} at delta {report.delta:g} (noise multiplier {report.noise_multiplier:.4g})."
    )
    out.print(
        "Not protected: the names of the classes, and someone who is in several photos. Handing out another model of "
        "the same photos adds to what is spent."
    )
    out.print(f"{report.clipped:.0%} of the photos were shortened to {clip:g}; that is for you, and not in the file.")
