"""Source archives come from the index that pip is set up for, and nothing in them is run."""

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.image.packages.package_index import PackageIndex

pytestmark = pytest.mark.turns(9)

_JSON = "application/vnd.pypi.simple.v1+json"


def sdist(canary: Path) -> bytes:
    """A source archive whose build backend, in the archive itself, writes a file when anybody asks it for metadata."""
    backend = f"open({str(canary)!r}, 'w').close()\ndef prepare_metadata_for_build_wheel(*_): raise SystemExit\n"
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": backend,
        "setup.py": backend,
        "PKG-INFO": "Metadata-Version: 2.1\nName: Evil.Agent\nVersion: 1.0\n",
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"evil_agent-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


class Index:
    """Answers by path; a function of the headers decides where that is not enough."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.url = ""

    def lists(self, archive: bytes, *, kind: str = _JSON, digest: str | None = None, at: str = "/files/") -> None:
        """Offer an archive; ``digest`` is what the listing says its hash is."""
        name = "evil_agent-1.0.tar.gz"
        digest = hashlib.sha256(archive).hexdigest() if digest is None else digest
        hashes = {"sha256": digest} if digest else {}
        if kind == _JSON:
            page = json.dumps({"files": [{"filename": name, "url": f"{at}{name}", "hashes": hashes}]})
        else:
            page = f'<!DOCTYPE html><a href="{at}{name}{f"#sha256={digest}" if digest else ""}">{name}</a>'
        self.pages["/simple/evil-agent/"] = (kind, page.encode())
        self.pages[f"/files/{name}"] = ("application/octet-stream", archive)


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append((self.path, self.headers.get("Authorization", "")))
            if self.path in index.moved:
                self.send_response(302)
                self.send_header("Location", index.moved[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            kind, body = index.pages.get(self.path, ("text/plain", b""))
            self.send_response(200 if self.path in index.pages else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.url = f"http://127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def index() -> Iterator[Index]:
    with serving(Index()) as index:
        yield index


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "NO_PROXY": "*", **more}


def locked(tmp_path: Path, archive: bytes) -> Path:
    lock = tmp_path / "source.txt"
    lock.write_text(f"Evil_Agent==1.0 \\\n    --hash=sha256:{hashlib.sha256(archive).hexdigest()}\n")
    return lock


@pytest.mark.parametrize("kind", [_JSON, "text/html; charset=utf-8"])
@pytest.mark.parametrize("digest", [None, ""])
def test_an_archive_is_fetched_and_its_build_backend_is_not_run(
    index: Index, tmp_path: Path, kind: str, digest: str | None
) -> None:
    canary = tmp_path / "canary"
    archive = sdist(canary)
    index.lists(archive, kind=kind, digest=digest)
    Pip(environ(tmp_path, PIP_INDEX_URL=index.url), tmp_path / "cache").source(
        locked(tmp_path, archive), tmp_path / "out"
    )
    assert (tmp_path / "out" / "evil_agent-1.0.tar.gz").read_bytes() == archive
    assert not canary.exists()


def test_pip_itself_would_have_run_it(index: Index, tmp_path: Path) -> None:
    """That the archive is what it is meant to be: whoever fetches it by ``pip download`` runs it."""
    canary = tmp_path / "canary"
    index.lists(sdist(canary))
    words = ["download", "--no-binary=:all:", "--no-deps", f"--dest={tmp_path}", "evil-agent==1.0"]
    given = environ(tmp_path, PIP_INDEX_URL=index.url)
    subprocess.run([sys.executable, "-m", "pip", *words], env=given, check=False, capture_output=True, timeout=120)
    assert canary.exists()


@pytest.mark.parametrize("digest", [None, ""])
def test_another_file_than_the_locked_one_is_refused(index: Index, tmp_path: Path, digest: str | None) -> None:
    index.lists(sdist(tmp_path / "other"), digest=digest)
    with pytest.raises(RefusedError, match="something else than evil-agent==1"):
        Pip(environ(tmp_path, PIP_INDEX_URL=index.url), tmp_path / "cache").source(
            locked(tmp_path, b"locked"), tmp_path / "out"
        )
    assert not list(tmp_path.glob("out/*"))


def test_a_listing_that_lies_about_the_hash_is_found_out(index: Index, tmp_path: Path) -> None:
    archive = sdist(tmp_path / "canary")
    index.lists(archive + b"x", digest=hashlib.sha256(archive).hexdigest())
    with pytest.raises(RefusedError, match="something else than"):
        Pip(environ(tmp_path, PIP_INDEX_URL=index.url), tmp_path / "cache").source(
            locked(tmp_path, archive), tmp_path / "out"
        )
    assert not list(tmp_path.glob("out/*"))


def test_the_index_is_the_one_of_pips_own_file_and_its_password_is_sent_to_its_host_alone(
    index: Index, tmp_path: Path
) -> None:
    archive = sdist(tmp_path / "canary")
    with serving(Index()) as elsewhere:
        elsewhere.lists(archive)
        index.lists(archive, at=elsewhere.url.replace("/simple", "/files/"))
        config = tmp_path / "pip.conf"
        config.write_text(f"[global]\nindex-url = {index.url.replace('//', '//reader:geheim@')}\n")
        pip = Pip(environ(tmp_path, PIP_CONFIG_FILE=str(config)), tmp_path / "cache")
        pip.source(locked(tmp_path, archive), tmp_path / "out")
        sent = base64.b64encode(b"reader:geheim").decode()
        assert index.asked == [("/simple/evil-agent/", f"Basic {sent}")]
        assert elsewhere.asked == [("/files/evil_agent-1.0.tar.gz", "")]


def test_a_redirect_to_another_host_takes_no_password_along(index: Index, tmp_path: Path) -> None:
    archive = sdist(tmp_path / "canary")
    with serving(Index()) as elsewhere:
        elsewhere.lists(archive)
        index.lists(archive)
        target = elsewhere.url.replace("/simple", "/files/evil_agent-1.0.tar.gz").replace("127.0.0.1", "localhost")
        index.moved["/files/evil_agent-1.0.tar.gz"] = target
        pip = Pip(environ(tmp_path, PIP_INDEX_URL=index.url.replace("//", "//reader:geheim@")), tmp_path / "cache")
        pip.source(locked(tmp_path, archive), tmp_path / "out")
        assert elsewhere.asked == [("/files/evil_agent-1.0.tar.gz", "")]


def test_a_folder_of_files_is_looked_at_as_pip_does(tmp_path: Path) -> None:
    archive = sdist(tmp_path / "canary")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "evil_agent-1.0.tar.gz").write_bytes(archive)
    pip = Pip(environ(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "links")), tmp_path / "cache")
    pip.source(locked(tmp_path, archive), tmp_path / "out")
    assert (tmp_path / "out" / "evil_agent-1.0.tar.gz").read_bytes() == archive
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"files": [{"filename": 1}]}', "no listing"),
        (b'{"files": 7}', "no listing"),
        (b"[" * 100_000, "no listing"),
        (b'{"files": []}', "no source archive of evil-agent==1"),
        (b'{"files": [{"filename": "../evil-agent-1.0.tar.gz", "url": "x", "hashes": {}}]}', "no source archive"),
    ],
)
def test_a_strange_listing_is_no_archive(index: Index, tmp_path: Path, body: bytes, words: str) -> None:
    index.pages["/simple/evil-agent/"] = (_JSON, body)
    with pytest.raises(UnavailableError, match=words):
        Pip(environ(tmp_path, PIP_INDEX_URL=index.url), tmp_path / "cache").source(
            locked(tmp_path, b"x"), tmp_path / "out"
        )


def test_an_index_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    pip = Pip(environ(tmp_path, PIP_INDEX_URL="http://reader:geheim@127.0.0.1:9/simple"), tmp_path / "cache")
    with pytest.raises(UnavailableError, match="does not answer: ConnectError") as caught:
        pip.source(locked(tmp_path, b"x"), tmp_path / "out")
    assert "geheim" not in caught.value.message


@pytest.mark.parametrize("text", ["", "a==1\n", "a>=1 --hash=sha256:00\n", "a==1 --hash=md5:00\n"])
def test_what_is_not_locked_is_not_fetched(tmp_path: Path, text: str) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(text)
    with pytest.raises(RefusedError, match="lock"):
        Pip(environ(tmp_path, PIP_NO_INDEX="1"), tmp_path / "cache").source(lock, tmp_path / "out")


def test_pip_says_where_it_looks_when_nobody_says_otherwise(tmp_path: Path) -> None:
    assert PackageIndex(environ(tmp_path))._usual_index().startswith("https://")
