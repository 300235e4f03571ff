"""What nginx is told of revoked certificates."""

import os
import signal
from pathlib import Path

import pytest

from hermesops.programs.ingest.revocations import map_of, parse, update
from tests.support.suite.cases import each_case


def test_serials_are_written_as_nginx_writes_them_each_once() -> None:
    assert map_of(["abc", "12", "abc"]) == "12 1;\n0abc 1;\n"


@each_case(
    "body", [b"", b"[]", b"{}", b'{"serials": "ab"}', b'{"serials": [1]}', b'{"serials": ["x; include /etc/passwd"]}']
)
def test_what_is_no_list_of_serials_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"no list|Expecting"):
        parse(body)


def test_nginx_hears_of_a_change_and_of_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: calls.append((pid, number)))
    file, pid = tmp_path / "revoked.map", tmp_path / "nginx.pid"
    assert update(file, ["ab"], pid), "nginx does not run yet"
    pid.write_text("77\n")
    os.utime(file, (1, 1))
    assert not update(file, ["ab"], pid)
    assert file.stat().st_mtime > 1, "its age says when it was heard"
    assert calls == []
    assert update(file, [], pid)
    assert (file.read_text(), calls) == ("", [(77, signal.SIGHUP)])
