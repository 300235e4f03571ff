"""IAM documents of registered resources, and what their statements allow. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from hermesops.infra.stacks.registered import Registered


def documents_of(resource: Registered) -> list[Mapping[str, Any]]:
    """Parse a resource's IAM documents: its policy, and its trust policy."""
    texts = [resource.inputs.get(key) for key in ("policy", "assumeRolePolicy")]
    return [json.loads(text) for text in texts if isinstance(text, str)]


def allowed_statements(resource: Registered) -> list[Mapping[str, Any]]:
    """Return the statements of a resource's documents that allow something."""
    documents = documents_of(resource)
    return [
        statement for document in documents for statement in document["Statement"] if statement["Effect"] == "Allow"
    ]


def texts_of(value: object) -> list[str]:
    """One text or several, as a list."""
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def is_wide(arn: str) -> bool:
    """Return whether an ARN stands for all of its service or kind, as ``*`` or ``…:instance/*``."""
    name = arn.split(":", 5)[-1]
    return (
        arn == "*"
        or name == "*"
        or (name.endswith("/*") and "/" not in name[:-2] and not arn.startswith("arn:aws:s3:::"))
    )


def names_anybody(principal: object) -> bool:
    """Return whether a principal is everybody."""
    return principal == "*" or (isinstance(principal, dict) and "*" in texts_of(principal.get("AWS", [])))


def stays_in_account(statement: Mapping[str, Any]) -> bool:
    """Return whether a condition excludes other accounts, or the resource is a public one of AWS."""
    equals = statement.get("Condition", {}).get("StringEquals", {})
    if {"kms:CallerAccount", "aws:PrincipalAccount"} & set(equals):
        return True
    return all(arn.startswith("arn:aws:s3:::amazon-ssm-") for arn in texts_of(statement.get("Resource", [])))


def refuses_clear(policy: Registered) -> bool:
    """Return whether a bucket's policy refuses requests without TLS."""
    return any(
        statement["Effect"] == "Deny"
        and statement.get("Principal") == "*"
        and statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
        for statement in json.loads(policy.inputs["policy"])["Statement"]
    )
