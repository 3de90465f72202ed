"""The real recipes: the running interpreter moved, the whole CPU channel, lockgen as a package of it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lockgen.channel.build import build
from lockgen.channel.errors import BuildError
from lockgen.channel.index import index
from lockgen.channel.interpreter import running
from lockgen.channel.recipe import Recipe, load

ROOT = Path(__file__).parents[1]


def _recipe() -> Recipe:
    recipe = load(ROOT / "recipes" / "local")
    here = running()
    if (recipe.channel.python, recipe.channel.platform) != (here.minor, here.subdir):
        pytest.skip(f"the recipe is for CPython {recipe.channel.python}, and this is {here}")
    return recipe


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The channel of recipes/local, built and indexed."""
    folder = tmp_path_factory.mktemp("channel")
    build(_recipe(), folder, lambda line: None)
    index(folder)
    return folder


async def _install(channel: Path, prefix: Path, *specs: str) -> None:
    from rattler import Channel, Gateway, VirtualPackage
    from rattler import install as link
    from rattler import solve as find

    records = await find(
        [Channel(channel.resolve().as_uri())],
        list(specs),
        platforms=[running().subdir, "noarch"],  # type: ignore[list-item]
        gateway=Gateway(),
        virtual_packages=VirtualPackage.detect(),
    )
    await link(records, target_prefix=prefix, cache_dir=prefix.parent / "pkgs")


def _call(*command: str | Path) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_interpreter_runs_from_another_place_with_libraries_of_its_own(channel: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    asyncio.run(_install(channel, prefix, "python"))
    code = """if True:
        import bz2, ctypes, curses, json, lzma, readline, sqlite3, ssl, sysconfig, uuid, zlib
        ctypes.CDLL(None), ssl.create_default_context(), sqlite3.connect(":memory:")
        maps = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
        print(json.dumps([sysconfig.get_path("purelib"), sysconfig.get_config_var("prefix"), sorted(maps)]))
    """
    site_packages, own, maps = json.loads(_call(prefix / "bin" / "python", "-I", "-c", code))
    assert site_packages == str(prefix / running().site_packages)
    assert own == str(prefix)
    names = {Path(path).name.split(".so")[0] for path in maps if not path.startswith(str(prefix))}
    assert names <= {"ld-linux-x86-64", "ld-linux-aarch64", "libc", "libm", "libdl", "libpthread", "libgcc_s"}


def test_the_environment_imports_with_one_openmp_runtime(channel: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    specs = ["pytorch 2.13.* cpu*", "transformers", "datasets", "scikit-learn", "tensorboard", "lockgen-zh-bert", "pip"]
    asyncio.run(_install(channel, prefix, *specs))
    code = """if True:
        import json, torch, transformers, datasets, sklearn.cluster, lockgen_zh_bert
        maps = {line.split()[-1] for line in open("/proc/self/maps")}
        print(json.dumps([torch.__version__, float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()),
                          sorted(path for path in maps if "libgomp" in path or "libomp" in path)]))
    """
    version, product, runtimes = json.loads(_call(prefix / "bin" / "python", "-I", "-c", code).splitlines()[-1])
    assert version == "2.13.0+cpu"
    assert product == 64**3
    assert runtimes == [str(prefix / "lib" / "libgomp.so.1")]
    assert "No broken requirements found." in _call(prefix / "bin" / "pip", "check")
    assert "usage: torchrun" in _call(prefix / "bin" / "torchrun", "--help")
    assert "usage: datasets-cli" in _call(prefix / "bin" / "datasets-cli", "--help")


def test_building_the_recipe_again_gives_the_same_bytes(channel: Path, tmp_path: Path) -> None:
    again = build(_recipe(), tmp_path, lambda line: None)
    assert again.kept == ()
    for file in again.built:
        assert (tmp_path / file).read_bytes() == (channel / file).read_bytes(), file
    assert build(_recipe(), tmp_path, lambda line: None).built == ()


def test_a_wheel_of_another_hash_is_refused_before_anything_is_packed(tmp_path: Path) -> None:
    text = (ROOT / "recipes" / "small" / "channel.toml").read_text()
    idna = next(row for row in tomllib.loads(text)["wheel"] if row["name"] == "idna")
    head = text.partition("[python]")[0]
    wheel = f'[[wheel]]\nname = "idna"\nversion = "{idna["version"]}"\nsha256 = "{"a" * 64}"\n'
    (tmp_path / "channel.toml").write_text(head + wheel)
    with pytest.raises(BuildError) as caught:
        build(load(tmp_path), tmp_path / "channel", lambda line: None, tmp_path / "cache")
    assert f"its sha256 is {idna['sha256']}, expected {'a' * 64}" in str(caught.value)


def test_lockgen_is_built_as_a_package_and_runs_from_the_channel(channel: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("rattler_build") is None:
        pytest.skip("py-rattler-build is not installed")
    import yaml

    recipe = ROOT / "recipes" / "lockgen" / "recipe.yaml"
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load(recipe.read_text())["context"]["version"] == project["version"]
    output = tmp_path / "output"
    code = f"""if True:
        import os, sys
        from rattler_build import Stage0Recipe, ToolConfiguration
        settings = ToolConfiguration(test_strategy="native")
        recipe = Stage0Recipe.from_file({str(recipe)!r})
        channels = [{channel.as_uri()!r}]
        (built,) = recipe.run_build(channels=channels, output_dir={str(output)!r}, tool_config=settings)
        print(built.packages[0], flush=True)
        os._exit(0)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (package,) = output.glob("noarch/lockgen-*.conda")
    target = channel / "noarch" / package.name
    target.write_bytes(package.read_bytes())
    index(channel)
    asyncio.run(_install(channel, tmp_path / "prefix", "lockgen"))
    assert _call(tmp_path / "prefix" / "bin" / "lockgen", "--version") == f"lockgen {project['version']}\n"
