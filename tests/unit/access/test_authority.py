"""The authority: its names and no others, its life and no longer, and one authority for one environment."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hermesops.access.authority import SKEW, Authority
from hermesops.errors import RefusedError
from hermesops.model.certificate import MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from tests.support.credentials import Roots

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIFE = timedelta(days=7)
NAMES = MachineNames("local", MachineId("m-1"), CellName("cell1"), InstanceId("i-1"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.load(tmp_path / "authority.key", Roots(), environment="local")


def request_of(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, *, asks_for: str = "hermesops://local/machine/m-9"
) -> str:
    wanted = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(asks_for), x509.DNSName("evil.example")])
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root of all")]))
        .add_extension(wanted, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
        .decode()
    )


def test_a_certificate_says_what_we_say_and_nothing_of_what_its_request_asks_for(authority: Authority) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issued = authority.issue(request_of(key), NAMES, now=NOW, life=LIFE)
    made = x509.load_pem_x509_certificate(issued.pem.encode())
    named = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in named] == list(NAMES.uris)
    assert MachineNames.parse(named.get_values_for_type(x509.UniformResourceIdentifier)) == NAMES
    assert [one.value for one in made.subject] == ["m-1"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert made.public_key() == key.public_key()
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    assert f"{made.serial_number:x}" == issued.serial


def test_a_certificate_counts_for_its_life_and_for_clocks_two_minutes_behind(authority: Authority) -> None:
    issued = authority.issue(request_of(ec.generate_private_key(ec.SECP256R1())), NAMES, now=NOW, life=LIFE)
    assert issued.not_after == NOW + LIFE
    assert issued.not_before == NOW - SKEW < NOW - timedelta(minutes=2)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("", "no request"),
        ("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "no request"),
        (request_of(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (request_of(rsa.generate_private_key(65537, 2048)), "P-256"),
    ],
    ids=["nothing", "garbage", "another curve", "RSA"],
)
def test_what_is_no_request_of_the_right_kind_is_refused(authority: Authority, request_: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        authority.issue(request_, NAMES, now=NOW, life=LIFE)


def test_a_request_with_a_key_that_it_does_not_prove_to_have_is_refused(authority: Authority) -> None:
    asked = x509.load_pem_x509_csr(request_of(ec.generate_private_key(ec.SECP256R1())).encode())
    wrong = bytearray(asked.public_bytes(Encoding.DER))
    at = wrong.index(b"root of all")
    wrong[at : at + 4] = b"boot"
    pem = x509.load_der_x509_csr(bytes(wrong)).public_bytes(Encoding.PEM).decode()
    with pytest.raises(RefusedError, match="does not prove"):
        authority.issue(pem, NAMES, now=NOW, life=LIFE)


def test_the_key_is_made_once_and_stays(tmp_path: Path) -> None:
    roots, file = Roots(), tmp_path / "authority.key"
    first = Authority.load(file, roots, environment="local")
    assert Authority.load(file, roots, environment="local").certificate == first.certificate
    assert len(roots.held) == 1
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_lost_key_is_not_made_anew_while_machines_trust_the_old_one(tmp_path: Path) -> None:
    roots, file = Roots(), tmp_path / "authority.key"
    Authority.load(file, roots, environment="local")
    file.unlink()
    with pytest.raises(RefusedError, match="is missing"):
        Authority.load(file, roots, environment="local")


def test_two_computers_do_not_begin_two_authorities(tmp_path: Path) -> None:
    roots = Roots()
    Authority.load(tmp_path / "one.key", roots, environment="local")
    other = Roots()
    Authority.load(tmp_path / "two.key", other, environment="local")
    with pytest.raises(RefusedError, match="does not trust"):
        Authority.load(tmp_path / "two.key", roots, environment="local")


def test_a_service_is_proved_by_its_address_and_cannot_pass_for_a_machine(authority: Authority) -> None:
    served = authority.serve(["10.1.2.3", "identity.example"], now=NOW, life=LIFE)
    made = x509.load_pem_x509_certificate(served.pem.encode())
    named = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in named] == ["10.1.2.3", "identity.example"]
    assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert served.key not in repr(served)


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["hermesops://local/cell/cell1"],
        ["hermesops://local/machine/m-1", "hermesops://other/cell/cell1"],
        ["hermesops://local/machine/m-1", "hermesops://local/machine/m-2"],
        ["https://local/machine/m-1"],
        ["hermesops://local/machine/m-1", "hermesops://local/owner/x"],
    ],
)
def test_names_of_anything_but_one_machine_of_one_environment_are_none(uris: list[str]) -> None:
    assert MachineNames.parse(uris) is None
