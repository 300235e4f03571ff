"""Hooks, the gates of other programs: commands that this computer's settings define, and web services they allow.

A rollout's row only names a hook: writing rows, or starting rollouts, runs no command of one's own on this computer.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, UsageError
from hermesops.model.rollout import GateResult, Rollout
from hermesops.model.rollout_spec import HOOK_FACTS, HookGate
from hermesops.rollout.gates.hook_command import run_hook
from hermesops.rollout.webhooks import ask_service, message

if TYPE_CHECKING:
    import httpx

LONGEST_S = 600.0
"""Seconds that a hook may take whatever its row says."""

_ANSWERS = {0: GateResult.PASS, 1: GateResult.FAIL}
_HTTPS_PORT = 443


@dataclass(frozen=True)
class AllowedHooks:
    """What the settings of this computer say about hooks.

    Attributes:
        commands: Command lines by the hook's name.
        hosts: Of web services: ``host``, or ``host:port`` where that is not 443.
    """

    commands: Mapping[str, str]
    hosts: Collection[str] = ()
    is_local: bool = False

    def words(self, name: str) -> tuple[str, ...]:
        """The command of that name; empty where there is none, or it cannot be split as a shell does."""
        try:
            return tuple(shlex.split(self.commands.get(name, "")))
        except ValueError:
            return ()

    def problem(self, hook: HookGate) -> str:
        """Why a hook cannot be asked here; empty when it can."""
        if hook.url:
            return self.url_problem(hook.url)
        if hook.name not in self.commands:
            return f"hook {hook.name} is not defined on this computer"
        return "" if self.words(hook.name) else f"hook {hook.name} is defined here, but as no command"

    def url_problem(self, url: str) -> str:
        """Why a service must not be asked; names only its host, as the rest may hold a key."""
        parsed = _parsed(url)
        problem = self.cleartext_problem(url)
        if problem or parsed is None or (self.is_local and _is_loopback(parsed.host)):
            return problem
        host, port = parsed.host.lower(), parsed.port or _HTTPS_PORT
        if (host if port == _HTTPS_PORT else f"{host}:{port}") not in self.hosts:
            return f"{host} is not among the hosts of setting rollout.hook_hosts on this computer"
        return ""

    def cleartext_problem(self, url: str) -> str:
        """Why nothing must be sent to a URL: it has no TLS and is not on this computer's loopback in a local world."""
        parsed = _parsed(url)
        if parsed is None or parsed.scheme not in {"http", "https"}:
            return "the URL cannot be read"
        if parsed.scheme == "https" or (self.is_local and _is_loopback(parsed.host)):
            return ""
        return f"{parsed.host} would be asked without TLS"

    def refuse_others(self, hooks: Sequence[HookGate]) -> None:
        """Refuse hooks that cannot be asked on this computer.

        Raises:
            RefusedError: One cannot; the hint names those that can.
        """
        for hook in hooks:
            if problem := self.problem(hook):
                known = ", ".join(sorted(self.hosts if hook.url else self.commands)) or "none"
                what = "hosts that setting rollout.hook_hosts allows" if hook.url else "hooks of [rollout.hooks]"
                raise RefusedError(problem, hint=f"{what}: {known}")


class Hooks:
    """Asks hooks.

    Args:
        search: The ``PATH`` of commands.
    """

    def __init__(self, *, environment: str, allowed: AllowedHooks, search: str) -> None:
        self._environment = environment
        self._allowed = allowed
        self._search = search

    async def ask(self, hook: HookGate, rollout: Rollout) -> tuple[GateResult, str]:
        """Its result and a line of detail; ``inconclusive`` without an answer in time, or if it is not allowed."""
        if problem := self._allowed.problem(hook):
            return GateResult.INCONCLUSIVE, problem
        body, timeout_s = message(rollout, None, environment=self._environment), min(hook.timeout_s, LONGEST_S)
        if hook.url:
            return await ask_service(hook.url, body, timeout_s=timeout_s)
        variables = {"PATH": self._search, **{name: str(body[fact]) for name, fact in HOOK_FACTS.items()}}
        code, output_line = await run_hook(self._allowed.words(hook.name), variables, body, timeout_s=timeout_s)
        if code is None:
            return GateResult.INCONCLUSIVE, output_line
        return _ANSWERS.get(code, GateResult.INCONCLUSIVE), output_line or f"exit code {code}"


def parse_hook(text: str, *, timeout_s: float = 60.0) -> HookGate:
    """A hook as an operator names it: ``NAME``, or ``NAME=https://…``.

    Raises:
        UsageError: It is neither.
    """
    name, equals, url = (part.strip() for part in text.partition("="))
    if not name or (equals and not url.startswith(("https://", "http://"))):
        raise UsageError(
            f"--hook {text!r} reads neither NAME nor NAME=https://…",
            hint="a command stands in settings.toml of the computer that runs it: [rollout.hooks] NAME = 'COMMAND'",
        )
    return HookGate(name, url=url, timeout_s=timeout_s)


def _parsed(url: str) -> "httpx.URL | None":
    """The URL as the client that will ask it reads it; ``None`` where it cannot."""
    import httpx  # noqa: PLC0415 - most rollouts have no hook

    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
