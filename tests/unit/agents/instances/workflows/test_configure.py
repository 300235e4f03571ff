"""Changed settings reach a machine once, wherever the change was killed, and a bad request touches nothing."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.instances.requests.settings_patch import setting
from hermesops.agents.instances.steps.personalise import AwaitGateway, Personalise
from hermesops.agents.instances.workflows.configure import Configure, decide
from hermesops.errors import BrokenInvariantError, HermesError, RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Done, Operation, OperationKind, OperationStatus, Refused
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.fakes.registry import FakeRegistry

AT = datetime(2026, 1, 1, tzinfo=UTC)
OURS = NodeState(ADA.id, 1, "digest", "0.19.0")
TERMINATED = replace(ADA, status=InstanceStatus.TERMINATED)


@pytest.mark.parametrize(
    ("observation", "step"),
    [
        (Observation(ADA, READY, replace(OURS, digest="older"), GatewayHealth.OK), Personalise(MACHINE)),
        (Observation(ADA, READY, replace(OURS, digest=""), GatewayHealth.OK), Personalise(MACHINE)),
        (Observation(ADA, READY, OURS, GatewayHealth.REFUSED), AwaitGateway(MACHINE)),
    ],
)
def test_the_next_step_follows_from_what_is_seen(observation: Observation, step: object) -> None:
    assert decide(observation, payload_digest="digest") == step


def test_a_machine_that_has_the_settings_needs_nothing() -> None:
    assert isinstance(decide(Observation(ADA, READY, OURS, GatewayHealth.OK), payload_digest="digest"), Done)


@pytest.mark.parametrize(
    ("observation", "error"),
    [
        (Observation(TERMINATED, READY, OURS), RefusedError),
        (Observation(ADA, None), RefusedError),
        (Observation(ADA, READY), UnavailableError),
        (Observation(ADA, READY, replace(OURS, instance_id=InstanceId("other"))), BrokenInvariantError),
    ],
)
def test_where_nothing_can_be_done_it_says_so(observation: Observation, error: type[HermesError]) -> None:
    verdict = decide(observation, payload_digest="digest")
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, error)


@dataclass
class World(FakeRegistry):
    """A registry and a machine in memory, for requests and for the work."""

    observation: Observation = field(default_factory=lambda: Observation(ADA, READY, OURS, GatewayHealth.OK))
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    before: InstanceSettings | None = None
    handed: InstanceSettings = field(default_factory=InstanceSettings)
    changes: list[str] = field(default_factory=list)
    death: Death = field(default_factory=Death)
    rejects: HermesError | None = None
    leased: list[str] = field(default_factory=list)
    intent: Mapping[str, object] = field(default_factory=dict)

    @asynccontextmanager
    async def hold_lease(self, subject: str) -> AsyncIterator[None]:
        self.leased.append(subject)
        yield

    async def observe(self, _: InstanceId) -> Observation:
        return self.observation

    def payload_digest(self, _: Instance) -> str:
        return "digest" if self.settings == self.handed else "other"

    async def personalise(self, *_: object) -> None:
        if self.rejects:
            raise self.rejects
        self.death.point()
        self.handed = self.settings
        self.changes.append("handed")
        self.death.point()

    async def await_gateway(self, *_: object) -> None:
        self.observation = replace(self.observation, gateway=GatewayHealth.OK)

    def instances_find(self, text: str) -> Instance:
        assert text == "ada"
        return self.observation.instance

    def operations_list(self, **_asked: object) -> tuple[Operation, ...]:
        return ()

    def instance_secrets_settings(self, _: InstanceId) -> InstanceSettings:
        return self.settings

    def instance_secrets_settings_before(self, _: InstanceId) -> InstanceSettings | None:
        return self.before

    def settings_changes_change(
        self,
        instance_id: InstanceId,
        settings: InstanceSettings,
        *,
        subject: str,
        intent: Mapping[str, object],
        why: str,
    ) -> Operation:
        assert self.leased == [subject], "written without the lease"
        assert why == "asked"
        if settings != self.settings:
            self.changes.append("stored")
        self.settings, self.intent = settings, intent
        kind, status = OperationKind.CONFIGURE, OperationStatus.PENDING
        return Operation(OperationId("o"), kind, subject, instance_id, intent, status, "", "", AT, AT)


async def work(world: World) -> None:
    client: Any = world
    configure = Configure(ADA.id, client)
    for _ in range(5):
        observation = await configure.observe()
        match configure.decide(observation):
            case Done():
                return
            case Refused(error=error):
                raise error
            case step:
                assert configure.describe(step, observation)
                await configure.do(step, observation)
    pytest.fail("no end")


def requests(world: World) -> InstanceRequests:
    itself: Any = world
    return InstanceRequests(itself, itself, itself, itself, itself, OperationOpener(itself, world.hold_lease))


GPT = setting(["model=gpt-4o"])


async def test_a_wish_is_stored_and_then_handed_over() -> None:
    world = World()
    await requests(world).configure("ada", GPT, reason=" asked ")
    await work(world)
    assert world.changes == ["stored", "handed"]
    assert world.intent["changed"] == ["model"]


async def test_the_same_wish_again_changes_nothing() -> None:
    world = World(settings=InstanceSettings(model="gpt-4o"), handed=InstanceSettings(model="gpt-4o"))
    await requests(world).configure("ada", GPT, reason="asked")
    await work(world)
    assert world.changes == []


@pytest.mark.parametrize("at", [1, 2], ids=["before", "after"])
async def test_killed_while_handing_over_the_work_ends_by_the_same_changes(at: int) -> None:
    world = World(death=Death(at))
    await requests(world).configure("ada", GPT, reason="asked")
    with pytest.raises(KilledError):
        await work(world)
    world.death = Death()
    await work(world)
    assert world.changes == ["stored", "handed"]


async def test_the_intent_holds_no_secret_and_no_word_of_the_users() -> None:
    world = World()
    chosen = InstanceSettings(
        personality="canary", messengers={"SLACK_BOT_TOKEN": "canary"}, mcp_servers={"a": {"command": "canary"}}
    )
    await requests(world).configure("ada", lambda _: chosen, reason="asked")
    assert "canary" not in str(world.intent)
    assert "SLACK_BOT_TOKEN" in str(world.intent)


@pytest.mark.parametrize("rejection", [UnavailableError("not healthy", hint="look"), RefusedError("refused")])
async def test_a_rejected_choice_names_the_way_back(rejection: HermesError) -> None:
    world = World(rejects=rejection)
    await requests(world).configure("ada", GPT, reason="asked")
    with pytest.raises(type(rejection), match=rejection.message) as caught:
        await work(world)
    assert "hermesops instance settings ada --back" in str(caught.value.hint)


async def test_the_way_back_leads_to_the_settings_before() -> None:
    before = InstanceSettings(model="gemini-flash")
    world = World(settings=InstanceSettings(model="gpt-4o"), before=before)
    await requests(world).configure("ada", None, reason="asked")
    assert world.settings == before


@pytest.mark.parametrize(
    ("world", "reason", "error", "words"),
    [
        (World(), " ", UsageError, "say why"),
        (World(Observation(ADA, None)), "asked", RefusedError, "is gone"),
        (World(Observation(ADA, READY)), "asked", UnavailableError, "does not answer"),
        (World(Observation(TERMINATED, READY, OURS)), "asked", RefusedError, "was terminated"),
    ],
)
async def test_what_cannot_be_done_now_leaves_the_settings_as_they_are(
    world: World, reason: str, error: type[HermesError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await requests(world).configure("ada", GPT, reason=reason)
    assert world.changes == []


async def test_where_nothing_was_ever_changed_there_is_no_way_back() -> None:
    with pytest.raises(RefusedError, match="never changed"):
        await requests(World()).configure("ada", None, reason="asked")
