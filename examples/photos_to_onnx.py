"""Photos in, an ONNX file out, and a prediction by it that needs neither this library nor torch.

Run without arguments it teaches a model some photos of letters and exports it, network included; then it calls itself
with the ONNX file and a photo, and that call imports nothing but numpy, onnxruntime and Pillow.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import onnxruntime
from PIL import Image, ImageOps

CLASSES = ["capital K", "digit 3", "small y", "Greek small psi"]


def predict(network_file: Path, photo_file: Path) -> None:
    """What is on a photo, by an ONNX file alone; copy this function into a program of yours."""
    network = onnxruntime.InferenceSession(network_file)
    about, (_, height, width, _) = network.get_modelmeta().custom_metadata_map, network.get_inputs()[0].shape
    photo = ImageOps.exif_transpose(Image.open(photo_file)).convert("RGB")
    # of photos that are smaller than what the network takes this library uses the whole
    bleed = float(about["bleed"]) if min(photo.width / width, photo.height / height) >= 1 else 0.0
    photo = ImageOps.fit(photo, (width, height), Image.Resampling.BICUBIC, bleed=bleed)
    (probabilities,) = network.run(None, {"images": numpy.asarray(photo)[None]})[0]
    print(f"  {photo_file.name}: {json.loads(about['classes'])[probabilities.argmax()]}")


def teach(folder: Path) -> Path:
    """Photos in folders, one a class; a model that learns them; its ONNX file."""
    from gddsg import PhotoClassifier
    from gddsg.data.glyphs import write_glyphs
    from gddsg.export import export_photo_onnx

    write_glyphs(folder / "photos", n_train=8, n_test=1, classes=CLASSES)
    classifier = PhotoClassifier(folder / "letters.gddsg", device="cpu")
    classifier.learn(folder / "photos")
    print(f"A model of photos that has learnt {', '.join(classifier.labels)}")
    gap = export_photo_onnx(classifier.model, classifier.backbone, folder / "letters.onnx")
    print(f"Exported; its probabilities differ from the model's by less than 0.0001: {'yes' if gap < 1e-4 else 'no'}")
    return folder / "letters.onnx"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        predict(*map(Path, sys.argv[1:]))
        print(f"  torch or gddsg imported: {'yes' if {'torch', 'gddsg'} & set(sys.modules) else 'no'}")
    else:
        with tempfile.TemporaryDirectory() as name:
            onnx_file = teach(Path(name))
            for number, label in enumerate(CLASSES, start=1):
                photo = Path(name, "photos", "test", label, "00000.png").rename(Path(name, f"photo {number}.png"))
                print(f"{label}, says a program without this library:", flush=True)
                subprocess.run([sys.executable, __file__, onnx_file, photo], check=True)
