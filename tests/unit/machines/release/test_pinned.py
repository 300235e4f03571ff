"""Files named by hash: the first source that has the right content counts, and each other source is named."""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.machines.release.pinned import PinnedFile

CONTENT = b"the archive of a tag"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
DOWN = "http://127.0.0.1:1/v2026.9.24.tar.gz"
"""Nothing listens there."""

_ANSWERS: Mapping[str, tuple[int, bytes, Mapping[str, str]]] = {
    "/right/v2026.9.24.tar.gz": (200, CONTENT, {}),
    "/wrong/v2026.9.24.tar.gz": (200, b"<html>Sign in to this network</html>", {}),
    "/large/v2026.9.24.tar.gz": (200, bytes(2048), {}),
    "/short/v2026.9.24.tar.gz": (200, CONTENT[:4], {"content-length": str(len(CONTENT))}),
    "/moved/v2026.9.24.tar.gz": (302, b"", {"location": "/right/v2026.9.24.tar.gz"}),
    "/round/v2026.9.24.tar.gz": (302, b"", {"location": "/round/v2026.9.24.tar.gz"}),
    "/astray/v2026.9.24.tar.gz": (302, b"", {"location": "http://[::bad/"}),
}


class Mirrors(ThreadingHTTPServer):
    """Answers by path, and remembers the paths."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}/v2026.9.24.tar.gz"


class _Handler(BaseHTTPRequestHandler):
    server: Mirrors

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path.split("/")[1])
        status, body, headers = _ANSWERS.get(path, (404, b"", {}))
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Mirrors]:
    mirrors = Mirrors()
    thread = threading.Thread(target=mirrors.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield mirrors
    finally:
        mirrors.shutdown()
        mirrors.server_close()
        thread.join()


@pytest.fixture
def mirrors() -> Iterator[Mirrors]:
    with serving() as server:
        yield server


def test_a_mirror_that_is_down_or_has_another_file_is_named_and_the_next_one_is_asked(mirrors: Mirrors) -> None:
    lines: list[str] = []
    sources = (DOWN, *map(mirrors.url, ("wrong", "short", "large", "absent", "moved", "absent")))
    assert PinnedFile(sources, SHA256).read(at_most=1024, report=lines.append) == CONTENT
    assert mirrors.asked == ["wrong", "short", "large", "absent", "moved", "right"]
    reasons = ["does not give", "not the named file: its SHA-256 is", "does not give", "more than 0 MiB", "with 404"]
    assert [reason in line for reason, line in zip(reasons, lines, strict=True)] == [True] * 5, lines
    assert [line.rpartition("; trying ")[2] for line in lines] == list(sources[1:6])


def test_a_path_comes_before_an_address_where_it_is_named_first(mirrors: Mirrors, tmp_path: Path) -> None:
    local = tmp_path / "v2026.9.24.tar.gz"
    local.write_bytes(CONTENT)
    assert PinnedFile((str(local), mirrors.url("right")), SHA256).read(at_most=1024) == CONTENT
    assert mirrors.asked == []
    assert PinnedFile((str(tmp_path / "gone"), mirrors.url("right")), SHA256).read(at_most=1024) == CONTENT
    assert mirrors.asked == ["right"]


def test_where_no_source_has_the_file_the_error_names_each_and_says_whether_to_ask_again(mirrors: Mirrors) -> None:
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1/.*; .*absent/.* with 404"):
        PinnedFile((DOWN, mirrors.url("absent")), SHA256).read(at_most=1024)
    with pytest.raises(RefusedError, match=r"127\.0\.0\.1:1/.*; .*wrong/.* is not the named file") as refusal:
        PinnedFile((DOWN, mirrors.url("wrong")), SHA256).read(at_most=1024)
    assert "compare the hash with another copy" in str(refusal.value.hint)
    for name in ("round", "astray"):
        with pytest.raises(UnavailableError, match="does not give"):
            PinnedFile((mirrors.url(name),), SHA256).read(at_most=1024)


def test_messages_show_no_query_as_it_may_open_the_address(mirrors: Mirrors) -> None:
    lines: list[str] = []
    sources = tuple(f"{mirrors.url(name)}?X-Amz-Signature=5ec2e7" for name in ("absent", "wrong", "large"))
    with pytest.raises(RefusedError) as refusal:
        PinnedFile(sources, SHA256).read(at_most=1024, report=lines.append)
    assert mirrors.asked == ["absent", "wrong", "large"]
    assert "5ec2e7" not in f"{lines} {refusal.value.message}"


def test_an_operator_names_one_hash_and_https_addresses_without_passwords() -> None:
    both = f"https://m.example/a.tar.gz#sha256={SHA256}, /srv/a.tar.gz"
    assert PinnedFile.parse(both) == PinnedFile(("https://m.example/a.tar.gz", "/srv/a.tar.gz"), SHA256)
    assert PinnedFile.parse("/srv/a.tar.gz", SHA256).name == "a.tar.gz"
    for text, sha256, match in (
        ("/srv/a.tar.gz", "", "with no SHA-256"),
        (both, "0" * 64, "with 2 SHA-256"),
        ("/srv/a.tar.gz#sha256=0", "", "with 1 SHA-256"),
        ("http://m.example/a.tar.gz", SHA256, "not an https address"),
        ("https://ada:secret@m.example/a.tar.gz", SHA256, "has a user or a password"),
        ("https://m.example/a.tar.gz?token=secret", "", r"a\.tar\.gz is named with no"),
    ):
        with pytest.raises(UsageError, match=match) as refusal:
            PinnedFile.parse(text, sha256)
        assert "secret" not in f"{refusal.value.message} {refusal.value.hint}"


def test_a_setting_names_the_file_where_the_command_does_not() -> None:
    setting = f"https://m.example/cpython.tar.gz#sha256={SHA256}"
    assert PinnedFile.chosen("", setting) == PinnedFile.parse(setting)
    assert PinnedFile.chosen(f"/srv/other.tar.gz#sha256={SHA256}", setting) == PinnedFile(
        ("/srv/other.tar.gz",), SHA256
    )
    assert PinnedFile.chosen("none", setting) is None
    assert PinnedFile.chosen("", "") is None
