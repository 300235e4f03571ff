"""The lines of the agent (0.19, 0.20 …) that hermesops knows, and the settings that each needs. Pure.

An agent of another line is refused by name: nobody has compared its frames, routes, files and log lines with those that
hermesops relies on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from hermesops.errors import Hint, RefusedError
from hermesops.machines.capabilities.facts import FACTS, Fact
from hermesops.wire.documents.lock import SIMULATED, Lock, Managed

_SCRATCH = "/tmp"  # noqa: S108 - the gateway's private one, which its unit gives it
_ADAPTERS = {"plugins": {"disabled": ["a2a-platform", "buzz-platform"]}}
_OF_ADAPTERS = Managed(_ADAPTERS)
_OF_SCRATCH = Managed(_ADAPTERS, {"TERMINAL_TEMP_DIR": _SCRATCH})


@dataclass(frozen=True)
class Line:
    """Releases of the agent that agree in everything that hermesops relies on.

    Attributes:
        name: Major and minor version, as ``0.21``.
        python: The Pythons that it installs on, as packages name them.
        config_schema: The newest ``_config_version`` that a release of it is known to write.
        evidence: The grounds of its facts.
        managed: Settings that its agents need, below those of an operator.
    """

    name: str
    python: str
    config_schema: int
    evidence: str
    managed: Managed = field(default_factory=Managed)


_RUN = "installed from the package index and run on booted machines by the tests"
_REPORTED = "upstream's issues, documents and packagers; not run"
_LATER = "upstream's issues and documents; a third party's build of a later tree (0.22.2.post1) was run by hand"

LINES: Mapping[str, Line] = {
    line.name: line
    for line in (
        Line("0.18", ">=3.11,<3.14", 33, _RUN),
        Line("0.19", ">=3.11,<3.14", 33, _RUN),
        Line("0.20", ">=3.11,<3.14", 37, _REPORTED, _OF_ADAPTERS),
        Line("0.21", ">=3.11", 45, _LATER, _OF_SCRATCH),
        Line("0.22", ">=3.11", 50, _LATER, _OF_SCRATCH),
    )
}
"""Every known line, oldest first. Python 3.14 alone is what upstream's main branch wants since 0.21.3."""

CAUTIONS: Mapping[str, str] = {
    "0.20.0": "its gateway was reported to grow to 60 GB (hermes-agent issue 81625): take 0.20.1 or a newer one",
}
"""Releases with a known fault, each with the reason as the end of a sentence."""


@dataclass(frozen=True)
class Capabilities:
    """The facts of one version of the agent.

    Attributes:
        version: As its package names it.
        caution: A known fault of exactly this version; empty for none.
    """

    version: str
    line: Line
    caution: str

    @property
    def managed(self) -> Managed:
        """Settings that the agent needs; an operator's are laid over them."""
        return self.line.managed

    def facts(self) -> tuple[tuple[Fact, str], ...]:
        """Every fact with its value for this version; an empty value is an absence."""
        return tuple((fact, fact.value(self.line.name)) for fact in FACTS)


def line_of(version: str) -> str:
    """Major and minor of a version, as ``0.21``.

    Raises:
        ValueError: It is no version.
    """
    try:
        parsed = Version(version)
    except InvalidVersion as error:
        raise ValueError(str(error)) from error
    return f"{parsed.major}.{parsed.minor}"


def capabilities_of(version: str) -> Capabilities:
    """The capabilities of an agent's version.

    Raises:
        RefusedError: They are unknown.
    """
    try:
        line = LINES.get(line_of(version))
    except ValueError:
        line = None
    if line is None:
        raise RefusedError(
            f"the capabilities of hermes-agent {version[:64]} are unknown: this hermesops knows {', '.join(LINES)}",
            hint=Hint(
                "install a hermesops that knows it, or build one of these:", ("release", "build", "--agent", "VERSION")
            ),
        )
    return Capabilities(version, line, CAUTIONS.get(version, ""))


def refuse_unknown(lock: Lock) -> None:
    """Refuse a release whose agent's capabilities are unknown. A simulated agent has none, and is hermesops's own.

    Raises:
        RefusedError: They are unknown.
    """
    if lock.origin != SIMULATED:
        capabilities_of(lock.agent_version)


def changes(before: str, after: str) -> tuple[tuple[Fact, str, str], ...]:
    """The facts that differ between two versions, with both values.

    Raises:
        RefusedError: The capabilities of one are unknown.
    """
    old, new = capabilities_of(before).line.name, capabilities_of(after).line.name
    values = ((fact, fact.value(old), fact.value(new)) for fact in FACTS)
    return tuple((fact, was, now) for fact, was, now in values if was != now)
