"""Actions of IAM by which hosts make and change the users of backups, one for each instance.

Hosts' roles allow these, and the boundary of these roles has to let them through: with another list there, every
backup of a new agent fails.
"""

MAKING = ("iam:CreateUser", "iam:PutUserPolicy")
"""Allowed only with the permissions boundary of backup users."""

CHANGING = (
    "iam:CreateAccessKey",
    "iam:DeleteAccessKey",
    "iam:DeleteUser",
    "iam:DeleteUserPolicy",
    "iam:GetUser",
    "iam:ListAccessKeys",
    "iam:ListUserPolicies",
)
