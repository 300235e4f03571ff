"""The authority: its names and no others, its life and no longer, and one authority for one environment."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hermesops.access.pki.authority import SKEW, Authority, fresh_key, make_root, read_key
from hermesops.errors import RefusedError
from hermesops.model.access.certificate import CallerName, MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from tests.support.fakes.credentials import Roots, authority_in
from tests.support.suite.cases import each_case

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIFE = timedelta(days=7)
NAMES = MachineNames("local", MachineId("m-1"), CellName("cell1"), InstanceId("i-1"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_in(tmp_path)


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
    certificate = x509.load_pem_x509_certificate(issued.pem.encode())
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in named] == list(NAMES.uris)
    assert MachineNames.parse(named.get_values_for_type(x509.UniformResourceIdentifier)) == NAMES
    assert certificate.subject.rfc4514_string() == "UID=i-1,L=cell1,OU=machine,O=local,CN=m-1"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert certificate.public_key() == key.public_key()
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    assert f"{certificate.serial_number:x}" == issued.serial


def test_the_subject_of_a_machine_without_a_user_and_of_a_service_names_no_more_than_there_is(
    authority: Authority,
) -> None:
    request = request_of(ec.generate_private_key(ec.SECP256R1()))
    subjects = [
        x509.load_pem_x509_certificate(
            authority.issue(request, names, now=NOW, life=LIFE).pem.encode()
        ).subject.rfc4514_string()
        for names in (MachineNames("local", MachineId("m-1")), CallerName("local", "web"))
    ]
    assert subjects == ["OU=machine,O=local,CN=m-1", "OU=service,O=local,CN=web"]


def test_a_machine_whose_name_a_certificate_cannot_hold_whole_is_refused(authority: Authority) -> None:
    request = request_of(ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(RefusedError, match="no certificate can name"):
        authority.issue(request, MachineNames("local", MachineId("m" * 65)), now=NOW, life=LIFE)


def test_a_process_of_hermesops_authenticates_as_a_service_and_cannot_pass_for_a_server(authority: Authority) -> None:
    owned = authority.introduce(CallerName("local", "hermesops"), life=LIFE)
    certificate = x509.load_pem_x509_certificate(owned.pem.encode())
    assert certificate.subject.rfc4514_string() == "OU=service,O=local,CN=hermesops"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert owned.key not in repr(owned)


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
    request = x509.load_pem_x509_csr(request_of(ec.generate_private_key(ec.SECP256R1())).encode())
    wrong = bytearray(request.public_bytes(Encoding.DER))
    at = wrong.index(b"root of all")
    wrong[at : at + 4] = b"boot"
    pem = x509.load_der_x509_csr(bytes(wrong)).public_bytes(Encoding.PEM).decode()
    with pytest.raises(RefusedError, match="is not signed by its own key"):
        authority.issue(pem, NAMES, now=NOW, life=LIFE)


def test_the_first_key_begins_the_authority_and_is_the_only_one() -> None:
    roots, key = Roots(), fresh_key()
    first = Authority.load(key, roots, environment="local", source="keys/")
    assert Authority.load(key, roots, environment="local", source="keys/").certificate == first.certificate
    assert len(roots.held) == 1
    with pytest.raises(RefusedError, match="keys/ holds the key of an authority"):
        Authority.load(fresh_key(), roots, environment="local", source="keys/")


def test_two_authorities_are_trusted_side_by_side() -> None:
    roots, old, new = Roots(), fresh_key(), fresh_key()
    Authority.load(old, roots, environment="local", source="a")
    roots.certificates_trust_authority(make_root(read_key(new, source="b"), "local"), only_first=False)
    names = {Authority.load(key, roots, environment="local", source="c").certificate for key in (old, new)}
    assert names == set(roots.held)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "keys/ is damaged"),
        ("canary-3f1b", "keys/ is damaged"),
        (ec.generate_private_key(ec.SECP384R1()), "keys/ is no EC key on P-256"),
    ],
    ids=["empty", "no", "P-384"],
)
def test_what_is_no_key_is_refused_without_a_word_of_it(text: str | ec.EllipticCurvePrivateKey, words: str) -> None:
    if not isinstance(text, str):
        text = text.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(RefusedError, match=words) as refused:
        Authority.load(text, Roots(), environment="local", source="keys/")
    assert not text or text not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_a_service_is_proved_by_its_address_and_cannot_pass_for_a_machine(authority: Authority) -> None:
    served = authority.serve(["10.1.2.3", "identity.example"], life=LIFE)
    certificate = x509.load_pem_x509_certificate(served.pem.encode())
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in named] == ["10.1.2.3", "identity.example"]
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert served.key not in repr(served)


@each_case(
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
