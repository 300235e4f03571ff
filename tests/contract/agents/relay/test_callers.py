"""Services that may call the relay: admitted, known by what they prove, renewed, revoked; alike on both databases."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from hermesops.access.pki.authority import Authority, fresh_key
from hermesops.access.pki.caller_directory import CallerDirectory
from hermesops.access.pki.callers import Admitted, Callers
from hermesops.access.pki.certificates import Certificates
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId
from hermesops.programs.node.system import openssl
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.certificates import MOST_AN_HOUR
from tests.support.real.stores.registries import TurnedClock

pytestmark = pytest.mark.turns(4)

LIFE = timedelta(days=7)


@pytest.fixture(scope="module")
def request_() -> str:
    return openssl.request(openssl.make()).decode()


@pytest.fixture
def authority(registry: Registry) -> Authority:
    return Authority.load(fresh_key(), registry, environment="local", source="memory")


@pytest.fixture
def callers(registry: Registry, authority: Authority) -> Callers:
    return Callers(registry, lambda: authority, environment="local", life=LIFE)


def der(certificate: str) -> bytes:
    return x509.load_pem_x509_certificate(certificate.encode()).public_bytes(Encoding.DER)


def shown(admitted: Admitted) -> bytes:
    return der(admitted.certificate)


def test_a_service_is_known_by_its_certificate_and_renews_it(callers: Callers, request_: str) -> None:
    first = callers.admit("message-router", request_, why="asked")
    held = callers.caller_of(shown(first))
    assert (held.name, held.serial) == ("message-router", first.serial)
    fresh = callers.renew(held, request_)
    assert fresh.serial != first.serial
    assert callers.caller_of(shown(fresh)).name == "message-router"
    assert b'"not_after"' in fresh.to_json()


def test_what_was_revoked_or_has_run_out_opens_nothing_and_renews_nothing(
    registry: Registry, callers: Callers, clock: TurnedClock, request_: str
) -> None:
    first, other = (callers.admit(name, request_, why="asked") for name in ("message-router", "web"))
    held = callers.caller_of(shown(first))
    assert registry.relay_callers.revoke("message-router", why="leaked") == 1
    assert registry.relay_callers.revoke("message-router", why="again") == 0
    with pytest.raises(RefusedError, match="is no longer valid"):
        callers.caller_of(shown(first))
    with pytest.raises(RefusedError, match="is no longer valid"):
        callers.renew(held, request_)
    clock.turn(LIFE.total_seconds() - 1)
    callers.caller_of(shown(other))
    clock.turn(1)
    with pytest.raises(RefusedError, match="is no longer valid"):
        callers.caller_of(shown(other))
    audited = [
        (entry.action, entry.subject, entry.why) for entry in registry.audit.list() if entry.action.startswith("relay")
    ]
    assert audited == [
        ("relay_caller_revoked", "service/message-router", "leaked"),
        ("relay_caller_admitted", "service/web", "asked"),
        ("relay_caller_admitted", "service/message-router", "asked"),
    ]


@pytest.mark.parametrize("name", ["hermesops", "hermesops-monitor"])
def test_no_service_takes_the_name_of_hermesops_own_processes(callers: Callers, request_: str, name: str) -> None:
    with pytest.raises(UsageError, match="own processes"):
        callers.admit(name, request_, why="asked")


def test_no_other_certificate_of_the_authority_is_a_services(
    registry: Registry, callers: Callers, authority: Authority, request_: str
) -> None:
    certificates = Certificates(registry, lambda: authority, environment="local", url="https://x", life=LIFE)
    machines = certificates.issue(request_, MachineId("m-1")).certificate
    elsewhere = Callers(registry, lambda: authority, environment="staging", life=LIFE).admit("web", request_, why="x")
    server = authority.serve(["127.0.0.1"], life=LIFE).pem
    for strange in (machines, elsewhere.certificate, server):
        with pytest.raises(RefusedError, match="no service of this environment"):
            callers.caller_of(der(strange))
    own = authority.introduce(CallerName("local", "hermesops"), life=LIFE).pem
    with pytest.raises(RefusedError, match="is no longer valid"):
        callers.caller_of(der(own))


def test_a_service_fetches_only_so_many_and_an_operator_as_many_as_needed(callers: Callers, request_: str) -> None:
    first = callers.admit("web", request_, why="asked")
    held = callers.caller_of(shown(first))
    for _ in range(MOST_AN_HOUR - 1):
        callers.renew(held, request_)
    with pytest.raises(UnavailableError, match="service web was issued 12 certificates within an hour"):
        callers.renew(held, request_)
    callers.admit("web", request_, why="again")


@pytest.mark.parametrize("name", ["", "Web", "web router", "web/x", "1web", "w" * 32, "web\n"])
def test_a_name_that_no_certificate_can_carry_is_refused(callers: Callers, request_: str, name: str) -> None:
    with pytest.raises(UsageError, match="no service's name"):
        callers.admit(name, request_, why="asked")


def test_long_gone_certificates_are_forgotten(
    registry: Registry, callers: Callers, clock: TurnedClock, request_: str
) -> None:
    callers.admit("web", request_, why="asked")
    clock.turn((LIFE + timedelta(days=31)).total_seconds())
    fresh = callers.admit("web", request_, why="again")
    assert [caller.serial for caller in registry.relay_callers.list()] == [fresh.serial]


def test_a_service_is_admitted_and_revoked_for_a_reason(registry: Registry, callers: Callers, request_: str) -> None:
    with pytest.raises(UsageError, match="say why"):
        callers.admit("web", request_, why="")
    directory = CallerDirectory(registry)
    assert directory.list() == ()
    admitted = callers.admit("web", request_, why="asked")
    with pytest.raises(UsageError, match="say why"):
        directory.revoke("web", why="")
    assert callers.caller_of(shown(admitted)).name == "web"
    assert directory.revoke("web", why="its key was seen") == 1
    with pytest.raises(RefusedError, match="is no longer valid"):
        callers.caller_of(shown(admitted))
    with pytest.raises(RefusedError, match="no certificate of service web is valid"):
        directory.revoke("web", why="again")
