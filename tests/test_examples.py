"""The examples print what is stored beside them; `python -m tests.test_examples` stores it anew."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NEEDED_WITHOUT_US = {"json", "numpy", "onnxruntime", "PIL", "pathlib", "subprocess", "sys", "tempfile"}


def printed(example, python=sys.executable):
    """What an example prints when nothing else has been imported, and where warnings are errors."""
    environment = {**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-W", "error", example.name], cwd=example.parent, env=environment, capture_output=True, timeout=300
    )
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode().replace("\r\n", "\n")


def stored(example):
    return (FOLDER / "output" / f"{example.stem}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_prints_what_is_stored(example):
    assert printed(example) == stored(example)


def test_the_list_has_all_of_them_and_no_other():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 5
    assert {line.split("]")[0].removeprefix("| [") for line in page.splitlines() if line.startswith("| [")} == {
        path.name for path in EXAMPLES
    }
    assert {path.stem for path in (FOLDER / "output").iterdir()} == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_says_what_it_shows(example):
    text = example.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert 20 <= len(text.splitlines()) <= 60


WITHOUT_US = """
import sys
sys.modules.update(dict.fromkeys(["gddsg", "torch", "sklearn", "scipy", "matplotlib", "onnx"]))
import photos_to_onnx
photos_to_onnx.predict(*map(photos_to_onnx.Path, sys.argv[1:]))
"""


def test_the_part_that_predicts_takes_neither_this_library_nor_torch(tmp_path):
    from PIL import Image

    sys.path.insert(0, str(FOLDER))
    try:
        import photos_to_onnx
    finally:
        sys.path.remove(str(FOLDER))
    network = photos_to_onnx.teach(tmp_path)
    Image.open(tmp_path / "photos" / "test" / "digit 3" / "00000.png").save(tmp_path / "a photo.png")
    arguments = [sys.executable, "-c", WITHOUT_US, network, tmp_path / "a photo.png"]
    done = subprocess.run(arguments, cwd=FOLDER, capture_output=True, text=True)
    assert done.stdout.strip() == "a photo.png: digit 3", done.stderr
    tree = ast.parse((FOLDER / "photos_to_onnx.py").read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert imported <= NEEDED_WITHOUT_US


if __name__ == "__main__":
    for path in EXAMPLES:
        (FOLDER / "output" / f"{path.stem}.txt").write_text(printed(path), encoding="utf-8", newline="\n")
