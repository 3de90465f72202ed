"""What lockgen puts into an image: scripts that run in every shell, and services that keep strangers out."""

from __future__ import annotations

import configparser
import http.server
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockgen.errors import SpecError
from lockgen.image.contents import Contents, contents
from lockgen.image.model import Folder, Health, ImageFile
from lockgen.knowledge.extra import Service, extra, load_extra
from lockgen.lock.model import CudaFacts

CUDA = CudaFacts(asked="12.1", locked="12.9", min_driver="525.60.13", capabilities=("8.0",))
LOCKED = frozenset({"python", "jupyterlab", "openssh", "code-server", "supervisor", "tini"})
PREFIX = "/opt/env"


def services(*names: str) -> tuple[Service, ...]:
    return tuple(service for name in names if (found := extra(name)) for service in found.services)


def of(
    *names: str,
    packages: frozenset[str] = LOCKED,
    prefix: str = PREFIX,
    cuda: CudaFacts | None = None,
    family: str = "debian",
    more: Sequence[Service] = (),
    user: str = "1000:1000",
) -> Contents:
    return contents(
        packages=packages,
        services=[*services(*names), *more],
        prefix=prefix,
        user=user,
        login="user",
        home="/home/user",
        workdir="/work",
        cuda=cuda,
        family=family,
    )


def text_of(found: Contents, path: str) -> str:
    return next(file.text for file in found.files if file.path == path)


# what an image is told


def test_an_image_without_services_starts_python_in_its_environment() -> None:
    found = of()
    assert found.entrypoint == ("/opt/lockgen/entrypoint",)
    assert found.command == ("python",)
    assert (found.health, found.ports, found.distribution, found.needs, found.notes) == (None, (), (), (), ())
    assert found.env == (("ENV", "/opt/lockgen/activate.sh"), ("BASH_ENV", "/opt/lockgen/activate.sh"))
    assert found.folders == (Folder(path="/home/user"), Folder(path="/work"))
    assert [(file.path, file.mode, file.owned) for file in found.files] == [
        ("/etc/bash.bashrc", 0o644, False),
        ("/etc/profile.d/lockgen.sh", 0o644, False),
        ("/opt/lockgen/activate.sh", 0o644, False),
        ("/opt/lockgen/entrypoint", 0o755, False),
    ]


def test_an_image_without_python_starts_a_shell() -> None:
    assert of(packages=frozenset({"r-base"})).command == ("bash",)


def test_one_service_needs_no_supervisor() -> None:
    found = of("jupyter")
    assert found.command == ("/opt/lockgen/serve",)
    assert found.ports == (8888,)
    assert found.health == Health(command=("/opt/lockgen/health",))
    assert text_of(found, "/opt/lockgen/serve").endswith("\nexec /opt/lockgen/services/jupyter\n")
    assert text_of(found, "/opt/lockgen/services/jupyter") == (
        "#!/bin/sh\nexec /opt/env/bin/jupyter lab --ip=0.0.0.0 --port=8888 --no-browser\n"
    )
    assert "/opt/lockgen/supervisord.conf" not in {file.path for file in found.files}


def test_several_services_share_a_supervisor_of_the_lock() -> None:
    found = of("jupyter", "ssh", "vscode", "tools")
    assert found.ports == (2222, 8888)
    assert found.distribution == ()
    assert "exec /opt/env/bin/supervisord -n -c /opt/lockgen/supervisord.conf\n" in text_of(found, "/opt/lockgen/serve")
    configuration = configparser.RawConfigParser()
    configuration.read_string(text_of(found, "/opt/lockgen/supervisord.conf"))
    assert configuration.sections() == ["supervisord", "program:jupyter", "program:ssh", "program:vscode"]
    assert configuration["program:ssh"]["command"] == "/opt/lockgen/services/ssh"
    assert configuration["program:ssh"]["stdout_logfile"] == "/dev/fd/1"
    assert configuration["supervisord"]["nodaemon"] == "true"


def test_what_the_lock_lacks_comes_from_the_distribution_of_the_base() -> None:
    found = of("jupyter", "ssh", packages=frozenset({"python", "jupyterlab"}))
    assert found.distribution == ("openssh-server", "supervisor", "tini")
    assert found.needs == ("/usr/bin/supervisord", "/usr/sbin/sshd")  # without tini it runs too
    assert found.notes == ("from the base's distribution, not from the lock: openssh-server, supervisor, tini",)
    assert "exec /usr/sbin/sshd -D -e " in text_of(found, "/opt/lockgen/services/ssh")
    assert of("ssh", packages=frozenset({"dumb-init", "openssh"})).distribution == ()


def test_a_service_that_nothing_brings_is_left_out_by_name() -> None:
    found = of("vscode", packages=frozenset({"python"}))
    assert found.command == ("python",)
    assert found.notes == ("service `vscode` is left out: `code-server` is neither in the lock nor in debian",)
    other = of("ssh", packages=frozenset({"python"}), family="alpine")
    assert other.notes == ("service `ssh` is left out: `sshd` is neither in the lock nor in alpine",)


def test_code_server_is_for_this_machine_only_until_it_is_told_otherwise() -> None:
    found = of("vscode")
    assert found.ports == ()
    assert found.notes == ("service `vscode` listens on 127.0.0.1:8080 unless `CODE_SERVER_BIND` is set",)


def test_ssh_has_folders_that_a_volume_takes_over_with_their_owner() -> None:
    assert of("ssh").folders == (
        Folder(path="/home/user"),
        Folder(path="/home/user/.ssh", mode=0o700),
        Folder(path="/home/user/.ssh-host", mode=0o700),
        Folder(path="/work"),
    )


def test_root_is_told_that_it_starts_no_services() -> None:
    assert of("jupyter", user="0:0").notes == (
        "the image's user is root, and these do not run as root: `jupyter`",
    )  # fmt: skip


def test_the_order_of_services_changes_nothing() -> None:
    assert of("jupyter", "ssh", "vscode", cuda=CUDA) == of("vscode", "ssh", "ssh", "jupyter", cuda=CUDA)


OWN = 'name = "own"\nsummary = "s"\n[[package]]\nspec = "a"\nreason = "r"\nimports = []\n[[service]]\n'


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('name = "x y"\ncommand = ["a"]\nport = 8000', "`name` in an extra: expected lower-case letters, digits, `-`"),
        ('name = "x"\ncommand = []\nport = 8000', "`command` in an extra: is empty"),
        ('name = "x"\ncommand = ["a"]\nport = 80', "`port` in an extra: expected 1024 to 65535: services do not run"),
        ('name = "x"\ncommand = ["a"]\nport = 8000\nhealth = "api"', "`health` in an extra: expected a path on the"),
        ('name = "x"\ncommand = ["a"]\nport = 8000\nbind = "a;b"', "`bind` in an extra: expected the name of a variab"),
    ],
)
def test_a_service_of_ones_own_is_checked(rows: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_extra(OWN + rows, "own.toml")
    assert caught.value.problems[0].message.startswith(message)


# the scripts are read by shells and by a linter


def _scripts() -> list[ImageFile]:
    found = of("jupyter", "ssh", "vscode", cuda=CUDA, packages=LOCKED - {"openssh"})
    return [file for file in found.files if not file.path.endswith((".conf", "_config"))]


@pytest.mark.parametrize("file", _scripts(), ids=lambda file: file.path)
def test_a_script_has_no_fault_that_shells_or_shellcheck_find(file: ImageFile) -> None:
    program = re.match(r"#!/bin/(sh|bash)", file.text)
    shell = program[1] if program else "bash" if "bash" in file.path else "sh"
    assert (file.mode == 0o755) == bool(program)
    for reader in {shell, "bash"}:
        subprocess.run([reader, "-n"], input=file.text, text=True, check=True)
    linter = Path(sys.executable).with_name("shellcheck")
    if not linter.exists():
        pytest.skip("no shellcheck beside this Python")
    # files to read are known at run time only
    done = subprocess.run(
        [linter, "--shell", shell, "--exclude", "SC1090,SC1091", "-"], input=file.text, text=True, capture_output=True
    )
    assert (done.stdout, done.returncode) == ("", 0)


# the scripts run


@dataclass(frozen=True)
class Rendered:
    """An image's files below a folder, which stands in for `/`."""

    root: Path
    prefix: Path

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{self.prefix}/bin:/usr/bin:/bin", "HOME": str(self.root), **(more or {})}
        return subprocess.run(command, env=variables, text=True, capture_output=True, cwd=self.root, timeout=60)

    def enter(self, *command: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(f"{self.root}/opt/lockgen/entrypoint", *command, more=more)

    def script(self, path: str, text: str) -> None:
        """A program or a script below the prefix."""
        file = self.prefix / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)


DEVICES = ("/proc/driver/nvidia", "/dev/nvidia", "/dev/dxg", "/proc/1/", "/proc/net/")


def rendered(root: Path, *names: str, cuda: CudaFacts | None = None, name: str = "env", **more: object) -> Rendered:
    """Everything that the scripts look at is below the folder; shared memory is large."""
    prefix = root / name
    found = of(*names, cuda=cuda, prefix=str(prefix), **more)  # type: ignore[arg-type]
    for file in found.files:
        text = file.text
        for place in ("/opt/lockgen", *DEVICES):
            text = text.replace(place, f"{root}{place}")
        path = root / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(file.mode)
    for folder in ("dev", "proc/driver/nvidia", "proc/1", "proc/net"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    here = Rendered(root, prefix)
    here.script("bin/df", "#!/bin/sh\necho Filesystem 1024-blocks\necho shm ${SHM:-8388608} 0 0 0% /dev/shm\n")
    return here


KERNEL_MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 12\n"
)
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U16)\n"
TOO_OLD = (
    "lockgen: NVIDIA driver {} is too old: CUDA 12.9 of this image needs driver 525.60.13 or newer; "
    "update the driver of the host\n"
)
NO_GPU = (
    "lockgen: no GPU is visible: start the container with --gpus all; "
    "CUDA 12.9 of this image needs driver 525.60.13 or newer\n"
)


@pytest.mark.parametrize(
    ("module", "driver", "old"),
    [
        (KERNEL_MODULE, "470.57.02", True),
        (KERNEL_MODULE, "525.60.12", True),
        (OPEN_MODULE, "525.60.13", False),
        (OPEN_MODULE, "525.105.08", False),
        (KERNEL_MODULE, "535.54.03", False),
        (OPEN_MODULE, "1000.1", False),
        (KERNEL_MODULE, "99.08", True),
    ],
)
def test_an_old_driver_is_named_in_one_line_and_the_command_runs(
    tmp_path: Path, module: str, driver: str, old: bool
) -> None:
    here = rendered(tmp_path, cuda=CUDA)
    (tmp_path / "dev" / "nvidia0").touch()
    (tmp_path / "proc/driver/nvidia/version").write_text(module.format(driver))
    done = here.enter("echo", "it runs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "it runs\n", TOO_OLD.format(driver) if old else "")


def test_the_driver_is_asked_from_nvidia_smi_where_the_kernel_does_not_say(tmp_path: Path) -> None:
    here = rendered(tmp_path, cuda=CUDA)
    here.script("bin/nvidia-smi", '#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: x (UUID: GPU-1)" || echo 515.48.07\n')
    assert here.enter("true").stderr == TOO_OLD.format("515.48.07")


def test_a_missing_gpu_is_said_once(tmp_path: Path) -> None:
    here = rendered(tmp_path, cuda=CUDA)
    here.script("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert here.enter("true").stderr == NO_GPU


def test_without_a_known_driver_only_the_gpu_is_asked_for(tmp_path: Path) -> None:
    here = rendered(tmp_path, cuda=CudaFacts(asked="14", locked="14.0", min_driver="unknown", capabilities=()))
    assert here.enter("true").stderr == (
        "lockgen: no GPU is visible: start the container with --gpus all; "
        "CUDA 14.0 of this image needs a driver for it\n"
    )


def test_a_lock_for_the_cpu_says_nothing_of_gpus(tmp_path: Path) -> None:
    assert rendered(tmp_path).enter("true").stderr == ""


def test_little_shared_memory_is_said_with_what_to_do(tmp_path: Path) -> None:
    here = rendered(tmp_path)
    assert here.enter("true", more={"SHM": "65536"}).stderr == (
        "lockgen: /dev/shm has 64 MiB, too little for workers of data loaders: "
        "start the container with --shm-size=8g or --ipc=host\n"
    )
    assert here.enter("true", more={"SHM": "1048576"}).stderr == ""


def test_a_command_gets_its_arguments_and_gives_its_exit_code(tmp_path: Path) -> None:
    arguments = ["a b", "it's", '"$HOME"', "", "-n", "*", "line\nbreak"]
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    done = rendered(tmp_path).enter(sys.executable, "-c", code, *arguments)
    assert (done.returncode, done.stdout) == (7, f"{arguments}\n")


def test_a_missing_command_ends_as_in_a_shell(tmp_path: Path) -> None:
    assert rendered(tmp_path).enter("no-such-command").returncode == 127


def test_a_home_that_cannot_be_written_is_replaced_and_said(tmp_path: Path) -> None:
    done = rendered(tmp_path).enter("sh", "-c", 'echo "$HOME"; [ -w "$HOME" ]', more={"HOME": f"{tmp_path}/none"})
    home = done.stdout.strip()
    assert re.fullmatch(r"/tmp/home\.\w{6}", home)
    Path(home).rmdir()
    message = f"lockgen: {tmp_path}/none cannot be written: HOME is {home}, which ends with the container\n"
    assert (done.returncode, done.stderr) == (0, message)


def test_the_entry_point_needs_neither_bash_nor_python(tmp_path: Path) -> None:
    here = rendered(tmp_path, cuda=CUDA)
    here.script("etc/conda/activate.d/a.sh", "export PLAIN=read\n")
    here.script("etc/conda/activate.d/b.sh", "function broken() { local -a x=(1 2); }\nexport BASH_ONLY=read\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "mktemp", "timeout", "grep", "printenv"):
        (tools / name).symlink_to(str(shutil.which(name)))
    entry = str(tmp_path / "opt/lockgen/entrypoint")
    done = here.run(str(tools / "sh"), entry, "printenv", "PLAIN", "CONDA_PREFIX", more={"PATH": str(tools)})
    assert (done.stdout, done.stderr) == (f"read\n{here.prefix}\n", NO_GPU)


# activation


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", ["env", 'it\'s "an" $env'])
def test_an_environment_is_activated_once_for_a_shell_and_its_children(tmp_path: Path, shell: str, name: str) -> None:
    here = rendered(tmp_path, name=name)
    here.script(
        "etc/conda/activate.d/a.sh",
        'export COUNT="${COUNT-}x"\necho noise\nset -- other arguments\n[ -n "$UNSET" ] && return 3\nreturn 4\n',
    )
    here.script("etc/conda/activate.d/not-a-script.fish", "exit 9\n")
    read = f'. "{tmp_path}/opt/lockgen/activate.sh"; '
    more = {"PATH": "/usr/bin:/bin"}
    inner = read + 'echo "$COUNT|$1|$PATH|$CONDA_PREFIX|$CONDA_DEFAULT_ENV"'
    done = here.run(shell, "-euc", f"{read}{read}exec {shell} -c '{inner}' {shell} first", shell, "x", more=more)
    prefix = here.prefix
    assert (done.returncode, done.stdout) == (0, f"x|first|{prefix}/bin:/usr/bin:/bin|{prefix}|{name}\n")
    assert done.stderr == "noise\n"


def test_bash_is_activated_where_no_file_is_named(tmp_path: Path) -> None:
    """As in `docker exec IMAGE bash -c …`, whose variables are the image's alone."""
    here = rendered(tmp_path)
    here.script("etc/conda/activate.d/a.sh", "export SEEN=yes\n")
    activate = f"{tmp_path}/opt/lockgen/activate.sh"
    assert here.run("bash", "-euc", 'echo "$SEEN"', more={"BASH_ENV": activate}).stdout == "yes\n"
    interactive = here.run("sh", "-ic", 'echo "$SEEN"', more={"ENV": activate})
    assert interactive.stdout == "yes\n"
    assert here.run("bash", "--rcfile", f"{tmp_path}/etc/bash.bashrc", "-ic", 'echo "$SEEN"').stdout == "yes\n"


def test_a_login_shell_that_has_lost_its_path_is_activated_again(tmp_path: Path) -> None:
    here = rendered(tmp_path)
    here.script("etc/conda/activate.d/a.sh", 'export PATH="$PATH:/of/the/script"\n')
    profile = f"PATH=/usr/bin:/bin; . {tmp_path}/etc/profile.d/lockgen.sh"
    done = here.enter("sh", "-c", f'{profile}; echo "$PATH"')
    assert done.stdout == f"{here.prefix}/bin:/usr/bin:/bin:/of/the/script\n"


def test_variables_that_packages_and_the_user_keep_are_set(tmp_path: Path) -> None:
    here = rendered(tmp_path)
    (here.prefix / "bin/python").symlink_to(sys.executable)
    here.script("etc/conda/env_vars.d/a.json", '{"GREETING": "it\'s $HOME `id`\\n", "BAD-NAME": "x", "PATH": "/x"}')
    here.script("etc/conda/env_vars.d/b.json", "not JSON")
    here.script("conda-meta/state", '{"env_vars": {"MODE": "fast"}, "version": 1}')
    done = here.enter("sh", "-c", 'echo "$GREETING|$MODE"')
    assert (done.stdout, done.stderr) == ("it's $HOME `id`\n|fast\n", "")


# services


def test_a_command_with_hostile_words_reaches_its_program_unchanged(tmp_path: Path) -> None:
    words = ["$(id)", "`id`", "a'b\"c", "; exit 3", "%(ENV_HOME)s", "{{ 1 }}", "\\", "*"]
    own = Service(name="own", command=("show", *words), port=8000, health=None)
    here = rendered(tmp_path, more=[own])
    here.script("bin/show", f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    assert here.run(f"{tmp_path}/opt/lockgen/services/own").stdout == f"{words}\n"
    assert here.enter(f"{tmp_path}/opt/lockgen/serve").stdout == f"{words}\n"


def _as_user(here: Rendered) -> None:
    """`id` names a user other than root, whoever runs the tests."""
    here.script("bin/id", '#!/bin/sh\n[ "$1" = -u ] && echo 1000 || echo user\n')


def _with_ssh(tmp_path: Path) -> Rendered:
    """`sshd` shows what it was called with."""
    here = rendered(tmp_path, "ssh")
    _as_user(here)
    here.script("bin/sshd", f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='\\n')\n")
    here.script("bin/ssh-keygen", '#!/bin/sh\nfor last; do :; done\necho secret >"$last"\necho public >"$last.pub"\n')
    (tmp_path / "home").mkdir()
    return here


def test_sshd_starts_with_a_key_of_its_own_and_the_keys_it_was_given(tmp_path: Path) -> None:
    here = _with_ssh(tmp_path)
    script = f"{tmp_path}/opt/lockgen/services/ssh"
    home = tmp_path / "home"
    secrets = {"JUPYTER_TOKEN": "t", "PASSWORD": "p", "DATASET": "it's mine"}
    done = here.run(script, more={"HOME": str(home), "AUTHORIZED_KEYS": "ssh-ed25519 AAAA me", **secrets})
    key = home / ".ssh-host/ssh_host_ed25519_key"
    arguments = done.stdout.splitlines()
    assert arguments[:6] == ["-D", "-e", "-f", f"{tmp_path}/opt/lockgen/sshd_config", "-p", "2222"]
    assert arguments[6:8] == ["-h", str(key)]
    assert f'AuthorizedKeysFile=.ssh/authorized_keys "{home}/.ssh-host/authorized_keys"' in arguments
    assert [path.stat().st_mode & 0o777 for path in (key.parent, key)] == [0o700, 0o600]
    assert (key.parent / "authorized_keys").read_text() == "ssh-ed25519 AAAA me\n"
    assert done.stderr == ""
    (variables,) = [line for line in arguments if line.startswith("SetEnv=")]
    assert variables.startswith(f'SetEnv="PATH={here.prefix}/bin:/usr/local/sbin:')
    session = variables.rpartition("LOCKGEN_SESSION=")[2]
    shown = 'echo "$DATASET|${JUPYTER_TOKEN-}|${PASSWORD-}|${AUTHORIZED_KEYS-}"'
    read = f". {tmp_path}/opt/lockgen/activate.sh; {shown}"
    assert here.run("sh", "-c", read, more={"LOCKGEN_SESSION": session}).stdout == "it's mine|||\n"
    Path(session).unlink()


def test_a_key_that_is_no_longer_given_does_not_log_in_any_more(tmp_path: Path) -> None:
    here = _with_ssh(tmp_path)
    script = f"{tmp_path}/opt/lockgen/services/ssh"
    home = tmp_path / "home"
    here.run(script, more={"HOME": str(home), "AUTHORIZED_KEYS": "ssh-ed25519 AAAA me"})
    host_key = home / ".ssh-host/ssh_host_ed25519_key"
    host_key.write_text("kept")
    done = here.run(script, more={"HOME": str(home)})
    assert not (home / ".ssh-host/authorized_keys").exists()
    assert host_key.read_text() == "kept"
    assert done.stderr == (
        f"lockgen: nobody can log in by ssh yet: set AUTHORIZED_KEYS, or mount {home}/.ssh/authorized_keys\n"
    )


def test_sshd_refuses_root_and_users_without_a_name(tmp_path: Path) -> None:
    here = _with_ssh(tmp_path)
    script = f"{tmp_path}/opt/lockgen/services/ssh"
    here.script("bin/id", "#!/bin/sh\necho 0\n")
    done = here.run(script)
    assert (done.returncode, done.stderr) == (1, "lockgen: sshd does not run as root: leave out --user 0\n")
    here.script("bin/id", '#!/bin/sh\n[ "$1" = -u ] && echo 4711\n')
    done = here.run(script)
    message = "lockgen: sshd cannot log in user 4711, who has no name in /etc/passwd\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_sshd_itself_reads_the_configuration_as_keys_only(tmp_path: Path) -> None:
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if sshd is None:
        pytest.skip("no sshd on this machine")
    configuration = tmp_path / "sshd_config"
    configuration.write_text(text_of(of("ssh"), "/opt/lockgen/sshd_config"))
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    Path("/run/sshd").mkdir(exist_ok=True) if os.getuid() == 0 else None
    done = subprocess.run([sshd, "-T", "-f", configuration, "-h", key], text=True, capture_output=True, check=True)
    answer = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert {name: answer[name] for name in ("permitrootlogin", "passwordauthentication", "authenticationmethods")} == {
        "permitrootlogin": "no",
        "passwordauthentication": "no",
        "authenticationmethods": "publickey",
    }
    assert (answer["kbdinteractiveauthentication"], answer["permitemptypasswords"]) == ("no", "no")
    assert done.stderr == ""


def test_code_server_makes_a_password_where_none_is_given(tmp_path: Path) -> None:
    here = rendered(tmp_path, "vscode")
    _as_user(here)
    here.script("bin/code-server", '#!/bin/sh\necho "$@" "${PASSWORD-none}"\n')
    script = f"{tmp_path}/opt/lockgen/services/vscode"
    options = "--auth password --disable-telemetry --disable-update-check --bind-addr"
    given = here.run(script, more={"PASSWORD": "given", "CODE_SERVER_BIND": "0.0.0.0:9000"})
    assert (given.stdout, given.stderr) == (f"{options} 0.0.0.0:9000 given\n", "")
    done = here.run(script)
    found = re.fullmatch(rf"{options} 127\.0\.0\.1:8080 ([0-9a-f]{{32}})\n", done.stdout)
    assert found
    assert done.stderr == f"lockgen: the password of code-server is {found[1]}\n"
    assert here.run(script, more={"HASHED_PASSWORD": "$argon2i$x"}).stdout == f"{options} 127.0.0.1:8080 none\n"


# health


@pytest.fixture
def answering() -> Iterator[tuple[int, dict[str, int]]]:
    """A server's port, and the status that it gives to each path."""
    statuses: dict[str, int] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.get(self.path, 404))
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing on the screen."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], statuses
        server.shutdown()


def _health(root: Path, *own: Service, **variables: str) -> tuple[int, str]:
    """Exit code and words of the health check in a container that was started for its services."""
    here = rendered(root, more=own)
    (root / "proc/1/cmdline").write_bytes(f"tini\0--\0{root}/opt/lockgen/serve\0".encode())
    (root / "proc/1/environ").write_bytes(b"")
    for name in ("tcp", "tcp6"):
        (root / "proc/net" / name).write_text(Path("/proc/net", name).read_text())
    done = here.run(f"{root}/opt/lockgen/health", more=variables)
    return done.returncode, done.stdout


def test_a_service_is_well_while_it_answers_200(tmp_path: Path, answering: tuple[int, dict[str, int]]) -> None:
    port, statuses = answering
    own = Service(name="own", command=("own",), port=port, health="/api?deep=1")
    statuses["/api?deep=1"] = 200
    assert _health(tmp_path, own) == (0, "")
    statuses["/api?deep=1"] = 503
    assert _health(tmp_path, own) == (1, "own does not answer\n")


def test_a_service_without_a_path_is_well_while_it_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        own = Service(name="own", command=("own",), port=port, health=None)
        assert _health(tmp_path, own) == (0, "")
    assert _health(tmp_path, own) == (1, "own does not listen\n")


def test_one_service_that_is_not_well_is_named(tmp_path: Path, answering: tuple[int, dict[str, int]]) -> None:
    port, statuses = answering
    statuses["/"] = 200
    good = Service(name="good", command=("own",), port=port, health="/")
    elsewhere = Service(name="elsewhere", command=("own",), port=9999, health="/", bind="ELSEWHERE")
    bad = Service(name="bad", command=("own",), port=9998, health="/")
    assert _health(tmp_path, good, elsewhere, bad, ELSEWHERE=f"0.0.0.0:{port}") == (1, "bad does not answer\n")


def test_a_command_of_the_users_own_has_no_services_to_ask(tmp_path: Path) -> None:
    here = rendered(tmp_path, "jupyter")
    (tmp_path / "proc/1/cmdline").write_bytes(b"tini\0--\0python\0train.py\0")
    (tmp_path / "proc/1/environ").write_bytes(b"LOCKGEN_COMMAND=python\0")
    assert here.run(f"{tmp_path}/opt/lockgen/health").returncode == 0
    (tmp_path / "proc/1/environ").write_bytes(f"LOCKGEN_COMMAND={tmp_path}/opt/lockgen/serve\0".encode())
    (tmp_path / "proc/1/cmdline").write_bytes(b"python\0jupyter-lab\0")
    free = random.randrange(20000, 30000)
    script = tmp_path / "opt/lockgen/health"
    script.write_text(script.read_text().replace(":8888", f":{free}"))
    done = here.run(str(script))
    assert (done.returncode, done.stdout) == (1, "jupyter does not answer\n")
