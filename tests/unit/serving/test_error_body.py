"""Both servers answer an error with one shape, which machines of today read."""

import json
import re
from pathlib import Path

from hermesops.serving.error_body import error_body
from hermesops.serving.server import Answer

PACKAGE = Path(__file__).parents[3] / "hermesops"


def test_an_error_has_a_code_for_programs_and_a_sentence_for_people() -> None:
    assert error_body("no_agent", "there is no such agent") == {"code": "no_agent", "error": "there is no such agent"}


def test_an_error_of_the_platform_service_has_that_shape() -> None:
    answer = Answer.error(403, "refused", "certificate 7 is revoked")
    assert (answer.status, json.loads(answer.body)) == (403, {"code": "refused", "error": "certificate 7 is revoked"})


def test_no_server_words_an_error_by_itself() -> None:
    """``Answer.of`` is for answers that are no errors."""
    calls = [
        call
        for folder in ("access", "agents", "serving")
        for file in (PACKAGE / folder).rglob("*.py")
        for call in re.findall(r"Answer\.of\(\s*([\w.]+)", file.read_text())
    ]
    assert calls
    assert {call for call in calls if "HTTPStatus" in call} == {"HTTPStatus.OK"}
