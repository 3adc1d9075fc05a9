"""Threads predict without pause while another learns: every answer is that of exactly one model of that moment."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from gddsg import GDDSG
from gddsg.core.model import Model

DIM, THREADS, CHANGES = 4, 8, 300
QUESTIONS = ("predict_proba", "predict_group", "novelty", "predict")


def samples(seed, n=6):
    rng = np.random.default_rng(seed)
    return np.abs(rng.uniform(1, 9, DIM) + rng.normal(0, 0.7, (n, DIM))).astype(np.float32)


QUERIES = np.concatenate([samples(seed, 2) for seed in range(6)])


def learner():
    return GDDSG(projection_dim=16, rank=4)


@pytest.fixture(autouse=True)
def quick_switches():
    """Threads change places as often as can be; the arithmetic of each stays on one core."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with threadpool_limits(1):
        yield
    sys.setswitchinterval(interval)


def answer_of(model, question):
    """What a model answers, as bytes."""
    return getattr(GDDSG.of(model), question)(QUERIES).tobytes()


class Teacher:
    """Changes a classifier step by step and keeps every model it has ever been."""

    def __init__(self, classifier):
        self.classifier, self.models, self.rng = classifier, [], np.random.default_rng(0)
        self.seed, self.done = 1000, dict.fromkeys(("learn", "more", "forget", "rename", "merge"), 0)
        for label in range(5):
            self.learn(label)

    def learn(self, label):
        self.seed += 1
        self.classifier.partial_fit(samples(self.seed), [label] * 6)
        self.models.append(self.classifier.model_)

    def change(self):
        labels = self.classifier.classes_.tolist()
        steps = ["learn", "more"] if len(labels) < 4 else ["forget"] if len(labels) > 9 else list(self.done)
        step, some = str(self.rng.choice(steps)), int(self.rng.choice(labels))
        self.seed += 1
        if step == "learn":
            self.classifier.partial_fit(samples(self.seed), [self.seed] * 6)
        elif step == "more":
            self.classifier.partial_fit(samples(self.seed), [some] * 6)
        elif step == "forget":
            self.classifier.forget(some)
        elif step == "rename":
            self.classifier.rename(some, self.seed)
        else:
            both = np.concatenate([samples(self.seed), samples(self.seed + 10**6)])
            self.classifier.merge(learner().fit(both, [some] * 6 + [self.seed] * 6))
        self.models.append(self.classifier.model_)
        self.done[step] += 1


def test_every_answer_is_that_of_one_model_of_its_moment():
    classifier = learner()
    teacher, stop, begun = Teacher(classifier), threading.Event(), threading.Barrier(THREADS + 1)

    def predict():
        answers = []
        begun.wait()
        while not stop.is_set():
            for question in QUESTIONS:
                first = len(teacher.models) - 1  # the model before the question, or an older one
                found = getattr(classifier, question)(QUERIES).tobytes()
                answers.append((question, first, len(teacher.models), found))  # at most one is not noted yet
        return answers

    with ThreadPoolExecutor(THREADS) as pool:
        threads = [pool.submit(predict) for _ in range(THREADS)]
        begun.wait()
        try:
            for _ in range(CHANGES):
                teacher.change()
        finally:
            stop.set()
        answers = [answer for thread in threads for answer in thread.result()]
    assert sum(teacher.done.values()) == CHANGES
    assert min(teacher.done.values()) > 20
    assert len({first for _, first, _, _ in answers}) > 50  # they did predict while it learnt
    for question in QUESTIONS:
        expected = [answer_of(Model(model.settings, dict(model.cards)), question) for model in teacher.models]
        assert len(set(expected)) > 0.4 * len(expected)
        assert all(found in expected[first : last + 1] for asked, first, last, found in answers if asked == question)
        assert [answer_of(model, question) for model in teacher.models] == expected  # the models are as they were


def test_nothing_that_any_thread_learns_is_lost():
    classifier, begun = learner(), threading.Barrier(THREADS)

    def teach(worker):
        begun.wait()
        for step in range(6):
            label = 10 * worker + step
            classifier.partial_fit(samples(label), [label] * 6)
            classifier.partial_fit(samples(500 + label), [7777] * 6)  # all of them teach this class
            if step == 2:
                classifier.forget(10 * worker)
            if step == 4:
                classifier.rename(10 * worker + 1, 10 * worker + 9)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(teach, worker) for worker in range(THREADS)]:
            future.result()
    left = [10 * worker + step for worker in range(THREADS) for step in (2, 3, 4, 5, 9)]
    assert classifier.classes_.tolist() == [*sorted(left), 7777]
    assert classifier.cards_[7777].count == THREADS * 6 * 6


def test_parts_are_computed_once_however_many_ask(monkeypatch):
    made, real = [], Model._make_predictor
    monkeypatch.setattr(Model, "_make_predictor", lambda self: made.append(self) or real(self))
    classifier = learner().fit(np.concatenate([samples(seed) for seed in range(8)]), np.arange(8).repeat(6))
    begun = threading.Barrier(THREADS)

    def ask():
        begun.wait()
        return classifier.predict_proba(QUERIES).tobytes()

    with ThreadPoolExecutor(THREADS) as pool:
        answers = {future.result() for future in [pool.submit(ask) for _ in range(THREADS)]}
    assert len(answers) == 1
    assert len(made) == 1


def test_a_batch_of_many_rows_is_answered_by_one_model():
    """Parts of a large batch were once answered by models of different size, which could not even be joined."""
    queries = np.concatenate([samples(300 + k) for k in range(400)])
    model = GDDSG(projection_dim=16).fit(np.concatenate([samples(k) for k in range(5)]), np.arange(5).repeat(6))
    failures, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                assert np.allclose(model.predict_proba(queries).sum(1), 1)
            except BaseException as error:  # whatever it is, the main thread reports it
                failures.append(error)

    with ThreadPoolExecutor(THREADS) as pool, threadpool_limits(1):
        for _ in range(THREADS):
            pool.submit(read)
        try:
            for i in range(75):
                model.partial_fit(samples(100 + i), [100 + i] * 6).rename(100 + i, 1000 + i).forget(1000 + i)
                model.merge(GDDSG(projection_dim=16).fit(samples(700 + i), [2000 + i] * 6))
        finally:
            done.set()
    assert failures == []
