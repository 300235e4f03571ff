"""What a run imports is compiled once, before its workers start."""

from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc

from tests.support.suite.compiled import is_compiled

ROOT = Path(__file__).parents[3]
TESTS = [f"test_{number}.py" for number in range(5)]
_CONFTEST = """
import pytest
from pathlib import Path

@pytest.hookimpl(trylast=True)
def pytest_xdist_setupnodes():
    print("compiled:", *sorted({path.name.split(".")[0] for path in Path().rglob("*.pyc")}))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder of five test files, a package and a conftest that tells what was compiled before workers start."""
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(_CONFTEST)
    pytester.mkdir("tests")
    for name in TESTS:
        pytester.path.joinpath("tests", name).write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    package = pytester.mkpydir("hermesops")
    package.joinpath("thing.py").write_text("LIMIT = 48611\n")
    return pytester


def run(project: pytest.Pytester, chosen: str) -> pytest.RunResult:
    options = ("-s", "-n", "2", "-p", "tests.support.suite.compiled", "-p", "no:cacheprovider", "-p", "no:schemathesis")
    return project.runpytest_subprocess(*options, chosen)


def test_workers_find_all_that_they_import_compiled_as_pytest_does(project: pytest.Pytester) -> None:
    result = run(project, "tests")
    result.stdout.fnmatch_lines(
        ["compiled: __init__ conftest test_0 test_1 test_2 test_3 test_4 thing", "*assert (1 + 1) == 3*"]
    )
    result.assert_outcomes(failed=len(TESTS))
    for name in TESTS:
        source = project.path / "tests" / name
        compiled = source.parent / "__pycache__" / f"{source.stem}{PYC_TAIL}"
        assert _read_pyc(source, compiled) is not None
        assert is_compiled(source, compiled)
        source.write_text("def test_difference(): pass\n")
        assert not is_compiled(source, compiled)
    constants = [file.read_text() for file in project.path.glob(".hypothesis/constants/*")]
    assert any("48611" in text for text in constants)


def test_a_run_of_one_file_compiles_that_file_alone(project: pytest.Pytester) -> None:
    result = run(project, f"tests/{TESTS[0]}")
    result.stdout.fnmatch_lines("compiled: conftest")
    result.assert_outcomes(failed=1)
