"""A model of Hugging Face from a folder, made on the spot, is a backbone."""

import json
import tempfile
from pathlib import Path

from PIL import Image

from gddsg.backbones import load_backbone

with tempfile.TemporaryDirectory() as folder:
    try:
        from transformers import ViTConfig, ViTModel
    except ImportError:
        pass  # what is missing is said below
    else:
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8), add_pooling_layer=False).save_pretrained(folder)
        settings = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
        Path(folder, "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    backbone = load_backbone(f"hf:{folder}", device="cpu")
    assert backbone.embed(backbone.preprocess(Image.new("RGB", (80, 60)))[None]).shape == (1, 16)
