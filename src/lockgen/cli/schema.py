"""`lockgen schema`: the JSON Schema of a spec."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON Schema of a spec. Editors complete and check a spec with it."""
    from lockgen.spec.model import schema as made

    typer.echo(json.dumps(made(), indent=2, ensure_ascii=False))
