"""Chinese reviews with labels, and a Chinese WordPiece vocabulary: what a BERT needs to be tried without a hub."""

from __future__ import annotations

import os

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def corpus() -> list[tuple[str, int]]:
    """Reviews, each once, with 1 for praise and 0 for blame; sorted by label and text."""
    with open(os.path.join(_FOLDER, "corpus.tsv"), encoding="utf-8") as file:
        pairs = [line.split("\t", 1) for line in file.read().split("\n") if line]
    return [(text, int(label)) for label, text in pairs]


def vocabulary() -> list[str]:
    """Tokens in the order of their numbers; `[PAD]` is 0."""
    with open(os.path.join(_FOLDER, "vocab.txt"), encoding="utf-8") as file:
        return file.read().split("\n")[:-1]
