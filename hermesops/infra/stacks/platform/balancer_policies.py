"""Policies of the way of people into a platform on AWS: load balancer, its logs, the hosts' door, sign-in. Pure."""

from hermesops.infra.stacks.platform.policy_check import Check, Program, group_of, is_not, lacks
from hermesops.infra.stacks.registered import Registered

DOOR, _BALANCER = 8449, "balancer"
"""Port of the hosts' door, and the security group from which alone it is reached."""

_EXPIRES = frozenset({"access-logs"})
"""Buckets whose objects are lines about users: none is kept for ever."""

_TLS = "ELBSecurityPolicy-TLS13-1-3-2021-06"
"""TLS 1.3 and nothing older."""

FROM_EVERYWHERE = "console-from-everywhere"
"""The one rule of a load balancer by which every network reaches a name of operators: the settings say so."""

_OF_OPERATORS = "operators"
"""The pool of people who change the fleet by pages."""


def _opens_door(_: Program, resource: Registered) -> bool:
    first, last = resource.inputs.get("fromPort", 0), resource.inputs.get("toPort", 65535)
    source = str(resource.inputs.get("referencedSecurityGroupId", "")).removesuffix("-id")
    is_of_hosts = group_of(resource) == "hosts" and int(first) <= DOOR <= int(last)
    return is_of_hosts and source != _BALANCER


def _unlogged(_: Program, resource: Registered) -> bool:
    logs = resource.inputs.get("accessLogs") or {}
    return not (logs.get("enabled") and logs.get("bucket"))


def _never_expires(program: Program, resource: Registered) -> bool:
    lifecycle = program.beside(resource, "s3.BucketLifecycleConfiguration")
    rules = lifecycle.inputs["rules"] if lifecycle else []
    is_bounded = any(rule.get("status") == "Enabled" and rule.get("expiration", {}).get("days") for rule in rules)
    return resource.name in _EXPIRES and not is_bounded


def _refuses(rule: Registered) -> bool:
    actions, conditions = rule.inputs.get("actions", []), rule.inputs.get("conditions", [])
    names_host_alone = [sorted(condition) for condition in conditions] == [["hostHeader"]]
    return names_host_alone and [action.get("type") for action in actions] == ["fixed-response"]


def _unclosed(program: Program, resource: Registered) -> bool:
    """Whether a further name of a load balancer has no rule that refuses whoever no rule before it lets through."""
    rules = [rule for rule in program.of("lb.ListenerRule") if rule.parent == resource.parent]
    refusals = [rule.inputs["priority"] for rule in rules if _refuses(rule)]
    return not refusals or max(rule.inputs["priority"] for rule in rules) not in refusals


def _lets_everybody(_: Program, resource: Registered) -> bool:
    conditions = resource.inputs.get("conditions", [])
    networks = [network for condition in conditions for network in (condition.get("sourceIp") or {}).get("values", [])]
    is_open = not networks or any(str(network).endswith("/0") for network in networks)
    return not _refuses(resource) and is_open and resource.name != FROM_EVERYWHERE


def _one_factor(_: Program, resource: Registered) -> bool:
    return resource.name == _OF_OPERATORS and resource.inputs.get("mfaConfiguration") != "ON"


def _signs_up(_: Program, resource: Registered) -> bool:
    config = resource.inputs.get("adminCreateUserConfig") or {}
    return resource.name == _OF_OPERATORS and not config.get("allowAdminCreateUserOnly")


def _shows_nothing(program: Program, resource: Registered) -> bool:
    styles = (style.inputs.get("clientId") for style in program.of("cognito.ManagedLoginBranding"))
    return f"{resource.name}-id" not in styles


CHECKS_OF_BALANCER = (
    Check("closed", ("vpc.SecurityGroupIngressRule",), "opens the door beside the load balancer", _opens_door),
    Check("closed", ("lb.ListenerCertificate",), "has a name that no rule closes to others", _unclosed),
    Check("closed", ("lb.ListenerRule",), "lets every network through, which no setting says", _lets_everybody),
    Check("known users", ("cognito.UserPool",), "lets operators in without a second factor", _one_factor),
    Check("known users", ("cognito.UserPool",), "lets people make themselves operators", _signs_up),
    Check("known users", ("cognito.UserPoolClient",), "has no style, without which no page is shown", _shows_nothing),
    Check("protected", ("lb.LoadBalancer",), "can be deleted at AWS", lacks("enableDeletionProtection")),
    Check("TLS only", ("lb.Listener",), "takes requests in the clear", is_not("protocol", "HTTPS")),
    Check("TLS only", ("lb.Listener",), "takes TLS older than 1.3", is_not("sslPolicy", _TLS)),
    Check("TLS only", ("lb.TargetGroup",), "passes requests on in the clear", is_not("protocol", "HTTPS")),
    Check(
        "known users",
        ("lb.LoadBalancer",),
        "lets clients say from which address they come",
        is_not("xffHeaderProcessingMode", "append"),
    ),
    Check("known users", ("lb.LoadBalancer",), "passes malformed headers on", lacks("dropInvalidHeaderFields")),
    Check("judged", ("s3.Bucket",), "is kept for ever", _never_expires),
    Check("judged", ("lb.LoadBalancer",), "keeps no access log", _unlogged),
)
"""All of which have to hold; ``policies`` has them in its own."""
