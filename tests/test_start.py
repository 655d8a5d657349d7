"""What a command does before it imports the program leaves everything as it was."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """\
import re

from crm.start import LazyPattern, import_marshmallow

import_marshmallow()

from marshmallow import ValidationError
from marshmallow.validate import Email

assert isinstance(re.compile("a"), re.Pattern)
# Where this fails, marshmallow compiles no such pattern any more, and crm.start need not delay it.
assert isinstance(Email.DOMAIN_REGEX, LazyPattern)
assert Email()("olena@пошта.example") == "olena@пошта.example"
for address in ("olena@", "olena@-.example"):
    try:
        Email()(address)
    except ValidationError:
        continue
    raise AssertionError(address)
"""


def test_patterns_of_marshmallow_are_compiled_when_they_are_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
