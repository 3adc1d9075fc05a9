"""The commands for photos and models."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gddsg.cli.console import (
    GAP,
    AsJson,
    Commands,
    busy,
    counted,
    end_of,
    err,
    out,
    print_csv,
    print_json,
    print_table,
    progress_bar,
    table_width,
)
from gddsg.cli.streams import work_is_done
from gddsg.wording import joined

if TYPE_CHECKING:  # the heavy parts are imported by the commands that need them, so that --help comes at once
    from gddsg.core.model import Model
    from gddsg.data.dataset import Skipped
    from gddsg.photos import PhotoClassifier, PhotoEvaluation, PhotoPrediction

_SHOWN = 10

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A classifier of photos that takes new classes for years and never has to be retrained.",
    epilog="Examples:  gddsg learn animals.gddsg photos/   ·   gddsg predict animals.gddsg garden.jpg   ·   gddsg demo"
    "\n\nEnvironment:  GDDSG_CACHE names the folder where features of photos are kept (gddsg cache --help tells more).",
)

ModelFile = Annotated[Path, typer.Argument(help="Model file.", metavar="MODEL")]
Folders = Annotated[
    list[Path],
    typer.Argument(help="Folders of photos, one class a folder; or lists, path,label.csv.", metavar="FOLDER..."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Files that cannot be used are an error, not skipped.")]
CaseSensitive = Annotated[bool, typer.Option("--case-sensitive", help="Allow classes that differ only in case.")]
Reject = Annotated[
    float | None,
    typer.Option(
        "--reject",
        metavar="SHARE",
        help='Call photos "unknown" that are less like any class than this share of known ones, e.g. 0.99.',
    ),
]
TrustedBackbone = Annotated[
    str | None,
    typer.Option(help="Backbone of the model, if it is not part of this package: to agree to it, or its folder now."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, … (a GPU if there is one).")]


@app.callback(invoke_without_command=True)
def main(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """A classifier of photos that takes new classes for years and never has to be retrained."""
    if show_version:
        from importlib.metadata import version

        out.print(f"gddsg {version('gddsg')}")
        raise typer.Exit


class Quality(StrEnum):
    """How good a new model should be."""

    FAST = "fast"
    GOOD = "good"
    BEST = "best"


@app.command(epilog="Examples:  gddsg learn pets.gddsg photos/   ·   gddsg learn pets.gddsg photos/cat photos/dog")
def learn(
    model: ModelFile,
    folders: Folders,
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
    projection_dim: Annotated[int | None, typer.Option(help="For a new model: M, width of the projection.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn photos: new classes, or more photos of known ones. Safe to repeat: known photos are skipped.

    FOLDER holds one folder a class, or the photos of one class, or train/ and test/ (then train/ is learnt).
    """
    settings = {} if projection_dim is None else {"projection_dim": projection_dim}
    with (
        _classifier(model, backbone, device, settings, quality) as classifier,
        _embedding(classifier, "Learning") as progress,
    ):
        report = classifier.learn(*folders, strict=strict, case_sensitive=case_sensitive, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
        return
    total = sum(report.learnt.values())
    new = f", {len(report.new_classes)} of them new" if report.new_classes else ""
    out.print(f"Learnt {counted(total, 'photo')} of {counted(len(report.learnt), 'class', 'classes')}{new}.")
    for what, newcomers in (("New:", True), ("More of:", False)):
        named = [f"{label} ({n})" for label, n in report.learnt.items() if (label in report.new_classes) == newcomers]
        if named:
            out.print(f"  {what} {joined(named[:_SHOWN], len(named))}")
    if report.near_copies:
        copies = [f"{label} ({n})" for label, n in report.near_copies.items()]
        out.print(
            "Near copies of other photos, such as bursts and mirrored or edited ones, weigh no more than one photo: "
            f"{joined(copies[:_SHOWN], len(copies))}."
        )
    if report.known:
        left_out = "was left out" if report.known == 1 else "were left out"
        out.print(f"{counted(report.known, 'photo')} had been learnt before and {left_out}.")
    _print_skipped(report.skipped)


class Format(StrEnum):
    """How predictions are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


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
    with _classifier(model, backbone, device) as classifier, _embedding(classifier, "Predicting") as progress:
        found = classifier.predict(*images, top=top, reject=reject, strict=strict, progress=progress)
    if as_json:
        print_json({"predictions": [asdict(one) for one in found], "skipped": [asdict(one) for one in found.skipped]})
    elif as_csv:
        rows = [[one.name, one.label, f"{one.probability:.4f}", f"{one.novelty:.4f}"] for one in found]
        print_csv([["photo", "label", "probability", "novelty"], *rows])
    elif found:
        _print_predictions(found)
    _print_skipped(found.skipped)
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
    with _classifier(model, backbone, device) as classifier, _embedding(classifier, "Evaluating") as progress:
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
    _print_skipped(found.skipped)


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
    with _classifier(model, backbone, device) as classifier, _embedding(classifier, "Sorting") as progress:
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
    _print_skipped(report.skipped)


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


@app.command(epilog="Example:  gddsg forget animals.gddsg wolf")
def forget(
    model: ModelFile, classes: Annotated[list[str], typer.Argument(help="Names of classes.", metavar="CLASS...")]
) -> None:
    """Delete classes, as if they had never been learnt."""
    with _classifier(model) as classifier:
        classifier.forget(*classes)
    work_is_done()
    out.print(f"Forgot {', '.join(classes)}.")


@app.command(epilog='Example:  gddsg rename animals.gddsg wolf "grey wolf"')
def rename(model: ModelFile, old: str, new: str) -> None:
    """Give a class another name."""
    with _classifier(model) as classifier:
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
    with _classifier(model, backbone, device) as classifier, _embedding(classifier, "Correcting") as progress:
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
    with _classifier(model, device="cpu") as classifier, busy("Exporting"):
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
        str | None, typer.Option(help="efficientnet-lite0 (default), vit-b16, hf:NAME, hf:FOLDER, timm:NAME, …")
    ] = None,
    device: Device = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Write the features of photos to a file, for `gddsg bench run --features` or a program of yours.

    FOLDER with train/ and test/ keeps this division; else a fifth of the photos of each class become test photos.
    """
    from gddsg.backbones import DEFAULT_BACKBONE, load_backbone
    from gddsg.backbones.feature_cache import FeatureCache
    from gddsg.photos import write_features

    with FeatureCache() as kept, progress_bar("Embedding") as progress:
        network = load_backbone(backbone or DEFAULT_BACKBONE, device)
        report = write_features(source, file, network, kept, strict=strict, progress=progress)
    work_is_done()
    if as_json:
        print_json(asdict(report))
        return
    out.print(
        f"{file}: {report.feature_dim} features of each of {counted(report.train + report.test, 'photo')} "
        f"({report.train} for training, {report.test} for the test) of "
        f"{counted(len(report.classes), 'class', 'classes')}, by {report.backbone}."
    )
    _print_skipped(report.skipped)


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


# Helpers.


@contextmanager
def _classifier(
    path: Path,
    backbone: str | None = None,
    device: str | None = None,
    settings: dict[str, Any] | None = None,
    quality: Quality | None = None,
) -> Iterator[PhotoClassifier]:
    from gddsg.backbones.feature_cache import FeatureCache
    from gddsg.photos import PhotoClassifier

    def on_wait() -> None:
        err.print(f"Another process is changing {path}; waiting for it …")

    def ask(name: str) -> bool:
        if not (sys.stdin.isatty() and err.is_terminal):
            return False
        err.print(
            f"{path} asks for the backbone {name}, which is not part of this package: it would be loaded from a folder "
            "or a hub of that name. Say yes if you trust who made the file."
        )
        return typer.confirm("Use this backbone?", err=True)

    with FeatureCache() as features:
        chosen = None if quality is None else quality.value
        yield PhotoClassifier(path, backbone, device, features, settings, on_wait, ask, chosen)
        if features.trouble:
            err.print(Text("Features are not kept:", style="yellow"), features.trouble)


@contextmanager
def _embedding(classifier: PhotoClassifier, then: str) -> Iterator[Any]:
    """A bar for photos, after any question: the two would overwrite each other. It says what comes before and after."""
    classifier.require_trust()
    with progress_bar("Looking at the photos") as update:

        def tell(done: int, total: int) -> None:
            if done < total:
                update(done, total, "Embedding")
            else:
                update(done, None, then)  # nobody knows how long that takes

        yield None if update is None else tell


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
        for truth, taken_for, times in found.confusions[:_SHOWN]:
            out.print(f"  {truth} taken for {taken_for}: {'once' if times == 1 else f'{times} times'}")
        if len(found.confusions) > _SHOWN:
            out.print(f"  … and {counted(len(found.confusions) - _SHOWN, 'more pair')} (--json lists all)")


def _warn_of_learnt(found: PhotoEvaluation) -> str:
    """What to think of accuracy on photos that the model has learnt."""
    if not found.unseen_photos:
        return "The model has learnt all of these photos, so this says little about new ones. Evaluate others."
    return (
        f"The model has learnt {found.learnt_photos} of these photos, which makes them too easy; on the other "
        f"{found.unseen_photos}: {100 * found.unseen_accuracy:.1f} %."
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
        "were asked about the fifth that they had not seen. A model of all photos should be as good or a little "
        f"better.{unasked} The model file was not touched."
    )


def _class_cells(row: dict[str, Any]) -> tuple[object, ...]:
    """A row of the table of classes as it is printed."""
    distance = "" if row["distance"] is None else f"{row['distance']:.3f}"
    copies = row["samples"] - row["distinct"]
    samples = f"{row['samples']} ({counted(copies, 'near copy', 'near copies')})" if copies else row["samples"]
    return row["label"], samples, row["group"], row["closest"] or "", distance, row["look_alikes"]


def _class_rows(model: Model) -> list[dict[str, Any]]:
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


def _print_skipped(skipped: Sequence[Skipped]) -> None:
    if not skipped:
        return
    err.print(f"Skipped {counted(len(skipped), 'file')}:", style="yellow")
    for one in skipped[:_SHOWN]:
        err.print(f"  {one.name}: {one.reason}", soft_wrap=True)
    if len(skipped) > _SHOWN:
        err.print(f"  … and {len(skipped) - _SHOWN} more (--json lists all, --strict makes them errors)")
