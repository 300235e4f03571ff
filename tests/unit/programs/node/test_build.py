import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hermesops
from hermesops.programs.node import build


def test_the_same_sources_give_the_same_bytes() -> None:
    assert build.zipapp() == build.zipapp()


def test_the_program_runs_without_anything_of_ours(tmp_path: Path) -> None:
    program = tmp_path / "hermes-node"
    build.write(program)
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, "--root", tmp_path, "status"],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        timeout=30,
    )
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["kind"] == "NotReadyError"
    assert b"hermes_gateway" in done.stderr


@pytest.mark.parametrize("packages", [("programs.node", "wire"), ("wire",)])
def test_node_and_the_wire_import_the_standard_library_and_themselves_only(packages: tuple[str, ...]) -> None:
    imported = set()
    for path in (Path(hermesops.__path__[0]) / packages[0].replace(".", "/")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module))
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert foreign
    assert all(name.startswith(tuple(f"hermesops.{package}" for package in packages)) for name in foreign), foreign


def test_a_python_of_another_bytecode_goes_by_the_sources(tmp_path: Path) -> None:
    program = tmp_path / "hermes-node"
    build.write(program)
    unpacked = {}
    with zipfile.ZipFile(program) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            unpacked[name] = b"\0\0\0\0" + data[4:] if name.endswith(".pyc") else data
    assert sum(name.endswith(".pyc") for name in unpacked) > 1
    with zipfile.ZipFile(program, "w") as archive:
        for name, data in unpacked.items():
            archive.writestr(name, data)
    done = subprocess.run([sys.executable, "-I", program, "--help"], capture_output=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
