"""Pipelines and their stages: the records with their rules, and the endpoints.

Deleting stages and pipelines (removal.py) moves deals, which import the records: it is not named
here.
"""

from crm.resources.pipelines.record import (
    FIRST_NAMES,
    PIPELINE,
    STAGE,
    Pipeline,
    Stage,
    create,
    create_first,
    create_stage,
    update,
    update_stage,
)

__all__ = [
    "FIRST_NAMES",
    "PIPELINE",
    "STAGE",
    "Pipeline",
    "Stage",
    "create",
    "create_first",
    "create_stage",
    "update",
    "update_stage",
]
