"""The OpenAPI document of this release, and its operations by method and path."""

import json
from pathlib import Path

from crm import create_app
from crm.config import Config
from crm.json import dumps

DOCUMENT = json.loads(dumps(create_app(Config(data=Path("unused")), sends=False).api.document("")))
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in ("get", "post", "put", "patch", "delete")
}
