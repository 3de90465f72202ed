"""The questions that the rest of lockgen asks about the world; all answers are data in this folder."""

from __future__ import annotations

from lockgen.knowledge.cuda import (
    Limit,
    MinorCompatibility,
    Toolkit,
    cuda_platforms,
    driver_supports,
    has_cuda,
    min_driver,
    minor_compatibility,
    minor_version_limits,
    toolkit,
    toolkits,
)
from lockgen.knowledge.extra import Extra, ExtraPackage, Service, extra, extra_names, load_extra
from lockgen.knowledge.gpu import Gpu, gpu, gpu_names
from lockgen.knowledge.gpu_library import GpuLibrary, gpu_libraries
from lockgen.knowledge.image import Image, default_image, image, images
from lockgen.knowledge.names import conda_name, conda_name_for
from lockgen.knowledge.program import Program, SystemProgram, program, programs
from lockgen.knowledge.provider import (
    Build,
    Capabilities,
    Companion,
    Exempt,
    Flavour,
    Provider,
    provider,
    provider_for,
    provider_of,
    providers,
)
from lockgen.knowledge.recipe import Command, Recipe, recipe, recipe_files, recipe_names
from lockgen.knowledge.singleton import Member, SingletonGroup, SingletonProvider, singleton_groups
from lockgen.knowledge.system import (
    System,
    default_virtual_packages,
    is_foreign,
    platforms,
    platforms_meant,
    system,
    systems,
)
from lockgen.knowledge.versions import compare_versions, is_within, numbers, reaches
from lockgen.knowledge.wheel import WheelChoice, WheelRow, wheel_choices, wheel_rows

__all__ = [
    "Build",
    "Capabilities",
    "Command",
    "Companion",
    "Exempt",
    "Extra",
    "ExtraPackage",
    "Flavour",
    "Gpu",
    "GpuLibrary",
    "Image",
    "Limit",
    "Member",
    "MinorCompatibility",
    "Program",
    "Provider",
    "Recipe",
    "Service",
    "SingletonGroup",
    "SingletonProvider",
    "System",
    "SystemProgram",
    "Toolkit",
    "WheelChoice",
    "WheelRow",
    "compare_versions",
    "conda_name",
    "conda_name_for",
    "cuda_platforms",
    "default_image",
    "default_virtual_packages",
    "driver_supports",
    "extra",
    "extra_names",
    "gpu",
    "gpu_libraries",
    "gpu_names",
    "has_cuda",
    "image",
    "images",
    "is_foreign",
    "is_within",
    "load_extra",
    "min_driver",
    "minor_compatibility",
    "minor_version_limits",
    "numbers",
    "platforms",
    "platforms_meant",
    "program",
    "programs",
    "provider",
    "provider_for",
    "provider_of",
    "providers",
    "reaches",
    "recipe",
    "recipe_files",
    "recipe_names",
    "singleton_groups",
    "system",
    "systems",
    "toolkit",
    "toolkits",
    "wheel_choices",
    "wheel_rows",
]
