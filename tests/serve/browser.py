"""What the tests of the page need: a server that can be killed, photos made on the spot, files that are dropped."""

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SOURCE = Path(__file__).parents[2] / "src"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
_COLOURS = {"red ring": (200, 40, 40), "green square": (40, 150, 60), "blue star": (40, 70, 200)}
SHAPES = tuple(_COLOURS)
_PATIENCE = 300  # seconds; the first start exports the backbone


def shape(name, seed, side=160):
    """A picture of a coloured shape, somewhere on uneven paper."""
    rng = np.random.default_rng([seed, *name.encode()])
    image = Image.fromarray(rng.integers(190, 235, (8, 8, 3), dtype=np.uint8)).resize((side, side), Image.BICUBIC)
    middle, size = side / 2 + rng.uniform(-12, 12, 2), rng.uniform(35, 55)
    colour = tuple(int(value) for value in np.clip(np.array(_COLOURS[name]) + rng.integers(-20, 20, 3), 0, 255))
    box = [*(middle - size), *(middle + size)]
    pen = ImageDraw.Draw(image)
    if name == "red ring":
        pen.ellipse(box, outline=colour, width=14)
    elif name == "green square":
        pen.rectangle(box, fill=colour)
    else:
        turns = np.arange(10) * np.pi / 5 + rng.uniform(0, 0.3)
        reach = np.where(np.arange(10) % 2, 0.45, 1.1) * size
        pen.polygon(
            [(middle[0] + r * np.sin(t), middle[1] - r * np.cos(t)) for r, t in zip(reach, turns, strict=True)], colour
        )
    return image


def write_shapes(folder, n, first=0):
    """JPEGs in a folder a class; gives the folder."""
    for name in SHAPES:
        (folder / name).mkdir(parents=True)
        for i in range(n):
            shape(name, first + i).save(folder / name / f"{first + i:02d}.jpg", quality=92)
    return folder


def files_in(folder):
    return sorted(str(path) for path in folder.iterdir())


class Server:
    """The service as a user starts it, in a process that can be killed."""

    def __init__(self, model, *options):
        self.model, self.options = model, options
        self.port, self.process = 0, None

    def start(self):
        """Listen; again at the same port after a kill, as a page that is open expects."""
        command = [sys.executable, "-m", "gddsg", "serve", str(self.model), "--port", str(self.port), *self.options]
        self.process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            line = self.process.stdout.readline()
            said.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                return self
            if not line:
                break
        self.kill()
        raise AssertionError("The service did not start: " + "".join(said))

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def kill(self):
        """As a power cut would end it: no chance to tidy up."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "COLUMNS": "300", "PYTHONUNBUFFERED": "1"}


def run_gddsg(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "gddsg", *map(str, arguments)], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_TRANSFER = """(parts) => {
  const transfer = new DataTransfer();
  for (const { name, content } of parts) {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
  }
  return transfer;
}"""


def transfer_of(page, paths):
    """Files as a drop or a paste carries them."""
    parts = [{"name": Path(p).name, "content": base64.b64encode(Path(p).read_bytes()).decode()} for p in paths]
    return page.evaluate_handle(_TRANSFER, parts)


def drop(page, selector, paths):
    transfer = transfer_of(page, paths)
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(selector, event, {"dataTransfer": transfer})


def paste(page, paths):
    script = """(transfer) => document.activeElement.dispatchEvent(
        new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }))"""
    page.evaluate(script, transfer_of(page, paths))


def teach(page, name, paths):
    """Teach a class the way people do: choose photos, say what they are, press the button."""
    page.set_input_files("#teach-files", paths)
    page.fill("#batches input", name)
    page.click("#teach-now")
    page.wait_for_selector("#tray", state="hidden")
    # the answer to the lesson comes before the board has asked for news
    page.locator("#board .card-name").get_by_text(name, exact=True).wait_for()


def names_on_board(page):
    return page.locator("#board .card-name").all_text_contents()  # of cards out of sight the browser lays out no text
