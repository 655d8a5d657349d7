"""Batches of a tenant: what imports and others changed at once, and its undo."""

from typing import Any

import click

from crm.cli.commands import list_command, subgroup, tenant_command
from crm.resources.batches import undo
from crm.resources.batches.endpoints import BATCH

batch = subgroup("batch", "What imports and others changed at once, and its undo.")


@tenant_command(batch, "list")
@click.option("--limit", default=20, type=click.IntRange(1, 200))
@list_command(
    "id when kind noun state created updated deleted reversed kept note",
    when=lambda row: row["created_at"],
)
def batch_list(limit: int) -> list[Any]:
    """List the latest batches of TENANT, the newest first."""
    return list(BATCH.every("TRUE ORDER BY id DESC LIMIT ?", limit))


@tenant_command(batch, "undo", "id")
@click.option("--dry-run", is_flag=True, help="Count what would be reversed; change nothing.")
def batch_undo(id: str, dry_run: bool) -> str:
    """Undo the batch ID of TENANT: each record that nobody has changed since is as it was before.

    If it is interrupted, run it again or leave it to the service: it goes on. The records that it
    keeps are on stderr.
    """
    undone = undo.undo(id, dry_run)
    kept = undone.listed if dry_run else undo.kept(id)
    for noun, record_id, why in kept:
        click.echo(f"{noun} {record_id}: {why}", err=True)
    return f"reversed {undone.reversed}, kept {undone.kept}"
