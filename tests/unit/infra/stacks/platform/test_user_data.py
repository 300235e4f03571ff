"""The script with which a machine becomes a platform host: its shape, its variables, and a run of it with stand-ins."""

import base64
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.infra.stacks.platform.aws.hosts.user_data import (
    ACT_AS_HOST,
    FOLDER,
    LARGEST,
    SIGNATURE_NAMESPACE,
    UserData,
    most_bytes,
    refuse_long,
    user_data,
)
from hermesops.infra.stacks.platform.spec import Place
from hermesops.platform.aws.program import platform_spec
from hermesops.settings.environment import Environment
from hermesops.settings.fields import Settings
from hermesops.store.registry.schema.role_grants import API, CONNECTIONS, CONNECTOR, CONSOLE, RIGHTS, ROUTER
from tests.support.platform.environments import ENVIRONMENTS, program_of, run_of, spec_of, variables_of
from tests.support.platform.mock_aws import run

PLACE = Place("staging", "111122223333", "eu-central-1", "state")
OF_BUNDLE = {
    "hermes_platform_control_bundle",
    "hermes_platform_control_version",
    "hermes_platform_llm_router_program",
    "hermes_platform_llm_router_wheels",
    "hermes_platform_monitoring_ingest",
    "hermes_platform_monitoring_loki",
}
"""Role variables that the bundle's own variables.json has."""

SECRET = {
    "hermes_platform_llm_router_provider_keys",
    "hermes_platform_llm_router_token_keys",
    "hermes_platform_monitoring_client_certificate",
    "hermes_platform_monitoring_client_key",
    "hermes_platform_tls_authorities",
    "hermes_platform_tls_certificate",
    "hermes_platform_tls_key",
}
"""Role variables that people put into the secret of the host; pulumi/platform/README.md lists them."""


def _script(environment: str) -> str:
    text: str = run_of(environment).one("ec2.LaunchTemplate").inputs["userData"]
    return base64.b64decode(text).decode()


def _variables(environment: str) -> dict[str, Any]:
    return variables_of(run_of(environment))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_script_is_short_and_shellcheck_has_nothing_to_say(environment: str, tmp_path: Path) -> None:
    script = _script(environment)
    (tmp_path / "user-data.sh").write_text(script)

    checked = subprocess.run(
        ["shellcheck", "-x", tmp_path / "user-data.sh"], capture_output=True, text=True, check=False
    )

    assert checked.stdout == ""
    assert len(script.encode()) < LARGEST
    assert re.findall("@[A-Z]+@", script) == []  # every placeholder has a word


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_script_is_refused_by_its_size_before_anything_is_made(environment: str) -> None:
    spec = spec_of(environment)
    assert len(_script(environment).encode()) <= most_bytes(spec), "what is added to the settings is reckoned too low"
    refuse_long(spec)
    hooks = {f"check{number}": "/opt/checks/run --strict " * 20 for number in range(40)}
    with pytest.raises(
        UsageError, match=rf"first script of [23]\d{{4}} bytes.* {LARGEST}.*rollout\.hooks with 2\d{{4}}"
    ):
        refuse_long(replace(spec, settings={"rollout": {"hooks": hooks, "stages": "5%"}, "region": "hel1"}))


def test_settings_that_three_roles_get_are_reckoned_three_times() -> None:
    spec = spec_of("production")
    settings = {**spec.settings, "web": {**spec.settings["web"], "denied": "x" * 1500}}
    longer = replace(spec, settings=settings)

    script = base64.b64decode(run(program_of(longer), spec.place).one("ec2.LaunchTemplate").inputs["userData"]).decode()

    assert script.count("x" * 1500) == 3
    assert len(script.encode()) <= most_bytes(longer)


def test_the_program_of_an_environment_is_not_made_with_too_long_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[5] / ".github" / "environments"
    env = Environment.load("production", {"HOME": "/nonexistent", "HERMESOPS_HOME": str(folder)})
    assert platform_spec(env, env.settings.pulumi.backend)
    monkeypatch.setattr("hermesops.infra.stacks.platform.aws.hosts.user_data.LARGEST", 1024)
    with pytest.raises(UsageError, match="EC2 takes 1024"):
        platform_spec(env, env.settings.pulumi.backend)


def _options(role: str) -> Mapping[str, Mapping[str, Any]]:
    file = assets.folder("roles") / role / "meta" / "argument_specs.yml"
    options: Mapping[str, Mapping[str, Any]] = yaml.safe_load(file.read_text())["argument_specs"]["main"]["options"]
    return options


def _roles() -> list[str]:
    playbook = yaml.safe_load((assets.folder("ansible") / "playbooks" / "platform.yml").read_text())
    return [task["ansible.builtin.include_role"]["name"] for task in playbook[0]["tasks"]]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_roles_get_every_variable_they_need_and_none_they_do_not_know(environment: str) -> None:
    given = _variables(environment)
    switches = {f"{role}_enabled" for role in _roles()}
    known = {name for role in _roles() for name in _options(role)} | switches
    used = [role for role in _roles() if given.get(f"{role}_enabled", role in _ALWAYS)]
    required = {name for role in used for name, option in _options(role).items() if option.get("required")}

    assert set(given) <= known
    assert required <= set(given) | OF_BUNDLE | SECRET
    assert "hermes_platform_aws" in used
    assert given["hermes_base_metadata_users"] == list(ACT_AS_HOST)


_ALWAYS = {"hermes_base", "hermes_platform_tls", "hermes_platform_monitoring"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_settings_of_the_host_are_settings_of_hermesops(environment: str) -> None:
    given = _variables(environment)

    settings = Settings.model_validate(given["hermes_platform_control_settings"])

    assert settings.secrets.home == f"aws:hermesops/{environment}/own"
    assert settings.backup.user_boundary == run_of(environment).exports["backup_user_boundary"]
    assert given["hermes_platform_control_registry_url"].startswith("postgresql+psycopg://hermesops@postgresql.rds.")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_processes_of_users_get_settings_that_hermesops_reads_and_no_secret(environment: str) -> None:
    given = _variables(environment)
    domain = spec_of(environment).sizes.domain

    api, connections, worker = (
        Settings.model_validate(given[f"hermes_platform_{role}_settings"]) for role in ("api", "connections", "control")
    )

    for settings in (api, connections, worker):
        assert settings.web.origin == f"https://app.{domain}"
        assert settings.web.authorize_url == f"https://auth.{domain}/oauth2/authorize"
        assert settings.web.client_id == "pages-id"
        assert settings.connections.agents_url == f"https://app.{domain}/mcp"
    assert api.web.redis_url == f"rediss://hermesops-{environment}-app@redis.cache.internal:6379"
    assert (worker.web.redis_url, connections.web.redis_url) == ("", "")
    given_keys = {"messages_key", "project_key", "relay_credentials", "billing_secret", "key", "certificate"}
    assert not {f"hermes_platform_{role}_{key}" for role in ("api", "connections") for key in given_keys} & set(given)


def test_each_process_of_users_is_a_role_of_the_database_by_a_file_of_its_own() -> None:
    given = _variables("production")
    files = {entry["user"]: entry for entry in given["hermes_platform_aws_user_passfiles"]}
    folder = yaml.safe_load((assets.folder("roles") / "hermes_platform_aws/vars/main.yml").read_text())

    for role, user in (
        (API, "hermesops-api"),
        (CONNECTIONS, "hermesops-connections"),
        (CONSOLE, "hermesops-console"),
    ):
        url = given[f"hermes_platform_{user.removeprefix('hermesops-')}_database"]
        assert url.startswith(f"postgresql://{role}@postgresql.rds.internal:5432/hermesops?sslmode=verify-full&")
        assert url.endswith(f"&passfile={files[user]['file']}")
        assert (files[user]["role"], files[user]["home"]) == (role, f"/var/lib/{user}")
    assert {API, CONNECTIONS, ROUTER, CONNECTOR, CONSOLE} == set(RIGHTS), "the roles that the registry gives rights"
    assert len({entry["file"] for entry in files.values()}) == len(files)
    kept = [*files.values(), *given["hermes_platform_aws_redis"]["readers"]]
    assert {str(Path(entry["file"]).parent) for entry in kept} == {folder["__hermes_platform_aws_passwords"]}
    assert not set(files) & set(ACT_AS_HOST)


def test_with_a_bot_a_host_runs_the_connector_as_its_own_role_of_the_database() -> None:
    spec = spec_of("staging")
    plain = _variables("staging")
    messengers = {"telegram_bot": "our_bot"}
    done = run(program_of(replace(spec, settings={**spec.settings, "messengers": messengers})), spec.place)
    given = variables_of(done)
    url = f"https://app.{spec.sizes.domain}"

    [file] = [each for each in given["hermes_platform_aws_user_passfiles"] if each["role"] == CONNECTOR]
    assert file["user"] == "hermesops-connector"
    readers = {each["user"]: each["file"] for each in given["hermes_platform_aws_redis"]["readers"]}
    assert set(readers) == {"hermesops-api", "hermesops-connector"}
    assert len(set(readers.values())) == len(readers), "a file for each, which no other process reads"
    web = Settings.model_validate(given["hermes_platform_connector_settings"]).web
    assert web.redis_url == "rediss://hermesops-staging-app@redis.cache.internal:6379"
    assert str(web.redis_password_file) == readers["hermesops-connector"]
    assert given["hermes_platform_connector_redis_port"] == 6379
    assert [each["user"] for each in plain["hermes_platform_aws_redis"]["readers"]] == ["hermesops-api"]
    assert given["hermes_platform_connector_database"].endswith(f"&passfile={file['file']}")
    assert given["hermes_platform_connector_issues_credentials"] is True
    assert given["hermes_platform_edge_has_connector"] is True
    for role in ("api", "connector", "control"):
        settings = Settings.model_validate(given[f"hermes_platform_{role}_settings"])
        assert (settings.messengers.telegram_bot, settings.messengers.agents_url) == ("our_bot", url)
    assert json.dumps(done.exports["links"]).count(f'"sockets": "{url}/relay"') == 1
    assert set(given) <= {name for role in _roles() for name in _options(role)} | {
        f"{role}_enabled" for role in _roles()
    }
    assert not [name for name in plain if "connector" in name]


def test_the_readme_lists_what_people_put_into_the_hosts_secret() -> None:
    readme = (assets.folder("pulumi") / "platform" / "README.md").read_text()

    assert [name for name in sorted(SECRET) if f"`{name}`" not in readme] == []


class Machine:
    """A folder in the place of a new machine's disk, with stand-ins for programs of the system and of AWS."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bucket, self.bin = folder, folder / "bucket", folder / "bin"
        for path in (self.bucket, self.bin, folder / "root", folder / "run", folder / "units"):
            path.mkdir()
        self.key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self.said = folder / "said"
        note = f'echo "$(basename "$0") $*" >>{self.said}\n'
        copy = f'if [ "$1 $2" = "s3 cp" ]; then cp "{self.bucket}/$(basename "$4")" "$5"; fi\n'
        for name, more in {
            "apt-get": "",
            "aws": copy,
            "curl": "echo i-0123456789\n",
            "systemctl": f'if [ "$1" = start ]; then exec "{folder}/root/apply"; fi\n',
            "journalctl": "",
        }.items():
            self._program(self.bin / name, note + more)

    def _program(self, path: Path, text: str) -> None:
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def bundle(self, *, version: str = "1.0", named: str = "1.0", namespace: str = SIGNATURE_NAMESPACE) -> None:
        """Put a bundle into the bucket, whose uv and Python only say that they were called."""
        control, path = self.folder / "control", self.folder / "made"
        control.mkdir(exist_ok=True)
        path.mkdir(exist_ok=True)
        fake = (
            'mkdir -p venv/bin; printf "#!/bin/bash\\necho /ansible\\n" >venv/bin/python; chmod 755 venv/bin/python\n'
        )
        play = f'printf "#!/bin/bash\\necho ansible-playbook \\$* >>{self.said}\\n" >venv/bin/ansible-playbook\n'
        install = (
            f'echo "uv $*" >>{self.said}\nif [[ "$*" == *venv\\ --python* ]]; then {fake.strip()}; {play.strip()}; fi\n'
        )
        self._program(control / "uv", install + "chmod 755 venv/bin/ansible-playbook 2>/dev/null || true\n")
        with tarfile.open(path / "control.tar", "w") as archive:
            archive.add(control / "uv", "uv")
        with tarfile.open(self.bucket / f"hermesops-{named}.tar", "w") as archive:
            archive.add(path / "control.tar", "control.tar")
        sums = subprocess.run(
            ["sha256sum", f"hermesops-{named}.tar"], cwd=self.bucket, capture_output=True, text=True, check=True
        ).stdout.replace(f"hermesops-{named}", f"hermesops-{version}")
        (self.bucket / "SHA256SUMS").write_text(sums)
        self.sign(namespace)

    def sign(self, namespace: str = SIGNATURE_NAMESPACE) -> None:
        (self.bucket / "SHA256SUMS.sig").unlink(missing_ok=True)
        file = self.bucket / "SHA256SUMS"
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", self.key, "-n", namespace, file], check=True)

    def start(self) -> tuple[int, str]:
        """Run the script; its exit code, and what programs were asked."""
        public = " ".join(self.key.with_suffix(".pub").read_text().split()[:2])
        script = user_data(
            UserData(PLACE, "1.0", (public,), "releases", "secret", "eipalloc-1", "group", "hook", {"a": "b"})
        )
        for there, here in ((FOLDER, "root"), ("/run/", "run/"), ("/etc/systemd/system", "units")):
            script = script.replace(there, f"{self.folder}/{here}")
        done = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": f"{self.bin}:{os.defpath}", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, self.said.read_text() + done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_applies_the_roles_then_takes_the_address_then_says_that_it_is_ready(machine: Machine) -> None:
    machine.bundle()

    code, output = machine.start()

    assert code == 0, output
    order = [
        output.index(word)
        for word in ("ansible-playbook -i", "associate-address", "--lifecycle-action-result CONTINUE")
    ]
    assert order == sorted(order)
    assert "-e @bundle/variables.json -e @variables.json -e @" in output
    assert not list((machine.folder / "run").iterdir())  # the secret's text is gone


def _refused(machine: Machine) -> None:
    code, output = machine.start()

    assert code != 0
    assert "uv" not in output.split()
    assert "associate-address" not in output
    assert "--lifecycle-action-result ABANDON" in output


def test_a_bundle_that_was_changed_after_it_was_signed_is_not_unpacked(machine: Machine) -> None:
    machine.bundle()
    with (machine.bucket / "hermesops-1.0.tar").open("ab") as file:
        file.write(b"x")

    _refused(machine)


def test_sums_that_nobody_signed_are_refused(machine: Machine) -> None:
    machine.bundle()
    (machine.bucket / "SHA256SUMS").write_text((machine.bucket / "SHA256SUMS").read_text() + "\n")

    _refused(machine)


def test_a_signature_for_another_purpose_is_refused(machine: Machine) -> None:
    machine.bundle(namespace="hermesops-release")

    _refused(machine)


def test_an_older_bundle_under_a_newer_ones_name_is_refused(machine: Machine) -> None:
    """Its sums name the version that was signed."""
    machine.bundle(version="0.9")

    _refused(machine)


def test_a_signature_by_somebody_else_is_refused(machine: Machine) -> None:
    machine.bundle()
    other = machine.folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    (machine.bucket / "SHA256SUMS.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", other, "-n", SIGNATURE_NAMESPACE, machine.bucket / "SHA256SUMS"],
        check=True,
    )

    _refused(machine)


def test_a_host_whose_roles_fail_gives_itself_up(machine: Machine) -> None:
    machine.bundle()
    (machine.bin / "systemctl").write_text("#!/bin/bash\n[ $1 != start ]\n")

    code, output = machine.start()

    assert code != 0
    assert "associate-address" not in output
    assert "--lifecycle-action-result ABANDON" in output
