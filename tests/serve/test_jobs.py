"""Long work: progress, result, cancel."""

import threading

import pytest

from gddsg.errors import DataError
from gddsg.serve.faults import RequestError
from gddsg.serve.jobs import Jobs


@pytest.fixture
def jobs():
    jobs = Jobs(workers=1, most_waiting=1, most_kept=2)
    yield jobs
    jobs.close()


def test_a_job_tells_its_progress_and_its_result(jobs):
    half, go_on = threading.Event(), threading.Event()

    def work(progress):
        progress(1, 2)
        half.set()
        assert go_on.wait(30)
        progress(2, 2)
        return {"n": 1}

    job = jobs.start("evaluate", "anna", work)
    assert half.wait(30)
    now = job.describe()
    assert (now["state"], now["done"], now["total"], now["result"]) == ("running", 1, 2, None)
    go_on.set()
    assert job.wait(30)
    assert (job.describe()["state"], job.describe()["result"]) == ("done", {"n": 1})
    assert jobs.find(job.id) is job


def test_a_job_is_cancelled_where_it_tells_its_progress(jobs):
    begun, go_on, after = threading.Event(), threading.Event(), []

    def work(progress):
        begun.set()
        assert go_on.wait(30)
        progress(1, 2)
        after.append("went on")
        return {}

    job, waiting = jobs.start("teach", "anna", work), jobs.start("teach", "anna", lambda progress: after.append("ran"))
    assert begun.wait(30)
    job.cancel()
    waiting.cancel()
    assert waiting.state == "cancelled"
    go_on.set()
    assert job.wait(30)
    assert (job.state, after) == ("cancelled", [])


def test_what_goes_wrong_is_told_without_a_traceback(jobs):
    def refuse(progress):
        raise DataError("no photo can be read")

    def break_down(progress):
        raise ZeroDivisionError("secret")

    job = jobs.start("teach", "anna", refuse)
    assert job.wait(30)
    assert (job.state, job.describe()["error"]["message"]) == ("failed", "no photo can be read")
    job = jobs.start("teach", "anna", break_down)
    assert job.wait(30)
    assert "secret" not in str(job.describe())


def test_too_many_jobs_are_refused_and_old_ones_forgotten(jobs):
    go_on = threading.Event()

    def wait(progress):
        assert go_on.wait(30)
        return {}

    first, second = jobs.start("teach", "anna", wait), jobs.start("teach", "anna", wait)
    with pytest.raises(RequestError) as refused:
        jobs.start("teach", "anna", wait)
    assert refused.value.status == 503
    go_on.set()
    assert first.wait(30)
    assert second.wait(30)
    for _ in range(4):
        assert jobs.start("teach", "anna", lambda progress: {}).wait(30)
    with pytest.raises(RequestError) as gone:
        jobs.find(first.id)
    assert gone.value.status == 404


def test_the_same_key_finds_the_job_that_goes_on(jobs):
    go_on = threading.Event()

    def wait(progress):
        assert go_on.wait(30)
        return {}

    first = jobs.start("teach", "anna", wait, "k")
    assert jobs.start("teach", "anna", wait, "k") is first
    go_on.set()
    assert first.wait(30)
    assert jobs.start("teach", "anna", wait, "k") is not first
