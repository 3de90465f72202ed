"""`lockgen channel`: a conda channel of one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Build, index and serve a channel of your own.")

RECIPE = typer.Argument(help="A recipe, channel.toml, or its folder.")
OUTPUT = typer.Option("--output", "-o", help="Folder of the channel.")
WHEELS = typer.Option("--wheels", help="Where downloaded wheels are kept; by default the user's cache.")
NO_INDEX = typer.Option("--no-index", help="Only build; `lockgen channel index` writes the index.")
CHANNEL = typer.Argument(help="Folder of the channel.")
PORT = typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")


@app.command()
def build(
    recipe: Annotated[Path, RECIPE],
    output: Annotated[Path, OUTPUT],
    wheels: Annotated[Path | None, WHEELS] = None,
    no_index: Annotated[bool, NO_INDEX] = False,
) -> None:
    """Build the packages of RECIPE, only those that changed, and write the channel's index."""
    from lockgen.channel.build import build
    from lockgen.channel.recipe import load

    started = time.monotonic()
    done = build(load(recipe), output, _tell, wheels)
    if not no_index:
        index(output)
    kept = f", {len(done.kept)} unchanged" if done.kept else ""
    removed = f", {len(done.removed)} removed" if done.removed else ""
    seconds = time.monotonic() - started
    _tell(f"built {len(done.built)} packages{kept}{removed} in {seconds:.0f} s, {done.size / 1e6:,.0f} MB")
    typer.echo(output.resolve().as_uri())


@app.command()
def index(channel: Annotated[Path, CHANNEL]) -> None:
    """Write repodata.json for the packages that lie in CHANNEL."""
    from lockgen.channel.index import index

    index(channel)


@app.command()
def serve(channel: Annotated[Path, CHANNEL], port: Annotated[int, PORT] = 0) -> None:
    """Serve CHANNEL over HTTP on 127.0.0.1 until interrupted; its address is printed first."""
    from lockgen.channel.serve import server, url_of

    with server(channel, port, _tell) as running:
        typer.echo(url_of(running))
        running.serve_forever()


def _tell(line: str) -> None:
    typer.echo(line, err=True)
