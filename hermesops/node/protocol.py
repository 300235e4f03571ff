"""What hermesops says to hermes-node and what it answers; the only part of node that the rest may import.

Pure. Parsing is strict where a machine is changed (a payload) and the version says which fields there are.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from hermesops.node.errors import BadRequestError
from hermesops.node.instance.agent.cron_schedule import is_schedule
from hermesops.node.instance.agent.messengers import adapters_for
from hermesops.node.instance.identity.credential import Credential
from hermesops.node.untrusted import strict_json
from hermesops.node.untrusted.json_fields import exactly, listed, mapping, matching, one_line, string

VERSION = 1
"""Version of the payload; a node understands its own and the one before."""

PROGRAM = "/opt/hermes/node/hermes-node"
"""Where role ``hermes_node`` puts hermes-node on every machine."""

DATA_VARIABLE = "HERMES_DATA_GB"
"""Variable of a machine's order that says how many gigabytes its data volume shall have; without it there is none."""

GB = 10**9
"""Bytes of a gigabyte of data, as plans count them."""

VARIABLES = "/etc/justavps/env"
"""Where the vendor writes the variables of a machine's order."""

DATA_PATH = "/var/lib/hermes"
"""Where the data of a machine's user is, and its volume is mounted."""

MAX_PAYLOAD_BYTES = 1024 * 1024

API_KEY_MIN = 32
"""hermes-agent refuses an API key of less than 16 characters; ours are 64 hexadecimal digits."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:_/-]{1,256}")
_LEASE = re.compile(
    r"(?P<epoch>[0-9]{1,9})\.(?P<counter>[0-9]{1,18}),(?P<subject>[A-Za-z0-9_./-]{1,255}),(?P<holder>[A-Za-z0-9_.:-]{0,255})"
)
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,63}")

T = TypeVar("T")


@dataclass(frozen=True)
class Identity:
    """Whose machine this is; kept root-only on it.

    Attributes:
        epoch: Counts changes of machine; a node refuses one below what it holds.
    """

    instance: str
    user: str
    plan: str
    cell: str
    epoch: int


@dataclass(frozen=True)
class FencingToken:
    """Under which lease a machine is changed, in words ``EPOCH.COUNTER,SUBJECT,HOLDER``.

    Attributes:
        subject: What is leased, as ``instance/<id>``; numbers of different subjects say nothing about each other.
        holder: Who holds it, for people.
    """

    subject: str
    epoch: int
    counter: int
    holder: str

    @property
    def number(self) -> tuple[int, int]:
        """What is compared: the later lease of a subject has the higher one."""
        return self.epoch, self.counter

    @property
    def words(self) -> str:
        """The number, for people."""
        return f"{self.epoch}.{self.counter}"

    def __str__(self) -> str:
        return f"{self.words},{self.subject},{self.holder}"

    @classmethod
    def parse(cls, text: str) -> "FencingToken":
        """Read a token.

        Raises:
            BadRequestError: It is not one.
        """
        found = _LEASE.fullmatch(text)
        if found is None:
            raise BadRequestError("lease: not of the form EPOCH.COUNTER,SUBJECT,HOLDER")
        return cls(found["subject"], int(found["epoch"]), int(found["counter"]), found["holder"])


@dataclass(frozen=True)
class Secrets:
    """What only this machine and the registry hold.

    Attributes:
        api_server_key: Bearer of the agent's own HTTP API.
        model_token: The instance's token for the model router.
    """

    api_server_key: str = field(repr=False)
    model_token: str = field(repr=False)


@dataclass(frozen=True)
class Settings:
    """What the user chose; the fields of ``hermesops.model.instance.InstanceSettings``."""

    model: str = ""
    personality: str = ""
    messengers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    cron: tuple[Mapping[str, Any], ...] = ()
    disabled_tools: tuple[str, ...] = ()

    @classmethod
    def parse(cls, raw: object) -> "Settings":
        """Check what somebody wants to be a user's settings; every field may be left out.

        Raises:
            BadRequestError: It is not that; the message names the field, never its value.
        """
        fields = mapping(raw, "settings")
        exactly(
            fields,
            "settings",
            optional={"model", "personality", "messengers", "mcp_servers", "cron", "disabled_tools"},
        )
        return cls(
            model=string(fields.get("model", ""), "settings.model"),
            personality=string(fields.get("personality", ""), "settings.personality"),
            messengers=_environment(fields.get("messengers", {})),
            mcp_servers=_servers(fields.get("mcp_servers", {})),
            cron=tuple(_job(job, n) for n, job in enumerate(listed(fields.get("cron", []), "settings.cron"))),
            disabled_tools=tuple(
                matching(name, _ID, "settings.disabled_tools")
                for name in listed(fields.get("disabled_tools", []), "settings.disabled_tools")
            ),
        )


@dataclass(frozen=True)
class Payload:
    """Everything that turns a machine without a user into a user's agent.

    Attributes:
        model_base_url: Where the model router is, as the machine reaches it, up to and including ``/v1``.
        credential: The machine's certificate with its user's names; only where the machine has asked for one.
    """

    identity: Identity
    secrets: Secrets = field(repr=False)
    model_base_url: str
    settings: Settings = field(default_factory=Settings)
    credential: Credential | None = None

    def to_json(self) -> bytes:
        """The file that ``hermes-node personalise`` reads; it holds secrets."""
        fields = {"version": VERSION, **asdict(self)}
        if self.credential is None:  # which a node of before certificates would not understand
            del fields["credential"]
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Payload":
        """Parse and check a payload.

        Raises:
            BadRequestError: It is not one; the message names the field, never its value.
        """
        try:
            raw = strict_json.parse(data, largest=MAX_PAYLOAD_BYTES)
        except ValueError:
            raise BadRequestError("payload: not JSON") from None
        fields = mapping(raw, "payload")
        version = fields.pop("version", None)
        if version != VERSION:
            raise BadRequestError(f"payload: version {version!r} is not understood; this node speaks {VERSION}")
        required, optional = {"identity", "secrets", "model_base_url"}, {"settings", "credential"}
        exactly(fields, "payload", required=required, optional=optional)
        return cls(
            identity=_identity(fields["identity"]),
            secrets=_secrets(fields["secrets"]),
            model_base_url=matching(fields["model_base_url"], _URL, "model_base_url"),
            settings=Settings.parse(fields.get("settings", {})),
            credential=Credential.parse(fields["credential"]) if "credential" in fields else None,
        )


def identity_from_json(data: bytes) -> Identity:
    """The identity in a machine's identity file."""
    try:
        return _identity(strict_json.parse(data))
    except ValueError:
        raise BadRequestError("identity: not JSON") from None


def _identity(raw: object) -> Identity:
    fields = mapping(raw, "identity")
    exactly(fields, "identity", required={"instance", "user", "plan", "cell", "epoch"})
    epoch = fields["epoch"]
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        raise BadRequestError("identity.epoch: not a whole number")
    words = {name: matching(fields[name], _ID, f"identity.{name}") for name in ("instance", "user", "plan", "cell")}
    return Identity(epoch=epoch, **words)


def _secrets(raw: object) -> Secrets:
    fields = mapping(raw, "secrets")
    exactly(fields, "secrets", required={"api_server_key", "model_token"})
    key = matching(fields["api_server_key"], _TOKEN, "secrets.api_server_key")
    if len(key) < API_KEY_MIN:
        raise BadRequestError(f"secrets.api_server_key: shorter than {API_KEY_MIN} characters")
    return Secrets(api_server_key=key, model_token=matching(fields["model_token"], _TOKEN, "secrets.model_token"))


def quotable(name: str, value: str) -> str:
    """A value that every reader of an environment file reads alike within single quotes.

    hermes-agent reads the file with two parsers: python-dotenv (which knows escapes and ``${…}``) and its own, which
    only strips quotes. They agree on everything but these.

    Raises:
        BadRequestError: This one cannot be written so.
    """
    if "'" in value or "\\" in value or "${" in value or value != value.strip(" \"'"):
        raise BadRequestError(f"{name}: holds a quote, a backslash, ${{ or outer blanks")
    return value


def _environment(raw: object) -> dict[str, str]:
    entries = mapping(raw, "settings.messengers")
    variables = {}
    for name, value in entries.items():
        matching(name, _ENV_NAME, "settings.messengers: a name")
        where = f"settings.messengers.{name}"
        variables[name] = quotable(where, one_line(value, where))
    adapters_for(variables)  # refuses a variable that belongs to no messenger
    return variables


def _servers(raw: object) -> dict[str, Mapping[str, Any]]:
    entries = mapping(raw, "settings.mcp_servers")
    return {
        matching(name, _ID, "settings.mcp_servers: a name"): _server(entry, f"settings.mcp_servers.{name}")
        for name, entry in entries.items()
    }


def _server(raw: object, where: str) -> Mapping[str, Any]:
    entry = mapping(raw, where)
    ways = [way for way in ("command", "url") if way in entry]
    if len(ways) != 1:
        raise BadRequestError(f"{where}: wants either a command or a url")
    one_line(entry[ways[0]], f"{where}.{ways[0]}")
    return entry


def _job(raw: object, number: int) -> Mapping[str, Any]:
    where = f"settings.cron[{number}]"
    job = mapping(raw, where)
    exactly(job, where, required={"cron", "prompt"}, optional={"enabled"})
    if not isinstance(job.get("enabled", True), bool):
        raise BadRequestError(f"{where}.enabled: neither true nor false")
    schedule = one_line(job["cron"], f"{where}.cron")
    if not is_schedule(schedule):
        raise BadRequestError(f"{where}.cron: not a schedule such as '0 9 * * 1-5', 'every 2h' or '30m'")
    return {
        "cron": schedule,
        "prompt": string(job["prompt"], f"{where}.prompt"),
        "enabled": job.get("enabled", True),
    }
