"""Lists come out of MATLAB files as SciPy reads them; what is damaged is an error, never a crash."""

import io
import random

import numpy as np
import pytest
from scipy.io import savemat
from tests.attack.images import cut, double_chunk, flip_bits, forge_number, zero_block

from gddsg.data.mat_file import read_mat

NAMES = ["n1-dog/1.jpg", "ä", "", "ab", "abcd", "a much longer name than eight bytes.jpg"]


def written(compressed=False, **variables):
    buffer = io.BytesIO()
    savemat(buffer, variables, do_compression=compressed)
    return buffer.getvalue()


def cells(names):
    made = np.empty((len(names), 1), dtype=object)
    made[:, 0] = names
    return made


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.float32, np.float64])
def test_names_and_numbers_are_read(kind, compressed):
    names = [name for name in NAMES if name]  # SciPy writes an empty one as something else than text
    content = written(compressed, file_list=cells(names), labels=np.array([[3], [1], [120]], kind), more=np.zeros(2))
    found = read_mat(content)
    assert found == {"file_list": names, "labels": [3, 1, 120], "more": [0, 0]}


def test_other_files_are_refused():
    for content in (b"", b"hello", bytes(200), b"\x89HDF" + bytes(200)):
        with pytest.raises(ValueError, match="does not begin"):
            read_mat(content)
    with pytest.raises(ValueError, match="something else than text"):
        read_mat(written(a=cells([np.zeros(2)])))


def test_a_variable_is_unpacked_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("gddsg.data.mat_file._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_mat(written(compressed=True, labels=np.zeros(500)))


def test_damaged_files_are_read_or_refused():
    """Some of these end the program in SciPy."""
    rng, outcomes = random.Random(0), set()
    for compressed in (False, True):
        content = written(compressed, file_list=cells(NAMES[:2]), labels=np.arange(2))
        for _ in range(1000):
            how = rng.choice((cut, double_chunk, flip_bits, forge_number, zero_block))
            try:
                read_mat(how(content, rng))
            except ValueError:
                outcomes.add("refused")
            else:
                outcomes.add("read")
    assert outcomes == {"read", "refused"}
