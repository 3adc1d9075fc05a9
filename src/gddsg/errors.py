"""The exceptions this package raises; catching `GddsgError` catches them all.

`NotLearntError`, which scikit-learn has to know as one of its own, is in :mod:`gddsg.learners.base`.
"""

__all__ = [
    "BackboneError",
    "DataError",
    "GddsgError",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "ModelFileError",
    "PhotoError",
    "TrainingError",
    "UnknownClassError",
]


class GddsgError(Exception):
    """Base of every error below, never raised itself."""


class InputError(GddsgError, ValueError):
    """Raised when data or parameters handed in cannot be used as they are."""


class InputTypeError(InputError, TypeError):
    """Raised when what was handed in is of a kind that can never be features."""


class UnknownClassError(GddsgError, LookupError):
    """Raised when a class is named that the model does not know."""


class MissingExtraError(GddsgError, ImportError):
    """Raised when a feature needs an optional dependency that is not installed."""


class ModelFileError(GddsgError, OSError):
    """Raised when a model file cannot be read or written."""


class PhotoError(GddsgError, ValueError):
    """Raised when a file does not hold an image that can be learnt from or classified."""


class DataError(GddsgError, ValueError):
    """Raised when a data set is missing, incomplete or not in the layout it should have."""


class BackboneError(GddsgError, RuntimeError):
    """Raised when a backbone cannot be loaded, or is not the one a model was learnt with."""


class TrainingError(GddsgError, ArithmeticError):
    """Raised when training has failed; what was learnt before it stays as it was."""
