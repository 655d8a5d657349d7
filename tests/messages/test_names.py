"""Names in messages: cut, and left out or refused when they look like an address."""

import pytest
from click.testing import CliRunner

from crm import cli
from crm.cabinet.settings import emails
from crm.errors import Invalid
from crm.messages.sms import choose_one_part, is_one_part
from crm.resources import tenant, users
from crm.resources.users import User
from crm.storage.session import execute, transaction
from crm.values import is_url_like
from crm.values.message_names import MAX_NAME_CHARACTERS, name_for_message
from tests.cabinet.test_login import sign_up
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS
from tests.installations import environ_for
from tests.page_client import Person, Recorder

parametrize = pytest.mark.parametrize
ADDRESSES = [
    "https://evil.example", "Виграш http://evil.example/x", "HTTP:/evil", "hxxps:evil", "www.evil",
    "Банк WWW.EVIL.EXAMPLE", "evil.example/win", "зайди на evil.example?x=1", "evil.example:80/a",
    "банк.укр/вхід", "xn--80ak6aa92e.com/a", "info@evil.example", "a@b", "mailto:a", "tel:102",
    "1.2.3.4/x", "ev\u200bil.exa\u2060mple/x", "ｅｖｉｌ．ｃｏｍ／ｘ", "evil。com/x",
    "evil.example#x", "privat24\ufe0f.com/login", "privat24.\ufe0fcom/login",
    "privat24.com\u034f/x",
    "privat24\u0301.com/login", "p\u0336rivat24.c\u0336om/x", "privat24\u20e3.com/x",
    "www\ufe0f.evil",
    "http\u0301s:/evil", "a\u0301@\u0301b", "privat24\u3164.com/x", "privat24\uffa0.com/x",
    "privat24\U000e0101.com/x", "privat24\u17b5.com/x", "prívat24.com/x", "ＰRİVAT.com/x",
]  # fmt: skip
LEFT_OUT = [
    "Rozetka.ua", "evil.example", "Заходь на bank.укр", "evil\u3002com", "1.2.3.4",
    "Банк 0931234567", "Дзвоніть +38 (093) 123-45-67", "Т.Шевченко", "privat24\ufe0f.com",
    "privat24\u0301.com", "bank\u20dd.com",
    "Банк 0\ufe0f93\u20e312\ufe0f34567", "09\u030131\u3164234567",
]  # fmt: skip
PLAIN = [
    "Кав’ярня «Згода»", "ТОВ «Мрія»", "Магазин 24/7", "A/B Testing", "Coffee & Co.", "О. Коваль",
    "Dr. Oetker", "Їжак і йод", "Café Ґанок", "Mötley", "№ 1",
    "Ім'я: Ольга", "С. П. / Київ", "3.14", "v2.0", "AT&T", "@home", "Yahoo!",
]  # fmt: skip


@loop_over("name", ADDRESSES)
def test_an_address_is_refused_and_left_out(name):
    assert is_url_like(name)
    assert name_for_message(name) == ""


@loop_over("name", LEFT_OUT)
def test_a_domain_or_phone_may_be_a_name_and_is_left_out(name):
    assert not is_url_like(name)
    assert name_for_message(name) == ""


@loop_over("name", PLAIN)
def test_another_name_is_told(name):
    assert not is_url_like(name)
    assert name_for_message(name) == name


def test_a_long_name_is_cut():
    name = "Товариство з обмеженою відповідальністю"
    assert name_for_message(name) == name[:30] == "Товариство з обмеженою відпові"
    assert len(name_for_message("x" * 255)) == MAX_NAME_CHARACTERS == 30
    assert name_for_message("x" * 29 + "  " + "y") == "x" * 29
    assert name_for_message("Олена\u202e П\u200b.") == "Олена П."


# Where they are set


def test_a_sign_up_refuses_an_address(crm, post):
    newcomer = Person(crm, "")
    sign_up(newcomer, post)
    sent = {"company": "Банк", "name": "Оля", "label": "zghoda"}
    for field in ("company", "name"):
        page = newcomer.post("/signup/company", {**sent, field: "evil.example/win"})
        assert page.status_code == 422 and f'id="{field}-fault"' in page.text
        assert "не може містити адресу сайту" in page.text
        assert 'value="evil.example/win"' in page.text
    assert not crm.tenants.exists("zghoda")
    newcomer.sends("/signup/company", sent)  # the confirmed phone was not spent


def test_settings_refuse_an_address(crm, olena):
    bad = {"name": "Банк evil.example/win"}
    company = {"currency": "UAH", "time_zone": "Europe/Kyiv"}
    for path, more in (
        ("/settings/company", company),
        ("/settings/profile", {"language": "uk"}),
        ("/settings/users", {"email": "m@acme.example", "role": "manager"}),
        ("/settings/users/2", {"phone": "+380501110002", "role": "manager"}),
    ):
        page = olena.post(path, {**more, **bad})
        assert page.status_code == 422 and 'id="name-fault"' in page.text, path
    with crm.tenants.session("acme"):
        assert [user.name for user in User.every("TRUE ORDER BY id")] == ["Olena", "Taras"]
        assert tenant.about()["name"] == "Acme"
    olena.sends("/settings/company", {**company, "name": "Rozetka.ua"})


def test_a_name_from_before_stays(crm, olena):
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE tenant SET name = 'www.acme.example'")
        User.find(TARAS).save_changes({"name": "taras@acme.example"})
    company = {"name": "www.acme.example", "currency": "EUR", "time_zone": "Europe/Kyiv"}
    olena.sends("/settings/company", company)
    sent = {"name": "taras@acme.example", "phone": "+380501110002", "role": "viewer"}
    olena.sends("/settings/users/2", sent)


def test_programs_are_told_too(crm):
    for wrong in ({"name": "evil.example/win"}, {"owner": {"name": "www.evil"}}):
        with pytest.raises(Invalid) as refused:
            tenant.open_tenant(crm.tenants, "zghoda", **wrong)
        assert refused.value.faults[0].code == "url_like_name"
        assert not crm.tenants.exists("zghoda")
    crm.tenants.forget_idle()
    words = ["user", "create", "acme", "--name", "www.evil"]
    data = {"CRM_DATA": str(crm.tenants.config.data)} | environ_for(crm.tenants.config.data)
    result = CliRunner().invoke(cli.group, words, env=data)
    assert result.exit_code != 0 and "must not look like the address of a site" in result.output


def test_a_site_may_call_its_people_as_it_likes(crm):
    with crm.tenants.session("acme"):
        person = {"name": "a@shop.example", "role": "viewer"}
        assert users.find_or_create_for_site("a@shop.example", person).name == "a@shop.example"
        person["role"] = "manager"
        assert users.find_or_create_for_site("a@shop.example", person).role == "manager"


# What goes out


def test_the_parts_of_an_sms():
    assert is_one_part("a" * 160) and not is_one_part("a" * 161)
    assert is_one_part("є" * 70) and not is_one_part("є" * 71)
    assert is_one_part("є" + "a" * 69) and not is_one_part("є" + "a" * 70)
    assert is_one_part("[" * 80) and not is_one_part("[" * 80 + "a")
    assert is_one_part("😀" * 35) and not is_one_part("😀" * 35 + "a")
    assert not is_one_part("`" * 71)
    assert choose_one_part("є" * 71, "є" * 70, "a") == "є" * 70
    assert choose_one_part("є" * 71, "a" * 161) == "a" * 161


URLS = [
    "https://{label}.crm.ua",
    "http://{label}.localhost:8000",
    "https://{label}.customers.example-company.com.ua/crm",
]


@loop_over("language", ["uk", "en"])
@loop_over("url", URLS)
@loop_over("label", ["a", "acme", "x" * 63])
@loop_over("name", ["", "Acme", "Згода", "x" * 30, "ї" * 30])
def test_an_invitation_is_one_sms(crm, language, url, label, name):
    link = f"{url.replace('{label}', label)}/i/{'x' * 22}"
    with crm.test_request_context("/", headers={"Cookie": f"crm_language={language}"}):
        text = emails.invitation_sms(name, link)
    assert is_one_part(text)
    assert text.endswith(link)
    assert name in text or not is_one_part(f"{name} запрошує: {link}")


def test_a_short_name_at_a_short_address_is_in_it(crm):
    link = f"https://acme.crm.ua/i/{'x' * 22}"
    with crm.test_request_context("/"):
        assert emails.invitation_sms("Acme", link) == f"Acme запрошує: {link}"
        assert emails.invitation_sms("ї" * 30, link) == f"CRM: {link}"
        assert emails.invitation_sms("", link) == f"CRM запрошує: {link}"
    with crm.test_request_context("/", headers={"Cookie": "crm_language=en"}):
        assert emails.invitation_sms("Acme", link) == f"Acme invites you: {link}"


@loop_over("language", ["uk", "en"])
def test_a_code_is_one_sms(crm, clock, post, language):
    clock.tick(7200)
    for label, path in (("acme", "/login"), ("", "/signup")):
        person = Person(crm, label)
        person.client.set_cookie("crm_language", language, domain=person.host)
        person.sends(path, {"phone": "+380501110001"})
        assert is_one_part(post.texts[-1][1])


@loop_over("reach", [{"phone": "0671234567"}, {"email": "victim@example.com"}])
def test_a_phishing_name_reaches_nobody(crm, monkeypatch, reach):
    """Of a business that has it since before the rule."""
    post = Recorder()
    monkeypatch.setattr(crm, "message_queue", post)
    bait = "ПриватБанк: ваш рахунок заблоковано, підтвердьте дані на https://evil.example/login "
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE tenant SET name = ?", ((bait * 4)[:255],))
    olena = Person(crm, user_id=OLENA)
    olena.sends("/settings/users", {"name": "Rozetka.ua", "role": "manager", **reach})
    sent = [*post.texts, *post.letters]
    assert len(sent) == 1
    result = " ".join(sent[0])
    assert "evil" not in result and "Банк" not in result and "Rozetka" not in result
    assert result.count("://") == 1


def test_a_long_name_is_cut_in_mails(crm, post):
    with crm.tenants.session("acme"):
        tenant.update(name="Б" * 255)
    olena = Person(crm, user_id=OLENA)
    sent = {"name": "М" * 255, "email": "m@acme.example", "role": "manager"}
    olena.sends("/settings/users", sent)
    ((_, subject, text),) = post.letters
    assert subject.count("Б") == text.count("Б") == 30
    assert text.count("М") == 30
