"""`lockgen verify`: prove an installed environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lockgen.lock.model import Lock, PlatformLock
    from lockgen.verify.evidence import Evidence
    from lockgen.verify.plan import Settings

LOCK = typer.Argument(help="A lock, its folder or its spec; by default the only lock here.")
PREFIX = typer.Option("--prefix", "-p", help="The environment to prove; of an image, where it lies in it.")
IMAGE = typer.Option("--image", help="Prove the environment in an image: any reference that podman or docker takes.")
RUNTIME = typer.Option("--runtime", help="What runs the image: `podman` or `docker`; by default the one on PATH.")
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
    prefix: Annotated[Path | None, PREFIX] = None,
    image: Annotated[str | None, IMAGE] = None,
    runtime: Annotated[str | None, RUNTIME] = None,
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
    if image is not None:
        evidence = _in_image(lock, image, runtime, (prefix, environment), given, output)
    else:
        evidence = _in_prefix(lock, prefix, environment, given, output)
    _write_reports(evidence, junit, html)
    if not evidence.passed:
        raise typer.Exit(1)


def _in_prefix(
    named: Path | None, prefix: Path | None, variant: str | None, given: dict[str, Any], output: Path
) -> Evidence:
    """Prove a folder of this machine."""
    from lockgen.errors import Problem, UsageError
    from lockgen.verify import plan, run

    if prefix is None:
        message = "what is to be proved is not named"
        raise UsageError(Problem(message=message, hint="name a folder, `--prefix`, or an image, `--image`"))
    python = run.interpreter(prefix)
    lock, platform = _locked(named, run.platform_of(prefix), variant)
    settings = _settings(named, lock.variant, platform.platform, given)
    _refuse_unknown(settings.only)
    wanted = plan.plan(lock, platform, str(prefix.resolve()), settings)
    return _followed(lambda progress: run.run(wanted, python, output.resolve(), progress))


def _in_image(
    named: Path | None,
    reference: str,
    runtime: str | None,
    which: tuple[Path | None, str | None],
    given: dict[str, Any],
    output: Path,
) -> Evidence:
    """Prove what lies in an image; `which` is the prefix in it, and the variant, where the user names them."""
    from lockgen.verify import image, plan

    prefix, variant = which
    engine = image.find_runtime(runtime)
    with image.opened(engine, reference) as found:
        lock, platform = _locked(named, found.platform, variant, found.fingerprint)
        image.refuse_other(found, lock.fingerprint())
        settings = _settings(named, lock.variant, platform.platform, given)
        _refuse_unknown(settings.only)
        image.refuse_hub(settings.model)
        if prefix is not None:
            found = dataclasses.replace(found, prefix=str(prefix))
        wanted = plan.plan(lock, platform, found.prefix, settings)
        return _followed(lambda progress: image.run(wanted, engine, found, output.resolve(), progress))


def _locked(
    named: Path | None, platform: str, variant: str | None, fingerprint: str | None = None
) -> tuple[Lock, PlatformLock]:
    """The one lock and platform that the environment should be; a fingerprint chooses among variants."""
    from lockgen.cli.files import find_locks
    from lockgen.errors import LockError, Problem
    from lockgen.lock.model import chosen

    locks = find_locks(named)
    if variant is None and len(locks) > 1:
        locks = tuple(lock for lock in locks if lock.fingerprint() == fingerprint) or locks
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
    from lockgen.cli.files import spec_of
    from lockgen.spec.parse import load
    from lockgen.verify.plan import Settings

    settings = Settings()
    spec = spec_of(named)
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


def _followed(carry_out: Callable[[Callable[[str], None]], Evidence]) -> Evidence:
    """Carry out a plan, say what is going on meanwhile, and show what was found."""
    from lockgen.report import evidence as report
    from lockgen.report import text

    console = text.console(stderr=True)
    with console.status("starting", spinner="dots") as status:

        def progress(line: str) -> None:
            name, done, _ = line.partition("\t")
            status.update(f"{name} is done" if done else name.removesuffix(" …"))

        evidence = carry_out(progress)
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
