"""Observations of the observer on a machine, as plain data; missing fields are tolerated, as machines differ."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testinfra.host import Host

from hermesops.machines.verify.checks.promise import output_of
from hermesops.machines.verify.on_machine import OBSERVER, PYTHON
from hermesops.wire import strict_json

_LARGEST = 1 << 20
"""Bytes of an answer."""

_FORGETFUL = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True)
class Observations:
    """Observations of the agent on a machine.

    Attributes:
        unit: systemd's properties of the gateway.
        identity: The instance that the machine reports; ``None`` for none.
        handed: Whether the instance's data on the machine are readable.
        alive_status: HTTP status of ``/health``; 0 without an answer, and then ``alive_reason`` says why.
        key_digest: SHA-256 of the API key in the managed environment.
        detailed_status: HTTP status of ``/health/detailed`` with that key.
        verdict: The agent's own report of its health.
        gateway_state: ``running`` or ``draining``.
        failing: Readiness checks that are not ok.
        key_variable: The variable from which the configuration takes the router's token.
        router_status: HTTP status of the model router with that token; 0 without an answer.
        home: Where the running gateway keeps its state; ``promised_home`` is where it should.
        filesystem: Of ``home``, as the gateway sees it; empty when it does not run.
        skills: How many are there; -1 without the folder.
        user_settings: Bytes of the user's own ``config.yaml``; -1 without that file.
        has_own_provider: Whether the agent asks its user's own model provider, in the place of the router.
        chat: The result of one turn; empty when none was tried.
    """

    unit: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, Any] | None = None
    handed: bool = False
    release: Mapping[str, Any] = field(default_factory=dict)
    alive_status: int = 0
    alive_reason: str = ""
    version: str = ""
    key_digest: str = ""
    detailed_status: int = 0
    verdict: str = ""
    gateway_state: str = ""
    failing: tuple[str, ...] = ()
    model: str = ""
    key_variable: str = ""
    has_model_key: bool = False
    has_own_provider: bool = False
    router_status: int = 0
    router_reason: str = ""
    offered: tuple[str, ...] = ()
    promised_home: str = ""
    home: str = ""
    filesystem: str = ""
    skills: int = -1
    bundled_skills: int = -1
    user_settings: int = -1
    chat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def home_kept(self) -> bool:
        """Whether the agent's home is on a disk, so that it survives a restart."""
        return self.home == self.promised_home and self.filesystem not in _FORGETFUL

    @classmethod
    def parse(cls, answer: Mapping[str, Any], chat: Mapping[str, Any] | None = None) -> "Observations":
        """Read the observer's answers; ``chat`` is the answer to its second question, where it was asked."""
        alive, detailed = answer.get("alive") or {}, answer.get("detailed") or {}
        model, home = answer.get("model") or {}, answer.get("home") or {}
        return cls(
            unit=answer.get("unit") or {},
            identity=answer.get("identity"),
            handed=bool(answer.get("handed")),
            release=answer.get("release") or {},
            alive_status=int(alive.get("status") or 0),
            alive_reason=str(alive.get("reason") or ""),
            version=str(alive.get("version") or ""),
            key_digest=str(answer.get("key_digest") or ""),
            detailed_status=int(detailed.get("status") or 0),
            verdict=str(detailed.get("verdict") or ""),
            gateway_state=str(detailed.get("state") or ""),
            failing=tuple(detailed.get("failing") or ()),
            model=str(model.get("name") or ""),
            key_variable=str(model.get("key_variable") or ""),
            has_model_key=bool(model.get("has_key")),
            has_own_provider=model.get("own") is True,
            router_status=int(model.get("router_status") or 0),
            router_reason=str(model.get("reason") or ""),
            offered=tuple(model.get("offered") or ()),
            promised_home=str(home.get("promised") or ""),
            home=str(home.get("used") or home.get("promised") or ""),
            filesystem=str(home.get("filesystem") or ""),
            skills=int(home.get("skills", -1)),
            bundled_skills=int(home.get("bundled", -1)),
            user_settings=int(home.get("settings", -1)),
            chat=chat or {},
        )


def observer_command(words: str = "observe") -> str:
    """The command that runs the observer: ``observe``, or ``chat SESSION``."""
    return shlex.join([*PYTHON, OBSERVER, *words.split()])


def observed(host: Host, words: str = "observe") -> Observations:
    """Run the observer on a machine and parse its output."""
    return observations_in(output_of(host, observer_command(words)), is_chat=words.startswith("chat"))


def observations_in(text: str, *, is_chat: bool = False) -> Observations:
    """Parse the output of a machine's observer.

    Raises:
        ValueError: It printed something else.
    """
    try:
        answer = strict_json.parse_object(text, largest=_LARGEST)
        return Observations.parse({}, answer) if is_chat else Observations.parse(answer)
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"the observer's output cannot be parsed ({type(error).__name__})") from error
