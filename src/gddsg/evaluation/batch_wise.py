"""Prompts chosen by a vote of many test samples, as the code published with L2P and DualPrompt chooses them.

It leaks: a test set that is sorted by class, as it is there, makes batches of one class, and the samples of a batch
tell each other which prompts suit that class. No lone image could be answered this way. Nothing here is used by any
learner of this library; the protocol ``batch-wise-prompts`` alone comes here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gddsg.data.images import Images
from gddsg.errors import InputError
from gddsg.learners.base import NotLearntError
from gddsg.learners.prompted import PromptLearner
from gddsg.nn.networks import Transformer
from gddsg.nn.prompting import Choosing, Prompting, most_voted

__all__ = ["predict_by_vote"]


def predict_by_vote(learner: Any, images: Images) -> NDArray[Any]:
    """Labels of images, of which as many as make a training batch as published share prompts, in the order they have.

    Parameters
    ----------
    learner : L2P or DualPrompt
        With classes learnt. The vote is in its use alone: it was trained with prompts of each sample's own choice.
    images : Images
        What is looked at, neighbours together.
    """
    if not isinstance(learner, PromptLearner):
        raise _none_to_vote_for(learner)
    if not hasattr(learner, "learnt_"):
        raise NotLearntError(f"This {type(learner).__name__} has learnt no class. Call partial_fit(X, y) first.")

    def together(prompts: Prompting, network: Transformer, part: Tensor) -> Tensor:
        if not isinstance(prompts, Choosing):
            raise _none_to_vote_for(learner)
        near = prompts.similarities(network.features(part))
        return prompts.features_by(network, part, most_voted(near, prompts.count))

    state = learner.learnt_.state
    best = learner.scores(state, images, together, learner.recipe.batch_size).argmax(1)
    return np.asarray(np.array(state.names)[best.numpy()])


def _none_to_vote_for(learner: Any) -> InputError:
    return InputError(
        f"The protocol 'batch-wise-prompts' was given a {type(learner).__name__}, which chooses no prompts from a "
        "pool; use it with L2P or DualPrompt."
    )
