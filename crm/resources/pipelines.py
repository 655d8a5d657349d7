"""Pipelines and their stages (spec: Pipelines and users; D7, D11).

A stage has a type, open, won or lost, which is what rules look at; its name never matters. Exactly
one pipeline is the default.
"""

from typing import Self

from peewee import IntegerField, TextField


from crm.tenancy.records import Record

FIRST_STAGES = (
    ("New", "open", 10),
    ("Qualified", "open", 25),
    ("Proposal", "open", 50),
    ("Negotiation", "open", 75),
    ("Won", "won", 100),
    ("Lost", "lost", 0),
)


class Pipeline(Record):
    """name, is_default, position."""

    noun = "pipeline"

    name = TextField()
    is_default = IntegerField(default=0)
    position = IntegerField()

    @classmethod
    def default(cls) -> Self:
        return cls.first("is_default = 1")

    def stages(self) -> list["Stage"]:
        """In the order of the board."""
        return Stage.every("pipeline_id = ? ORDER BY position, id", self.id)


class Stage(Record):
    """pipeline_id, name, type (open, won or lost), position, probability, color."""

    noun = "stage"

    pipeline_id = IntegerField()
    name = TextField()
    type = TextField()
    position = IntegerField()
    probability = IntegerField(null=True)
    color = TextField(null=True)


def create_first() -> None:
    """The pipeline that a new tenant has; inside a transaction."""
    sales = Pipeline.add({"name": "Sales", "is_default": 1, "position": 1})
    for position, (name, kind, probability) in enumerate(FIRST_STAGES, 1):
        Stage.add(
            {
                "pipeline_id": sales.id,
                "name": name,
                "type": kind,
                "position": position,
                "probability": probability,
            }
        )
