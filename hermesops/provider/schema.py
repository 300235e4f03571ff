"""The package's schema in Pulumi's own JSON, for ``pulumi package get-schema`` and generated SDKs."""

import json
from collections.abc import Iterable

from hermesops.provider.machine import COMPUTED, INPUTS, TYPE, Property


def schema(version: str) -> str:
    """The schema as JSON text.

    Source: https://www.pulumi.com/docs/iac/extending-pulumi/schema/ (2026-08).
    """
    outputs = (*INPUTS, *COMPUTED)
    optional = {p.name for p in INPUTS if not p.required and p.name != "name"}
    return json.dumps(
        {
            "name": "justavps",
            "version": version,
            "displayName": "JustAVPS",
            "description": "Machines rented from JustAVPS.",
            "publisher": "hermesops",
            "license": "Apache-2.0",
            "config": {},
            "provider": {"description": "Talks to the API that hermesops' settings name; takes no configuration."},
            "resources": {
                TYPE: {
                    "description": "A rented virtual server; billing starts when it is created.",
                    "properties": _properties(outputs),
                    "required": sorted(p.name for p in outputs if p.name not in optional),
                    "inputProperties": _properties(INPUTS),
                    "requiredInputs": sorted(p.name for p in INPUTS if p.required),
                }
            },
        },
        indent=2,
    )


def _properties(properties: Iterable[Property]) -> dict[str, object]:
    return {p.name: _property(p) for p in properties}


def _property(item: Property) -> dict[str, object]:
    described: dict[str, object] = {"type": "string", "description": item.description}
    if item.replaces:
        described["willReplaceOnChanges"] = True
    return described
