"""The settings.toml that role ``hermes_platform_control`` writes: rendered by Ansible, read by hermesops itself."""

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermesops.access.secrets.endpoint import Endpoint
from hermesops.base import assets
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.machines.converge import Access, Converger, Host
from hermesops.machines.converge.variables import literal
from hermesops.platform.parts.control import handed_settings, host_settings
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, value_of
from tests.support.platform.environments import program_of, spec_of
from tests.support.platform.mock_aws import run
from tests.support.platform.setting_samples import environment

pytestmark = pytest.mark.turns(8)

OUTPUTS: PlatformOutputs[str] = PlatformOutputs(
    **{field.name: f"its {field.name}" for field in fields(PlatformOutputs)}
)
ENDPOINT = Endpoint("http://127.0.0.1:1/api/v1", "key", None, "http://router", None, ("10.0.0.1",), 7070)


def rendered(folder: Path, settings: Mapping[str, object]) -> str:
    """The role's template as Ansible renders it from variables that hermesops hands on."""
    role = assets.folder("roles") / "hermes_platform_control"
    target = folder / "rendered"
    playbook = folder / "render.yml"
    task = {
        "name": "Render",
        "ansible.builtin.template": {"src": str(role / "templates" / "settings.toml.j2"), "dest": str(target)},
        "vars": {"item": {"name": "hermesops", "home": "/var/lib/hermesops"}},
    }
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(role / "defaults" / "main.yml"), str(role / "vars" / "main.yml")],
        "vars": {"ansible_connection": "local", "ansible_remote_tmp": str(folder / "remote")},
        "tasks": [task],
    }
    playbook.write_text(yaml.safe_dump([play]))
    variables = {
        "settings": settings,
        "environment": "staging",
        "registry_url": "postgresql://hermesops@127.0.0.1/hermesops?sslmode=verify-full",
        "certificates": {"hermesops": {"certificate": "its", "key": "its"}},
        "operators": "verified",
        "approvals": "required",
        "allowed_signers": "/a/signers",
    }
    converger = Converger(assets.folder("ansible"), Access("http://127.0.0.1:1/api/v1", folder / "api.key"))
    role_variables = {f"hermes_platform_control_{name}": value for name, value in variables.items()}
    done = asyncio.run(converger.run(str(playbook), [Host("localhost", "none")], variables=role_variables))
    done.require_ok()
    return target.read_text()


def names_in(tables: Mapping[str, object]) -> set[str]:
    """Settings by their names."""
    names: set[str] = set()
    for key, value in tables.items():
        names |= {key} if key in FIELDS or not isinstance(value, Mapping) else {f"{key}.{name}" for name in value}
    return names


def settings_on_aws(env: Environment) -> dict[str, Any]:
    """The settings that a host on AWS is told."""
    spec = replace(spec_of("staging"), settings=literal(handed_settings(env)))
    script = run(program_of(spec), spec.place).one("ec2.LaunchTemplate").inputs["userData"]
    text = base64.b64decode(script).decode().split("cat >variables.json <<'END'\n")[1].split("\nEND\n")[0]
    control_settings: dict[str, Any] = json.loads(text)["hermes_platform_control_settings"]
    return control_settings


def test_hosts_of_both_platforms_are_handed_on_the_same_settings(tmp_path: Path) -> None:
    env = environment(tmp_path)
    local = host_settings(env, ENDPOINT, OUTPUTS, api_url="http://127.0.0.1:1/api/v1")
    on_aws = settings_on_aws(env)

    handed = names_in(handed_settings(env))
    assert handed - names_in(local) == set()
    assert handed - names_in(on_aws) == set()
    assert on_aws["billing"] == literal(local["billing"])
    assert on_aws["rollout"] == literal(local["rollout"])
    assert on_aws["monitoring"]["actions"] == env.settings.monitoring.actions
    assert on_aws["monitoring"]["url"] == f"https://{spec_of('staging').sizes.domain}:8443", "the platform's own wins"


def test_every_setting_that_is_handed_on_is_read_there_as_it_is_here(tmp_path: Path) -> None:
    env = environment(tmp_path)
    settings = handed_settings(env)
    home = tmp_path / "home"
    (home / "staging").mkdir(parents=True)

    text = rendered(tmp_path, settings)
    (home / "staging" / "settings.toml").write_text(text)
    (home / "staging" / "settings.toml").chmod(0o600)
    read = Environment.load("staging", {"HOME": str(home), "HERMESOPS_HOME": str(home)})

    names = names_in(settings)
    other = {
        name: (value_of(read.settings, name), value_of(env.settings, name))
        for name in names
        if value_of(read.settings, name) != value_of(env.settings, name)
    }
    assert other == {}
    assert {"billing.prices", "rollout.hooks", "model.usd_per_month", "billing.suspending_pauses"} <= names
    assert read.settings.monthly_budget == Decimal("123.45")
    assert read.settings.operator_key == Path("/var/lib/hermesops/staging/keys/operator")
    url = read.settings.registry.url
    assert url is not None
    assert url.get_secret_value().endswith(
        "sslmode=verify-full&sslcert=/var/lib/hermesops/registry-client.crt"
        "&sslkey=/var/lib/hermesops/registry-client.key"
    )
