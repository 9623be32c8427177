"""Unit tests start no cluster and never wait: what is tested here is pure, and time is an argument."""

import time
from typing import Any, NoReturn

import pytest
import ray


@pytest.fixture(autouse=True)
def _no_ray_no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ray(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(
            f"A unit test called ray.init({args}, {kwargs}). Tests that need Ray belong into tests/executors, which "
            f"runs them on every executor, or into tests/ray."
        )

    def no_sleep(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(
            f"A unit test called time.sleep({args}, {kwargs}). Pass the clock or the delay in, or put the test into "
            f"tests/executors."
        )

    monkeypatch.setattr(ray, "init", no_ray)
    monkeypatch.setattr(time, "sleep", no_sleep)
