"""Upstream's list of tags: which are newer and what each changes, whatever shape or size the list has."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hermesops.cli.commands.release import check_upstream
from hermesops.cli.views import release as view
from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.capabilities import upstream, upstream_list
from hermesops.machines.capabilities.upstream import LARGEST, MOST, VERSION_OF_TAG, compare
from hermesops.views.machines import releases

TAGS = [
    *("v2026.9.24", "v2026.9.14", "v2026.8.3", "v2026.7.20", "v2026.7.7", "nightly", "v2026.9.24-rc1"),
    "v2026.10.2",
]
OF_GITHUB = json.dumps([{"name": name, "zipball_url": "x", "commit": {"sha": "a" * 40}} for name in TAGS]).encode()
OF_GIT = "".join(f"{'a' * 40}\trefs/tags/{name}\n{'b' * 40}\trefs/tags/{name}^{{}}\n" for name in TAGS).encode()


@pytest.mark.parametrize(
    "text",
    [OF_GITHUB, OF_GIT, json.dumps(TAGS).encode(), "\n".join(TAGS).encode()],
    ids=["github", "git", "list", "lines"],
)
def test_newer_tags_come_newest_first_with_their_versions(text: bytes) -> None:
    comparison = compare("0.19.0", text)
    assert [(newer.tag.name, newer.tag.version) for newer in comparison.newer] == [
        ("v2026.10.2", ""),
        ("v2026.9.24", "0.21.5"),
        ("v2026.9.14", "0.21.3"),
        ("v2026.8.3", "0.20.0"),
    ]
    assert (comparison.tags, comparison.skipped) == (6, 2)


def test_each_says_what_changes_and_how_it_is_taken() -> None:
    unknown, newest, _, faulty = compare("0.19.0", OF_GITHUB).newer
    assert not unknown.is_known
    assert (unknown.changes, unknown.commands) == ((), ())
    assert {"config: schema", "log: a failed call of the model"} < {fact.name for fact, _, _ in newest.changes}
    assert newest.commands[0][:4] == (
        *("release", "build", "--source"),
        "https://github.com/NousResearch/hermes-agent/archive/refs/tags/v2026.9.24.tar.gz",
    )
    assert "60 GB" in faulty.caution
    lines = "\n".join(view.upstream_lines(compare("0.19.0", OF_GITHUB)))
    assert "v2026.10.2: of an unknown version, capabilities unknown" in lines
    assert "config: schema: 33 -> 45" in lines
    assert "release show 0.21.5 --against RELEASE" in lines


def test_a_title_tells_the_version_of_a_tag_by_date() -> None:
    releases = [{"tag_name": "v2026.10.2", "name": "Hermes Agent v0.22.1 (2026.10.2)"}, {"tag_name": "v0.23.0"}]
    newer = {each.tag.name: each for each in compare("0.21.5", json.dumps(releases).encode()).newer}
    assert (newer["v2026.10.2"].tag.version, newer["v2026.10.2"].is_known) == ("0.22.1", True)
    assert (newer["v0.23.0"].tag.version, newer["v0.23.0"].is_known) == ("0.23.0", False)
    assert "install a newer hermesops" in "\n".join(view.upstream_lines(compare("0.22.9", b"v0.23.0")))


def test_nothing_newer_is_said_plainly() -> None:
    assert view.upstream_lines(compare("0.21.5", b"v2026.9.24\nv2026.7.20\n")) == [
        "no tag is newer than hermes-agent 0.21.5 (2 tags compared)"
    ]
    assert compare("0.21.5", b"").newer == ()
    assert compare("0.21.5", b"v2026.9.20").newer == (), "of an unknown version, and older by its date"


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[1]",
        b'[{"name": 1}]',
        b'[{"sha": "x"}]',
        b"[",
        b"[" * 100_000,
        b"\xff\xfe",
        b'[{"name": "a", "name": "b"}]',
        b"x" * 600,
        b"v1.0.0\n" * (MOST + 1),
        json.dumps(["v1.0.0"] * (MOST + 1)).encode(),
        b" " * (LARGEST + 1),
        b"<html>" + b"x" * 1000,
    ],
)
def test_what_is_no_list_of_tags_is_refused_and_repeated_nowhere(text: bytes) -> None:
    with pytest.raises(RefusedError, match="no list of upstream's tags") as refused:
        compare("0.19.0", text)
    assert len(refused.value.message) < 200
    assert "check-upstream" in str(refused.value.hint)


@pytest.mark.parametrize(
    "name",
    [
        "v2026.9.24\x1b[2J",
        "v2026.9.24;rm",
        "../v2026.9.24",
        "v\u0662\u0660\u0662\u0666.9.24",
        "v2026.9.24.9999",
        "v1!0.21.0",
        "vv",
    ],
)
def test_a_tag_of_another_form_is_counted_and_shown_nowhere(name: str) -> None:
    comparison = compare("0.19.0", json.dumps([name, "v2026.9.24"]).encode())
    assert (comparison.tags, comparison.skipped) == (1, 1)
    assert name not in json.dumps(releases.upstream(comparison), ensure_ascii=False)


def test_an_unknown_version_of_ours_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"hermes-agent 0\.99\.0 are unknown"):
        compare("0.99.0", OF_GITHUB)


def test_the_table_of_tags_is_in_order() -> None:
    dates = [upstream._date(name) for name in VERSION_OF_TAG]
    assert dates == sorted(dates)
    versions = [tuple(map(int, version.split("."))) for version in VERSION_OF_TAG.values()]
    assert versions == sorted(versions)


@contextmanager
def server(status: int, body: bytes, headers: dict[str, str] | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{web.server_port}/tags"
    finally:
        web.shutdown()
        web.server_close()
        thread.join()


def test_an_address_is_fetched_and_its_bad_answers_are_named() -> None:
    with server(200, OF_GITHUB) as url:
        assert compare("0.19.0", upstream_list.fetch(url)).newer
    with server(302, b"", {"location": "http://127.0.0.1:1/"}) as url, pytest.raises(UnavailableError, match="302"):
        upstream_list.fetch(url)
    with server(403, b"rate limit") as url, pytest.raises(UnavailableError, match="403"):
        upstream_list.fetch(url)
    with server(200, b"x" * (LARGEST + 1)) as url, pytest.raises(RefusedError, match="more than 4 MiB"):
        upstream_list.fetch(url)
    with pytest.raises(UnavailableError, match="does not answer"):
        upstream_list.fetch("http://127.0.0.1:1/tags")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/tags",
        "https://user:secret@example.com/tags",
        "http://127.0.0.1.example.com/",
        "https://\x1b/",
    ],
)
def test_an_address_in_clear_or_with_a_password_is_refused_and_the_password_not_repeated(url: str) -> None:
    with pytest.raises(RefusedError) as refused:
        upstream_list.fetch(url)
    assert "secret" not in refused.value.message


def test_the_command_ends_with_7_only_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tags, older = tmp_path / "tags.json", tmp_path / "older"
    tags.write_bytes(OF_GITHUB)
    older.write_text("v2026.7.20\n")
    assert check_upstream(str(tags), ours="0.19.0") == 0
    assert check_upstream(str(tags), ours="0.19.0", exit_code=True) == 7
    assert "4 tags newer than hermes-agent 0.19.0" in capsys.readouterr().out
    assert check_upstream(str(older), ours="0.19.0", exit_code=True) == 0
    with server(200, OF_GITHUB) as url:
        assert check_upstream(url, ours="0.19.0", exit_code=True) == 7
