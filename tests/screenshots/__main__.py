"""Take the README's pictures anew: the demo as a real server, a real browser, a real receiver."""

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
        shot("dashboard")
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


def main() -> None:
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data, receive_webhooks() as hook:
        command = [sys.executable, "app.py", "demo", "--data", data, "--port", str(port)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            link = next(found[0] for line in server.stdout if (found := LINK.search(line)))
            threading.Thread(target=server.stdout.read, daemon=True).start()
            take(f"http://acme.localhost:{port}", link, hook.url)
        finally:
            server.terminate()
            server.wait(30)
    for picture in sorted(HERE.glob("*.png")):
        print(f"{picture.name}: {picture.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
