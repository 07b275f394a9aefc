"""Proxies and certificates: HTTPS_PROXY, NO_PROXY and caBundle, over TLS on loopback."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_core.dialects import Query
from agent_core.errors import SettingsError
from agent_core.provider import Provider
from agent_core.types import UserMessage
from tests.wire import chat_bodies
from tests.wire.double import Answer, ProviderDouble
from tests.wire.plain_dialect import PlainDialect
from tests.wire.proxy import ConnectProxy


async def ask(provider: Provider, api_base: str, ca_bundle: str) -> str:
    source = provider.source(api_base=api_base, timeout=10, ca_bundle=ca_bundle)
    query = Query("openai/m", "", [UserMessage("hello")])
    return (await source.ask(PlainDialect(), query, stream=False, on_delta=lambda _: None)).text


@pytest.fixture
def hostile_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Go into a workspace that wants to run as us, and see at the end that none of its modules ran."""
    traces = tmp_path / "traces"
    code = f"open({str(traces)!r}, 'a').write(__name__)\n"
    workspace = tmp_path / "workspace"
    (workspace / "agent_core").mkdir(parents=True)
    for name in ("agent_core/__init__", "agent_core/provider_worker", "litellm", "httpx", "sitecustomize", "json"):
        (workspace / f"{name}.py").write_text(code)
    (workspace / ".env").write_text("OPENAI_API_KEY=sk-of-the-workspace\nOPENAI_API_BASE=http://127.0.0.1:9\n")
    monkeypatch.chdir(workspace)
    yield
    assert not traces.exists(), traces.read_text()


@pytest.mark.usefixtures("hostile_workspace")
async def test_proxies_and_certificates_are_honoured(certificate: Path, tls: ssl.SSLContext) -> None:
    """Also, fact F21: nothing of the workspace that we happen to stand in takes part."""
    replies = [Answer(chat_bodies.reply("through")), Answer(chat_bodies.reply("direct"))]
    async with ProviderDouble(replies, tls=tls) as double, ConnectProxy(double.port, tls=tls) as proxy:
        variables = {"HTTPS_PROXY": proxy.url, "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "sk-x"}
        provider = Provider({"PATH": os.environ["PATH"], **variables})
        try:
            assert await ask(provider, "https://provider.test/v1", str(certificate)) == "through"
            assert proxy.asked == ["provider.test:443"]
            assert await ask(provider, f"{double.url}/v1", str(certificate)) == "direct"
            assert proxy.asked == ["provider.test:443"]
            assert {request.headers["authorization"] for request in double.requests} == {"Bearer sk-x"}
        finally:
            await provider.close()


async def test_a_ca_bundle_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        with pytest.raises(SettingsError, match=path.name):
            Provider({}).source(ca_bundle=str(path))
