"""A compact hybrid ViT that needs no hub: a frozen convolutional stem, and on top of it a transformer.

EfficientNet-Lite0 up to its last block turns an image into a map of 320 channels and 7 × 7 places. A ``ViTModel`` of
Hugging Face takes that map for its image, a place a patch; its class token is the features. ``gddsg pretrain-vit``
makes one (:mod:`gddsg.nn.distillation`); ``hybrid-vit`` is the one that comes with this package. Hybrids are in
A. Dosovitskiy et al., *An Image is Worth 16x16 Words*, ICLR 2021 (https://arxiv.org/abs/2010.11929), section 3.1.

A folder of one is what Hugging Face writes, ``config.json`` and ``model.safetensors``, and ``stem.json``, which says
what comes in front, which weights belong to it, and what the whole should give for the built-in picture.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from gddsg.backbones.base import Array, Backbone, Preprocess, Trainable, fingerprint
from gddsg.backbones.huggingface import first_line, quiet_transformers
from gddsg.backbones.names import HYBRID, PartName
from gddsg.backbones.self_test import GPU_TOLERANCE, TOLERANCE, require_right_features
from gddsg.errors import BackboneError
from gddsg.files import replace_file

STEM_FILE = "stem.json"
"""By which a folder of Hugging Face is known as one of a hybrid."""

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_LARGEST_FILE = 100_000_000
_AT_ONCE = 32
_MAKE_ONE = "gddsg pretrain-vit PHOTOS --out FOLDER makes one; use it as hf:FOLDER."


class HybridViT(Backbone):
    """EfficientNet-Lite0 up to its last block, and a transformer on its map; the features are the class token.

    Parameters
    ----------
    name : str
        ``hybrid-vit``, or ``hf:FOLDER``.
    device : str
        Torch device; the stem runs in ONNX Runtime on a CPU.
    cache_folder : Path
        Where the stem is kept in ONNX format, once exported.
    folder : Path or None
        That ``gddsg pretrain-vit`` has written; the one that comes with this package unless given.
    """

    preprocess: Preprocess
    batch_size = _AT_ONCE

    def __init__(self, name: str, device: str, cache_folder: Path, folder: Path | None = None) -> None:
        # torch and transformers take seconds to import
        from gddsg.backbones.stem import STEM, Stem

        content, self._model, about = _read(name, folder)
        if about["stem"] != STEM:
            raise BackboneError(f"The backbone {name} has the stem {about['stem']!r}; expected {STEM}. {_MAKE_ONE}")
        self._stem = Stem(device, cache_folder)
        self._device = device
        self._model.to(device).eval()
        self.name = name
        self.feature_dim = int(self._model.config.hidden_size)
        self.preprocess = self._stem.preprocess
        self.fingerprint = fingerprint(self.preprocess, [self._stem.weights, *content])
        expected = np.array(about["picture"], dtype=np.float32)
        require_right_features(self, expected, TOLERANCE if device == "cpu" else GPU_TOLERANCE)

    def embed(self, images: Array) -> Array:
        """Features ``(n, feature_dim)`` of preprocessed images ``(n, 3, 224, 224)``."""
        import torch

        with torch.inference_mode():
            maps = self._stem(torch.from_numpy(images)).to(self._device)
            # on a CPU one at a time, so that features do not depend, in their last bits, on the neighbours in a batch
            parts = maps.split(1 if self._device == "cpu" else _AT_ONCE)
            features = torch.cat([class_token(self._model, part) for part in parts])
        return np.asarray(features.cpu().numpy(), dtype=np.float32)

    def trainable(self) -> Trainable:
        """The transformer, and the stem in front of it."""
        return Trainable(self._model, self.preprocess, self._device, self._stem)


def class_token(model: Any, maps: Any) -> Any:
    """``(n, width)``: the class token behind the last normalisation.

    Parameters
    ----------
    model : ViTModel
        Without a pooling layer.
    maps : Tensor
        ``(n, 320, 7, 7)``, of the stem.
    """
    return model(pixel_values=maps).last_hidden_state[:, 0]


def is_hybrid(folder: str) -> bool:
    """Whether a folder holds a hybrid.

    Parameters
    ----------
    folder : str
        Or the name of a model on the hub, which is none.
    """
    with contextlib.suppress(OSError, ValueError):  # of a name that can be no path
        return Path(folder, STEM_FILE).is_file()
    return False


def require_own_size(part: PartName) -> None:
    """Refuse another size of the input, or more layers than the last.

    Parameters
    ----------
    part : PartName
        What was asked for.
    """
    if part != PartName(part.network):
        raise BackboneError(
            f"{part.network} is a hybrid ViT, which gives its last layer alone, at its own size. Write {part.network}."
        )


def require_published_weights() -> None:
    """Refuse ``hybrid-vit`` where its weights did not come with this package."""
    if not _published().joinpath(STEM_FILE).is_file():
        raise BackboneError(f"The weights of {HYBRID} did not come with this installation of gddsg. {_MAKE_ONE}")


def write_hybrid(folder: Path, model: Any, card: str, cache_folder: Path) -> None:
    """Put a transformer, in half precision, and its card into an empty folder.

    Parameters
    ----------
    folder : Path
        Where to.
    model : ViTModel
        On the CPU, trained on maps of the stem; its weights are rounded.
    card : str
        What it is and how it was made, in Markdown.
    cache_folder : Path
        Where the stem is kept in ONNX format.
    """
    import torch

    from gddsg.backbones.self_test import built_in_picture
    from gddsg.backbones.stem import STEM, Stem

    with quiet_transformers():
        model.half().save_pretrained(folder)
    (folder / _WEIGHTS).chmod((folder / _CONFIG).stat().st_mode)  # which that library closes to others
    stem = Stem("cpu", cache_folder)
    with torch.inference_mode():
        maps = stem(torch.from_numpy(stem.preprocess(built_in_picture())[None]))
        picture = class_token(model.float().eval(), maps)[0].tolist()
    about = {
        "stem": STEM,
        "weights": hashlib.sha256((folder / _WEIGHTS).read_bytes()).hexdigest(),
        "picture": [float(f"{value:.6g}") for value in picture],
    }
    replace_file(folder / "README.md", card.encode())
    replace_file(folder / STEM_FILE, (json.dumps(about, indent=1) + "\n").encode())


def _published() -> Any:
    return files("gddsg.backbones").joinpath("hybrid_vit_weights")


def _read(name: str, folder: Path | None) -> tuple[list[bytes], Any, dict[str, Any]]:
    """Bytes of configuration and weights, the model, and what ``stem.json`` says."""
    if folder is not None:
        return _read_folder(name, folder)
    require_published_weights()
    with as_file(_published()) as place:
        return _read_folder(name, place)


def _read_folder(name: str, folder: Path) -> tuple[list[bytes], Any, dict[str, Any]]:
    try:
        about, config, weights = (_content(folder / file) for file in (STEM_FILE, _CONFIG, _WEIGHTS))
        said = json.loads(about)
        told = {key: said[key] for key in ("stem", "weights", "picture")}
        expected = np.array(told["picture"], dtype=np.float32)
        digest = hashlib.sha256(weights).hexdigest()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _unusable(name, folder, first_line(error)) from error
    if digest != told["weights"]:
        raise _unusable(name, folder, f"the SHA-256 of {_WEIGHTS} is {digest}, {STEM_FILE} says {told['weights']!r}")
    model = _model(name, folder)
    if expected.shape != (int(model.config.hidden_size),) or not np.isfinite(expected).all():
        raise _unusable(name, folder, f"{STEM_FILE} does not say what the features of the built-in picture are")
    return [config, weights], model, told


def _content(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{path.name} is larger than {_LARGEST_FILE} bytes")
    return path.read_bytes()


def _model(name: str, folder: Path) -> Any:
    """The transformer in single precision, if it is one for maps of the stem."""
    import torch

    from gddsg.backbones.stem import MAP_CHANNELS, MAP_SIDE

    try:
        with quiet_transformers() as transformers:
            model, report = transformers.ViTModel.from_pretrained(
                str(folder), add_pooling_layer=False, local_files_only=True, output_loading_info=True
            )
    except Exception as error:  # a folder may hold anything, and reading it fail in any way
        raise _unusable(name, folder, first_line(error)) from error
    found = tuple(getattr(model.config, key) for key in ("num_channels", "image_size", "patch_size"))
    if found != (MAP_CHANNELS, MAP_SIDE, 1):
        raise _unusable(name, folder, f"channels, image and patch size are {found}, expected (320, 7, 1)")
    if report["missing_keys"] or report["mismatched_keys"]:
        raise _unusable(name, folder, f"{_WEIGHTS} lacks some of the weights")
    return model.to(torch.float32)


def _unusable(name: str, folder: Path, why: str) -> BackboneError:
    again = "Install gddsg again" if name == HYBRID else f"Copy {folder} again from where it came"
    return BackboneError(
        f"The weights of {name} are damaged or incomplete, and are not used ({why}). {again}, or {_MAKE_ONE}"
    )
