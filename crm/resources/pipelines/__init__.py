"""Pipelines and their stages: the records with their rules, and the endpoints.

The endpoints stand above deals, which stand above the records: removing a stage moves its deals.
"""

from crm.resources.pipelines.record import (
    FIRST_NAMES,
    PIPELINE,
    STAGE,
    Pipeline,
    Stage,
    create_first,
)

__all__ = ["FIRST_NAMES", "PIPELINE", "STAGE", "Pipeline", "Stage", "create_first"]
