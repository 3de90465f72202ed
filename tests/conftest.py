"""What all tests share: where the real metadata is, and the option that rewrites golden files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from small_environment import SmallEnvironment

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what comes out as the new golden files")


@pytest.fixture(scope="session")
def shared_channels() -> Path:
    """The folder of real channel metadata; tests that need it are skipped where it is absent."""
    folder = SHARED / "channels"
    if not folder.is_dir():
        pytest.skip("no ../shared/channels: the real channel metadata is not here")
    return folder


@pytest.fixture(scope="session")
def small_environment(tmp_path_factory: pytest.TempPathFactory) -> SmallEnvironment:
    """A real environment with PyTorch, from a channel that is built for it: a minute, once."""
    from small_environment import make

    return make(tmp_path_factory.mktemp("small"))
