"""The commands, each in a process of its own: what they print where, what they write, and their exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import FILES, SPEC, VARIANTS, contents, lockgen, resolved, workshop


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workshop whose spec is locked; tests only read it."""
    folder = workshop(tmp_path_factory.mktemp("locked"))
    run = resolved(folder)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
    return folder


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workshop with two variants, locked; tests only read it."""
    folder = workshop(tmp_path_factory.mktemp("varied"), VARIANTS)
    assert resolved(folder).returncode == 0
    return folder


# usage


def test_help_names_the_program_and_says_in_one_line_what_each_command_does(tmp_path: Path) -> None:
    run = lockgen("--help", cwd=tmp_path, env={"COLUMNS": "80"})
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(
        "Usage: lockgen [OPTIONS] COMMAND [ARGS]...\n\n  Turn a short spec into locked, checked"
    )
    commands = run.stdout.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in commands] == [
        *(
            "resolve",
            "init",
            "list",
            "why",
            "install",
            "run",
            "verify",
            "doctor",
            "dockerfile",
            "schema",
            "channel",
            "image",
        )
    ]
    assert [line for line in commands if line.split()[0] != "init" and line.endswith("...")] == []


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("resolve", "lockgen resolve [OPTIONS] {SPEC}"),
        ("list", "lockgen list [OPTIONS] [LOCK]"),
        ("why", "lockgen why [OPTIONS] {PACKAGE} [LOCK]"),
        ("init", "lockgen init [OPTIONS]"),
        ("schema", "lockgen schema [OPTIONS]"),
    ],
)
def test_each_command_has_help_within_80_columns(command: str, usage: str, tmp_path: Path) -> None:
    run = lockgen(command, "--help", cwd=tmp_path, env={"COLUMNS": "80"})
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"Usage: {usage}")
    assert max(map(len, run.stdout.splitlines())) <= 80


def test_the_version_is_one_line(tmp_path: Path) -> None:
    run = lockgen("--version", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert re.fullmatch(r"lockgen (\d+\.\d+\.\d+|unknown: .*)\n", run.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Usage: lockgen [OPTIONS] COMMAND"),
        (("lock",), "No such command 'lock'"),
        (("resolve",), "Missing argument 'SPEC'"),
        (("why",), "Missing argument 'PACKAGE'"),
        (("resolve", "small.yaml", "--ofline"), "No such option: --ofline"),
        (("resolve", "small.yaml", "--pixi-lock-version", "new"), "'--pixi-lock-version'"),
        (("list", "--sort", "colour"), "'--sort'"),
    ],
)
def test_a_wrong_call_exits_2_and_says_so_on_stderr(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    run = lockgen(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert said in run.stdout + run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--offline", "--snapshot", "channels"),
            "error: `--offline` and `--snapshot` both say what to solve against\n"
            "  hint: leave one out; `LOCKGEN_SNAPSHOT` counts as `--snapshot`\n",
        ),
        (
            ("--snapshot", "https://user:secret@conda.example.org"),
            "error: `--snapshot` names a URL, not a folder\n"
            "  hint: a snapshot is a folder CHANNEL/SUBDIR/repodata.json[.zst]; "
            "a URL belongs to `channels` of the spec\n",
        ),
        (
            ("--check", "--frozen"),
            "error: `--check` writes nothing, and `--frozen` writes files\n  hint: leave one out\n",
        ),
        (
            ("--pixi-lock-version", "5"),
            "error: `--pixi-lock-version` is `5`, expected `6` or `7`\n"
            "  hint: leave it out to keep the version of the file there, else 7\n",
        ),
    ],
)
def test_options_that_are_wrong_or_contradict_others_are_refused(
    arguments: tuple[str, ...], error: str, locked: Path
) -> None:
    run = lockgen("resolve", "small.yaml", *arguments, cwd=locked)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)


# the spec as a file


def test_a_spec_that_is_not_there(tmp_path: Path) -> None:
    run = lockgen("resolve", "nope.yaml", cwd=tmp_path)
    error = "error: no such file: nope.yaml\n  hint: to start one, run `lockgen init`\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    run = lockgen("resolve", "envs", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: a folder, not a spec: envs\n")


def test_a_spec_with_two_mistakes_shows_both_with_their_lines(tmp_path: Path) -> None:
    workshop(tmp_path, 'name: small\npyton: "3.13"\nplatforms: [linux-46]\n')
    run = resolved(tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: small.yaml:2:1: unknown key `pyton`\n")
    assert "\n\nerror: small.yaml:3:13: unknown platform: `linux-46`\n" in run.stderr
    assert not (tmp_path / "small").exists()


# resolve


def test_resolve_writes_the_files_beside_the_spec_and_its_screen_to_stderr(locked: Path) -> None:
    assert tuple(contents(locked / "small")) == FILES


def test_a_second_resolve_changes_no_byte_and_no_time(locked: Path, tmp_path: Path) -> None:
    paths = [path for path in (locked / "small").rglob("*") if path.is_file()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    run = resolved(locked)
    assert run.returncode == 0
    assert "wrote     small/  nothing: every file is already so\n" in run.stderr
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths} == before


def test_output_names_another_folder(locked: Path, tmp_path: Path) -> None:
    target = tmp_path / "a b" / "out"
    run = resolved(locked, "-o", target)
    assert run.returncode == 0
    assert contents(target) == contents(locked / "small")
    assert f"conda-lock install -n small '{target}/conda-lock.yml'\n" in run.stderr


def test_json_is_the_whole_answer_and_alone_on_stdout(locked: Path, tmp_path: Path) -> None:
    run = resolved(locked, "--json", "-o", tmp_path / "out")
    assert (run.returncode, run.stderr) == (0, "")
    answer = json.loads(run.stdout)
    assert sorted(answer) == ["files", "locks", "name", "notes", "spec"]
    assert (answer["name"], answer["spec"], answer["notes"]) == ("small", "small.yaml", [])
    assert answer["files"] == list(FILES)
    assert contents(tmp_path / "out") == contents(locked / "small")
    (lock,) = answer["locks"]
    urls = [package["url"] for package in lock["platforms"][0]["packages"]]
    explicit = (locked / "small" / "linux-64.explicit.lock").read_text().splitlines()
    assert sorted(urls) == sorted(line.split("#")[0] for line in explicit if line.startswith("https://"))
    listed = lockgen("list", "small", "--json", cwd=locked)
    assert json.loads(listed.stdout) == answer["locks"]


def test_an_unsolvable_spec_exits_2_and_writes_nothing(tmp_path: Path) -> None:
    workshop(tmp_path, SPEC.replace("[numpy]", "[numpy >=9]"))
    run = resolved(tmp_path, "--json")
    assert (run.returncode, run.stdout) == (2, "")
    assert "numpy >=9" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "small").exists()


def test_a_snapshot_can_be_named_by_a_variable(locked: Path, tmp_path: Path) -> None:
    run = lockgen("resolve", "small.yaml", "-o", tmp_path / "out", cwd=locked, env={"LOCKGEN_SNAPSHOT": "channels"})
    assert run.returncode == 0
    assert contents(tmp_path / "out") == contents(locked / "small")


def test_pixi_lock_version_6_is_kept_by_later_runs(tmp_path: Path) -> None:
    workshop(tmp_path)
    lock = tmp_path / "small" / "pixi.lock"
    assert resolved(tmp_path, "--pixi-lock-version", "6").returncode == 0
    assert lock.read_text().startswith("version: 6\n")
    assert resolved(tmp_path).returncode == 0
    assert lock.read_text().startswith("version: 6\n")
    assert lockgen("resolve", "small.yaml", "--check", cwd=tmp_path).returncode == 0
    assert resolved(tmp_path, "--pixi-lock-version", "7").returncode == 0
    assert lock.read_text().startswith("version: 7\n")


def test_files_of_what_the_spec_no_longer_has_are_removed_and_others_stay(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    folder = tmp_path / "small"
    (folder / "Dockerfile.dev").write_text("# Made by lockgen from conda-lock.yml; my own by now\n")
    (folder / "environment.mine.yml").write_text("name: mine\n")
    (tmp_path / "small.yaml").write_text(VARIANTS)
    run = resolved(tmp_path)
    assert run.returncode == 0
    assert (
        "removed   Dockerfile, conda-lock.yml, environment.yml, image/,\n          linux-64.explicit.lock\n"
        in run.stderr
    )
    left = set(contents(folder))
    assert {"Dockerfile.dev", "environment.mine.yml", "conda-lock.cpu.yml", "conda-lock.gpu.yml"} <= left
    assert not left & {"Dockerfile", "conda-lock.yml", "environment.yml", "linux-64.explicit.lock"}
    assert not (folder / "image").exists()
    assert lockgen("resolve", "small.yaml", "--check", cwd=tmp_path).returncode == 0


def test_a_file_that_was_edited_by_hand_is_not_removed(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    edited = tmp_path / "small" / "environment.yml"
    edited.write_text(edited.read_text() + "- mine\n")
    (tmp_path / "small.yaml").write_text(VARIANTS)
    assert "removed   Dockerfile, conda-lock.yml, image/, linux-64.explicit.lock\n" in resolved(tmp_path).stderr
    assert edited.read_text().endswith("- mine\n")


def test_files_that_somebody_else_wrote_are_not_overwritten(tmp_path: Path) -> None:
    workshop(tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "small.yaml").rename(tmp_path / "environment.yml")
    run = lockgen("resolve", "environment.yml", "--snapshot", "channels", "-o", ".", cwd=tmp_path)
    error = (
        "error: . has files that lockgen did not write: Dockerfile, environment.yml\n"
        "  hint: `-o` names another folder; or move them away, and they are written\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Dockerfile", "channels", "environment.yml"]
    assert (tmp_path / "environment.yml").read_text() == SPEC


def test_a_file_of_ones_own_among_ours_is_not_overwritten_though_it_speaks_of_lockgen(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path).returncode == 0
    mine = tmp_path / "small" / "pixi.toml"
    mine.write_text("# The lock beside is from lockgen.\n[workspace]\n")
    before = contents(tmp_path / "small")
    run = resolved(tmp_path, "--frozen")
    error = (
        "error: small has files that lockgen did not write: pixi.toml\n"
        "  hint: `-o` names another folder; or move them away, and they are written\n"
    )
    assert (run.returncode, run.stderr) == (2, error)
    assert contents(tmp_path / "small") == before


def test_a_pixi_lock_belongs_to_the_file_beside_it(tmp_path: Path) -> None:
    workshop(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pixi.lock").write_text("version: 6\n")
    run = resolved(tmp_path, "-o", "out")
    assert run.returncode == 2
    assert run.stderr.startswith("error: out has files that lockgen did not write: pixi.lock\n")


def test_the_locks_of_another_spec_are_not_overwritten(tmp_path: Path) -> None:
    workshop(tmp_path)
    assert resolved(tmp_path, "-o", "out").returncode == 0
    before = contents(tmp_path / "out")
    (tmp_path / "small.yaml").write_text(SPEC.replace("small", "large"))
    run = resolved(tmp_path, "-o", "out")
    error = (
        "error: out has the locks of another spec, `small`\n"
        "  hint: name another folder with `-o`; if that spec is now `large`, remove out/conda-lock.yml\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)
    assert contents(tmp_path / "out") == before


def test_the_order_of_dependencies_and_constraints_changes_no_byte(tmp_path: Path) -> None:
    lists = "dependencies: [numpy, libgcc >=14, libblas]\nconstraints: [tool <2, scipy]\n"
    workshop(tmp_path, SPEC.replace("dependencies: [numpy]\n", lists))
    assert resolved(tmp_path, "-o", "one").returncode == 0
    turned = "dependencies: [libblas, numpy, libgcc >=14]\nconstraints: [scipy, tool <2]\n"
    (tmp_path / "small.yaml").write_text(SPEC.replace("dependencies: [numpy]\n", turned))
    assert resolved(tmp_path, "-o", "two").returncode == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_name_of_pips_gets_the_name_of_condas_and_the_sample_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("name: small\ncuda: none\ndependencies: [torch==2.9, sklearn, zzz]\n")
    run = lockgen("resolve", "small.yaml", "--offline", cwd=tmp_path)
    line = "  3 | dependencies: [torch==2.9, sklearn, zzz]\n    | "
    error = (
        f"error: small.yaml:3:28: `sklearn`: no record in conda-forge for linux-64\n{line}{' ' * 27}^^^^^^^\n"
        "  hint: `sklearn` is a name of pip's: conda's package is `scikit-learn`\n\n"
        f"error: small.yaml:3:16: `torch`: no record in conda-forge for linux-64\n{line}{' ' * 15}^^^^^^^^^^\n"
        "  hint: `torch` is a name of pip's: conda's package is `pytorch`, which the key `pytorch` asks for: "
        '`pytorch: "2.9"`\n\n'
        f"error: small.yaml:3:37: `zzz`: no record in conda-forge for linux-64\n{line}{' ' * 36}^^^\n"
        "  hint: is it spelled as the channel spells it?\n"
        "        `--offline` knows a small sample of conda-forge only: without it, the whole channel is asked\n"
    )
    assert (run.returncode, run.stderr) == (2, error)


# resolve --check


@pytest.fixture
def copied(locked: Path, tmp_path: Path) -> Path:
    """A workshop of one's own whose spec is locked, without channels: `--check` needs none."""
    for name, text in contents(locked / "small").items():
        (tmp_path / "small" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "small" / name).write_text(text)
    (tmp_path / "small.yaml").write_text(SPEC)
    return tmp_path


MEND = "not current: small; to mend it, run `lockgen resolve small.yaml`\n"
RESTORE = "not current: small; to mend it, run `lockgen resolve --frozen small.yaml`\n"


def test_check_says_that_the_files_are_current(copied: Path) -> None:
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "current: small\n")


def test_check_as_json(copied: Path) -> None:
    run = lockgen("resolve", "small.yaml", "--check", "--json", cwd=copied)
    assert (run.returncode, json.loads(run.stdout), run.stderr) == (0, {"current": True, "changes": []}, "")
    (copied / "small" / "pixi.toml").unlink()
    run = lockgen("resolve", "small.yaml", "--check", "--json", cwd=copied)
    changed = {"current": False, "changes": ["pixi.toml is missing"]}
    assert (run.returncode, json.loads(run.stdout), run.stderr) == (1, changed, "")


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ('"2.9"', '"2.9.1"', "linux-64: `pytorch` changed: `pytorch 2.9.* cuda*` → `pytorch ==2.9.1 cuda*`"),
        ('"3.13"', '"3.12"', "linux-64: `python` changed: `python 3.13.*` → `python 3.12.*`"),
        ("[numpy]", "[numpy, scipy]", "linux-64: `dependencies` now asks for `scipy`"),
        ("[numpy]", "[]", "linux-64: `dependencies` no longer asks for `numpy`"),
        ("cuda:", 'as-of: "2026-01-01"\ncuda:', "linux-64: `as-of` changed: none → `2026-01-01T23:59:59Z`"),
        ("cuda:", "channel-priority: disabled\ncuda:", "linux-64: `channel-priority` changed: `strict` → `disabled`"),
        ("cuda:", "platforms: [linux-64, osx-arm64]\ncuda:", "osx-arm64: in the spec, but not locked"),
        ("cuda:", 'driver: ">=535"\ncuda:', "linux-64: `driver` changed: none → `535`"),
        ("cuda:", "system: {glibc: '2.31'}\ncuda:", "linux-64: the system changed: __glibc=2.28=0 → __glibc=2.31=0"),
    ],
)
def test_check_names_the_key_that_changed(old: str, new: str, change: str, copied: Path) -> None:
    (copied / "small.yaml").write_text(SPEC.replace(old, new))
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", f"{change}\n{MEND}")


def test_check_of_a_key_that_only_the_image_needs(copied: Path) -> None:
    (copied / "small.yaml").write_text(SPEC + "image: {labels: {org.example.a: b}}\n")
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    said = "Dockerfile is not what the lock gives: was it edited by hand, or an `image` key changed?\n"
    assert (run.returncode, run.stderr) == (1, said + RESTORE)


def test_check_names_the_folder_that_was_named(copied: Path) -> None:
    run = lockgen("resolve", "small.yaml", "--check", "-o", "my envs", cwd=copied)
    said = "no lock in my envs\nnot current: my envs; to mend it, run `lockgen resolve small.yaml -o 'my envs'`\n"
    assert (run.returncode, run.stderr) == (1, said)


def test_check_does_not_mind_the_line_ends_of_a_checkout(copied: Path) -> None:
    for file in (path for path in (copied / "small").rglob("*") if path.is_file()):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert (run.returncode, run.stderr) == (0, "current: small\n")


@pytest.mark.parametrize("harm", ["edited", "truncated", "missing"])
def test_check_finds_each_derived_file_that_is_not_as_it_was_written(harm: str, copied: Path) -> None:
    derived = [name for name in FILES if name != "conda-lock.yml"]
    for file in (copied / "small" / name for name in derived):
        text = file.read_text()
        if harm == "missing":
            file.unlink()
        else:
            file.write_text(text + "# mine\n" if harm == "edited" else text[: len(text) // 2])
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert run.returncode == 1
    *found, last = run.stderr.splitlines()
    assert last + "\n" == RESTORE
    said = "is missing" if harm == "missing" else "is not what the lock gives: was it edited by hand, or an `image` key"
    assert sorted(line.split(" changed?")[0] for line in found) == [f"{name} {said}" for name in derived]


def test_check_without_a_lock(copied: Path) -> None:
    (copied / "small" / "conda-lock.yml").unlink()
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert (run.returncode, run.stderr) == (1, f"no lock in small\n{MEND}")


def test_a_lock_that_was_edited_by_hand_is_an_error(copied: Path) -> None:
    lock = copied / "small" / "conda-lock.yml"
    lock.write_text(lock.read_text().replace("2.3.0", "2.3.1"))
    for arguments in (("resolve", "small.yaml", "--check"), ("resolve", "small.yaml", "--frozen"), ("list", "small")):
        run = lockgen(*arguments, cwd=copied)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr.startswith("error: small/conda-lock.yml")
        assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "text", ["", "version: 1\n", "nonsense", "a: [", "\ttab", "version: 99\nmetadata: {}\npackage: []\n"]
)
def test_a_lock_that_is_none_is_an_error(text: str, copied: Path) -> None:
    (copied / "small" / "conda-lock.yml").write_text(text)
    run = lockgen("resolve", "small.yaml", "--check", cwd=copied)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: small/conda-lock.yml")
    assert "Traceback" not in run.stderr


# resolve --frozen


def test_frozen_writes_the_derived_files_again_without_channels(copied: Path) -> None:
    before = contents(copied / "small")
    (copied / "small" / "pixi.toml").unlink()
    with (copied / "small" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("RUN true\n")
    run = lockgen("resolve", "small.yaml", "--frozen", cwd=copied)
    assert run.returncode == 0
    assert "wrote     small/  Dockerfile, pixi.toml (5 unchanged)\n" in run.stderr
    assert contents(copied / "small") == before


def test_frozen_refuses_a_lock_that_does_not_answer_the_spec(copied: Path) -> None:
    before = contents(copied / "small")
    (copied / "small.yaml").write_text(SPEC.replace("[numpy]", "[numpy, scipy]"))
    run = lockgen("resolve", "small.yaml", "--frozen", cwd=copied)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "error: the lock in small does not answer small.yaml\n"
        "  linux-64: `dependencies` now asks for `scipy`\n"
        "  hint: to solve again, run `lockgen resolve` without `--frozen`\n"
    )
    assert contents(copied / "small") == before


def test_frozen_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SPEC)
    run = lockgen("resolve", "small.yaml", "--frozen", cwd=tmp_path)
    error = "error: no lock in small\n  hint: to solve again, run `lockgen resolve` without `--frozen`\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)
    assert not (tmp_path / "small").exists()


# list


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("name", ["cuda-version", "libblas", "libgcc", "libtorch", "numpy", "python", "pytorch"]),
        ("version", ["numpy", "libtorch", "pytorch", "libblas", "python", "cuda-version", "libgcc"]),
        ("build", ["libtorch", "pytorch", "python", "cuda-version", "libblas", "libgcc", "numpy"]),
        ("channel", ["cuda-version", "libblas", "libgcc", "libtorch", "numpy", "python", "pytorch"]),
        ("size", ["numpy", "libgcc", "libblas", "pytorch", "libtorch", "cuda-version", "python"]),
    ],
)
def test_a_list_can_be_sorted_by_every_column(column: str, names: list[str], locked: Path) -> None:
    run = lockgen("list", "small", "--sort", column, cwd=locked)
    assert (run.returncode, run.stderr) == (0, "")
    head, *rows = run.stdout.split("\n\n")[0].splitlines()
    assert head.split() == ["name", "version", "build", "channel", "size"]
    assert [row.split()[0] for row in rows] == names


def test_a_list_ends_with_the_sum(locked: Path) -> None:
    last = lockgen("list", "small", cwd=locked).stdout.splitlines()[-1]
    assert last == "linux-64: 7 packages, 9.1 MB to download; channels do not say installed sizes"


def test_a_list_of_one_variant(varied: Path) -> None:
    run = lockgen("list", "small", "--variant", "cpu", cwd=varied)
    assert "cpu_py313_h0_0" in run.stdout
    assert "cuda129" not in run.stdout
    assert run.stdout.splitlines()[-1].startswith("linux-64, variant cpu: 3 packages, ")


def test_a_list_of_a_platform_or_variant_that_is_not_locked_is_an_error(varied: Path) -> None:
    run = lockgen("list", "small", "--platform", "osx-arm64", cwd=varied)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "error: nothing is locked for platform `osx-arm64`\n"
        "  hint: locked: variant cpu on linux-64; variant gpu on linux-64\n"
    )
    run = lockgen("list", "small", "--variant", "rocm", "--json", cwd=varied)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: nothing is locked for variant `rocm`\n")


def test_a_list_as_json_holds_what_was_asked_for(varied: Path) -> None:
    run = lockgen("list", "small", "--variant", "gpu", "--json", cwd=varied)
    assert (run.returncode, run.stderr) == (0, "")
    (lock,) = json.loads(run.stdout)
    assert lock["variant"] == "gpu"
    assert [package["name"] for package in lock["platforms"][0]["packages"]] == [
        "cuda-version", "libtorch", "python", "pytorch",
    ]  # fmt: skip


# why


def test_why_shows_the_chain_from_the_spec(locked: Path) -> None:
    run = lockgen("why", "LibGCC", "small", cwd=locked)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == (
        "libgcc 14.2.0 h2_0 on linux-64\n"
        "  dependencies: numpy\n"
        "    └─ numpy\n"
        "      └─ libblas  (libblas >=3.9)\n"
        "        └─ libgcc  (libgcc >=14)\n"
        "  needed directly by: libblas\n"
    )


def test_why_of_a_package_that_is_not_in_exits_1_and_names_its_neighbours(locked: Path) -> None:
    run = lockgen("why", "numpyy", "small", cwd=locked)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "`numpyy` is not in the lock; near: numpy\n")


def test_why_says_for_each_variant(varied: Path) -> None:
    heads = [line for line in lockgen("why", "pytorch", cwd=varied).stdout.splitlines() if line.startswith("pytorch ")]
    assert heads == [
        "pytorch 2.9.1 cpu_py313_h0_0 on linux-64, variant cpu",
        "pytorch 2.9.1 cuda129_py313_h0_0 on linux-64, variant gpu",
    ]


# how a lock is named


@pytest.mark.parametrize("name", ["small", "small/", "small.yaml", "small/conda-lock.yml", None])
def test_a_lock_is_named_by_its_file_its_folder_its_spec_or_not_at_all(name: str | None, locked: Path) -> None:
    run = lockgen("list", *([name] if name else []), cwd=locked)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == lockgen("list", "small", cwd=locked).stdout


def test_without_a_lock_here(tmp_path: Path) -> None:
    run = lockgen("list", cwd=tmp_path)
    error = "error: no lock here\n  hint: to write one, run `lockgen resolve` on a spec, or name a lock\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)


def test_with_two_locks_here_one_has_to_be_named(locked: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "envs" / name).mkdir(parents=True)
        (tmp_path / "envs" / name / "conda-lock.yml").write_text((locked / "small" / "conda-lock.yml").read_text())
    run = lockgen("why", "numpy", cwd=tmp_path)
    error = "error: more than one lock here\n  hint: name one of: envs/one, envs/two\n"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere", "error: no such file: nowhere\n  hint: name a lock, its folder or its spec\n"),
        ("empty", "error: no lock in empty\n  hint: to write one, run `lockgen resolve` on a spec\n"),
        ("new.yaml", "error: no lock in new\n  hint: to write one, run `lockgen resolve` on a spec\n"),
    ],
)
def test_a_name_without_a_lock(name: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "new.yaml").write_text(SPEC)
    run = lockgen("list", name, cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", error)


# schema and init


def test_schema_prints_json_alone(tmp_path: Path) -> None:
    run = lockgen("schema", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["title"] == "lockgen spec"


def test_init_writes_a_spec_that_resolve_reads_and_does_not_overwrite(tmp_path: Path) -> None:
    run = lockgen("init", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "")
    (file,) = (tmp_path / "envs").iterdir()
    assert f"wrote envs/{file.name}\n" in run.stderr
    checked = lockgen("resolve", f"envs/{file.name}", "--check", cwd=tmp_path)
    assert (checked.returncode, checked.stderr.splitlines()[0]) == (1, f"no lock in envs/{file.stem}")
    again = lockgen("init", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is there already" in again.stderr
