"""Patterns of subjects: one that code of a pull request, of a branch or of a new environment matches is told."""

from hermesops.model.access.pipeline_subject import unreviewed_match

OPEN = (
    *("*", "repo:*", "repo:o/*", "repo:o/n:*", "repo:o/n:pull_request", "repo:o/n:ref:refs/pull/*", "*:pull_request"),
    *(
        "repo:o/n:ref:refs/heads/*",
        "repo:o/n:ref:*",
        "repo:o/n:environment:*",
        "repo:o/n:ref:refs/tags/*",
        "?epo:o/n:*",
    ),
    *("project_path:o/n:ref_type:branch:ref:*", "project_path:o/n:*"),
)
CLOSED = (
    *("repo:o/n:environment:production", "repo:o/n:ref:refs/heads/main", "repo:o/n:ref:refs/heads/release-*", ""),
    *("repo:o/n:environment:production-*", "project_path:o/n:ref_type:branch:ref:main", "system:serviceaccount:h:p"),
)


def test_patterns_that_unreviewed_code_matches_are_told_with_its_subject() -> None:
    assert [pattern for pattern in OPEN if not unreviewed_match(pattern)] == []
    assert unreviewed_match("repo:o/n:pull_*") == "repo:o/n:pull_request"


def test_those_of_main_alone_are_not() -> None:
    assert {pattern: unreviewed_match(pattern) for pattern in CLOSED} == dict.fromkeys(CLOSED, "")
