"""What a machine was handed is read back whole, and a machine that cannot tell is no error."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from hermesops.agents.drift.machine_identity import Forgotten, read_identity
from hermesops.agents.instances.steps.personalise import payload_of
from hermesops.model.billing.route import issue_token, read_token
from hermesops.model.fleet.instance import InstanceSecrets, InstanceSettings
from hermesops.model.ids import InstanceId
from hermesops.model.providers.table import BY_ID, CUSTOM
from hermesops.model.recovery.recovered import Recovered
from hermesops.vendor.channel import MachineUnreachableError, NoSuchFileError
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.wire.protocol import Credential, Payload
from tests.support.fleets.in_memory import machine_for, ordered
from tests.support.suite.cases import each_case
from tests.support.users.model_provider import choice_of

ROUTER_KEY = bytes(range(32))
ROW = ordered(0)
IDENTITY, PAYLOAD = "/etc/hermes-node/identity.json", "/etc/hermes-node/instance.json"
SETTINGS = InstanceSettings(
    model="gpt-4o",
    personality="Terse.",
    messengers={"TELEGRAM_BOT_TOKEN": "1:canary"},
    mcp_servers={"notes": {"url": "https://example.org/canary"}},
    cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": True},),
    disabled_tools=("web",),
)


class Files:
    """A channel to a machine that has these files only."""

    machine_id = "m-0"

    def __init__(self, files: dict[str, bytes] | None) -> None:
        self.files = files

    async def get(self, path: str) -> bytes:
        if self.files is None:
            raise MachineUnreachableError("no route")
        if path not in self.files:
            raise NoSuchFileError(path)
        return self.files[path]


EXPIRES_AT = 1_800_000_000


def payload(generation: int = 3, key: bytes = ROUTER_KEY, settings: InstanceSettings = SETTINGS) -> bytes:
    secrets = InstanceSecrets("k" * 43, issue_token(key, ROW.instance.id, generation, EXPIRES_AT))
    return payload_of(ROW.instance, settings, secrets, model_base_url="http://router:1/v1").to_json()


def identity(of: bytes) -> bytes:
    return json.dumps(json.loads(of)["identity"]).encode()


async def told_by(files: dict[str, bytes] | None, **changes: object) -> Recovered | Forgotten:
    generation_of = partial(read_token, ROUTER_KEY)
    return await read_identity(Files(files), machine_for(ROW, **changes), generation_of)  # type: ignore[arg-type]


async def test_a_users_own_provider_comes_back_with_its_key() -> None:
    for facts in (BY_ID["openai"], BY_ID[CUSTOM]):
        settings = replace(SETTINGS, provider=choice_of(facts))
        machine = payload(settings=settings)
        claim = await told_by({IDENTITY: identity(machine), PAYLOAD: machine})
        assert isinstance(claim, Recovered)
        assert claim.settings == settings
    unknown = machine.replace(b'"provider": "custom"', b'"provider": "of-a-later-hermesops"')
    claim = await told_by({IDENTITY: identity(unknown), PAYLOAD: unknown})
    assert isinstance(claim, Recovered)
    assert claim.settings == SETTINGS


async def test_an_instance_comes_back_as_it_was_handed_over() -> None:
    claim = await told_by({IDENTITY: identity(payload()), PAYLOAD: payload()})
    assert isinstance(claim, Recovered)
    assert (claim.id, claim.user_id, claim.plan) == (ROW.instance.id, ROW.instance.user_id, ROW.instance.plan)
    assert (claim.settings, claim.api_server_key, claim.model_token_generation) == (SETTINGS, "k" * 43, 3)
    # Handed over anew it is byte for byte the same, so no gateway has to restart.
    assert claim.model_token_expires_at == datetime.fromtimestamp(EXPIRES_AT, UTC)
    token = issue_token(ROUTER_KEY, claim.id, claim.model_token_generation, EXPIRES_AT)
    secrets = InstanceSecrets(claim.api_server_key, token)
    again = payload_of(ROW.instance, claim.settings, secrets, model_base_url="http://router:1/v1")
    assert again.to_json() == payload()
    assert "canary" not in repr(claim)


async def test_a_token_that_is_not_genuine_counts_as_of_the_first_generation() -> None:
    forged = payload(key=bytes(32))
    claim = await told_by({IDENTITY: identity(forged), PAYLOAD: forged})
    assert isinstance(claim, Recovered)
    assert (claim.model_token_generation, claim.model_token_expires_at) == (1, None)
    assert "not issued by this environment" in claim.doubt


async def test_a_token_of_another_instance_makes_a_claim_doubtful_and_a_genuine_one_does_not() -> None:
    other = payload_of(
        ROW.instance,
        SETTINGS,
        InstanceSecrets("k" * 43, issue_token(ROUTER_KEY, InstanceId("another"), 1, EXPIRES_AT)),
        model_base_url="http://router:1/v1",
    ).to_json()
    claim = await told_by({IDENTITY: identity(other), PAYLOAD: other})
    assert isinstance(claim, Recovered)
    assert claim.doubt.endswith("belongs to instance another")
    genuine = await told_by({IDENTITY: identity(payload()), PAYLOAD: payload()})
    assert isinstance(genuine, Recovered)
    assert genuine.doubt == ""


@pytest.mark.parametrize(
    ("names", "doubt"),
    [
        (("machine/m-0", f"instance/{ROW.instance.id}"), ""),
        (("machine/m-0",), ""),
        (("machine/m-0", "instance/another"), "its certificate belongs to instance another"),
        (("machine/m-1", f"instance/{ROW.instance.id}"), "its certificate belongs to machine m-1"),
    ],
)
async def test_a_certificate_of_another_instance_or_machine_makes_a_claim_doubtful(
    names: tuple[str, ...], doubt: str
) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    uris = tuple(f"hermesops://local/{name}" for name in names)
    held = Credential(pem, pem, "https://platform:1", "1f", 0, 1, uris)
    claim = await told_by(
        {
            IDENTITY: identity(payload()),
            PAYLOAD: payload(),
            "/etc/hermes-node/machine.crt": held.to_pem(),
            "/etc/hermes-node/authority.crt": pem.encode(),
        }
    )
    assert isinstance(claim, Recovered)
    assert claim.doubt == doubt


@each_case(
    ("files", "words"),
    [
        (None, "no route"),
        ({}, "it reports no instance"),
        ({IDENTITY: b"{"}, "identity cannot be read"),
        ({IDENTITY: identity(payload())}, "payload cannot be read"),
        ({IDENTITY: identity(payload()), PAYLOAD: b"junk"}, "payload cannot be read"),
    ],
)
async def test_a_machine_that_cannot_tell_is_named_with_its_reason(files: dict[str, bytes] | None, words: str) -> None:
    claim = await told_by(files)
    assert isinstance(claim, Forgotten)
    assert words in claim.why
    assert claim.is_nobodys is (files == {})


async def test_a_machine_that_is_not_ready_is_not_asked_and_one_that_contradicts_itself_not_believed() -> None:
    stopped = await told_by({}, status=MachineStatus.STOPPED)
    assert isinstance(stopped, Forgotten)
    assert not stopped.is_nobodys
    other = identity(payload()).replace(b'"epoch": 1', b'"epoch": 2')
    doubtful = await told_by({IDENTITY: other, PAYLOAD: payload()})
    assert isinstance(doubtful, Forgotten)
    assert "contradict" in doubtful.why
    assert Payload.from_json(payload()).identity.epoch == 1
