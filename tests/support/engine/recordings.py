"""Recordings of the pulumi CLI: read, replayed as a provider, compared with what our engine does.

A step starts from the state that the CLI left, so every step stands alone. What is compared and what is volatile:
``tests/data/pulumi-recordings/README.md``.
"""

import asyncio
import contextlib
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pulumi
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict
from pulumi.runtime.proto import plugin_pb2, provider_pb2

from hermesops.infra.engine.embedded.plugins.process import PluginProcess, ProcessHost
from hermesops.infra.engine.embedded.protocol.plugin import HalfMade, ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import UNKNOWNS, Message, Property, from_wire, revealed
from hermesops.infra.engine.embedded.state.deployment import Deployment, Resource, deployment_from_doc
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.options import Program, StackConfig
from hermesops.model.stack import Import, StackRef

FOLDER = Path(__file__).parents[2] / "data" / "pulumi-recordings"
STACK = StackRef("rec", "dev")
PASSPHRASE = "correct horse"  # noqa: S105  of recordings of a fake provider
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|<UUID-\d+>")
STEPS = [
    "up",
    "preview",
    "refresh",
    "refresh_preview",
    "destroy",
    "destroy_preview",
    "cli",
    "act",
    "world",
    "config",
    "Step",
]
"""The words that recorded programs use to list their steps."""

VOLATILE = {
    "randomSeed",
    "resource_status_address",
    "resource_status_token",
    "engine_address",
    "loader_target",
    "mapper_target",
    "resolver_target",
    "program_directory",
    "root_directory",
}
ANSWERS = {
    "Handshake": provider_pb2.ProviderHandshakeResponse,
    "GetPluginInfo": plugin_pb2.PluginInfo,
    "CheckConfig": provider_pb2.CheckResponse,
    "DiffConfig": provider_pb2.DiffResponse,
    "Configure": provider_pb2.ConfigureResponse,
    "Check": provider_pb2.CheckResponse,
    "Diff": provider_pb2.DiffResponse,
    "Create": provider_pb2.CreateResponse,
    "Update": provider_pb2.UpdateResponse,
    "Delete": Empty,
    "Cancel": Empty,
    "Read": provider_pb2.ReadResponse,
}
LOOKING_UP = ("Handshake", "GetPluginInfo", "Configure")
"""What starts one more plugin process, where ours looks up an interrupted create and the CLI does not."""


class Machine(pulumi.CustomResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, /, **props: Property) -> None:
        outputs = dict.fromkeys(("ip", "status", "name", "rootPassword"))
        super().__init__("justavps:index:Machine", name, {**outputs, **props}, opts)


class Image(pulumi.CustomResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, /, **props: Property) -> None:
        super().__init__("justavps:index:Image", name, {"digest": None, **props}, opts)


class Provider(pulumi.ProviderResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, /, **props: Property) -> None:
        super().__init__("justavps", name, props, opts)


class Cell(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, t: str = "hermesops:fleet:Cell") -> None:
        super().__init__(t, name, None, opts)


class Scenario:
    """One recorded scenario."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
        self.steps = {step["step"]: step for step in self.data["steps"]}
        self._scope = self._programs()

    def _programs(self) -> dict[str, Any]:
        """The recorded programs, with what they were written with."""

        def noted(*args: Property, **kw: Property) -> dict[str, Any]:
            return {"args": args, **kw}

        scope: dict[str, Any] = {
            "pulumi": pulumi,
            "ResourceOptions": pulumi.ResourceOptions,
            "Machine": Machine,
            "Image": Image,
            "Provider": Provider,
            "Cell": Cell,
            "URN": "urn:pulumi:dev::rec::",
            "M": "justavps:index:Machine",
            "I": "justavps:index:Image",
        }
        for word in STEPS:
            scope[word] = noted
        source = self.data["source"].replace("from rec import *", "")
        exec(compile(source, f"{self.name}.py", "exec"), scope)  # noqa: S102  our own recorded programs
        return scope

    def program(self, number: int) -> Program:
        program: Program = self._scope[self.steps[number]["program"]]
        return program

    def edit(self, number: int) -> Callable[[dict[str, Any]], None] | None:
        """What a step does to the world behind the engine's back."""
        if self.steps[number]["do"] != "world":
            return None
        edit: Callable[[dict[str, Any]], None] = self._scope["STEPS"][number - 1]["args"][0]
        return edit

    def checkpoint_before(self, number: int) -> dict[str, Any]:
        """The state file as the CLI left it before a step; before the first one, an empty stack with its salt."""
        checkpoints = self.data["checkpoints"]
        for earlier in range(number - 1, 0, -1):
            checkpoint = checkpoints.get(str(earlier))
            if isinstance(checkpoint, dict):
                return checkpoint
        first = next(c for c in checkpoints.values() if isinstance(c, dict))
        latest = {"secrets_providers": first["checkpoint"]["latest"].get("secrets_providers"), "metadata": {}}
        return {"version": 3, "checkpoint": {"stack": "organization/rec/dev", "latest": latest}}

    def config_at(self, number: int) -> StackConfig:
        values, secret = {}, set()
        for earlier in range(1, number):
            args = self.steps[earlier].get("args") or []
            if args[2:4] == ["config", "set"]:
                key = args[4] if ":" in args[4] else f"rec:{args[4]}"
                values[key] = args[5]
                if "--secret" in args:
                    secret.add(key)
        return StackConfig(values, frozenset(secret))

    def targets(self, number: int) -> list[str]:
        args = self.steps[number].get("args") or []
        return [value for flag, value in pairwise(args) if flag == "--target"]

    def imported(self, number: int) -> Import:
        """What a step of ``pulumi import`` takes in."""
        *_, kind, name, resource_id = args = self.steps[number]["args"]
        return Import(kind, name, resource_id, protect="--protect=false" not in args)

    def killed_in_a_create(self, number: int) -> bool:
        """Whether the state before a step has creates that nobody saw end."""
        latest = self.checkpoint_before(number)["checkpoint"].get("latest") or {}
        return any(
            op["type"] == "creating" and op["resource"].get("custom") and "providers" not in op["resource"]["type"]
            for op in latest.get("pending_operations", [])
        )

    def flags(self, number: int) -> set[str]:
        """Flags of the recorded command that change what it does."""
        known = {
            "--non-interactive", "--stack", "--skip-preview", "--yes", "--parallel", "--exec-kind", "--event-log",
            "--preview-only", "--diff",
        }  # fmt: skip
        args = self.steps[number].get("args") or []
        return {a for a in args if a.startswith("--") and a not in known and not a.startswith("--client=")}


def canonical(value: Property) -> Property:
    """The same value with ids that are made anew in each run made equal."""
    match value:
        case str():
            return UUID.sub(lambda match: match[0] if match[0] in UNKNOWNS else "<UUID>", value)
        case dict():
            return {canonical(k): canonical(v) for k, v in value.items() if k not in VOLATILE}
        case list():
            return [canonical(item) for item in value]
        case bool():
            return value
        case int() | float():
            return float(value)
        case _:
            return value


class UnexpectedCallError(AssertionError):
    """The engine called the provider in a way that the CLI did not."""


class Replay(ProcessHost):
    """Stands in for plugin processes: a provider that answers from a recorded step."""

    def __init__(self, step: dict[str, Any], state_file: Path, *, looks_up: bool = False) -> None:
        super().__init__((), {}, "")
        self._looks_up = looks_up
        self._first = {call["rpc"]: call for call in reversed(step["rpc"])}
        self.at_change: Callable[[], object] | None = None
        self._left: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for call in step["rpc"]:
            self._left[self._key(call["rpc"], call["request"])].append(call)
        self._state_file = state_file
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[str] = []

    @staticmethod
    def _key(rpc: str, request: dict[str, Any]) -> tuple[str, ...]:
        request_id = request.get("id", "") if rpc != "Configure" else ""
        return rpc, request.get("urn", ""), canonical(request_id), str(request.get("preview", False))

    async def start(self, package: str) -> "ReplayConnection":
        if not self._left.get(("Handshake", "", "", "False")) and not self._looks_up:
            raise UnexpectedCallError(f"one more process of {package} than recorded")
        return ReplayConnection(self)

    async def close(self) -> None:
        pass

    def answer(self, rpc: str, message: Message) -> Message:
        request = MessageToDict(message, preserving_proto_field_name=True)
        queue = self._left.get(self._key(rpc, request))
        if rpc == "Cancel":
            return Empty()
        if self._looks_up and rpc == "Read" and not request.get("id"):
            return provider_pb2.ReadResponse()
        if self._looks_up and not queue and rpc in LOOKING_UP:
            return self._reply(rpc, self._first[rpc])
        if not queue:
            self.problems.append(f"not recorded: {rpc} {request}")
            raise ProviderFaultError("CANCELLED", "not recorded")
        same = [i for i, call in enumerate(queue) if canonical(call["request"]) == canonical(request)]
        call = queue.pop(same[0] if same else 0)
        self.made.append((rpc, call["request"]))
        if not same:
            self.problems.append(f"{rpc}: asked {canonical(request)}\n recorded {canonical(call['request'])}")
        if "on_disk" in call and not call["request"].get("preview"):
            self._compare_disk(rpc, request["urn"], call["on_disk"])
        return self._reply(rpc, call)

    def _reply(self, rpc: str, call: dict[str, Any]) -> Message:
        error = call.get("error")
        if error is not None:
            detail = error.get("detail")
            half = None
            if detail:
                properties = provider_pb2.ErrorResourceInitFailed()
                ParseDict({"properties": detail["properties"]}, properties)
                half = HalfMade(detail["id"], from_wire(properties.properties), tuple(detail["reasons"]))
            raise ProviderFaultError(error["code"], error["message"], half)
        if "response" not in call:
            raise ProviderFaultError("UNAVAILABLE", "error reading from server: EOF")
        return ParseDict(call["response"], ANSWERS[rpc]())

    def _compare_disk(self, rpc: str, urn: str, recorded: dict[str, Any]) -> None:
        """What the state file says at this moment about the resource itself and what is pending for it."""
        latest = json.loads(self._state_file.read_text())["checkpoint"]["latest"]
        own = urn.split("::", 2)[2]

        def about(entry: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
            kept = {
                k: entry[k] for k in ("id", "delete", "pendingReplacement", "initErrors", "protect") if entry.get(k)
            }
            return dict(canonical({**kept, "urn": entry["urn"].split("::", 2)[2], **extra}))

        pending = [about(op["resource"], {"type": op["type"]}) for op in latest.get("pending_operations", [])]
        resources = [about(resource, {}) for resource in latest.get("resources", [])]
        for name, ours, theirs in (
            ("pending_operations", pending, recorded["pending_operations"]),
            ("resources", resources, recorded["resources"]),
        ):
            mine = {str(sorted(e.items())) for e in ours if e["urn"] == own and self._fresh(e, rpc)}
            wanted = {str(sorted(canonical(e).items())) for e in theirs if e["urn"] == own and self._fresh(e, rpc)}
            if mine != wanted:
                self.problems.append(f"on disk at {rpc} of {own}: {name} {mine}, recorded {wanted}")

    @staticmethod
    def _fresh(entry: dict[str, Any], rpc: str) -> bool:
        """Creates that an earlier run was killed in are kept for different times by the two engines."""
        return entry.get("type") != "creating" or rpc == "Create"

    def not_made(self) -> list[str]:
        """Recorded calls that the engine did not make."""
        return [f"{c['rpc']} {c['request']}" for q in self._left.values() for c in q if c["rpc"] != "Cancel"]


class ReplayConnection(PluginProcess):
    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    async def call(self, method: str, request: Message) -> Message:
        if method in {"Create", "Delete"} and self._replay.at_change:
            self._replay.at_change()
            await asyncio.sleep(0)  # noqa: TID251  lets what the change has set off come first
        return self._replay.answer(method, request)

    async def close(self) -> None:
        pass


def resources_of(latest: dict[str, Any], vault: PassphraseVault) -> list[dict[str, Any]]:
    """The state's resources in the clear, comparable: without times, in any order."""
    deployment = deployment_from_doc(latest)
    return sorted((_comparable(resource, vault) for resource in deployment.resources), key=str)


def pending_of(deployment: Deployment) -> list[tuple[str, str]]:
    return sorted((op.kind, op.resource.urn) for op in deployment.pending)


def _comparable(resource: Resource, vault: PassphraseVault) -> dict[str, Any]:
    shown = {
        "urn": resource.urn,
        "type": resource.type,
        "custom": resource.custom,
        "id": resource.id,
        "inputs": _open(dict(resource.inputs), vault),
        "outputs": _open(dict(resource.outputs), vault),
        "parent": resource.parent,
        "provider": resource.provider,
        "dependencies": sorted(resource.dependencies),
        "propertyDependencies": {k: sorted(v) for k, v in resource.property_dependencies.items()},
        "protect": resource.protect,
        "delete": resource.delete,
        "pendingReplacement": resource.pending_replacement,
        "initErrors": list(resource.init_errors),
        "additionalSecretOutputs": sorted(resource.additional_secret_outputs),
        "importID": resource.import_id,
        "timed": bool(resource.created) and bool(resource.modified),
    }
    return dict(canonical(shown))


def _open(value: Property, vault: PassphraseVault) -> Property:
    """Secrets in the clear, still marked."""
    match value:
        case dict():
            return {k: _open(v, vault) for k, v in value.items()}
        case list():
            return [_open(v, vault) for v in value]
        case str() | bool() | int() | float() | None:
            return value
        case _:
            return {"secret": revealed(value, vault)}


@contextlib.contextmanager
def state_of(scenario: Scenario, number: int, folder: Path) -> Iterator[Path]:
    """Put the state before a step where an engine finds it."""
    file = folder / ".pulumi" / "stacks" / "rec" / "dev.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(scenario.checkpoint_before(number)))
    yield file
