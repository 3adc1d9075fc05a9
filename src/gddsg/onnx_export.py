"""Torch networks in ONNX format."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any


def onnx_bytes(
    network: Any, example: Any, names: tuple[str, str], metadata: Mapping[str, str] | None = None, *, batches: bool
) -> bytes:
    """The network as an ONNX file for inputs like ``example``, of any number of rows where ``batches``.

    ``names`` are those of input and output; the former is also the name of the argument of ``forward``.
    """
    import torch

    shapes = {names[0]: {0: torch.export.Dim("n")}} if batches else None
    with _quiet():
        program = torch.onnx.export(
            network,
            (example,),
            input_names=names[:1],
            output_names=names[1:],
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    proto = program.model_proto
    for key, value in (metadata or {}).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(proto.SerializeToString())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks to its developers; nothing it says is for our user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
