"""What a person may type: only whole words approve."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editors.terminal.answers import Answer, read_answer


@pytest.mark.parametrize("typed", ["y", "Y", "yes", " approve "])
def test_a_deliberate_word_approves(typed: str) -> None:
    assert read_answer(typed) == Answer("approve")


@pytest.mark.parametrize("typed", ["", " ", "\x1b", "yy", "y es", "ye", "ok", "run", "1", "y\ny", "yes please"])
def test_nothing_and_stray_keys_decide_nothing(typed: str) -> None:
    """UX-01."""
    assert read_answer(typed).kind == "unclear"


def test_a_rejection_may_carry_its_reason() -> None:
    """AP-24."""
    assert read_answer("n use make test instead") == Answer("reject", "use make test instead")
    assert read_answer("no") == Answer("reject")
    assert read_answer("stop now").kind == "unclear"


@settings(max_examples=200)
@given(st.text(max_size=8))
def test_no_other_text_approves(typed: str) -> None:
    approved = read_answer(typed).kind == "approve"
    assert approved == (typed.strip().lower() in {"y", "yes", "approve"})
