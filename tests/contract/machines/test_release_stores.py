"""Releases in a folder and in a bucket, signed by real ssh-keygen: what a machine can check is what was built."""

import hashlib
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hermesops.errors import RefusedError
from hermesops.wire.documents.lock import Lock
from hermesops.wire.documents.signers import Kind
from tests.support.real.stores.bucket import new_bucket, s3_server, use_credentials
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.releases.package_index import AT, Index, builder_of, order
from tests.support.releases.signer import Operator

pytestmark = pytest.mark.turns(12)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    """S3 as a local world has it, which is stricter than moto: links of an old signature it does not take."""
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


@pytest.fixture(params=["folder", "bucket", "gateway"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    use_credentials(monkeypatch)
    if request.param == "folder":
        return str(tmp_path / "releases")
    if request.param == "bucket":
        return new_bucket(request.getfixturevalue("endpoint"), "some/releases")
    served: ServedStore = request.getfixturevalue("gateway")
    credential = served.platform.credential()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", credential.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", credential.secret_key)
    name = f"releases-{uuid.uuid4().hex[:12]}"
    served.s3(credential).create_bucket(Bucket=name)
    return f"s3://{name}/some/releases?region=us-east-1&endpoint={served.bucket.endpoint}&s3ForcePathStyle=true"


@pytest.fixture
def ada(tmp_path: Path) -> Operator:
    return Operator(tmp_path, "ada")


@pytest.fixture
def lock(where: str, ada: Operator, tmp_path: Path) -> Lock:
    """A release that ada has built."""
    releases = ada.releases(where)
    releases.replace_signers(ada.line, sign_again=False)
    return builder_of(releases, Index(), tmp_path).build(order(), who="ada", note="", at=AT).lock


def test_a_release_is_found_whole_by_another_computer(where: str, lock: Lock, tmp_path: Path) -> None:
    releases = Operator(tmp_path, "bob").releases(where)
    assert [kept.lock for kept in releases.list()] == [lock]
    assert releases.verify(lock.id) == ()


def test_ssh_keygen_alone_can_check_a_release(where: str, lock: Lock, ada: Operator, tmp_path: Path) -> None:
    handout = ada.releases(where).handout(lock.id, "3.11")
    allowed, signature = tmp_path / "allowed", tmp_path / "signature"
    allowed.write_text(handout.read_signers()[-1].lines)
    signature.write_text(handout.lock.signature)
    command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "ada@example.net", "-n", Kind.LOCK]
    for text, code in ((handout.lock.text, 0), (handout.lock.text + " ", 255)):
        done = subprocess.run([*command, "-s", str(signature)], input=text.encode(), capture_output=True, check=False)
        assert done.returncode == code


def test_a_bucket_hands_out_links_that_need_no_key(where: str, lock: Lock, ada: Operator) -> None:
    links = ada.releases(where).handout(lock.id, "3.11").links
    if not where.startswith("s3://"):
        assert links == {}
        return
    assert links.keys() == {blob.sha256 for blob in lock.blobs("3.11")}
    for sha256, link in links.items():
        assert hashlib.sha256(httpx.get(link).raise_for_status().content).hexdigest() == sha256


def test_somebody_elses_release_is_not_believed(where: str, lock: Lock, tmp_path: Path) -> None:
    eve = Operator(tmp_path, "eve").releases(where)
    with pytest.raises(RefusedError, match="by no signer that the list of signers allows"):
        eve.put(replace(lock, config_schema=1), who="eve", note="", at=AT)
    with pytest.raises(RefusedError, match="by no signer that the list of signers allows"):
        eve.revoke(lock.id, "mine")
    with pytest.raises(RefusedError, match="signs no releases now"):
        eve.replace_signers(Operator(tmp_path, "eve").line, sign_again=True)
    assert [kept.lock for kept in eve.list()] == [lock]


@pytest.mark.turns(7)
def test_keys_are_rotated(where: str, lock: Lock, ada: Operator, tmp_path: Path) -> None:
    bob = Operator(tmp_path, "bob")
    ada.releases(where).replace_signers(ada.line + bob.line, sign_again=False)
    bob.releases(where).replace_signers(bob.line, sign_again=True)
    assert bob.releases(where).handout(lock.id, "3.11").read_lock() == lock
    with pytest.raises(RefusedError, match="by no signer that the list of signers allows"):
        ada.releases(where).revoke(lock.id, "gone")
