"""Dockerfiles: their text, the values in them as Docker reads them, and a linter's opinion."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from command_line import golden
from conftest import ROOT
from hypothesis import example, given
from hypothesis import strategies as st
from lock_values import CPU, GPU, PLAIN, VARIANTS
from pydantic import ValidationError

from lockgen.cli.files import read_locks
from lockgen.errors import LockError
from lockgen.image.dockerfile import dump, dumps
from lockgen.lock.model import Lock
from lockgen.spec.model import Image
from lockgen.spec.parse import load

FLAGSHIP = ROOT / "envs" / "pytorch-2.9-nlp"


def two_architectures() -> Lock:
    """The CPU lock on both architectures of Linux."""
    (one,) = (answer for answer in CPU.platforms if answer.platform == "linux-64")
    arm = dataclasses.replace(one, request=dataclasses.replace(one.request, platform="linux-aarch64"))
    return dataclasses.replace(CPU, variant=None, platforms=(one, arm))


# how Docker reads an instruction, written down from its documentation: words, quotes, escapes, variables


def instructions(text: str) -> list[tuple[str, str]]:
    """Instruction and arguments of each line, lines that end in a backslash joined, comments left out."""
    joined: list[str] = []
    unfinished = False
    for line in text.split("\n"):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        continues = bool(re.search(r"\\[ \t]*$", line))
        part = re.sub(r"\\[ \t]*$", "", line)
        if unfinished:
            joined[-1] += part
        else:
            joined.append(part)
        unfinished = continues
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined]


def words(text: str) -> list[str]:
    """Split at blanks outside of quotes; quotes and escapes stay in."""
    found: list[str] = []
    word, quote, escaped = "", "", False
    for character in text:
        if escaped:
            word, escaped = word + character, False
        elif character == "\\" and quote != "'":
            word, escaped = word + character, True
        elif quote:
            word += character
            quote = "" if character == quote else quote
        elif character in "'\"":
            word, quote = word + character, character
        elif character.isspace():
            found += [word] if word else []
            word = ""
        else:
            word += character
    return found + ([word] if word else [])


def value(word: str) -> str:
    """A word without its quotes and escapes; a variable is refused, since the image sets none of those names."""
    found, quote, position = "", "", 0
    while position < len(word):
        character = word[position]
        position += 1
        if quote == "'":
            quote, found = ("", found) if character == "'" else (quote, found + character)
        elif character == '"':
            quote = "" if quote else '"'
        elif character == "'" and not quote:
            quote = "'"
        elif character == "\\":
            escapes = word[position : position + 1]
            if quote and escapes not in ('"', "$", "\\"):
                found += "\\"
            else:
                found += escapes
                position += 1
        elif character == "$":
            raise AssertionError(f"Docker would expand a variable in {word}")
        else:
            found += character
    assert not quote, word
    return found


def pairs(text: str, instruction: str) -> dict[str, str]:
    """What all ENV or LABEL instructions set."""
    found = {}
    for name, arguments in instructions(text):
        if name == instruction:
            for word in words(arguments):
                key, _, content = word.partition("=")
                found[value(key)] = value(content)
    return found


def blocked(text: str) -> bool:
    """Whether the spec refuses the value: it is no line of text."""
    return any(ord(each) < 32 or each in "\x7f\x85\u2028\u2029" or 0xD800 <= ord(each) < 0xE000 for each in text)


plain = st.text(max_size=30).filter(lambda text: not blocked(text))
env_keys = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True).map(lambda key: f"X{key}")
label_keys = st.from_regex(r"[a-z0-9][a-z0-9./_-]{0,12}", fullmatch=True).map(lambda key: f"x.{key}")
VALUES = (
    "it's", 'say "hi"', "$HOME ${HOME} $(id)", "back\\slash\\", "`id`", "# no comment", "", "  blanks  ", "許可 é 🐍",
    "a=b", "\\n", '\\"', "\\$", "{{ name }}", "'", '"', "\\", "<<EOF",
)  # fmt: skip
HOSTILE = {f"X{position}": text for position, text in enumerate(VALUES)}


@given(env=st.dictionaries(env_keys, plain, max_size=4), labels=st.dictionaries(label_keys, plain, max_size=4))
@example(env=HOSTILE, labels={f"x.{key.lower()}": text for key, text in HOSTILE.items()})
def test_docker_reads_back_every_variable_and_label(env: dict[str, str], labels: dict[str, str]) -> None:
    text = dump(PLAIN, Image(env=env, labels=labels))
    found = pairs(text, "ENV")
    assert {key: found[key] for key in env} == env
    found = pairs(text, "LABEL")
    assert {key: found[key] for key in labels} == labels
    assert found["io.lockgen.fingerprint"] == PLAIN.fingerprint()


# the text


def test_the_text_for_one_platform(request: pytest.FixtureRequest) -> None:
    settings = Image(env={"HF_HOME": "/work/hf"}, labels={"org.example.team": "nlp"}, ports=[8888, 6006, 8888])
    golden(request, "dockerfile/gpu", dump(PLAIN, settings))


def test_the_text_for_two_architectures(request: pytest.FixtureRequest) -> None:
    golden(request, "dockerfile/two-architectures", dump(two_architectures(), Image()))


def test_each_variant_with_a_linux_platform_has_its_own() -> None:
    files = dumps(VARIANTS, Image())
    assert sorted(files) == ["Dockerfile.cpu", "Dockerfile.gpu"]
    for name, variant in (("Dockerfile.cpu", "cpu"), ("Dockerfile.gpu", "gpu")):
        assert f"COPY linux-64.{variant}.explicit.lock /tmp/lock/\n" in files[name]
        assert f"docker build -t small -f {name} .\n" in files[name]
        assert "osx" not in files[name]


def test_the_driver_that_compiles_ptx_is_asked_for_in_full() -> None:
    """The comment and the variable name one driver: 560.28.03 came with CUDA 12.6."""
    (one,) = PLAIN.platforms
    assert one.cuda is not None
    ptx = dataclasses.replace(one.cuda, locked="12.6", min_driver="560.28.03")
    text = dump(dataclasses.replace(PLAIN, platforms=(dataclasses.replace(one, cuda=ptx),)), Image())
    assert "refuses one older than 560.28.03.\n" in text
    assert pairs(text, "ENV")["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.6"
    assert pairs(dump(PLAIN, Image()), "ENV")["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("env", {"CONDA_OVERRIDE_CUDA": "12.9"}, "`CONDA_OVERRIDE_CUDA` is not for `image.env`"),
        ("env", {"PATH": "/bin"}, "`PATH` is not for `image.env`"),
        ("labels", {"io.lockgen.fingerprint": "x"}, "the label `io.lockgen.fingerprint` is written by lockgen"),
        ("workdir", "/", "not a folder to work in: `/`"),
        ("workdir", "/etc/", "not a folder to work in: `/etc/`"),
        ("workdir", "/work/../etc", "not a folder to work in: `/work/../etc`"),
        ("user", "0:0", "the image's processes do not run as root: `0:0`"),
        ("user", "00:5", "the image's processes do not run as root: `00:5`"),
    ],
)
def test_what_an_image_may_not_say(key: str, value: object, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Image.model_validate({key: value})
    assert message in str(error.value)


def test_a_lock_for_macos_alone_has_none() -> None:
    mac = dataclasses.replace(CPU, platforms=CPU.platforms[1:])
    assert dumps([mac], Image()) == {}
    with pytest.raises(LockError) as error:
        dump(mac, Image())
    assert str(error.value) == "`small` is locked for no Linux platform: there is no image to build"


def test_a_name_with_capitals_makes_a_tag_that_docker_takes() -> None:
    assert "docker build -t small-gpu .\n" in dump(dataclasses.replace(PLAIN, name="Small-GPU"), Image())


@pytest.mark.parametrize("lock", [PLAIN, GPU, CPU, two_architectures()])
def test_what_every_image_keeps_to(lock: Lock) -> None:
    text = dump(lock, Image())
    found = instructions(text)
    assert [name for name, _ in found].count("FROM") == 2
    assert all("@sha256:" in arguments for name, arguments in found if name == "ARG" and "=" in arguments)
    last = dict(found)
    assert last["USER"] == "1000:1000"
    assert last["CMD"] == '["python"]'
    assert [arguments for name, arguments in found if name == "COPY"][-1] == "--from=build /opt/env /opt/env"
    assert "CONDA_OVERRIDE_CUDA" not in text
    assert (pairs(text, "ENV").get("NVIDIA_VISIBLE_DEVICES") == "all") == (lock.platforms[0].cuda is not None)
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert text.endswith('CMD ["python"]\n')


def base_images() -> list[str]:
    """The base images that are known, by the files themselves."""
    files = sorted((ROOT / "src/lockgen/knowledge/images").glob("*.toml"))
    return [file.stem for file in files if tomllib.loads(file.read_text())["role"] == "base"]


@pytest.mark.parametrize("name", base_images())
def test_a_base_image_is_named_with_its_digest(name: str) -> None:
    text = dump(PLAIN, Image(base=name))
    base = next(arguments for _, arguments in instructions(text) if arguments.startswith("BASE="))
    assert re.fullmatch(r"BASE=[\w./:-]+@sha256:[0-9a-f]{64}", base)


def test_a_base_of_ones_own_stays_as_it_is() -> None:
    base = f"registry.example.org/team/base@sha256:{'0' * 64}"
    assert f"ARG BASE={base}\n" in dump(PLAIN, Image(base=base))


@pytest.mark.parametrize("lock", [PLAIN, CPU, two_architectures()])
def test_a_linter_has_nothing_to_say(lock: Lock, tmp_path: Path) -> None:
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("no hadolint on PATH")
    file = tmp_path / "Dockerfile"
    known = {key: text for key, text in HOSTILE.items() if not re.search(r'\\"?$', text)}  # its parser stops at `\\\\"`
    file.write_text(dump(lock, Image(env=known, labels={"org.example.team": "nlp"}, ports=[8888])))
    run = subprocess.run([linter, "--no-color", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "")


# what is committed


@pytest.mark.skipif(not (FLAGSHIP / "conda-lock.yml").exists(), reason="the flagship is not locked yet")
def test_the_dockerfile_at_the_root_is_the_flagships() -> None:
    spec = load(ROOT / "envs" / "pytorch-2.9-nlp.yaml")
    (lock,) = read_locks(FLAGSHIP)
    expected = dump(lock, spec.targets[0].settings.image, context="envs/pytorch-2.9-nlp/")
    assert (ROOT / "Dockerfile").read_text() == expected, "run `make flagship`"
