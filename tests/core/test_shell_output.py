"""What the model is told of a command's output is exact, plain, bounded and masked; the whole of it is in the spool."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.shell import CommandLimits
from agent_core.shell.output import HeadAndTail, PlainText
from tests.core.shell_support import Stopwatch, Workbench, mode_of, spooled

SECRET = "hunter2-Zq8-correct-horse"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    made = Workbench(tmp_path, {"DEPLOY_TOKEN": SECRET})
    yield made
    await made.shell.close()


def plain(*pieces: bytes, encoding: str = "utf-8") -> str:
    text = PlainText(encoding)
    shown = "".join(text.feed(piece) for piece in pieces)
    text.finish()
    return shown + text.rest()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"get 10%\rget 100%\n", "get 100%\n"),  # OU-10
        (b"one\r\ntwo\r\r\n", "one\ntwo\n"),
        (b"10%\r\x1b[K20%\r", "20%"),
        (b"\x1b[31mred\x1b[0m \x1b[?25l\x1b]0;t\x07 ok\n", "red  ok\n"),  # OU-11
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(Bx\x1bc\n", "link x\n"),
        (b"b\x08bo\x08ol\x08ld\n", "bold\n"),
        (b"tab\there\n\nend", "tab\there\n\nend"),
        (b"\x1b[3", "\x1b[3"),  # an end that is cut off is shown, since nothing says what it would have been
        ("é€𝄞\n".encode(), "é€𝄞\n"),
        (b"\xff\xfe \xe2\x82", "\ufffd\ufffd \ufffd"),
    ],
)
def test_ou_10_ou_11_plain_text_is_the_same_however_it_was_cut(written: bytes, shown: str) -> None:
    assert plain(written) == shown
    for cut in range(len(written)):
        assert plain(written[:cut], written[cut:]) == shown
    assert plain(*(bytes([byte]) for byte in written)) == shown


def test_a_line_without_end_is_let_go_in_pieces() -> None:
    text = PlainText("utf-8")
    written = b"\x1b[1mword\x1b[0m " * 10_000
    shown = "".join(text.feed(written[start : start + 1037]) for start in range(0, len(written), 1037))
    assert len(shown) > 30_000
    assert shown == ("word " * 10_000)[: len(shown)]
    text.finish()
    assert shown + text.rest() == "word " * 10_000


def test_a_line_end_of_a_long_line_does_not_erase_it() -> None:
    assert plain(b"x" * 20_000 + b"\r", b"\n") == "x" * 20_000 + "\n"


def test_the_declared_encoding_of_the_locale_counts() -> None:
    assert plain("café €\n".encode("iso-8859-15"), encoding="iso-8859-15") == "café €\n"
    assert plain("日本\n".encode("euc-jp")[:1], "日本\n".encode("euc-jp")[1:], encoding="euc-jp") == "日本\n"


async def test_a_command_under_a_latin_locale_is_read_so(bench: Workbench) -> None:
    environ = {**os.environ, "LC_ALL": "de_DE.ISO-8859-1"}
    assert (await bench.run("printf 'caf\\xe9\\n'", environ=environ)).output.endswith("café\n")


def test_ou_04_cuts_are_at_character_borders() -> None:
    text = HeadAndTail(10)
    text.feed("€" * 5)
    kept = text.kept()
    assert len((kept.head + kept.tail).encode()) <= 10
    assert set(kept.head + kept.tail) == {"€"}
    assert kept.omitted_bytes == 15 - len((kept.head + kept.tail).encode())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="aé€𝄞\n", max_size=30), max_size=12), st.integers(0, 60), st.text("x\n", max_size=9))
def test_head_and_tail_are_the_ends_of_the_text_and_count_the_rest(pieces: list[str], limit: int, rest: str) -> None:
    text = HeadAndTail(limit)
    for piece in pieces:
        text.feed(piece)
    kept = text.kept(rest)
    whole = "".join(pieces) + rest
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    shown = kept.head + kept.tail
    assert len(shown.encode()) <= limit
    assert kept.omitted_bytes == len(whole.encode()) - len(shown.encode())
    assert kept.omitted_lines == whole.count("\n") - shown.count("\n")
    if len(whole.encode()) <= limit:
        assert shown == whole


async def test_ou_02_binary_output_is_text_that_json_takes(bench: Workbench) -> None:
    result = await bench.run("head -c 1000 /dev/urandom; printf '\\0'")
    assert json.loads(json.dumps(result.output)) == result.output
    result.output.encode()
    assert result.total_bytes == 1001


async def test_ou_05_ou_07_the_notice_counts_and_names_the_whole_output(bench: Workbench) -> None:
    result = await bench.run("seq 1 200000; echo FAILED test_x; exit 1", limits=CommandLimits(kept_bytes=4000))
    head, notice, tail = result.output.partition(f"\n[... {result.omitted_lines} lines, ")
    assert notice
    assert head.startswith("1\n2\n3\n")
    assert tail.endswith("\n200000\nFAILED test_x\n")
    assert result.exit_code == 1
    assert len(result.output) < 4200
    shown = len(head.encode()) + len(tail.partition(" ...]\n")[2].encode())
    assert result.omitted_bytes == result.total_bytes - shown
    # The model runs the hint given in the notice.
    assert result.spool in result.output
    assert str(bench.folder) not in result.spool
    again = await bench.run(f"sed -n 100000p {result.spool}")
    assert again.output == "100000\n"
    assert mode_of(Path(result.spool)) == 0o600
    assert mode_of(bench.spools) == 0o700
    bench.shell.remove_spools()
    assert not bench.spools.exists()


async def test_ou_06_one_long_line_is_bounded_by_bytes(bench: Workbench) -> None:
    result = await bench.run("head -c 2000000 /dev/zero | tr '\\0' x", limits=CommandLimits(kept_bytes=5000))
    assert len(result.output) < 5300
    assert (result.total_bytes, result.omitted_bytes, result.omitted_lines) == (2_000_000, 1_995_000, 0)


async def test_ou_09_late_output_is_waited_for(bench: Workbench) -> None:
    assert (await bench.run("sleep 0.5; echo late")).output == "late\n"


async def test_ou_11_the_listener_gets_the_bytes_with_their_colours(bench: Workbench) -> None:
    pieces: list[bytes] = []
    result = await bench.run("printf '\\033[31mred\\033[0m\\n'", on_output=pieces.append)
    assert b"".join(pieces) == b"\x1b[31mred\x1b[0m\n"
    assert result.output == "red\n"
    assert spooled(result) == b"\x1b[31mred\x1b[0m\n"


async def test_ou_12_error_output_stays_in_the_order_written(bench: Workbench) -> None:
    result = await bench.run("echo before; ls /nope; echo after")
    lines = result.output.splitlines()
    assert (lines[0], lines[2]) == ("before", "after")
    assert "/nope" in lines[1]


async def test_ou_13_template_marks_are_ordinary_text(bench: Workbench) -> None:
    text = "{{ 7*7 }} {% raw %} {# x #} ${y}"
    assert (await bench.run(f"echo '{text}'")).output == text + "\n"


async def test_a_process_substitution_that_writes_late_is_still_read(bench: Workbench) -> None:
    assert (await bench.run("echo x > >(sleep 0.05; sed s/x/y/)")).output == "y\n"


async def test_secrets_are_masked_in_every_place_also_when_they_are_written_in_pieces(bench: Workbench) -> None:
    pieces: list[bytes] = []
    split = f"printf '{SECRET[:9]}'; sleep 0.1; printf '{SECRET[9:]}'; echo; echo {SECRET}"
    result = await bench.run(split, on_output=pieces.append)
    masked = "<masked:DEPLOY_TOKEN>\n<masked:DEPLOY_TOKEN>\n"
    assert result.output == masked
    assert b"".join(pieces).decode() == masked
    assert spooled(result).decode() == masked


async def test_secrets_are_masked_in_the_names_of_leftovers(bench: Workbench) -> None:
    result = await bench.run(f"bash -c 'sleep 30200; : {SECRET}' & sleep 0.1")
    assert any("<masked:DEPLOY_TOKEN>" in name for name in result.leftovers)
    assert not any(SECRET in name for name in result.leftovers)


async def test_the_spool_is_capped_and_says_so(bench: Workbench) -> None:
    limits = CommandLimits(kept_bytes=1000, spool_bytes=50_000)
    result = await bench.run("seq 1 100000", limits=limits)
    assert len(spooled(result)) == 50_000
    assert "the beginning of the output is in" in result.output
    assert result.output.endswith("\n100000\n")


async def test_a_disk_that_cannot_be_written_costs_the_spool_and_nothing_else(bench: Workbench) -> None:
    bench.spools.write_text("a file where the folder should be")
    result = await bench.run("echo x")
    assert (result.exit_code, result.output, result.spool) == (0, "x\n", "")


async def test_a_leftover_writes_on_into_the_spool_and_not_into_the_result(bench: Workbench) -> None:
    pieces: list[bytes] = []
    result = await bench.run("(sleep 0.5; echo later; sleep 30201) & echo now", on_output=pieces.append)
    assert result.output == "now\n"
    clock = Stopwatch()
    while "later" not in spooled(result).decode():
        assert clock.seconds < 5
        await asyncio.sleep(0.05)
    assert b"".join(pieces) == b"now\n"


async def test_pf_07_half_a_gigabyte_costs_little_memory_and_does_not_starve_the_loop(bench: Workbench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lags: list[float] = []

    async def beat() -> None:
        while True:
            clock = Stopwatch()
            await asyncio.sleep(0.01)
            lags.append(clock.seconds - 0.01)

    beating = asyncio.create_task(beat())
    size = int(os.environ.get("HANDRAIL_TEST_FLOOD_BYTES", "100000000"))
    result = await bench.run(f"yes | head -c {size}", timeout=100)
    beating.cancel()
    assert (result.exit_code, result.total_bytes) == (0, size)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert sorted(lags)[len(lags) // 2] < 0.05
