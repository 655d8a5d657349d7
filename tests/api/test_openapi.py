"""The document and its page (D16): true, complete, and of use to tools that read it."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi import checks

from crm import create_app
from crm.config import Config
from crm.outbox import events
from crm.records.custom.types import TYPES
from crm.resources.papers import company
from crm.spreadsheets.exporter import XLSX
from tests.api_document import DOCUMENT, OPERATIONS
from tests.cases import loop_over
from tests.company_papers import REQUISITES
from tests.conftest import Api, key_for
from tests.installations import config_for, copy_installation
from tests.raw_wsgi import send_request

CI_CASES = 600  # requests that schemathesis makes of the document
CASES = int(os.environ.get("CASES", CI_CASES))
PAGE = "/api/v1/docs"
WITH_FILES = ("leads", "clients", "deals", "products", "tasks")
KNOWN = Registry().with_resource("urn:crm", Resource(DOCUMENT, DRAFT202012))
each_operation = loop_over("operation", OPERATIONS.values())


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """Of a schema of the document, whose references lead into it."""

    def anchored(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                name: f"urn:crm{value}" if name == "$ref" else anchored(value)
                for name, value in node.items()
            }
        return [anchored(value) for value in node] if isinstance(node, list) else node

    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(anchored(schema), registry=KNOWN, format_checker=checker)


def answer_of(reference: dict[str, Any]) -> dict[str, Any]:
    """A response of the document, looked up if it is one of the shared ones."""
    if "$ref" not in reference:
        return reference
    return DOCUMENT["components"]["responses"][reference["$ref"].rpartition("/")[2]]


def places_of(node: Any, name: str, place: str = "#") -> Any:
    """(place, object) of every object in the document that has `name`."""
    if isinstance(node, dict):
        if name in node:
            yield place, node
        node = node.items()
    elif isinstance(node, list):
        node = enumerate(node)
    else:
        return
    for step, inner in node:
        yield from places_of(inner, name, f"{place}/{step}")


# The document


def test_the_document_is_valid_openapi():
    assert DOCUMENT["openapi"].startswith("3.1.")
    by_schema = OpenAPIV31SpecValidator(DOCUMENT).schema_validator
    assert [error.message for error in by_schema.iter_errors(DOCUMENT)] == []


@pytest.mark.deep
def test_the_document_is_valid_openapi_with_all_its_references():
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_operation_of_the_app_is_in_the_document():
    app = create_app(Config(data=Path("unused")), sends=False)
    rules = {
        (method, re.sub(r"<(\w+)>", r"{\1}", rule.rule.removeprefix("/api/v1")))
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if rule.rule.startswith("/api/v1")
        and rule.rule != "/api/v1/mcp"  # another protocol
        and not getattr(app.view_functions[rule.endpoint], "public", False)
    }
    assert rules == {tuple(name.split(" ")) for name in OPERATIONS}


@each_operation
def test_an_operation_says_what_it_is_and_who_may(operation):
    assert operation["summary"].endswith(".")
    assert operation["tags"]
    ((scheme, scopes),) = operation["security"][0].items()
    assert scheme in DOCUMENT["components"]["securitySchemes"]
    assert all(f"`{scope}`" in operation["description"] for scope in scopes)


FILES = ("text/csv", "text/vcard", XLSX, "multipart/form-data", "application/pdf", "*/*")


@each_operation
def test_an_operation_has_a_schema_and_an_example_for_each_answer_and_problem(operation):
    answers = {status: answer_of(answer) for status, answer in operation["responses"].items()}
    assert {"400", "401", "403", "404", "422", "429", "503"} < set(answers)
    assert "default" not in answers  # it would make every answer a documented one
    for status, answer in answers.items():
        assert answer["description"]
        if status in ("204", "304"):
            assert "content" not in answer
        elif status >= "400":
            (content,) = answer["content"].items()
            assert content[0] == "application/problem+json"
            assert content[1]["schema"] == {"$ref": "#/components/schemas/Problem"}
        else:
            assert all("schema" in content for content in answer["content"].values())
            assert {"X-RateLimit-Remaining", "X-RateLimit-Reset"} < set(answer["headers"])

    contents = [answer.get("content", {}) for answer in answers.values()]
    contents.append(operation.get("requestBody", {}).get("content", {}))
    for content in contents:
        for media_type, response in content.items():
            assert "example" in response or media_type in FILES


def test_every_example_fits_its_schema():
    nodes = [node for node in places_of(DOCUMENT, "example") if "schema" in node[1]]
    assert len(nodes) > 100
    wrong = [
        f"{place}{error.json_path}: {error.message}"
        for place, node in nodes
        for error in validator(node["schema"]).iter_errors(node["example"])
    ]
    assert wrong == []


def test_every_example_of_a_field_fits_it():
    schemas = places_of(DOCUMENT["components"]["schemas"], "examples")
    wrong = [
        place
        for place, schema in schemas
        if isinstance(schema["examples"], list)
        for value in schema["examples"]
        if not validator(schema).is_valid(value)
    ]
    assert wrong == []


def test_no_body_and_no_record_has_defaults():
    """openapi-typescript takes a field with one for required; the description has it."""
    assert list(places_of(DOCUMENT["components"]["schemas"], "default")) == []
    lead = DOCUMENT["components"]["schemas"]["LeadIn"]
    assert lead["required"] == ["name"]
    assert lead["properties"]["status"]["description"] == "By default `new`."


def test_only_null_stands_beside_a_type():
    """Of `type: [number, string]` @hey-api takes the last one alone: such values are `anyOf`."""
    for place, node in places_of(DOCUMENT, "type"):
        if isinstance(node["type"], list):
            assert len(node["type"]) == 2 and node["type"][1] == "null", place


def test_a_deleted_record_in_a_list_is_of_the_schema_of_the_others():
    schemas = DOCUMENT["components"]["schemas"]
    for noun in ("Lead", "Client", "Deal", "Product", "Task"):
        items = schemas[f"{noun}Page"]["properties"]["data"]["items"]
        assert items == {"$ref": f"#/components/schemas/Listed{noun}"}
        listed, record = schemas[f"Listed{noun}"], schemas[noun]
        assert listed["required"] == ["id"]
        assert listed["properties"].keys() - record["properties"].keys() == {
            "deleted_at",
            "merged_into",
        }


def test_every_answer_has_one_schema_and_events_a_discriminator():
    """Generated clients take the members of another union for one another."""
    answers = [entry["responses"] for entry in OPERATIONS.values()]
    schemas = DOCUMENT["components"]["schemas"]
    assert [*places_of(answers, "oneOf")] == []
    ((place, event),) = places_of(schemas, "oneOf")
    assert place == "#/Event"
    assert event["discriminator"]["propertyName"] == "type"
    mapping = event["discriminator"]["mapping"]
    assert [*mapping] == [*events.KINDS]
    assert event["oneOf"] == [{"$ref": reference} for reference in mapping.values()]
    assert event["properties"]["data"] == {"$ref": "#/components/schemas/EventData"}
    for reference in mapping.values():
        data = schemas[f"{reference.rpartition('/')[2].removesuffix('Event')}Data"]
        assert data["properties"].items() <= schemas["EventData"]["properties"].items()


def test_every_body_is_required():
    """Generators give a body that is not another place among the arguments."""
    assert all(body["required"] for body in bodies_of(OPERATIONS))


def test_answers_are_open_to_validators_and_exact_to_generators():
    """They may grow (D16); `additionalProperties: true` would make every name a known field."""
    bodies = {node["$ref"] for _, node in places_of(bodies_of(OPERATIONS), "$ref")}
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if f"#/components/schemas/{name}" not in bodies:
            assert name.endswith(("In", "Entry", "Line")) or "additionalProperties" not in schema


def bodies_of(operations: dict[str, Any]) -> list[Any]:
    return [entry["requestBody"] for entry in operations.values() if "requestBody" in entry]


def test_a_delivery_needs_no_key_of_the_api_and_has_a_tag_of_its_own():
    assert [item["post"]["security"] for item in DOCUMENT["webhooks"].values()] == [[]] * 14
    tags = {tag for entry in OPERATIONS.values() for tag in entry["tags"]}
    assert {*DOCUMENT["webhooks"]["deal.won"]["post"]["tags"]} == {"deliveries"} - tags


def test_the_fourteen_kinds_of_events_are_webhooks():
    assert list(DOCUMENT["webhooks"]) == list(events.KINDS)
    assert len(events.KINDS) == 14
    for kind, item in DOCUMENT["webhooks"].items():
        example = item["post"]["requestBody"]["content"]["application/json"]["example"]
        assert example["type"] == kind
        assert list(example["data"]) == list(events.scopes_of_data(kind))
        headers = {parameter["name"] for parameter in item["post"]["parameters"]}
        assert headers == {"webhook-id", "webhook-timestamp", "webhook-signature"}


def test_to_a_key_the_document_names_the_fields_of_its_tenant(crm, api, ivan):
    """To one that may read or write the records: a website form's key is public."""
    path = "/openapi.json"
    assert api.get(path).json == crm_document(crm) == DOCUMENT | {"servers": [{"url": "/api/v1"}]}
    options = [{"key": "oak", "label": "Oak"}, {"key": "ash", "label": "Ash"}]
    for number, type in enumerate(TYPES):
        more = {"options": options} if TYPES[type].has_options else {}
        api.create(
            "/fields", resource="leads", key=type, label=f"Field {number}", type=type, **more
        )
    document = api.get(path).json
    OpenAPIV31SpecValidator(document).validate()
    schemas = document["components"]["schemas"]
    reference = {"$ref": "#/components/schemas/LeadCustom"}
    for name in ("Lead", "ListedLead"):
        assert schemas[name]["properties"]["custom"] == reference
    for name in ("LeadIn", "LeadPatch"):
        assert schemas[name]["properties"]["custom"] == {"$ref": f"{reference['$ref']}Patch"}
    assert schemas["LeadCustom"]["properties"]["choice"] == {
        "title": "Field 6",
        "description": "One of a list. `oak` Oak, `ash` Ash",
        "type": "string",
        "enum": ["oak", "ash"],
    }
    lead = {"name": "А", "phone": "0671234567", "custom": {"choices": ["oak"], "number": 1.5}}
    shown = api.read(f"/leads/{api.create('/leads', **lead)}")["custom"]
    Draft202012Validator(schemas["LeadCustom"]).validate(shown)
    Draft202012Validator(schemas["LeadCustomPatch"]).validate({**shown, "text": None})
    with pytest.raises(ValidationError):
        Draft202012Validator(schemas["LeadCustom"]).validate({"choice": "elm"})
    assert "LeadCustom" not in ivan.get(path).text
    for scopes, knows in (("leads:read", True), ("leads:create", False), ("deals:read", False)):
        other = Api(crm, "acme", key_for(crm, "acme", scopes))
        assert ("LeadCustom" in other.get(path).text) == knows, scopes
    assert "LeadCustom" not in json.dumps(crm_document(crm))
    api.patch("/fields/1", {"label": "Renamed"})
    assert "Renamed" in api.get(path).text
    for other in (Api(crm, "acme", "crm_wrong"), Api(crm, "globex", api.key)):
        assert "LeadCustom" not in other.get(path).text


def crm_document(crm) -> dict[str, Any]:
    """The document as it is without a key."""
    return send_request(crm, path="/api/v1/openapi.json").json


def test_servers_follow_the_mount_point(crm):
    for root in ("", "/crm", "/a/b"):
        answer = send_request(crm, path="/api/v1/openapi.json", SCRIPT_NAME=root)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json["servers"] == [{"url": f"{root}/api/v1"}]


def test_the_server_is_absolute_at_the_public_address_of_a_tenant(tmp_path, furnished):
    """Elsewhere the page of the documentation could not call it; Host is never copied (D18)."""
    data = copy_installation(furnished[0], tmp_path / "data")
    public = "https://{label}.crm.example.ua/sales"
    config = config_for(data, base_domain="crm.example.ua", public_url=public)
    crm = create_app(config, sends=False)

    def server(host: str, root: str) -> str:
        answer = send_request(crm, path="/api/v1/openapi.json", host=host, SCRIPT_NAME=root)
        assert answer.json["externalDocs"]["url"].startswith(answer.json["servers"][0]["url"])
        return answer.json["servers"][0]["url"]

    for label in ("acme", "globex"):
        address = f"https://{label}.crm.example.ua/sales/api/v1"
        assert server(f"{label}.crm.example.ua", "/sales") == address
    assert server("acme.crm.example.ua", "") == "/api/v1"
    assert server("acme.crm.example.ua:8443", "/sales") == "/sales/api/v1"
    crm.tenants.forget_idle()


# The page


def test_the_page_and_all_it_names_come_from_the_same_host(crm):
    for root in ("", "/crm"):
        page = send_request(crm, path=PAGE, SCRIPT_NAME=root)
        assert page.status == 200
        text = page.body.decode()
        named = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert len(named) == 4
        assert "//" not in text
        for path in named:
            assert path.startswith(f"{root}{PAGE}/")
            name, _, query = path.removeprefix(root).partition("?")
            asset = send_request(crm, path=name, query=query, SCRIPT_NAME=root)
            assert asset.status == 200
            assert asset.body
            assert "immutable" in asset.headers["Cache-Control"]
        start = send_request(crm, path=f"{PAGE}/start.js").body.decode()
        assert 'new URL("../openapi.json", document.currentScript.src)' in start


def test_the_page_has_a_strict_policy_and_nothing_inline(crm):
    page = send_request(crm, path=PAGE)
    policy = dict(
        part.strip().partition(" ")[::2]
        for part in page.headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in str(policy)
    text = page.body.decode()
    assert re.findall(r"<script[^>]*>([^<]+)", text) == []
    assert "<style" not in text
    assert " style=" not in text


# Answers as documented, to whatever is sent

TRUE_TO_IT = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> Any:
    """Half of the paths lead to records that there are."""
    return path_parameters and {
        name: "1" if len(str(value)) % 2 else value for name, value in path_parameters.items()
    }


@pytest.fixture(scope="module")
def furnished_api(unlimited_app, furnished, no_typst) -> Api:
    """An app with one record of each noun, and no limit."""
    api = Api(unlimited_app, "acme", furnished[1]["olena"])
    api.create("/leads", name="Марія", phone="+380671234567")
    client = api.create("/clients", name="ТОВ Ромашка", contacts=[{"name": "Олена"}])
    deal = api.create("/deals", client_id=client)
    product = api.create("/products", name="Крісло", price=1250.5)
    api.create(f"/deals/{deal}/items", product_id=product)
    api.create("/tasks", title="Зателефонувати")
    for plural in ("leads", "clients", "deals"):
        api.create(f"/{plural}/1/notes", text="Зателефонувала")
    for plural in WITH_FILES:
        api.call("POST", f"/{plural}/1/files", data={"file": (io.BytesIO(b"1"), "a.txt")})
    with api.crm.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    paper = api.create(f"/deals/{deal}/papers", kind="invoice")
    api.create(f"/papers/{paper}/links")
    webhook = api.create("/webhooks", url="https://erp.example.com/crm")
    assert api.post(f"/webhooks/{webhook}/test").json["delivery_id"] == "1"
    return api


@pytest.fixture
def api_schema(furnished_api, request) -> Any:
    """The document as schemathesis reads it: not before it is needed, as that takes seconds."""
    request.node._nodeid = request.node.nodeid  # schemathesis 4 reads it; pytest 9.2 has none
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.hook(map_path_parameters)
    schema.app = at_acme(furnished_api.crm)
    return schema


def test_the_example_of_each_operation_is_answered_as_documented(furnished_api):
    statuses, wrong = {}, []
    last = ("DELETE", "/restore", "/erase")  # what is deleted is not there for others

    def order(name: str) -> list[Any]:  # parts are deleted before their record
        is_last = [word in name for word in last]
        return [*is_last, -name.count("/") if is_last[0] else 0]

    for name in sorted(OPERATIONS, key=order):
        method, _, path = name.partition(" ")
        sent = OPERATIONS[name].get("requestBody", {}).get("content", {})
        options: dict[str, Any] = {}
        if "application/json" in sent:
            options["json"] = sent["application/json"]["example"]
        elif sent:
            options["data"] = {"file": (io.BytesIO(b"sku,name,price\nA-1,A,1\n"), "a.csv")}
        if "{fileId}" in path:
            number = 1 + WITH_FILES.index(path.split("/")[1])
            path = path.replace("{fileId}", str(number))
        answer = furnished_api.call(method, re.sub(r"{\w+}", "1", path), **options)
        statuses[name] = answer.status_code
        response = answer_of(OPERATIONS[name]["responses"].get(str(answer.status_code), {}))
        if answer.data and not {answer.mimetype, "*/*"} & response.get("content", {}).keys():
            wrong.append(f"{name}: {answer.status_code} {answer.mimetype} is not documented")
        elif answer.data and answer.is_json and answer.mimetype in response["content"]:
            schema = response["content"][answer.mimetype]["schema"]
            wrong += [
                f"{name}: {error.message}" for error in validator(schema).iter_errors(answer.json)
            ]
    assert wrong == []
    assert sum(status < 300 for status in statuses.values()) > 0.75 * len(OPERATIONS), statuses


@pytest.mark.deep
@pytest.mark.slow
# A thread of psycopg's pool draws random numbers beside it.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@schemathesis.pytest.from_fixture("api_schema").parametrize()
@settings(
    max_examples=-(-CASES // len(OPERATIONS)),
    derandomize=CASES == CI_CASES,  # each full run tries others
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case, furnished_api):
    wanted = [*TRUE_TO_IT]
    if must_refuse_the_unfit(case):
        wanted.append(checks.negative_data_rejection)
    headers = {"Authorization": f"Bearer {furnished_api.key}"}
    case.call_and_validate(headers=headers, checks=wanted)


def at_acme(app: Any) -> Any:
    def call(environ: dict[str, Any], start_response: Any) -> Any:
        return app(environ | {"HTTP_HOST": "acme.localhost"}, start_response)

    return call


def must_refuse_the_unfit(case: Any) -> bool:
    """A form loses no lead (D4), the empty string means null in optional fields (D2), no body means
    no fields, and a random value of another type is in a query a text like any other."""
    if case.operation.label == "POST /leads" or has_an_empty_text(case.body):
        return False
    if case.body is schemathesis.core.NOT_SET:
        return False
    body = case.meta.components.get(ParameterLocation.BODY)
    in_body = body is not None and body.mode is schemathesis.GenerationMode.NEGATIVE
    return in_body or case.meta.phase.name is not TestPhase.FUZZING


def has_an_empty_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_an_empty_text, value.values()))
    return any(map(has_an_empty_text, value)) if isinstance(value, list) else value == ""


def test_answers_have_the_same_names_on_every_python():
    """Python 3.13 calls 413 and 422 otherwise than 3.11."""
    names = set(DOCUMENT["components"]["responses"])
    assert {"NOT_FOUND", "REQUEST_ENTITY_TOO_LARGE", "UNPROCESSABLE_ENTITY"} <= names
