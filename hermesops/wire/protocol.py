"""Messages between hermesops and machines: payloads, fencing tokens, credentials, checks.

Pure. Parsing is strict where a machine is changed (a payload), and the version says which fields there are.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hermesops.wire import strict_json
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import Settings
from hermesops.wire.strict_json import exactly, listed, mapping, matching, object_in, whole_number

VERSION = 1
"""Version of the payload; a node understands its own and the one before."""

TAKES = ("connector", "endpoint")
"""Fields of a payload that nodes of before do not know; ``hermes-node status`` lists them."""

PROGRAM = "/opt/hermes/node/hermes-node"
"""Where role ``hermes_node`` puts hermes-node on every machine."""

DATA_VARIABLE = "HERMES_DATA_GB"
"""Variable of a machine's order: the gigabytes of its data volume; without it there is none."""

GB = 10**9
"""Bytes of a gigabyte of data, as plans count them."""

VARIABLES = "/etc/justavps/env"
"""Where the vendor writes the variables of a machine's order."""

DATA_PATH = "/var/lib/hermes"
"""Where the user's data is; the data volume is mounted here."""

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_CREDENTIAL_BYTES = 64 * 1024

API_KEY_MIN = 32
"""hermes-agent refuses an API key of less than 16 characters; ours are 64 hexadecimal digits."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_MODEL_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:_/-]{1,256}")
_LEASE = re.compile(
    r"(?P<epoch>[0-9]{1,9})\.(?P<counter>[0-9]{1,18}),(?P<subject>[A-Za-z0-9_./-]{1,255}),(?P<holder>[A-Za-z0-9_.:-]{0,255})"
)
_PEM = re.compile(r"(?:-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,16384}-----END CERTIFICATE-----\n){1,8}")
_PLATFORM_URL = re.compile(r"https://[A-Za-z0-9.\[\]:_-]{1,256}")
_BOT = re.compile(r"[A-Za-z0-9_]{1,64}")
_MESSENGER = re.compile(r"[a-z]{1,32}")
_SOCKET_SECRET = re.compile(r"[0-9a-f]{64}")
_SERIAL = re.compile(r"[0-9a-f]{1,40}")
_URI = re.compile(r"hermesops://[A-Za-z0-9_]{1,64}/(?:machine|cell|instance)/[A-Za-z0-9_.:-]{1,128}")
_HEAD = "hermes-node: "


@dataclass(frozen=True)
class Check:
    """One judgement about the agent. ``name`` is stable: alerts and runbooks refer to it."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Identity:
    """The instance of a machine; stored on it, readable by root only.

    Attributes:
        epoch: Counts changes of machine; a node refuses one below its own.
    """

    instance: str
    user: str
    plan: str
    cell: str
    epoch: int


@dataclass(frozen=True)
class FencingToken:
    """The lease under which a machine is changed, written as ``EPOCH.COUNTER,SUBJECT,HOLDER``.

    Attributes:
        subject: What is leased, as ``instance/<id>``; numbers of different subjects are not comparable.
    """

    subject: str
    epoch: int
    counter: int
    holder: str

    @property
    def number(self) -> tuple[int, int]:
        """The order of leases: a later lease of a subject has a higher number."""
        return self.epoch, self.counter

    @property
    def words(self) -> str:
        """The lease number as text for messages."""
        return f"{self.epoch}.{self.counter}"

    def __str__(self) -> str:
        return f"{self.words},{self.subject},{self.holder}"

    @classmethod
    def parse(cls, text: str) -> "FencingToken":
        """Read a token.

        Raises:
            BadRequestError: It is malformed.
        """
        match = _LEASE.fullmatch(text)
        if match is None:
            raise BadRequestError("lease: not of the form EPOCH.COUNTER,SUBJECT,HOLDER")
        return cls(match["subject"], int(match["epoch"]), int(match["counter"]), match["holder"])


@dataclass(frozen=True)
class Secrets:
    """Secrets known only to this machine and the registry.

    Attributes:
        api_server_key: Bearer of the agent's own HTTP API.
        model_token: The instance's token for the model router.
    """

    api_server_key: str = field(repr=False)
    model_token: str = field(repr=False)


@dataclass(frozen=True)
class Credential:
    """A machine's certificate, the authorities it trusts, and the platform's address. Nothing of it is secret.

    Attributes:
        authority: Every certificate that the platform's own may be signed by, PEM.
        url: The platform's service, without a path.
        serial: The certificate's, hexadecimal digits.
        not_before: Seconds since 1970, like ``not_after``.
    """

    certificate: str
    authority: str
    url: str
    serial: str
    not_before: int
    not_after: int
    names: tuple[str, ...]

    def to_json(self) -> bytes:
        """The file that ``hermes-node certificate install`` reads, and the answer of the platform's service."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Credential":
        """Read a credential.

        Raises:
            BadRequestError: It is malformed.
        """
        return cls.parse(object_in(data, "credential"))

    @classmethod
    def parse(cls, raw: object) -> "Credential":
        """Check a credential's fields.

        Raises:
            BadRequestError: A field is wrong; the message names it.
        """
        fields = mapping(raw, "credential")
        facts = {"serial", "not_before", "not_after", "names"}
        exactly(fields, "credential", required={"certificate", "authority", "url", *facts})
        return cls(
            matching(fields["certificate"], _PEM, "credential.certificate"),
            matching(fields["authority"], _PEM, "credential.authority"),
            matching(fields["url"], _PLATFORM_URL, "credential.url"),
            matching(fields["serial"], _SERIAL, "credential.serial"),
            whole_number(fields["not_before"], "credential.not_before"),
            whole_number(fields["not_after"], "credential.not_after"),
            tuple(matching(name, _URI, "credential.names") for name in listed(fields["names"], "credential.names")),
        )

    @property
    def renewal_at(self) -> float:
        """Time after two thirds of the certificate's life, in seconds since 1970."""
        return self.not_before + (self.not_after - self.not_before) * 2 / 3

    def to_pem(self) -> bytes:
        """The certificate's file: one line with facts that PEM lacks or hides, then PEM.

        One file, so that no crash leaves a certificate beside the facts of another one. Readers of PEM skip what
        stands before it (RFC 7468, section 2).
        """
        head = {name: value for name, value in asdict(self).items() if name not in {"certificate", "authority"}}
        return f"{_HEAD}{json.dumps(head, sort_keys=True)}\n{self.certificate}".encode()

    @classmethod
    def from_pem(cls, data: bytes, authority: bytes) -> "Credential":
        """Read the certificate's file and that of the authority.

        Raises:
            BadRequestError: They are damaged.
        """
        head, _, certificate = data.decode(errors="replace").partition("\n")
        try:
            facts: Any = strict_json.parse(head.removeprefix(_HEAD))
        except ValueError:
            raise BadRequestError("certificate: its first line is damaged") from None
        both = {"certificate": certificate, "authority": authority.decode(errors="replace")}
        return cls.parse({**mapping(facts, "certificate"), **both})


@dataclass(frozen=True)
class Connector:
    """The platform's connector, to which an agent opens the socket of its user's messengers.

    Attributes:
        url: Where machines reach it, without a path.
        secret: Signs for the agent when it opens the socket.
        bots: Name of the platform's bot by messenger.
    """

    url: str
    secret: str = field(repr=False)
    bots: Mapping[str, str]

    @classmethod
    def parse(cls, raw: object) -> "Connector":
        """Check the fields of a payload's connector.

        Raises:
            BadRequestError: A field is wrong; the message names it, never its value.
        """
        fields = mapping(raw, "connector")
        exactly(fields, "connector", required={"url", "secret", "bots"})
        bots = mapping(fields["bots"], "connector.bots")
        if not bots:
            raise BadRequestError("connector.bots: there is none")
        return cls(
            url=matching(fields["url"], _PLATFORM_URL, "connector.url"),
            secret=matching(fields["secret"], _SOCKET_SECRET, "connector.secret"),
            bots={
                matching(messenger, _MESSENGER, "connector.bots: a messenger"): matching(name, _BOT, "connector.bots")
                for messenger, name in bots.items()
            },
        )


@dataclass(frozen=True)
class Payload:
    """All data that turn a machine without a user into a user's agent.

    Attributes:
        model_base_url: Where the model router is, as the machine reaches it, up to and including ``/v1``.
        credential: The machine's certificate with its user's names; only where the machine has requested one.
        connector: By which the user's messengers reach the agent; ``None`` where the platform has no bot.
    """

    identity: Identity
    secrets: Secrets = field(repr=False)
    model_base_url: str
    settings: Settings = field(default_factory=Settings)
    credential: Credential | None = None
    connector: Connector | None = None

    def to_json(self) -> bytes:
        """The file that ``hermes-node personalise`` reads; it holds secrets."""
        fields = {"version": VERSION, **asdict(self)}
        for name in ("credential", "connector"):
            if fields[name] is None:  # a node of before it would not understand it
                del fields[name]
        if fields["settings"]["endpoint"] is None:  # as above
            del fields["settings"]["endpoint"]
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Payload":
        """Parse and check a payload.

        Raises:
            BadRequestError: It is malformed; the message names the field, never its value.
        """
        fields = object_in(data, "payload", largest=MAX_PAYLOAD_BYTES)
        version = fields.pop("version", None)
        if version != VERSION:
            raise BadRequestError(f"payload: version {version!r} is not understood; this node speaks {VERSION}")
        required, optional = {"identity", "secrets", "model_base_url"}, {"settings", "credential", "connector"}
        exactly(fields, "payload", required=required, optional=optional)
        return cls(
            identity=_identity(fields["identity"]),
            secrets=_secrets(fields["secrets"]),
            model_base_url=matching(fields["model_base_url"], _MODEL_URL, "model_base_url"),
            settings=Settings.parse(fields.get("settings", {})),
            credential=Credential.parse(fields["credential"]) if "credential" in fields else None,
            connector=Connector.parse(fields["connector"]) if "connector" in fields else None,
        )


def identity_from_json(data: bytes) -> Identity:
    """The identity in a machine's identity file.

    Raises:
        BadRequestError: The file is damaged.
    """
    return _identity(object_in(data, "identity"))


def _identity(raw: object) -> Identity:
    fields = mapping(raw, "identity")
    exactly(fields, "identity", required={"instance", "user", "plan", "cell", "epoch"})
    epoch = whole_number(fields["epoch"], "identity.epoch")
    words = {name: matching(fields[name], _ID, f"identity.{name}") for name in ("instance", "user", "plan", "cell")}
    return Identity(epoch=epoch, **words)


def _secrets(raw: object) -> Secrets:
    fields = mapping(raw, "secrets")
    exactly(fields, "secrets", required={"api_server_key", "model_token"})
    key = matching(fields["api_server_key"], _TOKEN, "secrets.api_server_key")
    if len(key) < API_KEY_MIN:
        raise BadRequestError(f"secrets.api_server_key: shorter than {API_KEY_MIN} characters")
    return Secrets(api_server_key=key, model_token=matching(fields["model_token"], _TOKEN, "secrets.model_token"))


def says_ok(body: object) -> bool:
    """Whether a body of ``/health/detailed`` reports that all is well, in the shape of hermes-agent 0.19.0.

    A body of another shape is no agent's: it would fail the checks after any change too.
    """
    if not isinstance(body, dict) or body.get("status") != "ok":
        return False
    readiness = body.get("readiness", {})
    checks = readiness.get("checks", {}) if isinstance(readiness, dict) else None
    return isinstance(checks, dict) and all(isinstance(check, dict) for check in checks.values())
