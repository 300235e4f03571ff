"""Builds the root of machines without an image: a Debian or Ubuntu root made by mmdebstrap from a definition.

The folder's name carries the definition's hash; it appears whole or not at all and never changes afterwards, since
machines have it mounted below their own disk.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

from hermesops.base import child_environment
from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError, UsageError
from hermesops.localcloud.drivers.nspawn.computer.command import holds_within, run
from hermesops.localcloud.server.process import try_lock

_RECIPE = "2"
"""Raised when this module makes something else of the same definition."""

_OTHER_BUILDER_S = 900.0
_MASK = "/dev/null"
_HOST_SETTINGS = ("Proxy", "CaInfo", "CaPath", "Check-Valid-Until", "Check-Date", "Verify-Peer", "SSLCert", "SSLKey")


@dataclass(frozen=True)
class BaseDefinition:
    """The definition of a base, as in ``images/<name>/definition.toml``.

    Attributes:
        platform_packages: Packages that only the platform's machine needs: ``for_platform`` has them.
        needs: Files of this computer that the build needs beyond mmdebstrap, each with the package that brings it.
            They decide whether it can be built, not what comes of it.
    """

    name: str
    suite: str
    components: tuple[str, ...]
    packages: tuple[str, ...]
    masked: tuple[str, ...]
    excluded: tuple[str, ...]
    kept: tuple[str, ...]
    platform_packages: tuple[str, ...] = field(default=(), repr=False)
    needs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def for_platform(self) -> "BaseDefinition":
        """The base with the packages of the platform's machine as well; itself if it has none."""
        if not self.platform_packages:
            return self
        packages = (*self.packages, *self.platform_packages)
        return replace(self, name=f"{self.name}-platform", packages=packages, platform_packages=())

    @property
    def digest(self) -> str:
        """Hash of all inputs of the build, except the day's package versions."""
        return hashlib.sha256(f"{_RECIPE} {self!r}".encode()).hexdigest()[:12]


def find_definition(images: Path, name: str) -> Path:
    """The folder below ``images`` that describes the base of that name.

    Raises:
        UsageError: There is none.
    """
    known = sorted(path.parent.name for path in images.glob("base-*/definition.toml"))
    if name not in known:
        raise UsageError(f"there is no base {name!r}", hint=f"set local.base to one of {', '.join(known)}")
    return images / name


def read_definition(folder: Path) -> BaseDefinition:
    """Read the definition of the base that ``folder`` describes.

    Raises:
        BrokenInvariantError: The file is missing or lacks something; the installation is damaged.
    """
    path = folder / "definition.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return BaseDefinition(
            name=folder.name,
            suite=raw["suite"],
            platform_packages=tuple(raw.get("platform_packages", ())),
            needs=raw.get("needs", {}),
            **{key: tuple(raw[key]) for key in ("components", "packages", "masked", "excluded", "kept")},
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise BrokenInvariantError(f"{path}: {error}", hint="install hermesops again") from error


def has_base(definition: BaseDefinition, cache: Path) -> bool:
    """Whether the base is in ``cache``."""
    return (_home(definition, cache) / "base.json").exists()


def _home(definition: BaseDefinition, cache: Path) -> Path:
    return cache / f"{definition.name}-{definition.digest}"


def ensure_base(definition: BaseDefinition, cache: Path, report: Callable[[str], None]) -> Path:
    """The base's root in ``cache``, built first if it is not there (half a minute, with the network).

    Safe to call from several processes at once: one builds, the others wait.

    Raises:
        RefusedError: This computer lacks something that the build needs; the hint names the packages.
        UnavailableError: mmdebstrap failed, most often for want of a package mirror.
    """
    home = _home(definition, cache)
    if has_base(definition, cache):
        return home / "root"
    _refuse_what_is_missing(definition)
    cache.mkdir(parents=True, exist_ok=True)
    with _only_builder(cache / f".{home.name}.lock", report) as lock:
        if not has_base(definition, cache):
            _build(definition, home, lock, report)
    return home / "root"


def _refuse_what_is_missing(definition: BaseDefinition) -> None:
    missing = [path for path in definition.needs if not Path(path).exists()]
    if missing:
        packages = " ".join(sorted({definition.needs[path] for path in missing}))
        raise RefusedError(
            f"this computer lacks {', '.join(missing)}, and {definition.name} cannot be built without",
            hint=f"apt-get install {packages} (where a Debian lacks it, its backports have it)",
        )


@contextmanager
def _only_builder(lock: Path, report: Callable[[str], None]) -> Iterator[int]:
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(descriptor):
            report("another process builds the base; waiting for it")
            if not holds_within(lambda: try_lock(descriptor), _OTHER_BUILDER_S, every_s=0.5):
                raise UnavailableError(f"another process has been building the base for {_OTHER_BUILDER_S:g} s: {lock}")
        yield descriptor
    finally:
        os.close(descriptor)


def _build(definition: BaseDefinition, home: Path, lock: int, report: Callable[[str], None]) -> None:
    building = home.with_name(f".{home.name}.building")
    shutil.rmtree(building, ignore_errors=True)  # left by a build that was killed; the lock says it is dead
    building.mkdir(mode=0o755)
    report(f"building the base {home.name} with mmdebstrap")
    try:
        _debootstrap(definition, building, lock)
        _finish(definition, building / "root")
        versions = _versions(building / "root")
        manifest = {"definition": definition.digest, "suite": definition.suite, "packages": versions}
        (building / "base.json").write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
        building.rename(home)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    report(f"built the base {home.name}: {len(versions)} packages")


def _debootstrap(definition: BaseDefinition, building: Path, lock: int) -> None:
    """Run mmdebstrap with mounts of its own, which end with it, however it ends.

    It holds the lock too: when we are killed it goes on for a while, and no other build may use its folder then.
    """
    arguments = ["unshare", "--mount", "--propagation", "slave"]
    arguments += ["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory"]
    arguments += [f"--include={','.join(definition.packages)}", f"--components={','.join(definition.components)}"]
    arguments += [f"--aptopt={line}" for line in _apt_settings()]
    arguments += [f"--extract-hook={_hook(definition, building)}"]
    log = building / "mmdebstrap.log"
    with log.open("wb") as sink:
        done = subprocess.run(
            [*arguments, definition.suite, str(building / "root"), *_mirrors(definition.suite)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],
            env=child_environment.made(child_environment.NETWORK),
            check=False,
        )
    if done.returncode != 0:
        errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("E:")]
        raise UnavailableError(
            f"mmdebstrap could not build the base: {errors[-1] if errors else f'exit {done.returncode}'}",
            hint="apt update must work on this computer; its mirror, proxy and certificates are used",
        )


def _hook(definition: BaseDefinition, building: Path) -> Path:
    """A script that has dpkg leave out what the definition excludes, once the essential packages are extracted.

    As mmdebstrap's option ``--dpkgopt`` the same lines slow the extraction down: it then filters each package by a
    Python program (a fifth of the whole build, measured with 1.3.5). So it extracts those files, and dpkg, which
    installs the same packages next, brings back those that are kept.
    """
    lines = [*(f"path-exclude={pattern}" for pattern in definition.excluded)]
    lines += [f"path-include={pattern}" for pattern in definition.kept]
    options, script = building / "dpkg.cfg", building / "extracted.sh"
    options.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    removed = " ".join(f'"$1"{pattern}' for pattern in definition.excluded)
    script.write_text(
        f'#!/bin/sh\nset -e\nrm -rf {removed}\ncp {quote(str(options))} "$1"/etc/dpkg/dpkg.cfg.d/hermesops\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script


def _apt_settings() -> list[str]:
    """The settings with which this computer's apt reaches its mirror: mmdebstrap does not read them by itself."""
    lines = run(["apt-config", "dump", "Acquire"]).splitlines()
    return [line for line in lines if line.split(" ", 1)[0].rpartition("::")[2] in _HOST_SETTINGS]


def _mirrors(suite: str) -> list[str]:
    """This computer's package sources for that suite; none lets mmdebstrap choose."""
    template = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    lines = run(["apt-get", "indextargets", "--format", template, "Created-By: Packages"]).splitlines()
    ours = [line for line in lines if line.split()[2] in (suite, f"{suite}-updates", f"{suite}-security")]
    has_suite = any(line.split()[2] == suite for line in ours)
    return sorted(set(ours)) if has_suite else []


def _finish(definition: BaseDefinition, root: Path) -> None:
    """Prepare the root for booting any number of machines."""
    for unit in definition.masked:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to(_MASK)
    # How this computer reaches its mirror does not concern a machine, and may hold a password.
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    keys = (*root.glob("etc/ssh/ssh_host_*"), *root.glob("etc/ssl/private/*.key"))
    for path in (*keys, *root.glob("var/log/*.log"), *root.glob("var/log/apt/*")):
        path.unlink()
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf", "var/lib/dbus/machine-id"):
        (root / name).unlink(missing_ok=True)
    (root / "root").chmod(0o700)
    for stale in (root / "var/lib/apt/lists", root / "var/cache/apt", root / "tmp"):
        for path in stale.glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _versions(root: Path) -> dict[str, str]:
    admin = f"--admindir={root / 'var/lib/dpkg'}"
    listed = run(["dpkg-query", admin, "--show", "--showformat=${Package} ${Version}\n"])
    return dict(line.split(" ", 1) for line in listed.splitlines())
