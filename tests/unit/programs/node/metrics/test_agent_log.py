"""What is counted in an agent's logs, across runs, rotations, boots, and whatever the agent puts in their place."""

import os
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.instance import volume
from hermesops.programs.node.metrics import agent_log
from hermesops.programs.node.state import backup
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.settings import Settings
from tests.support.fakes.machines.node_home import NodeHome, make

_AT = "2027-01-15 09:00:00,123"
_FAILED = (
    "WARNING [s-1] agent.conversation_loop: API call failed (attempt 1/3) error_type={} thread=worker:140 "
    "provider=custom:helium base_url=http://10.0.0.1/v1 model=claude-haiku summary={}"
)
_ENDED = (
    "INFO [s-1] agent.turn_finalizer: Turn ended: reason={} model=claude-haiku api_calls=1/90 budget=1/90 "
    "tool_turns=0 last_msg_role=assistant response_len=4 session=s-1"
)


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.identity.write_text("{}")
    return machine


class Counting:
    """Runs of the part, one after the other, as timers have them."""

    def __init__(self, machine: NodeHome) -> None:
        self.machine = machine
        self.kept: dict[str, Any] = {}

    def run(self) -> dict[str, float]:
        """The series that are not 0."""
        turns = {}
        for sample in agent_log.read(self.machine.node, self.kept):
            name = ",".join((sample.name.removeprefix("hermes_").removesuffix("_total"), *sample.labels.values()))
            turns[name] = sample.value
        assert len(turns) in {10, 17}
        return {name: value for name, value in turns.items() if value}


def write(machine: NodeHome, *lines: str, log: str = "agent.log", at: str = _AT) -> None:
    with (machine.home / "logs" / log).open("a") as file:
        file.writelines(f"{at} {line}\n" for line in lines)


@pytest.fixture
def counting(machine: NodeHome) -> Counting:
    counting = Counting(machine)
    assert counting.run() == {}
    return counting


def test_errors_and_failed_calls_by_status(counting: Counting) -> None:
    write(
        counting.machine,
        "ERROR gateway.run: something",
        "CRITICAL [s] gateway.run: worse",
        "WARNING gateway.run: ERROR",
        _FAILED.format("AuthenticationError", "HTTP 401: Invalid token"),
        _FAILED.format("RateLimitError", "HTTP 429: slow down"),
        _FAILED.format("RateLimitError", "Error code: 429 - {'error': 1}"),
        _FAILED.format("InternalServerError", "HTTP 503 — Bad gateway"),
        _FAILED.format("PermissionDeniedError", "HTTP 403: no"),
        _FAILED.format("InternalServerError", "no body"),
        _FAILED.format("APIConnectionError", "Connection error."),
        log="errors.log",
    )
    assert counting.run() == {
        "gateway_errors": 2,
        "model_errors,401": 1,
        "model_errors,429": 2,
        "model_errors,5xx": 2,
        "model_errors,other": 2,
    }


def test_a_malformed_database_of_the_agents_own(counting: Counting) -> None:
    malformed = "database disk image is malformed"
    write(
        counting.machine,
        f"WARNING [s-1] run_agent: Session DB append_message failed: {malformed}",
        f"ERROR hermes_state: state.db schema is malformed ({malformed}) — attempting automatic repair",
        "WARNING gateway.run: SQLite session store not available: file is not a database",
        f"INFO hermes_state: state.db was repaired after: {malformed}",
        f"WARNING [s-1] agent.tool_executor: Tool terminal returned error (0.1s): sqlite: {malformed}",
        "WARNING [s-1] run_agent: Session DB append_message failed: database is locked",
        log="errors.log",
    )
    assert counting.run() == {"gateway_errors": 1, "database_malformed": 3}


def test_damage_counts_from_0_after_a_restore(counting: Counting) -> None:
    damage = "WARNING [s-1] run_agent: Session DB append_message failed: database disk image is malformed"
    write(counting.machine, damage, damage, log="errors.log")
    assert counting.run() == {"database_malformed": 2}
    counting.machine.layout.state_replaced.parent.mkdir(exist_ok=True)
    backup.note_replaced(counting.machine.node)
    counting.machine.system.running = False
    assert counting.run() == {"database_malformed": 2}, "its gateway is still down"
    counting.machine.system.running = True
    assert counting.run() == {}
    write(counting.machine, damage, log="errors.log")
    assert counting.run() == {"database_malformed": 1}, "the copy is damaged, too"
    assert counting.run() == {"database_malformed": 1}, "one restore counts once"


def test_turns_and_tokens(counting: Counting) -> None:
    write(
        counting.machine,
        "INFO agent.conversation_loop: API call #1: model=m provider=custom:x in=1200 out=30 total=1230 latency=0.5s",
        "INFO agent.conversation_loop: API call #2: model=m provider=p in=100 out=7 total=107 latency=0.5s cache=1/2",
        _ENDED.format("text_response(finish_reason=stop)"),
        _ENDED.format("max_iterations_reached(90/90)"),
        _ENDED.format("empty_response_exhausted"),
        _ENDED.format("local_processing_error(bad thing)"),
        _ENDED.format("interrupted_by_user"),
        "WARNING agent.turn_finalizer: Turn ended with pending tool result (agent may appear stuck). Turn ended: "
        "reason=guardrail_halt model=m api_calls=1/90",
        "ERROR agent.conversation_loop: [sub-1] API call failed after 3 retries. HTTP 500: x | provider=p",
        "ERROR [s-1] agent.conversation_loop: Non-retryable client error: Error code: 401",
        "INFO agent.conversation_loop: Non-retryable client error: told about",
    )
    assert counting.run() == {
        "tokens_spent,input": 1300,
        "tokens_spent,output": 37,
        "turns,answered": 3,
        "turns,failed": 4,
    }


def test_a_message_that_looks_like_a_line_of_the_log_counts_only_where_it_is_one(counting: Counting) -> None:
    output = f"INFO gateway.run: inbound message: {_ENDED.format('text_response(finish_reason=stop)')}"
    write(counting.machine, output, "INFO x: API call failed after 3 retries", "INFO x: y API call #1: model=m")
    assert counting.run() == {}


def test_each_line_counts_once(counting: Counting) -> None:
    write(counting.machine, "ERROR a: b", log="errors.log")
    assert counting.run() == {"gateway_errors": 1}
    assert counting.run() == {"gateway_errors": 1}
    write(counting.machine, "ERROR a: b", log="errors.log")
    assert counting.run() == {"gateway_errors": 2}


def test_half_a_line_waits_for_its_other_half(counting: Counting) -> None:
    log = counting.machine.home / "logs/errors.log"
    log.write_text(f"{_AT} ERR")
    assert counting.run() == {}
    with log.open("a") as file:
        file.write("OR a: b\n")
    assert counting.run() == {"gateway_errors": 1}


def test_what_was_logged_before_the_first_run_is_of_no_known_time(machine: NodeHome) -> None:
    write(machine, "ERROR a: b", log="errors.log")
    counting = Counting(machine)
    assert counting.run() == {}
    write(machine, "ERROR a: b", log="errors.log")
    assert counting.run() == {"gateway_errors": 1}


def test_a_rotation_loses_no_line(counting: Counting) -> None:
    logs = counting.machine.home / "logs"
    write(counting.machine, "ERROR a: 1", log="errors.log")
    assert counting.run() == {"gateway_errors": 1}
    write(counting.machine, "ERROR a: 2", "ERROR a: 3", log="errors.log")
    (logs / "errors.log").rename(logs / "errors.log.1")
    write(counting.machine, "ERROR a: 4", log="errors.log")
    assert counting.run() == {"gateway_errors": 4}
    (logs / "errors.log").rename(logs / "errors.log.1")
    assert counting.run() == {"gateway_errors": 4}
    write(counting.machine, "ERROR a: 5", log="errors.log")
    assert counting.run() == {"gateway_errors": 5}


def test_a_log_that_was_cut_is_read_from_its_beginning(counting: Counting) -> None:
    write(counting.machine, "ERROR a: long enough", "ERROR a: b", log="errors.log")
    assert counting.run() == {"gateway_errors": 2}
    (counting.machine.home / "logs/errors.log").write_text(f"{_AT} ERROR a: b\n")
    assert counting.run() == {"gateway_errors": 3}


@pytest.mark.parametrize("seen_without", [False, True], ids=["at once", "with a run in between"])
def test_a_log_that_comes_out_of_a_backup_is_not_counted_again(counting: Counting, *, seen_without: bool) -> None:
    log = counting.machine.home / "logs/errors.log"
    before, after = (_AT.replace("09:00", f"09:{minute}") for minute in ("05", "10"))
    write(counting.machine, "ERROR a: 1", "ERROR a: 2", log="errors.log")
    copied = log.read_text()
    write(counting.machine, "ERROR a: 3", log="errors.log", at=before)
    assert counting.run() == {"gateway_errors": 3}
    log.rename(log.with_name("former"))
    if seen_without:
        assert counting.run() == {"gateway_errors": 3}
    log.write_text(copied)
    assert counting.run() == {"gateway_errors": 3}
    write(counting.machine, "ERROR a: 4", log="errors.log", at=after)
    assert counting.run() == {"gateway_errors": 4}
    # A clock that is set back makes no line of the same file an old one.
    write(counting.machine, "ERROR a: 5", log="errors.log")
    assert counting.run() == {"gateway_errors": 5}


def test_of_a_flood_only_the_end_is_read(counting: Counting) -> None:
    line = f"{_AT} ERROR a: {'x' * 80}\n"
    (counting.machine.home / "logs/errors.log").write_text(line * 30_000)
    counted = counting.run()["gateway_errors"]
    assert counted == (1 << 20) // len(line)
    assert counting.run()["gateway_errors"] == counted


def test_a_line_without_an_end_is_passed_over(counting: Counting) -> None:
    log = counting.machine.home / "logs/errors.log"
    log.write_bytes(b"x" * (3 << 20))
    assert counting.run() == {}
    with log.open("a") as file:
        file.write(f"\n{_AT} ERROR a: b\n")
    assert counting.run() == {"gateway_errors": 1}


def test_numbers_beyond_what_a_call_can_take_are_no_numbers(counting: Counting) -> None:
    write(counting.machine, f"INFO a: API call #1: model=m provider=p in={'9' * 30} out=1 total=2")
    assert counting.run() == {}


@pytest.mark.parametrize("trap", ["link", "linked folder", "pipe", "folder", "garbage"])
def test_what_an_agent_puts_in_a_logs_place_is_not_followed(machine: NodeHome, trap: str, tmp_path: Path) -> None:
    counting = Counting(machine)
    counting.run()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "errors.log").write_text(f"{_AT} ERROR a: b\n")
    logs = machine.home / "logs"
    match trap:
        case "link":
            (logs / "errors.log").symlink_to(elsewhere / "errors.log")
        case "linked folder":
            logs.rmdir()
            logs.symlink_to(elsewhere)
        case "pipe":
            os.mkfifo(logs / "errors.log")
        case "folder":
            (logs / "errors.log").mkdir()
        case _:
            (logs / "errors.log").write_bytes(os.urandom(1 << 16) + b"\n")
    assert counting.run() == {}


def test_before_the_users_data_are_there_nothing_is_known(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(machine)
    monkeypatch.setattr(volume, "is_closed", lambda _: True)
    assert list(agent_log.read(machine.node, counting.kept)) == []
    monkeypatch.setattr(volume, "is_closed", lambda _: False)
    write(machine, "ERROR a: of the boot before", log="errors.log")
    assert counting.run() == {}


def test_a_later_agents_lines_count_alike(counting: Counting) -> None:
    later = _FAILED.replace("(attempt 1/3)", "(attempt 1/3, not retryable)")
    write(counting.machine, later.format("AuthenticationError", "HTTP 401: no"), log="errors.log")
    write(
        counting.machine,
        "INFO [s-1] agent.conversation_loop: API call #1: model=m provider=custom in=10 out=5 total=15 latency=0.4s "
        "id=x",
        "INFO [s-1] agent.conversation_loop: API call #1: model=m provider=custom in=? out=? total=? latency=0.1s "
        "usage=unavailable",
        _ENDED.format("text_response(finish_reason=stop)") + " origin=api",
        "ERROR [s-1] agent.conversation_loop: Non-retryable client error: Error code: 401 - {'error': 1}",
        _ENDED.format("session_persistence_failed"),
        _ENDED.format("context_compression_exhausted"),
        _ENDED.format("interrupted_by_system"),
    )
    assert counting.run() == {
        "model_errors,401": 1,
        "tokens_spent,input": 10,
        "tokens_spent,output": 5,
        "turns,answered": 1,
        "turns,failed": 3,
    }


def test_failures_and_tokens_at_a_users_own_provider_are_none_of_the_platforms(tmp_path: Path) -> None:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.identity.write_text("{}")
    endpoint = ModelEndpoint("openai", "https://api.openai.com/v1", "codex_responses", "gpt-5.2", "sk-proj-0123456789")
    routed, own = (machine.personalised(settings=Settings(endpoint=each)).read_bytes() for each in (None, endpoint))
    counting = Counting(machine)
    assert counting.run() == {}

    def used() -> dict[str, float]:
        write(machine, _FAILED.format("AuthenticationError", "HTTP 401: Invalid key"), log="errors.log")
        write(machine, "ERROR agent.conversation_loop: Non-retryable client error: 401", _ENDED.format("text_response"))
        write(machine, "INFO agent: API call #1: model=m provider=custom in=70 out=7 total=77")
        return counting.run()

    machine.layout.payload.write_bytes(own)
    at_own = used()
    assert {name: value for name, value in at_own.items() if not name.startswith("gateway")} == {
        "turns,answered": 1,
        "turns,failed_own": 1,
        "own_model_errors,401": 1,
        "own_tokens_spent,input": 70,
        "own_tokens_spent,output": 7,
    }
    # Back at the platform's models: nothing of before is counted as theirs.
    machine.layout.payload.write_bytes(routed)
    back = used()
    assert (back["model_errors,401"], back["own_model_errors,401"]) == (1, 1)
    assert (back["turns,failed"], back["turns,failed_own"], back["tokens_spent,input"]) == (1, 1, 70)
