"""A person at a browser: pages of the cabinet by the test client, forms with what pages hide."""

import html
import io
import re
from typing import Any
from uuid import uuid4

from crm import CRMApp
from crm.access import sessions

TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class Person:
    """Someone at the pages of one host: a tenant's, or with `label=""` the base host.

    With `user_id` somebody who is logged in already. `page` is the last answer.
    """

    def __init__(
        self,
        crm: CRMApp,
        label: str = "acme",
        user_id: int | None = None,
        *,
        scheme: str = "http",
        domain: str = "localhost",
    ):
        self.crm, self.label = crm, label
        self.host = f"{label}.{domain}" if label else domain
        self.home = f"{scheme}://{self.host}"
        self.client = crm.test_client()
        self.page: Any = None
        self._token: str | None = None
        if user_id is not None:
            with crm.tenants.session(label):
                token = sessions.open(user_id, "tests")
            name = "__Host-crm_session" if scheme == "https" else "crm_session"
            self.client.set_cookie(name, token, domain=self.host)

    def get(self, path: str = "/", **options: Any) -> Any:
        return self.open("GET", path, **options)

    def post(self, path: str, sent: dict[str, Any] | None = None, **options: Any) -> Any:
        """Send a form of this host: `sent` with the hidden token of the last page that had one.

        As if that page had been loaded anew, so that a form like another is no second click.
        """
        if self._token is None:
            self.get("/")
            if self._token is None:
                self.get("/login")
        fields = {"csrf_token": f"{self._token}{uuid4()}", **(sent or {})}
        return self.open("POST", path, data=fields, **options)

    def open(self, method: str, path: str, headers: dict | None = None, **options: Any) -> Any:
        # Browsers tell https hosts where a form stood; `buffered` also ends the answer, as servers
        # do: only then SMS and e-mails go out.
        headers = {"Referer": f"{self.home}/", **(headers or {})}
        options = {"base_url": self.home, "buffered": True, **options}
        self.page = self.client.open(path, method=method, headers=headers, **options)
        if "crm_form=;" in str(self.page.headers):
            self._token = None  # forms of before are void: who logged in loads a page
        if self.page.mimetype == "text/html" and (match := TOKEN.search(self.page.text)):
            self._token = html.unescape(match[1])
        return self.page

    def sees(self, path: str, status: int = 200, **options: Any) -> str:
        """The text of a page that must be answered with that status."""
        page = self.get(path, **options)
        assert page.status_code == status, f"{page.status_code}: {page.text}"
        return page.text

    def sends(self, path: str, sent: dict[str, Any] | None = None, **options: Any) -> str:
        """Send a form that must be taken; gives the path to go on at."""
        page = self.post(path, sent, **options)
        assert page.status_code == 303, f"{page.status_code}: {page.text}"
        return page.location

    def form_fields(self, page: str, path: str) -> dict[str, str]:
        """The hidden fields of the form that leads to that path."""
        form = re.search(rf'<form method="post" action="{re.escape(path)}".*?</form>', page, re.S)
        matches = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form[0])
        return {html.unescape(name): html.unescape(value) for name, value in matches}

    def form_as_it_is(self, path: str, action: str = "") -> dict[str, str]:
        """All fields of a page's form that leads to `action`, as a browser would send them."""
        pattern = rf'<form method="post" action="{re.escape(action or path)}".*?</form>'
        form = re.search(pattern, self.sees(path), re.S)[0]
        fields = {}
        for tag in re.findall(r"<input[^>]*>", form):
            name, value = re.search(r' name="([^"]+)"', tag), re.search(r' value="([^"]*)"', tag)
            if name and ('type="checkbox"' not in tag or " checked" in tag):
                fields[html.unescape(name[1])] = html.unescape(value[1]) if value else ""
        for name, inner in re.findall(r'<select[^>]* name="([^"]+)".*?>(.*?)</select>', form, re.S):
            chosen = re.search(r'value="([^"]*)"[^>]* selected', inner)
            fields[name] = (chosen or re.search(r'value="([^"]*)"', inner))[1]
        areas = r'<textarea[^>]* name="([^"]+)"[^>]*>(.*?)</textarea>'
        fields |= {name: html.unescape(text) for name, text in re.findall(areas, form, re.S)}
        del fields["csrf_token"]
        return fields

    def confirms(self, path: str, sent: dict[str, Any] | None = None) -> str:
        """Send a form that is answered by a question, and say yes to it; the path to go on at."""
        page = self.post(path, sent)
        assert page.status_code == 200, f"{page.status_code}: {page.text}"
        section = re.search(r'id="ask".*?</section>', page.text, re.S)[0]
        hidden = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', section)
        assert ("sure", "1") in hidden
        return self.sends(path, {name: html.unescape(value) for name, value in hidden})

    def cookie(self, name: str) -> Any:
        return self.client.get_cookie(name, domain=self.host)


def file(text: str | bytes, name: str = "price.csv", encoding: str = "utf-8") -> dict[str, Any]:
    """The fields of a form with one file."""
    data = text if isinstance(text, bytes) else text.encode(encoding)
    return {"file": (io.BytesIO(data), name)}


def sent_whole(person: Person, path: str, data: bytes, **options: Any) -> Any:
    """A form with one file, made here: the client would keep a large one in a file of its own."""
    if person._token is None:
        person.sees(path)
    token = f'--x\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\n{person._token}\r\n'
    head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    body = (token + head).encode() + data + b"\r\n--x--\r\n"
    options["input_stream" if options else "data"] = io.BytesIO(body) if options else body
    kind = "multipart/form-data; boundary=x"
    return person.open("POST", path, content_type=kind, **options)


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    match = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    return html.unescape(match[1])


def cells(page: str) -> list[list[str]]:
    """The rows of a page's tables, as texts."""
    matches = re.findall(r"<tr[ >].*?</tr>", page, re.S)
    return [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in cells]
        for row in matches
        if (cells := re.findall(r"<t[dh].*?</t[dh]>", row, re.S))
    ]


def counts(page: str) -> dict[str, int]:
    """What an import did or would do, as its page tells."""
    matches = re.findall(r'class="count-(\w+)[^>]*>.*?<dd>(\d+)</dd>', page)
    return {name: int(count) for name, count in matches}


class Recorder:
    """Stands in for the queue of messages: notes the SMS and e-mails that it was given."""

    keeps_texts = False
    sends_sms = sends_mail = True

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self.letters: list[tuple[str, str, str]] = []
        self.attachments: list[Any] = []

    def enqueue_sms(self, phone: str, text: str) -> None:
        self.texts.append((phone, text))

    def enqueue_mail(self, to: str, subject: str, text: str, attachment: Any = None) -> None:
        self.letters.append((to, subject, text))
        self.attachments.append(attachment)

    def get_last_sms(self, phone: str) -> None:
        return None

    def code(self) -> str:
        """The code of the last SMS."""
        return re.search(r"\b[0-9]{6}\b", self.texts[-1][1])[0]

    def link(self) -> str:
        """The path of the link in the last letter."""
        return re.search(r"http://acme\.localhost:8000(\S+)", self.letters[-1][2])[1]
