"""Photos in, labels out: everything between image files and a model file."""

from gddsg.photos.classifier import PhotoClassifier, merge_models
from gddsg.photos.embedding import EmbeddedPhotos, embed_dataset, embed_photos
from gddsg.photos.reports import LearnReport, PhotoEvaluation, PhotoPrediction

__all__ = [
    "EmbeddedPhotos",
    "LearnReport",
    "PhotoClassifier",
    "PhotoEvaluation",
    "PhotoPrediction",
    "embed_dataset",
    "embed_photos",
    "merge_models",
]
