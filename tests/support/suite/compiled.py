"""A pytest plugin: it compiles the checkout once, on every processor, before a run's workers start.

In a new checkout each worker would do so by itself, since all begin at once. Files that are compiled already cost a
look at their first bytes. What cannot be compiled here is for the worker that imports it to tell.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterable
from compileall import compile_file
from contextlib import suppress
from fnmatch import fnmatch
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion.rewrite import (  # tests/contract/suite/test_compiled.py notices where it changes
    PYC_TAIL,
    _rewrite_test,
    _write_pyc,
    get_cache_dir,
)
from hypothesis.internal.constants_ast import constants_from_module
from pytest import Config  # noqa: PT013 - a type of hooks

PACKAGE, SUPPORT = "hermesops", "tests/support"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: Config, specs: list[object]) -> None:
    """Compile what a run of folders imports; a run of single files imports little."""
    folders = [Path(argument) for argument in config.args if Path(argument).is_dir()]
    if len(specs) > 1 and folders and not sys.dont_write_bytecode:
        compile_all(config, folders)


def compile_all(config: Config, folders: Iterable[Path]) -> None:
    """Compile the package, the tests' support, and the tests below these folders."""
    tests = [file for folder in folders for file in folder.rglob("*.py")]
    sources = [file for folder in (PACKAGE, SUPPORT) for file in (config.rootpath / folder).rglob("*.py")]
    files = sorted({file.resolve() for file in (*tests, *sources)})
    count = os.cpu_count() or 1
    # Forks: they have pytest's own settings, and no thread runs yet.
    forks = multiprocessing.get_context("fork")
    children = [forks.Process(target=_compile, args=(config, files[first::count])) for first in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def _compile(config: Config, files: Iterable[Path]) -> None:
    patterns = (*config.getini("python_files"), "conftest.py")
    for file in files:
        with suppress(Exception):
            if any(fnmatch(file.name, pattern) for pattern in patterns):
                _rewrite(config, file)
                continue
            compile_file(file, quiet=2)
            if file.is_relative_to(config.rootpath / PACKAGE):
                _gather_constants(file)


def _rewrite(config: Config, file: Path) -> None:
    """Compile a test's file as pytest does, with its assertions rewritten."""
    compiled = get_cache_dir(file) / f"{file.stem}{PYC_TAIL}"
    if is_compiled(file, compiled):
        return
    compiled.parent.mkdir(exist_ok=True)
    stat, code = _rewrite_test(file, config)
    state: Any = SimpleNamespace(trace=lambda _: None)
    _write_pyc(state, code, stat, compiled)


def is_compiled(source: Path, compiled: Path) -> bool:
    """Whether a file of bytecode is of this Python and of the source as it is. Source: PEP 552, timestamps."""
    stat = source.stat()
    of_source = b"".join((int(number) & 0xFFFFFFFF).to_bytes(4, "little") for number in (stat.st_mtime, stat.st_size))
    try:
        with compiled.open("rb") as file:
            return file.read(16) == MAGIC_NUMBER + bytes(4) + of_source
    except OSError:
        return False


def _gather_constants(file: Path) -> None:
    """Have hypothesis keep the constants of a file: before its first example it reads those of all modules."""
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    constants_from_module(module)
