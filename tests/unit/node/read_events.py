"""Decodes TensorBoard event files with nothing of Dynamix: checks every length and checksum, prints scalars as JSON."""

import glob
import json
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert length_crc == masked(data[at : at + 8]), "checksum of a length"
        body = data[at + 12 : at + 12 + length]
        (body_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert len(body) == length and body_crc == masked(body), "checksum of a record"
        yield body
        at += 16 + length


def fields(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        field, wire = key >> 3, key & 7
        if wire == 0:
            value = varint()
        elif wire == 1:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        elif wire == 5:
            (value,) = struct.unpack_from("<f", data, at)
            at += 4
        else:
            assert wire == 2, "a wire type that an event has not"
            length = varint()
            value = data[at : at + length]
            at += length
        yield field, value
    assert at == len(data), "a field that is cut off"


found = {"version": None, "scalars": {}}
for path in sorted(glob.glob(sys.argv[1] + "/events.out.tfevents.*")):
    for number, record in enumerate(records(open(path, "rb").read())):
        event = dict(fields(record))
        if number == 0:
            found["version"] = event[3].decode()
            continue
        for field, value in fields(event[5]):
            assert field == 1
            entry = dict(fields(value))
            found["scalars"].setdefault(entry[1].decode(), []).append(
                {"step": event.get(2, 0), "wall": event[1], "value": entry[2]}
            )
json.dump(found, sys.stdout)
