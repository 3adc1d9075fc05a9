"""The commands that ask a model: predict, evaluate, sort, inspect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gddsg.cli.common import (
    SHOWN,
    CaseSensitive,
    Device,
    Folders,
    ModelFile,
    Reject,
    Strict,
    TrustedBackbone,
    app,
    embedding,
    open_classifier,
    print_skipped,
)
from gddsg.cli.console import (
    GAP,
    AsJson,
    busy,
    counted,
    end_of,
    err,
    out,
    print_csv,
    print_json,
    print_table,
    table_width,
)
from gddsg.cli.streams import work_is_done

if TYPE_CHECKING:
    from gddsg.core.model import Model
    from gddsg.photos import PhotoEvaluation, PhotoPrediction


@app.command(epilog="Examples:  gddsg predict animals.gddsg garden.jpg   ·   gddsg predict animals.gddsg inbox/ --csv")
def predict(
    model: ModelFile,
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.", metavar="IMAGE|FOLDER...")],
    top: Annotated[int, typer.Option(min=1, help="How many classes to name.")] = 3,
    reject: Reject = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    strict: Strict = False,
    backbone: TrustedBackbone = None,
    device: Device = None,
) -> None:
    """Say what is on photos."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other; name one of them.")
    with open_classifier(model, backbone, device) as classifier, embedding(classifier, "Predicting") as progress:
        found = classifier.predict(*images, top=top, reject=reject, strict=strict, progress=progress)
    if as_json:
        print_json({"predictions": [asdict(one) for one in found], "skipped": [asdict(one) for one in found.skipped]})
    elif as_csv:
        rows = [[one.name, one.label, f"{one.probability:.4f}", f"{one.novelty:.4f}"] for one in found]
        print_csv([["photo", "label", "probability", "novelty"], *rows])
    elif found:
        _print_predictions(found)
    print_skipped(found.skipped)
    if not found:
        raise typer.Exit(1)


@app.command(epilog="Examples:  gddsg evaluate animals.gddsg test/   ·   gddsg evaluate animals.gddsg --cross photos/")
def evaluate(
    model: ModelFile,
    folders: Folders,
    reject: Reject = None,
    as_json: AsJson = False,
    strict: Strict = False,
    case_sensitive: CaseSensitive = False,
    backbone: TrustedBackbone = None,
    device: Device = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Page with what is taken for what, and the wrong photos."),
    ] = None,
    cross: Annotated[
        bool,
        typer.Option(
            "--cross", help="Estimate from the photos to learn, without test photos: 5-fold cross-validation."
        ),
    ] = False,
) -> None:
    """Accuracy on labelled photos; folders with train/ and test/ are tested on test/, or with --cross on train/."""
    if page is not None:
        from gddsg.report.evaluation_page import check_page_path, save_evaluation_html

        check_page_path(page)  # before the long work
    with open_classifier(model, backbone, device) as classifier, embedding(classifier, "Evaluating") as progress:
        judged = classifier.cross_validate if cross else classifier.evaluate
        found = judged(*folders, reject=reject, strict=strict, case_sensitive=case_sensitive, progress=progress)
        others = len(set(classifier.labels) - {one.label for one in found.classes})
    if page is not None:
        with busy("Drawing"):
            save_evaluation_html(page, found, model.name)
    if as_json:
        numbers = {"accuracy": found.accuracy, "average_accuracy": found.average_accuracy, "photos": found.photos}
        print_json(numbers | {"unseen_accuracy": found.unseen_accuracy, "cross": cross} | asdict(found))
        return
    _print_evaluation(found, _explain_cross(others) if cross else "")
    if page is not None:
        out.print(f"Photos to look at are in {page}")
    print_skipped(found.skipped)


@app.command(epilog="Example:  gddsg sort animals.gddsg inbox/ --into sorted/ --reject 0.99")
def sort(
    model: ModelFile,
    inbox: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.", metavar="IMAGE|FOLDER...")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where a folder is made for every class.")],
    move: Annotated[bool, typer.Option("--move", help="Move the photos instead of copying them.")] = False,
    reject: Reject = None,
    as_json: AsJson = False,
    strict: Strict = False,
    backbone: TrustedBackbone = None,
    device: Device = None,
) -> None:
    """Copy photos into a folder a class. Nothing is ever overwritten, and the command may be repeated."""
    with open_classifier(model, backbone, device) as classifier, embedding(classifier, "Sorting") as progress:
        report = classifier.sort(*inbox, into=into, move=move, reject=reject, strict=strict, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
        return
    done = [one for one in report.photos if not one.there_before]
    counts = Counter((one.label, str(Path(one.target).parent)) for one in done)
    if counts:
        print_table(
            ("class", "photos", "folder"), ((label, n, folder) for (label, folder), n in sorted(counts.items()))
        )
    before = len(report.photos) - len(done)
    there = f" {counted(before, 'photo')} {'was' if before == 1 else 'were'} there before." if before else ""
    out.print(f"{'Moved' if move else 'Copied'} {counted(len(done), 'photo')} into {into}.{there}")
    print_skipped(report.skipped)


@app.command(epilog="Example:  gddsg inspect animals.gddsg --graph look-alikes.html")
def inspect(
    model: ModelFile,
    graph: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the coloured similarity graph: .png or .html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a model knows: classes, numbers of photos, groups, closest rivals, size."""
    from gddsg.store import read_model

    learnt = read_model(model)
    rows, settings = _class_rows(learnt), learnt.settings
    facts = {
        "classes": len(rows),
        "groups": len(learnt.groups),
        "backbone": settings.backbone,
        "image_sizes": _image_sizes(settings.backbone),
        "projection_dim": settings.projection_dim,
        "rank": settings.rank,
        "file_bytes": model.stat().st_size,
    }
    summary = (
        f"{counted(len(rows), 'class', 'classes')} in {counted(len(learnt.groups), 'group')}, backbone "
        f"{settings.backbone or 'unknown'}{_shown_sizes(settings.backbone)}, M = {settings.projection_dim}, "
        f"{model.stat().st_size / 1e6:.1f} MB."
    )
    if graph is not None:
        with busy("Drawing"):
            _draw(learnt, graph)
    if as_json:
        print_json({**facts, "class_table": rows})
        return
    print_table(("class", "samples", "group", "closest class", "distance", "look-alikes"), map(_class_cells, rows))
    out.print(summary)
    if graph is not None:
        out.print(f"The graph of look-alikes is in {graph}")


def _print_predictions(predictions: Iterable[PhotoPrediction]) -> None:
    """A line a photo; where the terminal is too narrow, a line a class, and paths without their beginning."""
    headings = ("photo", "label", "probability", "others")
    found = [(one.name, _named_classes(one)) for one in predictions]
    wide = [(name, *first, "  ".join(" ".join(other) for other in others)) for name, (first, *others) in found]
    if table_width(headings, wide) <= out.width:
        print_table(headings, wide)
        return
    narrow = [(name if k == 0 else "", *cells) for name, classes in found for k, cells in enumerate(classes)]
    room = out.width - table_width(headings[1:3], (cells for _, *cells in narrow)) - GAP
    print_table(headings[:3], ((end_of(name, room), *cells) for name, *cells in narrow))


def _named_classes(one: PhotoPrediction) -> list[tuple[str, str]]:
    """Label and probability: what the photo is taken for, then the others."""
    classes = [(label, f"{100 * p:.1f} %") for label, p in one.top]
    return [(one.label, ""), *classes] if one.rejected else classes


def _print_evaluation(found: PhotoEvaluation, note: str) -> None:
    """Accuracies, with a note on what they are, and what is taken for what."""
    notes = dict.fromkeys(found.unlearnt, " (never learnt)")
    print_table(
        ("class", "photos", "right", "accuracy"),
        (
            (one.label + notes.get(one.label, ""), one.photos, one.correct, f"{100 * one.accuracy:.1f} %")
            for one in found.classes
        ),
    )
    out.print(
        f"Accuracy {100 * found.accuracy:.1f} % of {counted(found.photos, 'photo')}, "
        f"{100 * found.average_accuracy:.1f} % on average over classes."
    )
    if note:
        out.print(note)
    if found.learnt_photos:
        err.print(_warn_of_learnt(found), style="yellow")
    if found.confusions:
        out.print("Most often confused:")
        for truth, taken_for, times in found.confusions[:SHOWN]:
            out.print(f"  {truth} taken for {taken_for}: {'once' if times == 1 else f'{times} times'}")
        if len(found.confusions) > SHOWN:
            out.print(f"  … and {counted(len(found.confusions) - SHOWN, 'more pair')} (--json lists all)")


def _warn_of_learnt(found: PhotoEvaluation) -> str:
    """What to think of accuracy on photos that the model has learnt."""
    if not found.unseen_photos:
        return "The model has learnt all of these photos, so this says little about new ones. Evaluate others."
    return (
        f"The model has learnt {found.learnt_photos} of these photos, or near copies of them, which makes them too "
        f"easy; on the other {found.unseen_photos}: {100 * found.unseen_accuracy:.1f} %."
    )


def _explain_cross(others: int) -> str:
    """What accuracy by cross-validation is, and is not."""
    unasked = (
        f" {counted(others, 'class', 'classes')} of the model have no photos there and were no possible answers; "
        "with these, the model itself will be right less often."
        if others
        else ""
    )
    return (
        "This is an estimate: five models with the settings of this one learnt four fifths of the photos each, and "
        "were asked about the fifth that they had seen neither itself nor near copies of. A model of all photos should "
        f"be as good or a little better.{unasked} The model file was not touched."
    )


def _class_cells(row: dict[str, Any]) -> tuple[object, ...]:
    """A row of the table of classes as it is printed."""
    distance = "" if row["distance"] is None else f"{row['distance']:.3f}"
    copies = row["samples"] - row["distinct"]
    samples = f"{row['samples']} ({counted(copies, 'near copy', 'near copies')})" if copies else row["samples"]
    return (
        row["label"],
        samples,
        row["group"],
        row["closest"] or "",
        distance,
        "" if row["look_alikes"] is None else row["look_alikes"],
    )


def _class_rows(model: Model) -> list[dict[str, Any]]:
    if model.derived.large:  # who looks like whom takes a table of all pairs
        unasked = {"group": 0, "closest": None, "distance": None, "look_alikes": None}
        cards = model.cards.items()
        return [{"label": k, "samples": card.count, "distinct": card.distinct, **unasked} for k, card in cards]
    graph = model.graph
    group_of = {label: g for g, group in enumerate(model.groups) for label in group}
    rows = []
    for i, label in enumerate(graph.labels):
        others = [(float(graph.distances[i, j]), other) for j, other in enumerate(graph.labels) if j != i]
        distance, closest = min(others, key=lambda pair: pair[0], default=(None, None))
        rows.append(
            {
                "label": label,
                "samples": model.cards[label].count,
                "distinct": model.cards[label].distinct,
                "group": group_of[label],
                "closest": closest,
                "distance": distance,
                "look_alikes": int(graph.adjacency[i].sum()),
            }
        )
    return rows


def _image_sizes(backbone: str | None) -> list[int | None]:
    """Pixels of the images that the parts of a backbone take, None where only the network itself could tell."""
    from gddsg.backbones.names import split_name
    from gddsg.errors import BackboneError

    try:
        return [part.pixels for part in split_name((backbone or "").rpartition("@")[0])]
    except BackboneError:  # a file may say anything
        return [None]


def _shown_sizes(backbone: str | None) -> str:
    sizes = _image_sizes(backbone)
    return f" (images of {' and '.join(f'{side} × {side}' for side in sizes)} pixels)" if all(sizes) else ""


def _draw(model: Model, path: Path) -> None:
    from gddsg.report.graph_page import save_graph_html
    from gddsg.report.graph_picture import save_graph_png

    if path.suffix.lower() not in (".png", ".html"):
        raise typer.BadParameter(f"{path} ends in neither .png nor .html.", param_hint="--graph")
    counts = {label: card.count for label, card in model.cards.items()}
    save = save_graph_png if path.suffix.lower() == ".png" else save_graph_html
    save(path, model.graph, model.groups, counts)
