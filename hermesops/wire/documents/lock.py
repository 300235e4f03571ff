"""The lock of a release: the complete content of an instance, down to the hash of every file.

Pure. A lock has canonical bytes, which are hashed and signed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from hermesops.wire import sha256
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import quotable
from hermesops.wire.strict_json import exactly, listed, mapping, matching, object_in, whole_number

FORMAT, FORMAT_OF_SOURCE = 1, 2
"""A node refuses a lock of a format that it does not know. The second one may have an interpreter and resources."""

MAX_LOCK_BYTES = 1024 * 1024

SIMULATED = "simulated"
"""Origin of an agent that only simulated machines can run: its release brings no wheels."""

Origin = Literal["index", "wheel", "source", "simulated"]
"""The agent's wheel is from a package index, from an operator, or built from a tag's archive."""

_ORIGINS = re.compile("index|wheel|source|simulated")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,63}")
_PYTHON = re.compile(r"3\.[0-9]{1,2}")
_INTERPRETER = re.compile(rf"{_PYTHON.pattern}\.[0-9]{{1,3}}[0-9a-z]{{0,8}}")
_SQLITE = re.compile(r"3\.[0-9]{1,3}\.[0-9]{1,3}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_ID = re.compile(rf"{_VERSION.pattern}-[0-9a-f]{{12}}")


@dataclass(frozen=True)
class Blob:
    """A file of a release.

    Attributes:
        name: Its name where it is used.
        sha256: Of its content; its name where it is stored.
        size: Bytes.
    """

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Wheels:
    """The wheels of a release for one version of Python.

    Attributes:
        requirements: The set with one hash for each wheel, for ``uv pip install --require-hashes``.
        wheels: All files of the set, by name.
    """

    requirements: Blob
    wheels: tuple[Blob, ...]


@dataclass(frozen=True)
class Interpreter:
    """The Python that a release brings, for all its machines: x86_64 Linux with glibc.

    Attributes:
        version: Complete, as ``3.14.0``.
        archive: A tar.gz whose members are ``python/…``, as python-build-standalone makes them (``install_only``).
        sqlite: Version of the SQLite that is linked into it; empty where it loads the library beside the packages.
    """

    version: str
    archive: Blob
    sqlite: str = ""

    @property
    def python(self) -> str:
        """The version that wheels are made for, as ``3.14``."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True)
class Managed:
    """Settings of a release that override a machine's base configuration (``hermes-node``'s ``gateway.json``).

    Attributes:
        config: Over the agent's managed ``config.yaml``.
        environment: Over its managed ``.env``.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """hermes-node as it comes with a release.

    Attributes:
        protocol: Smallest version of the node's language that can run the release.
    """

    protocol: int
    program: Blob


@dataclass(frozen=True)
class Lock:
    """The complete content of a release.

    Attributes:
        config_schema: ``_config_version`` of the user's file as this agent writes it; 0 for unknown.
        pythons: Wheels by the Python of the machine (``3.11``); empty only for simulated agents.
        uv: The static binary that installs the wheels.
        skills: The agent's bundled skills: a tar.gz whose members are ``skills/…``.
        site: Files that are put beside the installed packages, by name.
        unit: ``hermes-gateway.service``, complete.
        interpreter: Its own Python; ``None`` where machines use their distribution's.
        resources: Folders that the agent's wheel lacks: a tar.gz whose members are ``locales/…`` and others, which the
            unit names; ``None`` where the wheel has them.
    """

    agent_version: str
    origin: Origin
    config_schema: int
    pythons: Mapping[str, Wheels]
    uv: Blob
    skills: Blob
    site: tuple[Blob, ...]
    unit: Blob
    managed: Managed
    node: Node
    interpreter: Interpreter | None = None
    resources: Blob | None = None

    @cached_property
    def id(self) -> str:
        """The release's id: its agent's version and the beginning of the hash of its lock."""
        return f"{self.agent_version}-{self.digest[:12]}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the lock's canonical bytes."""
        return sha256.hexdigest(self.to_json())

    def blobs(self, python: str) -> tuple[Blob, ...]:
        """Every file that a machine with this Python needs, each content once, by name.

        Raises:
            BadRequestError: The release was not made for it.
        """
        return _once((*self._common, *_of(self.wheels(python))))

    def all_blobs(self) -> tuple[Blob, ...]:
        """Every file of the release, each content once, by name."""
        return _once((*self._common, *(blob for wheels in self.pythons.values() for blob in _of(wheels))))

    def wheels(self, python: str) -> Wheels | None:
        """The wheels for a machine with this Python; ``None`` for a simulated agent.

        Raises:
            BadRequestError: The release was not made for it.
        """
        if self.origin == SIMULATED:
            return None
        wheels = self.pythons.get(self.python_on(python))
        if wheels is None:
            pythons = ", ".join(sorted(self.pythons))
            raise BadRequestError(f"pythons: release {self.id} is for Python {pythons}, not for {python}")
        return wheels

    def python_on(self, python: str) -> str:
        """The Python that the agent runs under on a machine that has this one."""
        return self.interpreter.python if self.interpreter else python

    @property
    def _common(self) -> tuple[Blob, ...]:
        optional = (self.interpreter.archive if self.interpreter else None, self.resources)
        common = (self.uv, self.skills, *self.site, self.unit, self.node.program)
        return (*common, *(blob for blob in optional if blob is not None))

    def _refuse_other_pythons(self) -> None:
        if self.interpreter and set(self.pythons) != {self.interpreter.python}:
            raise BadRequestError(f"pythons: not those of the interpreter, {self.interpreter.python} alone")

    def to_json(self) -> bytes:
        """The canonical bytes of the lock."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        if self.interpreter and not self.interpreter.sqlite:
            fields["interpreter"].pop("sqlite")
        agent = {"version": fields.pop("agent_version"), "origin": fields.pop("origin")}
        return canonical(
            {"format": FORMAT_OF_SOURCE if fields.keys() & _OPTIONAL else FORMAT, "agent": agent, **fields}
        )

    @classmethod
    def from_json(cls, data: bytes) -> "Lock":
        """Parse and check a lock.

        Raises:
            BadRequestError: It is malformed, or not canonical; the message names the field.
        """
        fields = object_in(data, "lock", largest=MAX_LOCK_BYTES)
        version = fields.pop("format", None)
        if version not in {FORMAT, FORMAT_OF_SOURCE}:
            raise BadRequestError(f"lock: format {version!r} is not understood, only {FORMAT} and {FORMAT_OF_SOURCE}")
        names = {"agent", "config_schema", "pythons", "uv", "skills", "site", "unit", "managed", "node"}
        exactly(fields, "lock", required=names, optional=_OPTIONAL if version == FORMAT_OF_SOURCE else set())
        agent = mapping(fields["agent"], "agent")
        exactly(agent, "agent", required={"version", "origin"})
        origin: Any = matching(agent["origin"], _ORIGINS, "agent.origin")
        lock = cls(
            agent_version=matching(agent["version"], _VERSION, "agent.version"),
            origin=origin,
            config_schema=whole_number(fields["config_schema"], "config_schema"),
            pythons=_pythons(fields["pythons"], origin),
            uv=_blob(fields["uv"], "uv"),
            skills=_blob(fields["skills"], "skills"),
            site=_blobs(fields["site"], "site"),
            unit=_blob(fields["unit"], "unit"),
            managed=managed_from(fields["managed"]),
            node=_node(fields["node"]),
            interpreter=_interpreter(fields["interpreter"]) if "interpreter" in fields else None,
            resources=_blob(fields["resources"], "resources") if "resources" in fields else None,
        )
        lock._refuse_other_pythons()
        if lock.to_json() != data:
            raise BadRequestError("lock: not canonical (sorted keys, no blanks, a newline at the end)")
        return lock


_OPTIONAL = {"interpreter", "resources"}


def canonical(value: object) -> bytes:
    """The canonical bytes of a document to be signed: sorted keys, no blanks, UTF-8, a newline at the end."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def release_id(text: str) -> str:
    """Check that a text can be the id of a release; return it.

    Raises:
        BadRequestError: It is no id of a release.
    """
    return matching(text, _ID, "release")


def managed_from(raw: object) -> Managed:
    """Check the settings of a release that override base configurations.

    Raises:
        BadRequestError: It is malformed; the message names the field.
    """
    fields = mapping(raw, "managed")
    exactly(fields, "managed", required={"config", "environment"})
    environment = mapping(fields["environment"], "managed.environment")
    for name, value in environment.items():
        matching(name, _VARIABLE, "managed.environment: a name")
        if not isinstance(value, str) or not value.isprintable():
            raise BadRequestError(f"managed.environment.{name}: not one line of text")
        quotable(f"managed.environment.{name}", value)
    return Managed(mapping(fields["config"], "managed.config"), environment)


def _once(blobs: tuple[Blob, ...]) -> tuple[Blob, ...]:
    return tuple({blob.sha256: blob for blob in sorted(blobs, key=lambda item: (item.name, item.sha256))}.values())


def _of(wheels: Wheels | None) -> tuple[Blob, ...]:
    return (wheels.requirements, *wheels.wheels) if wheels else ()


def _pythons(raw: object, origin: str) -> dict[str, Wheels]:
    pythons = mapping(raw, "pythons")
    if (origin == SIMULATED) != (not pythons):
        raise BadRequestError("pythons: must be empty for simulated agents, and only for them")
    return {matching(python, _PYTHON, "pythons: a name"): _wheels(wheels, python) for python, wheels in pythons.items()}


def _wheels(raw: object, python: str) -> Wheels:
    where = f"pythons.{python}"
    fields = mapping(raw, where)
    exactly(fields, where, required={"requirements", "wheels"})
    wheels = _blobs(fields["wheels"], f"{where}.wheels")
    if not wheels:
        raise BadRequestError(f"{where}.wheels: none")
    return Wheels(_blob(fields["requirements"], f"{where}.requirements"), wheels)


def _node(raw: object) -> Node:
    fields = mapping(raw, "node")
    exactly(fields, "node", required={"protocol", "program"})
    return Node(whole_number(fields["protocol"], "node.protocol"), _blob(fields["program"], "node.program"))


def _interpreter(raw: object) -> Interpreter:
    fields = mapping(raw, "interpreter")
    exactly(fields, "interpreter", required={"version", "archive"}, optional={"sqlite"})
    version = matching(fields["version"], _INTERPRETER, "interpreter.version")
    sqlite = matching(fields["sqlite"], _SQLITE, "interpreter.sqlite") if "sqlite" in fields else ""
    return Interpreter(version, _blob(fields["archive"], "interpreter.archive"), sqlite)


def _blobs(raw: object, where: str) -> tuple[Blob, ...]:
    blobs = tuple(_blob(item, f"{where}[{number}]") for number, item in enumerate(listed(raw, where)))
    names = [blob.name for blob in blobs]
    if names != sorted(set(names)):
        raise BadRequestError(f"{where}: not sorted by name, or a name twice")
    return blobs


def _blob(raw: object, where: str) -> Blob:
    fields = mapping(raw, where)
    exactly(fields, where, required={"name", "sha256", "size"})
    return Blob(
        name=matching(fields["name"], _NAME, f"{where}.name"),
        sha256=matching(fields["sha256"], _SHA256, f"{where}.sha256"),
        size=whole_number(fields["size"], f"{where}.size"),
    )
