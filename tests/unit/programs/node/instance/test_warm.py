"""A machine that warms up before it has a user, and becomes theirs without a restart and without a trace."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hermesops.programs.node.instance import warm
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.personalise import Outcome, personalise, warm_up
from hermesops.programs.node.instance.render import TOKEN_VARIABLE
from hermesops.programs.node.instance.status import status
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.wire.errors import BadRequestError, NotReadyError, RefusedError
from hermesops.wire.protocol import FencingToken, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.crash.death import KilledError
from tests.support.fakes.machines.node_home import bare
from tests.support.fakes.machines.node_system import ApiRequest, FakeSystem

URL = "http://10.0.0.1:18080/v1"
TOKEN = "hm2.i-1.1.1790000000." + "a" * 40
LEASE = FencingToken("machine/hermes-local-cell1-0123456789ab", 1, 1, "here")


@dataclass
class Agent(FakeSystem):
    """An agent that reads its files as the real one does.

    Attributes:
        turns: With which token and model each turn was taken.
        restarts: How often it was started.
        is_deaf: Whether it takes no turn.
    """

    managed: Path = field(default_factory=Path)
    restarts: int = 0
    is_deaf: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    turns: list[tuple[str, str]] = field(default_factory=list)

    def read(self) -> dict[str, str]:
        lines = (self.managed / ".env").read_text().splitlines()
        return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}

    def control(self, *words: str) -> str:
        if words[0] == "start":
            assert self.managed.parent.joinpath("hermes-node/warm.json").exists() or self.has_user
            self.restarts, self.environment = self.restarts + 1, self.read()
        return super().control(*words)

    @property
    def has_user(self) -> bool:
        return self.managed.parent.joinpath("hermes-node/identity.json").exists()

    def answer(self, request: ApiRequest) -> Answer:
        if request.path == "/health":
            return super().answer(request)
        if request.key != self.environment["API_SERVER_KEY"]:
            return Answer(401, {})
        path = request.path
        if path == "/api/sessions" and request.body:
            self.sessions.add(request.body["id"])
        elif path.endswith("/chat") and self.is_deaf:
            return Answer(503, {})
        elif path.endswith("/chat"):
            model = json.loads((self.managed / "config.yaml").read_text())["model"]["default"]
            self.turns.append((self.environment[TOKEN_VARIABLE], model))
            self.environment[TOKEN_VARIABLE] = self.read()[TOKEN_VARIABLE]  # for the next turn
        elif request.step[0] == "DELETE":
            self.sessions.discard(path.rpartition("/")[2])
        return Answer(200, {"status": "ok", "jobs": []})


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(managed=tmp_path / "etc/hermes")


@pytest.fixture
def machine(tmp_path: Path, agent: Agent) -> Machine:
    routes = [{"name": name, "context_tokens": 1} for name in ("claude-haiku", "gpt-4o")]
    layout = bare(tmp_path, routes=routes, user_config={})
    return Machine(layout, system=agent, slots=DiskSlots(layout))


def payload(machine: Machine, settings: Settings | None = None) -> Payload:
    """What the user is given; the registry has the key that the machine made."""
    held = warm.held_placeholder(machine)
    key = held.secrets.api_server_key if held else "k" * 64
    return Payload(Identity("i-1", "u-1", "light", "c1", 1), Secrets(key, TOKEN), URL, settings or Settings())


def claim(machine: Machine, given: Payload) -> Outcome:
    path = machine.layout.root / "run/payload.json"
    path.touch(0o600)
    path.write_bytes(given.to_json())
    return personalise(machine, path, wait_s=1)


def test_a_machine_is_warmed_up_and_stays_nobodys(machine: Machine, agent: Agent) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1, lease=LEASE)
    report = status(machine)
    assert (report["identity"], report["warm"], report["restart_needed"]) == (None, True, False)
    assert (agent.running, len(agent.turns), agent.sessions) == (True, 1, set())
    assert machine.layout.warm.stat().st_mode & 0o777 == 0o600


def test_warming_up_again_keeps_the_key_and_the_process(machine: Machine, agent: Agent) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    first = machine.layout.warm.read_bytes()
    outcome = warm_up(machine, model_base_url=URL, wait_s=1)
    assert (machine.layout.warm.read_bytes(), outcome.changed, agent.restarts) == (first, [], 1)


def test_two_machines_have_nothing_in_common(machine: Machine, agent: Agent) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    first = warm.held_placeholder(machine)
    machine.layout.warm.unlink()
    warm_up(machine, model_base_url=URL, wait_s=1)
    second = warm.held_placeholder(machine)
    assert first
    assert second
    assert first.secrets.api_server_key != second.secrets.api_server_key
    assert first.secrets.model_token != second.secrets.model_token
    assert agent.read()["API_SERVER_KEY"] == second.secrets.api_server_key


def test_a_user_without_messengers_gets_it_without_a_restart_and_with_their_own_token(
    machine: Machine, agent: Agent
) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1, lease=LEASE)
    placeholder = warm.held_placeholder(machine)
    outcome = claim(machine, payload(machine, Settings(model="gpt-4o", personality="Terse.")))
    assert (outcome.gateway, outcome.healthy, agent.restarts) == ("left alone", True, 1)
    assert placeholder
    token = placeholder.secrets.model_token
    assert agent.turns == [(token, "claude-haiku"), (token, "gpt-4o")]  # the last one the placeholder is used in
    agent.ask(8642, "/api/sessions/user/chat", key=placeholder.secrets.api_server_key)
    assert agent.turns[-1] == (TOKEN, "gpt-4o")
    everything = b"".join(file.read_bytes() for file in machine.layout.root.rglob("*") if file.is_file())
    assert token.encode() not in everything
    assert (machine.layout.warm.exists(), agent.sessions) == (False, set())
    assert (status(machine)["warm"], status(machine)["restart_needed"]) == (False, False)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(messengers={"TELEGRAM_BOT_TOKEN": "1:a"}),
        Settings(disabled_tools=("browser",)),
        Settings(mcp_servers={"a": {"url": "http://10.0.0.1:1/"}}),
    ],
)
def test_what_is_read_at_the_start_costs_one_restart(machine: Machine, agent: Agent, settings: Settings) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    outcome = claim(machine, payload(machine, settings))
    assert (outcome.gateway, agent.restarts) == ("restarted", 2)
    assert (agent.environment[TOKEN_VARIABLE], machine.layout.warm.exists()) == (TOKEN, False)


def test_another_key_than_the_machines_costs_one_restart_too(machine: Machine, agent: Agent) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    given = replace(payload(machine), secrets=Secrets("k" * 64, TOKEN))
    assert claim(machine, given).gateway == "restarted"
    assert agent.environment["API_SERVER_KEY"] == "k" * 64


@pytest.mark.parametrize("path", ["/health", "/api/sessions", "/api/sessions/hermes-node-warm/chat"])
def test_a_hand_over_that_is_cut_short_is_seen_and_goes_on(machine: Machine, agent: Agent, path: str) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    given = payload(machine)
    agent.killed_at = path
    with pytest.raises(KilledError):
        claim(machine, given)
    agent.killed_at = ""
    assert status(machine)["restart_needed"] is True
    claim(machine, given)
    assert (agent.restarts, agent.environment[TOKEN_VARIABLE], status(machine)["restart_needed"]) == (1, TOKEN, False)


def test_a_machine_that_was_rebooted_is_handed_over_as_any_other(machine: Machine, agent: Agent) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1)
    agent.running = False
    assert claim(machine, payload(machine)).gateway == "started"
    assert (agent.environment[TOKEN_VARIABLE], machine.layout.warm.exists()) == (TOKEN, False)


def test_a_users_machine_is_not_warmed_up(machine: Machine) -> None:
    claim(machine, payload(machine))
    with pytest.raises(RefusedError, match="belongs to an instance"):
        warm_up(machine, model_base_url=URL, wait_s=1, lease=LEASE)


def test_a_late_warm_up_is_refused_once_the_machine_is_somebodys(machine: Machine) -> None:
    warm_up(machine, model_base_url=URL, wait_s=1, lease=LEASE)
    claim(machine, payload(machine))
    before = machine.layout.managed.joinpath(".env").read_bytes()
    with pytest.raises(RefusedError, match="belongs to an instance"):
        warm_up(machine, model_base_url=URL, wait_s=1, lease=LEASE)
    assert machine.layout.managed.joinpath(".env").read_bytes() == before


def test_nonsense_is_refused_before_anything_is_written(machine: Machine) -> None:
    with pytest.raises(BadRequestError, match="model_base_url: not of the expected form"):
        warm_up(machine, model_base_url="not an address", wait_s=1)
    assert not machine.layout.warm.exists()


def test_an_agent_that_takes_no_turn_is_not_warm(machine: Machine, agent: Agent) -> None:
    agent.is_deaf = True
    with pytest.raises(NotReadyError, match="took no turn: 503"):
        warm_up(machine, model_base_url=URL, wait_s=1)


# A token that is renewed while the agent runs

RENEWED = "hm2.i-1.1.1800000000." + "b" * 40


def renewed(given: Payload, token: str = RENEWED) -> Payload:
    return replace(given, secrets=replace(given.secrets, model_token=token))


def test_a_renewed_token_is_read_by_the_running_agent_without_a_restart(machine: Machine, agent: Agent) -> None:
    given = payload(machine)
    claim(machine, given)
    outcome = claim(machine, renewed(given))
    assert (outcome.gateway, outcome.healthy, agent.restarts) == ("left alone", True, 1)
    assert agent.environment[TOKEN_VARIABLE] == RENEWED
    # The turn that made the agent read it was taken with the one before, and nothing of it stays.
    assert ([token for token, _ in agent.turns], agent.sessions) == ([TOKEN], set())
    assert status(machine)["restart_needed"] is False
    assert claim(machine, renewed(given)).changed == []
    assert len(agent.turns) == 1


@pytest.mark.parametrize("path", ["/health", "/api/sessions", "/api/sessions/hermes-node-warm/chat"])
def test_a_renewal_that_is_cut_short_is_seen_and_goes_on(machine: Machine, agent: Agent, path: str) -> None:
    given = payload(machine)
    claim(machine, given)
    agent.killed_at = path
    with pytest.raises(KilledError):
        claim(machine, renewed(given))
    agent.killed_at = ""
    assert status(machine)["restart_needed"] is True
    claim(machine, renewed(given))
    assert (agent.restarts, agent.environment[TOKEN_VARIABLE], status(machine)["restart_needed"]) == (1, RENEWED, False)


def test_a_renewed_token_beside_another_change_restarts_the_agent(machine: Machine, agent: Agent) -> None:
    given = payload(machine)
    claim(machine, given)
    other = replace(renewed(given), settings=replace(given.settings, model="gpt-4o"))
    assert claim(machine, other).gateway == "restarted"
    assert (agent.restarts, agent.turns, agent.environment[TOKEN_VARIABLE]) == (2, [], RENEWED)


def test_an_agent_that_was_stopped_starts_with_the_renewed_token(machine: Machine, agent: Agent) -> None:
    given = payload(machine)
    claim(machine, given)
    agent.running = False
    assert claim(machine, renewed(given)).gateway == "started"
    assert (agent.turns, agent.environment[TOKEN_VARIABLE]) == ([], RENEWED)
    assert status(machine)["restart_needed"] is False
