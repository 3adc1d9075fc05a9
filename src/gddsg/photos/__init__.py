"""Photos in, labels out: everything between image files and a model file.

::

    learn     listing ─▶ model_backbone ─▶ embedding ─▶ sorting ─▶ learning ─▶ store        (teaching)
    predict   inputs  ─▶ model_backbone ─▶ embedding ─▶ prediction
    sort                 model_backbone ─▶ embedding ─▶ prediction ─▶ filing
    evaluate  listing ─▶ model_backbone ─▶ embedding ─▶ evaluation, cross_validation

:mod:`~gddsg.photos.classifier` puts the steps together, those that change a model by :mod:`~gddsg.photos.teaching`;
each takes what the one before it gives.
"""

from typing import TYPE_CHECKING

from gddsg.lazy import lazy_names
from gddsg.photos.classifier import PhotoClassifier
from gddsg.photos.embedding import EmbeddedPhotos, Embedder, embed_dataset, embed_photos
from gddsg.photos.feature_set import FeatureReport, write_features
from gddsg.photos.filing import FiledPhoto, FilingReport
from gddsg.photos.reports import (
    CorrectionReport,
    LearnReport,
    PhotoEvaluation,
    PhotoPrediction,
    PhotoPredictions,
    WrongPhoto,
)

if TYPE_CHECKING:
    from gddsg.photos.merging import merge_models

__all__ = [
    "CorrectionReport",
    "EmbeddedPhotos",
    "Embedder",
    "FeatureReport",
    "FiledPhoto",
    "FilingReport",
    "LearnReport",
    "PhotoClassifier",
    "PhotoEvaluation",
    "PhotoPrediction",
    "PhotoPredictions",
    "WrongPhoto",
    "embed_dataset",
    "embed_photos",
    "merge_models",
    "write_features",
]

__getattr__ = lazy_names(__name__, {"merge_models": "gddsg.photos.merging"})
