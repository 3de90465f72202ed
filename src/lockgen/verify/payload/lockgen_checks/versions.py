"""Do Python, PyTorch and its CUDA libraries report the versions that the lock lists."""

import platform

ORDER = 40
SECONDS = 120


def check(plan):
    """Ask each library itself, and compare with the lock where the lock says something."""
    wanted = plan["versions"]
    found, facts = {"python": platform.python_version()}, {}
    if wanted.get("torch") or not wanted:
        ours, facts = _torch()
        found.update(ours)
    problems = list(differences(wanted, found))
    shown = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    return {"problems": problems, "summary": shown, "facts": dict(facts, found=found, locked=wanted)}


def _torch():
    """Versions that PyTorch reports, by the names of the plan, and more facts on its build."""
    import torch

    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    found = {
        "torch": torch.__version__.split("+")[0],
        "cuda": torch.version.cuda,
        "cudnn": dotted(cudnn) if torch.version.cuda else None,
        "nccl": _nccl(torch),
    }
    facts = {
        "torch version": torch.__version__,
        "torch commit": torch.version.git_version,
        "debug build": torch.version.debug,
        "architectures": torch.cuda.get_arch_list() if torch.version.cuda else [],
        "configuration": torch.__config__.show().strip(),
        "threads": torch.__config__.parallel_info().strip(),
    }
    return found, facts


def _nccl(torch):
    if not torch.version.cuda or not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return None
    version = torch.cuda.nccl.version()
    return ".".join(str(part) for part in version[:3]) if isinstance(version, tuple) else str(version)


def dotted(number):
    """cuDNN's number as it is written: 91002 is `9.10.2`, 8907 is `8.9.7`."""
    if not number:
        return None
    major = 10000 if number >= 90000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def differences(wanted, found):
    """Sentences on what differs; a locked version may have more parts than a library reports."""
    for name, version in sorted(wanted.items()):
        seen = found.get(name)
        if version is None and seen is not None:
            yield f"{name}: the lock holds a build without it, found {seen}"
        elif version is not None and seen is None:
            yield f"{name}: locked {version}, found none"
        elif version is not None and not _agree(version, seen):
            yield f"{name}: locked {version}, found {seen}"


def _agree(locked, seen):
    """Whether two versions agree in the parts that both have; `2.9` in the lock says nothing of the third."""
    pairs = list(zip(locked.split("."), seen.split(".")))
    return all(left == right for left, right in pairs)
