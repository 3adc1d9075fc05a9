"""Photos to teach."""

import io

import numpy as np
from PIL import Image

from gddsg.serve.uploads import uploaded

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "grey": (120, 120, 120)}


def photo_bytes(colour, seed):
    """A PNG of one colour and noise."""
    noise = np.random.default_rng(seed).integers(-35, 36, (24, 24, 3))
    pixels = (np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def photos(colour, n=6, first=0):
    return [uploaded(f"{colour} {i}.png", photo_bytes(colour, 1000 * len(colour) + i)) for i in range(first, first + n)]


def files(colour, n=6, first=0):
    """The same as parts of a request."""
    return [("files", (photo.name, photo.content, "image/png")) for photo in photos(colour, n, first)]
