"""What is shipped works without the checkout it came from, and without the extras that most people do without."""

import json
import os
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from hermesops import __version__
from hermesops.base import assets
from tests.support.billing.many_subscriptions import prepared
from tests.support.real.commands.command import Command, Ran, local_world

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    place = tmp_path_factory.mktemp("wheel")
    run(_uv(), "build", "--wheel", "--quiet", "--out-dir", place, TOP, cwd=place, home=Path.home())
    (wheel,) = place.glob("*.whl")
    return wheel


def _uv() -> str:
    uv = shutil.which("uv")
    assert uv is not None  # a dependency of ours
    return uv


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment far from the checkout, with the wheel in it and no extra."""
    place, uv = tmp_path_factory.mktemp("installed"), _uv()
    home = Path.home()  # uv's cache is there
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


@pytest.mark.turns(60)
def test_the_command_of_the_wheel_runs_and_finds_its_folders(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "hermesops", "--version", cwd=tmp_path, home=tmp_path) == f"hermesops {__version__}\n"
    assert "provision" in run(installed / "hermesops", "--help", cwd=tmp_path, home=tmp_path)
    assert "no instances" in run(installed / "hermesops", "instance", "list", cwd=tmp_path, home=tmp_path)
    program = (
        "import json; from hermesops.base import assets;"
        f"print(json.dumps({{name: str(assets.folder(name)) for name in {FOLDERS}}}))"
    )
    document = json.loads(run(installed / "python", "-c", program, cwd=tmp_path, home=tmp_path))
    for name in FOLDERS:
        assert TOP not in Path(document[name]).parents
        assert files_of(Path(document[name])) == files_of(TOP / name)


def test_the_wheel_carries_each_module_and_its_folders(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for place, name in [("hermesops", "hermesops"), *((f"hermesops/_shipped/{name}", name) for name in FOLDERS)]:
        assert {f"{place}/{file}" for file in files_of(TOP / name)} - names == set(), name
    assert f"hermesops-{__version__}.dist-info/entry_points.txt" in names


@pytest.mark.turns(25)
async def test_a_command_that_lacks_an_extra_says_which_and_what_it_says_installs_it(
    installed: Path, tmp_path: Path
) -> None:
    program = (str(installed / "hermesops"),)
    command = Command(tmp_path / "home", {"HERMESOPS_LOCAL_DRIVER": "sim"}, program)
    for words in (("local", "up"), ("local", "serve")):
        hint = lacking(await command.run(*words), "local", "starlette", "uvicorn", "websockets")
    assert hint[:3] == ["uv", "pip", "install"]
    run(_uv(), *hint[1:], cwd=tmp_path, home=Path.home())

    async with local_world(tmp_path / "home", driver="sim", program=program) as world:  # simulated images need no extra
        await world.ok("provision", "ada", "--plan", "light")
        lacking(await world.run("fleet", "converge", "ada"), "roles", "ansible-core", "ansible-runner")
        _, billed = prepared(world)
        (tmp_path / "event").write_text("{}")
        lacking(
            await billed.run("billing", "apply", str(tmp_path / "event"), "--signature", "t=1"), "billing", "stripe"
        )
        rented = world.with_variables(**as_if_rented(world.home))
        lacking(await rented.run("stack", "preview", "platform"), "aws", "pulumi-aws")
        for words in (("image", "build"), ("release", "build")):
            lacking(await rented.run(*words), "build", "ansible-core", "ansible-runner", "pip", "uv")


def lacking(ran: Ran, extra: str, *packages: str) -> list[str]:
    """The command that the hint of a failed one names; its error says which extra and packages are missing."""
    assert (ran.exit_code, "Traceback" in ran.stderr) == (2, False), str(ran)
    assert f"needs extra {extra} of hermesops" in ran.stderr, str(ran)
    assert f"(missing: {', '.join(packages)})" in ran.stderr, str(ran)
    hint = ran.stderr.split("hint: run: ")[1].splitlines()[0]
    assert hint.endswith(f"'hermesops[{extra}]'")
    return shlex.split(hint)


def as_if_rented(home: Path) -> dict[str, str]:
    """Variables of an environment whose vendor is a local world."""
    world = home / "local" / "world"
    url = json.loads((world / "world.json").read_text())["api_url"]
    (home / "staging").mkdir(exist_ok=True)
    key = str(world / "api.key")
    return {"HERMESOPS_ENV": "staging", "HERMESOPS_API_URL": f"{url}/api/v1", "HERMESOPS_API_KEY_FILE": key}


def files_of(folder: Path) -> set[str]:
    """Every file below a folder, but for what running it leaves behind."""
    return {
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
