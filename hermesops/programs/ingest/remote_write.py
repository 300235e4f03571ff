"""Prometheus's remote write, version 1: parsed and written one series at a time, without decoding forwarded fields.

Sources: prometheus/prompb ``remote.proto`` and ``types.proto``; protobuf.dev/programming-guides/encoding; snappy's
``format_description.txt``.
"""

import ctypes
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

Decompress = Callable[[bytes, int], bytes]
"""Decompress a snappy block that may become so many bytes at most."""

Label = tuple[bytes, bytes]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SERIES = 1 << 3 | _BYTES
_LABELS, _SAMPLES = 1 << 3 | _BYTES, 2 << 3 | _BYTES
_NAME, _TEXT = 1 << 3 | _BYTES, 2 << 3 | _BYTES
_VALUE, _TIME = 1 << 3 | _FIXED64, 2 << 3 | _VARINT
_MOST_SHIFT = 63
_SAMPLE_BYTES = 32
_MOST_FIELDS, _PER_SERIES = 40_000, 5
"""Of a request; a series counts as some more, since it costs as much. Enough for 2,000 series of a dozen labels each:
what senders may have. Our machines send 211 series at once, or 1,000 samples of one of them each."""
_LITERAL_OF_4_BYTES = b"\xfc"
_ONE_BYTE = 0x80


class MalformedError(Exception):
    """A body that is no remote write, or has more than may be in one."""


def load_snappy() -> Decompress:
    """The system's libsnappy, by its C interface.

    Raises:
        OSError: It is not installed.
    """
    library = ctypes.CDLL("libsnappy.so.1")
    size_p = ctypes.POINTER(ctypes.c_size_t)
    library.snappy_uncompressed_length.argtypes = [ctypes.c_char_p, ctypes.c_size_t, size_p]
    library.snappy_uncompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, size_p]

    def decompress(block: bytes, most: int) -> bytes:
        length = ctypes.c_size_t()
        if library.snappy_uncompressed_length(block, len(block), ctypes.byref(length)):
            raise MalformedError("the body is not compressed by snappy")
        if length.value > most:
            raise MalformedError(f"the body would become {length.value} bytes, more than {most}")
        room = ctypes.create_string_buffer(length.value or 1)
        if library.snappy_uncompress(block, len(block), room, ctypes.byref(length)):
            raise MalformedError("the body is not compressed by snappy")
        return room.raw[: length.value]

    return decompress


def compress(data: bytes) -> bytes:
    """A snappy block that holds the data as they are: it goes to this host's own Prometheus."""
    if not data:
        return b"\x00"
    return varint(len(data)) + _LITERAL_OF_4_BYTES + struct.pack("<I", len(data) - 1) + data


@dataclass(frozen=True)
class RawSeries:
    """One series as it came.

    Attributes:
        labels: Its label fields, encoded.
        samples: Milliseconds since 1970 of each sample, and the sample's field, encoded.
    """

    labels: bytes
    samples: Sequence[tuple[int, bytes]]


def series_in(request: bytes) -> Iterator[RawSeries]:
    """The series of a write request in their order; metadata, exemplars and histograms are left out.

    Raises:
        MalformedError: It is malformed, or has so many fields that parsing would delay other senders.
    """
    left = _MOST_FIELDS
    for tag, start, end in _fields(request, 0, len(request)):
        left -= _PER_SERIES
        if tag == _SERIES:
            series, fields = _series(request, start, end, left)
            left -= fields
            yield series
        if left < 0:
            raise MalformedError("too many series in one request")


def _series(data: bytes, at: int, end: int, most: int) -> tuple[RawSeries, int]:
    """A series, and how many fields it has."""
    labels: list[bytes] = []
    samples: list[tuple[int, bytes]] = []
    begin, fields = at, 0
    for tag, start, after in _fields(data, at, end):
        fields += 1
        if fields > most:
            break  # the caller says so
        if tag == _LABELS:
            labels.append(data[begin:after])
        elif tag == _SAMPLES:
            if after - start > _SAMPLE_BYTES:
                raise MalformedError("a sample is too long")
            samples.append((_time_of(data, start, after), data[begin:after]))
        begin = after
    return RawSeries(b"".join(labels), samples), fields


def _time_of(data: bytes, at: int, end: int) -> int:
    """Milliseconds since 1970 of a sample."""
    value = 0
    for tag, start, _ in _fields(data, at, end):
        if tag == _TIME:
            value = _read_varint(data, start)[0]
    return value - (1 << 64) if value >> 63 else value


def labels_in(encoded: bytes) -> list[Label]:
    """The labels of encoded label fields, in their order.

    Raises:
        MalformedError: A field is no label.
    """
    labels = []
    for tag, start, end in _fields(encoded, 0, len(encoded)):
        name = text = b""
        if tag != _LABELS:
            raise MalformedError("a label is no field of its series")
        for part, begin, after in _fields(encoded, start, end):
            if part == _NAME:
                name = encoded[begin:after]
            elif part == _TEXT:
                text = encoded[begin:after]
        labels.append((name, text))
    return labels


def encode_labels(labels: Iterable[Label]) -> bytes:
    """Encode labels as fields of a series."""
    return b"".join(
        _field(_LABELS, _field(_NAME, name) + (_field(_TEXT, text) if text else b"")) for name, text in labels
    )


def encode_sample(value: float, at_ms: int) -> bytes:
    """Encode one sample as a field of a series; ``at_ms`` is in milliseconds since 1970."""
    inner = varint(_VALUE) + struct.pack("<d", value) + varint(_TIME) + varint(at_ms & (1 << 64) - 1)
    return _field(_SAMPLES, inner)


def value_in(sample: bytes) -> float:
    """The value of a sample's field."""
    for _, start, end in _fields(sample, 0, len(sample)):
        for tag, begin, after in _fields(sample, start, end):
            if tag == _VALUE:
                return float(struct.unpack("<d", sample[begin:after])[0])
    return 0.0


def encode_series(labels: bytes, samples: Iterable[bytes]) -> bytes:
    """The field of a series, of encoded labels and samples."""
    return _field(_SERIES, labels + b"".join(samples))


def varint(number: int) -> bytes:
    """A number that is not negative, as protobuf and snappy write it."""
    if number < _ONE_BYTE:
        return bytes((number,))
    out = bytearray()
    while number >= _ONE_BYTE:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(tag: int, content: bytes) -> bytes:
    return varint(tag) + varint(len(content)) + content


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and the position of the byte after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE:
            return value, at
        shift += 7
        if shift > _MOST_SHIFT:
            raise MalformedError("a number has more than 64 bits")


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each field's tag, and where its content begins and ends."""
    try:
        while at < end:
            tag = data[at]
            at += 1
            if tag >= _ONE_BYTE:
                tag, at = _read_varint(data, at - 1)
            kind = tag & 7
            if kind == _BYTES:
                size = data[at]
                at += 1
                if size >= _ONE_BYTE:
                    size, at = _read_varint(data, at - 1)
                start, at = at, at + size
            elif kind == _VARINT:
                start = at
                _, at = _read_varint(data, at)
            elif kind in {_FIXED64, _FIXED32}:
                start, at = at, at + (8 if kind == _FIXED64 else 4)
            else:
                raise MalformedError(f"a field has the wire type {kind}")
            if at > end:
                raise MalformedError("a field is longer than its message")
            yield tag, start, at
    except IndexError:
        raise MalformedError("the body ends within a field") from None
