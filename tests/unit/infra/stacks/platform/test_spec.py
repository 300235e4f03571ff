"""What a stack's file may say, and what is told of one that says something else."""

import pytest
import yaml

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.infra.stacks.platform.spec import PROJECT, Place, read_sizes
from tests.support.platform.environments import ENVIRONMENTS
from tests.support.suite.cases import each_case

FILE = assets.folder("pulumi") / PROJECT / "Pulumi.staging.yaml"


def _said(change: dict[str, object]) -> str:
    """The staging file with other values at dotted keys below ``config``; None takes one away."""
    read = yaml.safe_load(FILE.read_text())
    for dotted, value in change.items():
        *above, last = dotted.split(".")
        part = read["config"]
        for key in above:
            part = part[key]
        if value is None:
            del part[last]
        else:
            part[last] = value
    return yaml.safe_dump(read)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_committed_files_can_be_read(environment: str) -> None:
    file = FILE.with_name(f"Pulumi.{environment}.yaml")

    sizes = read_sizes(file.read_text(), file.name)

    assert len(sizes.network.zones) == 3


@each_case(
    ("change", "expected"),
    [
        ({"platform:databse": {}}, "unknown key config.platform:databse"),
        ({"aws:region": "eu-west-1"}, "unknown key config.aws:region"),
        ({"platform:database.sise": "db.t4g.small"}, "unknown key config.platform:database.sise"),
        ({"platform:database.size": "t4g.small"}, "config.platform:database.size: String should match"),
        ({"platform:database.storage_gib": "20"}, "config.platform:database.storage_gib: Input should be a valid int"),
        ({"platform:database.most_storage_gib": 20, "platform:database.storage_gib": 30}, "is less than storage_gib"),
        ({"platform:database.backup_days": 36}, "config.platform:database.backup_days: Input should be less"),
        ({"platform:host": None}, "config.platform:host: Field required"),
        ({"platform:host.signers": []}, "config.platform:host.signers: "),
        ({"platform:host.signers": ["ssh-rsa AAAA"]}, "config.platform:host.signers.0: is no public key"),
        ({"platform:host.version": "1.0;reboot"}, "config.platform:host.version: "),
        ({"platform:host.image": "ubuntu"}, "config.platform:host.image: "),
        ({"platform:network.zones": ["a", "a", "b"]}, "zones are three different letters"),
        ({"platform:network.zones": ["a", "b"]}, "config.platform:network.zones"),
        ({"platform:network.cidr": "8.8.0.0/16"}, "is no private IPv4 network of 16 bits"),
        ({"platform:network.cidr": "10.0.0.0/8"}, "is no private IPv4 network of 16 bits"),
        ({"platform:network.cidr": "here"}, "config.platform:network.cidr"),
        ({"platform:domain": "Hermes"}, "is no domain"),
        ({"platform:auth.callback_pages": ["http://app.example/"]}, "is neither an https address"),
        ({"platform:backups.kept_days": 2}, "kept_days is not more than lock_days"),
        ({"platform:alarms.emails": ["nobody"]}, "config.platform:alarms.emails.0"),
    ],
)
def test_what_cannot_be_is_named_with_its_file_and_key(change: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_sizes(_said(change), "Pulumi.staging.yaml")

    assert caught.value.message.startswith("Pulumi.staging.yaml: ")
    assert expected in caught.value.message


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        read_sizes(_said({"platform:host": None, "platform:hosts": {}, "platform:logs_days": 0}), "F")

    assert all(key in caught.value.message for key in ("platform:host:", "platform:hosts", "platform:logs_days"))


@each_case(
    ("text", "expected"),
    [
        ("config: [", "is no YAML"),
        ("", "no mapping config"),
        ("config: 3", "no mapping config"),
        ("config: {3: 4}", "no mapping config"),
        ("configuration: {}", "unknown key configuration"),
    ],
)
def test_what_is_no_stacks_file_is_told(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read_sizes(text, "Pulumi.staging.yaml")


def test_what_pulumis_cli_writes_into_the_file_is_left_alone() -> None:
    assert read_sizes(FILE.read_text() + "encryptionsalt: v1:abc\nsecretsprovider: passphrase\n", "F")


def test_names_at_aws_begin_with_the_environment() -> None:
    place = Place("staging", "111122223333", "eu-central-1", "state")

    assert place.bucket("backups") == "hermesops-staging-backups-111122223333"
    assert place.arn("sqs", "q") == "arn:aws:sqs:eu-central-1:111122223333:q"
    assert place.boundary == "arn:aws:iam::111122223333:policy/hermesops-staging-boundary"
