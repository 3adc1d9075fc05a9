"""EfficientNet-Lite as a torch network: inverted bottlenecks with ReLU6 and nothing that small devices lack.

M. Tan and Q. V. Le, *EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks*, ICML 2019; the Lite
variants leave out squeeze-and-excitation, replace Swish by ReLU6, and scale neither the first nor the last layers.

Modules are called as in the published weights files, so that these load by ``load_state_dict(strict=True)``.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.backbones.efficientnet_lite_shape import FEATURE_DIM, SCALES, STAGES, STEM_WIDTH, scaled_width

CLASSES = 1000
"""Of ImageNet."""


class EfficientNetLiteNetwork(nn.Module):
    """Images ``(n, 3, height, width)`` to features ``(n, 1280)``: the mean over the last feature map.

    Parameters
    ----------
    name : str
        A key of ``SCALES``.
    layers : int
        How many of the last layers to give, side by side: means over the maps that the last stages end with, and
        behind them the 1280.
    """

    def __init__(self, name: str, layers: int = 1) -> None:
        super().__init__()
        width, depth = SCALES[name]
        self._conv_stem = _SameConv(3, STEM_WIDTH, 3, 2)
        self._bn0 = _norm(STEM_WIDTH)
        blocks, ends, channels = [], [], STEM_WIDTH
        for stage, (count, kernel, stride, expansion, base) in enumerate(STAGES):
            wide = scaled_width(base, width)
            fixed = stage in (0, len(STAGES) - 1)
            for block in range(count if fixed else math.ceil(count * depth)):
                blocks.append(_Block(channels, wide, kernel, stride if block == 0 else 1, expansion))
                channels = wide
            ends.append(len(blocks) - 1)
        self._given = ends[len(ends) + 1 - layers :]
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _SameConv(channels, FEATURE_DIM, 1)
        self._bn1 = _norm(FEATURE_DIM)
        self._fc = nn.Linear(FEATURE_DIM, CLASSES)  # no part of the features

    def forward(self, images: Tensor) -> Tensor:
        """Features of preprocessed images."""
        maps = self._first_map(images)
        earlier = []
        for place, block in enumerate(self._blocks):
            maps = block(maps)
            if place in self._given:
                earlier.append(maps.mean((2, 3)))
        last = self.pooled(maps)
        return torch.cat([*earlier, last], dim=1) if earlier else last

    def last_map(self, images: Tensor) -> Tensor:
        """What the last block gives, ``(n, channels, height / 32, width / 32)``."""
        maps = self._first_map(images)
        for block in self._blocks:
            maps = block(maps)
        return maps

    def pooled(self, last_map: Tensor) -> Tensor:
        """The 1280 features of what :meth:`last_map` gives."""
        return F.relu6(self._bn1(self._conv_head(last_map))).mean((2, 3))

    def logits(self, pooled: Tensor) -> Tensor:
        """Logits ``(n, 1000)`` of the classes of ImageNet, of what :meth:`pooled` gives."""
        logits: Tensor = self._fc(pooled)
        return logits

    def _first_map(self, images: Tensor) -> Tensor:
        return F.relu6(self._bn0(self._conv_stem(images)))


class LastMap(nn.Module):
    """The network up to its last block, as a module: images ``(n, 3, height, width)`` to maps.

    Parameters
    ----------
    network : EfficientNetLiteNetwork
        The whole of it.
    """

    def __init__(self, network: EfficientNetLiteNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Maps of preprocessed images."""
        return self.network.last_map(images)


class _Block(nn.Module):
    """Widen, filter each channel by itself, narrow; the input is added where the shapes agree."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self._widens = expansion != 1
        self._adds = stride == 1 and channels == out
        if self._widens:
            self._expand_conv = _SameConv(channels, wide, 1)
            self._bn0 = _norm(wide)
        self._depthwise_conv = _SameConv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv = _SameConv(wide, out, 1)
        self._bn2 = _norm(out)

    def forward(self, maps: Tensor) -> Tensor:
        found: Tensor = F.relu6(self._bn0(self._expand_conv(maps))) if self._widens else maps
        found = F.relu6(self._bn1(self._depthwise_conv(found)))
        found = self._bn2(self._project_conv(found))
        return found + maps if self._adds else found


class _SameConv(nn.Conv2d):
    """A convolution whose output has ``ceil(side / stride)`` pixels; of an odd padding the larger half is at the end.

    The weights were learnt so. Torch's ``padding="same"`` takes no stride, and a fixed padding would shift the maps.
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, out, kernel, stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        height, width = (
            max((math.ceil(side / step) - 1) * step + kernel - side, 0)
            for side, step, kernel in zip(input.shape[2:], self.stride, self.kernel_size, strict=True)
        )
        if height or width:
            input = F.pad(input, (width // 2, width - width // 2, height // 2, height - height // 2))
        return super().forward(input)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)
