"""Take the pictures of README and guides anew: the demo as a real server, a browser, a receiver.

The pictures in English are of a business of their own, beside those of the demo.
"""

import re
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crm import CRM  # noqa: E402
from crm.access import links  # noqa: E402
from tests.chromium import browsing, open_page  # noqa: E402
from tests.server_process import ROOT, find_free_port  # noqa: E402
from tests.webhook_receiver import receive_webhooks  # noqa: E402

HERE = Path(__file__).parent
LINK = re.compile(r"http://acme\.localhost:\d+/enter/\S+")
PRICES = """sku;name;price;unit;category
ST-901;Стіл «Обрій»;12 490,00;шт;Столи
ST-902;Стіл «Обрій» розкладний;14 990,00;шт;Столи
KR-901;Крісло «Затишок»;6 780,50;шт;Крісла
KR-902;Крісло «Затишок» з пуфом;дорого;шт;Крісла
;Полиця без артикула;890;шт;Полиці
"""


def take(home: str, link: str, hook_url: str) -> None:
    with browsing() as browser, open_page(browser) as page:
        page.set_viewport_size({"width": 1280, "height": 720})

        def shot(name: str) -> None:
            page.mouse.move(0, 0)
            page.screenshot(path=HERE / f"{name}.png")

        page.goto(link)
        page.locator("main form button").first.click()
        page.wait_for_url(f"{home}/")
        shot("today")
        page.goto(f"{home}/deals")
        shot("board")
        page.goto(f"{home}/products/import")
        file = {"name": "prices.csv", "mimeType": "text/csv", "buffer": PRICES.encode("cp1251")}
        page.locator("main input[type=file]").set_input_files(file)
        page.locator("main form button").last.click()
        page.locator("main form[action*=import] button").first.click()
        page.wait_for_load_state()
        shot("import-report")
        page.goto(f"{home}/settings/api-keys/new?preset=price")
        shot("keys")
        page.goto(f"{home}/settings/webhooks")
        page.locator("main [name=url]").fill(hook_url)
        page.locator("main [name=url]").press("Enter")
        page.goto(f"{home}/settings/webhooks")
        page.locator("main table a").first.click()
        log = page.url
        page.locator("form[action$='/test'] button").click()
        page.goto(f"{home}/tasks")
        page.get_by_role("button", name="Виконати").first.click()
        page.wait_for_load_state()
        page.wait_for_timeout(1000)
        page.goto(log)
        shot("webhook-log")


STAGES = ("New", "Qualified", "Proposal", "Negotiation")
DEALS = (  # stage, client, title, amount
    (0, "Harbour Café", "Counter and six stools", 48_500),
    (0, "Anna Petrenko", "Bookshelf", 14_200),
    (0, "Lime Studio", "Meeting table", 31_000),
    (1, "Dr. Bondar's practice", "Reception desk", 52_300),
    (1, "Olga Marchenko", "Oak dining table", 27_400),
    (2, "North Gate Hotel", "Wardrobes for 12 rooms", 318_000),
    (2, "Ivan Tkachenko", "Kitchen worktop", 22_750),
    (3, "Green Line School", "Desks for two classes", 146_000),
)


def make_english_business(folder: str) -> str:
    """Make the tenant `oakwood`; return the path of a link that logs its owner in."""
    crm = CRM(data=folder, tenant="oakwood", sends=False)
    owner = {"name": "Mary Oak", "email": "mary@oakwood.example", "phone": "+380501110009"}
    crm.create_tenant("oakwood", name="Oakwood Joinery", language="en", owner=owner)
    with crm.tenant(user=1):
        (pipeline,) = crm.pipelines.list().records
        stages = {stage["name"]: stage["id"] for stage in pipeline["stages"]}
        for days, (number, name, title, amount) in enumerate(DEALS, 1):
            client = crm.clients.create(name=name, phone=f"+38067123450{days}")
            crm.deals.create(
                title=title,
                client_id=client["id"],
                amount=amount,
                stage_id=stages[STAGES[number]],
                created_at=datetime.now(UTC) - timedelta(days=days),
            )
        crm.deals.items.create("8", name="Desk, birch", quantity=28, price=4_800)
        crm.deals.items.create("8", name="Delivery and assembly", quantity=1, price=11_600)
        crm.tasks.create(title="Send the contract", deal_id="8", type="email")
        lead = crm.leads.create(
            name="Marta Lysenko",
            phone="+380671234599",
            source="site-form",
            comment="Wants a staircase; asks to see samples of wood",
        )
        crm.leads.update(lead["id"], status="in_progress")
        token = links.create(links.LOGIN, 1)
    crm.close()
    return f"/enter/{token}"


def take_english(home: str, path: str) -> None:
    """From a lead to a won deal, as the guide of the workspace tells it."""
    with browsing() as browser, open_page(browser, locale="en-GB") as page:
        page.set_viewport_size({"width": 1280, "height": 720})

        def shot(name: str) -> None:
            page.mouse.move(0, 0)
            page.screenshot(path=HERE / f"english-{name}.png")

        page.goto(home + path)
        page.locator("main form button").first.click()
        page.wait_for_url(f"{home}/")
        page.goto(f"{home}/leads/1")
        shot("lead")
        page.goto(f"{home}/deals")
        shot("board")
        page.goto(f"{home}/deals/8")
        shot("deal")


def main() -> None:
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data, receive_webhooks() as hook:
        english = make_english_business(data)
        command = [sys.executable, "app.py", "demo", "--data", data, "--port", str(port)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            link = next(match[0] for line in server.stdout if (match := LINK.search(line)))
            threading.Thread(target=server.stdout.read, daemon=True).start()
            take_english(f"http://oakwood.localhost:{port}", english)
            if "--english" not in sys.argv:
                take(f"http://acme.localhost:{port}", link, hook.url)
        finally:
            server.terminate()
            server.wait(30)
    for picture in sorted(HERE.glob("*.png")):
        print(f"{picture.name}: {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
