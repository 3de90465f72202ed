"""What is in an image, as a CycloneDX document: conda packages, the base, and packages of its distribution."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockgen.channelname import channel_name
from lockgen.image.model import Base, ImagePlan
from lockgen.image.plan import SOURCES
from lockgen.knowledge import tables
from lockgen.lock.model import LockedPackage, PlatformLock
from lockgen.matchspec import name_of

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import License
    from packageurl import PackageURL

MEDIA_TYPE = "application/vnd.cyclonedx+json"
"""Of the document, and the type of the artefact that carries it."""


def sbom(plan: ImagePlan, platform: PlatformLock, base_packages: Sequence[tuple[str, str]] = ()) -> str:
    """
    The CycloneDX 1.6 document of an image, in JSON; the same image, the same bytes.

    Args:
        base_packages: names and versions of what the base's distribution has installed, see `debian_packages`.

    Source: https://cyclonedx.org/docs/1.6/json/, and the package-url types `conda`, `deb`, `oci`; read 2026-12-01.
    """
    from cyclonedx.output.json import JsonV1Dot6

    bom = _bom(plan, platform, base_packages)
    bom.serial_number = uuid.UUID(int=0)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, JsonV1Dot6(bom).output_as_string())
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def debian_packages(text: str) -> tuple[tuple[str, str], ...]:
    """Names and versions of what is installed, sorted, from the text of `var/lib/dpkg/status` or of `status.d/*`."""
    found = set()
    for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        fields = dict(re.findall(r"^(Package|Version|Status):[ \t]*(.+?)[ \t]*$", paragraph, re.MULTILINE))
        installed = fields.get("Status", "install ok installed").endswith(" installed")
        if installed and "Package" in fields and "Version" in fields:
            found.add((fields["Package"], fields["Version"]))
    return tuple(sorted(found))


def _bom(plan: ImagePlan, platform: PlatformLock, base_packages: Sequence[tuple[str, str]]) -> Bom:
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.tool import ToolRepository

    image = _image(plan)
    base = _component(ComponentType.CONTAINER, _oci(plan.base, plan.architecture))
    versions = dict(base_packages)
    added = {name: _system(plan.base, name, versions.pop(name, None)) for name in plan.distribution}
    system = {name: _system(plan.base, name, version) for name, version in versions.items()}
    conda = {package.name: _conda(package) for package in platform.packages}
    lockgen = Component(type=ComponentType.APPLICATION, name="lockgen")
    created = datetime.datetime.fromtimestamp(plan.created, datetime.UTC)
    bom = Bom(
        components=(base, *system.values(), *added.values(), *conda.values()),
        metadata=BomMetaData(component=image, timestamp=created, tools=ToolRepository(components=[lockgen])),
    )
    for package in platform.packages:
        needed = sorted({name_of(spec) for spec in package.depends} & conda.keys())
        bom.register_dependency(conda[package.name], [conda[name] for name in needed])
    bom.register_dependency(base, system.values())
    asked = _asked(platform)
    bom.register_dependency(image, [base, *added.values(), *(conda[name] for name in asked)])
    return bom


def _asked(platform: PlatformLock) -> list[str]:
    """What the spec names, and what no package needs: from these all others are reached."""
    needed = {
        name_of(spec) for package in platform.packages for spec in package.depends if package.name != name_of(spec)
    }
    named = {name_of(requirement.spec) for requirement in platform.request.requirements}
    return [package.name for package in platform.packages if package.name in named or package.name not in needed]


def _image(plan: ImagePlan) -> Component:
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType

    facts = {"fingerprint": plan.fingerprint, "platform": plan.platform, "prefix": plan.prefix}
    return Component(
        type=ComponentType.CONTAINER,
        name=f"{plan.name}-{plan.variant}" if plan.variant else plan.name,
        bom_ref="image",
        version=plan.fingerprint,
        properties=[Property(name=f"lockgen:{name}", value=value) for name, value in facts.items()],
    )


def _conda(package: LockedPackage) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import ComponentType
    from packageurl import PackageURL

    qualifiers = {
        "build": package.build,
        "channel": _channel(package.channel),
        "subdir": package.subdir,
        "type": "tar.bz2" if package.filename.endswith(".tar.bz2") else "conda",
    }
    component = _component(ComponentType.LIBRARY, PackageURL("conda", None, package.name, package.version, qualifiers))
    hashes = {HashAlgorithm.SHA_256: package.sha256, HashAlgorithm.MD5: package.md5}
    component.hashes.update(HashType(alg=kind, content=value) for kind, value in hashes.items() if value)
    if package.license:
        component.licenses.add(_license(package.license))
    return component


def _channel(url: str) -> str:
    """A channel's name, or its URL; of one in a folder the folder's own name."""
    return url.rstrip("/").rsplit("/", 1)[-1] if url.startswith("file:") else channel_name(url)


def _license(text: str) -> License:
    """An SPDX identifier or expression where the text is one, else a name."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.spdx import is_supported_id

    made = LicenseFactory().make_from_string(text)
    if isinstance(made, LicenseExpression):  # it lets through what its library knows by another name: `GPL`
        parts = re.split(r"\s+(?:AND|OR)\s+|\s+WITH\s+\S+", re.sub(r"[()]", " ", text), flags=re.IGNORECASE)
        if not all(is_supported_id(part.strip().removesuffix("+")) for part in parts if part.strip()):
            return LicenseFactory().make_with_name(text)
    return made


def _system(base: Base, name: str, version: str | None) -> Component:
    from cyclonedx.model.component import ComponentType
    from packageurl import PackageURL

    return _component(ComponentType.LIBRARY, PackageURL("deb", _family(base), name, version))


def _family(base: Base) -> str:
    """The distribution that a base is of: what is known of it, else what its name says."""
    known = {image.reference: image.family for image in tables.images()}
    return known.get(base.reference, "ubuntu" if "ubuntu" in base.reference else "debian")


def _oci(base: Base, architecture: str) -> PackageURL:
    from packageurl import PackageURL

    name, colon, tag = base.reference.partition("@")[0].rpartition(":")
    if not colon or "/" in tag:
        name, tag = base.reference.partition("@")[0], ""
    local = f"{name}:" in SOURCES  # it came from no registry, and is known by its digest alone
    qualifiers = {"arch": architecture} if local else {"arch": architecture, "repository_url": name, "tag": tag}
    return PackageURL("oci", None, name.rsplit("/", 1)[-1], base.digest, qualifiers)


def _component(kind: ComponentType, purl: PackageURL) -> Component:
    from cyclonedx.model.component import Component

    return Component(type=kind, name=purl.name, version=purl.version, bom_ref=str(purl), purl=purl)
