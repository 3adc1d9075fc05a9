"""Adapters beside the MLPs of a transformer, and scales and shifts behind every layer of any network."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gddsg.nn.injection import Injection

__all__ = ["ParallelAdapters", "ScaleShift"]


class ParallelAdapters(Injection):
    """``mlp(norm(x)) + s · up(relu(down(x)))`` in every block (AdaptFormer, Chen et al., NeurIPS 2022).

    ``up`` begins at zero, so that a new adapter changes nothing.

    Parameters
    ----------
    blocks, width : int
        Of the transformer.
    random : torch.Generator
        What ``down`` is drawn from.
    bottleneck : int
        Width in between.
    strength : float
        s.
    """

    def __init__(
        self, blocks: int, width: int, random: torch.Generator, bottleneck: int = 64, strength: float = 0.1
    ) -> None:
        super().__init__()
        self.strength = strength
        bound = math.sqrt(6 / ((1 + 5) * width))  # Kaiming's uniform bound with a = √5, as LoRA begins
        down = torch.empty(blocks, bottleneck, width).uniform_(-bound, bound, generator=random)
        self.down, self.down_bias = nn.Parameter(down), nn.Parameter(torch.zeros(blocks, bottleneck))
        self.up, self.up_bias = (
            nn.Parameter(torch.zeros(blocks, width, bottleneck)),
            nn.Parameter(torch.zeros(blocks, width)),
        )

    def beside_mlp(self, block: int, tokens: Tensor, out: Tensor) -> Tensor:
        """The MLP's output and the adapter's."""
        inside = F.relu(F.linear(tokens, self.down[block], self.down_bias[block]))
        return out + self.strength * F.linear(inside, self.up[block], self.up_bias[block])


class ScaleShift(Injection):
    """``γ · out + β`` behind every layer, channel by channel (SSF, Lian et al., NeurIPS 2022).

    Begins with γ near one and β near zero.

    Parameters
    ----------
    widths : mapping of str to int
        Channels of every layer, by name: see :attr:`gddsg.nn.networks.Network.layer_widths`.
    random : torch.Generator
        What γ and β are drawn from, with a deviation of 0.02.
    """

    def __init__(self, widths: dict[str, int], random: torch.Generator) -> None:
        super().__init__()
        self._place = {name: place for place, name in enumerate(widths)}
        self.scales = nn.ParameterList([1 + 0.02 * torch.randn(n, generator=random) for n in widths.values()])
        self.shifts = nn.ParameterList([0.02 * torch.randn(n, generator=random) for n in widths.values()])

    def after_layer(self, name: str, out: Tensor) -> Tensor:
        """The layer's output, scaled and shifted; channels are the second axis of maps, else the last."""
        scale, shift = self.scales[self._place[name]], self.shifts[self._place[name]]
        if out.ndim == 4:
            scale, shift = scale[:, None, None], shift[:, None, None]
        scaled: Tensor = out * scale + shift
        return scaled
