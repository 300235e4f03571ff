"""What IAM would allow by documents alone, and how far somebody gets who uses every right that they have.

Source: IAM user guide, "Policy evaluation logic" (a deny wins; within a boundary both have to allow) and "IAM JSON
policy elements: Condition operators" (a negated operator matches where the key is missing).
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Document = Mapping[str, Any]
Context = Mapping[str, str]

ADMIN: Document = {"Statement": [{"Sid": "All", "Effect": "Allow", "Action": "*", "Resource": "*"}]}


def decides(document: Document, effect: str, action: str, resource: str, context: Context) -> bool:
    """Whether a statement of this effect is about the request."""
    return any(
        statement["Effect"] == effect
        and _is_about(statement, action, resource)
        and _holds(statement.get("Condition", {}), context)
        for statement in _listed(document["Statement"])
    )


def allows(documents: Sequence[Document], action: str, resource: str, context: Context) -> bool:
    """Whether documents of one kind, together, allow a request."""
    denied = any(decides(document, "Deny", action, resource, context) for document in documents)
    return not denied and any(decides(document, "Allow", action, resource, context) for document in documents)


def _is_about(statement: Mapping[str, Any], action: str, resource: str) -> bool:
    return _named(statement, "Action", action.lower()) and _named(statement, "Resource", resource)


def _named(statement: Mapping[str, Any], element: str, value: str) -> bool:
    patterns = _listed(statement.get(element, statement.get(f"Not{element}")))
    if element == "Action":
        patterns = [pattern.lower() for pattern in patterns]
    return any(_like(pattern, value) for pattern in patterns) is (element in statement)


def _holds(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    return all(
        _OPERATORS[operator](context.get(key), [str(text) for text in _listed(wanted)])
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def _equals(value: str | None, wanted: list[str]) -> bool:
    return value in wanted


def _likes(value: str | None, wanted: list[str]) -> bool:
    return value is not None and any(_like(pattern, value) for pattern in wanted)


_OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "ArnLike": _likes,
    "Bool": _equals,
    "ForAnyValue:StringEquals": _equals,
    "ForAnyValue:StringLike": _likes,
    "Null": lambda value, wanted: ("true" if value is None else "false") in wanted,
    "StringEquals": _equals,
    "StringLike": _likes,
    "StringNotEquals": lambda value, wanted: value not in wanted,
}
"""Another one is a KeyError: what it means has to be said here first."""


def _like(pattern: str, value: str) -> bool:
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - IAM writes a list of one as its element
    return list(value) if isinstance(value, list | tuple) else [value]


@dataclass
class Identity:
    """A role or a user; ``boundary`` is the ARN of a policy."""

    documents: list[Document]
    boundary: str | None = None
    is_user: bool = False


@dataclass
class Account:
    """An account that somebody is in, who does whatever gives them more.

    Attributes:
        policies: Managed policies, by ARN.
        identities: Roles and users that are there, by ARN.
        new: ARNs of roles and users that nobody made yet.
        programs: What others' roles run: the calls, with the ARN of what is changed, that make it run other code, and
            the role.
        context: Of every request.
    """

    policies: dict[str, Document]
    identities: dict[str, Identity]
    new: Sequence[str]
    programs: Mapping[tuple[str, str], str]
    context: Context
    held: set[str] = field(default_factory=set)
    trail: list[str] = field(default_factory=list)

    def may(self, arn: str, action: str, resource: str, **context: str | None) -> bool:
        """Whether an identity may do something now."""
        who = self.identities[arn]
        given = {**self.context, **{_KEYS[key]: value for key, value in context.items() if value is not None}}
        bound = [self.policies[who.boundary]] if who.boundary else [ADMIN]
        return allows(who.documents, action, resource, given) and allows(bound, action, resource, given)

    def take(self, arn: str) -> None:
        """Let somebody act as this identity, and as whomever that leads to."""
        self.held.add(arn)
        while any(step(self, who) for who in tuple(self.held) for step in _STEPS):
            pass

    def note(self, who: str, *words: str) -> bool:
        """Keep the trail; something was gained."""
        self.trail.append(" ".join((who, *words)))
        return True


_KEYS = {"bound": "iam:PermissionsBoundary", "service": "iam:PassedToService"}
_RIGHTS = {
    True: ("iam:PutUserPolicy", "iam:AttachUserPolicy"),
    False: ("iam:PutRolePolicy", "iam:AttachRolePolicy"),
}
_MADE = {True: "iam:CreateUser", False: "iam:CreateRole"}
_LOOSENED = {True: "iam:DeleteUserPermissionsBoundary", False: "iam:DeleteRolePermissionsBoundary"}
_BOUND = {True: "iam:PutUserPermissionsBoundary", False: "iam:PutRolePermissionsBoundary"}
_ENTERED = ("iam:CreateAccessKey", "iam:CreateLoginProfile", "iam:UpdateLoginProfile")
_SERVICES = {"ec2.amazonaws.com": "ec2:RunInstances", "lambda.amazonaws.com": "lambda:CreateFunction"}


def _rewrite_policies(account: Account, who: str) -> bool:
    for arn, document in account.policies.items():
        if document is not ADMIN and account.may(who, "iam:CreatePolicyVersion", arn):
            account.policies[arn] = ADMIN
            return account.note(who, "rewrites", arn)
    return False


def _make(account: Account, who: str) -> bool:
    bounds = [None, *account.policies]
    for arn in account.new:
        is_user = ":user/" in arn
        for bound in bounds if arn not in account.identities else ():
            if account.may(who, _MADE[is_user], arn, bound=bound):
                account.identities[arn] = Identity([], bound, is_user)
                return account.note(who, "makes", arn, "within", str(bound))
    return False


def _widen(account: Account, who: str) -> bool:
    for arn, identity in account.identities.items():
        if ADMIN in identity.documents:
            continue
        if any(account.may(who, action, arn, bound=identity.boundary) for action in _RIGHTS[identity.is_user]):
            identity.documents = [ADMIN]
            return account.note(who, "gives all rights to", arn)
    return False


def _loosen(account: Account, who: str) -> bool:
    for arn, identity in account.identities.items():
        if not identity.boundary:
            continue
        others = [
            policy for policy in account.policies if policy != identity.boundary and account.policies[policy] is ADMIN
        ]
        rebound = next(
            (policy for policy in others if account.may(who, _BOUND[identity.is_user], arn, bound=policy)), None
        )
        if rebound or account.may(who, _LOOSENED[identity.is_user], arn, bound=identity.boundary):
            identity.boundary = None
            return account.note(who, "takes the bound from", arn)
    return False


def _become(account: Account, who: str) -> bool:
    for arn, identity in account.identities.items():
        if arn not in account.held and (_enters(account, who, arn) if identity.is_user else _runs(account, who, arn)):
            account.held.add(arn)
            return account.note(who, "becomes", arn)
    return False


def _enters(account: Account, who: str, user: str) -> bool:
    return any(account.may(who, action, user) for action in _ENTERED)


def _runs(account: Account, who: str, role: str) -> bool:
    passed = any(
        account.may(who, "iam:PassRole", role, service=service) and any(_called(account, who, action))
        for service, action in _SERVICES.items()
    )
    changed = any(runs == role and account.may(who, *call) for call, runs in account.programs.items())
    trusted = account.may(who, "iam:UpdateAssumeRolePolicy", role) or account.may(who, "sts:AssumeRole", role)
    return passed or changed or trusted


def _called(account: Account, who: str, action: str) -> Iterator[bool]:
    """A program of a name that is free: the name is theirs to choose."""
    prefix = re.sub(r":[^:]*$", "", next(arn for _, arn in account.programs if ":function:" in arn))
    environment = next(arn for arn in account.policies).rpartition("/")[2].rpartition("-")[0]
    for name in ("mallory", f"{environment}-mallory"):
        yield account.may(who, action, f"{prefix}:{name}")


_STEPS = (_rewrite_policies, _make, _widen, _loosen, _become)


@cache
def parliament() -> Any:  # noqa: ANN401 - it has no types
    """Make the linter of policies that knows all actions of AWS; importing it takes a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pkg_resources, and of its own regular expressions
        import parliament as linter  # noqa: PLC0415 - only few tests need it
    return linter
