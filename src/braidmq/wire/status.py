"""The status that a member reports of itself: JSON in the payload of an extended PINGREQ, or of a PUBLISH
to `$load/...`.

    {"msgsInQueue": 3, "processingTimePerMsg": 25.0}            figure 39 of the thesis: this is what we send
    {"numberOfMsgsInQueue": 3, "processingTimerPerMsg": 25.0}   its source code 2: accepted as well
    "received", "processed"                                     our addition, optional: totals since CONNECT

Processing time is in milliseconds, the mean since the last report, 0 if nothing was processed. Unknown
fields are ignored, so that reports can grow. A report that can't be true is not used at all: `parse_status`
answers with the fault, which the caller counts; it never raises. Cost: linear in at most 1 KiB.
"""

from enum import StrEnum
from typing import Final

import msgspec

STATUS_BYTES_MAX: Final = 1024
QUEUE_MAX: Final = 1_000_000
PROCESSING_MS_MAX: Final = 3_600_000.0
TOTAL_MAX: Final = 2**53  # what every JSON library can carry
MS_PER_S: Final = 1000.0


class StatusFault(StrEnum):
    """Why a report was not used."""

    TOO_LARGE = "too large"
    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "not an object"
    MISSING_FIELD = "missing field"
    WRONG_TYPE = "wrong type"
    OUT_OF_RANGE = "out of range"
    CONTRADICTION = "contradiction"


class StatusReport(msgspec.Struct, frozen=True, gc=False):
    queue: int  # received, not yet taken by the application; the message in work is not counted
    processing_s: float  # mean per message since the last report; 0 = none was processed
    received: int = -1  # since CONNECT; -1 = not told
    processed: int = -1


class _RefusedError(Exception):
    def __init__(self, fault: StatusFault) -> None:
        super().__init__(fault)
        self.fault = fault


_QUEUE_NAMES: Final = ("msgsInQueue", "numberOfMsgsInQueue")
_PROCESSING_NAMES: Final = ("processingTimePerMsg", "processingTimerPerMsg")


def parse_status(payload: bytes) -> StatusReport | StatusFault:
    if len(payload) > STATUS_BYTES_MAX:
        return StatusFault.TOO_LARGE
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return StatusFault.NOT_JSON
    if not isinstance(fields, dict):
        return StatusFault.NOT_AN_OBJECT
    try:
        return _report(fields)
    except _RefusedError as refused:
        return refused.fault


def encode_status(report: StatusReport) -> bytes:
    fields: dict[str, int | float] = {
        _QUEUE_NAMES[0]: report.queue,
        _PROCESSING_NAMES[0]: report.processing_s * MS_PER_S,
    }
    if report.received >= 0:
        fields["received"] = report.received
    if report.processed >= 0:
        fields["processed"] = report.processed
    return msgspec.json.encode(fields)


def _report(fields: dict[str, object]) -> StatusReport:
    queue = _count(_either(fields, _QUEUE_NAMES), QUEUE_MAX)
    processing_ms = _number(_either(fields, _PROCESSING_NAMES), PROCESSING_MS_MAX)
    received = _count(fields["received"], TOTAL_MAX) if "received" in fields else -1
    processed = _count(fields["processed"], TOTAL_MAX) if "processed" in fields else -1
    if 0 <= received < processed:
        raise _RefusedError(StatusFault.CONTRADICTION)
    return StatusReport(queue, processing_ms / MS_PER_S, received, processed)


def _either(fields: dict[str, object], names: tuple[str, str]) -> object:
    given = [fields[name] for name in names if name in fields]
    if not given:
        raise _RefusedError(StatusFault.MISSING_FIELD)
    if given[0] != given[-1]:
        raise _RefusedError(StatusFault.CONTRADICTION)
    return given[0]


def _number(value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _RefusedError(StatusFault.WRONG_TYPE)
    if not 0 <= value <= most:  # false for NaN too
        raise _RefusedError(StatusFault.OUT_OF_RANGE)
    return float(value)


def _count(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _RefusedError(StatusFault.WRONG_TYPE)
    if not 0 <= value <= most:
        raise _RefusedError(StatusFault.OUT_OF_RANGE)
    return value
