#!/bin/sh
# apispec describes three rules of marshmallow by schemas that say something else.
#
# Expected: the document says what the schema accepts and returns. apispec translates the validators
# (its documentation, "field2property"), so that a client may check a value by the document.
# What happens, without a warning:
# - ContainsOnly(["card", "cash"]) puts "enum" on the array instead of on its items: by JSON Schema
#   (Validation 2020-12, section 6.1.2) no array at all is valid;
# - Range(0, 100, max_inclusive=False) becomes "maximum": 100, which the schema refuses;
# - Decimal(as_string=True), for amounts that must not become floats, is described as a number, but
#   the answer has a string: a generated client expects a float.
# Version: apispec 6.10.1, marshmallow 4.4.0; validated by jsonschema 4.25.1.
# For a CRM: these parts of the document must be written by hand or tested against the answers.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  apispec==6.10.1 marshmallow==4.4.0 jsonschema==4.25.1
export PYTHONUTF8=1

cat > document.py <<'PY'
from decimal import Decimal

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from jsonschema import Draft202012Validator
from marshmallow import Schema, fields, validate


class DealSchema(Schema):
    payments = fields.List(fields.String(), validate=validate.ContainsOnly(["card", "cash"]))
    discount = fields.Float(validate=validate.Range(0, 100, max_inclusive=False))
    amount = fields.Decimal(places=2, as_string=True)


spec = APISpec("CRM", "1", "3.1.0", plugins=[MarshmallowPlugin()])
spec.components.schema("Deal", schema=DealSchema)
document = spec.to_dict()["components"]["schemas"]["Deal"]
validator = Draft202012Validator(document)


def compare(value):
    accepted = not DealSchema().validate(value)
    print(f"{value}: marshmallow {accepted}, document {validator.is_valid(value)}")


print(document["properties"])
compare({"payments": ["card"]})
compare({"discount": 100})
answer = DealSchema().dump({"amount": Decimal("12.50")})
print(f"answer {answer}: document {validator.is_valid(answer)}")
PY
expected="{'payments': {'type': 'array', 'enum': ['card', 'cash'], 'items': {'type': 'string'}}, \
'discount': {'type': 'number', 'minimum': 0.0, 'maximum': 100.0}, 'amount': {'type': 'number'}}
{'payments': ['card']}: marshmallow True, document False
{'discount': 100}: marshmallow False, document True
answer {'amount': '12.50'}: document False"
seen=$(venv/bin/python document.py 2>&1) || :
echo "apispec 6.10.1 describes a schema of marshmallow 4.4.0"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: apispec writes another document" >&2; exit 1; }
