"""Every machine of an instance or a pool should have a certificate; a fresh one is given under its lease."""

from typing import Any

import pytest

from hermesops.agents.instances.credentials.certificates import (
    CertificateRenewal,
    MachineCertificates,
    find_holder,
    holders_of,
    newest_certificates,
)
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.fleet.unassigned_machine import machine_subject
from hermesops.model.ids import instance_subject
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import Leases, part
from tests.support.fleets.in_memory import ordered, pooled

HOMELESS = ordered(1, machine_id=None).instance
POOLED = pooled(2)


def registry_with(**more: Any) -> Any:  # noqa: ANN401 - stands for a registry
    return part(
        instances=part(list=lambda: [ADA, HOMELESS], find=lambda _: HOMELESS),
        unassigned=part(list=lambda **_: [POOLED, pooled(3, wanted=False), pooled(4, machine_id=None)]),
        **more,
    )


def renewal(leases: Leases, certifying: Any) -> CertificateRenewal:  # noqa: ANN401 - stands for Certifying
    client = part(certifying=certifying, channel=lambda machine_id: f"channel to {machine_id}")
    return CertificateRenewal(registry_with(), part(with_lease=lambda _: client), leases.hold)


def certifying(issued: object) -> Any:  # noqa: ANN401 - stands for Certifying
    async def certify(*_: object, **__: object) -> object:
        return issued

    return part(certify=certify)


def test_machines_of_instances_and_of_pools_are_holders() -> None:
    ada, pool = holders_of(registry_with())
    assert (ada.title, ada.subject, ada.instance) == ("ada", instance_subject(ADA.id), ADA)
    assert (pool.title, pool.subject, pool.instance) == (POOLED.name, machine_subject(POOLED.name), None)


def test_a_holder_is_found_by_user_and_by_machine_and_one_without_a_machine_is_refused() -> None:
    assert ADA.machine_id is not None
    assert find_holder(registry_with(), "ada") == find_holder(registry_with(), ADA.machine_id)
    with pytest.raises(RefusedError, match="has no machine now"):
        find_holder(registry_with(), "user1")


def test_the_newest_certificate_of_each_machine_is_told_with_whose_it_is() -> None:
    pooled, old, new, gone = (
        part(machine_id=machine_id) for machine_id in (POOLED.machine_id, ADA.machine_id, ADA.machine_id, "a")
    )
    newest = newest_certificates(registry_with(certificates=part(list=lambda: [gone, pooled, new, old])))
    assert newest[0][1] is new
    assert [(holder.title, holder.machine_name) for holder, _ in newest] == [
        ("ada", ADA.machine_name),
        ("a", "a"),
        (POOLED.name, POOLED.name),
    ]


async def test_a_certificate_is_made_under_the_machines_lease() -> None:
    leases = Leases()
    issued = part(serial="1")
    assert await renewal(leases, certifying(issued)).renew(holders_of(registry_with())[1]) is issued
    assert leases.held == [machine_subject(POOLED.name)]


@pytest.mark.parametrize(
    ("certifies", "words"), [(None, "nobody takes machines' certificates"), (certifying(None), "knows of no")]
)
async def test_who_takes_no_certificates_is_refused(certifies: object, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        await renewal(Leases(), certifies).renew(holders_of(registry_with())[0])


async def test_one_that_somebody_works_on_does_not_keep_others_from_theirs() -> None:
    problems = await renewal(Leases(instance_subject(ADA.id)), certifying(part())).renew_all()
    assert "being worked on" in problems["ada"]
    assert problems[POOLED.name] == ""


def test_a_machines_certificates_are_revoked_for_a_reason() -> None:
    revoked: list[tuple[object, str]] = []

    def revoke(machine_id: object, *, why: str) -> int:
        revoked.append((machine_id, why))
        return 2

    certificates = MachineCertificates(registry_with(certificates=part(revoke=revoke)))
    holder = certificates.find_holder("ada")
    with pytest.raises(UsageError, match="say why") as refused:
        certificates.revoke(holder, reason=" ")
    assert refused.value.hint == Hint(("identity", "revoke", "ada", "--reason", "WHY"))
    assert not revoked
    assert certificates.revoke(holder, reason="stolen") == 2
    assert revoked == [(ADA.machine_id, "stolen")]
