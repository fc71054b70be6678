"""Shelves over HTTP: versions as ETags, roles, and walls between agencies."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from agency.shelves.interface import ENTRY_BYTES
from tests.support.gateway_requests import Json, assert_problem, create, finished
from tests.support.gateways import Server
from tests.support.scripted_system import calls, say


def entry(agency: str, path: str, shelf: str = "notes") -> str:
    return f"/agency/{agency}/shelf/{shelf}/{path}"


def put(http: httpx.Client, agency: str, path: str, content: bytes = b"x", **headers: str) -> httpx.Response:
    return http.put(entry(agency, path), content=content, headers=headers)


def key(http: httpx.Client, agency: str, role: str) -> str:
    made = http.post(f"/agency/{agency}/keys", json={"name": role, "role": role})
    return str(made.json()["key"])


@pytest.fixture
def raw(gateway: Server) -> Iterator[httpx.Client]:
    """A client whose addresses reach the server as they are written: httpx would resolve `..` itself."""
    where = urlsplit(gateway.url)

    class AsWritten(httpx.BaseTransport):
        def __init__(self) -> None:
            self._inner = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            request.extensions["target"] = request.headers.pop("x-target").encode()
            return self._inner.handle_request(request)

        def close(self) -> None:
            self._inner.close()

    with httpx.Client(transport=AsWritten(), base_url=f"http://{where.netloc}", timeout=30) as client:
        yield client


# Reading, writing, listing.


def test_entries_are_written_read_listed_and_deleted(http: httpx.Client, agency: str) -> None:
    made = put(http, agency, "recipes/r%C3%BCgbr%C3%B6d.md", b"# Bread")
    assert made.status_code == 200
    body = made.json()
    assert (body["shelf"], body["path"], body["size"]) == ("notes", "recipes/rügbröd.md", 7)
    assert made.headers["etag"] == f'"{body["version"]}"'
    found = http.get(entry(agency, "recipes/rügbröd.md"))
    assert (found.text, found.headers["etag"]) == ("# Bread", made.headers["etag"])
    assert found.headers["content-disposition"].startswith("inline")
    assert found.headers["content-security-policy"] == "default-src 'none'; sandbox"
    put(http, agency, "b", b"\xff\0")
    assert http.get(entry(agency, "b")).headers["content-disposition"].startswith("attachment")
    shelf = http.get(f"/agency/{agency}/shelf/notes").json()
    assert ([each["path"] for each in shelf["entries"]], shelf["next"]) == (["b", "recipes/rügbröd.md"], None)
    page = http.get(f"/agency/{agency}/shelf/notes", params={"limit": 1}).json()
    assert page["next"] == "b"
    rest = http.get(f"/agency/{agency}/shelf/notes", params={"after": "b"}).json()
    assert [each["path"] for each in rest["entries"]] == ["recipes/rügbröd.md"]
    some = http.get(f"/agency/{agency}/shelf/notes", params={"prefix": "rec"}).json()
    assert len(some["entries"]) == 1
    shelves = http.get(f"/agency/{agency}/shelf").json()
    assert shelves == {"shelves": [{"name": "notes", "entries": 2, "size": 9}]}
    assert http.delete(entry(agency, "b")).status_code == 204
    for method in ("GET", "DELETE"):
        assert_problem(http.request(method, entry(agency, "b")), 404, "ERR_NOT_FOUND")
    assert http.get(f"/agency/{agency}/shelf/empty").json() == {"entries": [], "next": None}


def test_conditions_are_http_s_own(http: httpx.Client, agency: str) -> None:
    first = put(http, agency, "a", b"1", **{"If-None-Match": "*"}).headers["etag"]
    assert "there should be none" in assert_problem(
        put(http, agency, "a", b"2", **{"If-None-Match": "*"}), 412, "ERR_VERSION"
    )
    second = put(http, agency, "a", b"2", **{"If-Match": first}).headers["etag"]
    assert_problem(put(http, agency, "a", b"3", **{"If-Match": first}), 412, "ERR_VERSION")
    assert_problem(http.delete(entry(agency, "a"), headers={"If-Match": first}), 412, "ERR_VERSION")
    same = http.get(entry(agency, "a"), headers={"If-None-Match": second})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", second)
    assert http.get(entry(agency, "a"), headers={"If-None-Match": first}).content == b"2"
    for wrong in ({"If-Match": "1"}, {"If-Match": "*"}, {"If-Match": '"1", "2"'}, {"If-None-Match": second}):
        assert_problem(put(http, agency, "a", b"3", **wrong), 400, "ERR_INVALID_INPUT")
    assert_problem(put(http, agency, "a", b"3", **{"If-Match": first, "If-None-Match": "*"}), 400, "ERR_INVALID_INPUT")
    assert http.get(entry(agency, "a")).content == b"2"
    assert http.delete(entry(agency, "a"), headers={"If-Match": second}).status_code == 204


def test_a_write_that_is_sent_again_with_its_key_counts_once(http: httpx.Client, agency: str) -> None:
    headers = {"If-None-Match": "*", "Idempotency-Key": "k"}
    first = put(http, agency, "a", b"1", **headers)
    assert put(http, agency, "a", b"1", **headers).json() == first.json()
    assert_problem(put(http, agency, "a", b"2", **headers), 412, "ERR_VERSION")


def test_of_many_writers_with_the_same_version_exactly_one_wins(http: httpx.Client, agency: str) -> None:
    first = put(http, agency, "a", b"0").headers["etag"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: put(http, agency, "a", b"%d" % n, **{"If-Match": first}), range(1, 17)))
    (won,) = [n for n, answer in enumerate(answers, start=1) if answer.status_code == 200]
    for n, answer in enumerate(answers, start=1):
        if n != won:
            assert_problem(answer, 412, "ERR_VERSION")
    assert http.get(entry(agency, "a")).content == b"%d" % won


def test_an_entry_has_a_largest_size_over_http_too(http: httpx.Client, agency: str) -> None:
    assert put(http, agency, "a", bytes(ENTRY_BYTES)).status_code == 200
    assert_problem(put(http, agency, "a", bytes(ENTRY_BYTES + 1)), 413, "ERR_TOO_LARGE")
    assert len(http.get(entry(agency, "a")).content) == ENTRY_BYTES


def test_another_method_is_refused_with_those_that_there_are(http: httpx.Client, agency: str) -> None:
    answer = http.post(entry(agency, "a/b"))
    assert_problem(answer, 405, "ERR_METHOD")
    assert answer.headers["allow"] == "DELETE, GET, PUT"


# Walls.


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../notes/a",
        "..",
        "%2e%2e/a",
        "%2E%2E%2Fa",
        "a/..%2f..%2f..%2fagency.db",
        "a%2F..%2Fb",
        "%2Fetc%2Fpasswd",
        "/a",
        "a//b",
        "a/",
        "a%5C..%5Cb",
        "a%00b",
        "a%0Ab",
        "a%C0%AE%C0%AEb%FF%5C",
        "x" * 600,
    ],
)
def test_a_path_that_is_none_is_refused_however_it_is_encoded(
    raw: httpx.Client, http: httpx.Client, agency: str, path: str
) -> None:
    target = entry(agency, path)
    for method in ("PUT", "GET", "DELETE"):
        answer = raw.request(method, "/", headers={"x-target": target}, content=b"x" if method == "PUT" else None)
        assert answer.status_code in (400, 404), (method, answer.text)
        assert answer.json()["code"] in ("ERR_INVALID_INPUT", "ERR_NOT_FOUND")
    assert http.get(f"/agency/{agency}/shelf").json() == {"shelves": []}


@pytest.mark.parametrize("shelf", ["a.b", "%2e%2e", "a%20b", "x" * 65, "%C3%A4"])
def test_the_name_of_a_shelf_is_checked(raw: httpx.Client, agency: str, shelf: str) -> None:
    for target in (f"/agency/{agency}/shelf/{shelf}", f"/agency/{agency}/shelf/{shelf}/a"):
        answer = raw.get("/", headers={"x-target": target})
        assert_problem(answer, 400, "ERR_INVALID_INPUT")


def test_no_address_of_one_agency_reaches_the_shelves_of_another(
    raw: httpx.Client, gateway: Server, http: httpx.Client, agency: str
) -> None:
    other = str(http.post("/agencies", json={"name": "rival"}).json()["id"])
    put(http, other, "secret", b"the rival's")
    mine = f"Bearer {key(http, agency, 'admin')}"
    with gateway.client(Authorization=mine) as holder:
        for method, path in (("GET", ""), ("GET", "/notes"), ("GET", "/notes/secret"), ("DELETE", "/notes/secret")):
            assert_problem(holder.request(method, f"/agency/{other}/shelf{path}"), 404, "ERR_NOT_FOUND")
        assert_problem(holder.put(entry(other, "secret"), content=b"mine"), 404, "ERR_NOT_FOUND")
    for target in (
        f"/agency/{agency}/shelf/../../{other}/shelf/notes/secret",
        f"/agency/{agency}/shelf/%2e%2e/%2e%2e/{other}/shelf/notes/secret",
        f"/agency/{agency}%2F..%2F{other}/shelf/notes/secret",
        f"/agency/{agency}/shelf/notes/..%2f..%2f..%2f{other}/shelf/notes/secret",
        f"/agency/{agency}/../{other}/shelf/notes/secret",
    ):
        answer = raw.get("/", headers={"x-target": target, "authorization": mine})
        assert answer.status_code in (400, 404), target
        assert b"the rival's" not in answer.content
    assert http.get(entry(other, "secret")).content == b"the rival's"


def test_roles_decide_who_reads_and_who_writes(gateway: Server, http: httpx.Client, agency: str) -> None:
    put(http, agency, "a", b"1")
    with gateway.client(Authorization=f"Bearer {key(http, agency, 'viewer')}") as viewer:
        assert viewer.get(entry(agency, "a")).content == b"1"
        assert viewer.get(f"/agency/{agency}/shelf").status_code == 200
        assert_problem(viewer.put(entry(agency, "a"), content=b"2"), 403, "ERR_FORBIDDEN")
        assert_problem(viewer.delete(entry(agency, "a")), 403, "ERR_FORBIDDEN")
    with gateway.client(Authorization=f"Bearer {key(http, agency, 'operator')}") as operator:
        assert operator.put(entry(agency, "a"), content=b"2").status_code == 200
        assert operator.delete(entry(agency, "a")).status_code == 204


# With threads, and with the agency.


def test_a_tool_in_a_host_and_one_in_a_task_write_to_the_agency_s_shelf(http: httpx.Client, agency: str) -> None:
    other = str(http.post("/agencies", json={"name": "rival"}).json()["id"])
    lines = [calls((name, {"shelf": "notes", "path": name, "text": name})) for name in ("shelve", "shelve_in_a_task")]
    thread = create(http, agency, *lines, say("done"))
    run: Json = finished(http, agency, thread)
    assert run["status"] == "completed", run
    for name in ("shelve", "shelve_in_a_task"):
        assert http.get(entry(agency, name)).text == name
        assert_problem(http.get(entry(other, name)), 404, "ERR_NOT_FOUND")
    assert http.delete(f"/agency/{agency}/agent/{thread}").status_code == 204
    assert http.get(entry(agency, "shelve")).text == "shelve"


def test_shelves_go_with_their_agency(gateway: Server, http: httpx.Client) -> None:
    body = {"name": "bakery", "idempotencyKey": "shelves go"}
    made = str(http.post("/agencies", json=body).json()["id"])
    put(http, made, "a", b"1")
    folder: Path = gateway.settings.data_dir / "agencies" / made
    assert (folder / "shelves").is_dir()
    assert http.delete(f"/agency/{made}").status_code == 204
    assert not folder.exists()
    assert_problem(http.get(entry(made, "a")), 404, "ERR_NOT_FOUND")
    (folder / "shelves").mkdir(parents=True)  # as a write that came late would leave it
    (folder / "shelves" / "shelves.db").write_bytes(b"of the agency that was deleted")
    assert http.post("/agencies", json=body).json()["id"] == made
    assert http.get(f"/agency/{made}/shelf").json() == {"shelves": []}
