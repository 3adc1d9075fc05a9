"""What requests and answers look like, with examples; OpenAPI is made of this."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gddsg import __version__


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


class ErrorDetail(BaseModel):
    """What is wrong, for programs and for people."""

    code: str
    message: str
    hint: str


class Error(BaseModel):
    """The answer to every request that is refused."""

    model_config = _example(
        error={
            "code": "unknown_class",
            "message": "There is no class 'wolv'. Did you mean 'wolf'? The model has 3 classes.",
            "hint": "GET /v1/classes lists the classes there are.",
        }
    )
    error: ErrorDetail


class Health(BaseModel):
    """That the service answers."""

    model_config = _example(status="ok", classes=3)
    status: Literal["ok"]
    classes: int


class RequestLimits(BaseModel):
    """What one request may carry."""

    files: int
    bytes: int


class ModelDescription(BaseModel):
    """The model as a whole."""

    model_config = _example(
        revision="5f0c2d8a91b3e467",
        file="animals.gddsg",
        classes=3,
        photos=60,
        groups=[["fox", "owl"], ["wolf"]],
        edges=[["fox", "wolf", 0.31]],
        backbone="efficientnet-lite0@288",
        image_size=288,
        feature_dim=1280,
        bytes=1_400_000,
        format=4,
        version=__version__,
        keeps_photos=False,
        rights="teach",
        limits={"files": 500, "bytes": 268_435_456},
    )
    revision: str = Field(description="Changes whenever the model does.")
    file: str
    classes: int
    photos: int
    groups: list[list[str]] = Field(description="Classes of each group; no two of a group look alike.")
    edges: list[tuple[str, str, float]] = Field(description="Classes that look alike, and their distance.")
    backbone: str | None
    image_size: int | None
    feature_dim: int | None
    bytes: int
    format: int
    version: str
    keeps_photos: bool
    rights: Literal["read", "teach"] = Field(description="Of who asks.")
    limits: RequestLimits


class Overlap(BaseModel):
    """A class that another one may be taken for."""

    name: str
    error: float = Field(description="Share of photos of the two expected to be taken for the wrong one.")


class ClassDescription(BaseModel):
    """A class."""

    model_config = _example(
        name="wolf",
        photos=20,
        distinct=19,
        group=1,
        thumbnails=["00f3a9d27b4c8e15"],
        overlaps=[{"name": "fox", "error": 0.04}],
    )
    name: str
    photos: int
    distinct: int = Field(description="Photos, where near copies of each other count as one.")
    group: int
    thumbnails: list[str]
    overlaps: list[Overlap]


class Classes(BaseModel):
    """All classes, by name."""

    revision: str = Field(description="Of the model that has them.")
    classes: list[ClassDescription]


class Skipped(BaseModel):
    """A file that was left out, and why."""

    name: str
    reason: str


class UnlikePhoto(BaseModel):
    """A photo that looks unlike the class it was taught as."""

    name: str
    probability: float | None = Field(description="Of the class, by the model before; null where it was new.")


class Taught(BaseModel):
    """What came of teaching photos."""

    model_config = _example(
        **{"class": "wolf", "learnt": 19, "known": 1, "photos": 20, "revision": "5f0c2d8a91b3e467", "created": True},
        skipped=[{"name": "notes.txt", "reason": "not an image"}],
        unlike=[{"name": "17.jpg", "probability": None}],
    )
    class_: str = Field(alias="class")
    learnt: int
    known: int = Field(description="Photos that the class had been learnt from before.")
    skipped: list[Skipped]
    unlike: list[UnlikePhoto]
    photos: int
    revision: str
    created: bool


class Started(BaseModel):
    """Work that goes on; GET /v1/jobs/{id} says how far it is."""

    model_config = _example(job="0f4b7c1de83a4f0f9f37b6a1d2c4e859")
    job: str


class Forgotten(BaseModel):
    """A class that is gone, and how to bring it back."""

    model_config = _example(forgotten="wolf", undo="0f4b7c1de83a4f0f9f37b6a1d2c4e859", undo_seconds=60)
    forgotten: str
    undo: str | None = Field(description="For POST /v1/undo/{id}; null where it is too late already.")
    undo_seconds: int


class Restored(BaseModel):
    """A class that is back."""

    model_config = _example(restored="wolf")
    restored: str


class NewName(BaseModel):
    """The name that a class is to have."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "grey wolf"}]})
    name: str = Field(max_length=1000)


class Rank(BaseModel):
    """A class, and how likely it is."""

    label: str
    probability: float


class Rival(BaseModel):
    """Another class that an input could have been."""

    label: str
    probability: float
    group: int
    similar: bool = Field(description="Whether the two classes look alike.")
    distance: float


class Why(BaseModel):
    """Why an input got its label."""

    group_probability: float
    group_members: list[str]
    rivals: list[Rival]
    novelty_limit: float = Field(description="Novelty that 99 % of known inputs stay below.")
    unlike_every_class: bool
    text: str


class Prediction(BaseModel):
    """What an input is taken for."""

    name: str
    label: str = Field(description='The likeliest class, or "unknown".')
    probability: float = Field(description="Of the likeliest class.")
    unknown: bool
    novelty: float = Field(description="How unlike every class; the higher, the stranger.")
    group: int = Field(description="Of the likeliest class.")
    top: list[Rank]
    why: Why | None


class Predictions(BaseModel):
    """What inputs are taken for, all by one model."""

    model_config = _example(
        revision="5f0c2d8a91b3e467",
        predictions=[
            {
                "name": "garden.jpg",
                "label": "fox",
                "probability": 0.93,
                "unknown": False,
                "novelty": -0.71,
                "group": 0,
                "top": [{"label": "fox", "probability": 0.93}, {"label": "wolf", "probability": 0.05}],
                "why": None,
            }
        ],
        skipped=[],
    )
    revision: str
    predictions: list[Prediction]
    skipped: list[Skipped]


class JobDescription(BaseModel):
    """Long work, and how far it is."""

    model_config = _example(
        job="0f4b7c1de83a4f0f9f37b6a1d2c4e859",
        kind="evaluate",
        state="running",
        done=120,
        total=400,
        result=None,
        error=None,
    )
    job: str
    kind: Literal["teach", "evaluate"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    result: dict[str, Any] | None
    error: ErrorDetail | None


class AdviceText(BaseModel):
    """What would help."""

    model_config = _example(
        kind="overlap",
        classes=["husky", "wolf"],
        text="husky and wolf overlap: about 1 photo in 8 may be taken for the other. Five more photos would help, "
        "of husky above all.",
    )
    kind: Literal["overlap", "few", "unlike", "copies"]
    classes: list[str]
    text: str


class AdviceList(BaseModel):
    """All that would help, the most pressing first."""

    advice: list[AdviceText]


class AuditEntry(BaseModel):
    """A change: who wanted it, and what came of it."""

    model_config = ConfigDict(
        populate_by_name=True,
        json_schema_extra={
            "examples": [{"time": 1.8e9, "who": "anna", "action": "teach", "class": "wolf", "outcome": "done"}]
        },
    )
    time: float = Field(description="Seconds since 1970.")
    who: str
    action: str
    name: str = Field(alias="class")
    outcome: str | None = Field(description="done, or why it was refused; null while it is under way.")


class Audit(BaseModel):
    """The last changes, newest first."""

    entries: list[AuditEntry]
