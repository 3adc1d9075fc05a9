"""The backbone that the features of a model come from: features of two backbones never meet in one model."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from gddsg.backbones import DEFAULT_BACKBONE, PRESETS, load_backbone
from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.core.model import Model
from gddsg.core.once import Lazy, Once
from gddsg.data.dataset import PhotoListing
from gddsg.errors import BackboneError
from gddsg.learners.features import checked_features
from gddsg.photos.embedding import EmbeddedPhotos, Embedder
from gddsg.photos.threads import Progress


class ModelBackbone:
    """The backbone of the model in a file, loaded when it is first needed, once.

    Parameters
    ----------
    path : Path
        Of the model file, for messages.
    wanted : str or None
        Name of the backbone that the user asks for; a model that exists knows its own.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    """

    def __init__(self, path: Path, wanted: str | None, device: str | None) -> None:
        self._path, self._wanted, self._device = path, wanted, device
        self._loaded: Once[Backbone] = Once()

    def embed(
        self,
        listing: PhotoListing,
        model: Model,
        cache: FeatureCache,
        progress: Progress | None = None,
        known: Container[int] = (),
    ) -> EmbeddedPhotos:
        """Features that a model can use, and all that is skipped so far.

        Parameters
        ----------
        listing : PhotoListing
            The photos, and what was skipped on the way to them.
        model : Model
            One whose backbone this is.
        cache : FeatureCache
            Where features are looked up and kept.
        progress : callable or None
            Told how far the work is.
        known : container of int
            Sample ids of photos that need no features.
        """
        fingerprint = self.identify(model).rpartition("@")[2]
        embedded = Embedder(fingerprint, Lazy(lambda: self.load(model)), cache).embed(listing.photos, known, progress)
        features = embedded.features
        if embedded.photos:  # a network may give what no learner can use
            features = checked_features(features, {}, "PhotoClassifier", "cpu")[0].numpy()
        return replace(embedded, features=features, skipped=(*listing.skipped, *embedded.skipped))

    def load(self, model: Model | None) -> Backbone:
        """The backbone of a model, or where there is no model the one for a new one.

        Parameters
        ----------
        model : Model or None
            The model in the file.
        """
        return self._loaded.get(lambda: self._load_wanted() if model is None else self._load_own(model))

    def identify(self, model: Model) -> str:
        """``name@fingerprint`` of a model's backbone, without loading it; an error where photos do not go with it.

        Parameters
        ----------
        model : Model
            The model in the file.
        """
        identity, wanted = model.settings.backbone, self._wanted
        if identity is None:
            raise BackboneError(
                f"{self._path} was learnt from features of an unknown backbone, so it cannot be used with photos. "
                "Learn photos into a new model file."
            )
        name = identity.rpartition("@")[0]
        if wanted is not None and PRESETS.get(wanted, wanted) != name:
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name}, and {wanted} was asked for. "
                "Leave the backbone out, or learn into a new model file."
            )
        loaded = self._loaded.peek()
        if loaded is not None:
            self.require_same(model, loaded.identity)
        return identity

    def require_same(self, model: Model, identity: str | None) -> None:
        """Refuse a model of another backbone, which another process may have put in the place of the one before.

        Parameters
        ----------
        model : Model
            The model in the file.
        identity : str or None
            ``name@fingerprint`` of the backbone that photos were embedded by.
        """
        if model.settings.backbone != identity:
            raise BackboneError(
                f"{self._path} is now a model of the backbone {model.settings.backbone}, and photos were embedded by "
                f"{identity}. Nothing was changed; start again."
            )

    def _load_wanted(self) -> Backbone:
        return load_backbone(self._wanted or DEFAULT_BACKBONE, self._device)

    def _load_own(self, model: Model) -> Backbone:
        name, _, fingerprint = self.identify(model).rpartition("@")
        backbone = load_backbone(name, self._device)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name} of fingerprint {fingerprint}, but what is installed "
                f"under that name has {backbone.fingerprint}: other weights or preprocessing, so its features do not "
                "fit. Install the version the model was learnt with, or learn the photos into a new model file."
            )
        return backbone
