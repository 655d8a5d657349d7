"""A server with a small application, for the tests that change its constants."""

import pytest

from tests.server.test_server import starting


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as run:
        yield run
