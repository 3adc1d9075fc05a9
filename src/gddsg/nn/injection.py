"""What can be added to a network that stays as it is, and the taps at which it is added.

A tap is a hook that looks up the injection of the forward pass it is in. So one frozen network serves many threads at a
time, each with an injection of its own; and outside :func:`injected` the taps do nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from gddsg.errors import MissingExtraError

__all__ = ["Injection", "injected", "tap_layers", "tap_transformer"]

_LAYERS = (nn.Linear, nn.LayerNorm, nn.Conv2d, nn.BatchNorm2d)
_ATTENTION = "gddsg-taps"


class Injection(nn.Module):
    """What is added at the taps of a network. This one adds nothing; others override what they change.

    Its parameters are what is trained. Blocks of a transformer are counted from 0; of its tokens the class token is the
    first, unless an injection puts others before it.
    """

    def at_input(self, tokens: Tensor) -> Tensor:
        """Tokens ``(n, tokens, width)`` with their positions, before the first block."""
        return tokens

    def before_block(self, block: int, tokens: Tensor) -> Tensor:
        """What a block is given, ``(n, tokens, width)``."""
        return tokens

    def after_block(self, block: int, tokens: Tensor) -> Tensor:
        """What a block gives, ``(n, tokens, width)``."""
        return tokens

    def keys_and_values(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a block's attention, ``(n, heads, tokens, width / heads)`` each; queries stay."""
        return keys, values

    def beside_mlp(self, block: int, tokens: Tensor, out: Tensor) -> Tensor:
        """What a block's MLP gives, ``out``; ``tokens`` is what it was given before normalisation."""
        return out

    def after_layer(self, name: str, out: Tensor) -> Tensor:
        """What the linear, convolution or normalisation layer of that name gives."""
        return out


@dataclass
class _Pass:
    """A forward pass under way: its injection, and what one tap leaves for another."""

    injection: Injection
    left: dict[int, Tensor] = field(default_factory=dict)


_PASS: ContextVar[_Pass | None] = ContextVar("pass", default=None)


@contextmanager
def injected(injection: Injection | None) -> Iterator[None]:
    """Meanwhile, in this thread, taps add what ``injection`` says; with None nothing."""
    before = _PASS.set(None if injection is None else _Pass(injection))
    try:
        yield
    finally:
        _PASS.reset(before)


def tap_layers(network: nn.Module) -> None:
    """Put a tap behind every linear, convolution and normalisation layer, once."""
    for name, layer in network.named_modules():
        if isinstance(layer, _LAYERS):
            layer.register_forward_hook(_after_layer(name))


def tap_transformer(vit: Any) -> None:
    """Put the taps of transformers on a ``ViTModel`` of Hugging Face, once.

    Prefixes reach the attention through the library's own registry of attention functions.
    """
    from transformers import AttentionInterface, __version__

    if not hasattr(vit, "layers"):
        raise MissingExtraError(
            f"Trained learners need transformers 5 or newer, and {__version__} is installed. Install it: "
            "pip install 'gddsg[train]'"
        )
    AttentionInterface.register(_ATTENTION, _attend)
    vit.config._attn_implementation = _ATTENTION
    vit.embeddings.register_forward_hook(_at_input)
    for block, layer in enumerate(vit.layers):
        layer.attention.gddsg_block = block
        layer.register_forward_pre_hook(_before_block(block))
        layer.register_forward_hook(_after_block(block))
        layer.layernorm_after.register_forward_pre_hook(_leave_tokens(block))
        layer.mlp.register_forward_hook(_beside_mlp(block))


# ---------------------------------------------------------------- the hooks: None leaves everything as it is


def _after_layer(name: str) -> Any:
    def hook(_: nn.Module, __: Any, out: Tensor) -> Tensor | None:
        now = _PASS.get()
        return None if now is None else now.injection.after_layer(name, out)

    return hook


def _at_input(_: nn.Module, __: Any, tokens: Tensor) -> Tensor | None:
    now = _PASS.get()
    return None if now is None else now.injection.at_input(tokens)


def _before_block(block: int) -> Any:
    def hook(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        now = _PASS.get()
        return None if now is None else (now.injection.before_block(block, given[0]), *given[1:])

    return hook


def _after_block(block: int) -> Any:
    def hook(_: nn.Module, __: Any, tokens: Tensor) -> Tensor | None:
        now = _PASS.get()
        return None if now is None else now.injection.after_block(block, tokens)

    return hook


def _leave_tokens(block: int) -> Any:
    """The MLP never sees the tokens before their normalisation, so the normalisation's tap keeps them for it."""

    def hook(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        now = _PASS.get()
        if now is not None:
            now.left[block] = given[0]

    return hook


def _beside_mlp(block: int) -> Any:
    def hook(_: nn.Module, __: Any, out: Tensor) -> Tensor | None:
        now = _PASS.get()
        return None if now is None else now.injection.beside_mlp(block, now.left.pop(block), out)

    return hook


def _attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any) -> Any:
    """Torch's attention, with what the injection adds to keys and values."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    now = _PASS.get()
    if now is not None:
        key, value = now.injection.keys_and_values(module.gddsg_block, key, value)
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, mask, **options)
