import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.machines.image.definition import AgentPins
from hermesops.machines.image.packages.agent_files import skills_of, uv_of
from hermesops.machines.image.packages.download import Pip
from tests.support.images.build_world import image_folder


class OneWheel(Pip):
    """Puts one wheel there, whatever is asked for."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.asked = ""

    def wheels(self, requirements: Path, folder: Path, *, python: str) -> None:
        self.asked = f"{requirements.read_text()} {python}"
        folder.mkdir()
        with zipfile.ZipFile(folder / "uv-1-py3-none-any.whl", "w") as archive:
            archive.writestr(self.member, "binary")


def sdist(folder: Path, *names: str) -> Path:
    path = folder / "hermes_agent-0.19.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"hermes_agent-0.19.0/{name}")
            member.size, member.mtime, member.mode = len(name), len(names), 0o755 if name.endswith(".sh") else 0o600
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


def _pins(folder: Path) -> AgentPins:
    pins = image_folder(folder / "image").agent
    assert pins
    return pins


def test_uv_comes_out_of_the_wheel_that_the_image_pins(tmp_path: Path) -> None:
    downloads = OneWheel("uv-1.data/scripts/uv")
    assert uv_of(_pins(tmp_path), tmp_path, downloads=downloads) == b"binary"
    assert downloads.asked == "uv==1 --hash=sha256:2\n 3.11"


def test_a_wheel_without_uv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenInvariantError, match="holds no uv"):
        uv_of(_pins(tmp_path), tmp_path, downloads=OneWheel("README"))


def test_only_skills_come_out_of_the_source_archive_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    names = ("skills/apple/run.sh", "skills/apple/SKILL.md", "skills/../../etc/passwd", "gateway/run.py")
    (tmp_path / "other").mkdir()
    packed = skills_of(sdist(tmp_path, *names))
    assert packed == skills_of(sdist(tmp_path / "other", *reversed(names), "more"))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        modes = {member.name: member.mode for member in archive}
        content = archive.extractfile("skills/apple/SKILL.md")
        assert content is not None
        assert content.read() == b"skills/apple/SKILL.md"
    assert modes == {"skills/apple/SKILL.md": 0o644, "skills/apple/run.sh": 0o755}


def test_a_source_archive_without_skills_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenInvariantError, match="holds no skills"):
        skills_of(sdist(tmp_path, "gateway/run.py"))
