"""The package's schema in Pulumi's own JSON, for ``pulumi package get-schema`` and generated SDKs."""

import json
from collections.abc import Iterable

from hermesops.provider.resource import Kind, Property


def schema(version: str, kinds: Iterable[Kind]) -> str:
    """The schema as JSON text.

    Source: https://www.pulumi.com/docs/iac/extending-pulumi/schema/ (2026-08).
    """
    return json.dumps(
        {
            "name": "justavps",
            "version": version,
            "displayName": "JustAVPS",
            "description": "Machines rented from JustAVPS, and images of them.",
            "publisher": "hermesops",
            "license": "Apache-2.0",
            "config": {},
            "provider": {"description": "Talks to the API that hermesops' settings name; takes no configuration."},
            "resources": {kind.type: _resource(kind) for kind in kinds},
        },
        indent=2,
    )


def _resource(kind: Kind) -> dict[str, object]:
    outputs = (*kind.inputs, *kind.computed)
    optional = {p.name for p in kind.inputs if not p.required and p.name != "name"}
    return {
        "description": kind.description,
        "properties": _properties(outputs),
        "required": sorted(p.name for p in outputs if p.name not in optional),
        "inputProperties": _properties(kind.inputs),
        "requiredInputs": sorted(p.name for p in kind.inputs if p.required),
    }


def _properties(properties: Iterable[Property]) -> dict[str, object]:
    return {p.name: _property(p) for p in properties}


def _property(item: Property) -> dict[str, object]:
    described: dict[str, object] = {"type": "string", "description": item.description}
    if item.replaces:
        described["willReplaceOnChanges"] = True
    return described
