"""The bundle of a platform host: its bytes, its signature, and that the host's script takes it."""

import json
import subprocess
import tarfile
from functools import partial
from pathlib import Path

import pytest

from hermesops.access.identity.signatures import Signers
from hermesops.app import Container
from hermesops.infra.stacks.platform.aws.hosts.user_data import FOLDER, SIGNATURE_NAMESPACE, SIGNER
from hermesops.infra.stacks.platform.spec import HostSpec
from hermesops.machines.image.bundles import platform as platform_bundle
from hermesops.machines.image.bundles.control import ControlBundle
from hermesops.platform.aws import bundle as aws_platform
from hermesops.settings.environment import Environment

PARTS = {platform_bundle.CONTROL: b"control", "hermes-ingest": b"ingest"}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    return tmp_path / "key"


def _written(folder: Path, key: Path, **more: bytes) -> platform_bundle.Bundle:
    sign = partial(Signers(key).sign, namespace=SIGNATURE_NAMESPACE)
    return platform_bundle.write(folder, "1.0", {**PARTS, **more}, {"a": "b"}, sign)


def test_the_same_parts_give_the_same_bytes_and_others_another_version(tmp_path: Path, key: Path) -> None:
    first, two, other = (
        _written(tmp_path / name, key, **more) for name, more in (("1", {}), ("2", {}), ("3", {"loki": b"l"}))
    )

    assert first.version == two.version != other.version
    archive = f"hermesops-{first.version}.tar"
    assert (first.folder / archive).read_bytes() == (two.folder / archive).read_bytes()
    host = {"size": "t3.large", "disk_gib": 20, "signers": [f"ssh-ed25519 {'A' * 68}"]}
    assert HostSpec.model_validate({**host, "version": first.version}).version == first.version


def test_it_is_checked_as_the_host_checks_it(tmp_path: Path, key: Path) -> None:
    bundle = _written(tmp_path, key)
    allowed = bundle.folder / "allowed"
    allowed.write_text(f"{SIGNER} {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n")
    verify = ["ssh-keygen", "-Y", "verify", "-q", "-f", str(allowed), "-I", SIGNER, "-n", SIGNATURE_NAMESPACE, "-s"]

    subprocess.run(
        [*verify, str(bundle.folder / "SHA256SUMS.sig")], input=(bundle.folder / "SHA256SUMS").read_bytes(), check=True
    )
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=bundle.folder, check=True)
    with tarfile.open(bundle.folder / f"hermesops-{bundle.version}.tar") as archive:
        assert archive.getnames() == ["control.tar", "hermes-ingest", "variables.json"]


async def test_the_environments_bundle_says_where_its_parts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels are not fetched here; tests of role hermes_platform_control install from real ones."""
    control = tmp_path / "control"
    control.write_bytes(b"wheels")
    signers = tmp_path / "signers"
    signers.write_text("ada@example.net …\n")
    monkeypatch.setenv("HERMESOPS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMESOPS_ALLOWED_SIGNERS", str(signers))
    monkeypatch.setenv("HERMESOPS_OPERATORS", "verified")
    monkeypatch.setattr("hermesops.machines.image.bundles.router.make", lambda *_: control)
    monkeypatch.setattr(
        "hermesops.platform.image.bundles.control_bundle_of",
        lambda *_: ControlBundle(control, "0123456789abcdef"),
    )

    container = Container(Environment.load(), print)
    bundle = await aws_platform.write_bundle(container.env, container.release_key, print, tmp_path, has_logs=False)

    with tarfile.open(bundle.folder / f"hermesops-{bundle.version}.tar") as archive:
        read = archive.extractfile("variables.json")
        assert read is not None
        variables = json.load(read)
        names = archive.getnames()
        held = archive.extractfile("allowed_signers")
        assert held is not None
        assert held.read() == signers.read_bytes()
    role_variables = {name.removeprefix("hermes_platform_control_"): value for name, value in variables.items()}
    assert role_variables["version"] == "0123456789abcdef"
    assert (role_variables["operators"], role_variables["approvals"], role_variables["revoked_signers"]) == (
        "verified",
        "none",
        "",
    )
    files = {name: value for name, value in variables.items() if value.startswith("/")}
    assert len(files) >= 5
    assert {where.removeprefix(f"{FOLDER}/bundle/") for where in files.values()} <= set(names)
