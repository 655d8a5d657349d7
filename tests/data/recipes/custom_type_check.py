"""What follows from the class of the type `percent`; run in the copy."""

import io

from crm.cabinet import languages
from tests.resources.refusals import faults

LEAD = {"name": "Марія", "phone": "+380671234567"}
FIELD = {"resource": "leads", "label": "Share", "type": "percent", "filtered": True}


def test_a_percentage_is_in_the_api_lists_pages_files_and_the_document(api, olena):
    api.create("/fields", **FIELD)
    id = api.create("/leads", **LEAD, custom={"share": "12.5"})
    api.create("/leads", **LEAD | {"phone": "+380671234568"}, custom={"share": 60})
    assert api.read(f"/leads/{id}")["custom"] == {"share": 12.5}
    refused = api.patch(f"/leads/{id}", {"custom": {"share": 101}})
    assert faults(refused) == [("/custom/share", "too_large")]
    for query in ("custom.share=12.5", "custom.share_to=20", "sort=custom.share&limit=1"):
        assert [lead["id"] for lead in api.read(f"/leads?{query}")] == [id]
    assert languages.catalog("uk").gettext("Percentage") == "Відсотки"
    assert 'name="custom.share"' in olena.sees(f"/leads/{id}/edit")
    assert "12,5" in olena.sees(f"/leads/{id}")
    file = io.BytesIO("name,phone,custom.share\nІван,+380671234569,33.3\n".encode())
    assert api.post("/leads/import", data={"file": (file, "a.csv")}).json["created"] == 1
    assert "12.5" in api.get("/leads/export").text
    schema = api.read("/openapi.json")["components"]["schemas"]["LeadCustom"]
    assert schema["properties"]["share"]["maximum"] == 100
