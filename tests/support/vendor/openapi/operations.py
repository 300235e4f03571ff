"""The calls of the API and of a machine's toolbox: what each takes and answers. Pure data."""

from dataclasses import dataclass, field
from typing import Any

from hermesops.localcloud.fleet.catalog import REGIONS, SERVER_TYPES
from tests.support.vendor.openapi.schemas import (
    EVENT,
    FLAG,
    INTEGER,
    MAYBE_FILE_TYPE,
    MAYBE_TEXT,
    NUMBER,
    REQUIRED_NAME,
    SOME_TEXT,
    TEXT,
    UUID,
    Schema,
    choice,
    many,
    ref,
    shape,
)

ONE = "/machines/{machine_id}"
BACKUPS = f"{ONE}/backups"
TOOLBOX = f"{ONE}/toolbox"


@dataclass(frozen=True)
class Operation:
    """One call.

    Attributes:
        status: Of success.
        answer: Schema of success; ``None`` for one without a body.
        body: Schema of what is sent; ``None`` for nothing.
        needs_body: Whether it must be sent.
        query: Parameters in the query, by name; those in ``required`` must be there.
        refusals: Statuses of refusals besides 401 and, below something that is named, 404.
        media: Type of the answer.
        raw_body: Type of a body that is not JSON.
        free: Whether it is shown to everybody.
    """

    method: str
    path: str
    summary: str
    answer: Schema | None = None
    status: int = 200
    body: Schema | None = None
    needs_body: bool = True
    query: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()
    media: str = "application/json"
    raw_body: str = ""
    free: bool = False

    @property
    def is_toolbox(self) -> bool:
        """Whether a machine's daemon answers it."""
        return self.path.startswith(f"{TOOLBOX}/") or self.path == f"{ONE}/exec"


_PROVIDER: dict[str, Schema] = {"provider": TEXT}

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/machines", "Every machine that is not deleted", shape({"machines": many(ref("Machine"))})),
    Operation(
        "POST", "/machines", "Rent a machine", ref("Machine"), 202, ref("MachineOrder"), refusals=(400, 402, 404, 422)
    ),
    Operation("GET", ONE, "Show a machine", ref("Machine")),
    Operation("DELETE", ONE, "Destroy a machine", status=204),
    Operation("POST", f"{ONE}/reboot", "Reboot hard", ref("Accepted"), 202, refusals=(400, 409)),
    Operation("POST", f"{ONE}/start", "Boot a stopped machine", ref("Accepted"), 202, refusals=(409,)),
    Operation("POST", f"{ONE}/stop", "Shut a machine down", ref("Accepted"), 202, refusals=(409,)),
    Operation(
        "POST",
        f"{ONE}/resize",
        "Change the server type",
        ref("Resized"),
        202,
        shape({"server_type": choice(SERVER_TYPES)}),
        refusals=(400, 409),
    ),
    Operation(
        "POST",
        f"{ONE}/image",
        "Begin to save the disk",
        ref("Image"),
        202,
        shape({"name": REQUIRED_NAME}),
        refusals=(400, 409),
    ),
    Operation("GET", f"{ONE}/status/stream", "Follow the status", media="text/event-stream", answer=EVENT),
    Operation(
        "GET", BACKUPS, "The backups of a machine", shape({"backups": many(ref("Backup")), "backups_enabled": FLAG})
    ),
    Operation(
        "POST",
        BACKUPS,
        "Begin to take a backup",
        shape({"backup_id": TEXT, "status": TEXT}),
        202,
        shape({}, description=MAYBE_TEXT),
        needs_body=False,
        refusals=(400, 409),
    ),
    Operation("POST", f"{BACKUPS}/enable", "Switch backups on", ref("Accepted"), refusals=(409,)),
    Operation("POST", f"{BACKUPS}/disable", "Switch backups off and delete them", ref("Accepted"), refusals=(409,)),
    Operation("POST", f"{BACKUPS}/{{backup_id}}/restore", "Put the disk back", ref("Accepted"), 202, refusals=(409,)),
    Operation("DELETE", f"{BACKUPS}/{{backup_id}}", "Delete a backup", status=204, refusals=(409,)),
    Operation("GET", "/images", "Every image", shape({"images": many(ref("Image"))})),
    Operation("GET", "/images/{image_id}", "Show an image", ref("Image")),
    Operation("DELETE", "/images/{image_id}", "Delete an image", status=204, refusals=(409,)),
    Operation(
        "POST",
        "/proxy-tokens",
        "Make a token for a machine's ports",
        ref("ProxyToken"),
        201,
        shape({"machine_id": UUID}, label=MAYBE_TEXT, expires_in_seconds={**INTEGER, "minimum": 1}),
        refusals=(400, 404),
    ),
    Operation("DELETE", "/proxy-tokens/{token_id}", "Revoke a token", status=204),
    Operation("GET", "/api-keys", "Every API key, without the keys", shape({"api_keys": many(ref("ApiKey"))})),
    Operation(
        "POST", "/api-keys", "Make an API key", ref("ApiKey"), 201, shape({"name": REQUIRED_NAME}), refusals=(400,)
    ),
    Operation("DELETE", "/api-keys/{key_id}", "Shut a key out", status=204, refusals=(403,)),
    Operation("GET", "/ssh-keys", "Every public key", shape({"ssh_keys": many(ref("SshKey"))})),
    Operation(
        "POST",
        "/ssh-keys",
        "Add a public key",
        ref("SshKey"),
        201,
        shape({"name": REQUIRED_NAME, "public_key": SOME_TEXT}),
        refusals=(400,),
    ),
    Operation("DELETE", "/ssh-keys/{key_id}", "Forget a public key", status=204),
    Operation("GET", "/webhooks", "Every receiver of events", shape({"webhooks": many(ref("Webhook"))})),
    Operation("POST", "/webhooks", "Add a receiver", ref("Webhook"), 201, ref("WebhookOrder"), refusals=(400,)),
    Operation("DELETE", "/webhooks/{webhook_id}", "Remove a receiver", status=204),
    Operation("GET", "/account", "Whose key this is", ref("Account")),
    Operation("GET", "/account/usage", "What is rented, and what it comes to", ref("Usage")),
    Operation("GET", "/account/billing", "How it is paid", ref("Billing")),
    Operation("POST", "/account/billing/setup", "Where a payment method is added", shape({"checkout_url": TEXT})),
    Operation(
        "GET",
        "/server-types",
        "What is sold in a region",
        shape({"provider": TEXT, "region": TEXT, "server_types": many(ref("ServerType"))}),
        query={"region": {**SOME_TEXT, "examples": list(REGIONS)}, **_PROVIDER},
        required=("region",),
        refusals=(400,),
        free=True,
    ),
    Operation(
        "GET",
        "/server-types/providers",
        "Who sells it",
        shape({"providers": many(shape({"name": TEXT, "display_name": TEXT}))}),
        free=True,
    ),
    Operation(
        "GET",
        "/server-types/regions",
        "Where it is sold",
        shape({"provider": TEXT, "regions": many(shape({"id": TEXT, "name": TEXT, "country": TEXT, "city": TEXT}))}),
        query=_PROVIDER,
        free=True,
    ),
)
"""Every call about the account, in the order of the vendor's own documentation."""


_PATH: dict[str, Schema] = {"path": {"type": "string", "pattern": "^/"}}
_OCTAL: Schema = {"type": "string", "pattern": "^[0-7]{1,4}$"}
_MATCH = shape({"file": TEXT, "line": NUMBER, "content": TEXT})
_RAW = "application/octet-stream"


def _process(name: str, summary: str, answer: Schema, body: Schema, **rest: Any) -> Operation:  # noqa: ANN401 - of Operation
    return Operation("POST", f"{TOOLBOX}/process/{name}", summary, answer, body=body, **rest)


def _file(method: str, name: str, summary: str, answer: Schema, *refusals: int, **rest: Any) -> Operation:  # noqa: ANN401 - of Operation
    """A call about the file at ``path``, which is in the query; 400 is always possible."""
    query = {**_PATH, **rest.pop("query", {})}
    required = rest.pop("required", ("path",))
    refused = (400, *refusals)
    return Operation(
        method, f"{TOOLBOX}/files{name}", summary, answer, query=query, required=required, refusals=refused, **rest
    )


TOOLBOX_OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", f"{ONE}/exec", "Run a command", ref("Execution"), body=ref("Command"), refusals=(400, 408)),
    _process("execute", "Run a command", ref("Execution"), ref("Command"), refusals=(400, 408)),
    _process(
        "execute/stream",
        "Run a command, its output as it comes",
        EVENT,
        ref("Command"),
        refusals=(400,),
        media="text/event-stream",
    ),
    _process("code-run", "Run some code", ref("Execution"), ref("Code"), refusals=(400, 408)),
    Operation("GET", f"{TOOLBOX}/process/list", "The processes", shape({"processes": many(ref("Process"))})),
    _process(
        "kill",
        "Signal a process",
        shape({"killed": {"const": True}, "pid": INTEGER}),
        shape({"pid": {**INTEGER, "minimum": 1}}, signal=TEXT),
        refusals=(400, 403),
    ),
    _file(
        "GET", "", "What is in a folder", shape({"entries": many(ref("File"))}), query={"depth": INTEGER}, required=()
    ),
    _file(
        "DELETE",
        "",
        "Delete a file or folder",
        shape({"deleted": {"const": True}, "path": TEXT}),
        403,
        query={"recursive": TEXT},
    ),
    _file("GET", "/info", "What a path is", ref("File")),
    _file("GET", "/exists", "Whether a path exists", shape({"exists": FLAG, "type": MAYBE_FILE_TYPE})),
    _file("GET", "/download", "A file as it is", TEXT, media=_RAW),
    _file(
        "POST",
        "/upload",
        "Write a file",
        shape({"path": TEXT, "size": NUMBER}),
        *(403, 409, 411, 413, 507),
        body=TEXT,
        query={"mode": TEXT, "overwrite": TEXT},
        raw_body=_RAW,
    ),
    _file(
        "GET",
        "/find",
        "Search in files",
        shape({"matches": many(_MATCH), "truncated": FLAG, "total": NUMBER}),
        query={"pattern": TEXT, "include": TEXT, "max_results": INTEGER},
        required=("path", "pattern"),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/replace",
        "Replace in files",
        shape({"results": many(shape({"file": TEXT, "replacements": NUMBER}))}),
        body=shape({"files": many(TEXT), "pattern": TEXT, "new_value": TEXT}),
        refusals=(400, 403),
    ),
    _file("POST", "/folder", "Make a folder", shape({"path": TEXT, "created": FLAG}), 403, 409, query={"mode": TEXT}),
    Operation(
        "POST",
        f"{TOOLBOX}/files/move",
        "Move a file or folder",
        shape({"source": TEXT, "destination": TEXT}),
        query={"source": TEXT, "destination": TEXT},
        required=("source", "destination"),
        refusals=(400, 403, 409),
    ),
    _file(
        "POST",
        "/permissions",
        "Change mode and owner",
        shape({"path": TEXT, "mode": _OCTAL, "owner": TEXT, "group": TEXT}),
        403,
        body=shape({}, mode=TEXT, owner=TEXT, group=TEXT),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/bulk-download",
        "Several files in a zip",
        TEXT,
        body=shape({"paths": many(TEXT)}),
        refusals=(400,),
        media="application/zip",
    ),
)
"""Every call that a machine's daemon answers."""
