"""Torch networks in ONNX format, and ONNX Runtime, which is imported nowhere else: here its telemetry is off."""

from __future__ import annotations

import contextlib
import io
import logging
import os
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

    _forbid_telemetry()  # the exporter may import ONNX Runtime by itself
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


def open_session(content: bytes, threads: int = 0) -> Any:
    """A session of ONNX Runtime on the CPU.

    Parameters
    ----------
    content : bytes
        Of an ONNX file, never its path: what was verified is what is run.
    threads : int
        That work on one input; 0 for as many as there are cores.

    Raises
    ------
    ValueError
        If this is not a network that ONNX Runtime can run.
    """
    _forbid_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it raises errors of its own kinds
        raise ValueError(f"ONNX Runtime cannot run this network ({str(error).splitlines()[0][:300]})") from error


def _forbid_telemetry() -> None:
    """Before its first import: official builds send usage events and keep a device id in the user's home folder.

    Its function ``disable_telemetry_events`` comes too late: by then the id is written. Who has set the variable
    himself has decided for himself.
    """
    if not os.environ.get("ORT_DISABLE_TELEMETRY"):
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"


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
