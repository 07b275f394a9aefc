"""A whole client of Handrail: start a server, give a task, show each command, ask, and show what came of it."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Client:
    def __init__(self, *command: str) -> None:
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.output, self.input, self.ids = self.server.stdin, self.server.stdout, itertools.count(1)
        me = {"protocolVersion": "1.0", "approvals": True}  # "I show every command to a person before it runs."
        self.ask("initialize", processId=os.getpid(), rootUri=None, capabilities={"experimental": {"handrail": me}})
        self.send({"method": "initialized", "params": {}})

    def send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.output.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.output.flush()

    def ask(self, method: str, **params: object) -> Json:
        identity = next(self.ids)
        self.send({"id": identity, "method": method, "params": params})
        while header := self.input.readline():
            self.input.readline()  # the empty line
            message: Json = json.loads(self.input.read(int(header.partition(b":")[2])))
            if message.get("id") == identity and "error" in message:
                raise RuntimeError(message["error"]["message"])  # a sentence for a person
            if message.get("id") == identity and "method" not in message:
                return dict(message["result"])
            if message.get("method") == "handrail/session/didStream" and message["params"]["channel"] == "output":
                print(message["params"]["text"], end="")  # an ornament; all that counts is in the snapshots
        raise EOFError("The server is gone. Start another one and load the session: nothing is lost.")


def turn(client: Client, folder: Path, prompt: str, settings: Json, decide: Callable[[Json], Json]) -> Json:
    snapshot = client.ask("handrail/session/new", cwd=folder.as_uri(), settings=settings)
    session = {"sessionId": snapshot["sessionId"]}
    snapshot = client.ask("handrail/session/step", **session, prompt=prompt, maxSteps=None)
    while True:
        snapshot = client.ask("handrail/session/wait", **session, after=snapshot["revision"])
        if snapshot["state"] != "awaiting_approval":
            return snapshot  # at rest; `stopReason` says why
        calls = [call for call in snapshot["step"]["calls"] if call["callId"] in snapshot["pending"]]
        decisions = [{"callId": call["callId"], "digest": call["digest"], **decide(call)} for call in calls]
        snapshot = client.ask("handrail/session/decide", **session, decisions=decisions)


def ask_person(call: Json) -> Json:
    print(f"\n{call['position']} of {call['count']}, in {call['cwd']}:\n{call['display']}")
    print(*(f"! {warning}" for warning in call.get("warnings", [])), sep="\n")
    answer = input("Type yes to run it, or say why not: ")  # only a clear yes is one
    return {"decision": "approve"} if answer == "yes" else {"decision": "reject", "reason": answer}


if __name__ == "__main__":
    ended = turn(Client("handrail", "serve"), Path.cwd(), " ".join(sys.argv[1:]), {}, ask_person)
    print(ended["step"].get("text", ""), ended.get("error", {}).get("message", ""))
