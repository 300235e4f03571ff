"""Archives of the shape that a tag of upstream's has: a setup.py that refuses, folders that are no packages, a lock.

The tag's own sources are in no package registry. Everything in these is made here, or taken from the wheel of 0.19.0.
"""

import functools
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.requirements import pin_of
from hermesops.wire.documents.lock import Blob

TOP = "hermes-agent-2026.9.24"
REFUSAL = "Building wheels or sdists for hermes-agent is not supported"
EXTRAS = ("mcp", "messaging", "web")
_SETUP = """
import os, sys
from setuptools import find_namespace_packages, setup
if os.environ.get("HERMES_NIX_BUILD") != "1" and {"bdist_wheel", "sdist"} & set(sys.argv):
    raise SystemExit("REFUSAL")
EXTRA
setup(
    py_modules=sorted(name[:-3] for name in os.listdir(".") if name.endswith(".py") and name != "setup.py"),
    packages=find_namespace_packages(include=[name for top in PACKAGES for name in (top, top + ".*")]),
    package_data={"": ["*", "**/*"]},
)
"""
_LIBRARY = """
[[package]]
name = "{name}"
version = "{version}"
source = {{ registry = "https://index.invalid/simple" }}
wheels = [
    {{ url = "https://files.invalid/{file}", hash = "sha256:{sha256}", size = {size} }},
]
"""


@dataclass
class SourceShape:
    """What an archive holds; change it before it is packed.

    Attributes:
        version: The agent's.
        files: By path below the top.
        packages: Top-level packages; other folders are none.
        libraries: Their wheels.
        pythons: As ``requires-python`` says it.
        extra: More lines of ``setup.py``.
        build: Requirements of the build.
    """

    version: str
    files: dict[str, bytes]
    packages: tuple[str, ...]
    libraries: tuple[Blob, ...] = ()
    pythons: str = ">=3.11,<3.15"
    extra: str = ""
    build: tuple[str, ...] = ("setuptools==83.0.0", "wheel")
    lock: str = ""
    members: list[tarfile.TarInfo] = field(default_factory=list)

    def tree(self) -> dict[str, bytes]:
        """All files."""
        return {
            **self.files,
            "setup.py": self._setup().encode(),
            "pyproject.toml": self._project().encode(),
            "uv.lock": (self.lock or self.upstream_lock()).encode(),
        }

    def upstream_lock(self) -> str:
        """As ``uv lock`` writes it."""
        pins = [(pin_of(blob), blob) for blob in self.libraries]
        names = "".join(f'    {{ name = "{pin.name}" }},\n' for pin, _ in pins)
        extras = "".join(f"{extra} = []\n" for extra in EXTRAS)
        head = f'version = 1\nrevision = 3\nrequires-python = "{self.pythons}"\n\n[[package]]\nname = "hermes-agent"\n'
        head += f'version = "{self.version}"\nsource = {{ editable = "." }}\ndependencies = [\n{names}]\n'
        head += f"\n[package.optional-dependencies]\n{extras}"
        return head + "".join(
            _LIBRARY.format(name=pin.name, version=pin.version, file=blob.name, sha256=blob.sha256, size=blob.size)
            for pin, blob in pins
        )

    def packed(self, path: Path) -> PinnedFile:
        """Write the archive, a tar.gz or a zip as its name says."""
        content = io.BytesIO()
        if path.suffix == ".zip":
            with zipfile.ZipFile(content, "w") as archive:
                for name, data in self.tree().items():
                    archive.writestr(f"{TOP}/{name}", data)
        else:
            self._tar(content)
        path.write_bytes(content.getvalue())
        return pinned(path)

    def _tar(self, content: io.BytesIO) -> None:
        with (
            gzip.GzipFile(fileobj=content, mode="wb", mtime=0, compresslevel=1) as stream,
            tarfile.open(fileobj=stream, mode="w") as archive,
        ):
            for name, data in sorted(self.tree().items()):
                member = tarfile.TarInfo(f"{TOP}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
            for member in self.members:
                archive.addfile(member, io.BytesIO(bytes(member.size)))

    def _setup(self) -> str:
        own = {"REFUSAL": REFUSAL, "EXTRA": self.extra, "PACKAGES": repr(self.packages)}
        return functools.reduce(lambda text, item: text.replace(*item), own.items(), _SETUP)

    def _project(self) -> str:
        wanted = [f"{pin.name}=={pin.version}" for pin in map(pin_of, self.libraries)]
        extras = "".join(f"{extra} = []\n" for extra in EXTRAS)
        return (
            f'[project]\nname = "hermes-agent"\nversion = "{self.version}"\nrequires-python = "{self.pythons}"\n'
            f"dependencies = {wanted!r}\n\n[project.optional-dependencies]\n{extras}\n"
            f'[build-system]\nrequires = {list(self.build)!r}\nbuild-backend = "setuptools.build_meta"\n'
        )


def pinned(path: Path) -> PinnedFile:
    """A file as an operator names it."""
    return PinnedFile((str(path),), hashlib.sha256(path.read_bytes()).hexdigest())


def small_agent(version: str = "0.21.5") -> SourceShape:
    """The smallest tree that says of the agent what releases ask for."""
    return SourceShape(
        version,
        {
            "hermes_cli/__init__.py": b"",
            "hermes_cli/config.py": b'DEFAULT_CONFIG = {\n    "_config_version": 45,\n}\n',
            "gateway/__init__.py": b"",
            "gateway/config.py": b"systemd_watchdog_seconds = 0\n",
            "run_agent.py": b"",
            "skills/greet/SKILL.md": b"Greet.\n",
            "optional-skills/sing/SKILL.md": b"Sing.\n",
            "locales/en.yaml": b"hello: Hello\n",
        },
        ("hermes_cli", "gateway"),
    )


def real_agent(wheel: Path, libraries: Iterable[Blob], *, version: str = "0.19.0", pythons: str) -> SourceShape:
    """The tree of an agent that runs: what the wheel of 0.19.0 holds, and the libraries of an image's release."""
    files: dict[str, bytes] = {"skills/greet/SKILL.md": b"---\nname: greet\ndescription: Greets.\n---\nGreet.\n"}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            top, _, rest = name.partition("/")
            if top.endswith(".data"):
                files[rest.partition("/")[2]] = archive.read(name)
            elif not top.endswith(".dist-info") and not name.endswith("/"):
                files[name] = archive.read(name)
    return SourceShape(version, files, _packages(files), tuple(libraries), pythons)


def _packages(files: Mapping[str, bytes]) -> tuple[str, ...]:
    tops = {name.split("/")[0] for name in files if name.endswith(".py") and "/" in name}
    return tuple(sorted(top for top in tops if top.isidentifier()))
