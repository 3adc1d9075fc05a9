"""Records: typed, versioned, and read from every version there was."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gddsg.bench import Head, Record, read_records
from gddsg.bench.findings import (
    FINDINGS,
    EmbeddingFindings,
    GraphFindings,
    InvarianceFindings,
    MemoryFindings,
    OtherFindings,
    SplitFindings,
    StreamFindings,
    TrustFindings,
)
from gddsg.bench.record import VERSION, record_from_json, record_to_json
from gddsg.bench.records import append_record, write_records
from gddsg.errors import DataError, InputError
from gddsg.evaluation.protocol import RELEASED

STORED = sorted((Path(__file__).parents[2] / "experiments" / "records").glob("*.jsonl"))
HEAD = Head("stream", "1", "small", "circles", "gddsg", parameters={"rank": 3}, versions={"python": "3.11"})
STREAM = StreamFindings(
    class_order=("b", "a"),
    sizes=(1, 1),
    metrics={"A_N": 50.0},
    class_accuracies=((100.0,), (None, 50.0)),
    seconds_per_task=(1.0, 2.0),
    state_megabytes=(0.1, 0.2),
    confusions=(("a", "b", 3),),
    groups=(1, 1),
)
FOUND = {
    "stream": STREAM,
    "t-SNE": EmbeddingFindings(((0.0, 1.0),), (0,), ("a",)),
    "UMAP": EmbeddingFindings(((0.0, 1.0),), (0,)),
    "graph": GraphFindings(("a", "b"), (0, 1), ((0, 1),), ((0.0, 0.0), (1.0, 1.0))),
    "invariance": InvarianceFindings(12, 3, 480, 0, 0, 0.0, 0, 0.0, 1, 1e-9),
    "split": SplitFindings(4, 75.0, 74.9),
    "trust": TrustFindings(0.05, 0.8, {"0.9": 0.91}, {"0.9": 0.92}),
    "memory": MemoryFindings(12, 3, 1.5, 200.0, 210.0),
    "to come": OtherFindings({"answer": 42}),
}
FLAT = {
    "kind": "stream", "run": "1", "experiment": "x", "dataset": "y", "learner": "z", "protocol": "released",
    "leaks": True, "sizes": [1, 1], "class_order": ["a", "b"], "class_accuracies": [[1], [None, 2.5]],
    "metrics": {"A_N": 2, "F_N": None, "ECE": float("nan")}, "groups": None, "state_MB_per_task": [1, 2.5],
}  # fmt: skip


def test_every_kind_is_tried_here():
    assert set(FOUND) - {"to come"} == set(FINDINGS)


@pytest.mark.parametrize("kind", FOUND)
def test_what_is_written_is_read(kind, tmp_path):
    path, record = tmp_path / "records.jsonl", Record(replace(HEAD, kind=kind), FOUND[kind])
    write_records(path, [record])
    append_record(path, Record(HEAD, error="KeyError: 'x'", traceback="line 3"))
    assert read_records(path) == [record, Record(HEAD, error="KeyError: 'x'", traceback="line 3")]
    assert {json.loads(line)["version"] for line in path.read_text().splitlines()} == {VERSION}


def test_records_of_version_1_say_in_words_what_leaks():
    record = record_from_json(FLAT, "Line 1")
    assert record.head.leaks == RELEASED.leaks
    assert record.found == StreamFindings(
        class_order=("a", "b"),
        sizes=(1, 1),
        metrics={"A_N": 2.0},
        class_accuracies=((1.0,), (None, 2.5)),
        state_megabytes=(1.0, 2.5),
    )
    assert not record_from_json({**FLAT, "protocol": "honest", "leaks": False}, "Line 1").head.leaks
    assert record_from_json({**FLAT, "protocol": "kind", "leaks": True}, "Line 1").head.leaks


def test_embeddings_of_version_1_find_their_kind():
    flat = {"run": "1", "experiment": "x", "dataset": "y", "learner": "gddsg", "kind": "embedding", "method": "UMAP"}
    record = record_from_json({**flat, "points": [[0, 1]], "groups": [2]}, "Line 1")
    assert (record.head.kind, record.head.method) == ("UMAP", "gddsg")
    assert record.found == EmbeddingFindings(((0.0, 1.0),), (2,))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_records_survive_being_written_again(path, tmp_path):
    records = read_records(path)
    write_records(tmp_path / "again.jsonl", records)
    assert read_records(tmp_path / "again.jsonl") == records
    assert not [record for record in records if isinstance(record.found, OtherFindings) or record.error]


GRAPH = {"kind": "graph", "run": "1", "experiment": "x", "dataset": "y", "learner": "z"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "Line 7 is no record"),
        ({"a": 1}, "Line 7 is no record"),
        ({"run": "1", "experiment": "x", "dataset": "y"}, "Line 7 has no 'learner'"),
        ({**FLAT, "colour": 1}, "Line 7 has a field 'colour'"),
        ({**FLAT, "sizes": [1, 2]}, "classes after its tasks"),
        ({**FLAT, "sizes": ["one"]}, "Line 7: sizes is 'one'; expected a whole number"),
        ({**FLAT, "sizes": [True]}, "expected a whole number"),
        ({**FLAT, "sizes": 3}, "sizes is 3; expected a list"),
        ({**FLAT, "seed": "none"}, "seed is 'none'; expected a whole number"),
        ({**FLAT, "dataset": 3}, "dataset is 3; expected text"),
        ({**FLAT, "exemplar_free": 1}, "expected true or false"),
        ({**FLAT, "blur": float("inf")}, "expected a finite number"),
        ({**FLAT, "metrics": [1]}, "expected an object"),
        ({**FLAT, "confusions": [["a", "b"]]}, "expected a list of 3"),
        ({**GRAPH, "classes": ["a"]}, "0 groups of classes"),
        ({**GRAPH, "classes": ["a"], "group_of_class": [0], "edges": [[0, 1]]}, "1 lines"),
        ({**GRAPH, "classes": ["a"], "group_of_class": [0], "positions": []}, "0 positions"),
        ({**GRAPH, "kind": "embedding", "points": [[0, 1]], "groups": [1, 2]}, "2 groups"),
        ({**FLAT, "version": VERSION + 1}, f"of version {VERSION + 1}; .* Update gddsg"),
        ({**FLAT, "version": "new"}, "version 'new'"),
        ({**record_to_json(Record(HEAD, STREAM)), "found": 3}, "found is of type int"),
        ({**record_to_json(Record(HEAD, STREAM)), "sizes": []}, "a field 'sizes'"),
    ],
)
def test_what_is_wrong_is_said(value, message):
    with pytest.raises(DataError, match=message):
        record_from_json(value, "Line 7")


def test_findings_that_contradict_themselves_cannot_be_made():
    with pytest.raises(InputError, match="Measure it again"):
        StreamFindings(sizes=(2,), class_order=("a", "b"), class_accuracies=((1.0,),))
