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


def test_older_records_are_of_learners_whose_order_was_measured():
    values = record_to_json(Record(HEAD, STREAM))
    del values["order_invariant"]
    assert record_from_json(values, "Line 1") == Record(HEAD, STREAM)
    assert record_from_json({**values, "order_invariant": True}, "Line 1").head.order_invariant


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


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


MEASURED = {"version": VERSION, "kind": "memory", "run": "1", "experiment": "x", "dataset": "y", "learner": "z"}
GRAPH = {"kind": "graph", "run": "1", "experiment": "x", "dataset": "y", "learner": "z"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "Line 7 is no record"),
        ({"a": 1}, "Line 7 is no record"),
        ({"run": "1", "experiment": "x", "dataset": "y"}, "Line 7 has no 'learner'"),
        ({**FLAT, "colour": 1}, "Line 7 has a field 'colour'"),
        ({**FLAT, "sizes": [1, 2]}, "classes after its tasks"),
        ({**FLAT, "class_accuracies": None, "class_order": ["a"]}, "1 names of classes"),
        ({**FLAT, "class_order": ["a", "a"]}, "a class twice"),
        ({**FLAT, "class_accuracies": [[1], [None, 101]]}, "class_accuracies is 101; expected a number from 0 to 100"),
        ({**FLAT, "groups": [1]}, "groups has 1 values; expected none, or one for each of the 2 tests"),
        ({**FLAT, "seconds_per_task": [1, -1]}, "seconds_per_task is -1"),
        ({**FLAT, "seconds_per_task": [1, 1, 1]}, "seconds_per_task has 3 values"),
        ({**FLAT, "confusions": [["c", "a", 1]]}, "confusions names 'c'"),
        ({**FLAT, "confusions": [["a", "b", -1]]}, "confusions is -1"),
        ({**FLAT, "metrics": {"A_N": 100.5}}, "A_N is 100.5; expected a number from 0 to 100"),
        ({**FLAT, "metrics": {"A_N": "high"}}, "metrics: 'A_N' is 'high'"),
        ({**FLAT, "metrics": {"mine": 10**400}}, "a whole number of 1329 bits; expected a finite number"),
        ({**FLAT, "blur": 1e300}, "blur is 1e.300; expected a finite number"),
        ({**FLAT, "seed": 10**400}, "seed is a whole number of 1329 bits"),
        ({**FLAT, "learner": "\ud800"}, "learner is .* without halves of characters"),
        ({**FLAT, "versions": {"\ud800": "1"}}, "without halves of characters"),
        ({**FLAT, "parameters": {"x": float("inf")}}, "parameters: 'x' is inf"),
        ({**FLAT, "parameters": {"x": nested(20)}}, "nested more than 10 levels deep"),
        ({**FLAT, "sizes": nested(900)}, "expected a whole number"),
        ({**FLAT, "protocol": nested(900)}, "protocol is .*expected text"),
        ({**FLAT, "kind": ["stream"]}, "kind is .'stream'.; expected text"),
        ({**FLAT, "error": 5}, "error is 5; expected text"),
        ({**FLAT, "kind": "to come", "answer": float("nan")}, "found: 'answer' is nan"),
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
        ({**GRAPH, "classes": ["a"], "group_of_class": [0], "edges": [[0, 0]]}, "1 lines"),
        ({**GRAPH, "classes": ["a"], "group_of_class": [-1]}, "group_of_class is -1"),
        ({**GRAPH, "classes": ["a"], "group_of_class": [0], "positions": [[0, 1e300]]}, "positions is 1e.300"),
        ({**GRAPH, "kind": "embedding", "points": [[0, 1]], "groups": [1, 2]}, "2 groups"),
        ({**GRAPH, "kind": "embedding", "points": [[0, 1]], "groups": [1], "labels": ["a", "b"]}, "2 labels"),
        ({**MEASURED, "kind": "split", "found": {"parts": 0, "A_N_whole": 1, "A_N_split": 1}}, "parts is 0"),
        ({**MEASURED, "kind": "split", "found": {"parts": 1, "A_N_whole": 1, "A_N_split": 101}}, "A_N_split is 101"),
        ({**MEASURED, "kind": "trust", "found": {"ece": 2, "auroc_unknown": 1, "kept": {}, "kept_half": {}}}, "ece"),
        ({**MEASURED, "error": "KeyError", "found": {}}, "a result and an error, or neither"),
        (MEASURED, "a result and an error, or neither"),
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\xff\xfe", "Line 2 of .* is no JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "Line 2 of .* is nested too deeply"),
        (b'{"run": ' * 100_000, "Line 2 of .* is nested too deeply"),
        (b'{"run": "1", "run": "2"}', "'run' is in one object more than once"),
        (b'{"kind": "x\0"}', "Line 2 of .* is no JSON"),
        (b'{"run": "\\ud800"}', "Line 2 of "),
        (b'{"run": ' + b"9" * 5000 + b"}", "Line 2 of .* is no JSON"),
    ],
)
def test_a_damaged_line_is_said_with_its_number(line, message, tmp_path):
    path = tmp_path / "records.jsonl"
    write_records(path, [Record(HEAD, STREAM)])
    whole = path.read_bytes()
    path.write_bytes(whole + line + b"\n" + whole)
    with pytest.raises(DataError, match=message):
        read_records(path)


@pytest.mark.parametrize("rest", [b'{"version":2,"kind":"str', b"\0\0\0\0", b'{"learner":"caf\xc3'])
def test_what_a_kill_or_a_power_cut_left_of_a_line_is_left_out(rest, tmp_path):
    path, record = tmp_path / "records.jsonl", Record(HEAD, STREAM)
    write_records(path, [record])
    path.write_bytes(path.read_bytes() + rest)
    assert read_records(path) == [record]


@pytest.mark.parametrize("content", [b"my thesis, without a line end", b"\x89PNG", b"{{{", b'{"a":' * 100_000])
def test_a_foreign_file_of_one_line_is_not_taken_for_what_a_kill_left(content, tmp_path):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(DataError, match="Line 1"):
        read_records(path)


def test_files_that_cannot_be_records(tmp_path, monkeypatch):
    monkeypatch.setattr("gddsg.bench.records._LONGEST_LINE", 1000)
    (tmp_path / "long").write_bytes(b"x" * 1001)
    for path in (tmp_path / "none", tmp_path, "a\0b", "/dev/zero", tmp_path / "long", tmp_path / "long" / "x"):
        with pytest.raises(DataError, match="cannot be read"):
            read_records(path)
