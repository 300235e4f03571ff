"""Each check opens what it needs: what does not open fails its own check and no other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.catalog import API_KEY, CATALOG, RELEASE_KEY
from hermesops.access.secrets.store import SecretState
from hermesops.automation.doctor.environment_checks import EnvironmentChecks
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.audit import ChainFinding, ChainReport
from hermesops.model.check import Verdict
from hermesops.settings.environment import Environment
from hermesops.settings.sections import MessengerSettings
from tests.support.fakes.parts import part


def refuses(error: Exception) -> Any:  # noqa: ANN401 - stands for any part that does not open
    def opens() -> Any:  # noqa: ANN401 - as above
        raise error

    return opens


async def bucket() -> str:
    return "ours"


def checks(home: Path, name: str = "staging", **parts: Any) -> EnvironmentChecks:  # noqa: ANN401 - each stands for a part
    given = {"HOME": str(home), "HERMESOPS_HOME": str(home)}
    if name != "local":
        given |= {"HERMESOPS_API_URL": "https://api.example.org/api/v1"}
    usual: dict[str, Any] = {
        "env": Environment.load(name, given),
        "runs_machines": False,
        "place": lambda: part(file=None),
        "registry": lambda: part(
            epochs=part(try_to_write=lambda: None),
            instances=part(list=lambda: [1, 2]),
            certificates=part(list_authorities=list),
        ),
        "secrets": lambda: part(find=lambda _: None),
        "endpoint": part,
        "vendor": refuses(UnavailableError("no answer")),
        "machines": bucket,
        "router_key": lambda: b"r" * 32,
        "authority": part,
        "release_key": lambda: part(is_available=False),
        "room": bucket,
        "bucket": bucket,
        "account": {},
        "state_opens": bucket,
        "messengers": MessengerSettings,
    }
    return EnvironmentChecks(**(usual | parts))


async def test_a_part_that_does_not_open_fails_its_own_check(tmp_path: Path) -> None:
    broken = checks(tmp_path, registry=refuses(RefusedError("locked")))
    checks_by_name = {check.name: (check.verdict, check.seen) for check in await broken.check_secrets()}
    assert checks_by_name["registry.key"] == (Verdict.FAILED, "locked")
    assert checks_by_name["api.key"] == (Verdict.UNKNOWN, "no answer")
    assert checks_by_name["router.key"] == (Verdict.OK, "256 bits")
    assert checks_by_name["backup.key"][1] == "bucket ours answers, and keeps versions"
    assert checks_by_name["release.key"][0] is Verdict.OK


async def test_only_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    assert [check.name for check in await checks(tmp_path).check_secrets((RELEASE_KEY.name,))] == ["release.key"]
    names = [check.name for check in await checks(tmp_path).all()]
    assert names[:2] == ["registry", "vendor"]
    assert API_KEY.name not in names


async def test_a_rotation_that_was_cut_short_is_told_with_what_ends_it(tmp_path: Path) -> None:
    registry = part(sealing=part(count_otherwise=lambda: 3, key=lambda: "k2"))
    [check] = await checks(tmp_path, registry=lambda: registry).check_secrets(("registry.key",))
    assert check.verdict is Verdict.FAILED
    assert "3 values" in check.seen
    assert str(check.hint) == "hermesops secrets rotate registry.key --reason WHY"


@pytest.mark.parametrize(("name", "where"), [("local", "the local world"), ("staging", "home")])
def test_a_local_world_has_keys_of_its_own(tmp_path: Path, name: str, where: str) -> None:
    secrets = part(held=lambda needed: SecretState(needed, "home", is_there=False, changed_at=None))
    held = {
        secret_state.needed: secret_state.where
        for secret_state in checks(tmp_path, name, secrets=lambda: secrets).held_secrets()
    }
    assert set(held) == set(CATALOG)
    assert held[API_KEY] == where


def test_a_home_that_is_closed_has_nothing_unneeded(tmp_path: Path) -> None:
    home = part(names=refuses(UnavailableError("no answer")))
    assert checks(tmp_path, secrets=lambda: part(home=home)).unneeded_secrets() == []
    home = part(names=lambda: {API_KEY.name, "api.kye"})
    assert checks(tmp_path, secrets=lambda: part(home=home)).unneeded_secrets() == ["api.kye"]


async def test_an_audit_that_was_edited_fails_the_doctors_check(tmp_path: Path) -> None:
    edited = (ChainFinding(1, "has another hash than the one anchored"),)
    for findings, anchors, verdict, words in (
        ((), 3, Verdict.OK, "9 entries are chained, up to 9 anchored"),
        (edited, 3, Verdict.FAILED, "1 finding: has another hash"),
        ((), 0, Verdict.UNKNOWN, "kept outside the database"),
    ):
        report = ChainReport(9, None, anchors, 9, 0, findings)
        registry = part(instances=part(list=list), audit=part(check=lambda report=report: report))
        checks_by_name = {
            check.name: check for check in await checks(tmp_path, registry=lambda registry=registry: registry).doctor()
        }
        assert (checks_by_name["audit"].verdict, words in checks_by_name["audit"].seen) == (verdict, True), (
            checks_by_name["audit"]
        )


async def test_the_platforms_account_is_part_of_what_is_checked(tmp_path: Path) -> None:
    async def missing() -> str:
        raise RefusedError("bucket b keeps no versions")

    environment_checks = checks(tmp_path, account={"platform.account": bucket, "platform.state": missing})
    checks_by_name = {check.name: (check.verdict, check.seen) for check in await environment_checks.all()}
    assert checks_by_name["platform.account"] == (Verdict.OK, "ours")
    assert checks_by_name["platform.state"] == (Verdict.FAILED, "bucket b keeps no versions")


async def test_the_passphrase_is_tried_where_there_is_one(tmp_path: Path) -> None:
    async def wrong() -> str:
        raise RefusedError("stack cell1: incorrect passphrase")

    environment_checks = checks(tmp_path, secrets=lambda: part(find=lambda _: "x"), state_opens=wrong)
    [check] = await environment_checks.check_secrets(("pulumi.passphrase",))
    assert (check.verdict, check.seen) == (Verdict.FAILED, "stack cell1: incorrect passphrase")


@pytest.mark.parametrize(
    ("platform", "known"), [(part(), "knows 3 machines and the platform's own"), (None, "knows 4 machines")]
)
async def test_the_platforms_own_machine_is_counted_apart(tmp_path: Path, platform: object, known: str) -> None:
    calls = []

    async def get_account() -> object:
        return part(machines_count=4)

    async def find_machine(name: str) -> object:
        calls.append(name)
        return platform

    @asynccontextmanager
    async def vendor() -> AsyncIterator[object]:
        yield part(get_account=get_account, find_machine=find_machine)

    environment_checks = checks(tmp_path, vendor=vendor, endpoint=lambda: part(api_url="https://a"))
    checks_by_name = {check.name: check.seen for check in await environment_checks.doctor()}
    assert checks_by_name["vendor"] == f"https://a {known}"
    assert calls == ["hermes-staging-platform"]


@pytest.mark.parametrize(
    ("secrets", "text"),
    [("whsec_a", "1 signing secret, of test mode"), ("whsec_a\nwhsec_b", "2 signing secrets, of test mode")],
)
async def test_the_signing_secrets_of_stripe_are_counted(secrets: str, text: str, tmp_path: Path) -> None:
    store = part(find=lambda _: secrets, read=lambda _: secrets, where=lambda _: "a file")
    environment_checks = checks(tmp_path, secrets=lambda: store)
    [check] = await environment_checks.check_secrets(("billing.secret",))
    assert (check.verdict, check.seen) == (Verdict.OK, text)
