"""Getting files of releases: as many bytes as were signed for, in time, from where the link says."""

import time
from pathlib import Path

import pytest

from hermesops.programs.node.system.https import download
from tests.support.hostile.mood_server import served_content, served_mood

CONTENT = b"wheel" * 1000


def got(port: int, target: Path, *, size: int = len(CONTENT), within_s: float = 20.0) -> bool:
    return download(f"http://127.0.0.1:{port}/a?b=c", target, size=size, until=time.monotonic() + within_s)


def test_what_was_signed_for_is_taken(tmp_path: Path) -> None:
    with served_content(CONTENT) as port:
        assert got(port, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [0, 10, len(CONTENT) - 1])
def test_no_more_is_taken_than_was_signed_for(tmp_path: Path, size: int) -> None:
    with served_content(CONTENT) as port:
        assert not got(port, tmp_path / "file", size=size)
    assert (tmp_path / "file").stat().st_size <= size + 1


def test_what_is_too_short_is_not_it(tmp_path: Path) -> None:
    with served_content(CONTENT) as port:
        assert not got(port, tmp_path / "file", size=len(CONTENT) + 1)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Elsewhere", "404 Gone", "500 No", "206 Part"])
def test_another_status_is_no_file_and_no_redirect_is_followed(tmp_path: Path, status: str) -> None:
    with served_content(CONTENT) as elsewhere:
        head = f"HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:{elsewhere}/file\r\nConnection: close\r\n"
        with served_content(CONTENT, head=head) as port:
            assert not got(port, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_nothing_is_begun_once_the_time_is_over(tmp_path: Path) -> None:
    with served_content(CONTENT) as port:
        assert not got(port, tmp_path / "file", within_s=0)
    assert not (tmp_path / "file").exists()


def test_nobody_who_listens_is_no_file(tmp_path: Path) -> None:
    with served_content(CONTENT) as port:
        pass
    assert not got(port, tmp_path / "file")


def test_a_handshake_that_never_ends_is_left(tmp_path: Path) -> None:
    began = time.monotonic()
    with served_mood("silent") as port:
        until = time.monotonic() + 0.5
        assert not download(f"https://127.0.0.1:{port}/a", tmp_path / "file", size=1, until=until)
    assert time.monotonic() - began < 15
