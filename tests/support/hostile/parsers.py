"""Everything that reads what others send, with samples of what it should be sent, for fuzzing.

Each ends as a value or as an error of ours, within a second and some megabytes, whatever comes.
"""

import asyncio
import base64
import contextlib
import gc
import io
import json
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hermesops.access.identity import approval, mass_change
from hermesops.access.identity.oidc import Pipelines, keys_in
from hermesops.access.pki.authority import fresh_key, read_key
from hermesops.access.pki.service import PlatformService
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.agents.backup.store.restic import snapshots_in
from hermesops.agents.cells.changes import preview
from hermesops.agents.cells.stack.state import machines_in
from hermesops.agents.health.prometheus import by_instance
from hermesops.agents.health.samples.sample import HealthSample
from hermesops.agents.instances.remote.data_export import Tally
from hermesops.agents.instances.requests.bulk import parse_requests
from hermesops.agents.instances.requests.settings_patch import replacing
from hermesops.errors import HermesError
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.machines.release.index import Documents
from hermesops.machines.release.trust import Trust
from hermesops.machines.verify.backend import answers_of
from hermesops.machines.verify.observations import observations_in
from hermesops.model.access.certificate import MachineNames
from hermesops.model.billing.route import issue_token, read_token
from hermesops.model.fleet.slot import SlotsState
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.recovery.state import State
from hermesops.model.stack import StackRef
from hermesops.programs.node.instance.agent import installation
from hermesops.programs.node.system import as_user, openssl
from hermesops.programs.node.system.restic import Repository
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Completed, last_words, object_in, understood
from hermesops.vendor.channel.agent import health_of, piece_of, refusal_of
from hermesops.vendor.channel.detached import told_by
from hermesops.vendor.justavps import wire
from hermesops.vendor.justavps.proxy import ProxyAnswer
from hermesops.vendor.justavps.sse import events_of
from hermesops.vendor.justavps.toolbox import told_in
from hermesops.vendor.justavps.transport import Call, loaded, refusal, validated
from hermesops.wire import strict_json
from hermesops.wire.documents.handout import Handout, Signed
from hermesops.wire.documents.lock import Blob, Lock, Managed, Node, Wheels
from hermesops.wire.documents.orders import BreakGlassOrder, Orders, Report, SshHost, SshReport
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import NAMESPACES, AllowedSigners
from hermesops.wire.errors import NodeError
from hermesops.wire.protocol import Credential, Identity, Payload, Secrets, identity_from_json
from hermesops.wire.settings import Settings
from hermesops.wire.state.digest import jobs_in
from hermesops.wire.state.unpack import unpack
from tests.support.engine.stack_states import state_of
from tests.support.fakes.credentials import LIFE, NAMES, authority_in, credential_of
from tests.support.fakes.registry import FakeRegistry
from tests.support.releases.signer import Remembered

MEBIBYTE = 1 << 20
MOST_S, MOST_BYTES = 1.0, 64 * MEBIBYTE
"""Processor seconds and memory that one document of at most some mebibytes may cost."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)

STRANGE = (
    "NaN",
    "-Infinity",
    "1e400",
    "-0.0",
    "9" * 400,
    "9" * 20,
    str(-(2**63)),
    "1" + "0" * 5000,
    "[" * 2000 + "]" * 2000,
    '{"a":' * 31 + "1" + "}" * 31,
    "[" * 100_000,
    '{"a": 1, "a": 2}',
    '"\\ud800"',
    '"\\u0000"',
    '"../../../etc/passwd"',
    '"$(id)\\n; rm -rf /"',
    '"\\u001b]52;c;eA==\\u0007\\u202e"',
    json.dumps("x" * 300_000),
    "[" + "0," * 100_000 + "0]",
    "null",
    "true",
    "{}",
    "[]",
    '""',
    "-1",
    "1.5",
)
"""Values that stand where another one should."""

_HERE = "hermesops-here"
_BATCH = 1000


def document(sample: bytes) -> st.SearchStrategy[bytes]:
    """Documents that nearly are what they should be: bytes of it changed, or one value of its JSON."""
    ways = [_spoiled(sample)]
    with contextlib.suppress(ValueError):
        ways.append(_replaced(json.loads(sample)))
    return st.one_of(ways)


@st.composite
def _spoiled(draw: st.DrawFn, sample: bytes) -> bytes:
    data = bytearray(sample)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        upto = min(len(data), at + draw(st.sampled_from([0, 1, 1, 2, 16, 600])))
        data[at:upto] = draw(st.binary(max_size=16) | st.sampled_from(STRANGE).map(str.encode))
    return bytes(data)


@st.composite
def _replaced(draw: st.DrawFn, value: Any) -> bytes:  # noqa: ANN401 - JSON
    places = list(_places(value))
    path = draw(st.sampled_from(places))
    if path and draw(st.integers(0, 5)) == 0:
        return json.dumps(_without(value, path)).encode()
    text = json.dumps(_with(value, path, _HERE))
    strange = draw(st.sampled_from(STRANGE) | JSON.map(json.dumps))
    return text.replace(json.dumps(_HERE), strange, 1).encode(errors="surrogatepass")


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    places = [path]
    inner: Mapping[Any, object] = {}
    if isinstance(value, dict):
        inner = value
    elif isinstance(value, list):
        inner = dict(enumerate(value))
    for key, item in inner.items():
        places += _places(item, (*path, key))
    return places


def _with(value: Any, path: tuple[Any, ...], new: object) -> object:  # noqa: ANN401 - JSON
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = _with(value[path[0]], path[1:], new)
    return changed


def _without(value: Any, path: tuple[Any, ...]) -> object:  # noqa: ANN401 - JSON
    changed = value.copy()
    if len(path) > 1:
        changed[path[0]] = _without(value[path[0]], path[1:])
    else:
        del changed[path[0]]
    return changed


@dataclass
class Outcomes:
    """What came of the cases of one parser.

    Attributes:
        ends: How many were taken, and how many were refused by which error.
        slowest_s: Processor seconds of the dearest.
        most_bytes: Memory of the dearest.
    """

    ends: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_bytes: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        return f"{self.slowest_s * 1000:7.1f} ms {self.most_bytes / MEBIBYTE:6.1f} MiB  {counts}"


@dataclass(frozen=True)
class Parser:
    """One reader of what others send.

    Attributes:
        read: Reads it, whatever it is.
        sample: Makes what it should be sent.
        ours: The errors that it may raise.
    """

    read: Callable[[bytes], object]
    sample: Callable[[], bytes]
    ours: tuple[type[Exception], ...]

    def fuzz(self, cases: int, *, number: int = 0) -> Outcomes:
        """Try so many documents.

        Raises:
            AssertionError: One of them was too dear, or raised what is no error of ours.
        """
        outcomes = Outcomes()
        sample = self.sample()
        self.read(sample)  # what is loaded lazily counts for no case
        for begun in range(0, cases, _BATCH):  # hypothesis remembers every case of a batch
            self._batch(sample, min(_BATCH, cases - begun), number + begun, outcomes)
        return outcomes

    def _batch(self, sample: bytes, cases: int, number: int, outcomes: Outcomes) -> None:
        anything = st.binary(max_size=2048) | st.text(max_size=512).map(_bytes) | JSON.map(json.dumps).map(_bytes)

        @seed(number)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.one_of(document(sample), document(sample), anything))
        def tried(data: bytes) -> None:
            outcomes.ends[self.case(data, outcomes)] += 1

        tried()

    def case(self, data: bytes, outcomes: Outcomes) -> str:
        """How one document ends."""
        gc.disable()  # walking a worker's whole heap, up to a second, is no cost of this document
        tracemalloc.start()
        began = time.thread_time()
        try:
            self.read(data)
            end = "taken"
        except self.ours as error:
            end = type(error).__name__
        finally:
            took, (_, most) = time.thread_time() - began, tracemalloc.get_traced_memory()
            tracemalloc.stop()
            gc.enable()
        outcomes.slowest_s, outcomes.most_bytes = max(outcomes.slowest_s, took), max(outcomes.most_bytes, most)
        assert took <= MOST_S, f"{took:.1f} s for {len(data)} bytes"
        assert most <= MOST_BYTES, f"{most / MEBIBYTE:.0f} MiB for {len(data)} bytes"
        return end


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


# What is read, by whom.

OURS = (HermesError,)
NODES = (NodeError,)
PARSERS: dict[str, Parser] = {}


def _parser(
    sample: Callable[[], bytes], ours: tuple[type[Exception], ...] = OURS
) -> Callable[[Callable[[bytes], object]], None]:
    def add(read: Callable[[bytes], object]) -> None:
        PARSERS[read.__name__.strip("_")] = Parser(read, sample, ours)

    return add


def _json(value: object) -> Callable[[], bytes]:
    return lambda: json.dumps(value).encode()


SHA = "a" * 64
LOCK = Lock(
    agent_version="0.19.0",
    origin="index",
    config_schema=33,
    pythons={"3.11": Wheels(Blob("requirements.txt", SHA, 7), (Blob("aiohttp-3.whl", SHA, 5),))},
    uv=Blob("uv", SHA, 8),
    skills=Blob("skills.tar.gz", SHA, 9),
    site=(Blob("hermes-sandbox.pth", SHA, 1),),
    unit=Blob("hermes-gateway.service", SHA, 2),
    managed=Managed({"gateway": {"systemd_watchdog_seconds": 30}}, {"TZ": "UTC"}),
    node=Node(1, Blob("hermes-node", SHA, 3)),
)
PUBLIC = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
HANDOUT = Handout(
    Signed(LOCK.to_json().decode(), "by ada"),
    (Signed(AllowedSigners(1, f'ada namespaces="{NAMESPACES}" ssh-ed25519 {PUBLIC}\n').to_json().decode(), "by ada"),),
    Signed(Revocations().to_json().decode(), "by bob"),
    {SHA: "https://store.test/blobs/a?signature=x%2By"},
)
SETTINGS = Settings(
    model="gpt-4o",
    messengers={"TELEGRAM_BOT_TOKEN": "1:x"},
    mcp_servers={"notes": {"url": "http://127.0.0.1:1/mcp"}},
    cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": False},),
    disabled_tools=("browser",),
)
IDENTITY = Identity("0b9f3a52-5d1c", "u-1", "light", "c1", 3)
PAYLOAD = Payload(IDENTITY, Secrets("k" * 48, "hm1.x.1.0123456789abcdef"), "http://10.0.0.1:18080/v1", SETTINGS)
STATE = {"memory": {"count": 1, "digest": SHA}, "messages": {"count": 3, "digest": SHA}}
STATUS = {
    "identity": {"instance": "i-1", "user": "u-1", "plan": "light", "cell": "c1", "epoch": 1},
    "payload": SHA,
    "release": {"id": "0.19.0-aaaaaaaaaaaa", "origin": "index"},
    "releases": {"slots": [], "activation": None, "current": "0.19.0-aaaaaaaaaaaa"},
    "restart_needed": False,
    "jobs_missing": 0,
    "fenced": False,
    "certificate": {"request": "x", "serial": "1f", "names": []},
    "state": STATE,
}
READING = {
    "at": 1.0,
    "since": None,
    "release": "r",
    "gateway": "ok",
    "restarts": 0,
    "errors": {"count": 1, "complete": True},
    "memory_bytes": 1,
    "queue_age_s": 0.0,
    "turn": {"ok": True, "seconds": 1.5},
}
MACHINE = {
    "id": "m-1",
    "slug": "edge-1",
    "name": "hermes-local-cell1-ffffffffffff",
    "status": "ready",
    "provisioning_stage": None,
    "image_id": "i-1",
    "server_type": "starter",
    "region": "hel1",
    "ip": "192.0.2.1",
    "price_monthly": 5.5,
    "backups_enabled": None,
    "created_at": "2026-01-01T00:00:00Z",
    "urls": {"port_template": "https://{port}--{slug}.example.net", "proxy": "https://edge-1.example.net"},
    "ssh": {"command": "ssh root@192.0.2.1"},
    "health": {"cpu": 1.0, "memory": 2.0, "disk": 3.0, "last_heartbeat_at": "2026-01-01T00:00:00Z"},
}


@_parser(_json({"a": [1, -2.5e3, "ü", None, True]}), (strict_json.MalformedJSONError,))
def _strict_json(data: bytes) -> object:
    return strict_json.parse(data, largest=4 * MEBIBYTE)


@_parser(_json(STATUS))
def _node_status(data: bytes) -> object:
    done = Completed(0, data, data)
    assert last_words(done).isprintable()
    with understood("m1", "status"):
        report = object_in(done, "m1", "status")
        return SlotsState.from_status(report), State.from_json(report.get("state"))


@_parser(_json(READING))
def _node_probe(data: bytes) -> object:
    return HealthSample.from_json(data)


@_parser(lambda: b'{"table": "sessions", "id": 1}\n{"table": "end", "counts": {"sessions": 1}}\n')
def _node_export(data: bytes) -> object:
    tally = Tally("m1")
    tally.take(data)
    return tally.end()


@_parser(PAYLOAD.to_json, NODES)
def _payload(data: bytes) -> object:
    return Payload.from_json(data)


@_parser(_json(STATUS["identity"]), NODES)
def _machine_identity(data: bytes) -> object:
    return identity_from_json(data)


@_parser(
    _json(
        {
            "version": 1,
            "repository": "s3:https://s3.test/bucket/ada",
            "password": "p" * 40,
            "access_key": "AKIA0",
            "secret_key": "s" * 40,
            "tags": ["why=daily"],
            "snapshot": SHA,
            "ca": "",
        }
    ),
    NODES,
)
def _repository(data: bytes) -> object:
    return Repository.from_json(data)


@_parser(LOCK.to_json, NODES)
def _release_lock(data: bytes) -> object:
    return Lock.from_json(data)


@_parser(Revocations(3, {LOCK.id: "it leaks"}, "0.18.0").to_json, NODES)
def _revocations(data: bytes) -> object:
    return Revocations.from_json(data)


@_parser(HANDOUT.to_json, NODES)
def _handout(data: bytes) -> object:
    handout = Handout.from_json(data)
    return handout.read_lock(), handout.read_revocations()


@_parser(
    _json(
        {
            "unit": "hermes-gateway.service",
            "user": "hermes",
            "home": "/var/lib/hermes",
            "port": 8642,
            "routes": [{"name": "gpt-4o", "context_tokens": 128000}],
            "adapters": ["telegram"],
            "config": {},
            "environment": {"TZ": "UTC"},
            "user_config": {},
        }
    ),
    NODES,
)
def _gateway_base(data: bytes) -> object:
    return installation.parse_base(data, Path("/etc/hermes-node/gateway.json"))


@_parser(_json({"state": STATE, "bytes": 10, "left_out": 0}), NODES)
def _report(data: bytes) -> object:
    return as_user.report_in("pack", data)


@_parser(_json({"jobs": [{"id": 1, "table": "end", "prompt": "x"}]}), (ValueError,))
def _cron_jobs(data: bytes) -> object:
    return jobs_in(data)


@cache
def _archive() -> bytes:
    from hermesops.wire.state import tar_stream  # noqa: PLC0415 - packs only here
    from tests.support.fakes.machines.node_home import furnish  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        home, out = Path(folder), io.BytesIO()
        furnish(home)
        tar_stream.pack(home, out)
        return out.getvalue()


@_parser(_archive, (NodeError, OSError))
def _archive_of_a_state(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return unpack(io.BytesIO(data), Path(folder) / "ours" / "new")
        finally:
            assert {path.name for path in Path(folder).iterdir()} <= {"ours"}, "it wrote outside of its folder"


@cache
def _proved() -> tuple[bytes, bytes, bytes]:
    """A request, a credential and a certificate (DER), of one machine."""
    key = openssl.make()
    request = openssl.request(key).decode()
    with tempfile.TemporaryDirectory() as folder:
        credential = credential_of(authority_in(Path(folder)), request)
    certificate = x509.load_pem_x509_certificate(credential.certificate.encode())
    return request.encode(), credential.to_json(), certificate.public_bytes(Encoding.DER)


@_parser(lambda: _proved()[1], NODES)
def _credential(data: bytes) -> object:
    return Credential.from_json(data)


@_parser(lambda: Credential.from_json(_proved()[1]).to_pem(), NODES)
def _credential_file(data: bytes) -> object:
    return MachineNames.parse(Credential.from_pem(data, Credential.from_json(_proved()[1]).authority.encode()).names)


@cache
def _authority() -> Any:  # noqa: ANN401 - Authority
    with tempfile.TemporaryDirectory() as folder:
        return authority_in(Path(folder))


_KEY = f"ssh-ed25519 {PUBLIC}"
_ORDER = BreakGlassOrder("0" * 32, "local", "i-1", "m-1", _KEY, "192.0.2.7/32", 1_800_000_000, 1_800_003_600)
_SAID = SshReport("0" * 32, "open", "", "10.0.0.7")


@_parser(_ORDER.to_json, NODES)
def _order_to_open_sshd(data: bytes) -> object:
    return BreakGlassOrder.from_json(data)


@_parser(Orders("https://10.0.0.1:8443", Signed(_ORDER.to_json().decode(), "signature")).to_json, NODES)
def _orders_of_the_platform(data: bytes) -> object:
    return Orders.from_json(data)


@_parser(Report(SshHost(_KEY, "10.0.0.7"), _SAID).to_json, NODES)
def _report_of_a_machine(data: bytes) -> object:
    return Report.from_json(data)


@_parser(lambda: _proved()[0])
def _certificate_request(data: bytes) -> object:
    return _authority().issue(_text(data), NAMES, now=datetime.now(UTC), life=LIFE)


@_parser(lambda: _proved()[2])
def _certificate_of_a_caller(data: bytes) -> object:
    class Nobody(FakeRegistry):
        def certificates_find_valid(self, _serial: str) -> None:
            return None

    service = PlatformService(Nobody(), None, None, environment="local")  # type: ignore[arg-type]  # never reached
    with capture_logs():
        return service.answer(data, "GET", "/v1/standing", b"")


@_parser(lambda: fresh_key().encode())
def _authority_key(data: bytes) -> object:
    return read_key(_text(data), source="memory")


@_parser(lambda: Ring.fresh().to_text().encode(), (ValueError,))
def _key_ring(data: bytes) -> object:
    return Ring.parse(_text(data))


# What the vendor sends.


def _wire(kind: type[wire.Wire], sample: object, name: str) -> None:
    call = Call("GET", "/machines", changes=False)

    def read(data: bytes) -> object:
        request = validated(call, loaded(call, data), kind)
        if isinstance(request, wire.Machine):
            request.url_of_port(8642)
        return request

    PARSERS[name] = Parser(read, _json(sample), OURS)


_wire(wire.Machine, MACHINE, "vendor_machine")
_wire(wire.Image, {"id": "i", "name": "n", "status": "ready", "disk_size_gb": 4.5, "created_at": None}, "vendor_image")
_wire(wire.ProxyToken, {"id": "t", "token": "x", "expires_at": "2026-01-01T00:00:00Z"}, "vendor_token")
_wire(
    wire.ServerType, {"name": "basic", "vcpu": 2, "ram_gb": 4, "price_monthly": 9.5, "available": True}, "vendor_type"
)
_wire(wire.UsageAnswer, {"current_period": {"total_machines": 3, "estimated_cost": 9.5}}, "vendor_usage")
_wire(wire.Account, {"id": "a", "email": "a@example.org", "machines_count": 2}, "vendor_account")


@_parser(_json({"error": True, "message": "no payment method", "code": "x", "checkout_url": "https://pay.example"}))
def _vendor_refusal(data: bytes) -> object:
    call = Call("POST", "/machines", changes=True)
    statuses = (302, 402, 404, 408, 429, 500)
    error = refusal(call, httpx.Response(statuses[len(data) % len(statuses)]), data, "r")
    assert error.message.isprintable()
    assert len(error.message) < 2000
    return error


async def _lines(data: bytes) -> AsyncIterator[str]:
    for line in _text(data).split("\n"):
        yield line


@_parser(lambda: b'event: stdout\ndata: {"data": "eA=="}\n\nevent: exit\ndata: {"exit_code": 0}\n\n')
def _events_of_a_command(data: bytes) -> object:
    async def read() -> list[object]:
        call = Call("POST", "/x")
        return [told_in(call, event) async for event in events_of(_lines(data))]

    return asyncio.run(read())


@_parser(lambda: b'data: {"choices": [{"delta": {"content": "x"}}]}\n\nevent: hermes.tool.progress\ndata: {}\n\n')
def _events_of_a_turn(data: bytes) -> object:
    async def read() -> list[object]:
        return [piece_of(event.event, event.data) async for event in events_of(_lines(data))]

    return asyncio.run(read())


@_parser(_json({"status": "ok", "gateway_state": "running", "error": {"code": "x"}}))
def _agent_health(data: bytes) -> object:
    statuses = (200, 401, 502, 504, 418)
    answer = ProxyAnswer(statuses[len(data) % len(statuses)], {}, data)
    return health_of(answer), refusal_of(answer).message


@_parser(lambda: b"done 0 inline\neA==\neA==\n")
def _detached_command(data: bytes) -> object:
    return told_by(_text(data))


@_parser(_json([[0, base64.b64encode(b"x").decode(), ""], None]))
def _checks(data: bytes) -> object:
    return answers_of(("one", "two"), Completed(0, data, data))


LOOK = {
    "unit": {"ActiveState": "active"},
    "identity": {"instance": "i-1"},
    "alive": {"status": 200, "version": "0.19.0"},
    "detailed": {"status": 200, "verdict": "ok", "failing": ["x"]},
    "model": {"name": "gpt-4o", "router_status": 200, "offered": ["gpt-4o"], "has_key": True},
    "home": {"promised": "/var/lib/hermes", "skills": 3, "bundled": 3},
}


@_parser(_json(LOOK), (ValueError,))
def _observations(data: bytes) -> object:
    return observations_in(_text(data)), observations_in(_text(data), is_chat=True)


# What stores and others keep.

STACK = StackRef("hermes-cells", "local-cell1")


class _Kept:
    """A place, and a store of releases, in which every file holds the same."""

    url = "memory:"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, _: str, *, at_most: int | None = None) -> bytes:
        return self.data if at_most is None else self.data[:at_most]

    def at(self, name: str) -> str:
        return name


def _state() -> dict[str, Any]:
    latest = state_of(STACK, 2)
    latest["resources"].append(
        {
            "urn": f"urn:pulumi:{STACK.stack}::{STACK.project}::justavps:index:Machine::{MACHINE['name']}",
            "custom": True,
            "id": "m-1",
            "type": "justavps:index:Machine",
            "inputs": {"server_type": "starter", "region": "hel1", "image_id": "i"},
            "outputs": {"ip": "192.0.2.1"},
            "propertyDependencies": {"region": []},
            "protect": True,
        }
    )
    latest["pending_operations"] = [{"type": "creating", "resource": latest["resources"][-1]}]
    latest["secrets_providers"] = {"type": "passphrase", "state": {"salt": "v1:x"}}
    return {"version": 3, "checkpoint": {"stack": f"organization/{STACK.project}/{STACK.stack}", "latest": latest}}


@_parser(lambda: json.dumps(_state()).encode())
def _pulumi_state(data: bytes) -> object:
    stacks = StoredStacks(FileBackend(_Kept(data)), lambda: "x")  # type: ignore[arg-type]  # only what reads a state

    async def read() -> object:
        return await stacks.outputs(STACK), await stacks.unfinished(STACK), machines_in(await stacks.export(STACK))

    return asyncio.run(read())


@_parser(lambda: json.dumps({"version": 3, "deployment": _state()["checkpoint"]["latest"]}).encode(), OURS)
def _state_to_import(data: bytes) -> object:
    from hermesops.cli.commands.stack import state_in  # noqa: PLC0415 - commands load late

    document = state_in(data, "FILE")
    stacks = StoredStacks(FileBackend(_Kept(b"{}")), lambda: "x")  # type: ignore[arg-type]  # as above
    return stacks.checked(STACK, document)


def _trusting(store: _Kept) -> Documents:
    def checks(*_: object, **__: object) -> None:
        return None

    trust = Trust(store, checks, Remembered())  # type: ignore[arg-type]  # only what reads
    return Documents(store, trust, None)  # type: ignore[arg-type]  # as above


_SIGNERS = json.dumps([asdict(signer) for signer in HANDOUT.signers]).encode()


@_parser(lambda: _SIGNERS)
def _release_signers(data: bytes) -> object:
    return _trusting(_Kept(data)).trust.chain()


@_parser(lambda: json.dumps(asdict(HANDOUT.revocations) if HANDOUT.revocations else {}).encode())
def _stored_revocations(data: bytes) -> object:
    class Store(_Kept):
        def read(self, name: str, *, at_most: int | None = None) -> bytes:
            return super().read(name, at_most=at_most) if "revocations" in name else _SIGNERS

    return _trusting(Store(data)).revocations()


@_parser(_json([{"id": SHA, "time": "2026-01-01T00:00:00.123456789Z"}]))
def _restic_snapshots(data: bytes) -> object:
    return snapshots_in(_text(data))


@_parser(_json([{"metric": {"instance_id": "i"}, "value": [1.0, "2.5"]}]))
def _prometheus_vector(data: bytes) -> object:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return None  # its client's own affair
    return by_instance(answer)


@cache
def _signed_token() -> tuple[str, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    now = datetime.now(UTC)
    claims = {"iss": "https://i", "aud": "h", "sub": "s", "iat": now, "exp": now + timedelta(days=1)}
    token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k"})
    return token, json.dumps({"keys": [{**public, "kid": "k"}]}).encode()


@_parser(lambda: _signed_token()[1])
def _oidc_keys(data: bytes) -> object:
    return Pipelines("https://i", "h", ["s"], lambda: keys_in(data)).subject_of(_signed_token()[0])


@_parser(lambda: _signed_token()[0].encode("ascii"))
def _oidc_token(data: bytes) -> object:
    return Pipelines("https://i", "h", ["s"], lambda: keys_in(_signed_token()[1])).subject_of(_text(data))


ROUTER_KEY = bytes(32)


@_parser(lambda: issue_token(ROUTER_KEY, InstanceId("i-1"), 1, 2_000_000_000).encode(), ())
def _model_token(data: bytes) -> object:
    return read_token(ROUTER_KEY, _text(data))


# What operators write.


@_parser(lambda: b'region = "hel1"\ncell_size = 7\n[server_types]\nlight = "starter"\nheavy = "basic"\n')
def _settings_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "local" / "settings.toml"
        file.parent.mkdir()
        file.touch(0o600)
        file.write_bytes(data)
        return Environment.load("local", {"HOME": home, "HERMESOPS_HOME": home})


@_parser(lambda: b"model: gpt-4o\npersonality: Terse.\ncron:\n- cron: 0 9 * * *\n  prompt: hi\n")
def _instance_settings_file(data: bytes) -> object:
    return replacing(_text(data), where="FILE")


@_parser(lambda: b"user,plan,region\nada,light,hel1\nbob,heavy,\n")
def _users_file(data: bytes) -> object:
    return parse_requests(_text(data), plan="light", region="")


APPROVAL = approval.Approval(approval.Asked("preview of cell1", "local", SHA, "ada"), datetime.now(UTC))
PREVIEW = preview.SavedPreview(
    "local", CellName("cell1"), SHA, SHA, (), {"hermesops": "1"}, (), "5 USD", datetime.now(UTC)
)


@_parser(lambda: approval.FILE.to_text(APPROVAL, "x").encode())
def _approval_file(data: bytes) -> object:
    return approval.FILE.parse(_text(data))


CHANGE = mass_change.MassChange("local", (InstanceId("i-1"),), "the plan ends", datetime.now(UTC))


@_parser(lambda: mass_change.FILE.to_text(CHANGE, "x").encode())
def _list_of_agents(data: bytes) -> object:
    return mass_change.FILE.parse(_text(data))


@_parser(lambda: preview.FILE.to_text(PREVIEW, "x").encode())
def _preview_file(data: bytes) -> object:
    return preview.FILE.parse(_text(data))


def fuzz_all(cases: int, *, number: int, report: Callable[[str], None]) -> Mapping[str, Outcomes]:
    """Try so many documents with every parser.

    Args:
        cases: How many each.
        number: The same one repeats a run.
        report: Takes a line about each parser.
    """
    texts = {}
    for name, parser in PARSERS.items():
        texts[name] = parser.fuzz(cases, number=number)
        report(f"{name:26} {sum(texts[name].ends.values()):6} cases {texts[name]}")
    return texts
