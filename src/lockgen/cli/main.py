"""The program: commands, the boundary for errors, the exit code."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from lockgen.cli import (
    channel,
    dockerfile,
    doctor,
    image_build,
    image_plan,
    init,
    install,
    listing,
    resolve,
    schema,
    verify,
    why,
)
from lockgen.cli import run as activated
from lockgen.errors import LockgenError

app = typer.Typer(
    name="lockgen",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            known = version("lockgen")
        except PackageNotFoundError:
            known = "unknown: it runs from its source, not installed"
        typer.echo(f"lockgen {known}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Turn a short spec into locked, checked and explained conda environments."""


app.command("resolve")(resolve.resolve)
app.command("init")(init.init)
app.command("list")(listing.listing)
app.command("why")(why.why)
app.command("install")(install.install)
app.command("run", context_settings=activated.SETTINGS)(activated.run)
app.command("verify")(verify.verify)
app.command("doctor")(doctor.doctor)
app.command("dockerfile")(dockerfile.dockerfile)
app.command("schema")(schema.schema)
app.add_typer(channel.app, name="channel")
image = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Container images from locks.")
image.command("plan")(image_plan.image_plan)
image.command("build")(image_build.image_build)
app.add_typer(image, name="image")


def run(arguments: Sequence[str]) -> int:
    """
    Run one command.

    Returns:
        0 yes or done, 1 the answer is no, 2 it could not be done.
    """
    try:
        code = app(list(arguments), prog_name="lockgen", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except LockgenError as error:
        _show(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write(f"error: {error.strerror}\n")
        return 2
    return int(code or 0)


def _show(error: LockgenError) -> None:
    from lockgen.report import text

    console = text.console(stderr=True)
    for index, problem in enumerate(error.problems):
        if index:
            console.print()
        text.show(console, text.problem(problem), soft_wrap=True)


def main() -> NoReturn:
    """Run, flush, and leave at once: rattler's threads can abort a normal shutdown (PyO3/pyo3-async-runtimes#40)."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it as it ends any program: 141, not 1
    gc.disable()  # a short run makes no garbage worth looking for; a tenth of its time went there
    if sys.stdout is not None:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = run(sys.argv[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 2
    os._exit(_flushed(code))


def _flushed(code: int) -> int:
    """The exit code, 2 where output is lost; that a reader such as `head` has left is no loss."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            continue
        except OSError as error:
            sys.stderr.write(f"error: {error.strerror}\n")
            code = 2
    return code


if __name__ == "__main__":
    main()
