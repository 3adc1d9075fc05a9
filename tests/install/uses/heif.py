"""A photo in HEIC is written and read."""

import tempfile
from pathlib import Path

from PIL import Image

from gddsg.data.image_folder import unlabelled_photos

with tempfile.TemporaryDirectory() as folder:
    photo = Path(folder, "1.heic")
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        photo.write_bytes(b"\0\0\0\x18ftypheic")  # the beginning of one; what is missing is said below
    else:
        register_heif_opener()
        Image.new("RGB", (60, 40), "red").save(photo)
    listing = unlabelled_photos(folder, may_be_none=True)
    if listing.skipped:
        raise SystemExit(listing.skipped[0].reason)
    content = listing.photos[0].read()
    assert listing.photos[0].image(content, 0).size == (60, 40)
