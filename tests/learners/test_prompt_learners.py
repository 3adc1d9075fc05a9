"""L2P, DualPrompt and CODA-Prompt: what each adds, what it leaves alone, and what it refuses."""

import json
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from gddsg.checks.samples import samples_for
from gddsg.data import InputDataset, class_stream, task_sizes
from gddsg.data.images import Images
from gddsg.errors import BackboneError, InputError
from gddsg.evaluation.batch_wise import predict_by_vote
from gddsg.evaluation.leak_check import leak_check
from gddsg.evaluation.protocol import BATCH_WISE, closing_metrics, evaluate_stream, shuffled_pool
from gddsg.learners import L2P, CODAPrompt, DualPrompt, Finetune, NotLearntError
from gddsg.learners.prompted import Prompted
from gddsg.nn.networks import load_network
from gddsg.nn.prompting import cosines, most_similar
from gddsg.nn.prompts import InputPrompts, Prefixes
from gddsg.nn.training import watching

PROMPTED = [L2P, DualPrompt, CODAPrompt]


def new(kind, **parameters):
    return kind(**{**kind.test_params(), **parameters})


def quick(kind, **parameters):
    """Trained for one epoch: enough where it does not matter how well."""
    return new(kind, training={**kind.test_params()["training"], "epochs": 1}, **parameters)


def halves(n_classes=6, n=30):
    """Two batches of other classes each."""
    known = samples_for(L2P(), n_classes, n)
    first = np.isin(known.labels, np.unique(known.labels)[: n_classes // 2])
    return [(known.inputs[rows], known.labels[rows]) for rows in (first, ~first)]


def as_inputs(images):
    network = load_network("toy-vit")
    return network, network.prepare(images)


def untouched(kind):
    """Tensors by name before and after a second batch."""
    first, second = halves(n=6)
    learner = quick(kind).partial_fit(*first)
    before = learner.learnt_.state
    copies = {name: tensor.clone() for name, tensor in before.prompts.items()}
    after = learner.partial_fit(*second).learnt_.state
    assert all(torch.equal(before.prompts[name], copy) for name, copy in copies.items())  # no state changes in place
    return before.prompts, after.prompts


# ---------------------------------------------------------------- L2P


def test_l2p_scores_are_those_of_the_nearest_prompts_written_out():
    learner, (batch, _) = quick(L2P), halves(n=6)
    images = batch[0]
    learner.partial_fit(*batch)
    state, (network, inputs) = learner.learnt_.state, as_inputs(images)
    prompts, keys = state.prompts["prompts"], state.prompts["keys"]
    with torch.no_grad():
        queries = network.features(inputs)
        for n in range(len(inputs)):
            near = [float(F.cosine_similarity(queries[n], key, dim=0)) for key in keys]
            chosen = sorted(range(len(keys)), key=lambda k: -near[k])[: learner.chosen]
            before = torch.cat([prompts[k] for k in chosen])[None]
            out = network.tokens(inputs[n : n + 1], InputPrompts(before))[:, : before.shape[1]].mean(1)
            scores = out @ state.head["weight"].T + state.head["bias"]
            expected = dict(zip(state.names, scores.softmax(1)[0].tolist(), strict=True))
            found = dict(zip(learner.classes_, learner.predict_proba(images[n : n + 1])[0], strict=True))
            assert found == pytest.approx(expected, abs=1e-5)


def test_l2p_draws_chosen_keys_to_their_queries_and_no_others():
    (batch, _) = halves(n=12)
    network, inputs = as_inputs(batch[0])
    queries = network.features(inputs)

    def nearest(pull):
        keys = new(L2P, pull=pull).partial_fit(*batch).learnt_.state.prompts["keys"]
        return float(cosines(queries, keys).max(1).values.mean())

    assert nearest(10.0) > nearest(0.0) + 0.05
    pool = new(L2P)._begun(Prompted(), network)
    pool.extra_loss(queries).backward()
    chosen = set(most_similar(pool.similarities(queries), pool.count).flatten().tolist())
    assert {k for k in range(3) if bool(pool.keys.grad[k].any())} == chosen
    assert pool.prompts.grad is None


def test_l2p_extra_loss_is_the_sum_of_cosines_with_the_chosen_keys():
    network, inputs = as_inputs(halves(n=2)[0][0])
    pool, queries = new(L2P, pull=0.1)._begun(Prompted(), network), network.features(inputs)
    expected = 0.0
    for query in queries:
        near = sorted((float(F.cosine_similarity(query, key, dim=0)) for key in pool.keys.detach()), reverse=True)
        expected -= 0.1 * sum(near[:2]) / len(queries)
    assert float(pool.extra_loss(queries).detach()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("parameters", [{"chosen": 4}, {"pool": 0}, {"length": 0}, {"pull": -1}, {"spread": -0.1}])
def test_l2p_refuses_parameters_that_make_no_sense(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        new(L2P, **parameters).partial_fit(*halves(n=2)[0])


# ---------------------------------------------------------------- DualPrompt


def test_dualprompt_scores_are_those_of_the_nearest_expert_written_out():
    first, second = halves(n=6)
    learner = new(DualPrompt).partial_fit(*first).partial_fit(*second)
    state, taken = learner.learnt_.state, set()
    experts = [*state.prompts["older"], state.prompts["own"]]
    keys = [*state.prompts["older_keys"], state.prompts["own_key"]]
    assert len(experts) == len(keys) == 2
    general = state.prompts["general"]
    for images, _ in (first, second):
        network, inputs = as_inputs(images)
        found = learner.predict_proba(images)
        with torch.no_grad():
            queries = network.features(inputs)
            for n in range(len(inputs)):
                best = max(range(2), key=lambda e: float(F.cosine_similarity(queries[n], keys[e], dim=0)))
                taken.add(best)
                by_block = {
                    0: (general[0, 0][None], general[0, 1][None]),
                    1: (experts[best][0, 0][None], experts[best][0, 1][None]),
                }
                out = network.features(inputs[n : n + 1], Prefixes(by_block))
                scores = out @ state.head["weight"].T + state.head["bias"]
                expected = dict(zip(state.names, scores.softmax(1)[0].tolist(), strict=True))
                assert dict(zip(learner.classes_, found[n], strict=True)) == pytest.approx(expected, abs=1e-5)
    assert taken == {0, 1}, "the samples tell nothing about the choice"


def test_dualprompt_leaves_older_experts_and_keys_to_the_bit():
    before, after = untouched(DualPrompt)
    assert torch.equal(after["older"][0], before["own"])
    assert torch.equal(after["older_keys"][0], before["own_key"])
    assert not torch.equal(after["general"], before["general"])


def test_a_new_expert_begins_as_a_copy_of_the_one_before_with_a_key_of_its_own():
    learner = quick(DualPrompt).partial_fit(*halves(n=4)[0])
    state = learner.learnt_.state
    begun = learner._begun(state, load_network("toy-vit"))
    assert torch.equal(begun.own, state.prompts["own"])
    assert begun.own.data_ptr() != state.prompts["own"].data_ptr()
    assert not torch.equal(begun.own_key, state.prompts["own_key"])
    assert {name for name, _ in begun.named_parameters()} == {"general", "own", "own_key"}


def test_in_training_the_own_expert_is_used_whatever_the_keys_say():
    learner = quick(DualPrompt).partial_fit(*halves(n=4)[0])
    network, inputs = as_inputs(halves(n=4)[0][0])
    begun = learner._begun(learner.learnt_.state, network)
    with torch.no_grad():
        queries = network.features(inputs)
        begun.older_keys.copy_(queries.mean(0)[None])
        begun.own_key.copy_(-queries.mean(0))
        begun.own.mul_(5)
        own, older = (begun.features_by(network, inputs, torch.full((len(inputs), 1), e)) for e in (1, 0))
        assert torch.equal(begun.train().features(network, inputs, queries), own)
        assert torch.equal(begun.eval().features(network, inputs, queries), older)
    assert not torch.allclose(own, older)


@pytest.mark.parametrize(
    "parameters", [{"expert_blocks": (0,)}, {"general_blocks": ()}, {"expert_blocks": (1, 1)}, {"length": 0}]
)
def test_dualprompt_refuses_parameters_that_make_no_sense(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        new(DualPrompt, **parameters).partial_fit(*halves(n=2)[0])


# ---------------------------------------------------------------- CODA-Prompt


def test_coda_scores_are_those_of_weighted_components_written_out():
    first, second = halves(n=4)
    learner = quick(CODAPrompt, length=3).partial_fit(*first).partial_fit(*second)
    state = learner.learnt_.state
    parts = {
        name: torch.cat([state.prompts[f"older_{name}"], state.prompts[f"own_{name}"]], 1)
        for name in ("prompts", "keys", "attention")
    }
    assert parts["prompts"].shape == (2, 10, 6, 32)
    images = second[0]
    network, inputs = as_inputs(images)
    found = learner.predict_proba(images)
    with torch.no_grad():
        queries = network.features(inputs)
        for n in range(len(inputs)):
            by_block = {}
            for block in range(2):
                prompt = torch.zeros(6, 32)
                for k in range(10):
                    seen = queries[n] * parts["attention"][block, k]
                    prompt += F.cosine_similarity(seen, parts["keys"][block, k], dim=0) * parts["prompts"][block, k]
                by_block[block] = (prompt[None, :3], prompt[None, 3:])
            out = network.features(inputs[n : n + 1], Prefixes(by_block))
            scores = out @ state.head["weight"].T + state.head["bias"]
            expected = dict(zip(state.names, scores.softmax(1)[0].tolist(), strict=True))
            assert dict(zip(learner.classes_, found[n], strict=True)) == pytest.approx(expected, abs=1e-5)


def test_coda_leaves_older_components_to_the_bit():
    before, after = untouched(CODAPrompt)
    for name in ("prompts", "keys", "attention"):
        assert torch.equal(after[f"older_{name}"], before[f"own_{name}"])
        assert after[f"own_{name}"].shape == before[f"own_{name}"].shape


def test_new_components_begin_at_right_angles_to_trained_ones():
    learner = quick(CODAPrompt).partial_fit(*halves(n=4)[0])
    begun = learner._begun(learner.learnt_.state, load_network("toy-vit"))
    for name in ("prompts", "keys", "attention"):
        older, own = getattr(begun, f"older_{name}").flatten(2), getattr(begun, f"own_{name}").detach().flatten(2)
        assert torch.allclose(own @ older.mT, torch.zeros(2, 5, 5), atol=1e-5)
        assert torch.allclose(own @ own.mT, torch.eye(5).expand(2, 5, 5), atol=1e-5)
    assert {name for name, _ in begun.named_parameters()} == {"own_prompts", "own_keys", "own_attention"}


def test_coda_penalty_is_the_mean_square_of_what_differs_from_the_identity():
    learner = quick(CODAPrompt, orthogonality=0.5).partial_fit(*halves(n=4)[0])
    trained, expected = learner._trained(learner.learnt_.state), 0.0
    for name in ("prompts", "keys", "attention"):
        for block in trained.part(name).detach().flatten(2):
            for i, a in enumerate(block):
                for j, b in enumerate(block):
                    expected += 0.5 * (float(a @ b) - (i == j)) ** 2 / len(block) ** 2
    assert float(trained.extra_loss(torch.zeros(1, 32)).detach()) == pytest.approx(expected, rel=1e-4)
    assert float(quick(CODAPrompt)._begun(Prompted(), load_network("toy-vit")).extra_loss(torch.zeros(1, 32))) == 0


def test_a_penalty_keeps_components_nearer_to_right_angles():
    batch = halves(n=12)[0]

    def off(orthogonality):
        state = new(CODAPrompt, orthogonality=orthogonality).partial_fit(*batch).learnt_.state
        return float(new(CODAPrompt, orthogonality=1.0)._trained(state).extra_loss(torch.zeros(1, 32)).detach())

    assert off(10.0) < off(0.0) / 2


# ---------------------------------------------------------------- all three


@pytest.mark.parametrize("kind", PROMPTED)
def test_the_head_of_absent_classes_stays_to_the_bit(kind):
    """The loss is among the classes of the batch: scores of others take no part."""
    first, second = halves(n=6)
    learner = quick(kind).partial_fit(*first)
    before = learner.learnt_.state
    after = learner.partial_fit(*second).learnt_.state
    assert after.names[:3] == before.names
    assert torch.equal(after.head["weight"][:3], before.head["weight"])
    assert torch.equal(after.head["bias"][:3], before.head["bias"])
    again = learner.partial_fit(*first).learnt_.state  # classes that come back are among those of their batch
    assert torch.equal(again.head["weight"][3:], after.head["weight"][3:])
    assert not torch.equal(again.head["weight"][:3], after.head["weight"][:3])
    assert again.names == after.names


@pytest.mark.parametrize("kind", PROMPTED)
def test_the_network_stays_to_the_bit(kind):
    batch = halves(n=4)[0]
    network, inputs = as_inputs(batch[0])
    before = network.tokens(inputs)
    quick(kind).partial_fit(*batch).predict(batch[0])
    assert torch.equal(network.tokens(inputs), before)


@pytest.mark.parametrize("kind", PROMPTED)
def test_it_grows_from_one_class_to_fifty_and_comes_back_from_a_pickle(kind):
    known = samples_for(L2P(), 50, 4)
    names = np.unique(known.labels)
    learner = quick(kind)
    for start, end in ((0, 1), (1, 2), (2, 9), (9, 50)):
        rows = np.isin(known.labels, names[start:end])
        learner.partial_fit(known.inputs[rows], known.labels[rows])
        assert list(learner.classes_) == list(names[:end])
        assert learner.predict_proba(known.inputs[:3]).shape == (3, end)
    copy = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(copy.predict_proba(known.inputs), learner.predict_proba(known.inputs))
    more = known.inputs[:8], known.labels[:8]
    assert np.array_equal(
        copy.partial_fit(*more).predict_proba(known.inputs), learner.partial_fit(*more).predict_proba(known.inputs)
    )


@pytest.mark.parametrize("kind", PROMPTED)
def test_augmented_training_learns_too(kind):
    given = kind.test_params()["training"]
    known = samples_for(L2P(), 2, 20)
    learner = new(kind, training={**given, "augment": True, "epochs": 2 * given["epochs"]})
    found = learner.partial_fit(known.inputs, known.labels).predict(known.fresh)
    assert np.mean(found == known.labels) > 0.9


@pytest.mark.parametrize("kind", PROMPTED)
def test_a_training_that_was_killed_goes_on_to_the_same_prompts(kind, tmp_path):
    batch = halves(n=8)[0]
    expected = new(kind).partial_fit(*batch).learnt_.state
    learner = new(kind, checkpoints=str(tmp_path))

    def kill(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watching(kill):
        learner.partial_fit(*batch)
    assert not hasattr(learner, "learnt_")
    assert len(list(tmp_path.iterdir())) == 1
    seen = []
    with watching(lambda progress: seen.append(progress.epoch)):
        found = learner.partial_fit(*batch).learnt_.state
    assert seen[0] == 3
    assert all(torch.equal(found.prompts[name], tensor) for name, tensor in expected.prompts.items())
    assert all(torch.equal(found.head[name], tensor) for name, tensor in expected.head.items())


TOO_DEEP = {DualPrompt: {"expert_blocks": (1, 2)}, CODAPrompt: {"blocks": (0, 1, 2)}}


@pytest.mark.parametrize("kind", [DualPrompt, CODAPrompt])
def test_too_few_blocks_are_an_error_that_says_so(kind):
    batch = halves(n=2)[0]
    with pytest.raises(BackboneError, match=f"{kind.__name__} needs a ViT of 3 blocks at least, and toy-vit@0 has 2"):
        new(kind, **TOO_DEEP[kind]).partial_fit(*batch)
    with pytest.raises(BackboneError, match="of 5 blocks"):
        kind("toy-vit").partial_fit(*batch)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resnet")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    with torch.random.fork_rng(devices=[]):
        transformers.ResNetModel(config).save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return f"hf:{folder}"


@pytest.mark.parametrize("kind", PROMPTED)
def test_a_convolutional_network_is_an_error_that_says_so(kind, resnet):
    with pytest.raises(BackboneError, match=f"{kind.__name__} puts prompts or adapters into the blocks of a ViT"):
        new(kind, backbone=resnet).partial_fit(*halves(n=2)[0])


# ---------------------------------------------------------------- honest, and labelled where not


@pytest.fixture(scope="module")
def colours():
    known = samples_for(L2P(), 8, 20, noise=1.5)
    names = tuple(np.unique(known.labels).tolist())
    return InputDataset("colours", known.inputs, known.labels, known.fresh, known.labels, names)


@pytest.mark.parametrize("kind", PROMPTED)
def test_no_prompt_learner_leaks(kind, colours):
    report = leak_check(new(kind), colours)
    assert not report.leaks, str(report)


@pytest.mark.parametrize("learner", [new(L2P, pool=9, chosen=1, spread=0.3), new(DualPrompt)])
def test_the_vote_leaks_and_says_so(learner, colours):
    assert BATCH_WISE.leaks
    changed = leak_check(learner, colours, protocol=BATCH_WISE).changed
    assert changed["test labels"] > 0
    assert changed["single samples"] > 0


def test_a_vote_is_that_of_batches_as_large_as_published(colours):
    stream = class_stream(colours, colours.classes, task_sizes(8, 4))
    learner = new(DualPrompt)
    *_, last = evaluate_stream(learner, stream)
    images = Images.of(colours.test_inputs[:60])
    state = learner.learnt_.state
    trained = learner._trained(state).eval()
    found = predict_by_vote(learner, images)
    for start in range(0, 60, 24):
        network, inputs = as_inputs(images[start : start + 24])
        with torch.no_grad():
            nearest = cosines(network.features(inputs), torch.cat([trained.older_keys, trained.own_key[None]])).argmax(
                1
            )
            expert = int(np.bincount(nearest.numpy()).argmax())
            out = trained.features_by(network, inputs, torch.full((len(inputs), 1), expert))
            best = (out @ state.head["weight"].T + state.head["bias"]).argmax(1)
        assert found[start : start + 24].tolist() == [state.names[k] for k in best.tolist()]
    pool = shuffled_pool(stream, 3, 0)
    assert "ECE" not in closing_metrics(learner, stream, last, BATCH_WISE)
    assert len(BATCH_WISE.predict(learner, pool)) == len(pool.labels)


def test_the_vote_is_for_learners_that_choose():
    first = halves(n=2)[0]
    for learner in (quick(CODAPrompt), Finetune("toy-vit", {"epochs": 1, "augment": False})):
        with pytest.raises(InputError, match="batch-wise-prompts"):
            predict_by_vote(learner.partial_fit(*first), first[0])
    with pytest.raises(NotLearntError):
        predict_by_vote(new(L2P), first[0])
