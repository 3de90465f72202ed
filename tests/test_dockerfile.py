"""Dockerfiles: their text, the values in them as Docker reads them, and a linter's opinion."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from command_line import golden
from conftest import ROOT
from dockerfile_parse import DockerfileParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lock_values import CPU, GPU, PLAIN
from pydantic import ValidationError

from lockgen.cli.files import read_locks
from lockgen.image.dockerfile import INSTALLERS, Build, render
from lockgen.image.model import Base, Folder, Health, ImageFile, ImagePlan, Layer
from lockgen.image.payload.stage import EPOCH
from lockgen.image.plan import ImageError, has_images, plan
from lockgen.knowledge import tables
from lockgen.knowledge.extra import Service
from lockgen.lock.codec import suffixed
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


def planned(lock: Lock, image: Image | None = None, services: tuple[Service, ...] = ()) -> list[ImagePlan]:
    """The plans of a lock's Linux platforms."""
    return [plan(lock, one, image or Image(), services) for one in lock.platforms if has_images(one.platform)]


def dumped(lock: Lock, image: Image | None = None, installer: str = "micromamba") -> str:
    """The Dockerfile alone."""
    files = render(lock, planned(lock, image), Build(installer=installer, version="1.2.3"))
    return files[suffixed("Dockerfile", lock)]


@settings(max_examples=50, deadline=None)
@given(env=st.dictionaries(env_keys, plain, max_size=4), labels=st.dictionaries(label_keys, plain, max_size=4))
@example(env=HOSTILE, labels={f"x.{key.lower()}": text for key, text in HOSTILE.items()})
def test_docker_reads_back_every_variable_and_label(env: dict[str, str], labels: dict[str, str]) -> None:
    text = dumped(PLAIN, Image(env=env, labels=labels))
    found = pairs(text, "ENV")
    assert {key: found[key] for key in env} == env
    found = pairs(text, "LABEL")
    assert {key: found[key] for key in labels} == labels
    assert found["io.lockgen.fingerprint"] == PLAIN.fingerprint()


@settings(max_examples=30, deadline=None)
@given(words=st.lists(plain, min_size=1, max_size=4))
@example(words=list(VALUES))
def test_commands_reach_their_program_word_for_word(words: list[str]) -> None:
    (one,) = planned(PLAIN)
    health = Health(command=tuple(words))
    hostile = dataclasses.replace(one, entrypoint=tuple(words), command=tuple(words[::-1]), health=health)
    text = render(PLAIN, [hostile])["Dockerfile"]
    found = dict(instructions(text))
    assert json.loads(found["ENTRYPOINT"]) == words
    assert json.loads(found["CMD"]) == words[::-1]
    assert found["HEALTHCHECK"].split("CMD ", 1)[0].split() == [
        *("--interval=30s", "--timeout=10s", "--start-period=60s")
    ]
    assert json.loads(found["HEALTHCHECK"].split("CMD ", 1)[1]) == words


@settings(max_examples=30, deadline=None)
@given(values=st.lists(plain, max_size=4))
@example(values=list(VALUES))
def test_another_parser_finds_the_same_instructions_whatever_the_values(values: list[str]) -> None:
    """dockerfile-parse is not ours: no value makes an instruction of its own, or takes one away."""
    image = Image(env={f"X{number}": text for number, text in enumerate(values)}, labels={"x": "".join(values)})
    parser = DockerfileParser(fileobj=io.BytesIO())
    parser.content = dumped(PLAIN, image)
    found = [row["instruction"] for row in parser.structure if row["instruction"] != "COMMENT"]
    usual = [name for name, _ in instructions(dumped(PLAIN))]
    more = ["ENV" for text in values if "$" in text]  # a linter takes them for references in an ENV of several
    place = usual.index("ENV")
    assert found == [*usual[:place], *more, *usual[place:]]


@pytest.mark.parametrize("value", ["a\nRUN id", "a\x00", "a\u2028b", "\ud800"])
@pytest.mark.parametrize("field", ["name", "env", "labels", "entrypoint", "command", "health"])
def test_a_value_of_more_than_one_line_is_refused(field: str, value: str) -> None:
    """Specs refuse it; a lock that somebody wrote by hand may have it."""
    (one,) = planned(PLAIN)
    values = {
        "name": value, "env": (("X", value),), "labels": ((value, ""),),
        "entrypoint": (value,), "command": (value,), "health": Health(command=(value,)),
    }  # fmt: skip
    changed = dataclasses.replace(one, **{field: values[field]})  # type: ignore[arg-type]
    with pytest.raises(ImageError) as error:
        render(PLAIN, [changed])
    assert str(error.value) == f"not fit for a Dockerfile: value of one line: {value!r}"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("variant", "a b", "variant: `a b`"),
        ("user", "1000", "user: `1000`"),
        ("login", "a:b", "login: `a:b`"),
        ("prefix", "/opt/a b", "path: `/opt/a b`"),
        ("workdir", "/a;id", "path: `/a;id`"),
        ("home", "/home/$USER", "path: `/home/$USER`"),
        ("needs", ("/bin/sh -c",), "path: `/bin/sh -c`"),
        ("distribution", ("a;id",), "package of the distribution: `a;id`"),
        ("env", (("A B", ""),), "variable: `A B`"),
        ("base", Base(reference="a b", digest=None, glibc=None), "base: `a b`"),
        ("layers", (Layer(name="../x", packages=("python",), size=1),), "layer: `../x`"),
        ("files", (ImageFile(path="/etc/$(id)", text=""),), "path: `/etc/$(id)`"),
        ("folders", (Folder(path="relative"),), "path: `relative`"),
    ],
)
def test_a_word_that_a_shell_would_read_is_refused(field: str, value: object, said: str) -> None:
    (one,) = planned(PLAIN)
    with pytest.raises(ImageError) as error:
        render(PLAIN, [dataclasses.replace(one, **{field: value})])  # type: ignore[arg-type]
    assert str(error.value) == f"not fit for a Dockerfile: {said}"


def test_a_base_that_is_a_file_is_for_the_other_writer() -> None:
    (one,) = planned(PLAIN)
    local = dataclasses.replace(one, base=Base(reference="oci:/tmp/base", digest=None, glibc=None))
    with pytest.raises(ImageError) as error:
        render(PLAIN, [local])
    assert str(error.value) == (
        "a Dockerfile cannot begin with `oci:/tmp/base`: it takes images of a registry\n"
        "  hint: `lockgen image build` takes files and folders"
    )


# the text


def test_the_text_for_one_platform(request: pytest.FixtureRequest) -> None:
    image = Image(env={"HF_HOME": "/work/hf"}, labels={"org.example.team": "nlp"}, ports=[8888, 6006, 8888])
    golden(request, "dockerfile/gpu", dumped(PLAIN, image))


def test_the_text_for_two_architectures(request: pytest.FixtureRequest) -> None:
    golden(request, "dockerfile/two-architectures", dumped(two_architectures()))


@pytest.mark.parametrize("installer", INSTALLERS[1:])
def test_the_text_of_each_other_installer(request: pytest.FixtureRequest, installer: str) -> None:
    """The stages after the first are the same, whoever installs."""
    text = dumped(PLAIN, installer=installer)
    golden(request, f"dockerfile/{installer}", text)
    assert text.split("\nCOPY image/ ./")[1] == dumped(PLAIN).split("\nCOPY image/ ./")[1]


def test_every_installer_has_its_image() -> None:
    for installer in INSTALLERS[:-1]:
        row = tables.image(installer)
        assert row is not None
        assert row.role == "installer"
        assert f"ARG INSTALLER={row.pinned}\n" in dumped(PLAIN, installer=installer)
    base = tables.default_image("base").pinned
    assert f"ARG INSTALLER={base}\n" in dumped(PLAIN, Image(base="ubuntu-24.04"), installer="lockgen")


def test_a_service_of_the_distribution_is_installed_before_the_user_is_made() -> None:
    (one,) = planned(PLAIN)
    with_ssh = dataclasses.replace(one, distribution=("openssh-server", "tini"), needs=("/usr/sbin/sshd",))
    text = render(PLAIN, [with_ssh])["Dockerfile"]
    runs = [arguments for name, arguments in instructions(text) if name == "RUN"]
    (apt,) = (run for run in runs if "apt-get" in run)
    assert "apt-get install --yes --no-install-recommends openssh-server tini " in apt
    assert "rm -f /var/lib/apt/lists/*_*" in apt
    assert "/etc/ssh/ssh_host_*_key*" in apt
    account = next(run for run in runs if "/etc/passwd" in run)
    assert account.startswith("test -e /usr/sbin/sshd ")
    assert runs.index(apt) < runs.index(account)


def account_script(plan: ImagePlan) -> str:
    """What makes the user, in a folder `root` instead of the image's root."""
    text = render(PLAIN, [plan])["Dockerfile"]
    (run,) = (arguments for name, arguments in instructions(text) if name == "RUN" and "/etc/passwd" in arguments)
    return run.replace("/account", "account").replace(" /etc", " root/etc")


@pytest.mark.parametrize(
    ("user", "passwd", "group"),
    [
        ("1000:1000", "lockgen:x:1000:1000::/home/lockgen:/bin/bash\n", "ubuntu:x:1000:\n"),
        ("5:100", "ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\nlockgen:x:5:100::/home/lockgen:/bin/bash\n", None),
        ("0042:42", None, None),
    ],
)
def test_the_user_takes_the_place_of_another_with_its_number(
    user: str, passwd: str | None, group: str | None, tmp_path: Path
) -> None:
    (one,) = planned(PLAIN)
    etc = tmp_path / "root" / "etc"
    etc.mkdir(parents=True)
    root = "root:x:0:0::/root:/bin/sh\n"
    (etc / "passwd").write_text(f"{root}ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\nubuntu:x:1000:\n")
    script = account_script(dataclasses.replace(one, user=user))
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True)
    made = tmp_path / "account" / "etc"
    others = "ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n"
    own = f"{others}lockgen:x:42:42::/home/lockgen:/bin/bash\n"
    assert (made / "passwd").read_text() == root + (passwd or own)
    number = user.split(":")[1]
    expected = "root:x:0:\n" + (group or f"ubuntu:x:1000:\nlockgen:x:{number}:\n")
    assert (made / "group").read_text() == expected
    assert {path.stat().st_mtime for path in (tmp_path / "account").rglob("*")} == {EPOCH}


def test_files_and_folders_get_their_mode_and_owner(tmp_path: Path) -> None:
    """The commands of the build stage are run, and the COPY lines are read, as a builder would."""
    (one,) = planned(PLAIN)
    folders = (
        Folder(path="/home/lockgen"), Folder(path="/home/lockgen/.ssh", mode=0o700), Folder(path="/work"),
        Folder(path="/srv/shared", mode=0o750, owned=False),
    )  # fmt: skip
    files = (
        ImageFile(path="/etc/x.conf", text="x"), ImageFile(path="/home/lockgen/.rc", text="rc", mode=0o600, owned=True),
        ImageFile(path="/opt/lockgen/entrypoint", text="#!/bin/sh\n", mode=0o755),
        ImageFile(path="/var/own", text="own", owned=True),
    )  # fmt: skip
    rendered = render(PLAIN, [dataclasses.replace(one, folders=folders, files=files)])
    for name, text in rendered.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = instructions(rendered["Dockerfile"])
    (placing,) = (arguments for name, arguments in found if name == "RUN" and "install -d" in arguments)
    script = placing.replace("/layers/", f"{tmp_path}/layers/")
    subprocess.run(["sh", "-euc", script], cwd=tmp_path / "image", check=True)
    copies = [arguments.split() for name, arguments in found if name == "COPY" and "/layers/own/" in arguments]
    image = {}
    for copy in copies:
        source, target = (Path(f"{tmp_path}{copy[-2]}"), Path(copy[-1]))
        for path in source.rglob("*"):
            assert path.stat().st_mtime == EPOCH
            user = "1000:1000" if "--chown=1000:1000" in copy else "0:0"
            image[str(target / path.relative_to(source))] = (oct(path.stat().st_mode & 0o7777), user)
    assert image == {
        "/etc": ("0o755", "0:0"), "/etc/x.conf": ("0o644", "0:0"),
        "/home": ("0o755", "0:0"), "/home/lockgen": ("0o755", "1000:1000"),
        "/home/lockgen/.rc": ("0o600", "1000:1000"), "/home/lockgen/.ssh": ("0o700", "1000:1000"),
        "/opt": ("0o755", "0:0"), "/opt/lockgen": ("0o755", "0:0"), "/opt/lockgen/entrypoint": ("0o755", "0:0"),
        "/srv": ("0o755", "0:0"), "/srv/shared": ("0o750", "0:0"),
        "/var/own": ("0o644", "1000:1000"), "/work": ("0o755", "1000:1000"),
    }  # fmt: skip


def test_layers_are_copied_in_the_plans_order_and_the_groups_say_what_is_in_them() -> None:
    files = render(PLAIN, planned(PLAIN))
    copied = re.findall(r"COPY --from=build /layers/([a-z0-9-]+)/ /\n", files["Dockerfile"])
    (one,) = planned(PLAIN)
    assert copied == [layer.name for layer in one.layers]
    rows = json.loads(files["image/groups.json"])["layers"]
    assert [row["name"] for row in rows] == copied
    packages = sorted(name for row in rows for name in row["packages"])
    assert packages == [package.name for package in PLAIN.platforms[0].packages]


def test_files_of_packages_and_of_lockgen_have_one_time() -> None:
    text = dumped(PLAIN)
    assert f" --epoch {EPOCH}\n" in text
    assert {int(seconds) for seconds in re.findall(r"--date=@([0-9]+)", text)} == {EPOCH}


def test_a_layer_that_one_platform_alone_has_is_empty_on_the_other() -> None:
    lock = two_architectures()
    first, second = planned(lock)
    extra = Layer(name="more", packages=("openssl",), size=1)
    rest = tuple(
        dataclasses.replace(layer, packages=tuple(name for name in layer.packages if name != "openssl"))
        for layer in second.layers
    )
    files = render(lock, [first, dataclasses.replace(second, layers=(extra, *rest))])
    copied = re.findall(r"COPY --from=build /layers/([a-z0-9-]+)/ /\n", files["Dockerfile"])
    assert copied == [*(layer.name for layer in first.layers), "more"] or copied[0] == "more"
    for architecture in ("amd64", "arm64"):
        rows = json.loads(files[f"image/{architecture}/groups.json"])["layers"]
        assert [row["name"] for row in rows] == copied
    assert {"name": "more", "packages": []} in json.loads(files["image/amd64/groups.json"])["layers"]
    assert {"name": "more", "packages": ["openssl"]} in json.loads(files["image/arm64/groups.json"])["layers"]


def test_a_lock_without_python_is_copied_as_it_is() -> None:
    (one,) = PLAIN.platforms
    kept = tuple(package for package in one.packages if package.name in ("openssl", "llvm-openmp"))
    lock = dataclasses.replace(PLAIN, platforms=(dataclasses.replace(one, packages=kept),))
    text = dumped(lock)
    assert "stage.py --prefix" not in text
    assert "\nCOPY --from=build /opt/env/ /opt/env/\n" in text


def test_each_variant_has_its_own() -> None:
    for lock, variant in ((CPU, "cpu"), (GPU, "gpu")):
        files = render(lock, planned(lock))
        text = files[f"Dockerfile.{variant}"]
        assert f"COPY linux-64.{variant}.explicit.lock lock/\n" in text
        assert f"docker build -t small -f Dockerfile.{variant} .\n" in text
        assert f"\nCOPY image.{variant}/ ./\n" in text
        assert "osx" not in text
        assert {name.split("/")[0] for name in files} == {f"Dockerfile.{variant}", f"image.{variant}"}


def test_the_driver_that_compiles_ptx_is_asked_for_in_full() -> None:
    """The comment and the variable name one driver: 560.28.03 came with CUDA 12.6."""
    (one,) = PLAIN.platforms
    assert one.cuda is not None
    ptx = dataclasses.replace(one.cuda, locked="12.6", min_driver="560.28.03")
    text = dumped(dataclasses.replace(PLAIN, platforms=(dataclasses.replace(one, cuda=ptx),)))
    assert "refuses one older than 560.28.03.\n" in text
    assert pairs(text, "ENV")["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.6"
    assert pairs(dumped(PLAIN), "ENV")["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("env", {"CONDA_OVERRIDE_CUDA": "12.9"}, "`CONDA_OVERRIDE_CUDA` is not for `image.env`"),
        ("env", {"PATH": "/bin"}, "`PATH` is not for `image.env`"),
        ("labels", {"io.lockgen.fingerprint": "x"}, "the label `io.lockgen.fingerprint` is written by lockgen"),
        ("workdir", "/", "not a folder to work in: `/`"),
        ("workdir", "/etc/", "not a folder to work in: `/etc/`"),
        ("workdir", "/usr/bin", "not a folder to work in: `/usr/bin`"),
        ("workdir", "/var/lib", "not a folder to work in: `/var/lib`"),
        ("workdir", "/home", "not a folder to work in: `/home`"),
        ("workdir", "/work/../etc", "not a folder to work in: `/work/../etc`"),
        ("user", "0:0", "the image's processes do not run as root: `0:0`"),
        ("user", "00:5", "the image's processes do not run as root: `00:5`"),
    ],
)
def test_what_an_image_may_not_say(key: str, value: object, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Image.model_validate({key: value})
    assert message in str(error.value)


def test_a_name_with_capitals_makes_a_tag_that_docker_takes() -> None:
    assert "docker build -t small-gpu .\n" in dumped(dataclasses.replace(PLAIN, name="Small-GPU"))


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize("lock", [PLAIN, GPU, CPU, two_architectures()])
def test_what_every_dockerfile_keeps_to(lock: Lock, installer: str) -> None:
    text = dumped(lock, installer=installer)
    found = instructions(text)
    assert [arguments for name, arguments in found if name == "FROM"] == [
        *("${INSTALLER} AS build", "${BASE} AS system", "system AS account", "system")
    ]
    assert all("@sha256:" in arguments for name, arguments in found if arguments.startswith(("BASE=", "INSTALLER=")))
    assert ("ARG", f"SOURCE_DATE_EPOCH={planned(lock)[0].created}") in found
    last = dict(found)
    assert last["USER"] == "1000:1000"
    assert json.loads(last["CMD"]) == ["python"]
    final = found[max(number for number, (name, _) in enumerate(found) if name == "FROM") :]
    assert "RUN" not in dict(final), "a command leaves files of the builder's own in its layer"
    (fetching,) = (arguments for name, arguments in found if name == "RUN" and "id=netrc" in arguments)
    assert fetching.startswith("--mount=type=cache,target=/var/cache/")
    assert ("/opt/env" in fetching) == (installer != "pixi"), "pixi-unpack takes the folder above and a name"
    assert not re.search(r"<<|--link|^# *syntax", text, re.MULTILINE)
    assert "CONDA_OVERRIDE_CUDA" not in text
    assert (pairs(text, "ENV").get("NVIDIA_VISIBLE_DEVICES") == "all") == (lock.platforms[0].cuda is not None)
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert text.endswith('CMD ["python"]\n')


def base_images() -> list[str]:
    """The base images that are known and have no CUDA of their own, by the files themselves."""
    files = sorted((ROOT / "src/lockgen/knowledge/images").glob("*.toml"))
    rows = {file.stem: tomllib.loads(file.read_text()) for file in files}
    return [name for name, row in rows.items() if row["role"] == "base" and "cuda" not in row]


@pytest.mark.parametrize("name", base_images())
def test_a_base_image_is_named_with_its_digest(name: str) -> None:
    text = dumped(PLAIN, Image(base=name))
    base = next(arguments for _, arguments in instructions(text) if arguments.startswith("BASE="))
    assert re.fullmatch(r"BASE=[\w./:-]+@sha256:[0-9a-f]{64}", base)


def test_a_base_of_ones_own_stays_as_it_is() -> None:
    base = f"registry.example.org/team/base@sha256:{'0' * 64}"
    assert f"ARG BASE={base}\n" in dumped(PLAIN, Image(base=base))


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize("lock", [PLAIN, CPU, two_architectures()])
def test_a_linter_has_nothing_to_say(lock: Lock, installer: str, tmp_path: Path) -> None:
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("no hadolint on PATH")
    file = tmp_path / "Dockerfile"
    known = {key: text for key, text in HOSTILE.items() if not re.search(r'\\"?$', text)}  # its parser stops at `\\\\"`
    image = Image(env=known, labels={"org.example.team": "nlp"}, ports=[8888])
    plans = planned(lock, image)
    plans[0] = dataclasses.replace(
        plans[0], distribution=("openssh-server",), needs=("/usr/sbin/sshd",), health=Health(command=("true", "it's"))
    )
    text = render(lock, plans, Build(installer=installer))[suffixed("Dockerfile", lock)]
    file.write_text(text)
    run = subprocess.run([linter, "--no-color", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "")


# what is committed


@pytest.mark.skipif(not (FLAGSHIP / "conda-lock.yml").exists(), reason="the flagship is not locked yet")
def test_the_dockerfile_at_the_root_is_the_flagships() -> None:
    spec = load(ROOT / "envs" / "pytorch-2.9-nlp.yaml")
    (lock,) = read_locks(FLAGSHIP)
    (target,) = spec.targets
    plans = planned(lock, target.settings.image, target.services)
    expected = render(lock, plans, Build(context="envs/pytorch-2.9-nlp/"))["Dockerfile"]
    assert (ROOT / "Dockerfile").read_text() == expected, "run `make flagship`"
