"""Write the Dockerfile at the root: the flagship's, for a build whose context is the whole repository."""

from __future__ import annotations

from pathlib import Path

from lockgen.cli.files import find_locks, folder_of
from lockgen.image.dockerfile import dump
from lockgen.spec.parse import load

ROOT = Path(__file__).parents[1]
SPEC = Path("envs") / "pytorch-2.9-nlp.yaml"


def text() -> str:
    """The Dockerfile, from the lock that is committed."""
    spec = load(ROOT / SPEC)
    (lock,) = find_locks(ROOT / SPEC)
    return dump(lock, spec.targets[0].settings.image, context=f"{folder_of(SPEC).as_posix()}/")


if __name__ == "__main__":
    (ROOT / "Dockerfile").write_text(text(), encoding="utf-8")
