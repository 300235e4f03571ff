"""The part of the metrics that counts in the agent's logs: errors, damaged databases, turns, model errors, tokens.

The logs are under the agent's control: each run reads on from the end of the last one, a limited piece, and uses only
numbers and a set of fixed words of a line.

Source: ``hermes_logging.py`` (format, rotation), ``agent/conversation_loop.py``, ``agent/turn_finalizer.py``,
``hermes_state.py`` and ``run_agent.py`` (lines) of hermes-agent 0.19.0, which logs no call of an auxiliary model, such
as for a title. Later agents' lines are those of ``machines.capabilities.facts``.
"""

import re
from collections.abc import Iterator
from typing import Any

from hermesops.programs.node.instance import volume
from hermesops.programs.node.instance.agent import gateway, installation
from hermesops.programs.node.instance.status import BAD, ERROR_LOG
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics.exposition import Sample
from hermesops.programs.node.metrics.memory import number
from hermesops.wire.errors import BadRequestError
from hermesops.wire.protocol import Payload

STATUSES = ("401", "429", "5xx", "other")
"""What a failed call of the model is counted under."""

_OWN = "own "
"""Begin of counters for the time in which the user's own model provider answers."""

_TROUBLE = frozenset({*BAD, b"WARNING"})
_PIECE_BYTES = 1 << 20
_LONGEST_LINE = 4096

_LINE = re.compile(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]{4,8})(?: \[[^\]]{0,200}\])? [\w.-]{1,100}: "
    rb"(?:\[[^\]]{0,80}\] )?(?P<text>.*)",
    re.DOTALL,
)
_TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")
_CALL_FAILED = re.compile(
    rb"API call failed \(attempt \d{1,4}/\d{1,4}(?:, not retryable)?\) error_type=(\w{1,80}) .{0,1000}?"
    rb" summary=(?:HTTP |Error code: )?(\d{3})?"
)
_CALL = re.compile(rb"API call #\d{1,9}: model=\S{0,200} provider=\S{0,200} in=(\d{1,9}) out=(\d{1,9}) ")
_TURN = re.compile(
    rb"(?:Turn ended with pending tool result \(agent may appear stuck\)\. )?Turn ended: reason=(\w{1,80})"
)
_TURN_FAILED = re.compile(
    rb"Invalid API response after \d|Non-retryable client error:|API call failed after \d|Context overflow \("
    rb"|413 |Context compression failed after|Context length exceeded:"
)
"""Errors that end a turn with no line about its end."""

_MALFORMED = re.compile(
    rb"(?i:state\.db|session ?db|sqlite|failed to initialize sessiondb|kanban|cron)\b[^\n]{0,400}?"
    rb"(?:database disk image is malformed|malformed database schema|file is not a database)"
)
"""By its beginning: the output of a tool may say the same of another database, in a line that begins otherwise."""

_FAILED = frozenset(
    {b"all_retries_exhausted_no_response", b"empty_response_exhausted", b"error_near_max_iterations"}
    | {b"local_processing_error", b"ollama_runtime_context_too_small", b"unknown"}
    # Of later agents; see machines.capabilities.facts.
    | {b"compaction_handoff_not_actionable", b"context_compression_exhausted", b"context_compression_timeout"}
    | {b"pending_tool_result", b"rebuilt_restart_limit_exceeded", b"redirect_restart_limit_exceeded"}
    | {b"repeated_outer_errors", b"session_persistence_failed"}
)
_INTERRUPTED = frozenset(
    {b"interrupted_by_user", b"interrupted_during_api_call"}
    | {b"interrupted_by_system", b"interpreter_shutdown", b"review_input_budget_exhausted"}
)
"""Ends of turns that are neither an answer nor a failure."""

_STATUS_OF = {b"AuthenticationError": "401", b"RateLimitError": "429", b"InternalServerError": "5xx"}
"""By the exception's name, where a line tells no status."""


def read(machine: Machine, counters: dict[str, Any]) -> Iterator[Sample]:
    """Read the logs on and count. Counts nothing until the user's data are mounted, which takes a moment at a boot."""
    if machine.files.read(machine.layout.identity) is None or volume.is_closed(machine):
        return
    base = installation.load_base(machine.files, machine.layout.base)
    _begin_after_restore(machine, base.unit, counters)
    own = _OWN if _has_own_provider(machine) else ""
    with machine.files.opened_folder(machine.layout.home(base.home)) as home:
        for line in _new_lines(machine, home, ERROR_LOG, counters):
            _count_error(line, counters, own)
        for line in _new_lines(machine, home, gateway.AGENT_LOG, counters):
            _count_turn(line, counters, own)
    yield Sample("hermes_gateway_errors_total", number(counters, "errors"))
    yield Sample("hermes_database_malformed_total", number(counters, "malformed"))
    for outcome in ("answered", "failed"):
        yield Sample("hermes_turns_total", number(counters, outcome), {"outcome": outcome})
    for status in STATUSES:
        yield Sample("hermes_model_errors_total", number(counters, status), {"status": status})
    for kind in ("input", "output"):
        yield Sample("hermes_tokens_spent_total", number(counters, kind), {"kind": kind})
    if own or any(name.startswith(_OWN) for name in counters):
        yield from _of_own_provider(counters)


def _of_own_provider(counters: dict[str, Any]) -> Iterator[Sample]:
    """Failures and tokens at the user's own provider: none of the platform's alerts, objectives and costs."""
    yield Sample("hermes_turns_total", number(counters, f"{_OWN}failed"), {"outcome": "failed_own"})
    for status in STATUSES:
        yield Sample("hermes_own_model_errors_total", number(counters, _OWN + status), {"status": status})
    for kind in ("input", "output"):
        yield Sample("hermes_own_tokens_spent_total", number(counters, _OWN + kind), {"kind": kind})


def _has_own_provider(machine: Machine) -> bool:
    data = machine.files.read(machine.layout.payload)
    try:
        return data is not None and Payload.from_json(data).settings.endpoint is not None
    except BadRequestError:
        return False


def _begin_after_restore(machine: Machine, unit: str, counters: dict[str, Any]) -> None:
    """Count damaged databases from 0 once a gateway runs on a copy: the lines so far are of other databases."""
    replaced = (machine.files.read(machine.layout.state_replaced) or b"").decode(errors="replace")
    if replaced != counters.get("state replaced", "") and gateway.observe(machine.system, unit).is_running:
        counters["state replaced"], counters["malformed"] = replaced, 0


def _new_lines(machine: Machine, home: int, name: str, counters: dict[str, Any]) -> Iterator[bytes]:
    """The lines added to a log since the last run; none at the first run, which only notes the log's end."""
    is_first = f"{name} inode" not in counters
    inode, offset = number(counters, f"{name} inode"), number(counters, f"{name} offset")
    piece = machine.files.read_on(home, name, inode=inode, offset=offset, limit=_PIECE_BYTES)
    if piece is None:
        counters[f"{name} inode"] = counters[f"{name} offset"] = 0  # one that comes is new from its first line on
        return
    counters[f"{name} inode"], counters[f"{name} offset"] = piece.inode, piece.end
    # Another file may come out of a backup: what it has from before was counted then. Without a time nothing counts.
    is_read_on = piece.inode == inode and piece.end - len(piece.data) >= offset
    since = "" if is_read_on else str(counters.get(f"{name} newest", ""))
    fresh = [line for line in piece.data.splitlines() if _begins_at(line) >= since]
    counters[f"{name} newest"] = next(
        filter(None, map(_begins_at, reversed(fresh))), counters.get(f"{name} newest", "")
    )
    if is_first:
        return
    if inode not in {0, piece.inode}:  # it was renamed, and has lines that were not read
        older = machine.files.read_on(home, f"{name}.1", inode=inode, offset=offset, limit=_PIECE_BYTES)
        if older is not None and older.inode == inode:
            yield from older.data.splitlines()
    yield from fresh


def _begins_at(line: bytes) -> str:
    match = _TIME.match(line)
    return match[0].decode() if match else ""


def _count_error(line: bytes, counters: dict[str, Any], own: str) -> None:
    match = _LINE.match(line[:_LONGEST_LINE])
    if match is None:
        return
    if match["level"] in BAD:
        _add(counters, "errors")
    if match["level"] in _TROUBLE and _MALFORMED.match(match["text"]):
        _add(counters, "malformed")
    if failed := _CALL_FAILED.match(match["text"]):
        _add(counters, own + _status_of(failed[1], failed[2]))


def _status_of(error: bytes, code: bytes | None) -> str:
    if code is None:
        return _STATUS_OF.get(error, "other")
    text = code.decode()
    if text in STATUSES:
        return text
    return "5xx" if text.startswith("5") else "other"


def _count_turn(line: bytes, counters: dict[str, Any], own: str) -> None:
    match = _LINE.match(line[:_LONGEST_LINE])
    if match is None:
        return
    text = match["text"]
    if call := _CALL.match(text):
        _add(counters, f"{own}input", int(call[1]))
        _add(counters, f"{own}output", int(call[2]))
    elif turn := _TURN.match(text):
        if turn[1] not in _INTERRUPTED:
            _add(counters, f"{own}failed" if turn[1] in _FAILED else "answered")
    elif match["level"] in BAD and _TURN_FAILED.match(text):
        _add(counters, f"{own}failed")


def _add(counters: dict[str, Any], name: str, count: int = 1) -> None:
    counters[name] = number(counters, name) + count
