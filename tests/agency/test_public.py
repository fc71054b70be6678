"""The public surface: what is named in `agency.__all__`, and nothing by accident."""

from __future__ import annotations

import inspect
import subprocess
import sys

import agency


def test_everything_that_agency_names_is_public_and_the_other_way_round() -> None:
    named = {
        name
        for name, value in vars(agency).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert named == set(agency.__all__)
    assert sorted(agency.__all__) == agency.__all__


def test_errors_have_distinct_stable_codes() -> None:
    errors = [value for value in vars(agency).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len({error.code for error in errors}) == len(errors)  # type: ignore[attr-defined]  # all are AgencyErrors
    assert all(error.code.startswith("ERR_") for error in errors)  # type: ignore[attr-defined]  # all are AgencyErrors


def test_the_library_imports_no_server_no_ray_and_no_middleware() -> None:
    program = "import sys, agency; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not {"ray", "fastapi", "uvicorn", "middleware", "openai", "anthropic"} & set(loaded)
