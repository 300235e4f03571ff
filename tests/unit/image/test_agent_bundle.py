import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import UsageError
from hermesops.image.agent_bundle import bundle
from tests.support.images.build_world import StandInDownloads, image_folder


def _quiet(_: str) -> None: ...


def test_a_bundle_holds_what_a_machine_needs_and_the_same_in_one_file(tmp_path: Path) -> None:
    made = bundle(
        image_folder(tmp_path / "i"), "3.11", cache=tmp_path / "c", downloads=StandInDownloads(), report=_quiet
    )
    wanted = {"requirements.txt", "uv", "skills.tar.gz", "wheels/hermes_agent-0.19.0-py3-none-any.whl"}
    assert made.made
    assert all((made.folder / name).is_file() for name in wanted)
    with tarfile.open(made.folder / "bundle.tar") as archive:
        assert set(archive.getnames()) == wanted
        assert archive.getmember("uv").mode == 0o755
        assert {member.uid for member in archive} == {0}
    assert (made.folder / "uv").stat().st_mode & 0o777 == 0o755


def test_only_skills_come_out_of_the_source_archive(tmp_path: Path) -> None:
    made = bundle(
        image_folder(tmp_path / "i"), "3.11", cache=tmp_path / "c", downloads=StandInDownloads(), report=_quiet
    )
    with tarfile.open(made.folder / "skills.tar.gz") as archive:
        assert archive.getnames() == ["skills/apple/SKILL.md"]


def test_a_second_bundle_of_the_same_locks_is_the_first(tmp_path: Path) -> None:
    definition, downloads = image_folder(tmp_path / "i"), StandInDownloads()
    first = bundle(definition, "3.11", cache=tmp_path / "c", downloads=downloads, report=_quiet)
    calls = downloads.calls
    second = bundle(definition, "3.11", cache=tmp_path / "c", downloads=downloads, report=_quiet)
    assert (second.folder, second.digest, second.made) == (first.folder, first.digest, False)
    assert downloads.calls == calls


def test_two_caches_get_the_same_bytes(tmp_path: Path) -> None:
    definition = image_folder(tmp_path / "i")
    bundles = [
        bundle(definition, "3.11", cache=tmp_path / name, downloads=StandInDownloads(), report=_quiet) for name in "ab"
    ]
    assert bundles[0].digest == bundles[1].digest


@pytest.mark.parametrize("damage", ["changed", "removed", "extra"])
def test_a_damaged_bundle_is_made_again(tmp_path: Path, damage: str) -> None:
    definition, downloads = image_folder(tmp_path / "i"), StandInDownloads()
    first = bundle(definition, "3.11", cache=tmp_path / "c", downloads=downloads, report=_quiet)
    wheel = first.folder / "wheels/hermes_agent-0.19.0-py3-none-any.whl"
    match damage:
        case "changed":
            wheel.write_text("another agent")
        case "removed":
            wheel.unlink()
        case "extra":
            (first.folder / "wheels/extra.whl").write_text("stranger")
    second = bundle(definition, "3.11", cache=tmp_path / "c", downloads=downloads, report=_quiet)
    assert second.made
    assert second.digest == first.digest
    assert not (second.folder / "wheels/extra.whl").exists()


def test_another_uv_is_another_bundle(tmp_path: Path) -> None:
    definition = image_folder(tmp_path / "i")
    folders = {
        bundle(one, "3.11", cache=tmp_path / "c", downloads=StandInDownloads(), report=_quiet).folder
        for one in (definition, replace(definition, uv_sha256="3"))
    }
    assert len(folders) == 2


def test_a_python_without_a_lock_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no lock for Python 3\.14; it has 3\.11"):
        bundle(image_folder(tmp_path / "i"), "3.14", cache=tmp_path / "c", downloads=StandInDownloads(), report=_quiet)
