"""Locks made by hand for tests, and hypothesis strategies for locks with hostile strings in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hypothesis import strategies as st

from lockgen.lock.model import CudaFacts, Lock, LockedPackage, PlatformLock
from lockgen.request import CudaAsk, Request, Requirement

CHANNEL = "https://conda.anaconda.org/conda-forge"


def package(
    name: str,
    version: str = "1.0",
    build: str = "h1_0",
    *,
    subdir: str = "linux-64",
    depends: Iterable[str] = (),
    **fields: object,
) -> LockedPackage:
    """A package of conda-forge with made-up hashes."""
    filename = f"{name}-{version}-{build}.conda"
    values: dict[str, object] = {
        "build_number": 0,
        "size": 1000 + len(filename),
        "license": "MIT",
        "timestamp": 1_700_000_000_000,
        **{key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()},
    }
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        subdir=subdir,
        channel=CHANNEL,
        url=f"{CHANNEL}/{subdir}/{filename}",
        sha256=hashlib.sha256(filename.encode()).hexdigest(),
        md5=hashlib.md5(filename.encode()).hexdigest(),
        depends=tuple(depends),
        **values,  # type: ignore[arg-type]
    )


def requirement(spec: str, *, optional: bool = False) -> Requirement:
    """A requirement of the key `dependencies`."""
    return Requirement(spec=spec, because=f"dependencies: {spec}", key="dependencies.0", optional=optional)


def request(platform: str, *specs: str, cuda: CudaAsk | None = None, **fields: object) -> Request:
    """A request to conda-forge for the oldest system of a platform."""
    virtual = {
        "linux-64": ("__archspec=1=x86_64", "__glibc=2.28=0", "__linux=4.18=0", "__unix=0=0"),
        "osx-arm64": ("__archspec=1=m1", "__osx=13.0=0", "__unix=0=0"),
    }[platform]
    if cuda:
        virtual = tuple(sorted((*virtual, f"__cuda={cuda.version}=0")))
    values: dict[str, object] = {"requirements": tuple(map(requirement, specs)), **fields}
    return Request(
        platform=platform,
        channels=(CHANNEL,),
        virtual_packages=virtual,
        cuda=cuda,
        **values,  # type: ignore[arg-type]
    )


def _python(subdir: str) -> list[LockedPackage]:
    """Python and pip, which need each other, and what they share."""
    path = "lib/python3.13/site-packages"
    return [
        package(
            "python", "3.13.1", "h5_100_cp313", subdir=subdir, depends=["openssl >=3.4.0,<4.0a0", "pip"],
            build_number=100, python_site_packages_path=path, license="Python-2.0",
        ),
        package(
            "pip", "24.3.1", "pyh145f28c_2", subdir="noarch", depends=["python >=3.13.0a0"],
            noarch="python", build_number=2, license_family="MIT",
        ),
        package("openssl", "3.4.0", "hb9d3cd8_1", subdir=subdir, build_number=1, license="Apache-2.0"),
    ]  # fmt: skip


def _gpu() -> PlatformLock:
    openmp = ["_openmp_mutex * *_llvm", "_openmp_mutex >=4.5", "__glibc >=2.17,<3.0.a0"]
    asked = request(
        "linux-64", "python 3.13.*", "pytorch 2.9.*", "pytorch * cuda*",
        cuda=CudaAsk(version="12.1", match="compatible", gpus=("7.0", "9.0"), driver="535"),
        constraints=(requirement("libtorch * cuda*"),),
    )  # fmt: skip
    packages = [
        *_python("linux-64"),
        package("_openmp_mutex", "4.5", "7_kmp_llvm", build_number=7, depends=["llvm-openmp >=9.0.1"]),
        package("llvm-openmp", "19.1.7", "h024ca30_0", license="Apache-2.0 WITH LLVM-exception"),
        package(
            "pytorch", "2.9.1", "cuda129_py313_1", depends=[*openmp, "python >=3.13,<3.14.0a0"],
            build_number=1, constrains=["pytorch-cpu <0.0a0"], track_features=["gpu"], license="BSD-3-Clause",
        ),
    ]  # fmt: skip
    facts = CudaFacts(
        asked="12.1", locked="12.9", min_driver="525.60.13", capabilities=("7.0", "9.0"), ptx="12.0",
        notes=("no PyTorch 2.9 was built for CUDA 12.1", "12.9 runs on its drivers: same major"),
    )  # fmt: skip
    return PlatformLock(request=asked, packages=_sorted(packages), cuda=facts)


def _cpu(platform: str) -> PlatformLock:
    wanted = (requirement("python 3.13.*"), requirement("pytorch 2.9.*"), requirement("jieba", optional=True))
    packages = [
        *_python(platform),
        package("pytorch", "2.9.1", "cpu_py313_0", subdir=platform, depends=["python >=3.13,<3.14.0a0"], license=None),
    ]
    return PlatformLock(
        request=request(platform, requirements=wanted),
        packages=_sorted(packages),
        left_out=(f"jieba: no record in conda-forge for {platform}",),
    )


def _sorted(packages: Iterable[LockedPackage]) -> tuple[LockedPackage, ...]:
    return tuple(sorted(packages, key=lambda each: each.name))


GPU = Lock(name="small", variant="gpu", platforms=(_gpu(),))
CPU = Lock(name="small", variant="cpu", platforms=(_cpu("linux-64"), _cpu("osx-arm64")))
VARIANTS = (GPU, CPU)
"""Two variants on two platforms, one with CUDA."""
PLAIN = Lock(name="small", platforms=(_gpu(),))
"""One platform, no variants."""


# strategies

hostile = st.one_of(
    st.text(max_size=24),
    st.sampled_from(["", "no", "~", "1.10", "0x1f", "1e3", "- a", "a: b", "a #b", " a", "a ", "<<", "=", "2001-01-01",
                     "'", '"', "\\", "a\nb", "\t", "\r\n", "\x00", "\x85", "\u2028", "\ufeff", "許可", "\U0001f600",
                     "{a}", "[a]", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "?", ":", "a:", "12:30:45", "0b1",
                     "0o17", "0BSD", "1_000", ".inf", ".NaN", "-.5", "+1", "null", "y", "On", "a\\\nb"]),
)  # fmt: skip
"""Text that a careless writer breaks on."""

_names = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,12}", fullmatch=True)
_versions = st.from_regex(r"[0-9][0-9a-z!+._]{0,8}", fullmatch=True)
_hostile_tuples = st.lists(hostile, max_size=3).map(tuple)
_depends = st.lists(
    st.one_of(
        hostile,
        st.sampled_from(["a", "a >=1", "a * *_llvm", "a >=4.5", "b 1.0 h_0", "b >=1|2", "a[version='>=2']", "b>=2"]),
    ),
    max_size=4,
).map(tuple)


@st.composite
def packages(draw: st.DrawFn) -> LockedPackage:
    """A package whose URL, build and channel may or may not belong together."""
    name, version = draw(_names), draw(_versions)
    build = draw(st.one_of(hostile, st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)))
    subdir = draw(st.sampled_from(["linux-64", "noarch", "osx-arm64"]))
    channel = draw(st.one_of(st.just(CHANNEL), hostile))
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        build_number=draw(st.integers(0, 10**6)),
        subdir=subdir,
        channel=channel,
        url=draw(st.one_of(st.just(f"{channel}/{subdir}/{name}-{version}-{build}.conda"), hostile)),
        sha256=draw(st.one_of(st.from_regex(r"[0-9a-f]{64}", fullmatch=True), hostile)),
        md5=draw(st.one_of(st.from_regex(r"[0-9a-f]{32}", fullmatch=True), hostile)),
        size=draw(st.integers(0, 10**12)),
        depends=draw(_depends),
        constrains=draw(_hostile_tuples),
        track_features=draw(_hostile_tuples),
        noarch=draw(st.sampled_from([None, "python", "generic"])),
        license=draw(st.none() | hostile),
        license_family=draw(st.none() | hostile),
        timestamp=draw(st.none() | st.integers(0, 10**13)),
        python_site_packages_path=draw(st.none() | hostile),
    )


_requirements = st.lists(
    st.builds(Requirement, spec=hostile, because=hostile, key=hostile, optional=st.booleans()), max_size=3
).map(tuple)
_cuda_asks = st.builds(
    CudaAsk,
    version=hostile,
    match=st.sampled_from(["compatible", "exact"]),
    gpus=_hostile_tuples,
    driver=st.none() | hostile,
)
_cuda_facts = st.builds(
    CudaFacts,
    asked=hostile,
    locked=hostile,
    min_driver=hostile,
    capabilities=_hostile_tuples,
    ptx=st.none() | hostile,
    notes=_hostile_tuples,
)


@st.composite
def platform_locks(draw: st.DrawFn, platform: str) -> PlatformLock:
    """An answer with packages sorted by name."""
    asked = Request(
        platform=platform,
        channels=draw(_hostile_tuples),
        channel_priority=draw(st.sampled_from(["strict", "disabled"])),
        provider=draw(hostile),
        requirements=draw(_requirements),
        constraints=draw(_requirements),
        virtual_packages=draw(_hostile_tuples),
        cutoff=draw(st.none() | hostile),
        cuda=draw(st.none() | _cuda_asks),
    )
    found = draw(st.lists(packages(), max_size=4, unique_by=lambda each: each.name))
    return PlatformLock(
        request=asked,
        packages=_sorted(found),
        cuda=draw(st.none() | _cuda_facts),
        left_out=draw(_hostile_tuples),
    )


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    """Any lock, in its order."""
    names = draw(st.lists(st.sampled_from(["linux-64", "osx-arm64", "win-64"]), max_size=2, unique=True))
    return Lock(
        name=draw(hostile),
        variant=draw(st.none() | hostile),
        platforms=tuple(draw(platform_locks(name)) for name in sorted(names)),
    )
