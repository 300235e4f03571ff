"""The objects of the API as JSON Schema. Pure data.

Source: published SDK 2026.3.6; what a public client has met besides is optional here.
"""

from collections.abc import Iterable

from hermesops.localcloud.fleet.catalog import PROVIDER, REGIONS, SERVER_TYPES
from hermesops.localcloud.store.rows import ImageStatus, MachineStatus
from hermesops.localcloud.webhooks import EVENT_KINDS, RECEIVER_URL

Schema = dict[str, object]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
UUID: Schema = {"type": "string", "format": "uuid", "minLength": 36}
TIMESTAMP: Schema = {"type": "string", "format": "date-time"}
SOME_TEXT: Schema = {"type": "string", "minLength": 1}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
MAYBE_UUID: Schema = {"type": ["string", "null"], "format": "uuid", "minLength": 36}
MAYBE_TIMESTAMP: Schema = {"type": ["string", "null"], "format": "date-time"}
FREE: Schema = {"type": "object"}
NAME: Schema = {"type": ["string", "null"], "maxLength": 128}
REQUIRED_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 128}
_TIMEOUT: Schema = {"type": ["number", "null"], "exclusiveMinimum": 0}
_ENVIRONMENT: Schema = {"type": ["object", "null"], "additionalProperties": TEXT}


def shape(required: Schema, **optional: object) -> Schema:
    """An object; its other fields are not checked."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


FILE_TYPE: Schema = {"type": "string", "enum": ["dir", "file"]}
MAYBE_FILE_TYPE: Schema = {"type": ["string", "null"], "enum": ["dir", "file", None]}
EVENT: Schema = {"type": "object", "properties": {"event": TEXT, "data": TEXT}, "required": ["data"]}
"""One server-sent event."""


def choice(values: Iterable[str]) -> Schema:
    """One of some texts."""
    return {"type": "string", "enum": [str(value) for value in values]}


def many(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """One of the schemas below."""
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: dict[str, Schema] = {
    "Error": shape({"error": {"const": True}, "message": TEXT, "status": INTEGER}),
    "ToolboxError": shape({"error": TEXT, "code": TEXT}),
    "CheckoutRequired": shape({"requires_checkout": FLAG, "checkout_url": TEXT, "message": TEXT}),
    "Machine": shape(
        {
            "id": UUID,
            "slug": TEXT,
            "name": TEXT,
            "status": choice(MachineStatus),
            "provider": TEXT,
            "server_type": TEXT,
            "region": TEXT,
            "backups_enabled": FLAG,
            "created_at": TIMESTAMP,
        },
        provisioning_stage=TEXT,
        provisioning_stage_updated_at=MAYBE_TIMESTAMP,
        image_id=MAYBE_UUID,
        ip=MAYBE_TEXT,
        price_monthly=NUMBER,
        ready_at=MAYBE_TIMESTAMP,
        urls=shape({"vscode": TEXT, "pty": TEXT}, proxy=TEXT, port_template=TEXT),
        ssh={"oneOf": [TEXT, shape({"command": TEXT, "setup_command": TEXT})]},
        ssh_key=shape({"private_key": TEXT, "public_key": TEXT, "setup_command": TEXT, "key_path": TEXT}),
        connect=FREE,
        health=shape({"services": FREE}, cpu=NUMBER, memory=NUMBER, disk=NUMBER),
    ),
    "MachineOrder": shape(
        {"server_type": choice(SERVER_TYPES), "region": choice(REGIONS)},
        name=NAME,
        provider={"type": ["string", "null"], "enum": [PROVIDER, None]},
        image_id=MAYBE_UUID,
        env_vars={
            "type": ["object", "null"],
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": TEXT,
        },
        ssh_key_ids={"type": ["array", "null"], "items": UUID},
        cloud_init_script=MAYBE_TEXT,
        startup_script=MAYBE_TEXT,
        enable_backups={"type": ["boolean", "null"]},
    ),
    "Accepted": shape({"action": TEXT, "status": TEXT}),
    "Resized": shape({"action": {"const": "resize"}, "old_type": TEXT, "new_type": TEXT, "status": TEXT}),
    "Image": shape(
        {
            "id": UUID,
            "name": TEXT,
            "status": choice(ImageStatus),
            "provider": TEXT,
            "created_at": TIMESTAMP,
            "updated_at": TIMESTAMP,
        },
        source_machine_id=MAYBE_UUID,
        provider_image_id=MAYBE_TEXT,
        disk_size_gb=INTEGER,
        architecture=TEXT,
        description=MAYBE_TEXT,
        is_template=FLAG,
    ),
    "Backup": shape({"id": TEXT, "description": TEXT, "created": TIMESTAMP, "size": NUMBER, "status": TEXT}),
    "ProxyToken": shape({"id": UUID, "token": TEXT, "expires_at": TIMESTAMP}),
    "ApiKey": shape(
        {"id": UUID, "name": TEXT, "key_prefix": TEXT, "created_at": TIMESTAMP, "last_used": MAYBE_TIMESTAMP}, key=TEXT
    ),
    "SshKey": shape({"id": UUID, "name": TEXT, "fingerprint": TEXT, "created_at": TIMESTAMP}),
    "Webhook": shape(
        {"id": UUID, "url": TEXT, "events": many(TEXT), "active": FLAG, "created_at": TIMESTAMP}, secret=TEXT
    ),
    "WebhookOrder": shape(
        {
            # The vendor takes HTTPS; a local world sends to this computer's loopback only.
            "url": {"type": "string", "pattern": RECEIVER_URL},
            "events": {"type": "array", "items": choice(EVENT_KINDS), "minItems": 1},
        },
        secret=MAYBE_TEXT,
    ),
    "ServerType": shape(
        {
            "name": TEXT,
            "description": TEXT,
            "vcpu": NUMBER,
            "ram_gb": NUMBER,
            "disk_gb": NUMBER,
            "cpu_type": choice(("shared", "dedicated")),
            "architecture": choice(("x86", "arm")),
            "price_monthly": NUMBER,
            "provider_price_monthly": NUMBER,
            "backup_price_monthly": NUMBER,
            "available": FLAG,
        }
    ),
    "Account": shape({"id": UUID, "email": TEXT, "machines_count": INTEGER, "created_at": TIMESTAMP}, name=MAYBE_TEXT),
    "Usage": shape(
        {
            "current_period": shape(
                {
                    "machines": many(shape({"id": UUID, "slug": TEXT, "server_type": TEXT, "status": TEXT})),
                    "total_machines": INTEGER,
                    "estimated_cost": NUMBER,
                }
            )
        }
    ),
    "Billing": shape({"has_payment_method": FLAG}, portal_url=MAYBE_TEXT, message=TEXT),
    "Execution": shape({"exit_code": INTEGER, "stdout": TEXT, "stderr": TEXT, "duration_ms": NUMBER}),
    "Command": shape(
        {"command": SOME_TEXT},
        cwd=MAYBE_TEXT,
        timeout=_TIMEOUT,
        user=MAYBE_TEXT,
        env=_ENVIRONMENT,
    ),
    "Code": shape(
        {"code": TEXT},
        language=MAYBE_TEXT,
        timeout=_TIMEOUT,
        env=_ENVIRONMENT,
    ),
    "Process": shape(
        {"pid": INTEGER, "command": TEXT, "args": TEXT},
        user=TEXT,
        state=TEXT,
        cwd=TEXT,
        memory_rss_bytes=NUMBER,
        started_at=TEXT,
    ),
    "File": shape(
        {"name": TEXT, "path": TEXT, "type": FILE_TYPE, "size": NUMBER},
        mode=TEXT,
        mode_bits=TEXT,
        owner=TEXT,
        group=TEXT,
        mod_time=TEXT,
        symlink_target=MAYBE_TEXT,
    ),
}
