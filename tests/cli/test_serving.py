"""The commands of the service, as they are typed."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from gddsg.cli import app, serving
from gddsg.errors import InputError
from gddsg.serve.journal import Journal, journal_path
from gddsg.serve.run import serve
from gddsg.serve.studio import Studio
from gddsg.serve.tokens import Tokens


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_tokens_are_added_listed_and_removed(tmp_path):
    model = tmp_path / "m.gddsg"
    assert "no token" in run("token", "list", model).stdout
    token = run("token", "add", model, "anna", "--rights", "teach").stdout.strip()
    journal = Journal(journal_path(model))
    assert Tokens(journal).find(token).rights == "teach"
    journal.close()
    assert run("token", "add", model, "anna").exit_code == 1
    assert run("token", "add", model, "a/b").exit_code == 1
    found = json.loads(run("token", "list", model, "--json").stdout)
    assert [(one["name"], one["rights"]) for one in found] == [("anna", "teach")]
    assert run("token", "remove", model, "anna").exit_code == 0
    assert run("token", "remove", model, "anna").exit_code == 1
    assert run("token", "add", tmp_path / "none" / "m.gddsg", "anna").exit_code == 1


def test_a_model_or_a_demonstration_is_served(tmp_path):
    assert run("serve").exit_code == 2
    assert run("serve", tmp_path / "m.gddsg", "--demo").exit_code == 2


def test_who_lacks_the_extra_is_told_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = run("serve", tmp_path / "m.gddsg")
    assert (found.exit_code, "pip install 'gddsg[serve]'" in found.output) == (1, True)


def test_other_machines_are_served_only_with_a_token(tmp_path):
    studio = Studio(tmp_path / "m.gddsg")
    try:
        with pytest.raises(InputError, match="gddsg token add"):
            serve(studio, "0.0.0.0", 0)
    finally:
        studio.close()


def test_a_damaged_model_file_is_refused(tmp_path):
    (tmp_path / "m.gddsg").write_text("words")
    found = run("serve", tmp_path / "m.gddsg")
    assert found.exit_code == 1
    assert [one.name for one in tmp_path.iterdir()] == ["m.gddsg"]


def test_the_service_starts_answers_and_ends(tmp_path):
    command = [sys.executable, "-m", "gddsg", "serve", str(tmp_path / "m.gddsg"), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = process.stdout.readline().split(" is at ")[1].split()[0]
        with urllib.request.urlopen(f"{address}/healthz") as answer:
            assert json.load(answer) == {"status": "ok", "classes": 0}
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    finally:
        process.kill()
        process.wait()
    assert [one.name for one in tmp_path.iterdir()] == ["m.gddsg.studio"]


def test_other_commands_do_not_import_the_service():
    code = "import sys; import gddsg.cli; import gddsg.photos; assert not {'fastapi', 'uvicorn'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
    assert serving.require_extra() is None


def test_backup_copies_model_and_journal(tmp_path):
    from gddsg.core.model import Model, Settings
    from gddsg.store import write_model

    write_model(tmp_path / "m.gddsg", Model(Settings(projection_dim=8)))
    run("token", "add", tmp_path / "m.gddsg", "anna")
    found = run("backup", tmp_path / "m.gddsg", "--to", tmp_path / "copy.gddsg")
    assert found.exit_code == 0
    assert "2 files" in found.stdout
    assert (tmp_path / "copy.gddsg.studio").exists()
    assert run("backup", tmp_path / "none.gddsg", "--to", tmp_path / "x").exit_code == 1
