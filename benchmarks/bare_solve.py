"""The least that a program does to solve a request with py-rattler: python bare_solve.py REQUEST CHANNEL CLIENT."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import rattler
from rattler.repo_data.sparse import SparseRepoData

CANONICAL = "https://conda.anaconda.org/conda-forge"


def virtual(text: str) -> rattler.GenericVirtualPackage:
    """A virtual package from `name=version=build`."""
    name, number, build = text.split("=", 2)
    return rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(number), rattler.BuildString(build))


async def solve(request: dict[str, list[dict[str, str]]], channel: str, client: str) -> int:
    """Solve, and count the packages."""
    specs = [one["spec"] for one in request["requirements"]]
    constraints = [one["spec"] for one in request["constraints"]]
    packages = [virtual(str(text)) for text in request["virtual_packages"]]
    if client == "sparse":
        files = [
            SparseRepoData(rattler.Channel(CANONICAL), subdir, f"{channel}/{subdir}/repodata.json")
            for subdir in ("linux-64", "noarch")
        ]
        found = await rattler.solve_with_sparse_repodata(
            specs=specs, sparse_repodata=files, virtual_packages=packages, constraints=constraints
        )
    else:
        found = await rattler.solve(
            sources=[f"file://{channel}"],
            specs=specs,
            platforms=["linux-64", "noarch"],
            virtual_packages=packages,
            constraints=constraints,
        )
    return len(found)


with open(sys.argv[1], encoding="utf-8") as file:
    count = asyncio.run(solve(json.load(file), sys.argv[2], sys.argv[3]))
print(count, flush=True)
os._exit(0 if count else 1)
