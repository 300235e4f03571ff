"""The table of the agent's capabilities: complete, kept by tests, and what relies on it copes with every line."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from hermesops.agents.relay.routes import ROUTES
from hermesops.machines.capabilities.facts import FACTS, LATER_OPERATIONS, OPERATIONS, Fact
from hermesops.machines.capabilities.lines import LINES, capabilities_of
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.drain import runs_in
from hermesops.wire.protocol import says_ok

ROOT = Path(__file__).parents[4]

EXAMPLES = {
    "hermesops/cli/commands/rollout/group.py": "examples of help",
    "hermesops/machines/capabilities/upstream.py": "the version of a tag",
    "hermesops/machines/image/definition.py": "an example of a docstring",
    "hermesops/machines/release/index.py": "an example of a hint",
    "roles/hermes_platform_llm_router/files/requirements.txt": "the version of another package",
}
"""Files that name 0.19.0 and rely on nothing of it."""

ROUTES_OF_0_19 = {
    *("GET /health", "GET /v1/health", "GET /health/detailed", "GET /v1/models", "GET /v1/capabilities"),
    *("POST /v1/chat/completions", "POST /v1/responses", "GET /v1/responses/*", "DELETE /v1/responses/*"),
    *("POST /v1/runs", "GET /v1/runs/*", "GET /v1/runs/*/events", "POST /v1/runs/*/approval", "POST /v1/runs/*/stop"),
    *("GET /api/sessions", "POST /api/sessions", "GET /api/sessions/*", "PATCH /api/sessions/*"),
    *("DELETE /api/sessions/*", "GET /api/sessions/*/messages", "POST /api/sessions/*/fork"),
    *("POST /api/sessions/*/chat", "POST /api/sessions/*/chat/stream"),
    *("GET /api/jobs", "POST /api/jobs", "DELETE /api/jobs/*", "POST /api/jobs/*/pause", "POST /api/jobs/*/resume"),
}
LATER_ROUTES = {"POST /v1/runs/*/steer"}


def citing() -> set[str]:
    """The files that cite 0.19.0."""
    words = ("git", "grep", "-lF", "0.19.0", "--", "hermesops", "roles")
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_every_file_that_cites_a_releases_sources_has_a_fact() -> None:
    used = {file for fact in FACTS for file in fact.used_by}
    own = {"hermesops/machines/capabilities/facts.py", "hermesops/wire/state/agent_files.py"}
    assert citing() - set(EXAMPLES) - own - used == set()
    assert set(EXAMPLES) - citing() == set(), "an example that is gone"


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_each_fact_has_a_source_a_user_and_a_test_that_are_there(fact: Fact) -> None:
    assert re.match(r"(RUN|READ|ISSUE|DOC|LATER)\b", fact.source)
    assert [file for file in fact.used_by if not (ROOT / file).is_file()] == []
    file, _, name = fact.test.partition("::")
    assert f"def {name or 'test_'}" in (ROOT / file).read_text()
    assert set(fact.values) <= set(LINES)
    assert list(fact.values) == sorted(fact.values)


def test_names_are_there_once_and_every_line_knows_every_fact() -> None:
    assert len({fact.name for fact in FACTS}) == len(FACTS)
    for line in LINES:
        assert len(capabilities_of(f"{line}.0").facts()) == len(FACTS)
        assert _value("config: schema", line) == str(LINES[line].config_schema)


def test_the_relay_passes_only_routes_of_known_releases() -> None:
    assert {route.title for route in ROUTES} == ROUTES_OF_0_19 | LATER_ROUTES
    for route in LATER_ROUTES:
        assert route in _value("api: routes", "0.21")
        assert route not in _value("api: routes", "0.20")


def _value(name: str, line: str) -> str:
    return next(fact for fact in FACTS if fact.name == name).value(line)


def test_operations_of_the_relay_only_grow() -> None:
    before: set[str] = set()
    for line in LINES:
        operations = set(filter(None, _value("relay: operations", line).split(", ")))
        assert before <= operations
        before = operations
    assert before == {*OPERATIONS, *LATER_OPERATIONS}


def test_a_stop_has_the_time_that_every_release_takes() -> None:
    role = ROOT / "roles/hermes_gateway"
    drain = yaml.safe_load((role / "defaults/main.yml").read_text())["hermes_gateway_drain_seconds"]
    text = (role / "templates/hermes-gateway.service.j2").read_text()
    more = re.search(r"TimeoutStopSec=\{\{ hermes_gateway_drain_seconds \+ (\d+) \}\}", text)
    assert more is not None
    assert drain + int(more[1]) >= max(60, drain) + 30


_CHECKS = {"state_db": {"status": "ok"}, "config": {"status": "ok"}, "background_queues": {"active_api_runs": 2}}


@pytest.mark.parametrize(
    "checks", [_CHECKS, {**_CHECKS, "session_store": {"status": "ok"}}], ids=["0.19", "later, with a session store"]
)
def test_detailed_health_is_read_alike_in_the_shape_of_each_release(checks: dict[str, object]) -> None:
    body = {"status": "ok", "readiness": {"checks": checks}, "gateway_state": "running", "active_agents": 1}
    assert says_ok(body)
    assert runs_in(Answer(200, body)) == 2
    assert not says_ok({**body, "status": "degraded"})
