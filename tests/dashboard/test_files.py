"""Files over HTTP: what an agent has, what people give it, and that a browser is never made to run any of it."""

from __future__ import annotations

import httpx
import pytest

from tests.support.gateway_requests import Json, assert_problem, create, finished
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def files(http: httpx.Client, agency: str, thread: str) -> list[Json]:
    answer = http.get(f"/agency/{agency}/agent/{thread}/files")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["files"])


def file(http: httpx.Client, agency: str, thread: str, method: str, path: str, body: bytes | None = None) -> Json:
    address = f"/agency/{agency}/agent/{thread}/file"
    return http.request(method, address, params={"path": path}, content=body)


def test_what_the_agent_wrote_and_what_a_person_gave_are_listed_and_read(http: httpx.Client, agency: str) -> None:
    written = calls(("write_file", {"path": "/out/report.md", "content": "# Bröd\n"}))
    thread = create(http, agency, written, say("done"), files={"/order.txt": "seven rolls"})
    finished(http, agency, thread)
    assert file(http, agency, thread, "PUT", "/pixels.png", PNG).json() == {"ok": True}
    assert files(http, agency, thread) == [
        {"path": "/order.txt", "size": 11},
        {"path": "/out/report.md", "size": 8},
        {"path": "/pixels.png", "size": len(PNG)},
    ]
    assert file(http, agency, thread, "GET", "/out/report.md").text == "# Bröd\n"
    assert file(http, agency, thread, "GET", "/pixels.png").content == PNG


def test_a_file_is_replaced_whatever_its_type_and_taken_away(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    for content, media in ((b'{"a": 1}', "application/json"), (b"a=1", "application/x-www-form-urlencoded")):
        answer = http.put(
            f"/agency/{agency}/agent/{thread}/file",
            params={"path": "/a"},
            content=content,
            headers={"Content-Type": media},
        )
        assert answer.status_code == 200
        assert file(http, agency, thread, "GET", "/a").content == content
    assert file(http, agency, thread, "PUT", "/x/../a", b"").status_code == 200
    assert files(http, agency, thread) == [{"path": "/a", "size": 0}]
    assert file(http, agency, thread, "DELETE", "/a").status_code == 204
    assert files(http, agency, thread) == []
    for method in ("GET", "DELETE"):
        assert_problem(file(http, agency, thread, method, "/a"), 404, "ERR_NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "content", "kind", "shown"),
    [
        ("/notes.txt", b"hello", "text/plain; charset=utf-8", "inline"),
        ("/page.html", b"<script>alert(1)</script>", "text/plain; charset=utf-8", "inline"),
        ("/drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text/plain; charset=utf-8", "inline"),
        ("/pixels.html", PNG, "image/png", "inline"),
        ("/photo", b"\xff\xd8\xff\xe0", "image/jpeg", "inline"),
        ("/dance", b"GIF89a\0", "image/gif", "inline"),
        ("/modern", b"RIFF\x04\0\0\0WEBPVP8 ", "image/webp", "inline"),
        ("/fake.png", b"not a picture", "text/plain; charset=utf-8", "inline"),
        ("/paper.pdf", b"%PDF-1.7\xff", "application/octet-stream", "attachment"),
        ("/nul.txt", b"a\0b", "application/octet-stream", "attachment"),
    ],
)
def test_a_browser_is_told_what_it_gets_and_runs_none_of_it(
    http: httpx.Client, agency: str, path: str, content: bytes, kind: str, shown: str
) -> None:
    thread = create(http, agency)
    file(http, agency, thread, "PUT", path, content)
    headers = file(http, agency, thread, "GET", path).headers
    assert headers["content-type"] == kind
    assert headers["content-disposition"] == f"{shown}; filename*=UTF-8''{path[1:]}"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_name_cannot_leave_its_header(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    path = '/a"; Set-Cookie: x=1; ü.txt'
    assert file(http, agency, thread, "PUT", path, b"x").status_code == 200
    answer = file(http, agency, thread, "GET", path)
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-disposition"].endswith("a%22%3B%20Set-Cookie%3A%20x%3D1%3B%20%C3%BC.txt")


WRONG_PATHS = ["folder/", "/folder/", "/..", "..", "/../../etc/x", "/a\\b", "/a\u202eb", "/a\r\nb", "/a\0b", "", "/"]


@pytest.mark.parametrize("path", [*WRONG_PATHS, "/" + "a" * 1_024])
def test_a_path_that_is_none_is_refused(http: httpx.Client, agency: str, path: str) -> None:
    thread = create(http, agency)
    for method in ("GET", "PUT", "DELETE"):
        detail = assert_problem(file(http, agency, thread, method, path, b"x"), 400, "ERR_INVALID_INPUT")
        assert "JSON" not in detail
    assert files(http, agency, thread) == []


def test_what_is_too_large_is_refused(http: httpx.Client, agency: str) -> None:
    thread = create(http, agency)
    assert file(http, agency, thread, "PUT", "/most", bytes(8_000_000)).status_code == 200
    for size in (8_000_001, 17 * 1024 * 1024):
        assert_problem(file(http, agency, thread, "PUT", "/more", bytes(size)), 413, "ERR_TOO_LARGE")
    assert [each["path"] for each in files(http, agency, thread)] == ["/most"]


def test_an_agent_without_a_filesystem_has_no_files_and_takes_none(http: httpx.Client, agency: str) -> None:
    bare = {"name": "bare", "description": "Has nothing.", "prompt": "You are bare.", "tags": ["planning"]}
    assert http.post(f"/agency/{agency}/blueprints", json=bare).status_code in (200, 201)
    thread = create(http, agency, agent="bare")
    assert files(http, agency, thread) == []
    assert_problem(file(http, agency, thread, "GET", "/a"), 404, "ERR_NOT_FOUND")
    assert "no filesystem" in assert_problem(file(http, agency, thread, "PUT", "/a", b"x"), 400, "ERR_INVALID_INPUT")


def test_a_viewer_reads_files_and_an_operator_changes_them(gateway: Server, http: httpx.Client, agency: str) -> None:
    thread = create(http, agency, files={"/a": "one"})

    def key(role: str) -> httpx.Client:
        made = http.post(f"/agency/{agency}/keys", json={"name": role, "role": role}).json()
        return gateway.client(Authorization=f"Bearer {made['key']}")

    with key("viewer") as viewer, key("operator") as operator:
        assert file(viewer, agency, thread, "GET", "/a").text == "one"
        for method in ("PUT", "DELETE"):
            assert_problem(file(viewer, agency, thread, method, "/a", b"two"), 403, "ERR_FORBIDDEN")
        assert file(operator, agency, thread, "PUT", "/a", b"two").status_code == 200
        assert file(viewer, agency, thread, "GET", "/a").text == "two"
        assert file(operator, agency, thread, "DELETE", "/a").status_code == 204


def test_no_such_thread_has_no_files(http: httpx.Client, agency: str) -> None:
    assert_problem(http.get(f"/agency/{agency}/agent/nobody/files"), 404, "ERR_NOT_FOUND")
