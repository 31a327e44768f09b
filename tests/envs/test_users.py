"""Users who answer: scripted, and a model on a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from fakes import call, say, script
from seal.envs.functions import Functions, ToolTask
from seal.envs.users import ChatUser, Said, ScriptedUser
from seal.errors import Blame, InfrastructureFailure
from seal.rollout import Episode, rollout


def test_a_scripted_user_answers_each_question_once() -> None:
    user = ScriptedUser({"which day": "monday", "how many": "two"}, opening="book a room")
    assert user((), ()) == "book a room"
    said = [Said("user", "book a room"), Said("agent", "On WHICH day, and how many?")]
    assert user(said, ()) == "monday"
    said += [Said("user", "monday"), Said("agent", "Which day? How many?")]
    assert user(said, ()) == "two"
    assert user([*said, Said("user", "two"), Said("agent", "Which day?")], ()) is None


class Server(HTTPServer):
    """Answers what it is told to, and remembers what it was asked."""

    answers: list[Any]
    asked: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        answer = self.server.answers.pop(0)
        if answer == 500:
            self.send_error(500)
            return
        message = {"role": "assistant", "content": answer}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        data = json.dumps(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("openai")
    made = Server(("127.0.0.1", 0), Handler)
    made.answers, made.asked = [], []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def user_of(server: Server) -> ChatUser:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    return ChatUser("m", "You want two lamps.", url, retries=0, timeout=20)


def test_a_model_plays_the_user(server: Server) -> None:
    server.answers = ["two lamps, please", "Thanks! [DONE]"]

    def put(lamps: int) -> str:
        """Put lamps."""
        return f"{lamps} lamps"

    def right(state: Any, transcript: Any) -> bool:
        return bool(transcript[0]["calls"][0]["arguments"] == {"lamps": 2})

    environment = Functions([put], [ToolTask(id="t", turns=(), user=user_of(server), verify=right)], isolation="none")
    (tau,) = rollout(
        environment, [Episode(environment.task("t"), seed=(3, 1))], script(call("put", lamps=2), say("Here they are."))
    )
    assert tau.verdict.reward == 1.0
    assert [turn.user for turn in tau.turns] == ["two lamps, please"]
    first, second = server.asked
    assert "You want two lamps." in first["messages"][0]["content"]
    # The model is the user, so the roles are the other way round.
    assert [(m["role"], m["content"]) for m in second["messages"][1:]] == [
        ("assistant", "two lamps, please"),
        ("user", "Here they are."),
    ]
    assert first["seed"] == second["seed"] != 0


@pytest.mark.parametrize("answer", [500, ""])
def test_a_server_that_fails_leaves_the_episode_unscored(server: Server, answer: Any) -> None:
    server.answers = [answer]
    with pytest.raises(InfrastructureFailure, match="the simulated user m"):
        user_of(server)((), (1,))
    server.answers = [answer]

    def nothing() -> None:
        """Do nothing."""

    task = ToolTask(id="t", turns=(), user=user_of(server), verify=lambda state, transcript: True)
    environment = Functions([nothing], [task], isolation="none")
    (tau,) = rollout(environment, [Episode(environment.task("t"))], script(say()))
    assert tau.failure is not None
    assert (tau.verdict.reward, tau.failure.blame) == (None, Blame.INFRASTRUCTURE)
