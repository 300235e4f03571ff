"""Tells others of changes of a rollout's state, and asks the gates that others keep.

A receiver that does not answer holds no rollout up: it is warned of, and a gate without an answer is inconclusive.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from hermesops.errors import UsageError
from hermesops.model.rollout import GateResult, Rollout, RolloutEvent
from hermesops.model.rollout_spec import HookGate

KIND, VERSION = "hermesops-rollout", 1
"""Of every message; a field never changes its meaning within a version."""

_NOTIFY_S = 10.0
_TRIES = 2
_DETAIL = 300
_ANSWERS = {0: GateResult.PASS, 1: GateResult.FAIL}
_RESULTS = frozenset({GateResult.PASS, GateResult.FAIL, GateResult.INCONCLUSIVE})


class Warn(Protocol):
    """Takes what went wrong without stopping the work."""

    def __call__(self, event: str, **fields: object) -> None:
        """Log it."""


def message(rollout: Rollout, event: RolloutEvent | None, *, environment: str) -> dict[str, object]:
    """What a receiver is told; nothing of any user. Pure."""
    return {
        "kind": KIND,
        "version": VERSION,
        "environment": environment,
        "rollout": rollout.id,
        "release": rollout.release,
        "action": rollout.action.value,
        "state": rollout.state.value,
        "reason": rollout.reason,
        "who": rollout.who,
        "event": event.id if event else None,
        "what": event.kind if event else None,
        "at": (event.at if event else rollout.updated_at).isoformat(timespec="seconds"),
    }


class WebHook:
    """Posts one message for each change of state.

    Args:
        url: Where to; empty for nowhere. It may hold a secret and is never shown.
        environment: Named in the message.
        warn: Takes what was not delivered.
    """

    def __init__(self, url: str, *, environment: str, warn: Warn) -> None:
        self._url = url
        self._environment = environment
        self._warn = warn

    async def notify(self, rollout: Rollout, event: RolloutEvent) -> None:
        """Send one message; ``event.id`` lets a receiver drop a repeated one."""
        if not self._url:
            return
        problem = ""
        for _ in range(_TRIES):
            status, _answer, problem = await _post(
                self._url, message(rollout, event, environment=self._environment), timeout_s=_NOTIFY_S
            )
            if status and status < 300:  # noqa: PLR2004 - HTTP
                return
            problem = problem or f"it answered {status}"
        self._warn("rollout_message_not_delivered", rollout=rollout.id, state=rollout.state.value, problem=problem)


class Hooks:
    """Asks commands and web services.

    Args:
        environment: Named in what they are told.
        variables: Of the commands.
    """

    def __init__(self, *, environment: str, variables: Mapping[str, str]) -> None:
        self._environment = environment
        self._variables = variables

    async def ask(self, hook: HookGate, rollout: Rollout) -> tuple[GateResult, str]:
        """The answer and a line of detail; ``inconclusive`` when there was none in time."""
        told = message(rollout, None, environment=self._environment)
        return await (self._run(hook, told) if hook.command else _ask_service(hook, told))

    async def _run(self, hook: HookGate, told: Mapping[str, object]) -> tuple[GateResult, str]:
        try:
            process = await asyncio.create_subprocess_exec(
                *hook.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._variables),
            )
        except OSError as error:
            return GateResult.INCONCLUSIVE, f"{hook.command[0]}: {error.strerror}"
        try:
            said, _ = await asyncio.wait_for(process.communicate(json.dumps(told).encode()), hook.timeout_s)
        except TimeoutError:
            return GateResult.INCONCLUSIVE, f"no answer in {hook.timeout_s:g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        code = process.returncode or 0
        return _ANSWERS.get(code, GateResult.INCONCLUSIVE), _last_line(said) or f"exit code {code}"


async def _ask_service(hook: HookGate, told: Mapping[str, object]) -> tuple[GateResult, str]:
    status, answer, problem = await _post(hook.url, told, timeout_s=hook.timeout_s)
    if problem:
        return GateResult.INCONCLUSIVE, problem
    if status != 200 or not isinstance(answer, dict):  # noqa: PLR2004 - HTTP
        return GateResult.INCONCLUSIVE, f"it answered {status}"
    result, detail = str(answer.get("result")), str(answer.get("detail") or "")[:_DETAIL]
    if result not in _RESULTS:
        return GateResult.INCONCLUSIVE, f"it answered {result[:40]!r}, which is no result"
    return GateResult(result), detail


async def _post(url: str, told: Mapping[str, object], *, timeout_s: float) -> tuple[int, Any, str]:
    """Status and body of the answer, or why there is none; the address is repeated nowhere."""
    import httpx  # noqa: PLC0415 - most rollouts ask nobody

    try:
        async with httpx.AsyncClient(timeout=timeout_s) as client:
            answer = await asyncio.wait_for(client.post(url, json=told), timeout_s)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return 0, None, f"no answer: {type(error).__name__}"
    try:
        return answer.status_code, answer.json(), ""
    except ValueError:
        return answer.status_code, None, ""


def parse_hook(text: str, *, timeout_s: float = 60.0) -> HookGate:
    """A hook as an operator names it: ``NAME=COMMAND WORDS`` or ``NAME=https://…``. Pure.

    Raises:
        UsageError: It is none.
    """
    import shlex  # noqa: PLC0415 - as above

    name, equals, what = text.partition("=")
    if not equals or not name.strip() or not what.strip():
        raise UsageError(f"--hook {text!r} does not read NAME=COMMAND or NAME=https://…")
    if what.startswith(("http://", "https://")):
        return HookGate(name.strip(), url=what.strip(), timeout_s=timeout_s)
    try:
        return HookGate(name.strip(), command=tuple(shlex.split(what)), timeout_s=timeout_s)
    except ValueError as error:
        raise UsageError(f"--hook {text!r}: {error}") from None


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:_DETAIL] if lines else ""
