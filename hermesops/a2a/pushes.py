"""Addresses of notifications, and the notification itself, in the protocol's types. Pure."""

import json

from a2a.types.a2a_pb2 import AuthenticationInfo, StreamResponse, TaskPushNotificationConfig
from google.protobuf.json_format import MessageToDict

from hermesops.a2a.rendering import task_of
from hermesops.model.chat.caller import Caller
from hermesops.store.calling_rows.pushes import Push
from hermesops.users.callers.tasks import AgentTask


def push_of(config: TaskPushNotificationConfig, task_id: str, id_: str) -> Push:
    """An address as a caller names it, not yet judged."""
    authentication = config.authentication
    return Push(task_id, id_, config.url, config.token, authentication.scheme, authentication.credentials)


def config_of(push: Push) -> TaskPushNotificationConfig:
    """An address as its caller sees it, without the credentials that it gave."""
    config = TaskPushNotificationConfig(id=push.id, task_id=push.turn_id, url=push.url, token=push.token)
    if push.scheme:
        config.authentication.CopyFrom(AuthenticationInfo(scheme=push.scheme))
    return config


def notification(caller: Caller, task: AgentTask) -> bytes:
    """The body of a notification: the task as it stands.

    Source: A2A specification 1.0, section 4.3.3: a ``StreamResponse``.
    """
    response = StreamResponse(task=task_of(task, may_approve=caller.may_approve))
    return json.dumps(MessageToDict(response)).encode()
