"""The committed description of the API is the one of its routes, and names every answer."""

from hermesops.api.application import openapi
from tests.support.documents import openapi as written

METHODS = {"get", "post", "patch", "delete"}


def test_the_committed_description_is_the_one_of_the_routes() -> None:
    assert written.file().read_text(encoding="utf-8") == written.text(), "run: make reference"


def test_each_operation_says_what_it_may_answer_instead() -> None:
    document = openapi()
    assert document["openapi"] == "3.1.0"
    operations = [
        (f"{method} {path}", operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]
    assert len(operations) >= 16
    for title, operation in operations:
        assert title.split(" ")[1].startswith("/api/hermes/"), title
        for status in ("401", "403", "422", "429", "503"):
            assert "application/problem+json" in operation["responses"][status]["content"], (title, status)


def test_no_field_of_a_request_is_open() -> None:
    schemas = openapi()["components"]["schemas"]
    for name in ("ChatRequest", "ApprovalRequest", "JobRequest", "SettingsRequest", "SubscribeRequest", "KeyRequest"):
        assert schemas[name]["additionalProperties"] is False, name
