"""The checks that compute: what they measure, and that they fail where they should. They need a real PyTorch."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_environment import SmallEnvironment

from lockgen.verify import run
from lockgen.verify.evidence import CheckResult
from lockgen.verify.plan import Settings, training

sys.path.insert(0, str(run.PAYLOAD.parent))
from lockgen_checks import _chinese, _sentences, bert


@pytest.fixture(scope="session")
def python(request: pytest.FixtureRequest) -> Path:
    """An interpreter that has torch and transformers: `LOCKGEN_TEST_PYTHON`, else that of the small environment."""
    named = os.environ.get("LOCKGEN_TEST_PYTHON")
    if named:
        return Path(named)
    environment: SmallEnvironment = request.getfixturevalue("small_environment")
    return environment.python


def checked(python: Path, folder: Path, name: str, **settings: Any) -> CheckResult:
    """One check's result, by the payload alone."""
    wanted = {"steps": 60, "seq_len": 32, "corpus": str(sentences(folder / "sentences")), **settings}
    plan = {"checks": [name], "versions": {}, "prefix": None, **training(Settings(**wanted))}
    evidence = run.run(plan, python, folder / f"{name}.json", lambda _: None)
    return evidence.checks[0]


def sentences(folder: Path) -> Path:
    """The sentences that come with lockgen as a corpus: the interpreter may have a larger one installed."""
    folder.mkdir()
    lines = [f"{label}\t{text}\n" for text, label in _sentences.corpus()]
    (folder / "corpus.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in _chinese.vocabulary()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def learnt(python: Path, tmp_path_factory: pytest.TempPathFactory) -> CheckResult:
    return checked(python, tmp_path_factory.mktemp("learnt"), "bert")


def test_a_model_learns_the_sentences_and_says_how(learnt: CheckResult) -> None:
    facts = learnt.facts
    assert learnt.status == "passed", learnt.problems
    assert facts["accuracy_after"] >= facts["chance"] + facts["margin"]
    assert facts["last"] < facts["first"]
    assert len(facts["losses"]) == facts["steps"] == 60
    assert {key: facts[key] for key in ("seed", "batch", "seq_len", "train", "held_out", "margin")} == {
        "seed": 0, "batch": 32, "seq_len": 32, "train": 200, "held_out": 100, "margin": 0.15,
    }  # fmt: skip
    assert facts["tokens_per_second"] > 0
    assert facts["peak_memory"] > 100_000_000


def test_two_runs_with_one_seed_give_the_same_losses(learnt: CheckResult, python: Path, tmp_path: Path) -> None:
    if learnt.facts["device"] != "cpu":
        pytest.skip("promised on the processor only")
    assert checked(python, tmp_path, "bert").facts["losses"] == learnt.facts["losses"]


def test_shuffled_labels_cannot_be_learnt(python: Path, tmp_path: Path) -> None:
    rows = _sentences.corpus()
    labels = [label for _, label in rows]
    random.Random(1).shuffle(labels)
    lines = (f"{label}\t{text}\n" for (text, _), label in zip(rows, labels, strict=True))
    (tmp_path / "corpus.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(_chinese.vocabulary()) + "\n", encoding="utf-8")
    found = checked(python, tmp_path, "bert", corpus=str(tmp_path))
    assert found.status == "failed"
    assert found.problems[-1].startswith("held-out accuracy 0.")
    assert "chance 0." in found.problems[-1]
    assert found.problems[-1].endswith("and a margin of 0.15")


def test_where_memory_runs_out_the_batch_is_halved_and_said_so(python: Path, tmp_path: Path) -> None:
    """The limit on the address space leaves room for a small batch and not for the one that was asked for."""
    script = tmp_path / "limited.py"
    script.write_text(f"""
import json, resource, sys, torch
sys.path.insert(0, {str(run.PAYLOAD.parent)!r})
from lockgen_checks import bert
import transformers
torch.set_num_threads(1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
def train(batch):
    return torch.ones(batch, 100_000_000, dtype=torch.int8).shape[0]
resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000_000, resource.RLIM_INFINITY))
json.dump(bert.halving(train, 32), sys.stdout)
""")
    done = subprocess.run([python, script], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [
        8, ["out of memory with batch 32: halved to 16", "out of memory with batch 16: halved to 8"],
    ]  # fmt: skip


def test_another_error_than_memory_is_not_hidden() -> None:
    def train(batch: int) -> int:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        bert.halving(train, 32)


def test_a_loss_that_does_not_fall_and_one_that_is_no_number_are_problems() -> None:
    facts = {"losses": [0.5, 0.6], "first": 0.5, "last": 0.6, "chance": 0.5, "accuracy_after": 0.9, "seed": 0}
    assert list(bert.judge(facts, 0.15)) == [
        "the loss does not fall: 0.500 in the first steps, 0.600 in the last",
    ]
    facts = {**facts, "losses": [0.5, float("nan")], "accuracy_after": 0.6}
    assert list(bert.judge(facts, 0.15)) == [
        "the loss is not a number from step 2 on",
        "held-out accuracy 0.600 after training with seed 0, needed 0.650: chance 0.500 and a margin of 0.15",
    ]


def test_a_hub_weight_without_safetensors_is_refused(python: Path, tmp_path: Path) -> None:
    """A folder with pickled weights only, as old checkpoints have."""
    script = f"""
import sys, torch, transformers
model = transformers.BertForSequenceClassification(transformers.BertConfig(
    vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8))
model.config.save_pretrained({str(tmp_path)!r})
torch.save(model.state_dict(), {str(tmp_path / "pytorch_model.bin")!r})
"""
    subprocess.run([python, "-c", script], check=True, capture_output=True)
    found = checked(python, tmp_path, "bert", model=str(tmp_path))
    assert found.status == "failed"
    assert "safetensors" in found.problems[0]


def test_results_are_compared_with_float64_and_a_wrong_one_is_found(python: Path) -> None:
    """On the processor, as it would be done on a GPU."""
    script = f"""
import json, sys, torch
sys.path.insert(0, {str(run.PAYLOAD.parent)!r})
from lockgen_checks import cuda
torch.set_num_threads(1)
found = cuda.numerics(torch, torch.device("cpu"))
operations = cuda.operations(torch)
def wrong(a, b):
    return (a @ b) * (1 if a.dtype is torch.float64 else 1.1)
cuda.operations = lambda torch: [("matmul", wrong, operations[0][2])]
again = cuda.numerics(torch, torch.device("cpu"))
print(json.dumps([list(cuda.exceeded(found)), len(found), list(cuda.exceeded(again))]))
"""
    done = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True)
    good, count, wrong = json.loads(done.stdout)
    assert (good, count) == ([], 9)
    assert [text.split(" is off by ")[0] for text in wrong] == [
        "matmul in float32", "matmul in bfloat16", "matmul in float16",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 9), ["sm_80", "sm_90"], True),  # machine code for 8.0 runs on any 8.x
        ((7, 0), ["sm_80", "sm_90"], False),
        ((12, 0), ["sm_90"], False),
        ((12, 0), ["sm_90", "compute_90"], True),  # PTX is compiled for what is newer
        ((10, 0), ["sm_100a"], True),
    ],
)
def test_a_build_runs_on_the_capabilities_it_has_code_for(
    capability: tuple[int, int], architectures: list[str], runs: bool
) -> None:
    from lockgen_checks import cuda

    assert cuda.runs_on(*capability, architectures) is runs


def test_exported_models_agree(python: Path, tmp_path: Path) -> None:
    found = checked(python, tmp_path, "export")
    assert found.status == "passed", found.problems
    assert {"safetensors", "torch.export"} <= set(found.facts["largest difference"])


def test_two_processes_give_the_losses_of_one(python: Path, tmp_path: Path) -> None:
    found = checked(python, tmp_path, "distributed")
    assert found.status == "passed", found.problems
    losses = found.facts["losses"]
    assert losses["ddp"] == pytest.approx(losses["single"], abs=2e-4)
    assert losses["fsdp2"] == pytest.approx(losses["single"], abs=2e-4)
    memory = found.facts["peak_memory"]
    assert memory["checkpointing"] < 0.8 * memory["plain"]
