"""Subjects of pipelines, claim ``sub`` of their tokens: which patterns code that nobody reviewed would match. Pure.

Source: GitHub Docs, "OpenID Connect reference", example subject claims; GitLab Docs, "OpenID Connect in CI/CD".
"""

from fnmatch import fnmatchcase

_UNREVIEWED = (
    "pull_request",
    "ref:refs/pull/1/merge",
    "ref:refs/heads/a-branch-that-anybody-makes",
    "ref:refs/tags/a-tag-that-anybody-makes",
    "environment:an-environment-that-a-branch-names",
    "ref_type:branch:ref:a-branch-that-anybody-makes",
)
"""What jobs of code that nobody reviewed call themselves, after their repository."""


def unreviewed_match(pattern: str) -> str:
    """A subject of unreviewed code that a pattern matches; empty for none.

    Args:
        pattern: ``*`` and ``?`` as in a shell.
    """
    repository = ":".join(pattern.split(":")[:2]).replace("*", "any").replace("?", "a")
    subjects = (f"{owner}:{name}" for owner in (repository, "repo:any/any") for name in _UNREVIEWED)
    return next((subject for subject in subjects if fnmatchcase(subject, pattern)), "")
