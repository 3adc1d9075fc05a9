"""Models without heads: the discriminant decides alone, and a card keeps nothing that only heads need."""

import numpy as np
import pytest

from gddsg import GDDSG
from gddsg.core.model import Settings
from gddsg.errors import InputError
from gddsg.export import export_onnx
from gddsg.store.answers import read_answers


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(200, 24)) + np.repeat(np.eye(10, 24) * 3, 20, 0)).astype(np.float32)
    return features, np.repeat([f"c{i}" for i in range(10)], 20)


def test_answers_are_those_of_a_model_with_heads_that_nobody_asks(classes):
    features, labels = classes
    headless = GDDSG(projection_dim=0).fit(features, labels)
    deaf = GDDSG(projection_dim=32, decision="evidence").fit(features, labels)
    np.testing.assert_array_equal(headless.predict_proba(features), deaf.predict_proba(features))
    assert len(headless.class_groups_) == 1
    assert headless.predict_group(features).max() == 0


def test_files_and_merging(classes, tmp_path):
    features, labels = classes
    whole = GDDSG(projection_dim=0).fit(features, labels)
    whole.save(tmp_path / "whole.gddsg")
    first, second = (
        GDDSG(projection_dim=0).fit(features[part], labels[part]) for part in (slice(100), slice(100, 200))
    )
    merged = first.merge(second)
    read, kept = GDDSG.load(tmp_path / "whole.gddsg"), read_answers(tmp_path / "whole.gddsg")
    for other in (read.predict_proba(features), merged.predict_proba(features)):
        np.testing.assert_array_equal(other, whole.predict_proba(features))
    np.testing.assert_array_equal(
        kept.predictor.predict_log_proba(features), whole.model_.predictor.predict_log_proba(features)
    )
    assert export_onnx(whole.model_, tmp_path / "whole.onnx") < 1e-3


def test_a_card_keeps_nothing_for_heads(classes):
    features, labels = classes
    card = GDDSG(projection_dim=0).fit(features, labels).cards_["c0"]
    assert card.projected.dim == card.held_out.dim == 0
    assert len(card.to_bytes()) < len(GDDSG(projection_dim=500).fit(features, labels).cards_["c0"].to_bytes())


@pytest.mark.parametrize("asked", [{"grouping": "arrival"}, {"decision": "hard"}, {"identification": "vote"}])
def test_groups_without_heads_are_refused(asked):
    with pytest.raises(InputError, match="nothing to group for"):
        Settings(projection_dim=0, **asked).check()


def test_models_with_and_without_heads_do_not_merge(classes):
    features, labels = classes
    headless = GDDSG(projection_dim=0).fit(features[:100], labels[:100])
    with pytest.raises(InputError, match="projection_dim"):
        headless.merge(GDDSG(projection_dim=8).fit(features[100:], labels[100:]))
