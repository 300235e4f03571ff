"""The OpenAPI document that the local vendor is held to, built from the table of its calls. Pure."""

import re

from tests.support.vendor.openapi.operations import OPERATIONS, TOOLBOX_OPERATIONS, Operation
from tests.support.vendor.openapi.schemas import SCHEMAS, TEXT, UUID, Schema, ref

_NO_UUID = frozenset({"backup_id"})


def document(server: str) -> dict[str, object]:
    """The OpenAPI document; ``server`` is the URL of the API, with its prefix."""
    paths: dict[str, dict[str, object]] = {}
    for operation in (*OPERATIONS, *TOOLBOX_OPERATIONS):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "JustAVPS, as localcloud serves it",
            "version": "2026.3",
            "description": "Every call that a customer of JustAVPS makes, as far as public evidence goes.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(operation: Operation) -> dict[str, object]:
    described: dict[str, object] = {
        "summary": operation.summary,
        "operationId": re.sub(r"[^a-z]+", "_", f"{operation.method}{operation.path}".lower()).strip("_"),
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        media = operation.raw_body or "application/json"
        described["requestBody"] = {"required": operation.needs_body, "content": {media: {"schema": operation.body}}}
    if operation.free:
        described["security"] = []
    return described


def _parameters(operation: Operation) -> list[dict[str, object]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": TEXT if name in _NO_UUID else UUID}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    in_query = [
        {"name": name, "in": "query", "required": name in operation.required, "schema": schema}
        for name, schema in operation.query.items()
    ]
    return [*in_path, *in_query]


def _responses(operation: Operation) -> dict[str, object]:
    success: dict[str, object] = {"description": "Done, or accepted"}
    if operation.answer is not None:
        success["content"] = {operation.media: {"schema": operation.answer}}
    return {
        str(operation.status): success,
        **{str(status): _refusal(operation, status) for status in _statuses(operation)},
    }


def _statuses(operation: Operation) -> list[int]:
    usual = set() if operation.free else {401, 429}
    if "{" in operation.path:
        usual.add(404)
    if operation.is_toolbox:
        usual |= {502, 503, 504}
    return sorted({*usual, *operation.refusals})


def _refusal(operation: Operation, status: int) -> dict[str, object]:
    schema: Schema = ref("Error")
    if status == 402:
        schema = ref("CheckoutRequired")
    elif operation.is_toolbox:  # the API refuses in its shape, the machine's daemon in another
        schema = {"anyOf": [ref("Error"), ref("ToolboxError")]}
    return {"description": "Refused", "content": {"application/json": {"schema": schema}}}
