"""`lockgen verify`: prove an installed environment."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lockgen.lock.model import Lock, PlatformLock
    from lockgen.verify.evidence import Evidence
    from lockgen.verify.plan import Settings

LOCK = typer.Argument(help="A lock, its folder or its spec; by default the only lock here.")
PREFIX = typer.Option("--prefix", "-p", help="The environment to prove.")
OUTPUT = typer.Option("--output", "-o", help="Where to write the evidence.")
ENVIRONMENT = typer.Option("--environment", "-e", help="Variant that is installed, where the lock has several.")
MODEL = typer.Option("--model", help="The BERT to fine-tune: `tiny`, `base`, a folder or a hub id (safetensors).")
STEPS = typer.Option("--steps", min=1, help="Training steps.")
BATCH = typer.Option("--batch", min=1, help="Examples a step; halved where memory runs out.")
SEQ_LEN = typer.Option("--seq-len", min=8, max=512, help="Tokens an example.")
SEED = typer.Option("--seed", help="Seed of weights, order and held-out text.")
CORPUS = typer.Option("--corpus", help="Folder with `corpus.tsv` and `vocab.txt` to train on.")
REQUIRE_GPU = typer.Option("--require-gpu", help="Fail on a machine without a GPU.")
DISTRIBUTED = typer.Option("--distributed", help="Also train in two processes: DDP and FSDP2.")
EXPORT = typer.Option("--export", help="Also export the model: safetensors, torch.export, ONNX.")
ONLY = typer.Option("--check", help="Run this check only; may be given more than once.")
JUNIT = typer.Option("--junit", help="Also write JUnit XML.")
HTML = typer.Option("--html", help="Also write one self-contained page.")


def verify(
    lock: Annotated[Path | None, LOCK] = None,
    *,
    prefix: Annotated[Path, PREFIX],
    output: Annotated[Path, OUTPUT] = Path("evidence.json"),
    environment: Annotated[str | None, ENVIRONMENT] = None,
    model: Annotated[str | None, MODEL] = None,
    steps: Annotated[int | None, STEPS] = None,
    batch: Annotated[int | None, BATCH] = None,
    seq_len: Annotated[int | None, SEQ_LEN] = None,
    seed: Annotated[int | None, SEED] = None,
    corpus: Annotated[Path | None, CORPUS] = None,
    require_gpu: Annotated[bool, REQUIRE_GPU] = False,
    distributed: Annotated[bool, DISTRIBUTED] = False,
    export: Annotated[bool, EXPORT] = False,
    check: Annotated[list[str] | None, ONLY] = None,
    junit: Annotated[Path | None, JUNIT] = None,
    html: Annotated[Path | None, HTML] = None,
) -> None:
    """Prove an installed environment. Its files, imports and libraries, and a BERT that learns; exit 1 if one fails."""
    from lockgen.verify import plan, run

    python = run.interpreter(prefix)
    found, platform = _installed(lock, prefix, environment)
    given = {
        "model": _absolute_model(model),
        "steps": steps,
        "batch": batch,
        "seq_len": seq_len,
        "seed": seed,
        "corpus": str(corpus.resolve()) if corpus else None,
        "require_gpu": require_gpu or None,
        "distributed": distributed or None,
        "export": export or None,
        "only": tuple(check) if check else None,
    }
    settings = _settings(lock, found.variant, platform.platform, given)
    _refuse_unknown(settings.only)
    wanted = plan.plan(found, platform, str(prefix.resolve()), settings)
    evidence = _followed(wanted, python, output)
    _write_reports(evidence, junit, html)
    if not evidence.passed:
        raise typer.Exit(1)


def _installed(named: Path | None, prefix: Path, variant: str | None) -> tuple[Lock, PlatformLock]:
    """The one lock and platform that the environment should be."""
    from lockgen.cli.files import find_locks
    from lockgen.errors import LockError, Problem
    from lockgen.lock.model import chosen
    from lockgen.verify.run import platform_of

    platform = platform_of(prefix)
    locks = find_locks(named)
    found = chosen(locks, platform, variant)
    if len(found) == 1:
        whole = next(lock for lock in locks if lock.variant == found[0].variant)
        return whole, found[0].platforms[0]
    names = ", ".join(lock.variant or "default" for lock in locks)
    if found:
        raise LockError(
            Problem(message=f"the lock has variants: {names}", hint="name the installed one: `--environment`")
        )
    asked = f" and variant {variant}" if variant else ""
    raise LockError(Problem(message=f"the lock holds nothing for {platform}{asked}; variants: {names}"))


def _settings(named: Path | None, variant: str | None, platform: str, given: dict[str, Any]) -> Settings:
    """What the command line says, else what the spec beside the lock says, else the defaults."""
    from lockgen.spec.parse import load
    from lockgen.verify.plan import Settings

    settings = Settings()
    spec = _spec_of(named)
    targets = load(spec).targets if spec else ()
    for target in targets:
        if (target.variant, target.platform) == (variant, platform):
            wish = target.settings.verify
            settings = Settings(
                model=wish.model,
                steps=wish.steps,
                batch=wish.batch,
                seq_len=wish.seq_len,
                imports=tuple(wish.imports),
                skip_imports=tuple(wish.skip_imports),
                require_gpu=wish.require_gpu,
            )
    return dataclasses.replace(settings, **{key: value for key, value in given.items() if value is not None})


def _spec_of(named: Path | None) -> Path | None:
    """The spec that was named, or the one beside the folder of the lock that was."""
    if named is None:
        return None
    if named.is_file() and named.suffix in (".yaml", ".yml") and not named.name.startswith("conda-lock"):
        return named
    folder = named if named.is_dir() else named.parent
    beside = folder.resolve().parent / f"{folder.resolve().name}.yaml"
    return beside if beside.is_file() else None


def _absolute_model(model: str | None) -> str | None:
    """A folder as an absolute path, since the checks run elsewhere; names as they are."""
    return str(Path(model).resolve()) if model and Path(model).is_dir() else model


def _refuse_unknown(names: tuple[str, ...]) -> None:
    from lockgen.errors import Problem, UsageError
    from lockgen.verify.run import check_names

    known = check_names()
    for name in names:
        if name not in known:
            raise UsageError(Problem(message=f"unknown check: `{name}`", hint=f"the checks are {', '.join(known)}"))


def _followed(wanted: dict[str, Any], python: Path, output: Path) -> Evidence:
    """Run the plan, say what is going on meanwhile, and show what was found."""
    from lockgen.report import evidence as report
    from lockgen.report import text
    from lockgen.verify import run

    console = text.console(stderr=True)
    with console.status("starting", spinner="dots") as status:

        def progress(line: str) -> None:
            name, done, _ = line.partition("\t")
            status.update(f"{name} is done" if done else name.removesuffix(" …"))

        evidence = run.run(wanted, python, output.resolve(), progress)
    text.show(console, report.shown(evidence))
    return evidence


def _write_reports(evidence: Evidence, junit: Path | None, html: Path | None) -> None:
    from lockgen.output import write_all

    if junit:
        from lockgen.report.junit import junit as as_junit

        write_all(junit.parent, {junit.name: as_junit(evidence)})
    if html:
        from lockgen.report.html import page

        write_all(html.parent, {html.name: page(evidence)})
