"""What must never be written or shown: credentials, and anything of the machine, the person or the day."""

from __future__ import annotations

import datetime
import getpass
import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import SPEC, VARIANTS, contents, lockgen, resolved, workshop

from lockgen.cli.main import run
from lockgen.spec.parse import load

TOKEN = "tk-1a2b3c4d5e6f"
PASSWORD = "hunter2hunter2"
CHANNELS = (
    f"https://conda.example.org/t/{TOKEN}/private",
    f"https://someone:{PASSWORD}@conda.example.org/private",
    f"https://{TOKEN}@conda.example.org/private",
    f"https://conda.example.org/private?token={TOKEN}",
    f"https://conda.example.org/t/{TOKEN}",
    f"https://conda.example.org/t%2F{TOKEN}%2Fprivate",
    f"t/{TOKEN}/private",
    f"conda.example.org/t/{TOKEN}/private",
    f"t%2F{TOKEN}%2Fprivate",
)


def leaks(folder: Path, *outputs: str) -> list[str]:
    """Where a secret is seen: in a file that is not a spec, or in what was printed."""
    texts = {path.name: path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()}
    texts = {name: text for name, text in texts.items() if not name.endswith("spec.yaml")}
    texts |= {f"output {number}": text for number, text in enumerate(outputs)}
    return [name for name, text in texts.items() if TOKEN in text or PASSWORD in text]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("place", ["channels", "variants", "extends", "dependencies"])
def test_a_credential_in_a_spec_is_refused_and_not_repeated(
    channel: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = {
        "channels": f"name: t\nchannels: ['{channel}']\n",
        "variants": f"name: t\nvariants: {{a: {{channels: ['{channel}']}}}}\n",
        "extends": "name: t\nextends: [base-spec.yaml]\n",
        "dependencies": f"name: t\ndependencies: ['{channel}::numpy']\n",
    }[place]
    (tmp_path / "spec.yaml").write_text(text)
    (tmp_path / "base-spec.yaml").write_text(f"channels: ['{channel}']\n")
    monkeypatch.chdir(tmp_path)
    assert run(["resolve", "spec.yaml", "--offline"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert leaks(tmp_path, printed.err) == []


@pytest.mark.parametrize(
    "line",
    [
        "channels: [./t/one/two]",
        "channels: [/home/t/one/two]",
        "channels: [t/one, t]",
        "description: from a/t/b/c",
        "image: {workdir: /t/one/two}",
    ],
)
def test_a_folder_that_is_called_t_is_no_credential(line: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(f"name: a\n{line}\n")
    assert load(tmp_path / "spec.yaml").name == "a"


@pytest.mark.parametrize(
    "env",
    [
        {"LOCKGEN_SNAPSHOT": f"https://someone:{PASSWORD}@conda.example.org/t/{TOKEN}"},
        {"CONDA_TOKEN": TOKEN, "HTTPS_PROXY": f"http://someone:{PASSWORD}@proxy.example.org:3128"},
    ],
)
def test_a_credential_in_a_variable_is_not_repeated(env: Mapping[str, str], tmp_path: Path) -> None:
    workshop(tmp_path)
    arguments = [] if "LOCKGEN_SNAPSHOT" in env else ["--snapshot", "channels", "--json"]
    ended = lockgen("resolve", "small.yaml", *arguments, cwd=tmp_path, env=env)
    assert ended.returncode == (2 if "LOCKGEN_SNAPSHOT" in env else 0)
    assert leaks(tmp_path, ended.stdout, ended.stderr) == []


@pytest.mark.parametrize("text", [SPEC, VARIANTS])
def test_nothing_of_the_machine_the_person_or_the_day_is_written(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "a-folder-that-is-nobodys-business"
    folder.mkdir()
    workshop(folder, text)
    printed = [resolved(folder, *arguments) for arguments in ((), ("--json",))]
    printed += [lockgen("list", "small", "--json", cwd=folder), lockgen("why", "pytorch", "small", cwd=folder)]
    assert [each.returncode for each in printed] == [0, 0, 0, 0]
    everything = "\n".join([*contents(folder / "small").values(), *(each.stdout + each.stderr for each in printed)])
    today = datetime.date.today()
    for private in (str(tmp_path), folder.name, str(Path.home()) + "/", str(Path.cwd()), today.isoformat()):
        assert private not in everything, private
    for word in {socket.gethostname(), getpass.getuser()} - {"root", "runner", "localhost", "small"}:
        assert not re.search(rf"\b{re.escape(word)}\b", everything), word


def test_two_folders_and_two_homes_give_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name / "deep" / "er"
        folder.mkdir(parents=True)
        workshop(folder, VARIANTS)
        env = {"HOME": str(tmp_path / name), "TZ": "Asia/Tokyo" if name == "two" else "UTC", "LANG": "C", "USER": name}
        env |= {"LC_ALL": "C", "PYTHONHASHSEED": str(len(found) + 1), "CONDA_OVERRIDE_CUDA": "13.0"}
        ended = lockgen("resolve", "small.yaml", "--snapshot", "channels", "--json", cwd=folder, env=env)
        assert ended.returncode == 0, ended.stderr
        found.append((contents(folder / "small"), json.loads(ended.stdout)))
    assert found[0] == found[1]
