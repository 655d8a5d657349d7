"""A business's last quarter, played by its own people through the verbs that the API calls.

Each thing happens at the moment that the tenant's clock then shows, so history has natural dates,
and what is under way now is so because its time hasn't come: deals stand in every stage, leads
wait, tasks are due. The same moment gives the same quarter, but for keys and the ids of events.
"""

import csv
from functools import partial
from random import Random
from typing import Any

from crm.demo.agenda import DAY, HALF_HOUR, KYIV, Agenda
from crm.demo.businesses import (
    CHORES,
    LOST,
    NOTES,
    POSITIONS,
    SOURCES,
    TAGS,
    UNFIT,
    Business,
    Project,
)
from crm.demo.people import People, Person
from crm.json import loads
from crm.resources import notes, tasks, users
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.pipelines import Pipeline
from crm.resources.products import price_list
from crm.resources.products import record as products
from crm.sheets import parse_flag
from crm.tenancy.database import current_session, time_text
from crm.values import transliterate

OLD_CLIENTS = 0.4  # the share of clients who were there before the quarter


class Quarter(Agenda):
    """What happened at one business until `now`."""

    def __init__(self, business: Business, now: float):
        super().__init__(now, Random(business.label))
        self.business = business
        self.people = People(self.random)
        self.owner = self.people.person(business.domain, business.team[0])
        self._companies = list(business.companies)  # who haven't asked yet
        self._known: list[dict[str, Any]] = []  # who have
        self._clients: list[int] = []
        self._leads: list[int] = []  # under way
        self._deals: list[int] = []  # under way
        self._deals_made = 0

    def play(self) -> None:
        """Let it all happen; inside a transaction at the new tenant, whose owner is there."""
        self._open()
        self._begin()
        self.run()

    # Before the quarter, and what is known of it beforehand

    def _open(self) -> None:
        current_session().user_id = users.owner_id()
        for name in self.business.team[1:]:
            person = self.people.person(self.business.domain, name)
            role = "viewer" if name == self.business.team[-1] else "manager"
            users.create(users.USER_IN.take({**person._asdict(), "role": role}))
        self._team = [user.id for user in users.User.every("role <> 'viewer' ORDER BY id")]
        stages = Pipeline.default().stages()
        self._path = [stage.id for stage in stages if stage.type == "open"]
        self._ends = {stage.type: stage.id for stage in stages}
        rows = list(csv.DictReader(self.business.prices.splitlines()))
        for row in rows[:-1]:
            self._add_product(row)
        self._newest = rows[-1]
        for number in range(round(self.business.counts["clients"] * OLD_CLIENTS)):
            self._old_client(number)

    def _begin(self) -> None:
        """Plan what nothing else leads to."""
        counts = self.business.counts
        for share in self.spread(counts["leads"]):
            self.at(share, self._lead_comes, by=self._seller())
        for share in self.spread(round(counts["deals"] * 0.7)):
            self.at(share, self._client_orders, by=self._seller())
        for stage in range(len(self._path)):
            self.at(0.66, partial(self._client_orders, waits_in=stage), by=self._seller())
        self._begin_tasks(counts["tasks"])
        owner = self._team[0]
        for share in (0.35, 0.7, 0.95):
            self.at(share, self._reprice_one, by=owner)
        self.at(0.85, self._reprice_many, by=owner)
        self.at(0.9, partial(self._add_product, self._newest), by=owner)

    def _begin_tasks(self, number: int) -> None:
        late, today, coming = round(number * 0.14), round(number * 0.12), round(number * 0.18)
        for share in self.spread(number - late - today - coming):
            self.at(share * 0.97, self._task_to_be_done, by=self._seller())
        dues = [
            (self.hours.total - self.days(0.4, 4)) // HALF_HOUR * HALF_HOUR for _ in range(late)
        ]
        for due in dues:
            self._open_task(due - self.days(1, 3), self.hours.at(due))
        for day in [0] * today + [self.random.randint(1, 12) for _ in range(coming)]:
            due = self.office_hour(self.now + KYIV + day * DAY, at_weekends=not day)
            self._open_task(self.hours.total - self.days(0.2, 3.5), due)

    def _open_task(self, passed: float, due: float) -> None:
        act = partial(self._task_to_be_left, due)
        self.at(passed / self.hours.total, act, by=self._seller())

    # Leads

    def _lead_comes(self) -> None:
        project = self.random.choice(self.business.projects)
        _, source, marks = self.random.choices(SOURCES, [weight for weight, _, _ in SOURCES])[0]
        who = self._who_asked_before(project) or self._newcomer(project, source)
        if source == "site-form":
            page = f"https://{self.business.domain}/{transliterate(project.title)}"
            marks = {**marks, "page_url": page}
        sent = {**who, **marks, "source": source, "comment": f"{project.wish}."}
        if self.happens(0.2):
            sent["amount"] = self._amount()
        id = leads.create(leads.LEAD_IN.take(sent))
        self._leads.append(id)
        self.later(0.05, 3, partial(self._take, id, project), by=self._seller())

    def _who_asked_before(self, project: Project) -> dict[str, Any] | None:
        known = [who for who in self._known if ("company" in who) == project.for_company]
        no_company_left = project.for_company and not self._companies
        if known and self.happens(0.9 if no_company_left else 0.06):
            return self.random.choice(known)
        return None

    def _newcomer(self, project: Project, source: str) -> dict[str, Any]:
        if project.for_company and self._companies:
            company = self._companies.pop(self.random.randrange(len(self._companies)))
            person = self.people.person(_domain(company))
            who = {"company": company, "position": self.random.choice(POSITIONS)}
        else:
            person, who = self.people.person(), {}
        who = {**person._asdict(), **who}
        if source in ("phone", "instagram") and not project.for_company:
            del who["email"]
        self._known.append(who)
        return who

    def _take(self, id: int, project: Project) -> None:
        lead = leads.Lead.find(id)
        lead.change(leads.LEAD_PATCH.take({"status": "in_progress", "assigned_to": self._me()}))
        if self.happens(0.25):
            self._note("lead", id)
        fate = self.random.random()
        if fate < 0.3:
            self.later(0.5, 4, partial(self._refuse, id))
        elif fate < 0.85:
            self.later(0.3, 3, partial(self._qualify, id, project))

    def _refuse(self, id: int) -> None:
        sent = {"status": "unqualified", "lost_reason": self.random.choice(UNFIT)}
        leads.Lead.find(id).change(leads.LEAD_PATCH.take(sent))
        self._leads.remove(id)

    def _qualify(self, id: int, project: Project) -> None:
        leads.Lead.find(id).change(leads.LEAD_PATCH.take({"status": "qualified"}))
        if self.happens(0.75):
            self.later(0.3, 3, partial(self._convert, id, project))

    def _convert(self, id: int, project: Project) -> None:
        lead = leads.Lead.find(id)
        conversion.convert(lead, conversion.CONVERSION.take({"title": project.title}))
        self._leads.remove(id)
        if lead.client_id not in self._clients:
            self._clients.append(lead.client_id)
            self.later(0.5, 8, partial(self._know_better, lead.client_id))
        self._pursue(lead.deal_id, project)

    # Clients

    def _old_client(self, number: int) -> None:
        since = self.office_hour(self.moment - self.random.uniform(20, 500) * DAY)
        sent: dict[str, Any] = {
            "created_at": time_text(int(since)),
            "assigned_to": self._seller(),
            "source": self.random.choice(("referral", "phone", "exhibition")),
            "tags": self.random.sample(TAGS, self.random.choice((0, 0, 1, 1, 2))),
            "external_id": f"1C-{number + 17:06}",
        }
        if number % 2 == 0 and len(self._companies) > len(self.business.companies) // 2:
            sent |= self._company(self._companies.pop())
        else:
            person = self.people.person()
            sent |= {"type": "person", **person._asdict(), "address": self._address()}
        self._clients.append(clients.create(clients.CLIENT_IN.take(sent)))

    def _company(self, name: str) -> dict[str, Any]:
        domain = _domain(name)
        persons = [self.people.person(domain) for _ in range(self.random.choice((1, 2, 2)))]
        self._known.append({**persons[0]._asdict(), "company": name})
        return {
            "type": "company",
            "name": name,
            "phone": self.people.phone(),
            "email": f"office@{domain}",
            "website": f"https://{domain}",
            "address": self._address(),
            "tax_number": f"99{self.random.randrange(10**6):06}",
            "contacts": [self._contact(person) for person in persons],
        }

    def _contact(self, person: Person) -> dict[str, Any]:
        return {**person._asdict(), "position": self.random.choice(POSITIONS)}

    def _know_better(self, id: int) -> None:
        """What comes out about a new client after a while."""
        client = clients.Client.find(id)
        if client.type == "company":
            domain = _domain(client.name)
            sent = {"website": f"https://{domain}"}
            client.add_contact(clients.CONTACT_IN.take(self._contact(self.people.person(domain))))
        else:
            sent = {"address": self._address()}
        client.change(clients.CLIENT_PATCH.take(sent))
        if self.happens(0.3):
            self._note("client", id)

    def _address(self) -> str:
        street = self.random.choice(self.business.streets)
        return f"{self.business.city}, {street}, {self.random.randint(1, 90)}"

    # Deals

    def _client_orders(self, waits_in: int | None = None) -> None:
        """Somebody known wants something again, unless leads have brought deals enough so far."""
        if waits_in is None and self._deals_made >= self.business.counts["deals"] * self.come():
            return
        client = clients.Client.find(self.random.choice(self._clients))
        of_kind = client.type == "company"
        fitting = [each for each in self.business.projects if each.for_company == of_kind]
        project = self.random.choice(fitting)
        sent = {"title": project.title, "client_id": client.id, "source": "repeat"}
        contacts = client.contacts()
        if contacts:
            sent["contact_id"] = contacts[0].id
        self._pursue(deals.create(deals.DEAL_IN.take(sent)), project, waits_in)

    def _pursue(self, id: int, project: Project, waits_in: int | None = None) -> None:
        """Work on a new deal. `waits_in`: on which stage of the path it is left for long."""
        self._deals.append(id)
        self._deals_made += 1
        expected = self.moment + self.random.randint(10, 40) * DAY
        sent = {"expected_close_date": time_text(int(expected))[:10]}
        if self.happens(0.12):
            sent["amount"] = self._amount()
        else:
            self.later(0.1, 1, partial(self._compose, id, project))
        deals.Deal.find(id).change(deals.DEAL_PATCH.take(sent))
        if waits_in is None and self.happens(0.1):
            waits_in = self.random.randrange(len(self._path))
        self.later(1, 4, partial(self._go_on, id, waits_in))

    def _compose(self, id: int, project: Project) -> None:
        lines = []
        for category, pieces in project.needs.items():
            sold = products.Product.every("category = ? AND active = 1 ORDER BY id", category)
            kinds = self.random.sample(sold, min(len(sold), 2 if pieces > 7 else 1))
            lines += [{"product_id": each.id, "quantity": pieces // len(kinds)} for each in kinds]
        if self.happens(0.2):
            lines[0]["discount"] = self.random.choice((3, 5, 10))
        extras = products.Product.every("category = ? ORDER BY id", self.business.extras)
        lines.append({"product_id": self.random.choice(extras).id})
        if self.happens(0.1):
            lines.append({"name": "Терміновість", "price": 1500})
        items.add_all(deals.Deal.find(id), items.ITEM_IN.take({"items": lines})["items"])
        if self.happens(0.2):
            self.later(0.5, 3, partial(self._give_discount, id))

    def _give_discount(self, id: int) -> None:
        deal = deals.Deal.find(id)
        if deal.status == "open":
            item = items.DealItem.first("deal_id = ?", id)
            sent = {"discount": 300, "discount_type": "amount"}
            item.change(deal, items.ITEM_PATCH.take(sent))

    def _go_on(self, id: int, waits_in: int | None) -> None:
        """One stage further, or lost."""
        deal = deals.Deal.find(id)
        stage = self._path.index(deal.stage_id)
        if stage == waits_in:
            return
        if waits_in is None and self.happens(0.12):
            sent = {"stage_id": self._ends["lost"], "lost_reason": self.random.choice(LOST)}
        elif stage + 1 < len(self._path):
            sent = {"stage_id": self._path[stage + 1]}
            self.later(0.5, 4.5, partial(self._go_on, id, waits_in))
        else:
            sent = {"stage_id": self._ends["won"]}
            if self.happens(0.4):
                self.later(0.5, 3, partial(self._remember, deal.client_id))
        deal.change(deals.DEAL_PATCH.take(sent))
        if deal.status != "open":
            self._deals.remove(id)
        elif self.happens(0.2):
            self._note("deal", id)

    def _remember(self, client_id: int) -> None:
        client = clients.Client.find(client_id)
        tags = [*loads(client.tags or "[]"), "постійний"]
        client.change(clients.CLIENT_PATCH.take({"tags": tags}))

    # Products

    def _add_product(self, row: dict[str, str]) -> None:
        sent = {name: text or None for name, text in row.items()}
        sent["active"] = parse_flag(row["active"])
        products.create(products.PRODUCT_IN.take(sent))

    def _reprice_one(self) -> None:
        product = self.random.choice(products.Product.every("active = 1 ORDER BY id"))
        price = product.price // 10_000 * 21 // 20
        product.change(products.PRODUCT_PATCH.take({"price": price}))

    def _reprice_many(self) -> None:
        if self.business.repriced:
            sheet = price_list.read(self.business.repriced.encode("cp1251"))
            price_list.import_csv(sheet, file_name="прайс.csv")

    # Tasks and notes

    def _task_to_be_done(self) -> None:
        due = self.office_hour(self.moment + DAY * self.random.randint(0, 3))
        id, result = self._add_task(due)
        if self.happens(0.08):
            cancelled = tasks.TASK_PATCH.take({"status": "cancelled"})
            self.later(0.1, 0.6, lambda: tasks.Task.find(id).change(cancelled))
        else:
            self.later(0.1, 1.5, lambda: tasks.Task.find(id).complete(result))

    def _task_to_be_left(self, due: float) -> None:
        id, _ = self._add_task(due)
        if self.happens(0.25):
            sent = {"status": "in_progress", "priority": "high"}
            tasks.Task.find(id).change(tasks.TASK_PATCH.take(sent))

    def _add_task(self, due: float) -> tuple[int, str]:
        """Its id, and what shall come of it."""
        kind, title, result = self.random.choice(CHORES)
        sent: dict[str, Any] = {"type": kind, "due_at": time_text(int(due))}
        if self._leads and (not self._deals or self.happens(0.35)):
            lead = leads.Lead.find(self.random.choice(self._leads))
            sent |= {"lead_id": lead.id, "title": f"{title}: {lead.name}"}
        elif self._deals:
            deal = deals.Deal.find(self.random.choice(self._deals))
            sent |= {"deal_id": deal.id, "client_id": deal.client_id}
            sent["title"] = f"{title}: {deal.client_name}"
        else:
            sent["title"] = title
        if self.happens(0.2):
            sent["priority"] = self.random.choice(("low", "high"))
        return tasks.create(tasks.TASK_IN.take(sent)), result

    def _note(self, noun: str, id: int) -> None:
        notes.create(noun, id, notes.NOTE_IN.take({"text": self.random.choice(NOTES)}))

    # Chance

    def _amount(self) -> int:
        """What somebody would spend, in round numbers."""
        return self.random.randint(2, 30) * self.business.budget // 2

    def _seller(self) -> int:
        """Somebody who sells: everybody but the last, the owner less often."""
        return self.random.choice([*self._team, *self._team[1:]])

    def _me(self) -> int:
        return current_session().user_id


def _domain(company: str) -> str:
    return f"{transliterate(company.partition('«')[2].rstrip('»'))}.example"
