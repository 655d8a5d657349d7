"""Check single values and convert them to the form in which they are stored.

Texts, phones, e-mail addresses, numbers, times, currencies, tags and free JSON objects have one
function each, called by the kind of value, as `int()` is: it takes what was sent and returns what
is stored, or raises `InvalidValue`. Functions of optional texts return None for an empty text.
Nothing here knows fields, HTTP or the database.

spec: Leads, Clients, Deals, Products (formats of fields); D2, D4, D17.
"""

from crm.values.invalid_value import InvalidValue
from crm.values.message_names import is_url_like
from crm.values.numbers import (
    AMOUNT_MAX,
    CENT,
    CURRENCIES,
    PRICE_MAX,
    QUANTITY_MAX,
    as_number,
    currency,
    in_cents,
    money,
    number,
    quantity,
    whole_number,
)
from crm.values.objects import json_object, merge_object
from crm.values.phone_email import email, phone
from crm.values.recurrence import next_time, repeat_rule, times_after
from crm.values.text import long_text, one_line, tag_list
from crm.values.times import END, FIRST_DAY, LAST, day, local_day, local_moment, midnight, moment
from crm.values.transliteration import transliterate
