"""What holds for every test: nothing real is touched, and what this computer lacks is said.

A missing prerequisite skips a test on a laptop and fails it with ``CI`` set (``tests.support.suite.prerequisites``).
Three marks are exempt, because no package registry has what they need; the end of a run counts how many were skipped.
"""

import gc
import os
import shutil
import signal
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from hypothesis import settings

from hermesops.infra.engine.choose import find_cli
from tests.support.real.commands.command import Command
from tests.support.suite.prerequisites import QEMU, has_kvm, require
from tests.support.suite.shard import shard
from tests.support.suite.turns import TURNS, choose_databases, group_of, slowest_by_file, take_turns
from tests.support.worlds.local.kept import kept_or_new_world
from tests.support.worlds.local.left_worlds import lists_folder, sweep

pytest_plugins = ["pytester", "tests.support.suite.costs", "tests.support.suite.compiled"]

_OURS, _TESTS_OWN = "HERMESOPS_", "HERMESOPS_TEST_"
_ALL = "HERMESOPS_TEST_ALL"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PULUMI_ACCESS_TOKEN")

_LONGEST_ID = 100
"""Characters of a parameter that stand in a test's id: each worker sends all ids, and each report has one."""

_MACHINE_PROGRAMS = ("systemd-nspawn", "mmdebstrap", "nft", "ip", "mkfs.ext4", "ssh-keygen")

# What a shell runs in the background ignores Ctrl-C, and so would everything that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ENVIRONMENT = os.environ  # noqa: TID251 - a test run must know what to keep its tests from

# How long an example takes says how busy the computer is, not whether the code is right.
settings.register_profile("sample", deadline=None, max_examples=25)
settings.register_profile("all", deadline=None)
settings.load_profile("all" if _ENVIRONMENT.get(_ALL) else "sample")


@pytest.fixture(autouse=True, scope="session")
def _nothing_real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take real credentials and environments from every test, and give it an empty one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", _tls_context)
        patch.delenv(_ALL, raising=False)  # read by now, and no setting
        for name in list(_ENVIRONMENT):
            if (name.startswith(_OURS) and not name.startswith(_TESTS_OWN)) or name in _CREDENTIALS:
                patch.delenv(name)
        patch.setenv("HERMESOPS_HOME", str(tmp_path_factory.mktemp("hermesops-home")))
        yield


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Take back how a command that ran in this process configured the log: others capture all levels."""
    yield
    if structlog.is_configured() and (context := sys.modules.get("hermesops.cli.context")):
        structlog.reset_defaults()
        context._open_log.cache_clear()


def _tls_context(verify: ssl.SSLContext | str | bool = True, **how: Any) -> ssl.SSLContext:  # noqa: ANN401, FBT001, FBT002 - httpx's
    """A client's context. That of the usual authorities is made once: it takes 25 ms, and most clients use no TLS."""
    is_usual = verify is True and how.get("cert") is None
    return _usual_context() if is_usual else httpx.create_ssl_context(verify=verify, **how)


_usual_context = cache(httpx.create_ssl_context)


@pytest.fixture(scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """One local world with one image for all tests that live in it: building an image takes a minute."""
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("home")) as command:
        yield command


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are imported, and never again among what they hold: it takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(name: str) -> list[pytest.Item] | None:
    """Ask no plugin about the names that a module imports: four of five names are no test's."""
    return None if name.startswith(("test", "Test")) else []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Load schemathesis with the tests that it makes: its import is two fifths of a run of one file."""
    if module_path.name.endswith("openapi.py") and "unit" not in module_path.parts:
        parent.config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text by its length: some have megabytes."""
    if isinstance(val, (str, bytes)) and len(val) > _LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


@pytest.hookimpl(trylast=True)  # the terminal has said by then what runs
def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the worlds of runs that were killed; only the first process of a run does, before there are workers."""
    if hasattr(session.config, "workerinput"):
        return
    for line in sweep(lists_folder()):
        session.config.get_terminal_writer().line(line)


def _has_pulumi() -> bool:
    return find_cli(_ENVIRONMENT) is not None


def _has_qemu() -> bool:
    return shutil.which(QEMU) is not None


_EXEMPT: dict[str, tuple[Callable[[], bool], str]] = {
    "pulumi_cli": (_has_pulumi, "the pulumi command"),
    "qemu": (_has_qemu, QEMU),
    "live": (lambda: False, "to be asked for: -m live, with HERMESOPS_TEST_LIVE_KEY_FILE set"),
}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose turn it is not, run slow ones first, and keep in one worker those that share a setup.

    Tests that boot machines share this computer's links, rules and inotify instances; those that boot whole computers
    would boot one in each worker; a module that takes turns as one sets something up for all its tests. No test is left
    out where somebody chose tests by name or ``HERMESOPS_TEST_ALL`` is set.
    """
    is_chosen = config.option.keyword or any("::" in argument for argument in config.args)
    if not is_chosen and not _ENVIRONMENT.get(_ALL):
        number = shard() >> 16  # tests choose their part of a count by the other half
        config.stash[TURNS] = [*take_turns(items, number), choose_databases(items, number)]
    folders, slowest = [f"{folder}/" for folder in config.getini("testpaths")], slowest_by_file(items)
    # The tests of one file stay in their order: some go on where others have ended.
    items.sort(key=lambda item: (-slowest[item.path], *(not item.nodeid.startswith(folder) for folder in folders)))
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run where xdist took no notice of the group: its word for it is the end of a test's id."""
    grouped = getattr(session.config.option, "loadgroup", False)  # set in workers only
    if grouped and any(i.get_closest_marker("machines") and not i.nodeid.endswith("@machines") for i in session.items):
        pytest.exit("xdist does not group tests under this version of pytest: machines would meet", returncode=3)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail what cannot run here."""
    for mark, (is_here, what) in _EXEMPT.items():
        asked_for = mark == "live" and _is_asked_for(item, "live")
        if item.get_closest_marker(mark) and not asked_for and not is_here():
            pytest.skip(f"{mark}: needs {what}")
    if item.get_closest_marker("qemu") and not _is_asked_for(item, "qemu") and not has_kvm():
        pytest.skip("qemu: takes minutes without KVM, so it is to be asked for: -m qemu, as make soak does")
    if item.get_closest_marker("machines"):
        require(os.geteuid() == 0, "root, to boot machines")
        for program in _MACHINE_PROGRAMS:
            require(_find(program), f"{program}, to boot machines (hermesops doctor says what to install)")


def _is_asked_for(item: pytest.Item, mark: str) -> bool:
    return mark in str(item.config.option.markexpr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped that may be skipped even in CI."""
    skipped = terminalreporter.stats.get("skipped", [])
    counts = {mark: sum(mark in report.keywords for report in skipped) for mark in _EXEMPT}
    shown = ", ".join(f"{mark} {count}" for mark, count in counts.items())
    terminalreporter.write_line(f"skipped, as what they need is in no package registry or has to be asked for: {shown}")


def _find(program: str) -> Path | None:
    # Root's tools live in folders that are not on everybody's PATH.
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    return Path(path) if path else None
