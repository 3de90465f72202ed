"""Does the GPU compute what the processor computes: products, convolution, attention, NCCL, one compiled function."""

import os
import shutil
import subprocess
import sys
import tempfile

ORDER = 50
SECONDS = 300
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 3e-3}
"""Largest difference allowed, as a part of the largest value of the exact result."""
_REDUCE = """
import os, sys, torch, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method=sys.argv[1], rank=rank, world_size=world)
x = torch.full((1 << 20,), float(rank + 1), device="cuda")
dist.all_reduce(x)
assert torch.equal(x.cpu(), torch.full((1 << 20,), world * (world + 1) / 2)), x[:4]
dist.destroy_process_group()
"""


def check(plan):
    """Compare with float64 on the processor; without a GPU it is skipped, or fails where one is required."""
    import torch

    rules = plan["cuda"]
    if not torch.cuda.is_available():
        return without_gpu(torch, rules)
    device = torch.device("cuda")
    facts = describe(torch)
    problems = list(unsupported(facts, torch.cuda.get_arch_list()))
    facts["numerics"] = numerics(torch, device)
    problems += exceeded(facts["numerics"])
    for world in sorted({1, torch.cuda.device_count()}):
        problems += all_reduce(world)
    compiled = compile_one(torch, device)
    problems += compiled["problems"]
    facts["torch.compile"] = compiled["words"]
    names = ", ".join(sorted({one["name"] for one in facts["devices"]}))
    return {
        "problems": problems,
        "summary": f"{names} on CUDA {torch.version.cuda}; results agree with float64 on the processor",
        "facts": facts,
    }


def without_gpu(torch, rules):
    """No GPU: a failure where one is required, else the reason to skip."""
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    facts = {"torch": build}
    if rules["require"]:
        return {"problems": [f"a GPU is required, and PyTorch ({build}) sees none"], "facts": facts}
    return {"skipped": f"no GPU here; PyTorch is {build}", "facts": facts}


def describe(torch):
    devices = []
    for index in range(torch.cuda.device_count()):
        one = torch.cuda.get_device_properties(index)
        devices.append({
            "name": one.name, "capability": f"{one.major}.{one.minor}", "memory": one.total_memory,
            "multiprocessors": one.multi_processor_count,
        })  # fmt: skip
    return {"devices": devices, "driver": driver(), "cuda": torch.version.cuda}


def driver():
    """The NVIDIA driver's version, from the kernel module or nvidia-smi; None where neither says."""
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        pass
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode().split("\n")[0].strip() or None


def unsupported(facts, architectures):
    """Devices that the build has no code for: neither for their capability nor PTX of an older one."""
    for one in facts["devices"]:
        major, minor = (int(part) for part in one["capability"].split("."))
        if not runs_on(major, minor, architectures):
            yield "{} has compute capability {}, the build is for {}".format(
                one["name"], one["capability"], ", ".join(architectures)
            )


def runs_on(major, minor, architectures):
    """Machine code runs within one major from its minor on; PTX (`compute_`) runs on anything newer."""
    for each in architectures:
        kind, _, digits = each.partition("_")
        number = int("".join(character for character in digits if character.isdigit()))
        if kind == "compute" and number <= major * 10 + minor:
            return True
        if kind == "sm" and number // 10 == major and number % 10 <= minor:
            return True
    return False


def numerics(torch, device):
    """Relative error of each operation in each type against float64 on the processor, with the tolerance."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    found = []
    for name, function, shapes in operations(torch):
        generator = torch.Generator().manual_seed(0)
        exact = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        for kind, tolerance in TOLERANCES.items():
            inputs = [each.to(getattr(torch, kind)) for each in exact]
            wanted = function(*[each.double() for each in inputs])
            got = function(*[each.to(device) for each in inputs]).double().cpu()
            error = ((got - wanted).abs().max() / wanted.abs().max()).item()
            found.append({"operation": name, "type": kind, "error": error, "tolerance": tolerance})
    return found


def operations(torch):
    functional = torch.nn.functional
    return [
        ("matmul", lambda a, b: a @ b, [(256, 512), (512, 128)]),
        ("convolution", lambda a, b: functional.conv2d(a, b, padding=1), [(4, 16, 32, 32), (32, 16, 3, 3)]),
        ("attention", functional.scaled_dot_product_attention, [(2, 4, 64, 32)] * 3),
    ]


def exceeded(found):
    for one in found:
        if not one["error"] <= one["tolerance"]:
            yield "{operation} in {type} is off by {error:.1e}, more than {tolerance:.1e}".format(**one)


def all_reduce(world):
    """A sum over `world` GPUs through NCCL, each in a process of its own; sentences on what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = "file://" + os.path.join(folder, "meeting")
        started = [
            subprocess.Popen(
                [sys.executable, "-c", _REDUCE, meeting], stdin=subprocess.DEVNULL,
                env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world)),
            )
            for rank in range(world)
        ]  # fmt: skip
        for child in started:
            try:
                code = child.wait(90)
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                for other in started:
                    other.kill()
                what = "no answer within 90 s" if code is None else f"exit code {code}"
                return [f"NCCL all-reduce over {world} GPUs: {what}"]
    return []


def compile_one(torch, device):
    """Compile one function where a C compiler exists; the answer says so where none does."""
    compiler = next(
        (name for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and shutil.which(name)), None
    )
    if compiler is None:
        return {"problems": [], "words": "not tried: no C compiler on PATH"}
    function = lambda x: torch.nn.functional.gelu(x @ x).sum(-1)  # noqa: E731
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(device)
    error = (torch.compile(function)(x) - function(x)).abs().max().item()
    problems = [] if error < 1e-2 else [f"torch.compile gives a result that is off by {error:.1e}"]
    return {"problems": problems, "words": f"agrees within {error:.1e}, with {compiler}"}
