"""Channels by name and by URL."""

from __future__ import annotations

import os
import re
from pathlib import Path

ANACONDA = "https://conda.anaconda.org"


def base_url(channel: str, folder: Path) -> str:
    """
    The base URL of a channel as a spec names it, without a trailing slash.

    A name stands for a channel of anaconda.org; a path is taken from `folder`.
    """
    if "://" in channel:
        return channel.rstrip("/")
    if channel.startswith((".", "/", "~")):
        return Path(os.path.abspath(folder / Path(channel).expanduser())).as_uri()
    return f"{ANACONDA}/{channel}"


def folder_name(url: str) -> str:
    """
    The name of a channel's folder in a snapshot: `conda-forge`, or for one that is not of anaconda.org its URL
    without the scheme, with `_` for what is no letter, digit, dot or dash: `repo.example.com_team`.
    """
    return re.sub(r"[^A-Za-z0-9.-]+", "_", channel_name(url).split("://", 1)[-1])


def channel_name(url: str) -> str:
    """How people call a channel: `conda-forge` for one of anaconda.org, else its URL."""
    return url.removeprefix(f"{ANACONDA}/")
