"""What is wrong with a state that reads as JSON. Pure.

Source: the checks of the CLI's ``stack import`` and of its snapshots, recordings ``export_import:8-15``.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hermesops.model.stack import StackRef


def forgeries(ref: StackRef, latest: Mapping[str, Any]) -> list[str]:
    """What shows that a state is not this stack's own: another stack's, or edited without its checksum.

    Raises:
        KeyError, TypeError, AttributeError: It has not even the form of a state.
    """
    manifest = latest.get("manifest") or {}
    found = []
    if manifest and manifest["magic"] != hashlib.sha256(manifest["version"].encode()).hexdigest():
        found.append("its magic is not that of its version")
    prefix = f"urn:pulumi:{ref.stack}::{ref.project}::"
    pending = [operation["resource"] for operation in latest.get("pending_operations") or ()]
    strangers = [r["urn"] for r in (*(latest.get("resources") or ()), *pending) if not r["urn"].startswith(prefix)]
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        found.append(f"{strangers[0]}{more} belong to another stack than {ref.project}/{ref.stack}")
    return found


def flaws(ref: StackRef, latest: Mapping[str, Any]) -> list[str]:
    """Everything for which a state must not take the place of another one; see ``forgeries``."""
    return [*forgeries(ref, latest), *_dangling(latest.get("resources") or ())]


def _dangling(resources: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    urns: set[str] = set()
    for resource in resources:
        urn = resource["urn"]
        for what, needed in _needs(resource):
            if needed not in urns:
                yield f"{urn}: its {what} {needed} is missing before it"
        if urn in urns and not resource.get("delete"):
            yield f"{urn} is there twice"
        urns.add(urn)


def _needs(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if resource.get("parent"):
        yield "parent", resource["parent"]
    if resource.get("provider"):
        yield "provider", resource["provider"].rpartition("::")[0]
    for dependency in resource.get("dependencies") or ():
        yield "dependency", dependency
