"""Downloads resume, are checked and appear whole; archives are unpacked whole and stay inside their folder."""

import hashlib
import io
import socket
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gddsg.data.download import download, extract
from gddsg.errors import DataError

CONTENT = bytes(range(256)) * 40
MD5 = hashlib.md5(CONTENT).hexdigest()
MODULE = sys.modules["gddsg.data.download"]  # the package has a function of this name


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(MODULE, "_PAUSE", 0)
    monkeypatch.setattr(MODULE, "_CHUNK", 1000)
    monkeypatch.setattr(MODULE, "_TIMEOUT", 10)


class Server(ThreadingHTTPServer):
    """Serves CONTENT; cuts the first answers after so many bytes, refuses with the given codes first."""

    daemon_threads = True
    ranges, says_length, cuts, codes, odd_range = True, True, (), (), False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.content = [], CONTENT

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/archive.tar"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if server.codes:
            code, *server.codes = server.codes
            self.send_error(code)
            return
        start = int(self.headers["Range"][6:-1]) if server.ranges and "Range" in self.headers else 0
        if start >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            shown = start + 1 if server.odd_range else start
            self.send_header("Content-Range", f"bytes {shown}-{len(server.content) - 1}/{len(server.content)}")
        if server.says_length:
            self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        body = server.content[start:]
        if server.cuts:
            cut, *server.cuts = server.cuts
            body = body[:cut]
        self.wfile.write(body)


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data/archive.tar"


def test_a_file_is_fetched_whole_with_progress(server, target):
    seen = []
    assert download(server.url, target, MD5, lambda done, total: seen.append((done, total))) == target
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    assert [path.name for path in target.parent.iterdir()] == ["archive.tar"]


def test_a_cut_connection_is_resumed(server, target):
    server.cuts = [3000, 2500]
    download(server.url, target, MD5)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=3000-", "bytes=5500-"]


def test_another_call_resumes_what_the_first_left(server, target):
    server.cuts = [4000, 0, 0, 0]
    with pytest.raises(DataError, match="4000 bytes are kept; calling again continues there"):
        download(server.url, target, MD5)
    assert not target.exists()
    assert target.with_name("archive.tar.part").read_bytes() == CONTENT[:4000]
    download(server.url, target, MD5)
    assert server.asked[-1] == "bytes=4000-"
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("says_length", [True, False])
def test_a_server_that_cannot_resume_is_asked_for_the_whole(server, target, says_length):
    server.ranges, server.says_length = False, says_length
    target.parent.mkdir()
    target.with_name("archive.tar.part").write_bytes(CONTENT[:4000])
    download(server.url, target, MD5)
    assert server.asked == ["bytes=4000-"]
    assert target.read_bytes() == CONTENT


def test_a_server_that_always_cuts_and_cannot_resume_is_given_up(server, target):
    server.ranges, server.cuts = False, [3000] * 20
    with pytest.raises(DataError, match="after 3000 of 10240 bytes"):
        download(server.url, target, MD5)
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("part", "asked"),
    [
        (b"of another file", ["bytes=15-", None]),
        (CONTENT + b"too long", [f"bytes={len(CONTENT) + 8}-", None]),
        (CONTENT, [f"bytes={len(CONTENT)}-"]),
        (b"\0" * len(CONTENT), [f"bytes={len(CONTENT)}-", None]),
    ],
    ids=["other", "long", "complete", "damaged"],
)
def test_a_part_is_used_only_as_far_as_it_is_good(server, target, part, asked):
    target.parent.mkdir()
    target.with_name("archive.tar.part").write_bytes(part)
    download(server.url, target, MD5)
    assert target.read_bytes() == CONTENT
    assert server.asked == asked


def test_another_range_than_asked_for_is_not_joined(server, target):
    server.odd_range, server.cuts = True, [3000]
    download(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=3000-", None]


def test_a_wrong_checksum_leaves_nothing_and_says_what_to_do(server, target):
    server.content = b"an error page"
    with pytest.raises(DataError, match=f"expected {MD5}") as error:
        download(server.url, target, MD5)
    assert server.url in str(error.value)
    assert str(target) in str(error.value)
    assert list(target.parent.iterdir()) == []


def test_a_file_that_is_there_is_kept_if_it_is_right(server, target):
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    download(server.url, target, MD5)
    assert server.asked == []
    target.write_bytes(b"damaged")
    download(server.url, target)
    assert target.read_bytes() == b"damaged"
    download(server.url, target, MD5)
    assert target.read_bytes() == CONTENT


def test_refusals_are_repeated_if_that_may_help(server, target):
    server.codes = [503, 429]
    download(server.url, target, MD5)
    assert len(server.asked) == 3
    target.unlink()
    server.codes = [404]
    with pytest.raises(DataError, match=r"404.*by hand.*put the file at"):
        download(server.url, target, MD5)
    assert len(server.asked) == 4


def test_an_address_that_cannot_be_reached_is_an_error(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=f"127.0.0.1:{port}.*could not be fetched.*by hand"):
        download(f"http://127.0.0.1:{port}/a.tar", target)
    for url in ("file:///etc/passwd", "ftp://host/a", "a.tar"):
        with pytest.raises(DataError, match="begins with http"):
            download(url, target)


def test_a_place_that_cannot_be_written_is_named_as_such(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        download(server.url, tmp_path / "file/archive.tar")
    (tmp_path / "a.tar.part").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        download(server.url, tmp_path / "a.tar")


# Archives.


def make_archive(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.size = 0 if member is content else len(content)
            tar.addfile(member, None if member is content else io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_archives_are_unpacked_over_what_is_there(tmp_path, mode):
    archive = make_archive(tmp_path / "a.tar", {"birds/1.txt": b"one", "birds/deep/2.txt": b"two"}, mode)
    folder = tmp_path / "out"
    (folder / "birds").mkdir(parents=True)
    (folder / "birds/1.txt").write_bytes(b"half")
    (folder / "birds/mine.txt").write_bytes(b"mine")
    extract(archive, folder)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.txt")}
    assert files == {"birds/1.txt": b"one", "birds/deep/2.txt": b"two", "birds/mine.txt": b"mine"}
    assert [path.name for path in folder.iterdir()] == ["birds"]


def device(name):
    member = tarfile.TarInfo(name)
    member.type = tarfile.CHRTYPE
    return member


def link(name, target):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


@pytest.mark.parametrize(
    "members",
    [{"ok.txt": b"", "../evil.txt": b"x"}, {"l": link("l", "../..")}, {"d": device("d")}],
    ids=["above", "link", "device"],
)
def test_archives_cannot_leave_their_folder(tmp_path, members):
    archive = make_archive(tmp_path / "a.tar", members)
    with pytest.raises(DataError, match="cannot be unpacked"):
        extract(archive, tmp_path / "out/folder")
    assert list((tmp_path / "out").rglob("*")) == [tmp_path / "out/folder"]


def test_damaged_archives_leave_nothing(tmp_path):
    random = hashlib.shake_128(b"").digest(5000)
    archive = make_archive(tmp_path / "a.tar", {"1.txt": random, "2.txt": random})
    content = archive.read_bytes()
    for bad in (content[: len(content) // 2], b"hello", b"", content[:400] + b"\xff" * 9 + content[409:]):
        archive.write_bytes(bad)
        with pytest.raises(DataError, match="fetch it again"):
            extract(archive, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(DataError, match="cannot be unpacked"):
        extract(tmp_path / "gone.tar", tmp_path / "out")
