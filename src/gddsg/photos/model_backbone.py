"""The backbone that the features of a model come from: features of two backbones never meet in one model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gddsg.backbones import load_backbone, require_device, resolve_name, spell_out
from gddsg.backbones.base import Array, Backbone
from gddsg.backbones.feature_cache import FeatureCache
from gddsg.backbones.folders import means_folder, with_whole_path
from gddsg.backbones.trust import is_trusted, trust
from gddsg.core.backbone_identity import same_backbone
from gddsg.core.feature_range import usable_features
from gddsg.core.once import Lazy, Once
from gddsg.data.dataset import PhotoListing
from gddsg.data.photo import Photo, start_of_key
from gddsg.errors import BackboneError, ModelFileError
from gddsg.photos.embedding import EmbeddedPhotos, Embedder
from gddsg.photos.quality import DEFAULT_QUALITY, backbones_of, check_quality, choose_backbone
from gddsg.photos.threads import Progress

if TYPE_CHECKING:
    from gddsg.core.model import Model
    from gddsg.store.answers import Answers

Loader = Callable[[str, str | None], Backbone]
"""From the name of a backbone and a device, None for the best there is, to the backbone."""

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
    quality : {"fast", "good", "best"} or None
        By which a new model gets its backbone, where none is wanted by name.
    load : callable
        Gives the backbone of a name on a device; :func:`gddsg.backbones.load_backbone` unless given.
    """

    def __init__(
        self,
        path: Path,
        wanted: str | None,
        device: str | None,
        ask: Callable[[str], bool] | None = None,
        quality: str | None = None,
        load: Loader | None = None,
    ) -> None:
        check_quality(quality, wanted)
        if device is not None:
            require_device(device)  # now, and not when photos have been read for an hour
        if wanted is not None:
            resolve_name(wanted)
        self._path, self._wanted, self._device, self._ask = path, wanted, device, ask
        self._quality, self._load_backbone = quality, load or load_backbone
        self._agreed: str | None = None
        self._loaded: dict[str, Once[Backbone]] = {}  # by name

    def embed(
        self,
        listing: PhotoListing,
        model: Model | Answers,
        cache: FeatureCache,
        progress: Progress | None = None,
        known: Container[int] = (),
    ) -> EmbeddedPhotos:
        """Features that a model can use, and all that is skipped so far.

        Parameters
        ----------
        listing : PhotoListing
            The photos, and what was skipped on the way to them.
        model : Model or Answers
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
            features = usable_features(features)
        return replace(embedded, features=features, skipped=(*listing.skipped, *embedded.skipped))

    def look_up(self, samples: Collection[int], model: Model | Answers, cache: FeatureCache) -> dict[int, Array]:
        """Features from the cache, by sample id; those that are not there, or of another width, are left out.

        Parameters
        ----------
        samples : collection of int
            Sample ids.
        model : Model or Answers
            One whose backbone this is.
        cache : FeatureCache
            Where features are looked up.
        """
        fingerprint = self.identify(model).rpartition("@")[2]
        starts = {start_of_key(sample): sample for sample in samples}
        found = cache.get_by_starts(list(starts), fingerprint, self._feature_dim(model))
        return {starts[start]: vector for start, vector in found.items()}

    def load(self, model: Model | Answers) -> Backbone:
        """The backbone of a model.

        Parameters
        ----------
        model : Model or Answers
            The model in the file.
        """
        self.require_trust(model)
        name, _, fingerprint = self._identity(model).rpartition("@")
        backbone = self._load_named(self._wanted or name)
        if backbone.fingerprint != fingerprint:
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name} of fingerprint {fingerprint}, but {backbone.name} "
                f"has {backbone.fingerprint} here: other weights or preprocessing, so its features do not fit. "
                "Install or name the version the model was learnt with, or learn the photos into a new model file."
            )
        return backbone

    def load_new(self, photos: Sequence[Photo] = ()) -> Backbone:
        """The backbone for a new model: the one that is wanted, or else by quality.

        Parameters
        ----------
        photos : sequence of Photo
            The first that the model will learn.
        """
        return self._load_named(self._wanted or choose_backbone(self._quality or DEFAULT_QUALITY, photos))

    def require_trust(self, model: Model | Answers) -> None:
        """Refuse a model whose backbone the user has not agreed to; he is asked where that can be done.

        Parameters
        ----------
        model : Model or Answers
            The model in the file.
        """
        name = spell_out(self._identity(model).rpartition("@")[0])
        if self._wanted is not None or self._peek(name) is not None or self._agreed == name or is_trusted(name):
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

    def identify(self, model: Model | Answers) -> str:
        """``name@fingerprint`` of a model's backbone; an error where photos do not go with it.

        It is loaded only where the user names another folder for it: then its fingerprint has to be that of the model,
        and its name is that of the folder.

        Parameters
        ----------
        model : Model or Answers
            The model in the file.
        """
        identity = self._identity(model)
        return self.load(model).identity if self._is_elsewhere(identity) else identity

    def _identity(self, model: Model | Answers) -> str:
        """What the model says of its backbone, if that can be and the user asks for no other."""
        identity, wanted = model.backbone, self._wanted
        if identity is None:
            raise BackboneError(
                f"{self._path} was learnt from features of an unknown backbone, so it cannot be used with photos. "
                "Learn photos into a new model file."
            )
        if not identity.isprintable() or len(identity) > _LONGEST_IDENTITY:
            raise BackboneError(f"{self._path} names a backbone that cannot be: {identity[:200]!r}. Do not use it.")
        name = identity.rpartition("@")[0]
        if wanted is not None and resolve_name(wanted) != name and not means_folder(wanted):
            note = ", which is no folder here" if wanted.startswith("hf:") else ""
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name}, and {wanted} was asked for{note}. "
                "Leave the backbone out, or learn into a new model file."
            )
        meant = [name] if self._quality is None else backbones_of(self._quality)
        if name not in meant:
            raise BackboneError(
                f"{self._path} was learnt with the backbone {name}, and the quality {self._quality} was asked for, "
                f"which means {' or '.join(meant)}. Leave the quality out, or learn into a new model file."
            )
        return identity

    def _is_elsewhere(self, identity: str) -> bool:
        """Whether the user names a folder for the backbone, and not the one that the model names."""
        if self._wanted is None or not means_folder(self._wanted):
            return False
        return with_whole_path(self._wanted) != identity.rpartition("@")[0]

    def require_same(self, model: Model | Answers, identity: str | None) -> None:
        """Refuse a model of another backbone, which another process may have put in the place of the one before.

        Parameters
        ----------
        model : Model or Answers
            The model in the file.
        identity : str or None
            ``name@fingerprint`` of the backbone that photos were embedded by.
        """
        if not same_backbone(model.backbone, identity):
            raise BackboneError(
                f"{self._path} is now a model of the backbone {model.backbone}, and photos were embedded by "
                f"{identity}. Nothing was changed; start again."
            )

    def _feature_dim(self, model: Model | Answers) -> int | None:
        loaded = self._peek(spell_out(self._wanted or self._identity(model).rpartition("@")[0]))
        return model.feature_dim if loaded is None else loaded.feature_dim

    def _peek(self, name: str) -> Backbone | None:
        cell = self._loaded.get(name)
        return None if cell is None else cell.peek()

    def _load_named(self, name: str) -> Backbone:
        """A backbone that is trusted, or that the user himself names: naming it is agreeing to it."""
        full = spell_out(name)

        def load() -> Backbone:
            backbone = self._load_backbone(full, self._device)
            trust(full)
            return backbone

        return self._loaded.setdefault(full, Once()).get(load)


def no_model(path: Path) -> ModelFileError:
    """What is wrong where there is no model file.

    Parameters
    ----------
    path : Path
        Where it should be.
    """
    return ModelFileError(f"There is no model file {path}. Create it with learn: gddsg learn MODEL FOLDER.")
