"""Takes AWS's alarms from their queue and tells the Alertmanager beside it; argument: the file of settings.

A message says that an alarm changed. Alertmanager forgets alerts that are not repeated, and all when it restarts, so
alarms that stand are asked for every few minutes and told again. It imports nothing of hermesops.

Source: Alertmanager's API v2, "POST /alerts"; CloudWatch user guide, "Notifying users on alarm changes".
"""

import json
import sys
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3

ALERTMANAGER = "http://127.0.0.1:9093/api/v2/alerts"
WAIT_S = 20
AGAIN_S = 300
STANDS = timedelta(minutes=15)
"""How long an alarm counts that is not told again."""

BUDGET_STANDS = timedelta(days=1)
AGAIN_AFTER_ERROR_S = 15
SEVERITIES = ("page", "ticket")

Alert = dict[str, Any]


def main() -> None:
    """Take and tell, for ever."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    region, alarms = settings["region"], settings["alarms"]
    queue, metrics = boto3.client("sqs", region), boto3.client("cloudwatch", region)
    told_at = -float(AGAIN_S)
    while True:
        try:
            if time.monotonic() - told_at >= AGAIN_S:
                tell([of_alarm(alarm, region, now()) for alarm in standing(metrics, alarms["prefix"])])
                told_at = time.monotonic()
            take(queue, alarms["queue"], region)
        except Exception as error:  # noqa: BLE001 - whatever it is, it may pass, and nobody else would tell
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            time.sleep(AGAIN_AFTER_ERROR_S)


def now() -> datetime:
    """The time, where the programs of the host have it from."""
    return datetime.now(UTC)


def standing(metrics: Any, prefix: str) -> list[Mapping[str, Any]]:  # noqa: ANN401 - boto3 makes its types as it runs
    """Alarms of ours that are in alarm now."""
    pages = metrics.get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix, StateValue="ALARM")
    return [alarm for page in pages for alarm in page["MetricAlarms"] if alarm["StateValue"] == "ALARM"]


def take(queue: Any, url: str, region: str) -> None:  # noqa: ANN401 - as above
    """Tell what is in the queue; what could not be told stays there."""
    found = queue.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=WAIT_S).get("Messages", [])
    for message in found:
        tell([of_message(message["Body"], region, now())])
        queue.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def of_message(body: str, region: str, at: datetime) -> Alert:
    """The alert of what a topic sent: a change of an alarm, or, in words, of the budget."""
    sent = json.loads(body)
    try:
        said = json.loads(sent["Message"])
    except ValueError:
        said = None
    if isinstance(said, dict) and "AlarmName" in said:
        return of_alarm(said, region, at)
    return {
        "labels": _labels("AmazonBudget", "ticket"),
        "annotations": {
            "summary": "AWS costs more than planned, or is about to",
            "figure": str(sent.get("Subject") or "see the budget"),
            "runbook_url": "https://console.aws.amazon.com/billing/home#/budgets",
        },
        "endsAt": (at + BUDGET_STANDS).isoformat(),
    }


def of_alarm(alarm: Mapping[str, Any], region: str, at: datetime) -> Alert:
    """The alert of an alarm, as a message and as CloudWatch's API have it."""
    name = alarm["AlarmName"]
    severity, _, summary = str(alarm.get("AlarmDescription") or "").partition(": ")
    if severity not in SEVERITIES:
        severity, summary = "ticket", str(alarm.get("AlarmDescription") or name)
    stands = alarm.get("NewStateValue", alarm.get("StateValue")) == "ALARM"
    return {
        "labels": {**_labels("AmazonAlarm", severity), "alarm": name},
        "annotations": {
            "summary": summary,
            "figure": str(alarm.get("NewStateReason", alarm.get("StateReason", ""))),
            "runbook_url": f"https://console.aws.amazon.com/cloudwatch/home?region={region}#alarmsV2:alarm/{name}",
        },
        "endsAt": (at + STANDS if stands else at).isoformat(),
    }


def _labels(name: str, severity: str) -> dict[str, str]:
    return {"alertname": name, "severity": severity, "owner": "platform", "scope": "fleet"}


def tell(alerts: list[Alert]) -> None:
    """Give alerts to Alertmanager."""
    if not alerts:
        return
    request = urllib.request.Request(ALERTMANAGER, json.dumps(alerts).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S):  # noqa: S310 - a constant address
        pass


if __name__ == "__main__":
    main()
