"""A hub on this machine: what huggingface_hub asks of it to make a repository and a commit."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Hub:
    """Keeps repositories: name -> {"private": bool, "files": {path: bytes}, "commits": n}.

    Attributes:
        refuses: Status to answer writing with, and what to say; None for none.
        tokens: Authorization headers that were seen.
    """

    def __init__(self) -> None:
        self.repos: dict[str, dict] = {}
        self.refuses: tuple[int, str] | None = None
        self.tokens: set[str] = set()


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments) -> None:
            pass

        def answer(self, status: int, body: object, **headers: str) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def do_GET(self) -> None:
            name = self.path.partition("?")[0].removeprefix("/api/models/").removesuffix("/revision/main")
            if name not in hub.repos:
                self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
                return
            self.answer(200, {"id": name, "private": hub.repos[name]["private"], "sha": "0" * 40, "siblings": []})

        def do_POST(self) -> None:
            hub.tokens.add(self.headers.get("Authorization", ""))
            data = self.body()
            if hub.refuses is not None:
                self.answer(hub.refuses[0], {"error": hub.refuses[1]})
            elif self.path == "/api/repos/create":
                asked = json.loads(data)
                name = "/".join(filter(None, (asked.get("organization") or "me", asked["name"])))
                if name in hub.repos:
                    self.answer(
                        409,
                        {
                            "error": "You already created this model repo",
                            "url": f"http://{self.headers['Host']}/{name}",
                        },
                    )
                    return
                private = asked.get("private", asked.get("visibility") == "private")
                hub.repos[name] = {"private": private, "files": {}, "commits": 0}
                self.answer(200, {"url": f"http://{self.headers['Host']}/{name}", "name": name})
            elif "/preupload/" in self.path:
                files = json.loads(data)["files"]
                kinds = [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                    for file in files
                ]
                self.answer(200, {"files": kinds})
            elif "/commit/" in self.path:
                name = self.path.removeprefix("/api/models/").partition("/commit/")[0]
                repo = hub.repos[name]
                for line in data.splitlines():
                    entry = json.loads(line)
                    if entry["key"] == "file":
                        repo["files"][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
                repo["commits"] += 1
                self.answer(
                    200,
                    {
                        "success": True,
                        "commitOid": "1" * 40,
                        "commitUrl": f"http://{self.headers['Host']}/{name}/commit/1",
                        "hookOutput": "",
                    },
                )
            elif self.path == "/api/validate-yaml":
                self.answer(200, {"errors": [], "warnings": []})
            else:
                self.answer(404, {"error": f"no {self.path}"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
