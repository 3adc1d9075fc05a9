"""Prompts: tokens at the input or in every block, and prefixes of keys and values."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gddsg.nn.injection import Injection

__all__ = ["DeepPrompts", "InputPrompts", "Prefixes", "ShallowPrompts"]


class InputPrompts(Injection):
    """Prompts of each sample before all its tokens, the class token too.

    Not trained by itself: who makes it holds the parameters that ``prompts`` come from.

    Parameters
    ----------
    prompts : Tensor
        ``(n, length, width)``.
    """

    def __init__(self, prompts: Tensor) -> None:
        super().__init__()
        self._prompts = prompts

    def at_input(self, tokens: Tensor) -> Tensor:
        """Prompts, then the tokens."""
        return torch.cat([self._prompts, tokens], dim=1)


class Prefixes(Injection):
    """Keys and values put before those of the tokens in some blocks (prefix tuning).

    Not trained by itself: who makes it holds the parameters that the prefixes come from.

    Parameters
    ----------
    by_block : mapping of int to pair of Tensor
        Keys and values ``(n, length, width)`` of every block that has some.
    """

    def __init__(self, by_block: Mapping[int, tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self._by_block = by_block

    def keys_and_values(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The block's prefix, then keys and values of its tokens."""
        if block not in self._by_block:
            return keys, values
        first, second = (_split_heads(part, keys.shape[1]) for part in self._by_block[block])
        return torch.cat([first, keys], dim=2), torch.cat([second, values], dim=2)


def _split_heads(prefix: Tensor, heads: int) -> Tensor:
    """``(n, length, width)`` as ``(n, heads, length, width / heads)``; reshaping alone would mix heads."""
    n, length, width = prefix.shape
    return prefix.reshape(n, length, heads, width // heads).transpose(1, 2)


class ShallowPrompts(Injection):
    """Tokens behind the class token, the same for every sample (VPT-shallow, Jia et al., ECCV 2022).

    Parameters
    ----------
    length, width : int
        How many tokens, and of what width; they begin at zero.
    """

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(length, width))

    def at_input(self, tokens: Tensor) -> Tensor:
        """The class token, the prompts, the rest."""
        return _inserted(tokens, self.tokens)


class DeepPrompts(Injection):
    """Tokens behind the class token, others in every block, and dropped behind it (VPT-deep, Jia et al., ECCV 2022).

    Parameters
    ----------
    blocks, length, width : int
        Of how many blocks, how many tokens, and of what width; they begin at zero.
    """

    def __init__(self, blocks: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(blocks, length, width))

    def before_block(self, block: int, tokens: Tensor) -> Tensor:
        """The class token, the block's prompts, the rest."""
        return _inserted(tokens, self.tokens[block])

    def after_block(self, block: int, tokens: Tensor) -> Tensor:
        """Without the prompts."""
        return torch.cat([tokens[:, :1], tokens[:, 1 + self.tokens.shape[1] :]], dim=1)


def _inserted(tokens: Tensor, prompts: Tensor) -> Tensor:
    return torch.cat([tokens[:, :1], prompts.expand(len(tokens), -1, -1), tokens[:, 1:]], dim=1)
