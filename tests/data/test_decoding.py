"""Every kind of image file has a defined outcome: the right pixels, or an error that says what is wrong."""

import io
import struct
import subprocess
import sys
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from gddsg.data import decoding
from gddsg.data.decoding import MAX_DECODED_BYTES, MAX_PIXELS, decode, decoded_bytes, shorter_side
from gddsg.errors import PhotoError


def gradient(width=40, height=30):
    """Red grows to the right, green downwards, blue is constant."""
    rows, columns = np.mgrid[0:height, 0:width]
    blue = np.full_like(rows, 90)
    return np.stack([columns * 255 // (width - 1), rows * 255 // (height - 1), blue], axis=2).astype(np.uint8)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(content, at_least=0):
    image = decode(content, at_least)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "TGA"])
def test_lossless_formats_give_the_pixels_back(kind):
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(gradient()), kind)), gradient())


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_come_close(kind):
    assert np.abs(pixels(encoded(Image.fromarray(gradient()), kind, quality=95)) - gradient()).mean() < 4


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "TGA", "JPEG", "WEBP", "GIF"])
def test_the_shorter_side_of_every_format(kind):
    assert shorter_side(io.BytesIO(encoded(Image.fromarray(gradient()), kind))) == 30
    for content in (b"", b"nonsense", encoded(Image.fromarray(gradient()), kind)[:5]):
        with pytest.raises(PhotoError):
            shorter_side(io.BytesIO(content))


def test_an_icon_is_not_opened_for_its_size():
    with pytest.raises(PhotoError, match="not an image of a known format"):
        shorter_side(io.BytesIO(encoded(Image.fromarray(gradient(32, 32)), "ICO")))


def test_a_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    lying = Image.fromarray(np.rot90(gradient(), 1).copy())
    turned = pixels(encoded(lying, "JPEG", quality=95, exif=exif))
    assert turned.shape == (30, 40, 3)
    assert np.abs(turned - gradient()).mean() < 4


def test_sixteen_bits_are_scaled_and_not_clipped():
    deep = (np.arange(40 * 30, dtype=np.uint16).reshape(30, 40) * 50).astype(np.uint16)
    found = pixels(encoded(Image.fromarray(deep)))
    np.testing.assert_array_equal(found[:, :, 0], deep >> 8)
    assert len(np.unique(found)) > 200


def test_sixteen_bits_that_use_eight_stay_as_they_are():
    flat = np.full((5, 5), 200, dtype=np.uint16)
    assert set(pixels(encoded(Image.fromarray(flat))).ravel()) == {200}


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr", "LAB"])
def test_other_colour_spaces_become_rgb(mode):
    image = Image.fromarray(gradient()).convert(mode) if mode != "LAB" else Image.new("LAB", (40, 30), (50, 0, 0))
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG", "LAB": "TIFF"}.get(mode, "PNG")
    assert pixels(encoded(image, kind)).shape == (30, 40, 3)


def test_cmyk_keeps_its_colours():
    found = pixels(encoded(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG", quality=95))  # red
    assert found[10, 10, 0] > 200
    assert found[10, 10, 1:].max() < 60


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_parts_are_white(mode):
    clear = Image.new(mode, (8, 8), (10, 20, 30, 0) if mode == "RGBA" else (10, 0))
    assert set(pixels(encoded(clear)).ravel()) == {255}


def test_a_transparent_palette_colour_is_white():
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30, 200, 0, 0])
    image.putpixel((3, 4), 1)
    found = pixels(encoded(image, transparency=0))
    assert tuple(found[0, 0]) == (255, 255, 255)
    assert tuple(found[4, 3]) == (200, 0, 0)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_counts(kind):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    found = pixels(encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=10))
    assert found[8, 8, 0] > 200
    assert found[8, 8, 2] < 60


def test_a_large_jpeg_is_decoded_small_but_not_too_small():
    large = encoded(Image.new("RGB", (1600, 1200), "green"), "JPEG")
    assert decode(large, 300).size == (400, 300)
    assert decode(large, 0).size == (1600, 1200)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def bomb(width, height):
    """A PNG of a few bytes that claims to be huge."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, this is text", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
        (encoded(Image.fromarray(gradient()))[:60], "damaged"),
        (encoded(Image.fromarray(gradient()), "JPEG")[:400], "damaged"),
        (bomb(60_000, 60_000), r"^too many pixels \(3,600,000,000\), at most 178,956,970"),
        (bomb(1, MAX_PIXELS + 1), r"^too many pixels \(178,956,971\)"),
        (encoded(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF"), "floating-point"),
    ],
)
def test_what_is_no_photo_is_refused_with_the_reason(content, message):
    with pytest.raises(PhotoError, match=message):
        decode(content)


def random_image(mode, width=70, height=50):
    random = np.random.default_rng(len(mode))
    if mode == "I;16":
        return Image.fromarray(random.integers(0, 65536, (height, width), dtype=np.uint16))
    colours = Image.fromarray(random.integers(0, 256, (height, width, 4), dtype=np.uint8))
    if mode == "P with transparency":
        image = colours.convert("RGB").convert("P")
        image.info["transparency"] = 3
        return image
    return colours.convert(mode)


def plain_rgb(content):
    """What an image was before large ones were converted by strips: all of it at once."""
    with Image.open(io.BytesIO(content)) as image:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        return np.asarray(Image.fromarray((values >> (8 if values.max() > 255 else 0)).astype(np.uint8)).convert("RGB"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


MODES = ["1", "L", "LA", "P", "P with transparency", "RGB", "RGBA", "I;16", "CMYK"]


@pytest.mark.parametrize("strip", [100, 1_000_000])
@pytest.mark.parametrize("turn", [1, 3, 5, 6])
@pytest.mark.parametrize("mode", MODES)
def test_strips_change_no_pixel(mode, turn, strip, monkeypatch):
    monkeypatch.setattr(decoding, "_STRIP_PIXELS", strip)
    exif = Image.Exif()
    exif[0x0112] = turn
    content = encoded(random_image(mode), "TIFF" if mode == "CMYK" else "PNG", exif=exif)
    for at_least in (0, 1, 20):  # far below the size from which an image is reduced
        np.testing.assert_array_equal(pixels(content, at_least), plain_rgb(content))


@pytest.mark.parametrize("mode", MODES)
def test_a_large_image_is_reduced_to_what_its_pixels_mean(mode, monkeypatch):
    content = encoded(random_image(mode), "TIFF" if mode == "CMYK" else "PNG")
    whole = Image.fromarray(plain_rgb(content))
    monkeypatch.setattr(decoding, "_REDUCED_ABOVE", 70 * 50 - 1)
    monkeypatch.setattr(decoding, "_STRIP_PIXELS", 500)
    for at_least, factor in ((25, 2), (16, 3), (7, 7)):
        np.testing.assert_array_equal(pixels(content, at_least), np.asarray(whole.reduce(factor)))
    assert decode(content, 26).size == decode(content, 0).size == (70, 50)


def test_a_large_jpeg_2000_is_decoded_small_but_not_too_small(monkeypatch):
    content = encoded(Image.fromarray(gradient(400, 300)), "JPEG2000")
    monkeypatch.setattr(decoding, "_REDUCED_ABOVE", 400 * 300 - 1)
    small = decode(content, 70)
    assert small.size == (100, 75)
    assert np.abs(np.asarray(small).astype(int) - gradient(100, 75)).mean() < 4
    assert decode(content, 0).size == (400, 300)


@pytest.mark.parametrize("size", [(401, 299), (403, 300), (1000, 37)])
def test_a_jpeg_2000_of_odd_sides_is_decoded(size, monkeypatch):
    monkeypatch.setattr(decoding, "_REDUCED_ABOVE", 100)
    content = encoded(Image.fromarray(gradient(*size)), "JPEG2000")
    for at_least in (1, 4, 9, 30):
        assert at_least <= min(decode(content, at_least).size) <= min(size)


def forged(kind, **changes):
    """A valid image of 64 × 64 pixels whose header says otherwise."""
    data = bytearray(encoded(Image.new("RGB", (64, 64)), kind, **changes.pop("options", {})))
    for place, form, value in changes["patches"]:
        struct.pack_into(form, data, place, value)
    return bytes(data)


def tiff_of_one_tile(side):
    """A TIFF of 64 × 64 pixels in a compressed tile that is much larger."""
    pixels = zlib.compress(b"\0" * 1000)
    values = {256: 64, 257: 64, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 8, 325: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in values.items())
    return (
        struct.pack("<2sHI", b"II", 42, 8 + len(pixels)) + pixels + struct.pack("<H", len(values)) + entries + b"\0" * 4
    )


def icon(content):
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(content), 22) + content


BITMAP = struct.pack("<IiiHHIIiiII", 40, 12_000, 24_000, 1, 32, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(tiff_of_one_tile(30_000), "900,", id="tile"),
        pytest.param(icon(bomb(12_000, 12_000)), "an icon of 12000 × 12000", id="PNG in icon"),
        pytest.param(icon(BITMAP), "an icon of 12000 × 24000", id="bitmap in icon"),
        pytest.param(b"P6\n16000 11000\n255\n", "smaller copy", id="PPM"),
        pytest.param(forged("BMP", patches=[(18, "<i", 16_000), (22, "<i", 11_000)]), "smaller copy", id="BMP"),
        pytest.param(forged("GIF", patches=[(6, "<H", 60_000), (8, "<H", 60_000)]), "pixels", id="GIF"),
        pytest.param(forged("TGA", patches=[(12, "<H", 16_000), (14, "<H", 11_000)]), "smaller copy", id="TGA"),
    ],
)
def test_images_that_claim_to_be_huge_are_refused_undecoded(content, message):
    with pytest.raises(PhotoError, match=message):
        decode(content)


def test_the_limit_is_named_with_what_was_found(monkeypatch):
    content = encoded(Image.fromarray(gradient()))
    needed = decoded_bytes(content)
    monkeypatch.setattr(decoding, "MAX_DECODED_BYTES", needed)
    decode(content)
    monkeypatch.setattr(decoding, "MAX_DECODED_BYTES", needed - 1)
    with pytest.raises(PhotoError, match=f"40 × 30 pixels would take {needed:,} bytes .* at most {needed - 1:,} are"):
        decode(content)


def test_a_progressive_jpeg_takes_more_memory_than_another():
    image = Image.new("RGB", (2000, 1000))
    plain, progressive = (decoded_bytes(encoded(image, "JPEG", progressive=how), 100) for how in (False, True))
    assert plain + 10_000_000 < progressive


def test_a_jpeg_of_countless_scans_is_refused():
    """Each passes over the whole image: a file of a megabyte took minutes."""
    content = encoded(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    scan = content[last : last + 2 + struct.unpack_from(">H", content, last + 2)[0]]
    decoy = b"\xff\xfe\0\4\xff\xd9"  # the end, but in a comment
    assert decode(content[:-2] + decoy + 100 * scan + content[-2:]).size == (64, 64)
    for between in (b"", decoy):
        with pytest.raises(PhotoError, match="more than 200 scans"):
            decode(content[:-2] + between + 300 * scan + content[-2:])
    assert decode(content + 300 * scan).size == (64, 64)  # what follows the end is another matter: a film, say


def test_a_jpeg_of_separate_colours_takes_more_memory_than_another():
    content = encoded(Image.new("RGB", (2000, 1000)), "JPEG")
    scan = content.rindex(b"\xff\xda")
    separate = content[: scan + 4] + b"\1" + content[scan + 5 :]
    assert decoded_bytes(content, 100) + 10_000_000 < decoded_bytes(separate, 100)


def png_with(*chunks):
    content = encoded(Image.fromarray(gradient()))
    return content[:33] + b"".join(chunk(*one) for one in chunks) + content[33:]


HUGE = zlib.compress(bytes(50_000_000))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(png_with((b"zTXt", b"k\0\0" + HUGE)), id="one text"),
        pytest.param(png_with(*[(b"zTXt", b"k\0\0" + zlib.compress(bytes(900_000)))] * 100), id="many texts"),
        pytest.param(png_with((b"iCCP", b"k\0\0" + HUGE)), id="colour profile"),
        pytest.param(
            struct.pack("<2sHIH", b"II", 42, 8, 300) + 300 * struct.pack("<HHII", 270, 1, 2**31, 8), id="tags"
        ),
    ],
)
def test_huge_metadata_is_refused(content):
    with pytest.raises(PhotoError):
        decode(content)


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "PNG"])
def test_of_countless_frames_one_is_decoded(kind):
    frames = [Image.fromarray(np.full((4, 4), i % 250, np.uint8)) for i in range(2000)]
    assert decode(encoded(frames[0], kind, save_all=True, append_images=frames[1:])).size == (4, 4)


@pytest.mark.parametrize("value", [0, 9, 99, 65535])
def test_an_orientation_that_is_none_turns_nothing(value):
    exif = Image.Exif()
    exif[0x0112] = value
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(gradient()), exif=exif)), gradient())


def test_no_memory_left_is_a_fault_of_the_photo(monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(decoding, "_rgb_in_strips", fail)
    with pytest.raises(PhotoError, match="not enough memory"):
        decode(encoded(Image.fromarray(gradient())))


def test_threads_leave_the_filters_of_warnings_as_they_were():
    before = list(warnings.filters)
    contents = [encoded(Image.fromarray(gradient(width, 60)), "PNG") for width in range(30, 70)]
    threads = [threading.Thread(target=lambda: [decode(content) for content in contents]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


PEAK = """
import sys
from pathlib import Path
from gddsg.data.decoding import decode, decoded_bytes

def memory(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

content = Path(sys.argv[1]).read_bytes()
at_least = int(sys.argv[2])
estimate = decoded_bytes(content, at_least)
before = memory("VmRSS")
decode(content, at_least)
print(estimate, memory("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("kind", "options", "bytes_a_pixel"),
    [("I;16", {}, 4), ("RGBA", {}, 6), ("P", {}, 4), ("RGB", {"format": "WEBP", "lossless": True, "method": 0}, 20)],
)
def test_the_peak_of_a_large_image_is_what_was_estimated(kind, options, bytes_a_pixel, tmp_path):
    path = tmp_path / "large"
    size = (5000, 4000)
    Image.new(kind, size).save(path, **{"format": "PNG", **options})
    run = subprocess.run([sys.executable, "-c", PEAK, path, "500"], capture_output=True, text=True, check=True)
    estimate, peak = map(int, run.stdout.split())
    assert peak < estimate + 10_000_000  # the decoder's code counts too
    assert estimate < bytes_a_pixel * size[0] * size[1] < MAX_DECODED_BYTES
