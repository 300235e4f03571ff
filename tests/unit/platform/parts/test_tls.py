"""Files of a host's certificates: issued once, renewed when it is time, and kept from others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from hermesops.errors import RefusedError, UsageError
from hermesops.platform.parts import tls as host_certificates
from hermesops.platform.parts.tls import HostCertificates, HostFiles
from tests.support.fakes.credentials import authority_in
from tests.support.fakes.parts import part

FILES = ["authorities.crt", "client.crt", "client.key", "server.crt", "server.key"]
HOST, ADDRESS = "monitoring.example.com", "192.0.2.7"


class Issuer:
    """Issues into a folder, and keeps what it told the audit."""

    def __init__(self, folder: Path) -> None:
        self.authority = authority_in(folder)
        self.out = folder / "out"
        self.audit: list[tuple[str, str, Any]] = []

    def issue(self, *hosts: str, client: str = "hermesops-platform", anew: bool = False) -> HostFiles:
        certificates = self.certificates()
        return certificates.issue(hosts or (HOST, ADDRESS), self.out, client=client, anew=anew, why="it is new")

    def certificates(self) -> HostCertificates:
        def append(action: str, subject: str, *, why: str, after: Any) -> None:  # noqa: ANN401 - JSON
            assert why == "it is new"
            self.audit.append((action, subject, after))

        registry: Any = part(
            certificates=part(list_authorities=lambda: [self.authority.certificate]), audit=part(append=append)
        )
        return HostCertificates("local", registry, lambda: self.authority)

    def held(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.out.iterdir()}


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def names_of(certificate: bytes) -> list[str]:
    read = x509.load_pem_x509_certificate(certificate)
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_a_host_gets_its_files_and_the_audit_says_so_without_keys(issuer: Issuer) -> None:
    host_files = issuer.issue()
    held = issuer.held()
    assert sorted(held) == list(host_files.changed) == FILES
    assert names_of(held["server.crt"]) == [HOST, ADDRESS, "127.0.0.1", "platform.hermes.internal"]
    client = x509.load_pem_x509_certificate(held["client.crt"])
    assert client.subject.rfc4514_string() == "OU=service,O=local,CN=hermesops-platform"
    assert {path.stat().st_mode & 0o777 for path in issuer.out.iterdir()} == {0o600}
    assert issuer.out.stat().st_mode & 0o777 == 0o700
    assert host_files.not_after - datetime.now(UTC) > timedelta(days=89)
    [(action, subject, after)] = issuer.audit
    assert (action, subject) == ("host_certificate_issued", f"host/{HOST}")
    assert "PRIVATE" not in str(after)


def test_what_lasts_for_a_month_still_stays(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer.issue()
    before = issuer.held()
    assert issuer.issue().changed == ()
    assert (issuer.held(), len(issuer.audit)) == (before, 1)
    assert issuer.issue(anew=True).changed == ("client.crt", "client.key", "server.crt", "server.key")
    monkeypatch.setattr(host_certificates, "CERTIFICATE_LIFE", timedelta(days=29))
    issuer.issue(anew=True)
    monkeypatch.undo()
    renewed = issuer.issue()
    assert renewed.changed == ("client.crt", "client.key", "server.crt", "server.key")
    assert renewed.not_after - datetime.now(UTC) > timedelta(days=89)


@pytest.mark.parametrize(
    ("break_it", "changed"),
    [
        (lambda host: (host.out / "server.key").unlink(), ("server.crt", "server.key")),
        (lambda host: (host.out / "client.key").write_text("x"), ("client.crt", "client.key")),
        (lambda host: (host.out / "client.key").write_bytes(host.held()["server.key"]), ("client.crt", "client.key")),
        (lambda host: (host.out / "authorities.crt").write_text("x"), ("authorities.crt",)),
    ],
    ids=["gone", "damaged", "another's", "authorities"],
)
def test_what_does_not_fit_is_replaced(issuer: Issuer, break_it: Any, changed: tuple[str, ...]) -> None:  # noqa: ANN401
    issuer.issue()
    break_it(issuer)
    assert issuer.issue().changed == changed
    assert issuer.issue().changed == ()


def test_another_name_or_another_authority_makes_another_certificate(issuer: Issuer, tmp_path: Path) -> None:
    issuer.issue(HOST)
    assert issuer.issue(HOST, ADDRESS).changed == ("server.crt", "server.key")
    assert issuer.issue(HOST, ADDRESS, client="hermesops-router").changed == ("client.crt", "client.key")
    (other := tmp_path / "other").mkdir()
    issuer.authority = authority_in(other)
    assert list(issuer.issue(HOST, ADDRESS, client="hermesops-router").changed) == FILES


def test_a_folder_that_others_may_read_gets_no_key(issuer: Issuer, tmp_path: Path) -> None:
    issuer.out.mkdir(mode=0o755)
    issuer.out.chmod(0o750)
    with pytest.raises(RefusedError, match="others may read the folder"):
        issuer.issue()
    assert list(issuer.out.iterdir()) == []
    issuer.out.rmdir()
    issuer.out.write_text("a file")
    with pytest.raises(RefusedError, match="cannot be used"):
        issuer.issue()
    issuer.out.unlink()
    (private := tmp_path / "private").mkdir(mode=0o700)
    issuer.out.symlink_to(private)
    with pytest.raises(RefusedError, match="cannot be used"):
        issuer.issue()


@pytest.mark.parametrize("host", ["", "*.example.com", "host:8443", "https://host", "a b", "-x", "x" * 64, "a..b", "é"])
def test_what_names_no_host_is_refused(issuer: Issuer, host: str) -> None:
    with pytest.raises(UsageError, match="neither a host's name nor an address"):
        issuer.issue(host)
    assert not issuer.out.exists()


def test_an_address_of_ipv6_is_a_host(issuer: Issuer) -> None:
    issuer.issue("2001:db8::7")
    assert names_of(issuer.held()["server.crt"])[0] == "2001:db8::7"


@pytest.mark.parametrize("client", ["", "Not A Name", "x" * 99])
def test_a_client_needs_a_name_that_certificates_can_have(issuer: Issuer, client: str) -> None:
    with pytest.raises(UsageError, match="name"):
        issuer.issue(client=client)


def test_a_process_gets_a_certificate_of_its_own_and_nothing_else(issuer: Issuer) -> None:
    """As the console of a host on AWS, which asks monitoring and has no other key."""
    first = issuer.certificates().issue_client("hermesops-console", issuer.out, why="it is new")

    held = issuer.held()
    assert list(first.changed) == sorted(held) == ["client.crt", "client.key"]
    client = x509.load_pem_x509_certificate(held["client.crt"])
    assert client.subject.rfc4514_string() == "OU=service,O=local,CN=hermesops-console"
    assert {path.stat().st_mode & 0o777 for path in issuer.out.iterdir()} == {0o600}
    assert [entry[:2] for entry in issuer.audit] == [("client_certificate_issued", "host/hermesops-console")]
    assert "PRIVATE" not in str(issuer.audit)


def test_a_process_keeps_a_certificate_that_lasts_and_gets_another_where_its_own_does_not(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def issued() -> tuple[str, ...]:
        return issuer.certificates().issue_client("hermesops-console", issuer.out, why="it is new").changed

    monkeypatch.setattr(host_certificates, "CERTIFICATE_LIFE", timedelta(days=29))
    issued()
    monkeypatch.undo()
    pair = ("client.crt", "client.key")
    assert (issued(), issued()) == (pair, ())
    (issuer.out / "client.key").write_text("x")
    assert (issued(), issued()) == (pair, ())
    (other := tmp_path / "other").mkdir()
    issuer.authority = authority_in(other)
    assert (issued(), issued()) == (pair, ())
    with pytest.raises(UsageError, match="say why"):
        issuer.certificates().issue_client("hermesops-console", issuer.out, why=" ")
