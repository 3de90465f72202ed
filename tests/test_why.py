"""Why a package is in a lock."""

from __future__ import annotations

from lock_values import package, request

from lockgen.lock.model import LockedPackage, PlatformLock
from lockgen.lock.why import Chain, needed_by, why


def lock(*packages: LockedPackage, specs: tuple[str, ...]) -> PlatformLock:
    asked = request("linux-64", *specs)
    return PlatformLock(request=asked, packages=tuple(sorted(packages, key=lambda one: one.name)))


SMALL = lock(
    package("transformers", "5.0", depends=["tokenizers >=0.20", "numpy", "python >=3.10"]),
    package("tokenizers", "0.22", depends=["python >=3.10", "openssl"]),
    package("numpy", "2.3", depends=["python >=3.10", "__glibc >=2.17"]),
    package("python", "3.13.1", depends=["pip", "openssl >=3"]),
    package("pip", "25.0", depends=["python >=3.13.0a0"]),
    package("openssl", "3.5"),
    package("stray", "1.0"),
    specs=("python 3.13.*", "transformers"),
)


def links(chains: tuple[Chain, ...]) -> list[list[tuple[str, str]]]:
    return [list(chain.links) for chain in chains]


def test_a_package_that_was_asked_for_is_its_own_reason() -> None:
    first = why(SMALL, "transformers")[0]
    assert first.links == (("transformers", "transformers"),)
    assert first.requirement.spec == "transformers"


def test_the_shortest_chain_of_every_line_shortest_first() -> None:
    assert links(why(SMALL, "openssl")) == [
        [("python", "python 3.13.*"), ("openssl", "openssl >=3")],
        [("transformers", "transformers"), ("tokenizers", "tokenizers >=0.20"), ("openssl", "openssl")],
    ]


def test_packages_that_need_each_other_end() -> None:
    assert links(why(SMALL, "pip")) == [
        [("python", "python 3.13.*"), ("pip", "pip")],
        [("transformers", "transformers"), ("python", "python >=3.10"), ("pip", "pip")],
    ]
    assert needed_by(SMALL, "pip") == ("python",)


def test_an_absent_package_has_no_chain() -> None:
    assert why(SMALL, "scipy") == ()
    assert why(SMALL, "__glibc") == ()


def test_a_package_that_nothing_leads_to_has_no_chain() -> None:
    assert why(SMALL, "stray") == ()
    assert needed_by(SMALL, "stray") == ()


def test_a_line_whose_package_was_left_out_leads_nowhere() -> None:
    assert why(lock(package("numpy"), specs=("jieba", "numpy")), "numpy")[0].requirement.spec == "numpy"


def test_what_needs_a_package_directly_is_sorted() -> None:
    assert needed_by(SMALL, "python") == ("numpy", "pip", "tokenizers", "transformers")
