"""AWS's alarms on technology and money, forwarded to the platform's Alertmanager.

CloudWatch and Budgets publish to a topic, the topic fills a queue, and the host's service ``hermes-platform-alarms``
forwards the queue to the Alertmanager beside it. AWS cannot call Alertmanager, which requires client certificates of
our authority. Alarms about a queue that is not read go to a second topic, which sends e-mails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import Statement, allow, deny, document
from hermesops.infra.stacks.platform.spec import AlarmSpec, Place

_KEPT_S = 14 * 24 * 3600
_VISIBLE_S = 120
_TRIES = 20
_POLL_S = 20
_WAITING_S = 900
_GIB = 1024**3
_DAY_S = 24 * 3600
_REFUSED = 20
"""Requests in five minutes: a host that is replaced costs some, and pages by itself."""


@dataclass(frozen=True)
class Alarm:
    """Condition and text of an alarm.

    Attributes:
        name: Lower-case words with hyphens; the alarm's name without the environment's prefix.
        summary: One sentence for the engineer on call.
        severity: ``page`` or ``ticket``, as rules of Prometheus have it.
        namespace: CloudWatch's namespace of the metric.
        metric: Name of the metric.
        dimensions: CloudWatch's dimensions of the metric.
        statistic: As ``Average``.
        above: True if ``threshold`` is an upper limit; else it is a lower one.
        period_s: Seconds of one value.
        periods: Number of consecutive values that trigger the alarm.
        missing: Treatment of absent values: ``breaching``, ``notBreaching`` or ``missing``.
        by_mail: True if the alarm means that Alertmanager may not receive alarms; it is sent by e-mail.
    """

    name: str
    summary: str
    severity: str
    namespace: str
    metric: str
    dimensions: Mapping[str, Input[str]]
    threshold: float
    statistic: str = "Average"
    above: bool = True
    period_s: int = 300
    periods: int = 3
    missing: str = "missing"
    by_mail: bool = False


@dataclass(frozen=True)
class AlarmsArgs:
    """Alarms.

    Attributes:
        key_arn: Seals topics and queues; its policy lets CloudWatch and Budgets use it.
        alarms: When to tell.
    """

    place: Place
    spec: AlarmSpec
    key_arn: Input[str]
    alarms: Sequence[Alarm] = field(default=())


class Alarms(pulumi.ComponentResource):
    """The topics, the queue, a budget, and alarms.

    Attributes:
        queue_url: Whence the host takes.
        queue_arn: Of that queue.
    """

    queue_url: Output[str]
    queue_arn: Output[str]

    def __init__(self, name: str, args: AlarmsArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Alarms", name, None, opts)
        self._args = args
        self._children = ResourceOptions(parent=self)
        topic, mails = self._topic("alarms"), self._topic("mails")
        queue = self._queue(name, topic)
        aws.sns.TopicSubscription(name, topic=topic.arn, protocol="sqs", endpoint=queue.arn, opts=self._children)
        for number, address in enumerate(args.spec.emails, start=1):
            aws.sns.TopicSubscription(
                f"mail-{number}", topic=mails.arn, protocol="email", endpoint=address, opts=self._children
            )
        self._budget(topic)
        waiting = Alarm(
            "alarms-not-taken",
            "Alarms of AWS wait in their queue: the host's hermes-platform-alarms does not take them",
            "page",
            "AWS/SQS",
            "ApproximateAgeOfOldestMessage",
            {"QueueName": queue.name},
            _WAITING_S,
            statistic="Maximum",
            periods=1,
            missing="notBreaching",
            by_mail=True,
        )
        for alarm in (*args.alarms, waiting):
            self._alarm(alarm, [mails.arn] if alarm.by_mail else [topic.arn])
        self.queue_url, self.queue_arn = queue.url, queue.arn
        self.register_outputs({"queue_url": self.queue_url, "queue_arn": self.queue_arn})

    def _topic(self, use: str) -> aws.sns.Topic:
        place = self._args.place
        topic = aws.sns.Topic(
            use,
            name=f"{place.prefix}-{use}",
            kms_master_key_id=self._args.key_arn,
            tags=place.tags,
            opts=self._children,
        )
        own = {"StringEquals": {"aws:SourceAccount": place.account}}
        told_by = {"Service": ["cloudwatch.amazonaws.com", "budgets.amazonaws.com"]}
        statements = [
            allow("OwnAlarms", ["sns:Publish"], [topic.arn], Principal=told_by, Condition=own),
            _tls_only("sns:Publish", topic.arn),
        ]
        aws.sns.TopicPolicy(use, arn=topic.arn, policy=document(statements), opts=self._children)
        return topic

    def _queue(self, name: str, topic: aws.sns.Topic) -> aws.sqs.Queue:
        place = self._args.place
        failed = self._made_queue(f"{name}-failed", f"{place.prefix}-{name}-failed")
        queue = self._made_queue(
            name,
            f"{place.prefix}-{name}",
            redrive_policy=Output.json_dumps({"deadLetterTargetArn": failed.arn, "maxReceiveCount": _TRIES}),
        )
        from_topic = {"ArnEquals": {"aws:SourceArn": topic.arn}}
        statements = [
            allow(
                "FromTopic",
                ["sqs:SendMessage"],
                [queue.arn],
                Principal={"Service": "sns.amazonaws.com"},
                Condition=from_topic,
            ),
            _tls_only("sqs:*", queue.arn),
        ]
        aws.sqs.QueuePolicy(name, queue_url=queue.url, policy=document(statements), opts=self._children)
        aws.sqs.QueuePolicy(
            f"{name}-failed",
            queue_url=failed.url,
            policy=document([_tls_only("sqs:*", failed.arn)]),
            opts=self._children,
        )
        return queue

    def _made_queue(self, name: str, full: str, redrive_policy: Output[str] | None = None) -> aws.sqs.Queue:
        return aws.sqs.Queue(
            name,
            name=full,
            kms_master_key_id=self._args.key_arn,
            message_retention_seconds=_KEPT_S,
            visibility_timeout_seconds=_VISIBLE_S,
            receive_wait_time_seconds=_POLL_S,
            redrive_policy=redrive_policy,
            tags=self._args.place.tags,
            opts=self._children,
        )

    def _budget(self, topic: aws.sns.Topic) -> None:
        args = self._args
        aws.budgets.Budget(
            "month",
            name=args.place.prefix,
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(args.spec.monthly_usd),
            limit_unit="USD",
            notifications=[
                {
                    "comparison_operator": "GREATER_THAN",
                    "threshold": percent,
                    "threshold_type": "PERCENTAGE",
                    "notification_type": kind,
                    "subscriber_sns_topic_arns": [topic.arn],
                }
                for percent, kind in ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))
            ],
            tags=args.place.tags,
            opts=self._children,
        )

    def _alarm(self, alarm: Alarm, topics: Sequence[Input[str]]) -> None:
        place = self._args.place
        aws.cloudwatch.MetricAlarm(
            alarm.name,
            name=f"{place.prefix}-{alarm.name}",
            # The first word is the severity of the alert that it becomes.
            alarm_description=f"{alarm.severity}: {alarm.summary}",
            namespace=alarm.namespace,
            metric_name=alarm.metric,
            dimensions=alarm.dimensions,
            statistic=alarm.statistic,
            period=alarm.period_s,
            evaluation_periods=alarm.periods,
            threshold=alarm.threshold,
            comparison_operator="GreaterThanThreshold" if alarm.above else "LessThanThreshold",
            treat_missing_data=alarm.missing,
            alarm_actions=topics,
            ok_actions=topics,
            tags=place.tags,
            opts=self._children,
        )


def _tls_only(action: str, arn: Input[str]) -> Statement:
    return deny("TlsOnly", [action], [arn], Principal="*", Condition={"Bool": {"aws:SecureTransport": "false"}})


@dataclass(frozen=True)
class BalancerMetrics:
    """Names of a load balancer in CloudWatch.

    Attributes:
        balancer: Of the load balancer.
        targets: Of the group of its targets.
        log_bucket: Name of the bucket of its access logs.
        most_log_gib: GiB of that bucket above which a ticket opens.
    """

    balancer: Input[str]
    targets: Input[str]
    log_bucket: str
    most_log_gib: int


def alarms_of_balancer(metrics: BalancerMetrics) -> list[Alarm]:
    """Alarms about the way of users to the hosts."""
    of_balancer = {"LoadBalancer": metrics.balancer}
    return [
        Alarm(
            "users-door",
            "No host's door answers the load balancer: users and agents get 502 or 503",
            "page",
            "AWS/ApplicationELB",
            "HealthyHostCount",
            {**of_balancer, "TargetGroup": metrics.targets},
            1,
            above=False,
            statistic="Maximum",
            period_s=60,
            periods=5,
            missing="breaching",
        ),
        Alarm(
            "users-refused",
            "The load balancer itself answers users with errors",
            "ticket",
            "AWS/ApplicationELB",
            "HTTPCode_ELB_5XX_Count",
            of_balancer,
            _REFUSED,
            statistic="Sum",
            missing="notBreaching",
        ),
        Alarm(
            "access-logs-size",
            "The load balancer's access logs are larger than the stack's file expects: an attack, or more users",
            "ticket",
            "AWS/S3",
            "BucketSizeBytes",
            {"BucketName": metrics.log_bucket, "StorageType": "StandardStorage"},
            metrics.most_log_gib * _GIB,
            period_s=_DAY_S,
            periods=1,
            missing="notBreaching",
        ),
    ]


def alarms_of(
    database: str, storage_gib: int, redis: str, redis_nodes: int, hosts: str, functions: Sequence[str]
) -> list[Alarm]:
    """The alarms of a platform.

    Args:
        database: Name of PostgreSQL at RDS.
        storage_gib: GiB that it has at first.
        redis: Name of the group of nodes at ElastiCache.
        redis_nodes: How many there are.
        hosts: Name of the autoscaling group.
        functions: Names of functions.
    """
    of_nodes = [{"CacheClusterId": f"{redis}-{number:03}"} for number in range(1, redis_nodes + 1)]
    return [
        Alarm(
            "host-missing",
            "No platform host is in service: router, ingest and Alertmanager are down",
            "page",
            "AWS/AutoScaling",
            "GroupInServiceInstances",
            {"AutoScalingGroupName": hosts},
            1,
            above=False,
            statistic="Minimum",
            periods=2,
            missing="breaching",
            by_mail=True,
        ),
        *_alarms_of_database(database, storage_gib),
        *(
            Alarm(
                f"redis-{number}-memory",
                "Redis has little memory left",
                "ticket",
                "AWS/ElastiCache",
                "DatabaseMemoryUsagePercentage",
                of_node,
                80,
            )
            for number, of_node in enumerate(of_nodes, start=1)
        ),
        *map(_alarm_of_function, functions),
    ]


def _alarms_of_database(database: str, storage_gib: int) -> list[Alarm]:
    of_database = {"DBInstanceIdentifier": database}
    return [
        Alarm("database-cpu", "PostgreSQL is busy", "ticket", "AWS/RDS", "CPUUtilization", of_database, 85),
        Alarm(
            "database-storage",
            "PostgreSQL runs out of disk although it grows by itself",
            "page",
            "AWS/RDS",
            "FreeStorageSpace",
            of_database,
            max(2, storage_gib // 20) * _GIB,
            above=False,
        ),
        Alarm(
            "database-memory",
            "PostgreSQL has little memory left",
            "ticket",
            "AWS/RDS",
            "FreeableMemory",
            of_database,
            _GIB // 4,
            above=False,
        ),
    ]


def _alarm_of_function(name: str) -> Alarm:
    return Alarm(
        f"{name.split('-', 2)[2]}-errors",
        f"Function {name} fails",
        "ticket",
        "AWS/Lambda",
        "Errors",
        {"FunctionName": name},
        0,
        statistic="Sum",
        periods=1,
        missing="notBreaching",
    )
