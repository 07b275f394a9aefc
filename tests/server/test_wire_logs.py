"""Logs: masked as a whole, and never in the way."""

from __future__ import annotations

import logging
import os

from server.logs import StderrHandler


def _logger(handler: StderrHandler) -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger


def test_every_line_is_masked_with_its_traceback() -> None:
    reading, writing = os.pipe()
    logger = _logger(StderrHandler(lambda text: text.replace("hunter2", "<masked:KEY>"), writing))
    try:
        raise ValueError("hunter2")
    except ValueError:
        logger.exception("the key %s", "hunter2")
    text = os.read(reading, 1 << 16).decode()
    assert text.count("<masked:KEY>") >= 2
    assert "hunter2" not in text
    os.close(reading)
    os.close(writing)


def test_a_reader_that_does_not_read_costs_lines_and_nothing_else() -> None:
    reading, writing = os.pipe()
    logger = _logger(StderrHandler(descriptor=writing))
    for number in range(2000):
        logger.error("line %d %s", number, "." * 100)
    first = os.read(reading, 1 << 20).decode()
    assert "line 0 " in first
    assert "line 1999" not in first
    logger.error("at last")
    second = os.read(reading, 1 << 16).decode()
    assert "log lines were lost" in second
    assert "at last" in second
    os.close(reading)
    os.close(writing)


def test_a_closed_standard_error_is_survived() -> None:
    reading, writing = os.pipe()
    logger = _logger(StderrHandler(descriptor=writing))
    os.close(reading)
    os.close(writing)
    logger.error("nobody hears this")


def test_a_record_that_cannot_be_formatted_is_survived() -> None:
    reading, writing = os.pipe()
    logger = _logger(StderrHandler(descriptor=writing))
    logger.error("%d", "no number")
    logger.error("half \ud800")
    assert "half ?" in os.read(reading, 1 << 16).decode()
    os.close(reading)
    os.close(writing)
