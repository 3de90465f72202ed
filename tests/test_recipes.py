"""Training recipes: what `lockgen init --recipe` writes, and that it runs. The runs need a real PyTorch."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from spec_text import here
from test_init import init, keys
from test_verify_training import python

from lockgen.knowledge import tables
from lockgen.spec import training
from lockgen.spec.parse import load

__all__ = ["here", "python"]

EVERY = ("amp", "ddp", "fsdp", "zero3")
FILES = {
    "amp": {"README.md", "task.py", "train_amp.py"},
    "ddp": {"README.md", "launch.sh", "task.py", "train_ddp.py"},
    "fsdp": {"README.md", "accelerate_fsdp2.yaml", "launch.sh", "task.py", "train_accelerate.py", "train_fsdp.py"},
    "zero3": {
        "README.md", "accelerate_zero2.yaml", "accelerate_zero3.yaml", "ds_zero2.json", "ds_zero3.json", "task.py",
        "train_accelerate.py",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_a_recipe_writes_its_folder_and_a_spec_that_can_be_read(name: str, here: Path) -> None:
    done = init("--recipe", name, "-e", "jupyter")
    listed = ", ".join(sorted(FILES[name]))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (f"wrote envs/my-env.yaml\nwrote train/: {listed}\nnext: lockgen resolve envs/my-env.yaml\n")
    assert {path.name for path in (here / "train").iterdir()} == FILES[name]
    settings = load(here / "envs" / "my-env.yaml").targets[0].settings
    assert [one.name for one in settings.extras] == ["jupyter", "nlp"]


def test_every_recipe_is_known() -> None:
    assert tables.recipe_names() == EVERY


@pytest.mark.usefixtures("here")
def test_deepspeed_is_asked_for_with_a_pytorch_that_it_is_built_for() -> None:
    assert init("--recipe", "zero3").returncode == 0
    assert {'pytorch: "2.8"', "dependencies: [deepspeed]"} <= set(keys("envs/my-env.yaml"))
    assert init("--recipe", "zero3", "--pytorch", "2.7", "--force").returncode == 0
    assert 'pytorch: "2.7"' in keys("envs/my-env.yaml")


def test_several_recipes_share_their_files(here: Path) -> None:
    assert init("--recipe", "ddp", "--recipe", "fsdp", "--recipe", "ddp").returncode == 0
    assert {path.name for path in (here / "train").iterdir()} == FILES["ddp"] | FILES["fsdp"]
    titles = [line for line in (here / "train/README.md").read_text().splitlines() if line.startswith("## ")]
    assert titles == [
        "## ddp: several GPUs, each with the whole model",
        "## fsdp: several GPUs, each with a part of the model",
    ]


def test_a_file_that_is_another_stops_it_before_anything_is_written(here: Path) -> None:
    (here / "train").mkdir()
    (here / "train" / "launch.sh").write_text("mine\n")
    done = init("--recipe", "ddp")
    assert (done.returncode, done.stderr) == (
        2,
        "error: train/launch.sh is there already\n  hint: `--force` replaces it\n",
    )
    assert [path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()] == ["train/launch.sh"]
    assert init("--recipe", "ddp", "--force").returncode == 0
    assert (here / "train" / "launch.sh").read_text() != "mine\n"


def test_a_second_recipe_comes_beside_the_first_and_the_task_stays(here: Path) -> None:
    assert init("--recipe", "ddp").returncode == 0
    (here / "train" / "task.py").write_text("mine\n")
    done = init("--name", "other", "--recipe", "amp")
    assert (done.returncode, done.stderr) == (
        0,
        "wrote envs/other.yaml\nwrote train/: README.md, train_amp.py\nkept train/task.py\n"
        "next: lockgen resolve envs/other.yaml\n",
    )
    assert {path.name for path in (here / "train").iterdir()} == FILES["ddp"] | FILES["amp"]
    assert (here / "train" / "task.py").read_text() == "mine\n"
    titles = [line[:7] for line in (here / "train/README.md").read_text().splitlines() if line.startswith("## ")]
    assert titles == ["## amp:", "## ddp:"]


def test_a_readme_of_the_users_own_is_not_replaced(here: Path) -> None:
    assert init("--recipe", "ddp").returncode == 0
    with (here / "train/README.md").open("a") as readme:
        readme.write("mine\n")
    done = init("--name", "other", "--recipe", "amp")
    assert (done.returncode, done.stderr) == (
        2,
        "error: train/README.md is there already\n  hint: `--force` replaces it\n",
    )


def test_a_folder_that_cannot_be_made_writes_nothing(here: Path) -> None:
    (here / "train").write_text("a file\n")
    done = init("--recipe", "amp", "--force")
    assert done.returncode == 2
    assert [path.name for path in here.rglob("*") if path.is_file()] == ["train"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--recipe", "ddq"], "error: unknown recipe: `ddq`\n  hint: did you mean `ddp`?\n"),
        (["--recipe", "../x"], "error: unknown recipe: `../x`\n  hint: known: amp, ddp, fsdp, zero3\n"),
        (["--recipe", "shared"], "error: unknown recipe: `shared`\n  hint: known: amp, ddp, fsdp, zero3\n"),
        (
            ["--recipe", "fsdp", "--pytorch", "2.5.1"],
            "error: the recipe `fsdp` needs PyTorch 2.6 or newer, not 2.5.1\n  hint: `--pytorch 2.6`, or a newer one\n",
        ),
    ],
    ids=["typo", "path", "shared files", "old PyTorch"],
)
def test_a_recipe_that_cannot_be_had_writes_nothing(flags: list[str], said: str, here: Path) -> None:
    done = init(*flags)
    assert (done.returncode, done.stderr) == (2, said)
    assert list(here.iterdir()) == []


# --- The files, by their own parsers ---------------------------------------------------------------------------------


def test_every_command_of_the_readme_names_files_that_are_there(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    named = set(re.findall(r"[\w.]+\.(?:py|sh|yaml|json)\b", text))
    assert named - {path.name for path in folder.iterdir()} == set()
    assert {f"train_{name}.py" for name in ("amp", "ddp", "fsdp", "accelerate")} | {"launch.sh"} <= named


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all recipes write."""
    root = tmp_path_factory.mktemp("recipes")
    for name, text in training.files(training.chosen(EVERY)).items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root / training.FOLDER


def test_the_shell_script_is_one_for_every_shell(folder: Path) -> None:
    subprocess.run(["sh", "-n", "launch.sh"], cwd=folder, check=True)
    done = subprocess.run(
        ["sh", "launch.sh", "train_ddp.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "NODES": "2"},
    )
    assert done.returncode != 0
    assert done.stderr.endswith("HEAD: name a machine and a port: HEAD=node1:29400\n")


def test_the_launcher_passes_machines_and_processes_to_torchrun(folder: Path, tmp_path: Path) -> None:
    """A `torchrun` that says what it was given."""
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def given(**settings: str) -> list[str]:
        environment = {"PATH": path, **settings}
        command = ["sh", "launch.sh", "train_ddp.py", "--data", "my file.tsv"]
        return subprocess.check_output(command, cwd=folder, env=environment, text=True).splitlines()

    script = ["train_ddp.py", "--data", "my file.tsv"]
    assert given() == ["--standalone", "--nproc-per-node=gpu", *script]
    assert given(NODES="2", PROCESSES="8", HEAD="node1:29400", SLURM_JOB_ID="7") == [
        "--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400", "--rdzv-id=7",
        *script,
    ]  # fmt: skip


DOCUMENTED = {
    "": {
        "bf16", "gradient_accumulation_steps", "gradient_clipping",
        "train_micro_batch_size_per_gpu", "wall_clock_breakdown", "zero_optimization",
    },
    "bf16": {"enabled"},
    "offload": {"device"},
    "zero_optimization": {
        "allgather_bucket_size", "allgather_partitions", "contiguous_gradients", "offload_optimizer", "offload_param",
        "overlap_comm", "reduce_bucket_size", "reduce_scatter", "stage", "stage3_gather_16bit_weights_on_model_save",
        "stage3_max_live_parameters", "stage3_max_reuse_distance", "stage3_param_persistence_threshold",
        "stage3_prefetch_bucket_size",
    },
}  # fmt: skip
"""The keys that DeepSpeed's page on its JSON file names, of those that a training like this one has use for."""


@pytest.mark.parametrize("stage", [2, 3])
def test_the_deepspeed_file_has_documented_keys_only(stage: int, folder: Path) -> None:
    config = json.loads((folder / f"ds_zero{stage}.json").read_text())
    zero = config["zero_optimization"]
    assert set(config) <= DOCUMENTED[""]
    assert set(zero) <= DOCUMENTED["zero_optimization"]
    assert zero["stage"] == stage
    assert {key for key in zero if key.startswith(("stage3_", "offload_param"))} == set() or stage == 3
    assert yaml.safe_load((folder / f"accelerate_zero{stage}.yaml").read_text())["deepspeed_config"] == {
        "deepspeed_config_file": f"ds_zero{stage}.json",
        "zero3_init_flag": stage == 3,
        "deepspeed_multinode_launcher": "standard",
    }


READ = """
import json, os, sys, warnings
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin, launch

warnings.simplefilter("error")
file = sys.argv[1]
arguments = launch_command_parser().parse_args(["--config_file", file, "train_accelerate.py"])
arguments, defaults, _ = _validate_launch_command(arguments)
if arguments.use_deepspeed:
    arguments.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
    _, environment = launch.prepare_deepspeed_cmd_env(arguments)
else:
    environment = launch.prepare_multi_gpu_env(arguments)
os.environ.update({key: value for key, value in environment.items() if key.startswith(("FSDP_", "ACCELERATE_"))})
if arguments.use_deepspeed:
    plugin = DeepSpeedPlugin()
    found = {"stage": plugin.zero_stage, "init": plugin.zero3_init_flag, "clip": plugin.gradient_clipping,
             "save": plugin.zero3_save_16bit_model, "config": plugin.deepspeed_config["bf16"]}
else:
    plugin = FullyShardedDataParallelPlugin()
    found = {"version": plugin.fsdp_version, "reshard": plugin.reshard_after_forward,
             "wrap": plugin.auto_wrap_policy.__name__, "state": plugin.state_dict_type.name,
             "precision": environment["ACCELERATE_MIXED_PRECISION"]}
print(json.dumps(found))
"""
"""What `accelerate launch` does with a file before it starts the processes, and what they make of it."""


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "accelerate_fsdp2.yaml",
            {"version": 2, "reshard": True, "wrap": "transformer_auto_wrap_policy", "state": "SHARDED_STATE_DICT",
             "precision": "bf16"},
        ),
        (
            "accelerate_zero2.yaml",
            {"stage": 2, "init": False, "clip": 1.0, "save": False, "config": {"enabled": True}},
        ),
        (
            "accelerate_zero3.yaml",
            {"stage": 3, "init": True, "clip": 1.0, "save": True, "config": {"enabled": True}},
        ),
    ],
    ids=["fsdp2", "zero2", "zero3"],
)  # fmt: skip
def test_accelerate_reads_its_configuration_without_a_word(
    file: str, expected: dict[str, Any], python: Path, folder: Path
) -> None:
    done = subprocess.run([python, "-c", READ, file], cwd=folder, capture_output=True, text=True, env=offline(python))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected


# --- The scripts, run ------------------------------------------------------------------------------------------------


def offline(python: Path, **settings: str) -> dict[str, str]:
    paths = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    quiet = {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {**os.environ, **quiet, "PATH": paths, **settings}


def trained(python: Path, folder: Path, command: str, **settings: str) -> tuple[list[float], str]:
    """The losses that a command of the README prints, and its other lines."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300, env=offline(python, **settings)
    )
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", done.stdout, re.MULTILINE)]
    return losses, re.sub(r"step \d+: loss .*\n", "", done.stdout)


def of_two_classes(loss: float) -> bool:
    """A model with random weights knows nothing of two classes: its loss is that of a coin."""
    return math.isclose(loss, math.log(2), abs_tol=0.1)


def command_of(name: str) -> str:
    """The first command of a recipe, which is for trying it."""
    found = tables.recipe(name)
    assert found
    return found.commands[0].run


def test_amp_trains_on_the_processor_and_goes_on_from_its_checkpoint(
    python: Path, folder: Path, tmp_path: Path
) -> None:
    command = f"{command_of('amp')} --output '{tmp_path}'"
    losses, said = trained(python, folder, command)
    assert len(losses) == 2
    assert of_two_classes(losses[0])
    assert said == f"cpu in torch.bfloat16: wrote {tmp_path}/amp.pt\n"
    again = subprocess.run(
        ["sh", "-c", f"{command} --precision fp16 --accumulate 2"],
        cwd=folder, capture_output=True, text=True, check=True, env=offline(python),
    )  # fmt: skip
    assert [line.partition(":")[0] for line in again.stdout.splitlines()] == [
        "step 3",
        "step 4",
        "cpu in torch.float16",
    ]


def test_ddp_trains_with_two_processes(python: Path, folder: Path, tmp_path: Path) -> None:
    losses, said = trained(python, folder, f"{command_of('ddp')} --output '{tmp_path}'")
    assert len(losses) == 2
    assert of_two_classes(losses[0])
    assert said == f"2 processes over gloo: wrote {tmp_path}/ddp.pt\n"


def test_fsdp_splits_the_weights_learns_and_goes_on_from_its_checkpoint(
    python: Path, folder: Path, tmp_path: Path
) -> None:
    rest = f"--lr 0.005 --output '{tmp_path}'"
    losses, said = trained(python, folder, f"{command_of('fsdp')} --steps 20 {rest}")
    assert len(losses) == 20
    assert of_two_classes(losses[0])
    found = re.fullmatch(rf"2 processes over gloo, ([\d,]+) of ([\d,]+) weights each\nwrote {tmp_path}/fsdp\n", said)
    assert found
    mine, whole = (int(number.replace(",", "")) for number in found.groups())
    assert mine == pytest.approx(whole / 2, rel=0.05)
    later, _ = trained(python, folder, f"{command_of('fsdp')} --steps 1 {rest}")
    assert later[0] < losses[0] / 2


def test_the_script_for_accelerate_trains_with_two_processes(python: Path, folder: Path, tmp_path: Path) -> None:
    command = f"PROCESSES=2 sh launch.sh train_accelerate.py --tiny --steps 2 --output '{tmp_path}'"
    losses, said = trained(python, folder, command, ACCELERATE_USE_CPU="true")
    assert len(losses) == 2
    assert of_two_classes(losses[0])
    assert said == f"2 processes, MULTI_CPU: wrote {tmp_path}/accelerate\n"


def test_own_sentences_are_read(python: Path, folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "mine.tsv"
    data.write_text("".join(f"{number % 3}\t第{number}句\n" for number in range(30)), encoding="utf-8")
    script = "import task; o = task.options('').parse_args(['--tiny', '--length', '16', '--data', DATA]);"
    script += "m, d = task.load(o); b = next(task.batches(d, o, 1, 2));"
    script += "print(m.config.num_labels, len(d), tuple(b['input_ids'].shape), b['labels'].max().item() < 3)"
    done = subprocess.run(
        [python, "-c", script.replace("DATA", repr(str(data)))],
        cwd=folder, capture_output=True, text=True, check=True, env=offline(python),
    )  # fmt: skip
    assert done.stdout == "3 30 (16, 16) True\n"
