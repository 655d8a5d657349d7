"""Which older encoding a Cyrillic text is in."""

import re
from collections import Counter

SAMPLE_BYTES = 20_000
WINDOWS_1251 = "windows-1251"
ENCODINGS = (WINDOWS_1251, "koi8-u", "cp1125", "cp866", "mac-cyrillic")
# How many bits a letter takes: the more, the rarer it is in Ukrainian and Russian.
LETTERS = ("оаиінетврслк", "удмпязьг", "бчйхыжшю", "«»№–—‘’“”„…•·°±§©®™€µ\u00a0", "цщєїфэёъ", "ґ")
BITS = dict[str, float]()
for _letters, _bits_of_each in zip(LETTERS, (4.4, 5.3, 6.6, 7.0, 8.0, 11.0), strict=True):
    BITS |= dict.fromkeys(_letters + _letters.upper(), _bits_of_each)
BITS_OF_OTHERS, BITS_OF_CAPITAL_INSIDE = 13.0, 8.0
MIN_GAIN_BITS, MIN_GAIN_BITS_PER_LETTER = 7.0, 0.5  # over Windows-1251
CAPITAL_INSIDE = re.compile("[а-яіїєґё][А-ЯІЇЄҐЁ]")
# Words of Cyrillic and Latin letters, apart from those that look alike: a Western encoding.
WORD = re.compile(r"[^\W\d_]*[А-ЯІЇЄҐЁа-яіїєґё][^\W\d_]*")
LATIN = re.compile("[bdfgjlmnqrstuvwzDFGJLNQRSUVWZ]")


def recognize_encoding(data: bytes) -> str:
    """The encoding of a Cyrillic text; in doubt Windows-1251, which D9 names.

    Empty of a text that is none, such as one in a Western encoding.
    """
    lines = (line for line in data.split(b"\n") if not line.isascii())
    sample = b"\n".join(lines)[:SAMPLE_BYTES]
    letters = sum(byte > 127 for byte in sample)
    bits = {encoding: _bits(sample.decode(encoding, "replace")) for encoding in ENCODINGS}
    best = min(ENCODINGS, key=bits.__getitem__)
    gain = bits[WINDOWS_1251] - bits[best]
    if gain < max(MIN_GAIN_BITS, MIN_GAIN_BITS_PER_LETTER * letters):
        best = WINDOWS_1251
    words = WORD.findall(sample.decode(best, "replace"))
    mixed = sum(bool(LATIN.search(word)) for word in words)
    return "" if mixed > 1 and mixed > len(words) / 2 else best


def _bits(text: str) -> float:
    letters = Counter(letter for letter in text if letter > "\x7f")
    bits = sum(BITS.get(letter, BITS_OF_OTHERS) * count for letter, count in letters.items())
    return bits + BITS_OF_CAPITAL_INSIDE * len(CAPITAL_INSIDE.findall(text))
