"""A run in a process of its own: python -m tests.scale.drive MODEL FOLDER; says how far it is, a number a line."""

import sys

from tests.scale import tiny
from tests.scale.samples import SETTINGS

from gddsg import scale
from gddsg.scale import Sizes


def tell(done, total):
    sys.stdout.write(f"{done}\n")
    sys.stdout.flush()


def main(model, folder, address=None, progress=tell):
    return scale.learn(
        model,
        folder,
        address=address,
        workers=2,
        backbone=tiny.NAME,
        settings=SETTINGS,
        sizes=Sizes(photos=4, units=2),
        load=tiny.load_slow,
        progress=progress,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
