from functools import partial
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.choose import find_cli
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import read_passphrase


def made(kind: str, tmp_path: Path, *, production: bool, path: str = "/nonexistent") -> Engine:
    return make_engine(
        kind,
        EngineConfig(
            backend=tmp_path,
            passphrase=partial(read_passphrase, tmp_path / "not read"),
            environment={"PATH": path, "HOME": str(tmp_path)},
        ),
        production=production,
    )


def cli(folder: Path) -> Path:
    folder.mkdir(parents=True)
    command = folder / "pulumi"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    return command


def test_auto_takes_the_cli_where_there_is_one(tmp_path: Path) -> None:
    path = str(cli(tmp_path / "bin").parent)
    assert made("auto", tmp_path, production=True, path=path).name == "cli"
    assert made("auto", tmp_path, production=False, path=path).name == "cli"
    assert made("embedded", tmp_path, production=False, path=path).name == "embedded"


def test_auto_never_takes_the_embedded_one_in_production(tmp_path: Path) -> None:
    assert made("auto", tmp_path, production=False).name == "embedded"
    with pytest.raises(UsageError, match="no pulumi CLI") as caught:
        made("auto", tmp_path, production=True)
    assert "HERMESOPS_PULUMI_ENGINE=embedded" in str(caught.value.hint)
    assert made("embedded", tmp_path, production=True).name == "embedded"


def test_asking_for_a_cli_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pulumi CLI"):
        made("cli", tmp_path, production=False)


def test_the_cli_is_found_in_pulumis_home(tmp_path: Path) -> None:
    newest = cli(tmp_path / ".pulumi" / "versions" / "3.260.0" / "bin")
    cli(tmp_path / ".pulumi" / "versions" / "3.230.0" / "bin")
    assert find_cli({"PATH": "/nonexistent", "HOME": str(tmp_path)}) == newest
    own = cli(tmp_path / "elsewhere" / "bin")
    assert find_cli({"PATH": "/nonexistent", "PULUMI_HOME": str(tmp_path / "elsewhere")}) == own


def test_a_passphrase_file_must_hold_one(tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    with pytest.raises(RefusedError, match="is missing"):
        read_passphrase(file)
    file.write_text("words\n")
    file.chmod(0o640)
    with pytest.raises(RefusedError, match="may be read by others") as refused:
        read_passphrase(file)
    assert str(refused.value.hint) == f"chmod 600 {file}"
    file.chmod(0o600)
    file.write_text("\n")
    with pytest.raises(RefusedError, match="is empty"):
        read_passphrase(file)
    file.write_text("words\n")
    assert read_passphrase(file) == "words"
