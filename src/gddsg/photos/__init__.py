"""Photos in, labels out: everything between image files and a model file.

::

    learn     listing ─▶ model_backbone ─▶ embedding ─▶ sorting ─▶ learning ─▶ store
    predict   inputs  ─▶ model_backbone ─▶ embedding ─▶ prediction
    sort                 model_backbone ─▶ embedding ─▶ prediction ─▶ filing
    evaluate  listing ─▶ model_backbone ─▶ embedding ─▶ evaluation, cross_validation

:mod:`~gddsg.photos.classifier` puts the steps together; each takes what the one before it gives.
"""

from gddsg.photos.classifier import PhotoClassifier
from gddsg.photos.correcting import CorrectionReport
from gddsg.photos.embedding import EmbeddedPhotos, Embedder, embed_dataset, embed_photos
from gddsg.photos.feature_set import FeatureReport, write_features
from gddsg.photos.filing import FiledPhoto, FilingReport
from gddsg.photos.merging import merge_models
from gddsg.photos.reports import LearnReport, PhotoEvaluation, PhotoPrediction, PhotoPredictions, WrongPhoto

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
