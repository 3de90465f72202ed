"""Write the Dockerfile at the root: the flagship's, for a build whose context is the whole repository."""

from __future__ import annotations

from pathlib import Path

from lockgen.cli.files import folder_of
from lockgen.cli.images import find_plans
from lockgen.image.dockerfile import Build, render
from lockgen.image.plan import Options

ROOT = Path(__file__).parents[1]
SPEC = Path("envs") / "pytorch-2.9-nlp.yaml"


def text() -> str:
    """The Dockerfile, from the lock that is committed."""
    ((lock, _, plan),) = find_plans(ROOT / SPEC, None, Options())
    return render(lock, [plan], Build(context=f"{folder_of(SPEC).as_posix()}/"))["Dockerfile"]


if __name__ == "__main__":
    (ROOT / "Dockerfile").write_text(text(), encoding="utf-8")
