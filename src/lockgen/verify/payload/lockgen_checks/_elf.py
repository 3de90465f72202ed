"""What a shared object says of the libraries that it needs: a small reader of ELF's dynamic section."""

import struct

_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_LOAD, _DYNAMIC = 1, 2


class Object:
    """The dynamic section of one file: names of needed libraries, its own name, its search paths."""

    def __init__(self, needed, soname, rpath, runpath):
        self.needed, self.soname, self.rpath, self.runpath = needed, soname, rpath, runpath


def read(path):
    """The dynamic section of an ELF file; None for any other file and for one without such a section."""
    with open(path, "rb") as file:
        ident = file.read(16)
        if ident[:4] != b"\x7fELF" or len(ident) < 16:
            return None
        order = "<" if ident[5] == 1 else ">"
        segments = _segments(file, order, wide=ident[4] == 2)
        for kind, offset, _address, size in segments:
            if kind == _DYNAMIC:
                return _object(file, order, ident[4] == 2, segments, (offset, size))
    return None


def _segments(file, order, wide):
    """Kind, file offset, address and size in the file of each program header."""
    header = struct.Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
    fields = header.unpack(_bytes(file, 16, header.size))
    start, width, count = fields[4], fields[8], fields[9]
    entry = struct.Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
    found = []
    for index in range(count):
        row = entry.unpack(_bytes(file, start + index * width, entry.size))
        found.append((row[0], row[2], row[3], row[5]) if wide else (row[0], row[1], row[2], row[4]))
    return found


def _object(file, order, wide, segments, place):
    entry = struct.Struct(order + ("qQ" if wide else "iI"))
    raw = _bytes(file, *place)
    tags = [entry.unpack_from(raw, at) for at in range(0, len(raw) - entry.size + 1, entry.size)]
    table = next((value for tag, value in tags if tag == _STRTAB), None)
    if table is None:
        return Object([], None, [], [])
    strings = _offset(segments, table)
    texts = {}
    for tag, value in tags:
        if tag in (_NEEDED, _SONAME, _RPATH, _RUNPATH):
            texts.setdefault(tag, []).append(_string(file, strings + value))
    split = lambda tag: [path for text in texts.get(tag, []) for path in text.split(":") if path]  # noqa: E731
    return Object(texts.get(_NEEDED, []), (texts.get(_SONAME) or [None])[0], split(_RPATH), split(_RUNPATH))


def _offset(segments, address):
    """The place in the file of an address."""
    for kind, offset, start, size in segments:
        if kind == _LOAD and start <= address < start + size:
            return address - start + offset
    raise ValueError("an address outside all segments")


def _string(file, at):
    file.seek(at)
    return file.read(4096).split(b"\0", 1)[0].decode("utf-8", "replace")


def _bytes(file, at, size):
    file.seek(at)
    found = file.read(size)
    if len(found) < size:
        raise ValueError("the file is cut short")
    return found
