"""The image's user as lines of /etc/passwd and /etc/group. Pure."""

from __future__ import annotations

from lockgen.image.model import ImagePlan

SHELL = "/bin/bash"


def ids(plan: ImagePlan) -> tuple[str, str]:
    """The user's number and the group's."""
    user, _, group = plan.user.partition(":")
    return str(int(user)), str(int(group))


def passwd_line(plan: ImagePlan) -> str:
    """The user: no password is known, and none can be given."""
    user, group = ids(plan)
    return f"{plan.login}:x:{user}:{group}::{plan.home}:{SHELL}"


def group_line(plan: ImagePlan) -> str:
    """The user's group."""
    return f"{plan.login}:x:{ids(plan)[1]}:"
