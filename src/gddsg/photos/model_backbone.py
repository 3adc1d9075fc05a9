"""The backbone that the features of a model come from: features of two backbones never meet in one model."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

from gddsg.backbones import DEFAULT_BACKBONE, load_backbone, require_device, resolve_name, spell_out
from gddsg.backbones.base import Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.backbones.folders import folder_of, with_whole_path
from gddsg.backbones.trust import is_trusted, trust
from gddsg.core.model import Model, same_backbone
from gddsg.core.once import Lazy, Once
from gddsg.data.dataset import PhotoListing
from gddsg.errors import BackboneError
from gddsg.learners.features import checked_features
from gddsg.photos.embedding import EmbeddedPhotos, Embedder
from gddsg.photos.threads import Progress

_LONGEST_IDENTITY = 1100


class ModelBackbone:
    """The backbone of the model in a file, loaded when it is first needed, once.

    The file may come from a stranger: a backbone that only the file names, and that is not embedded, is neither asked
    for nor opened before the user has agreed to it.

    Parameters
    ----------
    path : Path
        Of the model file, for messages.
    wanted : str or None
        Name of the backbone that the user asks for. A model that exists knows its own, and takes no other but the same
        one in a folder elsewhere.
    device : str or None
        Torch device; a GPU if there is one, unless named.
    ask : callable or None
        Given the name of a backbone that the file asks for, says whether the user agrees to it; remembered if so.
        None where there is nobody to ask.
    """

    def __init__(
        self, path: Path, wanted: str | None, device: str | None, ask: Callable[[str], bool] | None = None
    ) -> None:
        if device is not None:
            require_device(device)  # now, and not when photos have been read for an hour
        if wanted is not None:
            resolve_name(wanted)
        self._path, self._wanted, self._device, self._ask = path, wanted, device, ask
        self._agreed: str | None = None
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
        self.require_trust(model)
        fingerprint = self.identify(model).rpartition("@")[2]
        embedder = Embedder(fingerprint, Lazy(lambda: self.load(model)), cache, self._feature_dim(model))
        embedded = embedder.embed(listing.photos, known, progress)
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

    def require_trust(self, model: Model) -> None:
        """Refuse a model whose backbone the user has not agreed to; he is asked where that can be done.

        Parameters
        ----------
        model : Model
            The model in the file.
        """
        name = spell_out(self._identity(model).rpartition("@")[0])
        if self._wanted is not None or self._loaded.peek() is not None or self._agreed == name or is_trusted(name):
            return
        name = resolve_name(name)
        if self._ask is not None and self._ask(name):
            self._agreed = name  # where nothing can be remembered, at least for now
            trust(name)
            return
        raise BackboneError(
            f"{self._path} asks for the backbone {name}, which is not part of this package. A model file from a "
            "stranger can name any backbone, so it has not been looked for. If you trust it, name it once yourself: "
            f"--backbone {name}, or in Python PhotoClassifier({str(self._path)!r}, backbone={name!r}). If it is in a "
            "folder that is elsewhere now, name that: --backbone hf:FOLDER."
        )

    def identify(self, model: Model) -> str:
        """``name@fingerprint`` of a model's backbone; an error where photos do not go with it.

        It is loaded only where the user names another folder for it: then its fingerprint has to be that of the model,
        and its name is that of the folder.

        Parameters
        ----------
        model : Model
            The model in the file.
        """
        identity = self._identity(model)
        elsewhere = self._is_elsewhere(identity)
        loaded = self.load(model) if elsewhere else self._loaded.peek()
        if loaded is None:
            return identity
        self.require_same(model, loaded.identity)
        return loaded.identity if elsewhere else identity

    def _identity(self, model: Model) -> str:
        """What the model says of its backbone, if that can be and the user asks for no other."""
        identity, wanted = model.settings.backbone, self._wanted
        if identity is None:
            raise BackboneError(
                f"{self._path} was learnt from features of an unknown backbone, so it cannot be used with photos. "
                "Learn photos into a new model file."
            )
        if not identity.isprintable() or len(identity) > _LONGEST_IDENTITY:
            raise BackboneError(f"{self._path} names a backbone that cannot be: {identity[:200]!r}. Do not use it.")
        name = identity.rpartition("@")[0]
        if wanted is not None and resolve_name(wanted) != name and folder_of(wanted) is None:
            note = ", which is no folder here" if wanted.startswith("hf:") else ""
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name}, and {wanted} was asked for{note}. "
                "Leave the backbone out, or learn into a new model file."
            )
        return identity

    def _is_elsewhere(self, identity: str) -> bool:
        """Whether the user names a folder for the backbone, and not the one that the model names."""
        if self._wanted is None or folder_of(self._wanted) is None:
            return False
        return with_whole_path(self._wanted) != identity.rpartition("@")[0]

    def require_same(self, model: Model, identity: str | None) -> None:
        """Refuse a model of another backbone, which another process may have put in the place of the one before.

        Parameters
        ----------
        model : Model
            The model in the file.
        identity : str or None
            ``name@fingerprint`` of the backbone that photos were embedded by.
        """
        if not same_backbone(model.settings.backbone, identity):
            raise BackboneError(
                f"{self._path} is now a model of the backbone {model.settings.backbone}, and photos were embedded by "
                f"{identity}. Nothing was changed; start again."
            )

    def _feature_dim(self, model: Model) -> int | None:
        loaded = self._loaded.peek()
        return model.feature_dim if loaded is None else loaded.feature_dim

    def _load_wanted(self) -> Backbone:
        name = self._wanted or DEFAULT_BACKBONE
        backbone = load_backbone(name, self._device)
        trust(spell_out(name))  # who names a backbone agrees to it
        return backbone

    def _load_own(self, model: Model) -> Backbone:
        self.require_trust(model)
        name, _, fingerprint = self._identity(model).rpartition("@")
        backbone = load_backbone(self._wanted or name, self._device)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name} of fingerprint {fingerprint}, but {backbone.name} "
                f"has {backbone.fingerprint} here: other weights or preprocessing, so its features do not fit. "
                "Install or name the version the model was learnt with, or learn the photos into a new model file."
            )
        trust(spell_out(self._wanted or name))
        return backbone
