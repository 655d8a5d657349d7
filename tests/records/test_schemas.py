"""The classes of schemas."""

from marshmallow import post_load

from crm.records.schemas import Body


class Hooked(Body):
    @post_load
    def count_fields(self, data, **_):
        return len(data)


class Mixin:
    """A class of no schema, as marshmallow lets schemas have among their bases."""

    @post_load
    def count_fields(self, data, **_):
        return len(data)


class Mixed(Mixin, Body):
    pass


def test_decorated_methods_of_a_class_and_of_its_bases_are_called():
    fields_alone = type("FieldsAlone", (Hooked,), {})
    for schema in (Hooked, fields_alone, Mixed, type("Below", (Mixed,), {})):
        assert schema().load({}) == 0
    assert type("Other", (Body,), {})().load({}) == {}
