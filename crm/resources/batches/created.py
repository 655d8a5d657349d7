"""Colleagues and stages that an import has created: its undo deletes them if nobody uses them."""

from crm.errors import Conflict
from crm.resources.batches import undo
from crm.resources.pipelines import removal
from crm.resources.pipelines.record import Stage
from crm.resources.trash import RECORDS
from crm.resources.users import User
from crm.storage.session import execute


def _delete_colleague(user: User) -> None:
    """Delete a user who has never been activated. Raises Conflict `user_in_use`."""
    for record in RECORDS.values():
        if "assigned_to" in record._meta.fields:
            if record.first("assigned_to = ?", user.id):
                raise Conflict("this user is responsible for records", "user_in_use")
            execute(
                f"UPDATE {record.noun} SET assigned_to = NULL WHERE assigned_to = ?", (user.id,)
            )
    user.erase()


def _delete_stage(stage: Stage) -> None:
    """Delete a stage; deleted deals move to another one. Raises Conflict `stage_in_use`."""
    removal.delete_stage(stage.pipeline_id, stage.id)


undo.register_created(User, _delete_colleague)
undo.register_created(Stage, _delete_stage)
