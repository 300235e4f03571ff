"""What is shipped works without the checkout it came from."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hermesops import __version__
from hermesops.base import assets

TOP = assets.folder("roles").parent
FOLDERS = ("roles", "ansible", "pulumi", "images", "runbooks")


def run(*command: str | Path, cwd: Path, home: Path) -> str:
    """Run a command in an environment with nothing of ours in it."""
    kept = {k: v for k, v in os.environ.items() if k.endswith(("_CERT_FILE", "_CA_BUNDLE")) or "proxy" in k.lower()}  # noqa: TID251 - what packages are fetched with
    kept |= {k: v for k, v in os.environ.items() if k.startswith(("UV_", "PIP_"))}  # noqa: TID251 - as above
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **kept},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment far from the checkout, with the wheel in it."""
    place = tmp_path_factory.mktemp("wheel")
    uv = shutil.which("uv")
    assert uv is not None  # a dependency of ours
    home = Path.home()  # uv's cache is there
    run(uv, "build", "--wheel", "--quiet", "--out-dir", place / "dist", TOP, cwd=place, home=home)
    (wheel,) = (place / "dist").glob("*.whl")
    run(uv, "venv", "--quiet", "--python", "3.11", place / "venv", cwd=place, home=home)
    locked = place / "requirements.txt"
    locked.write_text(
        run(
            uv, "export", "--quiet", "--locked", "--no-dev", "--no-emit-project", "--project", TOP, cwd=place, home=home
        )
    )
    python = place / "venv" / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", python, "-r", locked, cwd=place, home=home)
    run(uv, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel, cwd=place, home=home)
    return place / "venv" / "bin"


def test_the_command_of_the_wheel_runs(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "hermesops", "--version", cwd=tmp_path, home=tmp_path) == f"hermesops {__version__}\n"
    assert "provision" in run(installed / "hermesops", "--help", cwd=tmp_path, home=tmp_path)


def test_the_wheel_carries_its_folders(installed: Path, tmp_path: Path) -> None:
    program = (
        "import json; from hermesops.base import assets;"
        f"print(json.dumps({{name: str(assets.folder(name)) for name in {FOLDERS}}}))"
    )
    found = json.loads(run(installed / "python", "-c", program, cwd=tmp_path, home=tmp_path))
    for name in FOLDERS:
        shipped = Path(found[name])
        assert TOP not in shipped.parents
        assert files_of(shipped) == files_of(TOP / name)


def files_of(folder: Path) -> set[str]:
    """Every file below a folder, but for what running it leaves behind."""
    return {
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
