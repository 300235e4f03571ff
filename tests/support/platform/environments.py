"""The platforms of AWS as they are committed, each run once, and the golden text of what it registers.

``python -m tests.support.platform.environments`` writes the golden texts anew.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.base import assets
from hermesops.infra.stacks.platform.spec import PROJECT, Place, PlatformSpec, read_sizes
from hermesops.infra.stacks.registered import Registered
from tests.support.platform.mock_aws import Run, run

if TYPE_CHECKING:
    from hermesops.infra.stacks.platform.aws.program import AwsPlatformProgram

ENVIRONMENTS = ("staging", "production")
USERS = {"connections": {"services": "gmail=ac_1,slack=ac_2"}, "billing": {"prices": {"price_1": "light"}}}
"""Settings of a users' half, beside the address of its pages."""

GOLDEN = Path(__file__).parents[2] / "data" / "platform"


OPERATORS = "203.0.113.0/24"
"""Network whose browsers reach the console."""


def spec_of(environment: str, *, users: bool = True) -> PlatformSpec:
    """A committed platform, in an account that does not exist; it serves users and operators, or nobody."""
    file = assets.folder("pulumi") / PROJECT / f"Pulumi.{environment}.yaml"
    place = Place(environment, "111122223333", "eu-central-1", f"hermesops-{environment}-state")
    sizes = read_sizes(file.read_text(), file.name)
    console = {"origin": f"https://console.{sizes.domain}", "networks": OPERATORS}
    served = {**USERS, "web": {"origin": f"https://app.{sizes.domain}"}, "console": console}
    return PlatformSpec(place, sizes, served if users else {})


def program_of(spec: PlatformSpec) -> "AwsPlatformProgram":
    """The program of a platform; imported here, as Amazon's modules take a second, whichever tests run."""
    from hermesops.infra.stacks.platform.aws.functions import read_sources  # noqa: PLC0415 - as said
    from hermesops.infra.stacks.platform.aws.program import AwsPlatformProgram  # noqa: PLC0415 - as said

    return AwsPlatformProgram(spec, read_sources())


@cache
def run_of(environment: str) -> Run:
    """Run the program of a committed platform; what it registers and exports."""
    spec = spec_of(environment)
    return run(program_of(spec), spec.place)


def variables_of(run: Run) -> dict[str, Any]:
    """Role variables of the host, as its first script has them."""
    script = base64.b64decode(run.one("ec2.LaunchTemplate").inputs["userData"]).decode()
    document: dict[str, Any] = json.loads(script.split("cat >variables.json <<'END'\n")[1].split("\nEND\n")[0])
    return document


def golden(run: Run) -> str:
    """Every resource with its parent and its properties; not tags, which policies judge, nor programs."""
    lines: list[str] = []
    for resource in sorted(run.resources, key=lambda resource: (_parent(resource), resource.name, resource.type)):
        lines.append(_headed(resource))
        lines += [f"    {line}" for line in _told(resource.inputs)]
    lines += ["exports", *(f"    {line}" for line in _told(dict(run.exports)))]
    return "\n".join(lines) + "\n"


def _parent(resource: Registered) -> str:
    """What it is a part of; empty for the stack, whose name is that of the process's first program."""
    if resource.parent.startswith("pulumi:pulumi:Stack::"):
        return ""
    return resource.parent.replace("pulumi:pulumi:Stack$", "").replace("hermesops:platform:", "").replace("::", " ")


def _headed(resource: Registered) -> str:
    parent = _parent(resource)
    flags = [word for word, on in (("protected", resource.protect), ("retained", resource.retain)) if on]
    return "  ".join(filter(None, [parent and f"{parent} /", resource.type, resource.name, " and ".join(flags)]))


def _told(value: Mapping[str, object]) -> Iterator[str]:
    for key, inner in sorted(value.items()):
        if key in {"tags", "tagSpecifications", "userData", "code"} or inner is None:
            continue
        document = isinstance(inner, str) and inner.startswith("{")
        text = json.loads(inner) if document and isinstance(inner, str) else inner
        if isinstance(text, Mapping):
            yield f"{key}:"
            yield from (f"  {line}" for line in _of_document(text) if line)
        else:
            yield f"{key}: {json.dumps(text, sort_keys=True)}"


def _of_document(document: Mapping[str, object]) -> Iterator[str]:
    statements = document.get("Statement")
    if not isinstance(statements, list):
        yield json.dumps(document, sort_keys=True)
        return
    for statement in statements:
        yield json.dumps(statement, sort_keys=True)


def main() -> None:
    """Write the golden text of each environment."""
    for environment in ENVIRONMENTS:
        (GOLDEN / f"{environment}.txt").write_text(golden(run_of(environment)))


if __name__ == "__main__":
    main()
