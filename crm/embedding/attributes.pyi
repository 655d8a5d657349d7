"""The resources of a CRM with their methods, which `python -m tests.generated` writes.

At run time only ResourceAttributes is there: import a TypedDict under `if TYPE_CHECKING:`.
"""

import builtins
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar, overload

Record = TypeVar("Record")

class Page(Generic[Record]):
    """A page of a list. With `include_deleted` it also has deleted records, which have no fields
    but id, deleted_at and updated_at."""

    records: list[Record]
    next_cursor: str | None
    meta: dict[str, Any]

# Generated from here on.

class Lead(TypedDict):
    id: str
    name: str
    phone: str | None
    email: str | None
    company: str | None
    position: str | None
    source: str | None
    status: Literal["new", "in_progress", "qualified", "unqualified", "converted"]
    assigned_to: str | None
    comment: str | None
    amount: int | Decimal | None
    currency: str
    tags: list[str]
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    utm_content: str | None
    utm_term: str | None
    page_url: str | None
    referrer: str | None
    lost_reason: str | None
    client_id: str | None
    deal_id: str | None
    converted_at: str | None
    created_by: str | None
    custom: dict[str, Any]
    possible_duplicates: NotRequired[list[Duplicate]]
    external_id: str | None
    extra: dict[str, Any]
    created_at: str
    updated_at: str
    version: int

class Duplicate(TypedDict):
    resource: Literal["client", "lead"]
    id: str
    name: str

class Converted(TypedDict):
    status: Literal["ok"]
    lead_id: str
    deal_id: str
    client_id: str

class Imported(TypedDict):
    status: Literal["ok"]
    created: int
    updated: int
    skipped: int
    left_out_columns: NotRequired[list[str]]

class ImportFields(TypedDict):
    """The fields of a resource."""

    data: list[Field]

class Field(TypedDict):
    """A field that a column of a file may be mapped to."""

    field: str
    type: str
    required: str
    aliases: list[str]
    example: str | None

class ImportPreview(TypedDict):
    """How a file would be read; `left_out` lines are no records, such as totals."""

    encoding: str
    delimiter: str
    header_line: int
    columns: list[FileColumn]
    entries: int
    left_out: int
    hidden_rows: int
    formulas: int

class FileColumn(TypedDict):
    """A column of a file, and which field it seems to be."""

    file: str
    field: str | None
    confidence: Literal["sure", "likely", "none"]
    samples: list[str]

class BulkDone(TypedDict):
    status: Literal["ok"]
    count: int
    changed: NotRequired[int]
    batch_id: NotRequired[str]
    refused: int
    refusals: list[Refusal]
    samples: NotRequired[list[dict[str, Any]]]

class Refusal(TypedDict):
    code: str
    count: int
    ids: list[str]

class Client(TypedDict):
    id: str
    type: Literal["company", "person"]
    name: str
    phone: str | None
    email: str | None
    website: str | None
    address: str | None
    tax_number: str | None
    requisites: dict[str, Any]
    tags: list[str]
    assigned_to: str | None
    created_by: str | None
    source: str | None
    comment: str | None
    custom: dict[str, Any]
    contacts: NotRequired[list[Contact]]
    deals_open: int
    won_amounts: list[Money]
    possible_duplicates: NotRequired[list[Duplicate]]
    external_id: str | None
    extra: dict[str, Any]
    created_at: str
    updated_at: str
    version: int

class Contact(TypedDict):
    id: str
    name: str
    position: str | None
    phone: str | None
    email: str | None
    is_primary: bool
    comment: str | None
    created_at: str
    updated_at: str
    version: int

class Money(TypedDict):
    currency: str
    amount: int | Decimal

class ContactEntry(TypedDict):
    """A contact in a client's list: without an id a new one, with an id that one changed."""

    name: NotRequired[str]
    position: NotRequired[str | None]
    phone: NotRequired[str | None]
    email: NotRequired[str | None]
    is_primary: NotRequired[bool]
    comment: NotRequired[str | None]
    id: NotRequired[str | int | None]
    created_at: NotRequired[datetime | str | None]
    updated_at: NotRequired[datetime | str | None]
    version: NotRequired[int | None]

class Deal(TypedDict):
    id: str
    title: str
    client_id: str | None
    client_name: str | None
    contact_id: str | None
    lead_id: str | None
    pipeline_id: str
    stage_id: str
    status: Literal["open", "won", "lost"]
    amount: int | Decimal | None
    amount_mode: Literal["manual", "items"]
    currency: str
    assigned_to: str | None
    created_by: str | None
    manager: Manager | None
    expected_close_date: str | None
    source: str | None
    tags: list[str]
    comment: str | None
    lost_reason: str | None
    custom: dict[str, Any]
    items_count: int
    stage_changed_at: str
    closed_at: str | None
    external_id: str | None
    extra: dict[str, Any]
    created_at: str
    updated_at: str
    version: int

class Manager(TypedDict):
    id: str
    name: str

class StageMove(TypedDict):
    id: str
    from_stage_id: str | None
    from_name: str | None
    to_stage_id: str | None
    to_name: str
    moved_at: str
    user_id: str | None

class DealItem(TypedDict):
    id: str
    product_id: str | None
    sku: str | None
    name: str
    unit: str | None
    quantity: int | Decimal
    price: int | Decimal
    discount: int | Decimal
    discount_type: Literal["percent", "amount"]
    subtotal: int | Decimal
    discount_amount: int | Decimal
    total: int | Decimal
    position: int
    comment: str | None
    created_at: str
    updated_at: str
    version: int

class DealItemIn(TypedDict):
    product_id: NotRequired[str | int | None]
    sku: NotRequired[str | None]
    name: NotRequired[str]
    unit: NotRequired[str | None]
    quantity: NotRequired[float | Decimal | str]
    price: NotRequired[float | Decimal | str]
    discount: NotRequired[float | Decimal | str]
    discount_type: NotRequired[Literal["percent", "amount"]]
    position: NotRequired[int]
    comment: NotRequired[str | None]

class DealItemLine(TypedDict):
    """A line of a deal's whole composition: one there is, by its id, or a new one."""

    product_id: NotRequired[str | int | None]
    sku: NotRequired[str | None]
    name: NotRequired[str]
    unit: NotRequired[str | None]
    quantity: NotRequired[float | Decimal | str]
    price: NotRequired[float | Decimal | str]
    discount: NotRequired[float | Decimal | str]
    discount_type: NotRequired[Literal["percent", "amount"]]
    position: NotRequired[int]
    comment: NotRequired[str | None]
    id: NotRequired[str | int | None]
    subtotal: NotRequired[float | Decimal | str | None]
    discount_amount: NotRequired[float | Decimal | str | None]
    total: NotRequired[float | Decimal | str | None]
    created_at: NotRequired[datetime | str | None]
    updated_at: NotRequired[datetime | str | None]
    version: NotRequired[int | None]

class Product(TypedDict):
    id: str
    sku: str | None
    name: str
    price: int | Decimal
    currency: str
    unit: str | None
    category: str | None
    description: str | None
    active: bool
    vat: Literal[20, 14, 7, 0] | None
    picture_id: str | None
    custom: dict[str, Any]
    used_in_deals: bool
    external_id: str | None
    extra: dict[str, Any]
    created_at: str
    updated_at: str
    version: int

class Task(TypedDict):
    id: str
    title: str
    type: Literal["call", "meeting", "email"] | None
    status: Literal["open", "in_progress", "done", "cancelled"]
    priority: Literal["low", "normal", "high"]
    assigned_to: str | None
    created_by: str | None
    due_at: str | None
    remind_at: str | None
    repeat: str | None
    next_task_id: str | None
    custom: dict[str, Any]
    is_overdue: bool
    lead_id: str | None
    client_id: str | None
    deal_id: str | None
    description: str | None
    result: str | None
    duration_seconds: int | None
    completed_at: str | None
    external_id: str | None
    extra: dict[str, Any]
    created_at: str
    updated_at: str
    version: int

class Pipeline(TypedDict):
    id: str
    name: str
    is_default: bool
    position: int
    stages: list[Stage]
    lost_reasons: list[str]
    created_at: str
    updated_at: str
    version: int

class Stage(TypedDict):
    id: str
    pipeline_id: str
    name: str
    type: Literal["open", "won", "lost"]
    position: int
    probability: int | None
    color: str | None
    task_title: str | None
    task_type: Literal["call", "meeting", "email"] | None
    task_within_days: int | None
    created_at: str
    updated_at: str
    version: int

class StageIn(TypedDict):
    name: str
    type: NotRequired[Literal["open", "won", "lost"]]
    position: NotRequired[int]
    probability: NotRequired[int | None]
    color: NotRequired[str | None]
    task_title: NotRequired[str | None]
    task_type: NotRequired[Literal["call", "meeting", "email"] | None]
    task_within_days: NotRequired[int | None]

class CustomFieldRecord(TypedDict):
    id: str
    resource: Literal["leads", "clients", "deals", "products", "tasks"]
    key: str | None
    label: str
    help: str | None
    type: Literal[
        "text",
        "long_text",
        "number",
        "money",
        "date",
        "flag",
        "choice",
        "choices",
        "url",
        "user",
        "client",
    ]
    options: list[dict[str, Any]]
    filtered: bool
    searched: bool
    in_form: bool
    in_list: bool
    in_card: bool
    required_in_workspace: bool
    position: int
    retired_at: str | None
    created_at: str
    updated_at: str
    version: int

class FieldDeleted(TypedDict):
    status: Literal["ok"]
    count: int
    batch_id: NotRequired[str | None]

class Adopted(TypedDict):
    status: Literal["ok"]
    count: int
    changed: NotRequired[int]
    batch_id: NotRequired[str]
    refused: int
    refusals: list[Refusal]
    samples: NotRequired[list[dict[str, Any]]]
    unfit: NotRequired[list[dict[str, Any]]]

class User(TypedDict):
    id: str
    name: str
    email: str | None
    phone: str | None
    role: Literal["owner", "manager", "seller", "viewer"]
    active: bool
    created_at: str
    updated_at: str
    version: int

class Import(TypedDict):
    id: str
    noun: str
    file_name: str | None
    encoding: str
    delimiter: str
    rows: int
    hidden_rows: int
    left_out_columns: list[str]
    created: int
    updated: int
    skipped: int
    unchanged: int
    rejected: int
    errors: list[RowError]
    status: Literal["running", "done", "failed", "cancelled"]
    position: int
    total: int
    user_id: str | None
    batch_id: str | None
    created_at: str
    updated_at: str
    version: int

class RowError(TypedDict):
    line: int
    column: str | None
    code: str
    message: str

class ImportCancelled(TypedDict):
    status: Literal["cancelled"]
    batch_id: str

class Batch(TypedDict):
    id: str
    noun: str
    kind: Literal["import", "bulk", "merge", "restore", "field"]
    state: Literal["running", "done", "failed", "cancelled", "undoing", "undone"]
    created: int
    updated: int
    deleted: int
    reversed: int
    kept: int
    note: str | None
    user_id: str | None
    key_id: str | None
    undone_at: str | None
    created_at: str
    updated_at: str
    version: int

class Undone(TypedDict):
    status: Literal["ok"]
    reversed: int
    kept: int

class Proposal(TypedDict):
    id: str
    resource: Literal["leads", "clients", "deals", "products", "tasks"]
    state: Literal["open", "applied", "declined"]
    change: dict[str, Any]
    why: str
    count: int
    refused: int
    user_id: str | None
    key_id: str | None
    decided_by: str | None
    decided_at: str | None
    batch_id: str | None
    created_at: str
    updated_at: str
    version: int

class Proposed(TypedDict):
    status: Literal["ok"]
    proposal_id: str
    count: int
    changed: NotRequired[int]
    batch_id: NotRequired[str]
    refused: int
    refusals: list[Refusal]
    samples: NotRequired[list[dict[str, Any]]]

class Deleted(TypedDict):
    resource: Literal["leads", "clients", "deals", "products", "tasks"]
    id: str
    name: str
    deleted_at: str
    deleted_by: str | None
    merged_into: str | None

class PersonalData(TypedDict):
    clients: list[Client]
    leads: list[Lead]
    deals: list[Deal]
    tasks: list[Task]
    notes: list[Note]
    files: list[File]
    papers: list[Paper]
    changes: list[Change]
    inbound_calls: list[InboundCall]
    events: list[dict[str, Any]]

class Note(TypedDict):
    id: str
    text: str
    user_id: str | None
    pinned: bool
    former_texts: list[FormerText]
    created_at: str
    updated_at: str
    version: int

class FormerText(TypedDict):
    text: str
    user_id: str | None
    at: str

class File(TypedDict):
    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    user_id: str | None
    created_at: str
    updated_at: str
    version: int

class Paper(TypedDict):
    id: str
    deal_id: str
    client_id: str | None
    kind: Literal["offer", "invoice", "act", "delivery_note"]
    language: Literal["uk", "en"]
    number: str
    date: str
    client_name: str | None
    amount: int | Decimal
    vat_amount: int | Decimal | None
    currency: str
    sha256: str | None
    user_id: str | None
    voided_at: str | None
    paid_at: str | None
    paid_amount: int | Decimal | None
    created_at: str
    updated_at: str
    version: int

class Change(TypedDict):
    id: str
    at: str
    user_id: str | None
    key: ChangeKey | None
    tool: str | None
    before: dict[str, Any]
    after: dict[str, Any]

class ChangeKey(TypedDict):
    id: str
    name: str

class InboundCall(TypedDict):
    id: str
    hook_id: str
    state: Literal["done", "failed"]
    sender_id: str | None
    resource: str | None
    record_id: str | None
    reasons: list[InboundCallReason]
    body: str
    created_at: str
    updated_at: str
    version: int

class InboundCallReason(TypedDict):
    field: str
    code: str
    detail: str

class Erased(TypedDict):
    status: Literal["ok"]
    erased: NotRequired[dict[str, Any]]
    mentions: NotRequired[list[dict[str, Any]]]

class DuplicateGroup(TypedDict):
    field: Literal["email", "phone", "tax_number"]
    value: str
    records: list[Duplicate]

class Merged(TypedDict):
    status: Literal["ok"]
    batch_id: NotRequired[str | None]
    moved: NotRequired[dict[str, Any]]

class WholePaper(TypedDict):
    id: str
    deal_id: str
    client_id: str | None
    kind: Literal["offer", "invoice", "act", "delivery_note"]
    language: Literal["uk", "en"]
    number: str
    date: str
    client_name: str | None
    amount: int | Decimal
    vat_amount: int | Decimal | None
    currency: str
    sha256: str | None
    user_id: str | None
    voided_at: str | None
    paid_at: str | None
    paid_amount: int | Decimal | None
    created_at: str
    updated_at: str
    version: int
    snapshot: dict[str, Any]

class PaperLinkCreated(TypedDict):
    status: Literal["ok"]
    link_id: str
    url: NotRequired[str]

class PaperLink(TypedDict):
    id: str
    user_id: str | None
    expires_at: str
    ended_at: str | None
    seen_count: int
    last_seen_at: str | None
    created_at: str
    updated_at: str
    version: int

class SavedView(TypedDict):
    id: str
    resource: Literal["leads", "clients", "deals", "products", "tasks"]
    name: str
    query: dict[str, Any]
    columns: list[str] | None
    shared: bool
    user_id: str
    created_at: str
    updated_at: str
    version: int

class FunnelReport(TypedDict):
    data: list[FunnelRow]
    total: FunnelTotal
    meta: ReportMeta

class FunnelRow(TypedDict):
    stage_id: str | None
    stage: str
    deals: int
    deals_amounts: list[Money]
    value: NotRequired[str | None]
    label: NotRequired[str]
    deals_sum: NotRequired[int | Decimal]

class FunnelTotal(TypedDict):
    deals: int
    deals_amounts: list[Money]
    deals_sum: NotRequired[int | Decimal]

class ReportMeta(TypedDict):
    since: str | None
    until: str | None
    pipeline_id: str | None

class StageTimeReport(TypedDict):
    data: list[StageTimeRow]
    total: StageTimeTotal
    meta: ReportMeta

class StageTimeRow(TypedDict):
    stage_id: str | None
    stage: str
    deals: int
    average_seconds: int | None

class StageTimeTotal(TypedDict):
    deals: int
    average_seconds: int | None

class ForecastReport(TypedDict):
    data: list[ForecastRow]
    total: ForecastTotal
    meta: ReportMeta

class ForecastRow(TypedDict):
    month: str | None
    deals: int
    deals_amounts: list[Money]
    weighted_amounts: list[Money]
    deals_sum: NotRequired[int | Decimal]

class ForecastTotal(TypedDict):
    deals: int
    deals_amounts: list[Money]
    weighted_amounts: list[Money]
    deals_sum: NotRequired[int | Decimal]

class LostReport(TypedDict):
    data: list[LostRow]
    total: LostTotal
    meta: ReportMeta

class LostRow(TypedDict):
    reason: str | None
    deals: int
    deals_amounts: list[Money]
    deals_sum: NotRequired[int | Decimal]

class LostTotal(TypedDict):
    deals: int
    deals_amounts: list[Money]
    deals_sum: NotRequired[int | Decimal]

class SourcesReport(TypedDict):
    data: list[SourcesRow]
    total: SourcesTotal
    meta: ReportMeta

class SourcesRow(TypedDict):
    source: str | None
    leads: int
    converted: int
    won: int
    won_amounts: list[Money]
    value: NotRequired[str | None]
    label: NotRequired[str]
    leads_sum: NotRequired[int | Decimal]
    converted_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]

class SourcesTotal(TypedDict):
    leads: int
    converted: int
    won: int
    won_amounts: list[Money]
    leads_sum: NotRequired[int | Decimal]
    converted_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]

class PeopleReport(TypedDict):
    data: list[PeopleRow]
    total: PeopleTotal
    meta: ReportMeta

class PeopleRow(TypedDict):
    user_id: str | None
    user: str
    leads: int
    deals: int
    deals_amounts: list[Money]
    won: int
    won_amounts: list[Money]
    lost: int
    lost_amounts: list[Money]
    tasks: int
    calls: int
    calls_seconds: int
    value: NotRequired[str | None]
    label: NotRequired[str]
    leads_sum: NotRequired[int | Decimal]
    deals_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]
    lost_sum: NotRequired[int | Decimal]
    tasks_sum: NotRequired[int | Decimal]
    calls_sum: NotRequired[int | Decimal]

class PeopleTotal(TypedDict):
    leads: int
    deals: int
    deals_amounts: list[Money]
    won: int
    won_amounts: list[Money]
    lost: int
    lost_amounts: list[Money]
    tasks: int
    calls: int
    calls_seconds: int
    leads_sum: NotRequired[int | Decimal]
    deals_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]
    lost_sum: NotRequired[int | Decimal]
    tasks_sum: NotRequired[int | Decimal]
    calls_sum: NotRequired[int | Decimal]

class ActivityReport(TypedDict):
    data: list[ActivityRow]
    total: ActivityTotal
    meta: ReportMeta

class ActivityRow(TypedDict):
    period: str | None
    leads: int
    deals: int
    deals_amounts: list[Money]
    won: int
    won_amounts: list[Money]
    lost: int
    lost_amounts: list[Money]
    tasks: int
    calls: int
    calls_seconds: int
    meetings: int
    emails: int
    leads_sum: NotRequired[int | Decimal]
    deals_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]
    lost_sum: NotRequired[int | Decimal]
    tasks_sum: NotRequired[int | Decimal]
    calls_sum: NotRequired[int | Decimal]
    meetings_sum: NotRequired[int | Decimal]
    emails_sum: NotRequired[int | Decimal]

class ActivityTotal(TypedDict):
    leads: int
    deals: int
    deals_amounts: list[Money]
    won: int
    won_amounts: list[Money]
    lost: int
    lost_amounts: list[Money]
    tasks: int
    calls: int
    calls_seconds: int
    meetings: int
    emails: int
    leads_sum: NotRequired[int | Decimal]
    deals_sum: NotRequired[int | Decimal]
    won_sum: NotRequired[int | Decimal]
    lost_sum: NotRequired[int | Decimal]
    tasks_sum: NotRequired[int | Decimal]
    calls_sum: NotRequired[int | Decimal]
    meetings_sum: NotRequired[int | Decimal]
    emails_sum: NotRequired[int | Decimal]

class ReceivedReport(TypedDict):
    data: list[ReceivedRow]
    total: ReceivedTotal
    meta: ReportMeta

class ReceivedRow(TypedDict):
    period: str | None
    payments: int
    payments_amounts: list[Money]

class ReceivedTotal(TypedDict):
    payments: int
    payments_amounts: list[Money]

class EventFeed(TypedDict):
    data: list[Event]
    meta: FeedMeta

class LeadCreatedEvent(TypedDict):
    id: str
    type: Literal["lead.created"]
    timestamp: str
    tenant: str
    sequence: int
    data: LeadCreatedData
    previous: dict[str, Any]

class LeadCreatedData(TypedDict):
    lead: ListedLead

class ListedLead(TypedDict):
    id: str
    name: NotRequired[str]
    phone: NotRequired[str | None]
    email: NotRequired[str | None]
    company: NotRequired[str | None]
    position: NotRequired[str | None]
    source: NotRequired[str | None]
    status: NotRequired[Literal["new", "in_progress", "qualified", "unqualified", "converted"]]
    assigned_to: NotRequired[str | None]
    comment: NotRequired[str | None]
    amount: NotRequired[int | Decimal | None]
    currency: NotRequired[str]
    tags: NotRequired[list[str]]
    utm_source: NotRequired[str | None]
    utm_medium: NotRequired[str | None]
    utm_campaign: NotRequired[str | None]
    utm_content: NotRequired[str | None]
    utm_term: NotRequired[str | None]
    page_url: NotRequired[str | None]
    referrer: NotRequired[str | None]
    lost_reason: NotRequired[str | None]
    client_id: NotRequired[str | None]
    deal_id: NotRequired[str | None]
    converted_at: NotRequired[str | None]
    created_by: NotRequired[str | None]
    custom: NotRequired[dict[str, Any]]
    possible_duplicates: NotRequired[list[Duplicate]]
    external_id: NotRequired[str | None]
    extra: NotRequired[dict[str, Any]]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    version: NotRequired[int]
    deleted_at: NotRequired[str]
    merged_into: NotRequired[str]

class LeadConvertedEvent(TypedDict):
    id: str
    type: Literal["lead.converted"]
    timestamp: str
    tenant: str
    sequence: int
    data: LeadConvertedData
    previous: dict[str, Any]

class LeadConvertedData(TypedDict):
    lead: ListedLead
    deal: NotRequired[ListedDeal]
    client: NotRequired[ListedClient]

class ListedDeal(TypedDict):
    id: str
    title: NotRequired[str]
    client_id: NotRequired[str | None]
    client_name: NotRequired[str | None]
    contact_id: NotRequired[str | None]
    lead_id: NotRequired[str | None]
    pipeline_id: NotRequired[str]
    stage_id: NotRequired[str]
    status: NotRequired[Literal["open", "won", "lost"]]
    amount: NotRequired[int | Decimal | None]
    amount_mode: NotRequired[Literal["manual", "items"]]
    currency: NotRequired[str]
    assigned_to: NotRequired[str | None]
    created_by: NotRequired[str | None]
    manager: NotRequired[Manager | None]
    expected_close_date: NotRequired[str | None]
    source: NotRequired[str | None]
    tags: NotRequired[list[str]]
    comment: NotRequired[str | None]
    lost_reason: NotRequired[str | None]
    custom: NotRequired[dict[str, Any]]
    items_count: NotRequired[int]
    stage_changed_at: NotRequired[str]
    closed_at: NotRequired[str | None]
    external_id: NotRequired[str | None]
    extra: NotRequired[dict[str, Any]]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    version: NotRequired[int]
    deleted_at: NotRequired[str]
    merged_into: NotRequired[str]

class ListedClient(TypedDict):
    id: str
    type: NotRequired[Literal["company", "person"]]
    name: NotRequired[str]
    phone: NotRequired[str | None]
    email: NotRequired[str | None]
    website: NotRequired[str | None]
    address: NotRequired[str | None]
    tax_number: NotRequired[str | None]
    requisites: NotRequired[dict[str, Any]]
    tags: NotRequired[list[str]]
    assigned_to: NotRequired[str | None]
    created_by: NotRequired[str | None]
    source: NotRequired[str | None]
    comment: NotRequired[str | None]
    custom: NotRequired[dict[str, Any]]
    contacts: NotRequired[list[Contact]]
    deals_open: NotRequired[int]
    won_amounts: NotRequired[list[Money]]
    possible_duplicates: NotRequired[list[Duplicate]]
    external_id: NotRequired[str | None]
    extra: NotRequired[dict[str, Any]]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    version: NotRequired[int]
    deleted_at: NotRequired[str]
    merged_into: NotRequired[str]

class DealCreatedEvent(TypedDict):
    id: str
    type: Literal["deal.created"]
    timestamp: str
    tenant: str
    sequence: int
    data: DealCreatedData
    previous: dict[str, Any]

class DealCreatedData(TypedDict):
    deal: ListedDeal

class DealStageChangedEvent(TypedDict):
    id: str
    type: Literal["deal.stage_changed"]
    timestamp: str
    tenant: str
    sequence: int
    data: DealStageChangedData
    previous: dict[str, Any]

class DealStageChangedData(TypedDict):
    deal: ListedDeal
    from_stage: NotRequired[Stage]
    to_stage: NotRequired[Stage]

class DealWonEvent(TypedDict):
    id: str
    type: Literal["deal.won"]
    timestamp: str
    tenant: str
    sequence: int
    data: DealWonData
    previous: dict[str, Any]

class DealWonData(TypedDict):
    deal: ListedDeal

class DealLostEvent(TypedDict):
    id: str
    type: Literal["deal.lost"]
    timestamp: str
    tenant: str
    sequence: int
    data: DealLostData
    previous: dict[str, Any]

class DealLostData(TypedDict):
    deal: ListedDeal

class DealItemsChangedEvent(TypedDict):
    id: str
    type: Literal["deal.items_changed"]
    timestamp: str
    tenant: str
    sequence: int
    data: DealItemsChangedData
    previous: dict[str, Any]

class DealItemsChangedData(TypedDict):
    deal: ListedDeal
    items: NotRequired[list[DealItem]]

class ProductCreatedEvent(TypedDict):
    id: str
    type: Literal["product.created"]
    timestamp: str
    tenant: str
    sequence: int
    data: ProductCreatedData
    previous: dict[str, Any]

class ProductCreatedData(TypedDict):
    product: Product

class ProductUpdatedEvent(TypedDict):
    id: str
    type: Literal["product.updated"]
    timestamp: str
    tenant: str
    sequence: int
    data: ProductUpdatedData
    previous: dict[str, Any]

class ProductUpdatedData(TypedDict):
    product: Product

class ProductImportedEvent(TypedDict):
    id: str
    type: Literal["product.imported"]
    timestamp: str
    tenant: str
    sequence: int
    data: ProductImportedData
    previous: dict[str, Any]

ProductImportedData = TypedDict("ProductImportedData", {"import": ImportSummary})

class ImportSummary(TypedDict):
    id: str
    created: int
    updated: int
    skipped: int

class ClientCreatedEvent(TypedDict):
    id: str
    type: Literal["client.created"]
    timestamp: str
    tenant: str
    sequence: int
    data: ClientCreatedData
    previous: dict[str, Any]

class ClientCreatedData(TypedDict):
    client: ListedClient

class ClientUpdatedEvent(TypedDict):
    id: str
    type: Literal["client.updated"]
    timestamp: str
    tenant: str
    sequence: int
    data: ClientUpdatedData
    previous: dict[str, Any]

class ClientUpdatedData(TypedDict):
    client: ListedClient

class TaskCreatedEvent(TypedDict):
    id: str
    type: Literal["task.created"]
    timestamp: str
    tenant: str
    sequence: int
    data: TaskCreatedData
    previous: dict[str, Any]

class TaskCreatedData(TypedDict):
    task: ListedTask

class ListedTask(TypedDict):
    id: str
    title: NotRequired[str]
    type: NotRequired[Literal["call", "meeting", "email"] | None]
    status: NotRequired[Literal["open", "in_progress", "done", "cancelled"]]
    priority: NotRequired[Literal["low", "normal", "high"]]
    assigned_to: NotRequired[str | None]
    created_by: NotRequired[str | None]
    due_at: NotRequired[str | None]
    remind_at: NotRequired[str | None]
    repeat: NotRequired[str | None]
    next_task_id: NotRequired[str | None]
    custom: NotRequired[dict[str, Any]]
    is_overdue: NotRequired[bool]
    lead_id: NotRequired[str | None]
    client_id: NotRequired[str | None]
    deal_id: NotRequired[str | None]
    description: NotRequired[str | None]
    result: NotRequired[str | None]
    duration_seconds: NotRequired[int | None]
    completed_at: NotRequired[str | None]
    external_id: NotRequired[str | None]
    extra: NotRequired[dict[str, Any]]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    version: NotRequired[int]
    deleted_at: NotRequired[str]
    merged_into: NotRequired[str]

class TaskCompletedEvent(TypedDict):
    id: str
    type: Literal["task.completed"]
    timestamp: str
    tenant: str
    sequence: int
    data: TaskCompletedData
    previous: dict[str, Any]

class TaskCompletedData(TypedDict):
    task: ListedTask

class FeedMeta(TypedDict):
    next_after: int

class ExportLinkCreated(TypedDict):
    status: Literal["ok"]
    export_link_id: str
    expires_at: str
    url: NotRequired[str]

class Webhook(TypedDict):
    id: str
    url: str
    events: list[
        Literal[
            "lead.created",
            "lead.converted",
            "deal.created",
            "deal.stage_changed",
            "deal.won",
            "deal.lost",
            "deal.items_changed",
            "product.created",
            "product.updated",
            "product.imported",
            "client.created",
            "client.updated",
            "task.created",
            "task.completed",
        ]
    ]
    description: str | None
    active: bool
    state: Literal["active", "failing", "paused", "disabled", "inactive"]
    failing_since: str | None
    last_success_at: str | None
    last_failure_at: str | None
    notices: list[Notice]
    created_at: str
    updated_at: str
    version: int

class Notice(TypedDict):
    at: str
    code: Literal["paused", "gone"]
    detail: str

class WebhookCreated(Webhook):
    """As it was created."""

    secret: str

class Rotated(TypedDict):
    status: Literal["ok"]
    webhook_id: str
    secret: NotRequired[str]

class Sending(TypedDict):
    status: Literal["ok"]
    delivery_id: str

class Delivery(TypedDict):
    id: str
    webhook_id: str
    event_id: str
    type: Literal[
        "lead.created",
        "lead.converted",
        "deal.created",
        "deal.stage_changed",
        "deal.won",
        "deal.lost",
        "deal.items_changed",
        "product.created",
        "product.updated",
        "product.imported",
        "client.created",
        "client.updated",
        "task.created",
        "task.completed",
        "webhook.test",
    ]
    sequence: int | None
    status: Literal["pending", "delivered", "failed", "held"]
    next_attempt_at: str | None
    attempts: list[Attempt]
    created_at: str
    delivered_at: str | None

class Attempt(TypedDict):
    at: str
    duration_ms: int
    status_code: int | None
    error: str | None
    answer: str | None
    cause: Literal["event", "resend", "recover", "test"]
    user_id: str | None
    key_id: str | None

class Recovery(TypedDict):
    status: Literal["ok"]
    count: int

class InboundHook(TypedDict):
    id: str
    name: str
    target: Literal["lead", "deal", "note", "call", "payment"]
    mapping: dict[str, Any]
    defaults: dict[str, Any]
    id_path: str | None
    known: Literal["skip", "update"]
    signature_header: str | None
    signature_algorithm: Literal["sha256", "sha1", "sha512"]
    takes_files: bool
    active: bool
    url: str | None
    failed_calls: int
    user_id: str
    created_at: str
    updated_at: str
    version: int

class ListedInboundCall(TypedDict):
    id: str
    hook_id: str
    state: Literal["done", "failed"]
    sender_id: str | None
    resource: str | None
    record_id: str | None
    reasons: list[InboundCallReason]
    created_at: str
    updated_at: str
    version: int

class TimelineEntry(TypedDict):
    kind: Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
    id: str
    at: str
    user_id: str | None
    resource: Literal["leads", "clients", "deals", "tasks"]
    record_id: str
    title: str | None
    text: str | None
    type: str | None
    status: str | None
    duration_seconds: int | None
    before: dict[str, Any]
    after: dict[str, Any]

Event = (
    LeadCreatedEvent
    | LeadConvertedEvent
    | DealCreatedEvent
    | DealStageChangedEvent
    | DealWonEvent
    | DealLostEvent
    | DealItemsChangedEvent
    | ProductCreatedEvent
    | ProductUpdatedEvent
    | ProductImportedEvent
    | ClientCreatedEvent
    | ClientUpdatedEvent
    | TaskCreatedEvent
    | TaskCompletedEvent
)

class Leads:
    notes: LeadsNotes
    files: LeadsFiles
    changes: LeadsChanges
    timeline: LeadsTimeline
    def create(
        self,
        *,
        name: str,
        phone: str | None = ...,
        email: str | None = ...,
        company: str | None = ...,
        position: str | None = ...,
        source: str | None = ...,
        status: Literal["new", "in_progress", "qualified", "unqualified", "converted"] = ...,
        assigned_to: str | int | None = ...,
        comment: str | None = ...,
        amount: float | Decimal | str | None = ...,
        currency: str = ...,
        tags: Sequence[str] | None = ...,
        utm_source: str | None = ...,
        utm_medium: str | None = ...,
        utm_campaign: str | None = ...,
        utm_content: str | None = ...,
        utm_term: str | None = ...,
        page_url: str | None = ...,
        referrer: str | None = ...,
        lost_reason: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        created_at: datetime | str | None = ...,
    ) -> Lead:
        """Create a lead from a website form or by hand.

        phone: `phone` or `email` must be present.
        source: By default `api`.
        status: By default `new`.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        """
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        include_deleted: bool | None = ...,
        phone: str | Sequence[str] | None = ...,
        email: str | Sequence[str] | None = ...,
        source: str | Sequence[str] | None = ...,
        status: Literal["new", "in_progress", "qualified", "unqualified", "converted"]
        | Sequence[Literal["new", "in_progress", "qualified", "unqualified", "converted"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "name",
            "-name",
            "amount",
            "-amount",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        source_not: str | Sequence[str] | None = ...,
        has_source: bool | None = ...,
        tag: str | Sequence[str] | None = ...,
        amount_from: float | Decimal | None = ...,
        amount_to: float | Decimal | None = ...,
    ) -> Page[Lead]:
        """List leads, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        include_deleted: With `updated_since`: also what was deleted in the last 30 days, as `{id,
            deleted_at, updated_at}`.
        phone: In any spelling.
        email: In any case.
        source: Where it came from.
        assigned_to: A user's id, `me` or `none`.
        q: Words in name, phone, email, company, comment or external_id. Words of one or two
            letters alone are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        source_not: From none of these sources; leads without one are included.
        has_source: Whether it is known where the lead came from.
        tag: All of these, in any case.
        amount_from: Of at least this amount, in any currency.
        amount_to: Of at most this amount.
        """
    def get(
        self,
        id: int | str,
        /,
        *,
        expand: Literal["possible_duplicates"]
        | Sequence[Literal["possible_duplicates"]]
        | None = ...,
    ) -> Lead:
        """Get one lead.

        expand: Show this part too.
        """
    def update(
        self,
        id: int | str,
        /,
        *,
        name: str = ...,
        phone: str | None = ...,
        email: str | None = ...,
        company: str | None = ...,
        position: str | None = ...,
        source: str | None = ...,
        status: Literal["new", "in_progress", "qualified", "unqualified", "converted"] = ...,
        assigned_to: str | int | None = ...,
        comment: str | None = ...,
        amount: float | Decimal | str | None = ...,
        currency: str = ...,
        tags: Sequence[str] | None = ...,
        utm_source: str | None = ...,
        utm_medium: str | None = ...,
        utm_campaign: str | None = ...,
        utm_content: str | None = ...,
        utm_term: str | None = ...,
        page_url: str | None = ...,
        referrer: str | None = ...,
        lost_reason: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        version: int = ...,
    ) -> Lead:
        """Change the sent fields of a lead; the status converted converts it.

        phone: `phone` or `email` must be present.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a lead."""
    def convert(
        self,
        id: int | str,
        /,
        *,
        client_id: str | int | None = ...,
        deal_id: str | int | None = ...,
        title: str | None = ...,
        pipeline_id: str | int = ...,
        stage_id: str | int = ...,
        amount: float | Decimal | str | None = ...,
        assigned_to: str | int | None = ...,
    ) -> Converted:
        """Convert a lead into a deal of a client; repeated, the answer is 200 with the same ids.

        client_id: By default the client with the same email or phone, or a new one.
        deal_id: An open deal to join, instead of a new one.
        title: By default the client's name.
        pipeline_id: By default the default pipeline.
        stage_id: By default the first open stage.
        amount: By default the lead's.
        assigned_to: By default the lead's, else the key's user.
        """
    def import_csv(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> Imported:
        """Import leads: rows with a known id or external_id change records, others create them.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def import_columns(self) -> ImportFields:
        """List the fields that columns of a file may be."""
    def import_preview(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> ImportPreview:
        """Tell how a file would be read, and what its columns seem to be; nothing is written.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def export_csv(
        self,
        *,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        phone: str | Sequence[str] | None = ...,
        email: str | Sequence[str] | None = ...,
        source: str | Sequence[str] | None = ...,
        status: Literal["new", "in_progress", "qualified", "unqualified", "converted"]
        | Sequence[Literal["new", "in_progress", "qualified", "unqualified", "converted"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "name",
            "-name",
            "amount",
            "-amount",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        source_not: str | Sequence[str] | None = ...,
        has_source: bool | None = ...,
        tag: str | Sequence[str] | None = ...,
        amount_from: float | Decimal | None = ...,
        amount_to: float | Decimal | None = ...,
        dialect: Literal["excel"] | None = ...,
        language: Literal["uk", "en"] | None = ...,
        format: Literal["csv", "vcf", "xlsx"] | None = ...,
        vcard_version: Literal["4.0", "3.0"] | None = ...,
    ) -> bytes:
        """Export leads, with the filters of the list.

        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        phone: In any spelling.
        email: In any case.
        source: Where it came from.
        assigned_to: A user's id, `me` or `none`.
        q: Words in name, phone, email, company, comment or external_id. Words of one or two
            letters alone are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        source_not: From none of these sources; leads without one are included.
        has_source: Whether it is known where the lead came from.
        tag: All of these, in any case.
        amount_from: Of at least this amount, in any currency.
        amount_to: Of at most this amount.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        language: That of people, by default `uk`.
        format: `xlsx`: a workbook for people; `vcf`: vCards.
        vcard_version: Of vCards, by default 4.0; phones and Apple's Contacts read 3.0 alone.
        """
    def bulk(
        self,
        *,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        expect: int | None = ...,
        dry_run: bool | None = ...,
    ) -> BulkDone:
        """Change or delete many leads at once, as one batch.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        expect: How many records match, as a dry run counted them.
        dry_run: `true`: only count, change nothing.
        """
    def restore(self, id: int | str, /) -> Lead:
        """Restore a lead that was deleted in the last 30 days."""
    def erase(self, id: int | str, /, *, dry_run: bool | None = ...) -> Erased:
        """Erase the personal data of a lead for good, without undo: owners only. Invoices, acts and
            delivery notes stay, as the law asks (`kept_papers`).

        dry_run: `true`: only count, change nothing.
        """
    def merge(
        self,
        id: int | str,
        /,
        *,
        from_id: str | int,
        dry_run: bool | None = ...,
        fields: Mapping[str, Any] | None = ...,
    ) -> Merged:
        """Merge another lead into this one; `POST /batches/<id>/undo` takes it back.

        from_id: It is deleted.
        dry_run: Only count what would move.
        fields: Of a field, whose value is kept: `"into"` or `"from"`, or another one as
            `{"value": …}`. By default the own one, else the other's; tags and `extra` of both.
        """

class Clients:
    contacts: ClientsContacts
    notes: ClientsNotes
    files: ClientsFiles
    changes: ClientsChanges
    timeline: ClientsTimeline
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        include_deleted: bool | None = ...,
        type: Literal["company", "person"] | Sequence[Literal["company", "person"]] | None = ...,
        tax_number: str | Sequence[str] | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id", "-id", "name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"
        ]
        | None = ...,
        tag: str | Sequence[str] | None = ...,
        phone: str | Sequence[str] | None = ...,
        email: str | Sequence[str] | None = ...,
        expand: Literal["contacts"] | Sequence[Literal["contacts"]] | None = ...,
    ) -> Page[Client]:
        """List clients, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        include_deleted: With `updated_since`: also what was deleted in the last 30 days, as `{id,
            deleted_at, updated_at}`.
        tax_number: The number of the tax office.
        assigned_to: A user's id, `me` or `none`.
        q: Words in name, phone, email, website, address, tax_number, tags, external_id, or in the
            name, phone or email of a contact. Words of one or two letters alone are looked for in
            the newest 20,000 records.
        sort: One field; `-` in front for descending.
        tag: All of these, in any case.
        phone: The client's or a contact's, in any spelling.
        email: The client's or a contact's, in any case.
        expand: Show this part too.
        """
    def get(
        self,
        id: int | str,
        /,
        *,
        expand: Literal["possible_duplicates"]
        | Sequence[Literal["possible_duplicates"]]
        | None = ...,
    ) -> Client:
        """Get one client with its contacts and tags.

        expand: Show this part too.
        """
    def create(
        self,
        *,
        name: str,
        type: Literal["company", "person"] = ...,
        phone: str | None = ...,
        email: str | None = ...,
        website: str | None = ...,
        address: str | None = ...,
        tax_number: str | None = ...,
        requisites: Mapping[str, Any] | None = ...,
        tags: Sequence[str] | None = ...,
        assigned_to: str | int | None = ...,
        source: str | None = ...,
        comment: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        contacts: Sequence[ContactEntry] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        created_at: datetime | str | None = ...,
    ) -> Client:
        """Create a client, with contacts if there are any.

        type: By default `person`.
        requisites: For papers. A change sends the keys that it changes.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        contacts: In a change: all the contacts there shall be. In lists only with
            `expand=contacts`.
        """
    def update(
        self,
        id: int | str,
        /,
        *,
        type: Literal["company", "person"] = ...,
        name: str = ...,
        phone: str | None = ...,
        email: str | None = ...,
        website: str | None = ...,
        address: str | None = ...,
        tax_number: str | None = ...,
        requisites: Mapping[str, Any] | None = ...,
        tags: Sequence[str] | None = ...,
        assigned_to: str | int | None = ...,
        source: str | None = ...,
        comment: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        contacts: Sequence[ContactEntry] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        version: int = ...,
    ) -> Client:
        """Change the sent fields of a client; `contacts` are all it shall have.

        requisites: For papers. A change sends the keys that it changes.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        contacts: In a change: all the contacts there shall be. In lists only with
            `expand=contacts`.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a client without open deals."""
    def import_csv(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> Imported:
        """Import clients: rows with a known id or external_id change records, others create them.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def import_columns(self) -> ImportFields:
        """List the fields that columns of a file may be."""
    def import_preview(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> ImportPreview:
        """Tell how a file would be read, and what its columns seem to be; nothing is written.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def export_csv(
        self,
        *,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        type: Literal["company", "person"] | Sequence[Literal["company", "person"]] | None = ...,
        tax_number: str | Sequence[str] | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id", "-id", "name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"
        ]
        | None = ...,
        tag: str | Sequence[str] | None = ...,
        phone: str | Sequence[str] | None = ...,
        email: str | Sequence[str] | None = ...,
        dialect: Literal["excel"] | None = ...,
        language: Literal["uk", "en"] | None = ...,
        format: Literal["csv", "vcf", "xlsx"] | None = ...,
        vcard_version: Literal["4.0", "3.0"] | None = ...,
    ) -> bytes:
        """Export clients, with the filters of the list.

        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        tax_number: The number of the tax office.
        assigned_to: A user's id, `me` or `none`.
        q: Words in name, phone, email, website, address, tax_number, tags, external_id, or in the
            name, phone or email of a contact. Words of one or two letters alone are looked for in
            the newest 20,000 records.
        sort: One field; `-` in front for descending.
        tag: All of these, in any case.
        phone: The client's or a contact's, in any spelling.
        email: The client's or a contact's, in any case.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        language: That of people, by default `uk`.
        format: `xlsx`: a workbook for people; `vcf`: vCards.
        vcard_version: Of vCards, by default 4.0; phones and Apple's Contacts read 3.0 alone.
        """
    def bulk(
        self,
        *,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        expect: int | None = ...,
        dry_run: bool | None = ...,
    ) -> BulkDone:
        """Change or delete many clients at once, as one batch.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        expect: How many records match, as a dry run counted them.
        dry_run: `true`: only count, change nothing.
        """
    def restore(self, id: int | str, /) -> Client:
        """Restore a client that was deleted in the last 30 days."""
    def personal_data(self, id: int | str, /) -> PersonalData:
        """Get all that is stored of a client: records, papers, files, events, inbound calls."""
    def erase(self, id: int | str, /, *, dry_run: bool | None = ...) -> Erased:
        """Erase the personal data of a client for good, without undo: owners only. Invoices, acts
            and delivery notes stay, as the law asks (`kept_papers`).

        dry_run: `true`: only count, change nothing.
        """
    def merge(
        self,
        id: int | str,
        /,
        *,
        from_id: str | int,
        dry_run: bool | None = ...,
        fields: Mapping[str, Any] | None = ...,
    ) -> Merged:
        """Merge another client into this one; `POST /batches/<id>/undo` takes it back.

        from_id: It is deleted.
        dry_run: Only count what would move.
        fields: Of a field, whose value is kept: `"into"` or `"from"`, or another one as
            `{"value": …}`. By default the own one, else the other's; tags and `extra` of both.
        """

class ClientsContacts:
    def list(
        self,
        client_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "name", "-name"] | None = ...,
    ) -> Page[Contact]:
        """List the contacts of a client, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        client_id: int | str,
        /,
        *,
        name: str,
        position: str | None = ...,
        phone: str | None = ...,
        email: str | None = ...,
        is_primary: bool = ...,
        comment: str | None = ...,
    ) -> Contact:
        """Add a contact to a client.

        is_primary: At most one contact of a client is; by default the first.
        """
    def get(self, client_id: int | str, id: int | str, /) -> Contact:
        """Get one contact of a client."""
    def update(
        self,
        client_id: int | str,
        id: int | str,
        /,
        *,
        name: str = ...,
        position: str | None = ...,
        phone: str | None = ...,
        email: str | None = ...,
        is_primary: bool = ...,
        comment: str | None = ...,
        version: int = ...,
    ) -> Contact:
        """Change the sent fields of a contact.

        is_primary: At most one contact of a client is; by default the first.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, client_id: int | str, id: int | str, /) -> None:
        """Remove a contact; its deals go on without one."""

class Deals:
    history: DealsHistory
    items: DealsItems
    notes: DealsNotes
    files: DealsFiles
    papers: DealsPapers
    changes: DealsChanges
    timeline: DealsTimeline
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        include_deleted: bool | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        pipeline_id: int | str | Sequence[int | str] | None = ...,
        stage_id: int | str | Sequence[int | str] | None = ...,
        status: Literal["open", "won", "lost"]
        | Sequence[Literal["open", "won", "lost"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "amount",
            "-amount",
            "expected_close_date",
            "-expected_close_date",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        closed_since: datetime | str | None = ...,
        closed_until: datetime | str | None = ...,
        tag: str | Sequence[str] | None = ...,
        amount_from: float | Decimal | None = ...,
        amount_to: float | Decimal | None = ...,
        expected_close_from: date | str | None = ...,
        expected_close_to: date | str | None = ...,
        has_expected_close_date: bool | None = ...,
        has_open_task: bool | None = ...,
        currency: str | Sequence[str] | None = ...,
        source: str | Sequence[str] | None = ...,
        has_source: bool | None = ...,
        lost_reason: str | Sequence[str] | None = ...,
        has_lost_reason: bool | None = ...,
        reached_stage_id: int | str | None = ...,
        left_stage_id: int | str | None = ...,
    ) -> Page[Deal]:
        """List deals, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        include_deleted: With `updated_since`: also what was deleted in the last 30 days, as `{id,
            deleted_at, updated_at}`.
        client_id: Deals of this client.
        assigned_to: A user's id, `me` or `none`.
        q: Words in title, client_name, comment or external_id. Words of one or two letters alone
            are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        closed_since: Won or lost at or after this moment.
        closed_until: Won or lost before this moment; the moment itself is not included.
        tag: All of these, in any case.
        amount_from: Of at least this amount, in any currency.
        amount_to: Of at most this amount.
        expected_close_from: Expected to close on this day or later.
        expected_close_to: Expected to close on this day or earlier.
        has_open_task: `false`: only deals for which nothing is left to do.
        reached_stage_id: Deals that have ever come to this stage of their pipeline, or further.
        left_stage_id: Deals that have ever left this stage.
        """
    def create(
        self,
        *,
        title: str | None = ...,
        client_id: str | int | None = ...,
        contact_id: str | int | None = ...,
        lead_id: str | int | None = ...,
        pipeline_id: str | int = ...,
        stage_id: str | int = ...,
        status: Literal["open", "won", "lost"] = ...,
        amount: float | Decimal | str | None = ...,
        amount_mode: Literal["manual", "items"] = ...,
        currency: str = ...,
        assigned_to: str | int | None = ...,
        manager: str | int | Mapping[str, Any] | None = ...,
        expected_close_date: date | str | None = ...,
        source: str | None = ...,
        tags: Sequence[str] | None = ...,
        comment: str | None = ...,
        lost_reason: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        closed_at: datetime | str | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        created_at: datetime | str | None = ...,
    ) -> Deal:
        """Create a deal; with `lead_id` that lead is converted into it.

        title: By default the client's name.
        contact_id: One of the client's contacts.
        lead_id: The lead that this deal converts.
        pipeline_id: By default the default pipeline.
        stage_id: By default the first open stage.
        status: By default `open`.
        amount_mode: `items`: the amount is the items' total. The first item leads there. By
            default `manual`.
        currency: By default the tenant's.
        assigned_to: By default the key's user.
        manager: The user of `assigned_to`; another name of it when sent.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        closed_at: May be sent with a deal won or lost.
        """
    def get(self, id: int | str, /) -> Deal:
        """Get one deal."""
    def update(
        self,
        id: int | str,
        /,
        *,
        title: str | None = ...,
        client_id: str | int | None = ...,
        contact_id: str | int | None = ...,
        pipeline_id: str | int = ...,
        stage_id: str | int = ...,
        status: Literal["open", "won", "lost"] = ...,
        amount: float | Decimal | str | None = ...,
        amount_mode: Literal["manual", "items"] = ...,
        currency: str = ...,
        assigned_to: str | int | None = ...,
        manager: str | int | Mapping[str, Any] | None = ...,
        expected_close_date: date | str | None = ...,
        source: str | None = ...,
        tags: Sequence[str] | None = ...,
        comment: str | None = ...,
        lost_reason: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        closed_at: datetime | str | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        version: int = ...,
    ) -> Deal:
        """Change the sent fields of a deal: its stage, amount, manager and so on.

        title: By default the client's name.
        contact_id: One of the client's contacts.
        pipeline_id: By default the default pipeline.
        stage_id: By default the first open stage.
        amount_mode: `items`: the amount is the items' total. The first item leads there.
        currency: By default the tenant's.
        assigned_to: By default the key's user.
        manager: The user of `assigned_to`; another name of it when sent.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        closed_at: May be sent with a deal won or lost.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a deal."""
    def import_csv(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> Imported:
        """Import deals: rows with a known id or external_id change records, others create them.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def import_columns(self) -> ImportFields:
        """List the fields that columns of a file may be."""
    def import_preview(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> ImportPreview:
        """Tell how a file would be read, and what its columns seem to be; nothing is written.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def export_csv(
        self,
        *,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        pipeline_id: int | str | Sequence[int | str] | None = ...,
        stage_id: int | str | Sequence[int | str] | None = ...,
        status: Literal["open", "won", "lost"]
        | Sequence[Literal["open", "won", "lost"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "amount",
            "-amount",
            "expected_close_date",
            "-expected_close_date",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        closed_since: datetime | str | None = ...,
        closed_until: datetime | str | None = ...,
        tag: str | Sequence[str] | None = ...,
        amount_from: float | Decimal | None = ...,
        amount_to: float | Decimal | None = ...,
        expected_close_from: date | str | None = ...,
        expected_close_to: date | str | None = ...,
        has_expected_close_date: bool | None = ...,
        has_open_task: bool | None = ...,
        currency: str | Sequence[str] | None = ...,
        source: str | Sequence[str] | None = ...,
        has_source: bool | None = ...,
        lost_reason: str | Sequence[str] | None = ...,
        has_lost_reason: bool | None = ...,
        reached_stage_id: int | str | None = ...,
        left_stage_id: int | str | None = ...,
        dialect: Literal["excel"] | None = ...,
        language: Literal["uk", "en"] | None = ...,
        format: Literal["csv", "xlsx"] | None = ...,
    ) -> bytes:
        """Export deals, with the filters of the list.

        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        client_id: Deals of this client.
        assigned_to: A user's id, `me` or `none`.
        q: Words in title, client_name, comment or external_id. Words of one or two letters alone
            are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        closed_since: Won or lost at or after this moment.
        closed_until: Won or lost before this moment; the moment itself is not included.
        tag: All of these, in any case.
        amount_from: Of at least this amount, in any currency.
        amount_to: Of at most this amount.
        expected_close_from: Expected to close on this day or later.
        expected_close_to: Expected to close on this day or earlier.
        has_open_task: `false`: only deals for which nothing is left to do.
        reached_stage_id: Deals that have ever come to this stage of their pipeline, or further.
        left_stage_id: Deals that have ever left this stage.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        language: That of people, by default `uk`.
        format: `xlsx`: a workbook for people.
        """
    def bulk(
        self,
        *,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        expect: int | None = ...,
        dry_run: bool | None = ...,
    ) -> BulkDone:
        """Change or delete many deals at once, as one batch.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        expect: How many records match, as a dry run counted them.
        dry_run: `true`: only count, change nothing.
        """
    def restore(self, id: int | str, /) -> Deal:
        """Restore a deal that was deleted in the last 30 days."""

class DealsHistory:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[StageMove]:
        """List the moves of a deal from stage to stage, the oldest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class DealsItems:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "position", "-position"] | None = ...,
    ) -> Page[DealItem]:
        """List the items of a deal, in their order.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    @overload
    def create(
        self,
        deal_id: int | str,
        /,
        *,
        product_id: str | int | None = ...,
        sku: str | None = ...,
        name: str = ...,
        unit: str | None = ...,
        quantity: float | Decimal | str = ...,
        price: float | Decimal | str = ...,
        discount: float | Decimal | str = ...,
        discount_type: Literal["percent", "amount"] = ...,
        position: int = ...,
        comment: str | None = ...,
    ) -> DealItem:
        """Add an item to a deal, or several as `items`.

        product_id: None: a free line.
        sku: May name the product.
        quantity: By default `1`.
        price: By default the product's.
        discount: Per cent, or an amount off the line. By default `0`.
        discount_type: By default `percent`.
        position: By default the last.
        """
    @overload
    def create(
        self, deal_id: int | str, /, *, items: Sequence[DealItemIn]
    ) -> builtins.list[DealItem]:
        """Add an item to a deal, or several as `items`.

        product_id: None: a free line.
        sku: May name the product.
        quantity: By default `1`.
        price: By default the product's.
        discount: Per cent, or an amount off the line. By default `0`.
        discount_type: By default `percent`.
        position: By default the last.
        """
    def replace(self, deal_id: int | str, /, *, items: Sequence[DealItemLine]) -> Page[DealItem]:
        """Replace all items of a deal."""
    def get(self, deal_id: int | str, id: int | str, /) -> DealItem:
        """Get one item of a deal."""
    def update(
        self,
        deal_id: int | str,
        id: int | str,
        /,
        *,
        name: str = ...,
        unit: str | None = ...,
        quantity: float | Decimal | str = ...,
        price: float | Decimal | str = ...,
        discount: float | Decimal | str = ...,
        discount_type: Literal["percent", "amount"] = ...,
        position: int = ...,
        comment: str | None = ...,
        version: int = ...,
    ) -> DealItem:
        """Change quantity, discount, price or other fields of an item.

        price: By default the product's.
        discount: Per cent, or an amount off the line.
        position: By default the last.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, deal_id: int | str, id: int | str, /) -> None:
        """Remove an item from a deal."""

class Products:
    files: ProductsFiles
    changes: ProductsChanges
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        include_deleted: bool | None = ...,
        sku: str | Sequence[str] | None = ...,
        category: str | Sequence[str] | None = ...,
        active: bool | None = ...,
        q: str | None = ...,
        sort: Literal["id", "-id", "name", "-name", "updated_at", "-updated_at"] | None = ...,
    ) -> Page[Product]:
        """List products by name.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        include_deleted: With `updated_since`: also what was deleted in the last 30 days, as `{id,
            deleted_at, updated_at}`.
        sku: The key of the price list.
        q: Words in sku, name, category, description or external_id. Words of one or two letters
            alone are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        """
    def get(self, id: int | str, /) -> Product:
        """Get one product."""
    def create(
        self,
        *,
        name: str,
        price: float | Decimal | str,
        sku: str | None = ...,
        currency: str = ...,
        unit: str | None = ...,
        category: str | None = ...,
        description: str | None = ...,
        active: bool = ...,
        vat: Literal[20, 14, 7, 0] | None = ...,
        picture_id: str | int | None = ...,
        custom: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        created_at: datetime | str | None = ...,
    ) -> Product:
        """Create a product.

        sku: The key of the price list.
        currency: By default the tenant's.
        active: By default `true`.
        vat: Per cent of VAT on papers; by default the company's.
        picture_id: The picture of it: one of its files (`POST /products/<id>/files`).
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        """
    def update(
        self,
        id: int | str,
        /,
        *,
        sku: str | None = ...,
        name: str = ...,
        price: float | Decimal | str = ...,
        currency: str = ...,
        unit: str | None = ...,
        category: str | None = ...,
        description: str | None = ...,
        active: bool = ...,
        vat: Literal[20, 14, 7, 0] | None = ...,
        picture_id: str | int | None = ...,
        custom: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        version: int = ...,
    ) -> Product:
        """Change the sent fields of a product.

        sku: The key of the price list.
        currency: By default the tenant's.
        vat: Per cent of VAT on papers; by default the company's.
        picture_id: The picture of it: one of its files (`POST /products/<id>/files`).
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a product; deals that use it keep their items."""
    def import_csv(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> Imported:
        """Import products: rows with a known sku change records, others create them.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def import_columns(self) -> ImportFields:
        """List the fields that columns of a file may be."""
    def import_preview(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> ImportPreview:
        """Tell how a file would be read, and what its columns seem to be; nothing is written.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def export_csv(
        self,
        *,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        sku: str | Sequence[str] | None = ...,
        category: str | Sequence[str] | None = ...,
        active: bool | None = ...,
        q: str | None = ...,
        sort: Literal["id", "-id", "name", "-name", "updated_at", "-updated_at"] | None = ...,
        dialect: Literal["excel"] | None = ...,
        language: Literal["uk", "en"] | None = ...,
        format: Literal["csv", "xlsx"] | None = ...,
    ) -> bytes:
        """Export products, with the filters of the list.

        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        sku: The key of the price list.
        q: Words in sku, name, category, description or external_id. Words of one or two letters
            alone are looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        language: That of people, by default `uk`.
        format: `xlsx`: a workbook for people.
        """
    def bulk(
        self,
        *,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        expect: int | None = ...,
        dry_run: bool | None = ...,
    ) -> BulkDone:
        """Change or delete many products at once, as one batch.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        expect: How many records match, as a dry run counted them.
        dry_run: `true`: only count, change nothing.
        """
    def restore(self, id: int | str, /) -> Product:
        """Restore a product that was deleted in the last 30 days."""

class Tasks:
    files: TasksFiles
    changes: TasksChanges
    timeline: TasksTimeline
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        include_deleted: bool | None = ...,
        type: Literal["call", "meeting", "email"]
        | Sequence[Literal["call", "meeting", "email"]]
        | None = ...,
        status: Literal["open", "in_progress", "done", "cancelled"]
        | Sequence[Literal["open", "in_progress", "done", "cancelled"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        lead_id: int | str | Sequence[int | str] | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        deal_id: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "due_at",
            "-due_at",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        due_since: datetime | str | None = ...,
        due_before: datetime | str | None = ...,
        completed_since: datetime | str | None = ...,
        completed_until: datetime | str | None = ...,
    ) -> Page[Task]:
        """List tasks, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        include_deleted: With `updated_since`: also what was deleted in the last 30 days, as `{id,
            deleted_at, updated_at}`.
        assigned_to: A user's id, `me` or `none`.
        lead_id: Tasks of this lead.
        client_id: Tasks of this client.
        deal_id: Tasks of this deal.
        q: Words in title, description or external_id. Words of one or two letters alone are
            looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        due_since: Due at or after this moment.
        due_before: Due before this moment; the moment itself is not included.
        completed_since: Done at or after this moment.
        completed_until: Done before this moment; the moment itself is not included.
        """
    def create(
        self,
        *,
        title: str,
        type: Literal["call", "meeting", "email"] | None = ...,
        status: Literal["open", "in_progress", "done", "cancelled"] = ...,
        priority: Literal["low", "normal", "high"] = ...,
        assigned_to: str | int | None = ...,
        due_at: datetime | str | None = ...,
        remind_at: datetime | str | None = ...,
        repeat: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        lead_id: str | int | None = ...,
        client_id: str | int | None = ...,
        deal_id: str | int | None = ...,
        description: str | None = ...,
        result: str | None = ...,
        duration_seconds: int | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        created_at: datetime | str | None = ...,
    ) -> Task:
        """Create a task.

        status: By default `open`.
        priority: By default `normal`.
        assigned_to: By default the key's user.
        due_at: A date alone is the end of that day in the company's time zone.
        remind_at: When the responsible user is alerted; a time that is over reminds nobody.
        repeat: A part of iCalendar's RRULE, in the company's time zone: `FREQ=DAILY`, `WEEKLY`
            (`BYDAY`), `MONTHLY` (`BYMONTHDAY`, -1 for the last day) or `YEARLY`; `INTERVAL`;
            `UNTIL` or `COUNT`. The task makes the next one when it is done.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        duration_seconds: How long a call or a meeting took.
        """
    def get(self, id: int | str, /) -> Task:
        """Get one task."""
    def update(
        self,
        id: int | str,
        /,
        *,
        title: str = ...,
        type: Literal["call", "meeting", "email"] | None = ...,
        status: Literal["open", "in_progress", "done", "cancelled"] = ...,
        priority: Literal["low", "normal", "high"] = ...,
        assigned_to: str | int | None = ...,
        due_at: datetime | str | None = ...,
        remind_at: datetime | str | None = ...,
        repeat: str | None = ...,
        custom: Mapping[str, Any] | None = ...,
        lead_id: str | int | None = ...,
        client_id: str | int | None = ...,
        deal_id: str | int | None = ...,
        description: str | None = ...,
        result: str | None = ...,
        duration_seconds: int | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
        version: int = ...,
    ) -> Task:
        """Change the sent fields of a task.

        assigned_to: By default the key's user.
        due_at: A date alone is the end of that day in the company's time zone.
        remind_at: When the responsible user is alerted; a time that is over reminds nobody.
        repeat: A part of iCalendar's RRULE, in the company's time zone: `FREQ=DAILY`, `WEEKLY`
            (`BYDAY`), `MONTHLY` (`BYMONTHDAY`, -1 for the last day) or `YEARLY`; `INTERVAL`;
            `UNTIL` or `COUNT`. The task makes the next one when it is done.
        custom: The tenant's own fields (`GET /fields`) that have a value. A change sends some.
        duration_seconds: How long a call or a meeting took.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a task."""
    def complete(self, id: int | str, /, *, result: str | None = ...) -> Task:
        """Mark a task as done.

        result: What came of it.
        """
    def import_csv(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> Imported:
        """Import tasks: rows with a known id or external_id change records, others create them.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def import_columns(self) -> ImportFields:
        """List the fields that columns of a file may be."""
    def import_preview(
        self,
        *,
        file: bytes | tuple[str, bytes],
        dry_run: bool | None = ...,
        dialect: Literal["excel"] | None = ...,
        mapping: str | None = ...,
        header_line: int | None = ...,
        sheet: str | None = ...,
        hidden_rows: Literal["skip", "read"] | None = ...,
        on_empty: Literal["keep", "clear"] | None = ...,
        key: Literal["external_id", "sku", "phone", "email", "tax_number"] | None = ...,
        known: Literal["update", "skip"] | None = ...,
        date_order: Literal["day", "month"] | None = ...,
        decimal_mark: Literal["comma", "point"] | None = ...,
        unknown_references: Literal["create", "skip"] | None = ...,
        unknown_values: str | None = ...,
    ) -> ImportPreview:
        """Tell how a file would be read, and what its columns seem to be; nothing is written.

        file: The file's bytes, or (name, bytes).
        dry_run: `true`: only count, change nothing.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        mapping: Which field each column of the file is, null to leave it out, or `{"new_field":
            {"key", "label", "type"}}`; without it the file has our columns.
        header_line: The header's line, by default the first; with a mapping it is found.
        sheet: The sheet of a workbook, by default the first one that has content.
        hidden_rows: Whether rows that a workbook hides are left out or read; by default `skip`.
        on_empty: Whether empty cells keep or clear fields; by default `keep`.
        key: The field that finds known records, as far as the resource has it.
        known: What becomes of a record that `key` finds; by default `update`.
        date_order: Which is first in dates such as 03/04/2026, if they do not tell.
        decimal_mark: Whether `1,250` has decimals or thousands, if its column does not tell.
        unknown_references: Whether colleagues, stages, clients and contacts that do not exist are
            created or left out; by default their rows are rejected.
        unknown_values: What becomes of texts that name no colleague, stage, client or choice, by
            column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.
        """
    def export_csv(
        self,
        *,
        ids: int | str | Sequence[int | str] | None = ...,
        external_id: str | Sequence[str] | None = ...,
        created_since: datetime | str | None = ...,
        created_until: datetime | str | None = ...,
        updated_since: datetime | str | None = ...,
        type: Literal["call", "meeting", "email"]
        | Sequence[Literal["call", "meeting", "email"]]
        | None = ...,
        status: Literal["open", "in_progress", "done", "cancelled"]
        | Sequence[Literal["open", "in_progress", "done", "cancelled"]]
        | None = ...,
        assigned_to: int | str | Sequence[int | str] | None = ...,
        lead_id: int | str | Sequence[int | str] | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        deal_id: int | str | Sequence[int | str] | None = ...,
        q: str | None = ...,
        sort: Literal[
            "id",
            "-id",
            "due_at",
            "-due_at",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
        due_since: datetime | str | None = ...,
        due_before: datetime | str | None = ...,
        completed_since: datetime | str | None = ...,
        completed_until: datetime | str | None = ...,
        dialect: Literal["excel"] | None = ...,
        language: Literal["uk", "en"] | None = ...,
        format: Literal["csv", "xlsx"] | None = ...,
    ) -> bytes:
        """Export tasks, with the filters of the list.

        ids: Only these.
        external_id: The id in another system.
        created_since: Created at or after this moment.
        created_until: Created before this moment; the moment itself is not included.
        updated_since: Changed at or after this moment.
        assigned_to: A user's id, `me` or `none`.
        lead_id: Tasks of this lead.
        client_id: Tasks of this client.
        deal_id: Tasks of this deal.
        q: Words in title, description or external_id. Words of one or two letters alone are
            looked for in the newest 20,000 records.
        sort: One field; `-` in front for descending.
        due_since: Due at or after this moment.
        due_before: Due before this moment; the moment itself is not included.
        completed_since: Done at or after this moment.
        completed_until: Done before this moment; the moment itself is not included.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        language: That of people, by default `uk`.
        format: `xlsx`: a workbook for people.
        """
    def bulk(
        self,
        *,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        expect: int | None = ...,
        dry_run: bool | None = ...,
    ) -> BulkDone:
        """Change or delete many tasks at once, as one batch.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        expect: How many records match, as a dry run counted them.
        dry_run: `true`: only count, change nothing.
        """
    def restore(self, id: int | str, /) -> Task:
        """Restore a task that was deleted in the last 30 days."""

class Pipelines:
    stages: PipelinesStages
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "position", "-position"] | None = ...,
    ) -> Page[Pipeline]:
        """List pipelines with their stages.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        *,
        name: str,
        stages: Sequence[StageIn] = ...,
        is_default: bool = ...,
        position: int = ...,
        lost_reasons: Sequence[str] | None = ...,
    ) -> Pipeline:
        """Create a pipeline, with its stages if they are sent.

        stages: In their order. By default those of a new tenant's.
        is_default: Exactly one pipeline is. By default `false`.
        position: From 1, by default the last.
        lost_reasons: Proposed when a deal is lost. A deal's `lost_reason` may be any text.
        """
    def get(self, id: int | str, /) -> Pipeline:
        """Get one pipeline with its stages."""
    def update(
        self,
        id: int | str,
        /,
        *,
        name: str = ...,
        is_default: bool = ...,
        position: int = ...,
        lost_reasons: Sequence[str] | None = ...,
        version: int = ...,
    ) -> Pipeline:
        """Change the sent fields of a pipeline.

        is_default: Exactly one pipeline is.
        position: From 1, by default the last.
        lost_reasons: Proposed when a deal is lost. A deal's `lost_reason` may be any text.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /, *, move_to: str | None = ...) -> None:
        """Delete a pipeline with its stages; its deals move to a stage of another.

        move_to: The stage that takes the deals; needs `deals:write`.
        """

class PipelinesStages:
    def list(
        self,
        pipeline_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "position", "-position"] | None = ...,
    ) -> Page[Stage]:
        """List the stages of one pipeline.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        pipeline_id: int | str,
        /,
        *,
        name: str,
        type: Literal["open", "won", "lost"] = ...,
        position: int = ...,
        probability: int | None = ...,
        color: str | None = ...,
        task_title: str | None = ...,
        task_type: Literal["call", "meeting", "email"] | None = ...,
        task_within_days: int | None = ...,
    ) -> Stage:
        """Add a stage to a pipeline.

        type: By default `open`.
        position: From 1. By default an open stage comes before the won and lost ones, others
            last.
        probability: Percent; that of an open stage without one follows from its position.
        task_title: The task that a deal gets when it comes to the stage for the first time.
        task_within_days: By the end of which day it is due: 0 is the same one. By default 1.
        """
    def get(self, pipeline_id: int | str, id: int | str, /) -> Stage:
        """Get one stage."""
    def update(
        self,
        pipeline_id: int | str,
        id: int | str,
        /,
        *,
        name: str = ...,
        type: Literal["open", "won", "lost"] = ...,
        position: int = ...,
        probability: int | None = ...,
        color: str | None = ...,
        task_title: str | None = ...,
        task_type: Literal["call", "meeting", "email"] | None = ...,
        task_within_days: int | None = ...,
        version: int = ...,
    ) -> Stage:
        """Change the sent fields of a stage.

        position: From 1. By default an open stage comes before the won and lost ones, others
            last.
        probability: Percent; that of an open stage without one follows from its position.
        task_title: The task that a deal gets when it comes to the stage for the first time.
        task_within_days: By the end of which day it is due: 0 is the same one. By default 1.
        version: As it was read: refused when the record has changed since.
        """
    def delete(
        self, pipeline_id: int | str, id: int | str, /, *, move_to: str | None = ...
    ) -> None:
        """Delete a stage; its deals move to another one of the pipeline.

        move_to: The stage that takes the deals; needs `deals:write`.
        """

class Fields:
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        resource: Literal["leads", "clients", "deals", "products", "tasks"]
        | Sequence[Literal["leads", "clients", "deals", "products", "tasks"]]
        | None = ...,
        sort: Literal[
            "id",
            "-id",
            "position",
            "-position",
            "created_at",
            "-created_at",
            "updated_at",
            "-updated_at",
        ]
        | None = ...,
    ) -> Page[CustomFieldRecord]:
        """List fields, in the order of forms; retired ones too.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        *,
        resource: Literal["leads", "clients", "deals", "products", "tasks"],
        label: str,
        type: Literal[
            "text",
            "long_text",
            "number",
            "money",
            "date",
            "flag",
            "choice",
            "choices",
            "url",
            "user",
            "client",
        ],
        key: str | None = ...,
        help: str | None = ...,
        options: Sequence[Mapping[str, Any]] | None = ...,
        filtered: bool = ...,
        searched: bool = ...,
        in_form: bool = ...,
        in_list: bool = ...,
        in_card: bool = ...,
        required_in_workspace: bool = ...,
        position: int = ...,
    ) -> CustomFieldRecord:
        """Add a field to the records of a resource.

        key: By default made from the label.
        filtered: Whether lists are filtered by it: at most 10 of a resource. By default `false`.
        searched: By default `false`.
        in_form: By default `true`.
        in_list: By default `false`.
        in_card: By default `true`.
        required_in_workspace: People must fill it in; programs need not. By default `false`.
        position: From 1, by default the last.
        """
    def get(self, id: int | str, /) -> CustomFieldRecord:
        """Get one field."""
    def update(
        self,
        id: int | str,
        /,
        *,
        label: str = ...,
        help: str | None = ...,
        options: Sequence[Mapping[str, Any]] | None = ...,
        filtered: bool = ...,
        searched: bool = ...,
        in_form: bool = ...,
        in_list: bool = ...,
        in_card: bool = ...,
        required_in_workspace: bool = ...,
        position: int = ...,
        version: int = ...,
    ) -> CustomFieldRecord:
        """Change the sent attributes of a field; its resource, key and type never change.

        filtered: Whether lists are filtered by it: at most 10 of a resource.
        required_in_workspace: People must fill it in; programs need not.
        position: From 1, by default the last.
        version: As it was read: refused when the record has changed since.
        """
    def retire(self, id: int | str, /) -> CustomFieldRecord:
        """Hide a field: its values stay stored, and `restore` shows them again."""
    def restore(self, id: int | str, /) -> CustomFieldRecord:
        """Show a retired field and its values again."""
    def delete(self, id: int | str, /, *, dry_run: bool | None = ...) -> FieldDeleted:
        """Delete a retired field; `count` records have a value.

        dry_run: `true`: only count, change nothing.
        """
    def adopt(self, id: int | str, /, *, from_extra: str, dry_run: bool | None = ...) -> Adopted:
        """Move the values of a key of `extra` that fit into a field; the others stay there.

        from_extra: A key of `extra`; `custom.<key>` of what did not fit a field when it came.
        dry_run: Only find out what would be moved.
        """

class Users:
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        role: Literal["owner", "manager", "seller", "viewer"]
        | Sequence[Literal["owner", "manager", "seller", "viewer"]]
        | None = ...,
        active: bool | None = ...,
        sort: Literal["id", "-id", "name", "-name", "created_at", "-created_at"] | None = ...,
    ) -> Page[User]:
        """List the users of the tenant.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        active: `false`: only who was deactivated.
        sort: One field; `-` in front for descending.
        """

class Imports:
    def get(self, id: int | str, /) -> Import:
        """Get what an import did: its counts and its first 1000 errors."""
    def errors_csv(self, id: int | str, /) -> bytes:
        """Get the rejected rows of an import for repair; kept for 30 days."""
    def cancel(self, id: int | str, /) -> ImportCancelled:
        """End an import that runs: what it has done stays, until its batch is undone."""

class Batches:
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        kind: Literal["import", "bulk", "merge", "restore", "field"]
        | Sequence[Literal["import", "bulk", "merge", "restore", "field"]]
        | None = ...,
        sort: Literal["id", "-id"] | None = ...,
        resource: Literal["leads", "clients", "deals", "products", "tasks"]
        | Sequence[Literal["leads", "clients", "deals", "products", "tasks"]]
        | None = ...,
    ) -> Page[Batch]:
        """List the batches, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        resource: Such as `leads`.
        """
    def get(self, id: int | str, /) -> Batch:
        """Get one batch: what it changed, and what its undo kept."""
    def undo(self, id: int | str, /, *, dry_run: bool | None = ...) -> Undone:
        """Undo a batch: every record that nobody has changed since is as it was before.

        dry_run: `true`: only count, change nothing.
        """
    def kept_csv(self, id: int | str, /) -> bytes:
        """Get the records that the undo of a batch kept, each with the reason; for 30 days."""

class Proposals:
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        resource: Literal["leads", "clients", "deals", "products", "tasks"]
        | Sequence[Literal["leads", "clients", "deals", "products", "tasks"]]
        | None = ...,
        state: Literal["open", "applied", "declined"]
        | Sequence[Literal["open", "applied", "declined"]]
        | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Proposal]:
        """List the proposals, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        *,
        resource: Literal["leads", "clients", "deals", "products", "tasks"],
        why: str,
        ids: Sequence[str | int] | None = ...,
        where: Mapping[str, Any] | None = ...,
        set: Mapping[str, Any] | None = ...,
        action: Literal["delete", "add_tag", "remove_tag"] | None = ...,
        tag: str | None = ...,
        apply: bool = ...,
    ) -> Proposed:
        """Propose a change of several records, which a person accepts or declines in the workspace.

        where: Parameters of the list; `{}` for all records.
        set: Fields, as PATCH takes them.
        tag: Of add_tag and remove_tag.
        apply: Do it at once: at most 20 records, not to delete them, by a key with
            `agents:apply`. By default `false`.
        """
    def get(self, id: int | str, /) -> Proposal:
        """Get one proposal."""

class Trash:
    def list(
        self,
        *,
        resource: Literal["leads", "clients", "deals", "products", "tasks"]
        | Sequence[Literal["leads", "clients", "deals", "products", "tasks"]]
        | None = ...,
        since: datetime | str | None = ...,
        by: int | str | Sequence[int | str] | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[Deleted]:
        """List what was deleted in the last 30 days, the last deleted first.

        resource: Only of these.
        since: Deleted at or after this moment.
        by: Deleted by this user, or by `me`.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class Duplicates:
    def list(
        self,
        *,
        resource: Literal["clients", "leads"] | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[DuplicateGroup]:
        """List groups of clients, or of leads, with the same phone, e-mail or tax number.

        resource: By default clients, to a key that may read them.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class LeadsNotes:
    def list(
        self,
        lead_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[Note]:
        """List the notes of a lead, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        lead_id: int | str,
        /,
        *,
        text: str,
        pinned: bool = ...,
        created_at: datetime | str | None = ...,
    ) -> Note:
        """Write a note to a lead.

        pinned: Shown above the history of the record. By default `false`.
        """
    def get(self, lead_id: int | str, id: int | str, /) -> Note:
        """Get one note of a lead."""
    def update(
        self,
        lead_id: int | str,
        id: int | str,
        /,
        *,
        text: str = ...,
        pinned: bool = ...,
        version: int = ...,
    ) -> Note:
        """Change or pin a note of a lead.

        pinned: Shown above the history of the record.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, lead_id: int | str, id: int | str, /) -> None:
        """Delete a note of a lead."""

class ClientsNotes:
    def list(
        self,
        client_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[Note]:
        """List the notes of a client, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        client_id: int | str,
        /,
        *,
        text: str,
        pinned: bool = ...,
        created_at: datetime | str | None = ...,
    ) -> Note:
        """Write a note to a client.

        pinned: Shown above the history of the record. By default `false`.
        """
    def get(self, client_id: int | str, id: int | str, /) -> Note:
        """Get one note of a client."""
    def update(
        self,
        client_id: int | str,
        id: int | str,
        /,
        *,
        text: str = ...,
        pinned: bool = ...,
        version: int = ...,
    ) -> Note:
        """Change or pin a note of a client.

        pinned: Shown above the history of the record.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, client_id: int | str, id: int | str, /) -> None:
        """Delete a note of a client."""

class DealsNotes:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[Note]:
        """List the notes of a deal, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        deal_id: int | str,
        /,
        *,
        text: str,
        pinned: bool = ...,
        created_at: datetime | str | None = ...,
    ) -> Note:
        """Write a note to a deal.

        pinned: Shown above the history of the record. By default `false`.
        """
    def get(self, deal_id: int | str, id: int | str, /) -> Note:
        """Get one note of a deal."""
    def update(
        self,
        deal_id: int | str,
        id: int | str,
        /,
        *,
        text: str = ...,
        pinned: bool = ...,
        version: int = ...,
    ) -> Note:
        """Change or pin a note of a deal.

        pinned: Shown above the history of the record.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, deal_id: int | str, id: int | str, /) -> None:
        """Delete a note of a deal."""

class LeadsFiles:
    def list(
        self,
        lead_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[File]:
        """List the files of a lead, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(self, lead_id: int | str, /, *, file: bytes | tuple[str, bytes]) -> File:
        """Add a file of up to 20 MiB to a lead.

        file: The file's bytes, or (name, bytes).
        """
    def delete(self, lead_id: int | str, id: int | str, /) -> None:
        """Delete a file of a lead; it can be restored for 30 days."""
    def restore(self, lead_id: int | str, id: int | str, /) -> File:
        """Restore a deleted file of a lead."""

class ClientsFiles:
    def list(
        self,
        client_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[File]:
        """List the files of a client, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(self, client_id: int | str, /, *, file: bytes | tuple[str, bytes]) -> File:
        """Add a file of up to 20 MiB to a client.

        file: The file's bytes, or (name, bytes).
        """
    def delete(self, client_id: int | str, id: int | str, /) -> None:
        """Delete a file of a client; it can be restored for 30 days."""
    def restore(self, client_id: int | str, id: int | str, /) -> File:
        """Restore a deleted file of a client."""

class DealsFiles:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[File]:
        """List the files of a deal, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(self, deal_id: int | str, /, *, file: bytes | tuple[str, bytes]) -> File:
        """Add a file of up to 20 MiB to a deal.

        file: The file's bytes, or (name, bytes).
        """
    def delete(self, deal_id: int | str, id: int | str, /) -> None:
        """Delete a file of a deal; it can be restored for 30 days."""
    def restore(self, deal_id: int | str, id: int | str, /) -> File:
        """Restore a deleted file of a deal."""

class ProductsFiles:
    def list(
        self,
        product_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[File]:
        """List the files of a product, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(self, product_id: int | str, /, *, file: bytes | tuple[str, bytes]) -> File:
        """Add a file of up to 20 MiB to a product.

        file: The file's bytes, or (name, bytes).
        """
    def delete(self, product_id: int | str, id: int | str, /) -> None:
        """Delete a file of a product; it can be restored for 30 days."""
    def restore(self, product_id: int | str, id: int | str, /) -> File:
        """Restore a deleted file of a product."""

class TasksFiles:
    def list(
        self,
        task_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[File]:
        """List the files of a task, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(self, task_id: int | str, /, *, file: bytes | tuple[str, bytes]) -> File:
        """Add a file of up to 20 MiB to a task.

        file: The file's bytes, or (name, bytes).
        """
    def delete(self, task_id: int | str, id: int | str, /) -> None:
        """Delete a file of a task; it can be restored for 30 days."""
    def restore(self, task_id: int | str, id: int | str, /) -> File:
        """Restore a deleted file of a task."""

class Files:
    def get(self, id: int | str, /) -> bytes:
        """Get the bytes of a file, or a range of them."""

class DealsPapers:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        kind: Literal["offer", "invoice", "act", "delivery_note"]
        | Sequence[Literal["offer", "invoice", "act", "delivery_note"]]
        | None = ...,
        sort: Literal["id", "-id", "date", "-date"] | None = ...,
        since: date | str | None = ...,
        until: date | str | None = ...,
        is_paid: bool | None = ...,
        is_void: bool | None = ...,
    ) -> Page[Paper]:
        """List the papers of a deal, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        client_id: Papers of a client.
        sort: One field; `-` in front for descending.
        since: Of this day or later.
        until: Of this day or earlier.
        is_paid: Whether a payment is noted.
        is_void: Whether it was voided.
        """
    def create(
        self,
        deal_id: int | str,
        /,
        *,
        kind: Literal["offer", "invoice", "act", "delivery_note"],
        language: Literal["uk", "en"] = ...,
        paid_at: date | str | None = ...,
        paid_amount: float | Decimal | str | None = ...,
    ) -> Paper:
        """Make a paper of a deal as it is now.

        language: Of its texts. By default `uk`.
        paid_at: Of an invoice: the day of the payment.
        paid_amount: By default its amount.
        """

class Papers:
    links: PapersLinks
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        deal_id: int | str | Sequence[int | str] | None = ...,
        client_id: int | str | Sequence[int | str] | None = ...,
        kind: Literal["offer", "invoice", "act", "delivery_note"]
        | Sequence[Literal["offer", "invoice", "act", "delivery_note"]]
        | None = ...,
        sort: Literal["id", "-id", "date", "-date"] | None = ...,
        since: date | str | None = ...,
        until: date | str | None = ...,
        is_paid: bool | None = ...,
        is_void: bool | None = ...,
    ) -> Page[Paper]:
        """List papers, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        deal_id: Papers of a deal.
        client_id: Papers of a client.
        sort: One field; `-` in front for descending.
        since: Of this day or later.
        until: Of this day or earlier.
        is_paid: Whether a payment is noted.
        is_void: Whether it was voided.
        """
    def export_csv(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        kind: Literal["offer", "invoice", "act", "delivery_note"]
        | Sequence[Literal["offer", "invoice", "act", "delivery_note"]]
        | None = ...,
        dialect: Literal["excel"] | None = ...,
    ) -> bytes:
        """Export papers for the bookkeeper as CSV, by date and number; void ones are named so.

        since: Of this day or later.
        until: Of this day or earlier.
        dialect: `excel`: BOM, semicolons, decimal comma, no formulas.
        """
    def pdf(self, id: int | str, /) -> bytes:
        """Get a paper as PDF: always the same bytes."""
    def get(self, id: int | str, /) -> WholePaper:
        """Get one paper."""
    def update(
        self,
        id: int | str,
        /,
        *,
        paid_at: date | str | None = ...,
        paid_amount: float | Decimal | str | None = ...,
        version: int = ...,
    ) -> WholePaper:
        """Note that an invoice was paid, or, with null, that it was not.

        paid_at: Of an invoice: the day of the payment.
        paid_amount: By default its amount.
        version: As it was read: refused when the record has changed since.
        """
    def void(self, id: int | str, /) -> Paper:
        """Void a paper: it keeps its number, and its links end."""

class PapersLinks:
    def create(
        self, paper_id: int | str, /, *, expires_at: datetime | str = ...
    ) -> PaperLinkCreated:
        """Make an address by which a client sees the paper without an account.

        expires_at: By default after 30 days; at most 366.
        """
    def list(
        self,
        paper_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[PaperLink]:
        """List the links to a paper, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def delete(self, paper_id: int | str, id: int | str, /) -> None:
        """Revoke a link to a paper."""

class Views:
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        resource: Literal["leads", "clients", "deals", "products", "tasks"]
        | Sequence[Literal["leads", "clients", "deals", "products", "tasks"]]
        | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
        shared: bool | None = ...,
    ) -> Page[SavedView]:
        """List the views of the key's user and the shared ones.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        shared: `false`: only one's own that nobody else sees.
        """
    def create(
        self,
        *,
        resource: Literal["leads", "clients", "deals", "products", "tasks"],
        name: str,
        query: Mapping[str, Any] | None = ...,
        columns: Sequence[str] | None = ...,
        shared: bool = ...,
    ) -> SavedView:
        """Save a view of a list.

        query: Parameters of the list: `{name: text or list of texts}`.
        columns: In their order; by default the usual ones.
        shared: Whether all users see it. By default `false`.
        """
    def get(self, id: int | str, /) -> SavedView:
        """Get one view."""
    def update(
        self,
        id: int | str,
        /,
        *,
        name: str = ...,
        query: Mapping[str, Any] | None = ...,
        columns: Sequence[str] | None = ...,
        shared: bool = ...,
        version: int = ...,
    ) -> SavedView:
        """Change the sent fields of a view.

        query: Parameters of the list: `{name: text or list of texts}`.
        columns: In their order; by default the usual ones.
        shared: Whether all users see it.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a view."""

class Reports:
    def funnel(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        group_by: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> FunnelReport:
        """Count the deals of a period by the stages that they have reached.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        group_by: `custom.<key>`: count by this field of the tenant's own, a choice, flag or user
            by which lists are filtered. The funnel is counted for each value.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def stage_time(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> StageTimeReport:
        """Get how long deals have been in each stage.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        format: By default `json`.
        """
    def forecast(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> ForecastReport:
        """Get the amounts of open deals by the month of their expected closing.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def lost(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> LostReport:
        """Count the deals lost in a period by their reasons.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def sources(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        group_by: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> SourcesReport:
        """Count leads and won deals by their sources.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        group_by: `custom.<key>`: count by this field of the tenant's own, a choice, flag or user
            by which lists are filtered. The funnel is counted for each value.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def people(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        group_by: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> PeopleReport:
        """Count what each user has got and done in a period.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        group_by: `custom.<key>`: count by this field of the tenant's own, a choice, flag or user
            by which lists are filtered. The funnel is counted for each value.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def activity(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        pipeline_id: str | None = ...,
        currency: str | None = ...,
        assigned_to: str | None = ...,
        sum: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> ActivityReport:
        """Count what came in and was done on each day of a period.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        pipeline_id: Only deals of this pipeline.
        currency: Only deals in this currency.
        assigned_to: Only records of this user; `me`, `none` as in lists.
        sum: `custom.<key>`: sum this number or amount of the records, too.
        format: By default `json`.
        """
    def received(
        self,
        *,
        since: date | str | None = ...,
        until: date | str | None = ...,
        currency: str | None = ...,
        format: Literal["json", "csv"] | None = ...,
    ) -> ReceivedReport:
        """Sum the money received by invoices on each day of a period.

        since: The first day. By default that of the month of `until`.
        until: The last day. By default that of this month.
        currency: Only deals in this currency.
        format: By default `json`.
        """

class Events:
    def list(
        self,
        *,
        after: int | None = ...,
        limit: int | None = ...,
        type: Literal[
            "lead.created",
            "lead.converted",
            "deal.created",
            "deal.stage_changed",
            "deal.won",
            "deal.lost",
            "deal.items_changed",
            "product.created",
            "product.updated",
            "product.imported",
            "client.created",
            "client.updated",
            "task.created",
            "task.completed",
        ]
        | Sequence[
            Literal[
                "lead.created",
                "lead.converted",
                "deal.created",
                "deal.stage_changed",
                "deal.won",
                "deal.lost",
                "deal.items_changed",
                "product.created",
                "product.updated",
                "product.imported",
                "client.created",
                "client.updated",
                "task.created",
                "task.completed",
            ]
        ]
        | None = ...,
    ) -> EventFeed:
        """List events later than a sequence, the oldest first.

        after: Only events later than this sequence.
        limit: How many records at most.
        type: Only of these kinds.
        """

class Export_links:
    def create(
        self,
        *,
        resource: Literal["leads", "clients", "deals", "products", "tasks"],
        filters: Mapping[str, Any] | None = ...,
        expires: datetime | str | None = ...,
    ) -> ExportLinkCreated:
        """Make an address that gives the export of a resource with these filters.

        filters: Parameters of the export but `format`: `{name: text or list of texts}`.
        expires: By default after 90 days; at most 366, and not after its key.
        """

class Webhooks:
    deliveries: WebhooksDeliveries
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id", "created_at", "-created_at"] | None = ...,
    ) -> Page[Webhook]:
        """List the endpoints, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        *,
        url: str,
        events: Sequence[
            Literal[
                "lead.created",
                "lead.converted",
                "deal.created",
                "deal.stage_changed",
                "deal.won",
                "deal.lost",
                "deal.items_changed",
                "product.created",
                "product.updated",
                "product.imported",
                "client.created",
                "client.updated",
                "task.created",
                "task.completed",
            ]
        ] = ...,
        description: str | None = ...,
        active: bool = ...,
    ) -> WebhookCreated:
        """Add an endpoint; its secret is in this answer and in no other.

        url: https, without fragment.
        events: A key may choose those of which it may read every record in `data`: for
            `lead.converted` it needs `leads:read`, `deals:read` and `clients:read`. By default
            all. By default `["lead.created","lead.converted","deal.created","deal.stage_changed",
            "deal.won","deal.lost","deal.items_changed","product.created","product.updated","produ
            ct.imported","client.created","client.updated","task.created","task.completed"]`.
        active: By default `true`.
        """
    def get(self, id: int | str, /) -> Webhook:
        """Get one endpoint with its health."""
    def update(
        self,
        id: int | str,
        /,
        *,
        url: str = ...,
        events: Sequence[
            Literal[
                "lead.created",
                "lead.converted",
                "deal.created",
                "deal.stage_changed",
                "deal.won",
                "deal.lost",
                "deal.items_changed",
                "product.created",
                "product.updated",
                "product.imported",
                "client.created",
                "client.updated",
                "task.created",
                "task.completed",
            ]
        ] = ...,
        description: str | None = ...,
        active: bool = ...,
        version: int = ...,
    ) -> Webhook:
        """Change the sent fields of an endpoint; `active: true` switches it on again.

        url: https, without fragment.
        events: A key may choose those of which it may read every record in `data`: for
            `lead.converted` it needs `leads:read`, `deals:read` and `clients:read`. By default
            all.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete an endpoint with its deliveries."""
    def rotate(self, id: int | str, /) -> Rotated:
        """Make a new secret; the one before signs too for 24 hours."""
    def test(self, id: int | str, /) -> Sending:
        """Send a `webhook.test`, once."""
    def recover(
        self, id: int | str, /, *, since: datetime | str, dry_run: bool | None = ...
    ) -> Recovery:
        """Send all events that the webhook missed since a time; a paused one is switched on.

        since: Events are kept for 30 days.
        dry_run: `true`: only count, change nothing.
        """

class WebhooksDeliveries:
    def list(
        self,
        webhook_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        status: Literal["pending", "delivered", "failed", "held"]
        | Sequence[Literal["pending", "delivered", "failed", "held"]]
        | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Delivery]:
        """List the deliveries to an endpoint with their attempts, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class Deliveries:
    def get(self, id: int | str, /) -> Delivery:
        """Get one delivery with its attempts."""
    def resend(self, id: int | str, /) -> Sending:
        """Send a delivery once more, now and on a new schedule."""

class Inbound_hooks:
    calls: Inbound_hooksCalls
    def list(
        self,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[InboundHook]:
        """List inbound_hooks, the newest first.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """
    def create(
        self,
        *,
        name: str,
        target: Literal["lead", "deal", "note", "call", "payment"],
        mapping: Mapping[str, Any] | None = ...,
        defaults: Mapping[str, Any] | None = ...,
        id_path: str | None = ...,
        known: Literal["skip", "update"] = ...,
        signature_header: str | None = ...,
        signature_algorithm: Literal["sha256", "sha1", "sha512"] = ...,
        signature_secret: str | None = ...,
        takes_files: bool = ...,
        active: bool = ...,
    ) -> InboundHook:
        """Add a hook; `GET` of it has the `url` to send to.

        target: What bodies become: a lead, a deal with its client, a note, a call, or the payment
            of an invoice.
        mapping: `{path in a body: field}`. Several paths of one field are joined; `*` in a path
            is each element of a list; fields that begin with `client.` describe the person.
        defaults: `{field: text}` where a body has none.
        id_path: Where a body has the sender's id: the same id is one record.
        known: What a further body about a known record does. By default `skip`.
        signature_algorithm: Of the HMAC of the body, in hex or Base64. By default `sha256`.
        takes_files: Whether the files of a multipart body become files of the record: at most 5,
            10 MiB together. By default `false`.
        active: If not, its address answers 404. By default `true`.
        """
    def get(self, id: int | str, /) -> InboundHook:
        """Get one hook with its address."""
    def update(
        self,
        id: int | str,
        /,
        *,
        name: str = ...,
        mapping: Mapping[str, Any] | None = ...,
        defaults: Mapping[str, Any] | None = ...,
        id_path: str | None = ...,
        known: Literal["skip", "update"] = ...,
        signature_header: str | None = ...,
        signature_algorithm: Literal["sha256", "sha1", "sha512"] = ...,
        signature_secret: str | None = ...,
        takes_files: bool = ...,
        active: bool = ...,
        version: int = ...,
    ) -> InboundHook:
        """Change the sent fields of a hook.

        mapping: `{path in a body: field}`. Several paths of one field are joined; `*` in a path
            is each element of a list; fields that begin with `client.` describe the person.
        defaults: `{field: text}` where a body has none.
        id_path: Where a body has the sender's id: the same id is one record.
        known: What a further body about a known record does.
        signature_algorithm: Of the HMAC of the body, in hex or Base64.
        takes_files: Whether the files of a multipart body become files of the record: at most 5,
            10 MiB together.
        active: If not, its address answers 404.
        version: As it was read: refused when the record has changed since.
        """
    def delete(self, id: int | str, /) -> None:
        """Delete a hook with its calls."""

class Inbound_hooksCalls:
    def list(
        self,
        inbound_hook_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        state: Literal["done", "failed"] | Sequence[Literal["done", "failed"]] | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[ListedInboundCall]:
        """List what a hook was sent in the last 30 days, the newest first, without the bodies.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class Inbound_calls:
    def get(self, id: int | str, /) -> InboundCall:
        """Get one call with its body."""
    def delete(self, id: int | str, /) -> None:
        """Delete a call; the record made of it stays."""
    def replay(self, id: int | str, /) -> InboundCall:
        """Run a call again by its hook's mapping of today; a record that it has made is changed."""

class LeadsChanges:
    def list(
        self,
        lead_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Change]:
        """List the changes of a lead.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class ClientsChanges:
    def list(
        self,
        client_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Change]:
        """List the changes of a client.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class DealsChanges:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Change]:
        """List the changes of a deal.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class ProductsChanges:
    def list(
        self,
        product_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Change]:
        """List the changes of a product.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class TasksChanges:
    def list(
        self,
        task_id: int | str,
        /,
        *,
        limit: int | None = ...,
        cursor: str | None = ...,
        total: bool | None = ...,
        sort: Literal["id", "-id"] | None = ...,
    ) -> Page[Change]:
        """List the changes of a task.

        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        total: `true` adds `meta.total`.
        sort: One field; `-` in front for descending.
        """

class LeadsTimeline:
    def list(
        self,
        lead_id: int | str,
        /,
        *,
        kind: Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        | Sequence[
            Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        ]
        | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[TimelineEntry]:
        """List what happened with a lead, the newest first.

        kind: Only of these kinds.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class ClientsTimeline:
    def list(
        self,
        client_id: int | str,
        /,
        *,
        kind: Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        | Sequence[
            Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        ]
        | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[TimelineEntry]:
        """List what happened with a client, the newest first.

        kind: Only of these kinds.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class DealsTimeline:
    def list(
        self,
        deal_id: int | str,
        /,
        *,
        kind: Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        | Sequence[
            Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        ]
        | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[TimelineEntry]:
        """List what happened with a deal, the newest first.

        kind: Only of these kinds.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class TasksTimeline:
    def list(
        self,
        task_id: int | str,
        /,
        *,
        kind: Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        | Sequence[
            Literal["note", "task", "stage", "change", "deal", "lead", "import", "file", "paper"]
        ]
        | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> Page[TimelineEntry]:
        """List what happened with a task, the newest first.

        kind: Only of these kinds.
        limit: How many records at most.
        cursor: `meta.next_cursor` of the page before.
        """

class ResourceAttributes:
    leads: Leads
    clients: Clients
    deals: Deals
    products: Products
    tasks: Tasks
    pipelines: Pipelines
    fields: Fields
    users: Users
    imports: Imports
    batches: Batches
    proposals: Proposals
    trash: Trash
    duplicates: Duplicates
    files: Files
    papers: Papers
    views: Views
    reports: Reports
    events: Events
    export_links: Export_links
    webhooks: Webhooks
    deliveries: Deliveries
    inbound_hooks: Inbound_hooks
    inbound_calls: Inbound_calls
