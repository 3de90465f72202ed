"""Do two processes give the loss of one, with DDP and with FSDP2; and does gradient checkpointing save memory."""

import json
import os
import subprocess
import sys

ORDER = 70
SECONDS = 420
TOLERANCE = 2e-4
"""Largest difference between the losses of one process and of two, in float32."""
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_worker.py")
PROCESSES = 2
LEAST_SAVED = 0.05
"""The part of the memory that gradient checkpointing has to save."""


def check(plan):
    """Compare a few steps of one process, DDP and FSDP2; then the memory with and without gradient checkpointing."""
    import torch

    if not torch.distributed.is_available():
        return {"skipped": "this PyTorch is built without torch.distributed"}
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    backend = "nccl" if gpus >= PROCESSES else "gloo"
    found = launch(backend)
    if "problem" in found:
        return {"problems": [found["problem"]]}
    problems = [f"{mode}: {error}" for mode, error in found["errors"].items()]
    problems += different(found["losses"])
    saved = 1 - found["peak_memory"]["checkpointing"] / found["peak_memory"]["plain"]
    if saved < LEAST_SAVED:
        problems.append(
            "gradient checkpointing takes {checkpointing} bytes, without it {plain}".format(**found["peak_memory"])
        )
    return {
        "problems": problems,
        "summary": f"DDP and FSDP2 with {PROCESSES} processes over {backend} give the losses of one; "
        f"gradient checkpointing takes {saved:.0%} less memory",
        "facts": {
            "backend": backend, "processes": PROCESSES, "losses": found["losses"], "tolerance": TOLERANCE,
            "device": "cuda" if backend == "nccl" else "cpu", "peak_memory": found["peak_memory"],
        },
    }  # fmt: skip


def launch(backend):
    """Run the workers under torchrun; the answer of the first, or what went wrong."""
    answer = os.path.abspath("answer.json")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={PROCESSES}",
        "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", WORKER, backend, answer,
    ]  # fmt: skip
    environment = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME=loopback())
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    text = done.stdout.decode("utf-8", "replace")
    sys.stderr.write(text)
    if done.returncode or not os.path.exists(answer):
        return {"problem": error_line(text) or f"torchrun: exit code {done.returncode}"}
    with open(answer, encoding="utf-8") as file:
        return json.load(file)


def loopback():
    return "lo0" if sys.platform == "darwin" else "lo"


def error_line(text):
    """The last line that names an exception, without torchrun's prefix; empty where none does."""
    found = [
        line.rpartition("]:")[2].strip() for line in text.splitlines() if "Error:" in line and "ChildFailed" not in line
    ]
    return found[-1] if found else ""


def different(losses):
    single = losses.get("single")
    for mode, found in losses.items():
        if single and max(abs(left - right) for left, right in zip(single, found)) > TOLERANCE:
            yield f"{mode} gives other losses than one process: {found} and {single}"
